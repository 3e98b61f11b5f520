"""The carrier's capacity: how many live calls there are at once, how quickly they start, and who waits (promises 7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import pytest

from shared.calls import capacity, project_limits
from shared.calls.live.steps import DIALED_WITHIN_MS, POLL_MS, START_WITHIN_MS
from shared.core import clock
from shared.core.call_statuses import EndedReason, Ending, SessionCallStatus
from shared.store import table
from shared.telephony import ContactState, NoCapacity, adapters
from tests.support.clocks import Clock
from tests.support.concurrency import run_at_once
from tests.support.live_calls import (
    HUNG_UP,
    PHONE,
    Line,
    LiveCall,
    assert_over,
    calls_under_way,
    contact_event,
    events_of,
    forward_and_work,
    outcome,
    place_live_call,
    tell,
    work,
)
from tests.support.resources import create_resource
from tests.support.simulated_calls import limit_calls
from tests.support.stage import Stage
from tests.support.wire import Killed, wire

BUSY = Ending(SessionCallStatus.NO_ANSWER, EndedReason.BUSY)
AT_ONCE, A_SECOND, LASTS = 10, 2, 10 * clock.SECOND


@dataclass
class Exchange(Line):
    """A carrier with Amazon Connect's default quotas. Nobody answers, and every phone rings as long."""

    began: dict[str, clock.Instant] = field(default_factory=dict)
    refused: int = 0

    def start(self, to: str, session_id: str, project_id: int, livemode: bool, opening: str) -> str:
        now = clock.now()
        active = [at for at in self.began.values() if at + LASTS > now]
        second = [at for at in self.began.values() if at + clock.SECOND > now]
        if len(active) >= AT_ONCE or len(second) >= A_SECOND:
            self.refused += 1
            raise NoCapacity("LimitExceededException")
        contact = super().start(to, session_id, project_id, livemode, opening)
        self.began[contact] = now
        return contact

    def describe(self, contact_id: str) -> ContactState | None:
        began = self.began[contact_id]
        over = clock.now() >= began + LASTS
        return ContactState(None, began + LASTS, BUSY) if over else ContactState(None, None, None)


@pytest.fixture
def exchange() -> Iterator[Exchange]:
    carrier = Exchange()
    adapters.use(carrier=carrier)
    yield carrier
    adapters.use()


def another_call(stage: Stage, time: Clock, call: LiveCall) -> LiveCall:
    """A call to another customer of the same project, placed a little later."""
    time.forward(0.05)
    customer = create_resource(stage, "/v1/customers", phone=PHONE)["id"]
    answer = stage.call("POST", f"/v1/customers/{customer}/call", {})
    return LiveCall(call.scope, answer.json["session_id"], customer, "")


def several_calls(stage: Stage, time: Clock, count: int) -> list[LiveCall]:
    """Calls of a new project, in the order in which they were placed."""
    calls = [place_live_call(stage)]
    while len(calls) < count:
        calls.append(another_call(stage, time, calls[0]))
    return calls


def run(stage: Stage, time: Clock, exchange: Exchange, calls: list[LiveCall], until: int) -> None:
    """Let the workers have every wake-up when it is due, and the events of calls that end, up to this instant."""
    reported = set[str]()
    while True:
        rows = table.get_many([(call.scope.pk("session"), call.id) for call in calls])
        due = {call: row["due_at"] for call in calls if "due_at" in (row := rows[call.scope.pk("session"), call.id])}
        ends = {contact: at + LASTS for contact, at in exchange.began.items() if contact not in reported}
        following = min([*due.values(), *ends.values()], default=until)
        if following >= until:
            return
        time.now = max(time.now, following / clock.SECOND)
        for contact in [contact for contact, at in ends.items() if at <= following]:
            reported.add(contact)
            tell(stage, contact_event(contact, "DISCONNECTED"))
        for call in [call for call, at in due.items() if at <= following]:
            work(stage, call)


