"""A release: everything starts a function by its alias, and prod moves the alias bit by bit, with a way back."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App
from aws_cdk import aws_lambda as lambda_

from infra import releases, topology
from infra.app import context, create_stacks
from infra.stack_names import LIVE
from infra.stage import parse
from infra.topology import Function
from shared.core import metrics
from tests.support.synth import ACCOUNT, OWNED, REGION, Synthesized, read_templates
from tests.support.templates import allowed_pairs, flatten, text

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
def test_prod_moves_an_alias_bit_by_bit_and_back_on_the_alarm_of_the_new_version(
    prod: Synthesized, function: Function
) -> None:
    if function.every_s:
        assert prod.aliases[function.name] not in groups(prod), "too few invocations for an alarm"
        return
    group = groups(prod)[prod.aliases[function.name]]
    assert group["DeploymentConfigName"].startswith(
        ("CodeDeployDefault.LambdaCanary", "CodeDeployDefault.LambdaLinear")
    )
    assert group["AutoRollbackConfiguration"]["Enabled"] is True
    assert "DEPLOYMENT_STOP_ON_ALARM" in group["AutoRollbackConfiguration"]["Events"]
    assert group["AlarmConfiguration"]["Enabled"] is True
    (alarm,) = group["AlarmConfiguration"]["Alarms"]
    assert alarm["Name"]["Ref"] in prod.all("AWS::CloudWatch::Alarm")


def release_alarms(stage: Synthesized) -> dict[str, dict[str, Any]]:
    """The alarms that roll a release back, by function."""
    found = groups(stage)
    return {
        name: stage[found[alias]["AlarmConfiguration"]["Alarms"][0]["Name"]["Ref"]]
        for name, alias in stage.aliases.items()
        if alias in found
    }


def test_a_release_alarm_looks_only_at_the_version_that_the_alias_moves_to(prod: Synthesized) -> None:
    """It is another alarm for each version: one that is in ALARM would stop the deploy that repairs the service."""
    for name, alarm in release_alarms(prod).items():
        version = prod[prod.aliases[name]]["FunctionVersion"]
        assert version in alarm["AlarmName"]["Fn::Join"][1]
        watched = [part["MetricStat"]["Metric"] for part in alarm["Metrics"] if "MetricStat" in part]
        function = f"${{{prod.functions[name]}}}"
        lambdas = {"FunctionName": function, "Resource": f"{function}:{LIVE}", "ExecutedVersion": flatten(version)}
        own = {"service": name, "table": f"${{{prod.table}}}", "version": flatten(version)}
        described = {
            (metric["Namespace"], metric["MetricName"]): {
                each["Name"]: flatten(each["Value"]) for each in metric["Dimensions"]
            }
            for metric in watched
        }
        assert described == {
            ("AWS/Lambda", "Invocations"): lambdas,
            ("AWS/Lambda", "Errors"): lambdas,
            (metrics.NAMESPACE, metrics.FAILED_INVOCATIONS): own,
        }


def test_a_release_alarm_is_a_share_of_several_invocations_and_no_data_is_good(prod: Synthesized) -> None:
    assert release_alarms(prod)
    for alarm in release_alarms(prod).values():
        (expression,) = [part["Expression"] for part in alarm["Metrics"] if "Expression" in part]
        assert expression == "IF(invocations >= 20, 100 * (errors + FILL(failed, 0)) / invocations, 0)"
        assert (alarm["Threshold"], alarm["EvaluationPeriods"], alarm["TreatMissingData"]) == (10, 1, "notBreaching")
        assert {part["MetricStat"]["Stat"] for part in alarm["Metrics"] if "MetricStat" in part} == {"Sum"}
        # The shortest shift lasts five minutes.
        assert {part["MetricStat"]["Period"] for part in alarm["Metrics"] if "MetricStat" in part} == {300}
        assert not alarm.get("AlarmActions"), "CodeDeploy reads it; a person cannot do anything about it"


def test_a_new_version_counts_the_failures_that_the_alarm_of_its_release_looks_at(
    prod: Synthesized, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TABLE_NAME", f"${{{prod.table}}}")
    monkeypatch.setenv("SERVICE_NAME", "customers")
    metrics.count(metrics.FAILED_INVOCATIONS, version="7")
    line = json.loads(capsys.readouterr().out)
    [described] = line["_aws"]["CloudWatchMetrics"]
    (alarmed,) = [
        part["MetricStat"]["Metric"]
        for part in release_alarms(prod)["customers"]["Metrics"]
        if part.get("MetricStat", {}).get("Metric", {}).get("MetricName") == metrics.FAILED_INVOCATIONS
    ]
    assert described["Namespace"] == alarmed["Namespace"]
    dimensions = {each["Name"]: flatten(each["Value"]) for each in alarmed["Dimensions"]}
    [names] = described["Dimensions"]
    assert {*names} == dimensions.keys()
    assert {name: line[name] for name in names} == dimensions | {"version": "7"}


def test_only_a_stage_that_asks_for_it_shifts_gradually(stages: dict[str, Synthesized]) -> None:
    for name, stage in stages.items():
        assert bool(groups(stage)) is (name in ("prod", "calls"))
        assert bool(stage.all("AWS::CodeDeploy::Application")) is (name in ("prod", "calls"))


def test_codedeploy_may_move_these_aliases_and_nothing_else(prod: Synthesized) -> None:
    roles = {group["ServiceRoleArn"]["Fn::GetAtt"][0] for group in groups(prod).values()}
    (role,) = roles
    granted = allowed_pairs(prod.statements(role))
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


@each_function
def test_a_replaced_version_is_kept_and_one_whose_deploy_fails_is_not(prod: Synthesized, function: Function) -> None:
    """`infra.deploy` deletes those that no rollback needs: 30 MB for each function and deploy would fill 75 GB."""
    version, _ = prod[prod.aliases[function.name]]["FunctionVersion"]["Fn::GetAtt"]
    made = prod.template["Resources"][version]
    assert (made["DeletionPolicy"], made["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")
    assert len(prod.all("AWS::Lambda::Version")) == len(topology.FUNCTIONS)


@pytest.fixture(scope="module")
def synthesize_adapted(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Synthesized]:
    """The template of prod as `infra.deploy` asks for it."""

    def synthesize(adapt: Callable[[Mapping[str, lambda_.Alias]], None]) -> Synthesized:
        asset = tmp_path_factory.mktemp("asset")
        (asset / "empty.py").touch()
        app = App(context=context(), outdir=str(tmp_path_factory.mktemp("cdk.out")), analytics_reporting=False)
        settings = context()["stages"]["prod"] | OWNED
        stack = create_stacks(app, parse("prod", settings), lambda_.Code.from_asset(str(asset)))
        adapt(stack.aliases)
        out = Path(app.synth().directory)
        return read_templates(stack, out)

    return synthesize


def test_an_emergency_moves_every_alias_at_once_and_changes_nothing_else(
    prod: Synthesized, synthesize_adapted: Callable[..., Synthesized]
) -> None:
    found = synthesize_adapted(releases.move_at_once)
    assert not groups(found)
    for alias in found.aliases.values():
        assert found[alias] == prod[alias]
    others = [copy.deepcopy(stage.template) for stage in (found, prod)]
    for template in others:
        for alias in found.aliases.values():
            del template["Resources"][alias]
    assert others[0] == others[1]


def test_held_aliases_stay_at_the_versions_that_they_have(
    prod: Synthesized, synthesize_adapted: Callable[..., Synthesized]
) -> None:
    found = synthesize_adapted(lambda aliases: releases.hold(aliases, {"ping": "41", "a_function_that_is_gone": "1"}))
    assert found[found.aliases["ping"]]["FunctionVersion"] == "41"
    assert found.aliases["ping"] not in groups(found)
    assert found.aliases["customers"] in groups(found)
    assert found[found.aliases["customers"]]["FunctionVersion"] == prod[prod.aliases["customers"]]["FunctionVersion"]
