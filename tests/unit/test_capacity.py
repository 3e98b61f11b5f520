"""What a stage can bear: the arithmetic, the stated goals, and that its page shows what is computed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infra import capacity, costs, topology
from infra.capacity import Part
from infra.stage import parse
from tests.support.synth import OWNED

ROOT = Path(__file__).parents[2]
PROD: dict[str, Any] = json.loads((ROOT / "cdk.json").read_text())["context"]["stages"]["prod"]


def test_a_stage_has_the_calls_that_its_settings_allow() -> None:
    settings = PROD | {"connect": {"active_calls": 700, "starts_per_second": 9}}
    found = {part.name: part.has for part in capacity.parts(settings)}
    assert found["Amazon Connect: calls started"] == 9
    assert found["Amazon Connect: active calls"] == 700


def part(name: str) -> Part:
    [found] = [part for part in capacity.parts(PROD) if part.name == name]
    return found


def test_the_mix_adds_up_to_the_requests() -> None:
    on = capacity.load(1_000)
    assert sum(rate * costs.WORK[name].requests for name, rate in on.rates.items()) == pytest.approx(1_000)
    # The example: 3 M deliveries and 90 k later attempts in 11.1 M requests.
    assert on.attempts == pytest.approx(1_000 * 3_090 / 11_100)


def test_a_need_grows_with_the_load() -> None:
    small, large = capacity.load(100), capacity.load(10_000)
    for one in capacity.parts(PROD):
        assert one.need(large) == pytest.approx(100 * one.need(small)), one.name


def test_waiting_for_the_model_takes_executions() -> None:
    # 9 % of the requests are messages, of at least two seconds each.
    needed = part("Lambda: `messages`").need(capacity.load(100))
    assert 18 < needed < 25


def test_what_breaks_is_told_worst_first() -> None:
    on = capacity.load(10_000)
    found = capacity.breaking(PROD, on)
    shares = [one.need(on) / (one.has or 1) for one in found]
    assert shares == sorted(shares, reverse=True)
    assert min(shares) > 1
    assert "API Gateway: requests of the stage" in [one.name for one in found]
    assert capacity.breaking(PROD, capacity.load(1)) == []


def test_a_setting_raises_what_it_is_said_to_raise() -> None:
    raised = PROD | {"due_shards": 64, "requests_per_second": 9_000}
    raised["reserved_concurrency"] = PROD["reserved_concurrency"] | {"messages": 999}
    has = {one.name: one.has for one in capacity.parts(raised)}
    assert has["DynamoDB: index of scheduled steps"] == 64_000
    assert has["API Gateway: requests of the stage"] == 9_000
    assert has["Lambda: `messages`"] == 999


def test_one_stage_bears_1000_events_and_1500_deliveries_a_second_at_default_quotas() -> None:
    events, deliveries = 1_000, 1_500
    found = capacity.ceilings(PROD)
    of_events = [most for what, most in found.items() if what.startswith("events per second")]
    of_deliveries = [most for what, most in found.items() if what.startswith(("deliveries per", "first attempts per"))]
    assert any("within 200 ms" in what for what in found), "it holds for such receivers"
    assert (len(of_events), len(of_deliveries)) == (3, 2)
    assert min(of_events) >= events
    assert min(of_deliveries) >= deliveries


def test_an_attempt_to_a_slower_receiver_takes_more_of_an_execution() -> None:
    (deliver,) = (function for function in topology.FUNCTIONS if function.name == "deliver")
    # A full batch of ten waits for a second, for five calls of 5 ms, and ten times 10 ms of a whole core on 512 MB.
    assert capacity.attempts_of_execution(deliver.queues[0], 1_000) == pytest.approx(10 / (1.025 + 0.3455), rel=1e-3)
    assert capacity.attempts_of_execution(deliver.queues[0]) == capacity.attempts_of_execution(deliver.queues[0], 200)


def test_with_the_larger_quota_a_stage_bears_1500_deliveries_a_second_to_receivers_that_take_a_second() -> None:
    (deliver,) = (function for function in topology.FUNCTIONS if function.name == "deliver")
    each = capacity.attempts_of_execution(deliver.queues[0], 1_000)
    small, large = (capacity.first_executions(reserved) * each for reserved in capacity.reservations(PROD).values())
    assert small < 1_500 <= large


def test_an_outage_of_a_receiver_opens_timers_for_what_waits_longer_than_a_queue_can() -> None:
    # One event a second for 400 s. Attempts at 0, 5, 35 and 335 s fail; what began by then waits half an hour.
    found = capacity.outage(seconds=400, events=1)
    assert found.failed == 400
    assert found.timers == found.most_open == 400 - 335
    # Each is tried again after 5 s; who began before 395, after 30 s; and so on.
    assert found.attempts == 400 + 395 + 365 + 65
    assert capacity.outage(seconds=400, events=3).most_open == 3 * found.most_open


@pytest.mark.parametrize("quota", [1_000, 3_000])
def test_the_reservations_fit_into_the_quota_and_are_allowed(quota: int) -> None:
    reserved = capacity.reservations(PROD)[quota]
    assert sum(reserved.values()) + capacity.UNRESERVED <= quota
    prod = PROD | {"reserved_concurrency": reserved} | OWNED
    assert parse("prod", prod).reserved_concurrency == reserved


def test_sweep_has_executions_of_its_own_and_with_a_larger_quota_every_function_has() -> None:
    assert capacity.reservations(PROD)[1_000]["sweep"] == PROD["reserved_concurrency"]["sweep"] == 2
    assert capacity.reservations(PROD)[3_000].keys() == {function.name for function in topology.FUNCTIONS}


def test_a_stage_that_is_not_in_the_settings_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert capacity.main(["nowhere"]) == 1
    assert "no stage 'nowhere'; its stages are dev, prod" in capsys.readouterr().err
    assert capacity.main(["dev"]) == 0
    assert "DynamoDB: writes" in capsys.readouterr().out


def test_the_page_shows_what_is_computed() -> None:
    _, heading, rest = (ROOT / "infra/costs/README.md").read_text(encoding="utf-8").partition("\n## Capacity\n")
    assert heading, "infra/costs/README.md has no section Capacity"
    section = rest.partition("\n## ")[0]
    for table in capacity.markdown(PROD).split("\n\n"):
        assert table in section, "python -m infra.capacity prints what is to stand there"


def test_the_help_names_the_stages_and_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        capacity.main(["--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert ended.value.code == 0
    assert "Print what a stage can sustain" in told
    assert "a stage of cdk.json: dev, prod (default: prod)" in told
