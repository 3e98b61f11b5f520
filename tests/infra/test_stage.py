"""A stage's settings: what is missing, unknown or contradictory is named in one line."""

from __future__ import annotations

from typing import Any

import pytest
from aws_cdk import App

from infra import costs, topology
from infra.app import UnknownStage, context, stage_of
from infra.stage import BadSetting, Firewall, Stage, parse
from shared.core import limits
from tests.support.synth import ACCOUNT, COPIES_REGION, OWNED, REGION

NAMED = {"name": "api.example.com", "certificate_arn": "arn:aws:acm:eu-central-1:123456789012:certificate/1"}
ZONED = {"name": "api.example.com", "hosted_zone_id": "Z1", "hosted_zone_name": "example.com"}
TOPIC = "arn:aws:sns:eu-central-1:123456789012:operators"
RESERVED = context()["stages"]["prod"]["reserved_concurrency"]
DELIVER = sum(source.concurrency for f in topology.FUNCTIONS if f.name == "deliver" for source in f.queues)
CONNECT = {"instance_id": "instance", "contact_flow_id": "flow", "queue_id": "queue"}


def stage(**settings: Any) -> Stage:
    return parse("trial", context()["stages"]["dev"] | settings)


def test_the_stages_of_cdk_json_are_good_and_place_no_calls() -> None:
    for name, settings in context()["stages"].items():
        found = parse(name, settings | (OWNED if settings["keep_data"] else {}))
        assert not found.carrier
        assert not found.messenger


def test_prod_has_the_shards_whose_reads_are_paid_for() -> None:
    assert context()["stages"]["prod"]["due_shards"] == costs.SHARDS


def test_a_stage_that_keeps_data_is_not_deployed_before_it_is_known_who_hears_its_alarms() -> None:
    prod = context()["stages"]["prod"] | OWNED
    unheard = prod | {"alarm_email": ""}
    with pytest.raises(BadSetting, match=r"^stage trial: it keeps data and lacks alarm_topic or alarm_email$"):
        parse("trial", unheard)
    assert parse("trial", unheard | {"alarm_topic": TOPIC}).alarm_topic == TOPIC
    assert parse("trial", prod).alarm_email == OWNED["alarm_email"]


