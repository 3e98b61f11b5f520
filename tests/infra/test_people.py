"""How people sign in to the admin pages of a stage: the stack's own user pool, or the provider of its settings."""

from __future__ import annotations

from typing import Any

import pytest

from infra import topology
from infra.app import context
from infra.stack_names import ADMIN_OUTPUT, USER_POOL_OUTPUT
from infra.stage import BadSetting, parse
from tests.support.synth import DOMAIN_NAME, OIDC, Synthesized
from tests.support.templates import as_list, flatten

CALLBACK = "/admin/sign-in/callback"
POOLED = ("dev", "prod", "calls", "named")


def variables(stage: Synthesized) -> dict[str, Any]:
    found: dict[str, Any] = stage[stage.functions["admin"]]["Environment"]["Variables"]
    return found


def only_resource(stage: Synthesized, kind: str) -> tuple[str, Any]:
    (found,) = stage.all(kind).items()
    return found


@pytest.mark.parametrize("name", POOLED)
def test_a_stage_has_a_user_pool_in_which_nobody_can_register(stages: dict[str, Synthesized], name: str) -> None:
    stage = stages[name]
    id, pool = only_resource(stage, "AWS::Cognito::UserPool")
    assert pool["AdminCreateUserConfig"] == {"AllowAdminCreateUserOnly": True}
    assert pool["MfaConfiguration"] == "ON"
    assert pool["EnabledMfas"] == ["SOFTWARE_TOKEN_MFA"]
    assert pool["UsernameAttributes"] == ["email"]
    assert pool["UsernameConfiguration"] == {"CaseSensitive": False}
    policy = pool["Policies"]["PasswordPolicy"]
    assert policy["MinimumLength"] >= 12
    assert variables(stage)["OIDC_ISSUER"] == {"Fn::GetAtt": [id, "ProviderURL"]}
    assert "OIDC_CLIENT_SECRET_ID" not in variables(stage)
    assert stage.template["Outputs"][USER_POOL_OUTPUT]["Value"] == {"Ref": id}


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("dev", "https://${Api}.execute-api.${AWS::Region}.${AWS::URLSuffix}/dev"),
        ("prod", "https://${Api}.execute-api.eu-central-1.${AWS::URLSuffix}/prod"),
        ("named", f"https://{DOMAIN_NAME}"),
    ],
)
def test_the_client_returns_to_the_admin_pages_and_nowhere_else(
    stages: dict[str, Synthesized], name: str, address: str
) -> None:
    stage = stages[name]
    id, client = only_resource(stage, "AWS::Cognito::UserPoolClient")
    api, _ = only_resource(stage, "AWS::ApiGateway::RestApi")
    (callback,) = client["CallbackURLs"]
    assert flatten(callback) == address.replace("${Api}", f"${{{api}}}") + CALLBACK
    assert (
        flatten(stage.template["Outputs"][ADMIN_OUTPUT]["Value"]) == flatten(callback).removesuffix(CALLBACK) + "/admin"
    )
    (signed_out,) = client["LogoutURLs"]
    assert flatten(signed_out) == flatten(callback).removesuffix("/callback")
    assert client["AllowedOAuthFlows"] == ["code"]
    assert client["AllowedOAuthScopes"] == ["openid", "email"]
    assert client["GenerateSecret"] is False
    assert client["SupportedIdentityProviders"] == ["COGNITO"]
    assert variables(stage)["OIDC_CLIENT_ID"] == {"Ref": id}


def test_only_the_admin_pages_manage_users_and_only_in_this_pool(stages: dict[str, Synthesized]) -> None:
    for name in POOLED:
        stage = stages[name]
        id, _ = only_resource(stage, "AWS::Cognito::UserPool")
        for function in topology.FUNCTIONS:
            found = [
                statement
                for statement in stage.statements(stage.role_of(function.name))
                if any(action.startswith("cognito-idp:") for action in as_list(statement["Action"]))
            ]
            if function.name != "admin":
                assert not found
                continue
            (statement,) = found
            assert statement["Action"] == ["cognito-idp:AdminCreateUser", "cognito-idp:AdminDeleteSoftwareToken"]
            *_, before, pool = statement["Resource"]["Fn::Join"][1]
            assert pool == {"Ref": id}
            assert before.endswith(":userpool/")


def test_a_stage_with_its_own_provider_has_no_pool_and_reads_its_one_secret(stages: dict[str, Synthesized]) -> None:
    stage = stages["guarded"]
    assert not [kind for kind in stage.kinds if kind.startswith("AWS::Cognito::")]
    assert USER_POOL_OUTPUT not in stage.template["Outputs"]
    assert {name: value for name, value in variables(stage).items() if name.startswith("OIDC_")} == {
        "OIDC_ISSUER": OIDC["issuer"],
        "OIDC_CLIENT_ID": OIDC["client_id"],
        "OIDC_CLIENT_SECRET_ID": OIDC["client_secret_arn"],
    }
    found = {
        function.name: (statement["Action"], statement["Resource"])
        for function in topology.FUNCTIONS
        for statement in stage.statements(stage.role_of(function.name))
        if any(action.startswith(("secretsmanager:", "cognito-idp:")) for action in as_list(statement["Action"]))
    }
    assert found == {"admin": ("secretsmanager:GetSecretValue", OIDC["client_secret_arn"])}


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"client_id": "x"}, "oidc lacks issuer"),
        ({"issuer": "https://login.example.com"}, "oidc lacks client_id"),
        (OIDC | {"issuer": "http://login.example.com"}, "oidc.issuer should match pattern"),
        (OIDC | {"client_secret_arn": "s3cret"}, "oidc.client_secret_arn should match pattern"),
        (OIDC | {"client_secret": "s3cret"}, "oidc has no setting 'client_secret'"),
    ],
)
def test_a_wrong_setting_is_named(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(BadSetting, match=named):
        parse("trial", context()["stages"]["dev"] | {"oidc": settings})
