"""Reading CloudFormation templates: what statements allow, what patterns match, what references stand for."""

from __future__ import annotations

import fnmatch
import json
from typing import Any

from tests.support.synth import Resource, Synthesized


def flatten(value: Any) -> str:
    """Text with its references spelled as in `Fn::Sub`: `${Table.Arn}`, `${AWS::Region}`."""
    if isinstance(value, str):
        return value
    if "Ref" in value:
        return f"${{{value['Ref']}}}"
    if "Fn::GetAtt" in value:
        return f"${{{'.'.join(value['Fn::GetAtt'])}}}"
    separator, parts = value["Fn::Join"]
    joined: str = separator.join(flatten(part) for part in parts)
    return joined


def text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def arn(logical_id: str) -> str:
    return text({"Fn::GetAtt": [logical_id, "Arn"]})


def below(logical_id: str, path: str) -> str:
    return text({"Fn::Join": ["", [{"Fn::GetAtt": [logical_id, "Arn"]}, path]]})


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def allowed_pairs(statements: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """Every pair of action and resource that the statements allow."""
    found = set()
    for statement in statements:
        assert statement["Effect"] == "Allow"
        assert not {"NotAction", "NotResource"} & statement.keys()
        for action in as_list(statement["Action"]):
            found |= {(action, text(resource)) for resource in as_list(statement["Resource"])}
    return found


def may(stage: Synthesized, action: str) -> set[str]:
    """The roles that may do something anywhere, by a wildcard too."""
    return {
        role
        for role in stage.all("AWS::IAM::Role")
        if not stage[role].get("ManagedPolicyArns")
        for granted, _ in allowed_pairs(stage.statements(role))
        if fnmatch.fnmatch(action, granted)
    }


def refuses_plain_http(policy: Resource) -> bool:
    return any(
        statement["Effect"] == "Deny"
        and statement["Principal"] in ("*", {"AWS": "*"})
        and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        for statement in policy["PolicyDocument"]["Statement"]
    )


def matches(pattern: Any, value: Any) -> bool:
    """EventBridge's matching, as far as the filters use it: every key is there, a list means any of its values."""
    if isinstance(pattern, list):
        return value in pattern
    return isinstance(value, dict) and all(key in value and matches(part, value[key]) for key, part in pattern.items())