@pytest.mark.parametrize("missing", ["account", "region", "backup"])
def test_a_stage_that_keeps_data_has_a_place_of_its_own_and_backups(missing: str) -> None:
    prod = context()["stages"]["prod"] | OWNED
    del prod[missing]
    with pytest.raises(BadSetting, match=f"^stage trial: .*lacks .*{missing}"):
        parse("trial", prod)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"connect": CONNECT | {"instance_id": ""}}, "connect.instance_id should have at least 1 character"),
        ({"connect": {"queue_id": "queue", "contact_flow_id": "flow"}}, "connect lacks instance_id"),
        (
            {"connect": {"instance_id": "instance", "contact_flow_id": "flow"}},
            "connect lacks queue_id or source_phone_number",
        ),
        (
            {"connect": {"instance_id": "instance", "queue_id": "queue"}},
            "connect lacks contact_flow_id or create_flow",
        ),
        ({"connect": CONNECT | {"create_flow": True}}, "connect has both contact_flow_id and create_flow"),
        ({"connect": CONNECT | {"active_calls": 0}}, "connect.active_calls should be greater than or equal to 1"),
        ({"connect": CONNECT | {"starts_per_second": "2"}}, "connect.starts_per_second should be a valid integer"),
        ({"connect": CONNECT | {"flow": "flow"}}, "connect has no setting 'flow'"),
        ({"connect": CONNECT | {"store_recordings": "yes"}}, "connect.store_recordings should be a valid boolean"),
        ({"connect": CONNECT | {"queue_id": True}}, "connect.queue_id should be a valid string"),
        ({"whatsapp": {"template": "call/en_US"}}, "whatsapp lacks phone_number_id"),
        ({"whatsapp": {"phone_number_id": "phone", "dial": "phone"}}, "whatsapp.dial needs whatsapp.template"),
        ({"whatsapp": {"phone_number_id": "phone", "version": "v20.0"}}, "whatsapp has no setting 'version'"),
        ({"domain": {"certificate_arn": "arn"}}, "domain lacks name"),
        ({"domain": {"name": "api.example.com"}}, "domain lacks certificate_arn or hosted_zone_id"),
        (
            {"domain": {"name": "api.example.com", "hosted_zone_id": "Z1"}},
            "domain lacks hosted_zone_id or",
        ),
        ({"domain": NAMED | {"hosted_zone_name": "example.com"}}, "domain lacks hosted_zone_id or"),
        ({"domain": NAMED | {"certificate_arn": "mine"}}, "domain.certificate_arn should match pattern"),
        ({"domain": NAMED | {"name": "https://api.example.com"}}, "domain.name should match pattern"),
        ({"domain": ZONED | {"name": "api.example.org"}}, "domain.name is not in the zone example.com"),
        ({"domain": ZONED | {"name": "badexample.com"}}, "domain.name is not in the zone example.com"),
        ({"domain": "api.example.com"}, "domain should be an object"),
        ({"log_level": "VERBOSE"}, "log_level should be 'DEBUG', 'INFO'"),
        ({"log_retention": "A_WEEK"}, "log_retention must be one of"),
        ({"access_log_retention": "A_DAY"}, "access_log_retention must be one of"),
        ({"requests_per_second": 0}, "requests_per_second should be greater than 200"),
        ({"burst": 100}, "burst should be greater than 200"),
        ({"burst": "500"}, "burst should be a valid integer"),
        ({"keep_data": "yes"}, "keep_data should be a valid boolean"),
        ({"model": ""}, "model should match pattern"),
        ({"model": "arn:aws:bedrock:eu-central-1:123456789012:inference-profile/x"}, "model should match pattern"),
        ({"alarm_topic": "operators"}, "alarm_topic should match pattern"),
        ({"alarm_email": "operators"}, "alarm_email should match pattern"),
        ({"alarm_email": "me@example.com", "alarm_topic": TOPIC}, "it has both alarm_topic and alarm_email"),
        ({"account": "1234", "region": REGION}, "account should match pattern"),
        ({"account": ACCOUNT, "region": "Frankfurt"}, "region should match pattern"),
        ({"account": ACCOUNT}, "it lacks account or region, which go together"),
        ({"messages_per_second": 100}, "messages_per_second should be greater than 100"),
        ({"reserved_concurrency": {"deliver": 0}}, "reserved_concurrency.deliver should be greater than"),
        ({"reserved_concurrency": RESERVED | {"post": 1}}, "reserved_concurrency names no function: post"),
        ({"reserved_concurrency": {"deliver": 1000}}, "reserved_concurrency lacks "),
        (
            {"reserved_concurrency": RESERVED | {"deliver": DELIVER - 1}},
            f"reserved_concurrency.deliver is less than the concurrency of its queues, {DELIVER}",
        ),
        ({"turns_per_project": 0}, "turns_per_project should be greater than or equal to 1"),
        (
            {"reserved_concurrency": RESERVED | {"messages": 99}},
            "turns_per_project is more than half of reserved_concurrency.messages",
        ),
        (
            {"warm_throughput": {"by_day": {"reads": 12_000, "writes": 4_000}}},
            "warm_throughput names neither the table nor",
        ),
        (
            {"warm_throughput": {"table": {"reads": 1, "writes": 4_000}}},
            "warm_throughput.table.reads should be greater",
        ),
        ({"warm_throughput": {"table": {"reads": 12_000}}}, "warm_throughput table lacks writes"),
        ({"due_shards": 0}, "due_shards should be greater than or equal to 1"),
        ({"due_shards": 65}, "due_shards should be less than or equal to 64"),
        ({"due_shards": "16"}, "due_shards should be a valid integer"),
        ({"monthly_budget": 100}, "it has monthly_budget and lacks alarm_topic or alarm_email"),
        ({"webhook_notices": True}, "it has webhook_notices and lacks alarm_topic or alarm_email"),
        ({"support_contact": "http://example.com"}, "support_contact should match pattern"),
        ({"support_contact": "mailto:help@example.com"}, "support_contact should match pattern"),
        ({"terms_url": "http://example.com"}, "terms_url should match pattern"),
        ({"later_email": "me@example.com"}, "it has later_email and lacks alarm_topic or alarm_email"),
        ({"later_email": "me@example.com", "later_topic": TOPIC}, "it has both later_topic and later_email"),
        ({"traffic_shift": "AllAtOnce"}, "traffic_shift should match pattern"),
        ({"backup": {}}, "backup lacks region"),
        (
            {"account": ACCOUNT, "region": REGION, "backup": {"region": COPIES_REGION}, "replica_region": "us-east-1"},
            "replica_region must be backup.region, where the copies of key and ledger are",
        ),
        (
            {"backup": {"region": COPIES_REGION}, "replica_region": COPIES_REGION},
            "it has replica_region and lacks region",
        ),
        (
            {"signing_key": "arn:aws:kms:eu-west-1:123456789012:key/0123"},
            "signing_key should match pattern",
        ),
        ({"backup": {"region": COPIES_REGION, "days": 0}}, "backup.days should be greater than or equal to 1"),
        (
            {"account": ACCOUNT, "region": REGION, "backup": {"region": REGION}},
            "backup.region is the stage's own; use another region for the copies",
        ),
        ({"memory": 512}, "it has no setting 'memory'; its settings are access_log_retention, account, alarm_email,"),
        ({"firewall": {"requests_per_minute": "many"}}, "firewall.requests_per_minute should be a valid integer"),
        ({"firewall": {"requests_per_minute": True}}, "firewall.requests_per_minute should be a valid integer"),
        (
            {"firewall": {"requests_per_minute": 300}},
            "firewall.requests_per_minute should be greater than",
        ),
        ({"firewall": {"requests_per_minute": 3_000_000_000}}, "firewall.requests_per_minute should be less"),
        ({"firewall": {"messages_per_minute": 4_999}}, "firewall.messages_per_minute should be greater than"),
        (
            {
                "requests_per_second": 5_000,
                "messages_per_second": 200,
                "firewall": {"messages_per_minute": 12_000},
            },
            "firewall.messages_per_minute must be less than 12000, 60 times messages_per_second",
        ),
        (
            {"requests_per_second": 500, "firewall": {"requests_per_minute": 30_000}},
            "firewall.requests_per_minute must be less than 30000, 60 times requests_per_second",
        ),
        ({"firewall": True}, "firewall should be an object"),
    ],
)
def test_a_bad_setting_is_named_in_one_line(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(BadSetting) as refused:
        stage(**settings)
    assert str(refused.value).startswith(f"stage trial: {named}")
    assert "\n" not in str(refused.value)


def test_a_stage_with_backups_has_a_short_name() -> None:
    settings = context()["stages"]["dev"] | {"backup": {"region": COPIES_REGION}}
    assert parse("x" * 22, settings).backup
    with pytest.raises(BadSetting, match="a stage with backups has a name of at most 22 characters"):
        parse("x" * 23, settings)


def test_a_missing_setting_is_named() -> None:
    settings = context()["stages"]["dev"]
    del settings["model"]
    with pytest.raises(BadSetting, match=r"^stage trial: lacks model$"):
        parse("trial", settings)


def test_everything_that_is_missing_or_wrong_is_named_at_once() -> None:
    settings = context()["stages"]["prod"] | {"burst": "many", "backup": {}}
    del settings["model"], settings["log_level"]
    with pytest.raises(BadSetting) as refused:
        parse("trial", settings)
    wrong = ("lacks log_level", "lacks model", "burst should be", "backup lacks region", "keeps data and lacks account")
    for named in wrong:
        assert named in str(refused.value)


@pytest.mark.parametrize("domain", [NAMED, ZONED, ZONED | {"name": "example.com"}])
def test_a_host_name_may_be_in_its_zone_or_have_a_certificate(domain: dict[str, str]) -> None:
    found = stage(domain=domain).domain
    assert found is not None
    assert found.name == domain["name"]


@pytest.mark.parametrize("name", ["dev", "prod", "Prod", "eu-1", "x" * 32])
def test_a_stage_may_have_this_name(name: str) -> None:
    assert parse(name, context()["stages"]["dev"]).name == name


@pytest.mark.parametrize("name", ["my_stage", "eu.1", "a--b", "-a", "a-", "", "x" * 33, "local"])
def test_a_name_that_aws_or_the_operators_tool_does_not_take_is_refused(name: str) -> None:
    with pytest.raises(BadSetting, match="name"):
        parse(name, context()["stages"]["dev"])


def test_an_app_refuses_a_bad_setting_and_an_unknown_stage() -> None:
    bad = context()["stages"]["dev"] | {"whatsapp": {"template": "call/en_US"}}
    with pytest.raises(BadSetting, match="phone_number_id"):
        stage_of(App(context={"stage": "dev", "stages": {"dev": bad}}, analytics_reporting=False))
    with pytest.raises(UnknownStage, match="dev"):
        stage_of(App(context={"stage": "live", "stages": {"dev": bad}}, analytics_reporting=False))


def test_functions_are_told_of_the_instance_but_not_of_switches() -> None:
    whatsapp = {"phone_number_id": "phone", "template": "call/en_US", "dial": "phone"}
    made = stage(connect=CONNECT | {"store_recordings": True}, whatsapp=whatsapp)
    deployment = topology.Deployment(
        table="table",
        queues={queue.name: queue.name for queue in topology.QUEUES},
        machines={machine.name: machine.name for machine in topology.STATE_MACHINES},
        signing_key="key",
        recordings="bucket",
        failed_batches="failed",
        erasures="erasures",
        carrier=made.carrier,
        messenger=made.messenger,
    )
    for function in topology.FUNCTIONS:
        told = function.environment(deployment)
        of_calls = {name: value for name, value in told.items() if name.startswith(("CONNECT_", "WHATSAPP_"))}
        settings = CONNECT | {"record_calls": "1", "active_calls": "10", "starts_per_second": "2"}
        expected = {f"CONNECT_{name.upper()}": value for name, value in settings.items()} if function.carrier else {}
        if function.carrier:
            expected["WHATSAPP_DIAL"] = "phone"
        if function.messenger:
            expected |= {f"WHATSAPP_{name.upper()}": value for name, value in whatsapp.items()}
        assert of_calls == expected


def test_a_stage_that_keeps_data_has_a_firewall_unless_it_says_otherwise() -> None:
    prod = context()["stages"]["prod"] | OWNED
    assert "firewall" not in prod
    limit = parse("trial", prod).wall
    assert limit is not None
    # Several keys behind one address are not refused, and one address cannot use up the stage's requests.
    assert 2 * limits.REQUESTS_PER_MINUTE <= limit.requests_per_minute <= prod["requests_per_second"] * 60 / 10
    assert limits.REQUESTS_PER_MINUTE <= limit.messages_per_minute <= prod["messages_per_second"] * 60 / 3
    assert parse("trial", prod | {"firewall": {"requests_per_minute": 6_000}}).wall == Firewall(
        requests_per_minute=6_000
    )
    assert parse("trial", prod | {"firewall": None}).wall is None
    assert stage().wall is None
