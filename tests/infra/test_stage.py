"""A stage's settings: what is missing, unknown or contradictory is named in one line."""

from __future__ import annotations

from typing import Any

import pytest
from aws_cdk import App

from infra import topology
from infra.app import UnknownStage, context, stage_of
from infra.stage import BadSetting, Stage

CONNECT = {"instance_id": "instance", "contact_flow_id": "flow", "queue_id": "queue"}


def stage(**settings: Any) -> Stage:
    return Stage(name="trial", **context()["stages"]["dev"] | settings)


def test_the_stages_of_cdk_json_are_good_and_place_no_calls() -> None:
    for name, settings in context()["stages"].items():
        described = Stage(name=name, **settings)
        assert not described.carrier
        assert not described.whatsapp


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"connect": CONNECT | {"instance_id": ""}}, "connect lacks instance_id"),
        (
            {"connect": {"instance_id": "instance", "contact_flow_id": "flow"}},
            "connect lacks queue_id or source_phone_number",
        ),
        (
            {"connect": {"instance_id": "instance", "queue_id": "queue"}},
            "connect lacks contact_flow_id or create_flow",
        ),
        ({"connect": CONNECT | {"create_flow": True}}, "connect has both contact_flow_id and create_flow"),
        ({"connect": CONNECT | {"flow": "flow"}}, "connect has no setting 'flow'"),
        ({"connect": CONNECT | {"store_recordings": "yes"}}, "connect.store_recordings must be of type bool"),
        ({"connect": CONNECT | {"queue_id": True}}, "connect.queue_id must be of type str"),
        ({"whatsapp": {"template": "call/en_US"}}, "whatsapp lacks phone_number_id"),
        ({"whatsapp": {"phone_number_id": "phone", "version": "v20.0"}}, "whatsapp has no setting 'version'"),
        ({"domain": {"certificate_arn": "arn"}}, "domain lacks name"),
        ({"domain": {"name": "api.example.com"}}, "domain lacks certificate_arn or hosted_zone_id"),
        ({"domain": {"name": "api.example.com", "hosted_zone_id": "Z1"}}, "domain lacks hosted_zone_name"),
        ({"firewall": {"requests_per_minute": "many"}}, "firewall.requests_per_minute must be of type int"),
        ({"firewall": {"requests_per_minute": True}}, "firewall.requests_per_minute must be of type int"),
        ({"firewall": {"requests_per_minute": 300}}, "firewall.requests_per_minute is less than one key"),
    ],
)
def test_a_bad_setting_is_named_in_one_line(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(BadSetting) as refused:
        stage(**settings)
    assert str(refused.value).startswith(f"stage trial: {named}")
    assert "\n" not in str(refused.value)


def test_an_app_refuses_a_bad_setting_and_an_unknown_stage() -> None:
    bad = context()["stages"]["dev"] | {"whatsapp": {"template": "call/en_US"}}
    with pytest.raises(BadSetting, match="phone_number_id"):
        stage_of(App(context={"stage": "dev", "stages": {"dev": bad}}, analytics_reporting=False))
    with pytest.raises(UnknownStage, match="dev"):
        stage_of(App(context={"stage": "live", "stages": {"dev": bad}}, analytics_reporting=False))


def test_functions_are_told_of_the_instance_but_not_of_switches() -> None:
    described = stage(connect=CONNECT | {"store_recordings": True}, whatsapp={"phone_number_id": "phone"})
    for function in topology.FUNCTIONS:
        told = function.environment(
            table="table",
            queues={queue.name: queue.name for queue in topology.QUEUES},
            machines={machine.name: machine.name for machine in topology.STATE_MACHINES},
            signing_key="key",
            recordings="bucket",
            carrier=described.carrier,
            messenger=described.whatsapp,
        )
        of_calls = {name: value for name, value in told.items() if name.startswith(("CONNECT_", "WHATSAPP_"))}
        expected = {f"CONNECT_{name.upper()}": value for name, value in CONNECT.items()} if function.carrier else {}
        assert of_calls == expected | ({"WHATSAPP_PHONE_NUMBER_ID": "phone"} if function.messenger else {})
