"""Two attempts to one endpoint at the same time, with different outcomes: the last one says how the endpoint is."""

from __future__ import annotations

import contextvars
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from shared.admin import members
from shared.store import table
from shared.store.keys import Scope
from shared.webhooks import health
from tests.support import log_lines, privileges
from tests.support.admin_client import signed_in
from tests.support.clocks import Clock
from tests.support.deliveries import PHONE
from tests.support.notices import DISABLED, FAILING, RECOVERED, deliver_event, notices
from tests.support.receivers import Exchange, Obedient, Receiver, answer
from tests.support.resources import create_resource, get_resource
from tests.support.stage import Stage, sqs_record


def row_of(stage: Stage, endpoint: str) -> table.Row:
    scope = Scope(get_resource(stage, "/v1/ping")["project_id"], False)
    with privileges.running(None):
        row = table.get(scope.pk("webhook_endpoint"), endpoint)
    assert row is not None
    return row


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(400):
        if condition():
            return
        time.sleep(0.025)
    raise AssertionError("never")


@contextmanager
def failing(stage: Stage, clock: Clock) -> Iterator[tuple[str, Obedient]]:
    """An endpoint whose next failure is worth a notice."""
    obedient = Obedient(400)
    with Receiver(obedient) as receiver:
        id = create_resource(stage, "/v1/webhook_endpoints", url=receiver.url)["id"]
        deliver_event(stage, clock)
        clock.forward(health.NOTICE_AFTER_S + 1)
        yield id, obedient


def two_at_once(
    stage: Stage, obedient: Obedient, endpoint: str, slow: int, quick: int, recorded: Callable[[table.Row], bool]
) -> None:
    """Two attempts in one batch: the slow one gets its status once the quick one's outcome is `recorded`."""
    for _ in range(2):
        create_resource(stage, "/v1/customers", phone=PHONE)
    stage.fan_out()
    records = [sqs_record(message["body"], stage.queues["retries"].arn) for message in stage.messages("deliveries")]
    assert len(records) == 2
    slow_event = json.loads(records[0]["body"])["pk"].rpartition("#")[2]
    released, both = threading.Event(), threading.Barrier(2)

    def behave(exchange: Exchange) -> None:
        request = exchange.read_request()
        # Both attempts have read the endpoint.
        both.wait(10)
        is_slow = json.loads(request.body)["id"] == slow_event
        if is_slow:
            assert released.wait(20)
        exchange.send(b"HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n" % (slow if is_slow else quick))

    obedient.behaviour = behave
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(contextvars.copy_context().run, stage.invoke, "deliver", {"Records": records})
        wait_until(lambda: recorded(row_of(stage, endpoint)))
        # A success that took this long reads the endpoint again.
        time.sleep(0.2)
        released.set()
        assert running.result() == {"batchItemFailures": []}


def test_a_failure_that_began_before_a_success_gives_no_notice(stage: Stage, stopped_clock: Clock) -> None:
    with failing(stage, stopped_clock) as (id, obedient), log_lines.lines() as lines:
        two_at_once(stage, obedient, id, 500, 200, lambda row: "failing_since" not in row)
        assert notices(lines) == []


def test_a_success_after_the_notice_is_announced(stage: Stage, stopped_clock: Clock) -> None:
    with failing(stage, stopped_clock) as (id, obedient), log_lines.lines() as lines:
        two_at_once(stage, obedient, id, 200, 500, lambda row: "noticed" in row)
        assert notices(lines) == [FAILING, RECOVERED]


def test_an_endpoint_that_was_disabled_has_not_recovered(stage: Stage, stopped_clock: Clock) -> None:
    with failing(stage, stopped_clock) as (id, obedient), log_lines.lines() as lines:
        deliver_event(stage, stopped_clock)
        two_at_once(stage, obedient, id, 200, 410, lambda row: not json.loads(row["doc"])["enabled"])
        assert notices(lines) == [FAILING, DISABLED]


def test_an_endpoint_that_accepted_its_last_attempt_is_not_disabled(stage: Stage, stopped_clock: Clock) -> None:
    obedient = Obedient(200)
    with Receiver(obedient) as receiver, log_lines.lines() as lines:
        id = create_resource(stage, "/v1/webhook_endpoints", url=receiver.url)["id"]
        two_at_once(stage, obedient, id, 200, 400, lambda row: "failing_since" in row)
        stopped_clock.forward(health.FAILING_LIMIT_S + 1)
        obedient.behaviour = answer(400)
        deliver_event(stage, stopped_clock)
        assert get_resource(stage, f"/v1/webhook_endpoints/{id}")["enabled"]
        assert notices(lines) == []


@pytest.mark.parametrize(
    ("slow", "quick", "recorded"),
    [(200, 500, lambda row: "noticed" in row), (500, 200, lambda row: "failing_since" not in row)],
    ids=["a success during the notice", "a failure during the recovery"],
)
def test_the_admin_pages_can_be_opened_after_it(
    stage: Stage, stopped_clock: Clock, slow: int, quick: int, recorded: Callable[[table.Row], bool]
) -> None:
    project = stage.project("Blue Clinic")
    member = signed_in(stage, "ada@example.com", {project.id: members.MEMBER})
    sections = ("customers", "events", "failed_deliveries", "usage")
    with failing(stage, stopped_clock) as (id, obedient):
        two_at_once(stage, obedient, id, slow, quick, recorded)
        statuses = [member.get(f"/admin/projects/{project.id}/test/{section}").status for section in sections]
        assert statuses == [200] * len(sections)
