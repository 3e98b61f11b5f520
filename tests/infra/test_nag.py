"""cdk-nag's AwsSolutions rules on every stage: each finding has its reason, and each reason its finding.

The reasons are in `acknowledged.py`.
"""

from __future__ import annotations

import re

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_sqs as sqs

from infra.stack import ServiceStack
from tests.infra.acknowledged import ACKNOWLEDGED, Acknowledged, Finding, acknowledge, findings

each_reason = pytest.mark.parametrize("line", ACKNOWLEDGED, ids=lambda line: f"{line.rule}-{line.path}")


@pytest.fixture(scope="module")
def all_findings(stacks: dict[str, ServiceStack]) -> list[Finding]:
    """All that the rules find, before anything is acknowledged."""
    return findings(stacks["dev"].node.root)


def test_every_finding_is_acknowledged_by_one_line(all_findings: list[Finding]) -> None:
    assert [finding for finding in all_findings if sum(line.covers(finding) for line in ACKNOWLEDGED) != 1] == []


@each_reason
def test_a_reason_is_given_only_for_what_is_found(all_findings: list[Finding], line: Acknowledged) -> None:
    assert any(line.covers(finding) for finding in all_findings)


@each_reason
def test_a_reason_is_at_least_a_sentence(line: Acknowledged) -> None:
    assert re.fullmatch(r"[A-Z].{60,}\.", line.reason)
    assert len(line.reason.split()) >= 12


def test_acknowledging_leaves_nothing_on_the_resources(
    stacks: dict[str, ServiceStack], all_findings: list[Finding]
) -> None:
    assert all_findings
    root = stacks["dev"].node.root
    for stack in root.node.children:
        if isinstance(stack, Stack):
            acknowledge(stack)
    assert findings(root) == []


def test_a_new_finding_would_be_noticed() -> None:
    stack = Stack(App(analytics_reporting=False), "Other")
    sqs.Queue(stack, "Queue")
    acknowledge(stack)
    rules = {finding.rule for finding in findings(stack)}
    assert {"AwsSolutions-SQS3", "AwsSolutions-SQS4"} <= rules
