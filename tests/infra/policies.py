"""What policies say, wherever they stand in a template, and what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.support.synth import ACCOUNT, Resource, Synthesized
from tests.support.templates import as_list, flatten

UNBOUND = (
    dict.fromkeys(
        (
            "logs:CreateLogDelivery",
            "logs:DeleteLogDelivery",
            "logs:DescribeLogGroups",
            "logs:DescribeResourcePolicies",
            "logs:GetLogDelivery",
            "logs:ListLogDeliveries",
            "logs:PutResourcePolicy",
            "logs:UpdateLogDelivery",
        ),
        "Step Functions developer guide, Using CloudWatch Logs: these know no resource",
    )
    | dict.fromkeys(
        (
            "xray:GetSamplingRules",
            "xray:GetSamplingTargets",
            "xray:PutTelemetryRecords",
            "xray:PutTraceSegments",
        ),
        "Service authorization reference: X-Ray knows no resource for these",
    )
    | {
        "polly:SynthesizeSpeech": "Service authorization reference: its one resource is a lexicon, and none is used",
        "cloudwatch:DescribeAlarms": "CodeDeploy user guide, Grant CloudWatch permissions to a CodeDeploy service role",
    }
)
"""The actions that may be allowed on everything, because IAM cannot bind them."""

TRUSTED_AS_IT_IS = {
    "lambda.amazonaws.com": "Lambda developer guide: aws:SourceArn is for policies on functions, not for their roles",
    "apigateway.amazonaws.com": "API Gateway developer guide, Set up CloudWatch logging: one role for the account",
    "s3.amazonaws.com": "S3 user guide, Setting up permissions for live replication: the trust policy has no condition",
    "backup.amazonaws.com": "AWS Backup developer guide, IAM service roles: the trust policy has no condition",
}
"""Services that assume a role without naming in whose name; passing them one takes iam:PassRole in this account."""

GIVEN = re.compile(
    r"arn:(\$\{AWS::Partition\}|aws):"
    r"(bedrock:.*/[^*]+|connect:.*:instance/[\w-]+/contact/\*|social-messaging:.*:phone-number-id/\w+|"
    r"secretsmanager:.*:secret:[\w-]+-\w{6}|sns:.*:operators|kms:.*:key/mrk-\w{32}|"
    r"s3:::appointments-(prod|calls)-eu-west-1-[0-9]{12}/\*)"
)
"""What a stage's settings name and its stack does not make.

They are model, instance, number, client secret, alarm topic and the replica of a key. The stack of the copies has the
ledger's copy.
"""

USER_POOL = re.compile(r"arn:\$\{AWS::Partition\}:cognito-idp:[^*/]+:userpool/\$\{(\w+)\}")
"""The ARN of a user pool, composed of its id."""


@dataclass(frozen=True)
class Statement:
    """One statement of a policy, with the logical id and type of the resource in which it stands."""

    owner: str
    kind: str
    trust: bool
    body: dict[str, Any]


def statements(stage: Synthesized) -> Iterator[Statement]:
    """Every statement wherever it stands; a permission of Lambda is one, too."""
    for name, resource in stage.template["Resources"].items():
        kind, properties = resource["Type"], resource.get("Properties", {})
        for trust, body in _bodies(properties, trust=False):
            yield Statement(name, kind, trust, body)
        if kind == "AWS::Lambda::Permission":
            yield Statement(name, kind, False, _permission_statement(properties))


def _bodies(node: Any, *, trust: bool) -> Iterator[tuple[bool, dict[str, Any]]]:
    if isinstance(node, dict):
        if node.get("Effect") in ("Allow", "Deny"):
            yield trust, node
        for key, part in node.items():
            yield from _bodies(part, trust=trust or key == "AssumeRolePolicyDocument")
    elif isinstance(node, list):
        for part in node:
            yield from _bodies(part, trust=trust)


def _permission_statement(permission: Resource) -> dict[str, Any]:
    named = {"SourceArn": "aws:SourceArn", "SourceAccount": "aws:SourceAccount"}
    condition = {condition: permission[key] for key, condition in named.items() if key in permission}
    if "FunctionUrlAuthType" in permission:
        return {"Effect": "Allow", "Principal": "*", "Action": "lambda:InvokeFunctionUrl"}
    principal = {"Service": permission["Principal"]}
    return {"Effect": "Allow", "Principal": principal, "Action": permission["Action"], "Condition": {"": condition}}


def problems(stage: Synthesized, said: Statement) -> Iterator[str]:
    body, actions = said.body, as_list(said.body.get("Action", []))
    if {"NotAction", "NotResource", "NotPrincipal"} & body.keys():
        yield "a policy that says what it leaves out"
    if body["Effect"] == "Deny":
        return
    if _is_key_of_account(said):
        return
    if any("*" in action for action in actions):
        yield "an action with a wildcard"
    if any(action.startswith(("iam:", "sts:")) for action in actions) and not said.trust:
        yield "a right to hand out rights"
    if said.trust and actions != ["sts:AssumeRole"]:
        yield "trust in more than assuming the role"
    if "Principal" in body:
        yield from _problems_of_principal(said)
    else:
        for resource in map(flatten, as_list(body["Resource"])):
            if not _bound(stage, actions, resource):
                yield f"allowed on {resource}, which is not this stack's"


def _is_key_of_account(said: Statement) -> bool:
    """The default key policy, by which IAM's policies decide; it is about this key alone (KMS developer guide)."""
    accounts = [f"arn:${{AWS::Partition}}:iam::{account}:root" for account in ("${AWS::AccountId}", ACCOUNT)]
    principal = said.body.get("Principal")
    return (
        said.kind == "AWS::KMS::Key" and isinstance(principal, dict) and flatten(principal.get("AWS", "")) in accounts
    )


def _problems_of_principal(said: Statement) -> Iterator[str]:
    principal = said.body["Principal"]
    service = principal.get("Service") if isinstance(principal, dict) and len(principal) == 1 else None
    if not isinstance(service, str) or not re.fullmatch(r"[a-z0-9-]+\.amazonaws\.com", service):
        yield "someone other than one AWS service"
        return
    sources = [
        flatten(value)
        for operands in said.body.get("Condition", {}).values()
        for key, value in operands.items()
        if key in ("aws:SourceArn", "aws:SourceAccount")
    ]
    # The account, or a resource of this stack, whose name says the account.
    named = any(re.search(rf"\b{ACCOUNT}\b|\$\{{(AWS::AccountId|[A-Z]\w+(\.Arn)?)\}}", source) for source in sources)
    if not named and not (said.trust and service in TRUSTED_AS_IT_IS):
        yield "a service that may come in anyone's name"


def _bound(stage: Synthesized, actions: list[str], resource: str) -> bool:
    if resource == "*":
        return {*actions} <= UNBOUND.keys()
    made = re.match(r"\$\{(\w+)(\.\w+)?\}", resource) or USER_POOL.fullmatch(resource)
    return made[1] in stage.template["Resources"] if made else bool(GIVEN.fullmatch(resource))
