"""A release: everything starts a function by its alias, and prod moves the alias bit by bit, with a way back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from infra import topology
from infra.releases import LIVE
from infra.topology import Function
from shared.core import facts
from tests.support.synth import ACCOUNT, REGION, Synthesized
from tests.support.templates import allowed, text

each_function = pytest.mark.parametrize("function", topology.FUNCTIONS, ids=lambda function: function.name)
each_stage = pytest.mark.parametrize("stage", ["dev", "prod", "calls", "guarded", "named"])


@each_function
@each_stage
def test_a_function_has_a_published_version_that_its_alias_names(
    stages: dict[str, Synthesized], stage: str, function: Function
) -> None:
    found = stages[stage]
    alias = found[found.aliases[function.name]]
    assert alias["Name"] == LIVE
    assert alias["FunctionName"] == {"Ref": found.functions[function.name]}
    version, attribute = alias["FunctionVersion"]["Fn::GetAtt"]
    assert attribute == "Version"
    assert found[version]["FunctionName"] == {"Ref": found.functions[function.name]}


@each_stage
def test_nothing_starts_a_function_but_by_its_alias(stages: dict[str, Synthesized], stage: str) -> None:
    found = stages[stage]
    aliases = [{"Ref": alias} for alias in found.aliases.values()]
    for kind in ("AWS::Lambda::EventSourceMapping", "AWS::Lambda::Permission"):
        for name, made in found.all(kind).items():
            assert made["FunctionName"] in aliases, name
    arns = [text({"Fn::GetAtt": [function, "Arn"]}) for function in found.functions.values()]
    for kind in ("AWS::ApiGateway::Method", "AWS::Events::Rule", "AWS::Lex::BotAlias"):
        for name, made in found.all(kind).items():
            assert not [arn for arn in arns if arn in text(made)], name


def groups(stage: Synthesized) -> dict[str, Any]:
    """The deployment group of each alias, by the alias's logical id."""
    found = {}
    for alias in stage.aliases.values():
        update = stage.template["Resources"][alias].get("UpdatePolicy", {}).get("CodeDeployLambdaAliasUpdate")
        if update:
            found[alias] = stage[update["DeploymentGroupName"]["Ref"]]
    return found


@each_function
def test_prod_moves_an_alias_bit_by_bit_and_back_on_its_functions_alarms(prod: Synthesized, function: Function) -> None:
    group = groups(prod)[prod.aliases[function.name]]
    assert group["DeploymentConfigName"].startswith(
        ("CodeDeployDefault.LambdaCanary", "CodeDeployDefault.LambdaLinear")
    )
    assert group["AutoRollbackConfiguration"]["Enabled"] is True
    assert "DEPLOYMENT_STOP_ON_ALARM" in group["AutoRollbackConfiguration"]["Events"]
    assert group["AlarmConfiguration"]["Enabled"] is True
    names = {prod[alarm["Name"]["Ref"]]["AlarmName"] for alarm in group["AlarmConfiguration"]["Alarms"]}
    # The canary's crashes are part of its own alarm, which would stop a deploy that repairs the service.
    kind = "Throttles" if function.name == facts.CANARY else "FunctionErrors"
    assert f"appointments-prod-{function.name}-{kind}" in names
    assert ("appointments-prod-api-ServerErrors" in names) is bool(function.routes)


def test_only_a_stage_that_asks_for_it_shifts_gradually(stages: dict[str, Synthesized]) -> None:
    for name, stage in stages.items():
        assert bool(groups(stage)) is (name in ("prod", "calls"))
        assert bool(stage.all("AWS::CodeDeploy::Application")) is (name in ("prod", "calls"))


def test_codedeploy_may_move_these_aliases_and_nothing_else(prod: Synthesized) -> None:
    roles = {group["ServiceRoleArn"]["Fn::GetAtt"][0] for group in groups(prod).values()}
    (role,) = roles
    granted = allowed(prod.statements(role))
    assert {action for action, _ in granted} == {
        "lambda:GetAlias",
        "lambda:UpdateAlias",
        "lambda:GetProvisionedConcurrencyConfig",
        "cloudwatch:DescribeAlarms",
    }
    assert {action for action, where in granted if where == text("*")} == {"cloudwatch:DescribeAlarms"}


def test_a_stage_with_an_account_is_deployed_there_alone(stacks: dict[str, Any]) -> None:
    for name, stack in stacks.items():
        pinned = name in ("prod", "calls")
        assert stack.environment == (f"aws://{ACCOUNT}/{REGION}" if pinned else "aws://unknown-account/unknown-region")


def test_no_version_is_left_behind(prod: Synthesized) -> None:
    """A bundle of 30 MB for each function and deploy would fill the region's 75 GB of code within a year."""
    for name in prod.all("AWS::Lambda::Version"):
        assert prod.template["Resources"][name].get("DeletionPolicy", "Delete") == "Delete"
    assert json.dumps(prod.template).count('"AWS::Lambda::Version"') == len(topology.FUNCTIONS)