def test_fifty_calls_at_once_are_dialed_in_order_within_the_carriers_quotas(
    stage: Stage, stopped_clock: Clock, exchange: Exchange
) -> None:
    calls = several_calls(stage, stopped_clock, 50)
    limit_calls(calls[0].scope.project_id, project_limits.Limits(at_once=100))
    placed_at = clock.now()
    run(stage, stopped_clock, exchange, calls, placed_at + clock.HOUR // 2)
    assert [session_id for _, session_id, *_ in exchange.started] == [call.id for call in calls]
    assert exchange.refused == 0
    assert {outcome(call)[:2] for call in calls} == {("no_answer", "busy")}
    # Five rounds of ten calls: a place that becomes free is soon taken.
    assert max(exchange.began.values()) <= placed_at + 2 * clock.MINUTE
    assert events_of(stage, calls[-1].id) == ["session.created", "session.dialing", "session.no_answer"]
    assert calls_under_way(calls[0]) == 0


def test_a_project_with_many_calls_does_not_keep_out_the_others(
    stage: Stage, stopped_clock: Clock, exchange: Exchange
) -> None:
    many = several_calls(stage, stopped_clock, 15)
    run(stage, stopped_clock, exchange, many, clock.now() + 10 * clock.SECOND)
    assert len(exchange.started) == AT_ONCE
    [one] = several_calls(stage, stopped_clock, 1)
    run(stage, stopped_clock, exchange, [*many, one], clock.now() + clock.HOUR // 2)
    order = [session_id for _, session_id, *_ in exchange.started]
    assert order.index(one.id) == AT_ONCE
    assert [id for id in order if id != one.id] == [call.id for call in many]


def test_of_many_workers_at_once_no_more_start_a_call_than_there_are_places(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, stopped_clock: Clock, line: Line
) -> None:
    monkeypatch.setenv("CONNECT_ACTIVE_CALLS", "1")
    calls = several_calls(stage, stopped_clock, 6)
    run_at_once([partial(work, stage, call) for call in calls])
    assert len(line.started) == 1
    assert Counter(call.doc["call_status"] for call in calls) == {"dialing": 1, "queued": 5}


# A carrier without capacity


def test_a_call_that_the_carrier_has_no_capacity_for_stays_queued_and_is_dialed_later(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    call = place_live_call(stage)
    line.trouble += [NoCapacity("ThrottlingException"), NoCapacity("LimitExceededException")]
    for _ in range(2):
        forward_and_work(stage, stopped_clock, call, capacity.BACK_OFF_MS)
        assert (call.doc["call_status"], call.doc["dialed_at"]) == ("queued", None)
        assert calls_under_way(call) == 0
    # All others wait, too.
    other = another_call(stage, stopped_clock, call)
    work(stage, other)
    assert len(line.started) == 2
    forward_and_work(stage, stopped_clock, call, capacity.BACK_OFF_MS)
    assert call.row["contact_id"] == line.contacts[call.id]
    assert call.doc["dialed_at"] == clock.iso(clock.now())
    assert events_of(stage, call.id) == ["session.created", "session.dialing"]
    _, counts = project_limits.of_rows(call.scope, table.get_many(project_limits.keys(call.scope)))
    assert (counts.at_once, counts.today) == (1, 1)


def test_a_call_that_may_have_been_placed_is_not_put_back(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    call = place_live_call(stage)
    line.trouble += [Killed("after the start"), *[NoCapacity("ThrottlingException")] * 20]
    with suppress(Killed):
        work(stage, call)
    forward_and_work(stage, stopped_clock, call, START_WITHIN_MS - clock.SECOND)
    assert calls_under_way(call) == 1
    forward_and_work(stage, stopped_clock, call, capacity.BACK_OFF_MS)
    assert outcome(call)[:2] == ("failed", "provider_timeout")
    assert_over(call, calls=0)


def test_a_call_that_is_not_dialed_within_an_hour_fails(
    stage: Stage, stopped_clock: Clock, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONNECT_ACTIVE_CALLS", "1")
    first, second = several_calls(stage, stopped_clock, 2)
    forward_and_work(stage, stopped_clock, first, DIALED_WITHIN_MS - clock.SECOND)
    assert first.doc["call_status"] == "dialing"
    forward_and_work(stage, stopped_clock, second, 0)
    assert second.doc["call_status"] == "queued"
    forward_and_work(stage, stopped_clock, second, capacity.CHECK_SOON_MS)
    assert outcome(second)[:2] == ("failed", "provider_timeout")
    assert second.doc["summary"]
    assert events_of(stage, second.id) == ["session.created", "session.failed"]
    assert "active_session" not in (table.get(second.scope.pk("customer"), second.customer) or {})


def test_a_customer_who_is_deleted_while_the_call_is_placed_is_not_called_later(
    stage: Stage, stopped_clock: Clock, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, start = place_live_call(stage), line.start

    def deleting(to: str, session_id: str, project_id: int, livemode: bool, opening: str) -> str:
        assert stage.call("DELETE", f"/v1/customers/{call.customer}").status == 200
        return start(to, session_id, project_id, livemode, opening)

    line.trouble.append(NoCapacity("ThrottlingException"))
    monkeypatch.setattr(line, "start", deleting)
    work(stage, call)
    forward_and_work(stage, stopped_clock, call, capacity.BACK_OFF_MS)
    assert len(line.started) == 1
    assert outcome(call)[:2] == ("failed", "customer_deleted")
    assert calls_under_way(call) == 0


# Places that are never given back


def test_the_place_of_a_call_that_is_never_released_is_free_again_in_time(
    stage: Stage, stopped_clock: Clock, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONNECT_ACTIVE_CALLS", "1")
    lost, call = several_calls(stage, stopped_clock, 2)
    work(stage, lost)
    table.write([table.Delete(lost.scope.pk("session"), lost.id)])
    forward_and_work(stage, stopped_clock, call, capacity.HELD_MS - 2 * clock.SECOND)
    assert call.doc["call_status"] == "queued"
    forward_and_work(stage, stopped_clock, call, capacity.CHECK_SOON_MS)
    assert call.doc["call_status"] == "dialing"


def test_a_waiting_call_that_does_not_come_back_lets_the_others_pass(
    stage: Stage, stopped_clock: Clock, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONNECT_ACTIVE_CALLS", "1")
    first, lost, call = several_calls(stage, stopped_clock, 3)
    for each in (first, lost, call):
        work(stage, each)
    line.state = ContactState(None, clock.now(), BUSY)
    forward_and_work(stage, stopped_clock, first, POLL_MS)
    assert_over(first)
    forward_and_work(stage, stopped_clock, call, capacity.LATE_MS)
    assert [session_id for _, session_id, *_ in line.started] == [first.id, call.id]


# Contacts that no worker recorded


def test_the_contact_of_a_worker_that_died_is_recorded_by_its_first_event(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    call = place_live_call(stage)
    line.trouble.append(Killed("after the start"))
    with wire(), suppress(Killed):
        work(stage, call)
    assert call.doc["call_status"] == "queued"
    tell(stage, contact_event(line.contacts[call.id], "INITIATED", initiationMethod="API"))
    assert call.row["contact_id"] == line.contacts[call.id]
    assert call.doc["call_status"] == "dialing"
    stopped_clock.forward(START_WITHIN_MS / clock.SECOND)
    work(stage, call)
    assert len(line.started) == 1
    line.state = ContactState(clock.now() - 9000, clock.now(), HUNG_UP)
    forward_and_work(stage, stopped_clock, call, POLL_MS)
    assert outcome(call)[:2] == ("completed", "customer_hangup")
    assert events_of(stage, call.id) == ["session.created", "session.dialing", "session.completed"]


def test_a_call_that_was_given_up_is_stopped_when_its_contact_appears(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    call = place_live_call(stage)
    line.trouble.append(Killed("after the start"))
    with wire(), suppress(Killed):
        work(stage, call)
    forward_and_work(stage, stopped_clock, call, START_WITHIN_MS)
    assert outcome(call)[:2] == ("failed", "provider_timeout")
    contact, ended = line.contacts[call.id], call.row
    tell(stage, contact_event(contact, "DISCONNECTED", initiationMethod="API"), contact_event(contact))
    assert line.stopped == []
    tell(stage, contact_event(contact, initiationMethod="API"))
    assert line.stopped == [contact]
    assert call.row == ended
    assert_over(call, calls=0)


def test_a_recorded_contact_expires(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    call = place_live_call(stage)
    work(stage, call)
    contact = line.contacts[call.id]
    row = table.get(f"CONTACT#{contact}", "contact")
    assert row is not None
    # Longer than its events may wait in a queue.
    assert 4 * clock.DAY <= row["expires_at"] * clock.SECOND - clock.now() <= 14 * clock.DAY
    line.state = ContactState(clock.now() - 9000, clock.now(), HUNG_UP)
    forward_and_work(stage, stopped_clock, call, POLL_MS)
    stopped_clock.forward(14 * clock.DAY / clock.SECOND)
    tell(stage, contact_event(contact, initiationMethod="API"))
    assert line.stopped == []
