"""What infra tests take a stage's template for, and the settings of the stages that they synthesize."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aws_cdk import CfnElement, Stack
from cfnlint.api import lint
from cfnlint.config import ManualArgs
from constructs import IConstruct

from infra.stack import ServiceStack

Resource = dict[str, Any]

ACCOUNT, REGION, COPIES_REGION = "210987654321", "eu-central-1", "eu-west-1"
OWNED: dict[str, Any] = {
    "account": ACCOUNT,
    "region": REGION,
    "alarm_email": "operators@example.com",
    "backup": {"region": COPIES_REGION},
}
"""Settings of a stage with `keep_data` that only its owner knows, so that cdk.json has none."""
REPLICA = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/mrk-{'0123456789abcdef' * 2}"
REGIONS = ["eu-central-1", "us-east-1"]
CALLS: dict[str, Any] = {
    "backup": {"region": COPIES_REGION, "lock": True},
    "replica_region": COPIES_REGION,
    "signing_key": REPLICA,
    "later_email": "team@example.com",
    "connect": {
        "instance_id": "0f1e2d3c-4b5a-4697-8879-6a5b4c3d2e1f",
        "queue_id": "a1b2c3d4-e5f6-4789-90ab-cdef01234567",
        "create_flow": True,
        "store_recordings": True,
    },
    "whatsapp": {"phone_number_id": "phone-number-id-0123456789abcdef0123456789abcdef", "template": "call/en_US"},
}
"""Settings of a stage that places live calls, has a replica of its table, and was moved to another region."""
DOMAIN_NAME = "api.example.com"
FIREWALL = {"requests_per_minute": 20_000}
OIDC = {
    "issuer": "https://login.example.com",
    "client_id": "appointments",
    "client_secret_arn": "arn:aws:secretsmanager:eu-central-1:123456789012:secret:sign-in-AbCdEf",
}
GUARDED: dict[str, Any] = {
    "request_log": True,
    "domain": {"name": DOMAIN_NAME, "hosted_zone_id": "Z0123456789ABCDEFGHIJ", "hosted_zone_name": "example.com"},
    "firewall": FIREWALL,
    "warm_throughput": {"table": {"reads": 20_000, "writes": 10_000}, "by_due": {"reads": 12_000, "writes": 8_000}},
    "alarm_topic": "arn:aws:sns:eu-central-1:123456789012:operators",
    "webhook_notices": True,
    "support_contact": "help@example.com",
    "terms_url": "https://example.com/terms",
    "oidc": OIDC,
}
NAMED: dict[str, Any] = {
    "domain": {
        "name": DOMAIN_NAME,
        "certificate_arn": "arn:aws:acm:eu-central-1:123456789012:certificate/0f1e2d3c-4b5a-4697-8879-6a5b4c3d2e1f",
    },
    "model": "eu.amazon.nova-lite-v1:0",
}
CDK_HABITS = ["W3005"]
"""The CDK writes a DependsOn beside the reference that already says the same."""


def lint_findings(template: dict[str, Any]) -> list[str]:
    """What cfn-lint has against a template."""
    options = ManualArgs(regions=REGIONS, ignore_checks=CDK_HABITS)
    return [str(match) for match in lint(json.dumps(template), config=options)]


@dataclass(frozen=True)
class Synthesized:
    """A stage's template, and the logical ids that the stack gave to what the topology names.

    `watch` is the template of the nested stack, with its references as the stack's own template would have them.
    """

    template: dict[str, Any]
    watch: dict[str, Any]
    table: str
    key: str
    bucket: str
    recordings: str
    erasures: str
    queues: dict[str, str]
    machines: dict[str, str]
    functions: dict[str, str]
    aliases: dict[str, str]

    def __getitem__(self, logical_id: str) -> Resource:
        """The properties of a resource."""
        found: Resource = self.template["Resources"][logical_id].get("Properties", {})
        return found

    @property
    def kinds(self) -> set[str]:
        """The types of all resources."""
        return {resource["Type"] for resource in self.template["Resources"].values()}

    def all(self, kind: str) -> dict[str, Resource]:
        """Logical id to properties of every resource of a type."""
        found = self.template["Resources"].items()
        return {name: resource.get("Properties", {}) for name, resource in found if resource["Type"] == kind}

    @property
    def alarms(self) -> dict[str, Resource]:
        """The alarms that people see, by logical id; those of releases are only CodeDeploy's."""
        found = self.watch["Resources"].items()
        return {name: made["Properties"] for name, made in found if made["Type"] == "AWS::CloudWatch::Alarm"}

    @property
    def dashboards(self) -> list[Resource]:
        found = self.watch["Resources"].values()
        return [made["Properties"] for made in found if made["Type"] == "AWS::CloudWatch::Dashboard"]

    def statements(self, role: str) -> list[dict[str, Any]]:
        """All that a role may do, wherever that is written."""
        assert not self[role].get("ManagedPolicyArns"), "a managed policy hides what the role may do"
        documents = [policy["PolicyDocument"] for policy in self[role].get("Policies", [])]
        policies = self.all("AWS::IAM::Policy").values()
        documents += [policy["PolicyDocument"] for policy in policies if {"Ref": role} in policy["Roles"]]
        return [statement for document in documents for statement in document["Statement"]]

    def role_of(self, function: str) -> str:
        """The logical id of a function's role, by the function's name in the topology."""
        role: str = self[self.functions[function]]["Role"]["Fn::GetAtt"][0]
        return role

    def sources(self, function: str) -> list[Resource]:
        """The event source mappings of a function, which are its alias's."""
        mappings = self.all("AWS::Lambda::EventSourceMapping").values()
        return [mapping for mapping in mappings if mapping["FunctionName"] == self.live(function)]

    def live(self, function: str) -> Resource:
        """How the template names what starts a function: by its alias, whose reference is an ARN."""
        return {"Ref": self.aliases[function]}


def read_templates(stack: ServiceStack, out: Path) -> Synthesized:
    """What the app of a stack has written to a folder."""

    def logical_id(construct: IConstruct) -> str:
        element = construct.node.default_child
        assert isinstance(element, CfnElement)
        resolved: str = Stack.of(stack).resolve(element.logical_id)
        return resolved

    def written(each: Stack) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((out / each.template_file).read_text(encoding="utf-8"))
        return found

    template = written(stack)
    (nested,) = [made for made in template["Resources"].values() if made["Type"] == "AWS::CloudFormation::Stack"]
    return Synthesized(
        template=template,
        watch=_with(nested["Properties"]["Parameters"], written(stack.watch)),
        table=logical_id(stack.table),
        key="" if stack.stage.signing_key else logical_id(stack.signing_key),
        bucket=logical_id(stack.failed_batches),
        recordings=logical_id(stack.recordings),
        erasures=logical_id(stack.erasures),
        queues={name: logical_id(queue) for name, queue in stack.queues.items()},
        machines={name: logical_id(machine) for name, machine in stack.machines.items()},
        functions={name: logical_id(function) for name, function in stack.functions.items()},
        aliases={name: logical_id(alias) for name, alias in stack.aliases.items()},
    )


def _with(parameters: dict[str, Any], value: Any) -> Any:
    """The value, with the arguments of a nested stack in place of its parameters."""
    if isinstance(value, list):
        return [_with(parameters, each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"Ref"} and value["Ref"] in parameters:
        return parameters[value["Ref"]]
    return {name: _with(parameters, each) for name, each in value.items()}
