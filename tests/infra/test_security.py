"""What must hold of every resource of every stage: who may do what, encryption, public access, deletion, secrets.

Each rule reads a whole template and returns what it has against it, so that it holds of resources that nobody has
thought of yet; a resource of a type that is not in `KINDS` is a finding by itself.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from infra.stack_names import stack_name
from tests.infra.policies import TRUSTED_AS_IT_IS, UNBOUND, problems, statements
from tests.support.synth import Resource, Synthesized
from tests.support.templates import as_list, flatten, refuses_plain_http

KEEP_DATA = {"prod": True, "calls": True, "dev": False, "guarded": False, "named": False}
"""The stages of the one synth, and whether what they store outlives the stack."""

Rule = Callable[[Synthesized, bool], list[str]]


def private_bucket(bucket: Resource) -> bool:
    blocked = bucket.get("PublicAccessBlockConfiguration", {})
    return (
        [*blocked.values()] == [True] * 4
        and bucket.get("OwnershipControls") == {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
        and not bucket.keys() & {"AccessControl", "WebsiteConfiguration", "CorsConfiguration"}
    )


def is_encrypted(bucket: Resource) -> bool:
    rules = bucket.get("BucketEncryption", {}).get("ServerSideEncryptionConfiguration", [])
    return any(rule["ServerSideEncryptionByDefault"]["SSEAlgorithm"] in ("AES256", "aws:kms") for rule in rules)


@dataclass(frozen=True)
class Kind:
    """What is asked of the resources of a type.

    `encrypted` is a check of the properties, or where AWS says that it encrypts what they store whatever they say;
    None if they store nothing. `policy` is the type of the resource policy in which they must refuse plain HTTP.
    `data` outlives the stack where the stage keeps its data. `private` is a check of the properties that could open
    them to the public.
    """

    encrypted: Callable[[Resource], bool] | str | None = None
    policy: str | None = None
    data: bool = False
    private: Callable[[Resource], bool] = lambda _: True


KINDS = {
    "AWS::DynamoDB::Table": Kind("DynamoDB developer guide, Encryption at rest", data=True),
    "AWS::DynamoDB::GlobalTable": Kind("DynamoDB developer guide, Encryption at rest", data=True),
    "AWS::KMS::Key": Kind(lambda key: key.get("EnableKeyRotation") is True, data=True),
    "AWS::Logs::LogGroup": Kind("CloudWatch Logs user guide, Encrypt log data", data=True),
    "AWS::S3::Bucket": Kind(is_encrypted, "AWS::S3::BucketPolicy", data=True, private=private_bucket),
    "AWS::SQS::Queue": Kind(lambda queue: queue.get("SqsManagedSseEnabled") is True, "AWS::SQS::QueuePolicy"),
    # What customers write is encrypted with a key of ours (test_calls); alarms only by SNS itself.
    "AWS::SNS::Topic": Kind("SNS developer guide, Data encryption", "AWS::SNS::TopicPolicy"),
    "AWS::StepFunctions::StateMachine": Kind("Step Functions developer guide, Data at rest encryption"),
    "AWS::Lambda::Function": Kind("Lambda developer guide, Encryption at rest", private=lambda f: "VpcConfig" not in f),
    "AWS::Backup::BackupVault": Kind("AWS Backup developer guide, Encryption for backups", data=True),
    # Nobody can register, and nobody signs in without a second factor.
    "AWS::Cognito::UserPool": Kind(
        "Amazon Cognito developer guide, Data protection",
        private=lambda pool: (
            pool["AdminCreateUserConfig"]["AllowAdminCreateUserOnly"] is True and pool["MfaConfiguration"] == "ON"
        ),
        data=True,
    ),
    "AWS::Cognito::UserPoolClient": Kind(
        private=lambda client: (
            client["AllowedOAuthFlows"] == ["code"]
            and "aws.cognito.signin.user.admin" not in client["AllowedOAuthScopes"]
        )
    ),
    "AWS::Lex::Bot": Kind("Lex V2 developer guide, Data protection"),
    "AWS::Lex::BotAlias": Kind(private=lambda alias: "ConversationLogSettings" not in alias),
    "AWS::ApiGateway::RestApi": Kind(
        private=lambda api: api["EndpointConfiguration"]["Types"] == ["REGIONAL"] and "Policy" not in api
    ),
    "AWS::ApiGateway::DomainName": Kind(private=lambda name: name["SecurityPolicy"] == "TLS_1_2"),
    # What is public leads to a function and nowhere else.
    "AWS::ApiGateway::Method": Kind(private=lambda method: method["Integration"]["Type"] == "AWS_PROXY"),
    # Its cache would store answers.
    "AWS::ApiGateway::Stage": Kind(private=lambda stage: not stage.get("CacheClusterEnabled")),
    # Alarms, which name no customer, go by e-mail.
    "AWS::SNS::Subscription": Kind(private=lambda subscription: subscription["Protocol"] in ("sqs", "email")),
} | dict.fromkeys(
    (
        "AWS::ApiGateway::Account",
        "AWS::ApiGateway::BasePathMapping",
        "AWS::ApiGateway::Deployment",
        "AWS::ApiGateway::GatewayResponse",
        "AWS::ApiGateway::Resource",
        "AWS::Backup::BackupPlan",
        "AWS::Backup::BackupSelection",
        "AWS::Budgets::Budget",
        "AWS::CertificateManager::Certificate",
        # It has alarms and a dashboard only (test_alarms).
        "AWS::CloudFormation::Stack",
        "AWS::CloudWatch::Alarm",
        "AWS::CloudWatch::Dashboard",
        "AWS::Cognito::UserPoolDomain",
        "AWS::CodeDeploy::Application",
        "AWS::CodeDeploy::DeploymentGroup",
        "AWS::Connect::ContactFlow",
        "AWS::Connect::InstanceStorageConfig",
        "AWS::Connect::IntegrationAssociation",
        "AWS::Events::Rule",
        "AWS::IAM::Policy",
        "AWS::IAM::Role",
        "AWS::Lambda::Alias",
        "AWS::Lambda::EventInvokeConfig",
        "AWS::Lambda::EventSourceMapping",
        "AWS::Lambda::Permission",
        "AWS::Lambda::Version",
        "AWS::Lex::BotVersion",
        "AWS::Logs::MetricFilter",
        "AWS::Logs::SubscriptionFilter",
        "AWS::Route53::RecordSet",
        "AWS::S3::BucketPolicy",
        "AWS::SNS::TopicPolicy",
        "AWS::SQS::QueuePolicy",
        "AWS::WAFv2::WebACL",
        "AWS::WAFv2::WebACLAssociation",
    ),
    Kind(),
)

LOGS_ROLE = "AmazonAPIGatewayPushToCloudWatchLogs"
BACKUP_ROLE = "AWSBackupServiceRolePolicyForBackup"

SECRET = re.compile(r"\b(sk_(test|live)_|whsec_|AKIA[A-Z2-7]{8}|ASIA[A-Z2-7]{8})\w|-----BEGIN|SecretString")
"""An API key of ours, a signing secret, a key of AWS or a private key."""


def policies(stage: Synthesized, keep: bool) -> list[str]:
    return [
        f"{statement.owner}: {problem}: {json.dumps(statement.body)}"
        for statement in statements(stage)
        for problem in problems(stage, statement)
    ]


def managed_policies(stage: Synthesized, keep: bool) -> list[str]:
    """Only the roles of the gateway and of AWS Backup have one, the one that AWS made for them."""
    accounts, selections = stage.all("AWS::ApiGateway::Account"), stage.all("AWS::Backup::BackupSelection")
    made_for = {made["CloudWatchRoleArn"]["Fn::GetAtt"][0]: LOGS_ROLE for made in accounts.values()}
    made_for |= {made["BackupSelection"]["IamRoleArn"]["Fn::GetAtt"][0]: BACKUP_ROLE for made in selections.values()}
    return [
        f"{role} has {flatten(arn)}"
        for role, made in stage.all("AWS::IAM::Role").items()
        for arn in made.get("ManagedPolicyArns", [])
        if flatten(arn) != f"arn:${{AWS::Partition}}:iam::aws:policy/service-role/{made_for.get(role)}"
    ]


def other_stages(stage: Synthesized, keep: bool) -> list[str]:
    """A stage names nothing of another one."""
    text = json.dumps(stage.template)
    named = [name for name in KEEP_DATA if re.search(rf"{stack_name(name)}\b", text)]
    return [f"names {' and '.join(named)}"] if len(named) > 1 else []


# Everything else


def types(stage: Synthesized, keep: bool) -> list[str]:
    return sorted(f"{kind}: which rules are for it? (KINDS)" for kind in stage.kinds - KINDS.keys())


def _each_with_kind(stage: Synthesized) -> Iterator[tuple[str, Kind, dict[str, Any]]]:
    for name, resource in stage.template["Resources"].items():
        if resource["Type"] in KINDS:
            yield name, KINDS[resource["Type"]], resource


def encryption(stage: Synthesized, keep: bool) -> list[str]:
    return [
        f"{name} is not encrypted as it should be"
        for name, kind, resource in _each_with_kind(stage)
        if callable(kind.encrypted) and not kind.encrypted(resource.get("Properties", {}))
    ]


def plain_http(stage: Synthesized, keep: bool) -> list[str]:
    def policies_of(name: str, kind: str) -> list[Resource]:
        return [
            policy
            for policy in stage.all(kind).values()
            for key in ("Bucket", "Queues", "Topics")
            if {"Ref": name} in as_list(policy.get(key, []))
        ]

    return [
        f"{name} takes plain HTTP"
        for name, kind, _ in _each_with_kind(stage)
        if kind.policy and not any(map(refuses_plain_http, policies_of(name, kind.policy)))
    ]


def public_access(stage: Synthesized, keep: bool) -> list[str]:
    found = [
        f"{name} is open" for name, kind, resource in _each_with_kind(stage) if not kind.private(resource["Properties"])
    ]
    return found + ["more than one API"] * (len(stage.all("AWS::ApiGateway::RestApi")) - 1)


def kept_everywhere(stage: Synthesized) -> dict[str, str]:
    """What no stage takes with it when it goes."""
    (account,) = stage.all("AWS::ApiGateway::Account")
    role, _ = stage[account]["CloudWatchRoleArn"]["Fn::GetAtt"]
    return {
        stage.recordings: "S3 deletes no bucket that holds something, and a stack that tries fails half deleted",
        stage.erasures: "a backup that is restored later needs it, and deleting a stage deletes no backup",
        account: "the setting is the account's, and other APIs may write their logs by it",
        role: "the account's setting names it",
        **dict.fromkeys(stage.all("AWS::Lambda::Version"), "a rollback goes back to a version that was replaced"),
    }


def deletion(stage: Synthesized, keep: bool) -> list[str]:
    """What stays and what goes is decided, and the same for a resource that is replaced."""
    always, found = kept_everywhere(stage), []
    for name, kind, resource in _each_with_kind(stage):
        retained = name in always or (kind.data and keep)
        policies = resource.get("DeletionPolicy"), resource.get("UpdateReplacePolicy")
        # A stack that cannot be made takes everything back, so that the next try does not meet the remains.
        expected = {("RetainExceptOnCreate", "Retain")} if retained else {("Delete", "Delete")}
        if policies not in expected | (set() if kind.data else {(None, None)}):
            found.append(f"{name} has {policies}")
    tables = [*stage.all("AWS::DynamoDB::Table").items()]
    for name, made in stage.all("AWS::DynamoDB::GlobalTable").items():
        tables += [(f"{name} in {replica['Region']}", replica) for replica in made["Replicas"]]
    for name, table in tables:
        if table.get("DeletionProtectionEnabled", False) is not keep:
            found.append(f"{name} is protected from deletion if and only if it should not be")
        if not table.get("PointInTimeRecoverySpecification", {}).get("PointInTimeRecoveryEnabled"):
            found.append(f"{name} cannot be restored")
    return found


def secrets(stage: Synthesized, keep: bool) -> list[str]:
    """Nothing looks like a secret, and a variable whose name does only refers to something."""
    found = [match[0] for match in SECRET.finditer(json.dumps(stage.template))]
    for function in stage.all("AWS::Lambda::Function").values():
        for name, value in function["Environment"]["Variables"].items():
            # An ARN names a secret, and reading it takes a grant.
            named = isinstance(value, str) and not value.startswith("arn:")
            if named and re.search("KEY|SECRET|TOKEN|PASSWORD", name):
                found.append(name)
    return found


RULES: tuple[Rule, ...] = (
    types,
    policies,
    managed_policies,
    other_stages,
    encryption,
    plain_http,
    public_access,
    deletion,
    secrets,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("stage", KEEP_DATA)
def test_a_rule_holds_of_every_resource(stages: dict[str, Synthesized], stage: str, rule: Rule) -> None:
    assert rule(stages[stage], KEEP_DATA[stage]) == []


def test_every_stage_is_looked_at(stages: dict[str, Synthesized]) -> None:
    assert stages.keys() == KEEP_DATA.keys()


def test_no_exception_is_left_that_nothing_needs(stages: dict[str, Synthesized]) -> None:
    every = [statement for stage in stages.values() for statement in statements(stage)]
    on_everything = [said.body for said in every if said.body.get("Resource") == "*" and "Principal" not in said.body]
    assert {action for body in on_everything for action in as_list(body["Action"])} == UNBOUND.keys()
    trusted = {said.body["Principal"]["Service"] for said in every if said.trust and "Condition" not in said.body}
    assert trusted == TRUSTED_AS_IT_IS.keys()


# That the rules find something: each case is a resource that is added to a stage


def make_resource(kind: str, properties: Resource | None = None, **attributes: str) -> dict[str, Any]:
    return {"Type": kind, "Properties": properties or {}, **attributes}


def allow(kind: str = "AWS::IAM::Policy", **said: Any) -> dict[str, Any]:
    return make_resource(kind, {"PolicyDocument": {"Statement": [{"Effect": "Allow", **said}]}})


def trust(**said: Any) -> dict[str, Any]:
    statement = {"Effect": "Allow", "Action": "sts:AssumeRole", **said}
    return make_resource("AWS::IAM::Role", {"AssumeRolePolicyDocument": {"Statement": [statement]}})


def to_queue(**said: Any) -> dict[str, Any]:
    return allow("AWS::SQS::QueuePolicy", Action="sqs:SendMessage", Resource=HERE, **said)


def function_resource(**variables: str) -> dict[str, Any]:
    return make_resource("AWS::Lambda::Function", {"Environment": {"Variables": variables}})


HERE = {"Fn::GetAtt": ["Added", "Arn"]}
ELSEWHERE = {"StringEquals": {"aws:SourceAccount": "123456789012"}}

BREACHES: tuple[tuple[Rule, dict[str, Any]], ...] = (
    (types, make_resource("AWS::EC2::SecurityGroup")),
    (types, make_resource("AWS::Lambda::Url")),
    (policies, allow(Action="*", Resource=HERE)),
    (policies, allow(Action="dynamodb:*", Resource=HERE)),
    (policies, allow(Action="s3:GetObject", Resource="*")),
    (policies, allow(Action=["s3:GetObject", "polly:SynthesizeSpeech"], Resource=[HERE, "*"])),
    (policies, allow(Action="s3:GetObject", Resource="arn:aws:s3:::someone-elses/*")),
    (policies, allow(Action="sqs:SendMessage", Resource={"Fn::GetAtt": ["NotInThisStack", "Arn"]})),
    (policies, allow(Action="bedrock:InvokeModel", Resource="arn:aws:bedrock:us-east-1::foundation-model/*")),
    (policies, allow(NotAction="s3:GetObject", Resource=HERE)),
    (policies, allow(Action="iam:PassRole", Resource=HERE)),
    (policies, allow(Action="sts:AssumeRole", Resource=HERE)),
    (policies, trust(Principal={"Service": ["lambda.amazonaws.com", "states.amazonaws.com"]})),
    (policies, trust(Principal={"AWS": "arn:aws:iam::123456789012:root"})),
    (policies, trust(Principal={"Service": "lexv2.amazonaws.com"})),
    (policies, trust(Principal={"Service": "lambda.amazonaws.com"}, Action=["sts:AssumeRole", "sts:TagSession"])),
    (policies, allow("AWS::KMS::Key", Action="kms:Decrypt", Resource="*", Principal="*")),
    (policies, allow("AWS::KMS::Key", Action="kms:*", Resource="*", Principal={"AWS": "arn:aws:iam::123:root"})),
    (policies, to_queue(Principal="*")),
    (policies, to_queue(Principal={"AWS": "*"})),
    (policies, to_queue(Principal={"Service": "events.amazonaws.com"})),
    (policies, to_queue(Principal={"Service": "sns.amazonaws.com"}, Condition=ELSEWHERE)),
    (policies, make_resource("AWS::Lambda::Permission", {"Action": "lambda:InvokeFunction", "Principal": "*"})),
    (
        policies,
        make_resource(
            "AWS::Lambda::Permission", {"Action": "lambda:InvokeFunction", "Principal": "events.amazonaws.com"}
        ),
    ),
    (policies, make_resource("AWS::Lambda::Permission", {"FunctionUrlAuthType": "NONE", "Principal": "*"})),
    (
        managed_policies,
        make_resource("AWS::IAM::Role", {"ManagedPolicyArns": ["arn:aws:iam::aws:policy/AdministratorAccess"]}),
    ),
    (other_stages, make_resource("AWS::Events::Rule", {"Description": stack_name("prod")})),
    (encryption, make_resource("AWS::SQS::Queue")),
    (encryption, make_resource("AWS::S3::Bucket")),
    (encryption, make_resource("AWS::KMS::Key", {"EnableKeyRotation": False})),
    (plain_http, make_resource("AWS::SQS::Queue")),
    (plain_http, make_resource("AWS::SNS::Topic")),
    (public_access, make_resource("AWS::S3::Bucket", {"PublicAccessBlockConfiguration": {"BlockPublicAcls": True}})),
    (public_access, make_resource("AWS::ApiGateway::Method", {"Integration": {"Type": "HTTP_PROXY"}})),
    (public_access, make_resource("AWS::ApiGateway::RestApi", {"EndpointConfiguration": {"Types": ["REGIONAL"]}})),
    (public_access, make_resource("AWS::SNS::Subscription", {"Protocol": "https"})),
    (deletion, make_resource("AWS::S3::Bucket", DeletionPolicy="Retain", UpdateReplacePolicy="Retain")),
    (deletion, make_resource("AWS::Logs::LogGroup", DeletionPolicy="Delete", UpdateReplacePolicy="Retain")),
    (deletion, make_resource("AWS::IAM::Role", DeletionPolicy="Retain", UpdateReplacePolicy="Retain")),
    (deletion, make_resource("AWS::DynamoDB::Table", DeletionPolicy="Delete", UpdateReplacePolicy="Delete")),
    (secrets, function_resource(SIGNING_KEY="0123456789abcdef")),
    (secrets, function_resource(ANYTHING="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")),
    (secrets, function_resource(ANYTHING="AKIAIOSFODNN7EXAMPLE")),
    (
        secrets,
        make_resource("AWS::Events::Rule", {"Description": "curl -H 'Authorization: Bearer sk_test_4eC39HqLyjWD'"}),
    ),
)


def _name(case: Any) -> str:
    return str(case["Type"] if isinstance(case, dict) else case.__name__)


@pytest.mark.parametrize(("rule", "added"), BREACHES, ids=_name)
def test_a_breach_would_be_noticed(stages: dict[str, Synthesized], rule: Rule, added: dict[str, Any]) -> None:
    template = copy.deepcopy(stages["dev"].template)
    template["Resources"]["Added"] = added
    assert rule(replace(stages["dev"], template=template), False)
