"""An endpoint is disabled or deleted while a delivery to it waits or is being sent (promises 9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from functions import deliver
from shared.core import clock
from shared.tasks import tasks
from tests.support.clocks import Clock
from tests.support.concurrency import just_before, run_at_once
from tests.support.deliveries import PHONE, delete, disable, lose_worker, new_event, only_delivery_at, wake_up
from tests.support.receivers import Behaviour, Exchange, Receiver, answer, close_after_request
from tests.support.resources import create_and_get_path, list_resources
from tests.support.stage import Stage
from tests.support.wire import ALWAYS, Disturbance, Fault, Killed, conflicting, lose_response, throttle, wire

Close = Callable[[Stage, str], None]


def enable(stage: Stage, endpoint: str) -> None:
    assert stage.call("PATCH", endpoint, {"enabled": True}).status == 200


def disable_and_enable(stage: Stage, endpoint: str) -> None:
    disable(stage, endpoint)
    enable(stage, endpoint)


CLOSINGS: dict[Close, tuple[str, str | None]] = {
    disable: ("delivery_in_progress", "webhook_endpoint_disabled"),
    delete: ("resource_not_found", "resource_not_found"),
    disable_and_enable: ("delivery_in_progress", None),
}
"""How an endpoint is closed, and the error code of a manual retry during the attempt and after it."""
REASONS: dict[Close, list[str | None]] = {disable: ["manual"], delete: [], disable_and_enable: [None]}
"""The `disabled_reason` that the endpoint, if there still is one, shows then."""
OUTCOMES: dict[str, tuple[Behaviour, str, str | None]] = {
    "200": (answer(200), "succeeded", None),
    "500": (answer(500), "canceled", "http_error"),
    "400": (answer(400), "canceled", "http_error"),
    "410": (answer(410), "canceled", "http_error"),
    "no_answer": (close_after_request, "canceled", "connection_refused"),
}
"""What the receiver does, the delivery's status after it, and the attempt's error code."""

CLAIM = 1
"""The position of the worker's claim among the calls that `wake_up` makes."""

closings = pytest.mark.parametrize("close", CLOSINGS, ids=lambda close: close.__name__)


def answer_after(work: Callable[[], Any], then: Behaviour) -> Behaviour:
    """The receiver does something else before it answers."""

    def behave(exchange: Exchange) -> None:
        run_at_once([work])
        then(exchange)

    return behave


def read(stage: Stage, path: str, id: str) -> Any:
    """A delivery, which its list shows as it is shown itself."""
    found = stage.call("GET", f"{path}/{id}").json
    assert found in list_resources(stage, path)
    return found


def assert_under_way(stage: Stage, path: str, waiting: Any) -> None:
    """The delivery reads as before its attempt, which is being made at present."""
    found = read(stage, path, waiting["id"])
    assert abs(clock.now() - clock.parse(found["next_attempt_at"])) <= 1_000
    assert found | {"next_attempt_at": waiting["next_attempt_at"]} == waiting


def retry(stage: Stage, path: str, id: str) -> str | None:
    """The error code of a manual retry, None if it is accepted."""
    response = stage.call("POST", f"{path}/{id}/retry")
    return None if response.status == 202 else response.code


def assert_canceled(delivery: Any, at: clock.Instant, attempts: int) -> None:
    """The delivery was canceled at this instant, after so many attempts."""
    assert (delivery["status"], delivery["error_code"]) == ("canceled", "endpoint_disabled")
    assert (delivery["next_attempt_at"], delivery["completed_at"]) == (None, clock.iso(at))
    assert delivery["attempt_count"] == len(delivery["attempts"]) == attempts


def assert_nothing_follows(stage: Stage, stopped_clock: Clock, path: str, end: Any) -> None:
    """The delivery has ended: whatever comes, it reads the same."""
    for seconds in (6, 61, 3600):
        stopped_clock.forward(seconds)
        wake_up(stage, end)
        assert read(stage, path, end["id"]) == end
    stage.messages("retries")
    stage.invoke("sweep", {})
    assert end["id"] not in str(stage.messages("retries"))


@pytest.mark.parametrize("outcome", OUTCOMES)
@closings
def test_what_is_being_sent_stays_attempting_until_its_attempt_is_recorded(
    stage: Stage, stopped_clock: Clock, close: Close, outcome: str
) -> None:
    behaviour, status, error = OUTCOMES[outcome]
    during_it, after_it = CLOSINGS[close]

    def close_and_forward() -> None:
        close(stage, endpoint)
        stopped_clock.forward(3)
        assert_under_way(stage, path, waiting)
        assert retry(stage, path, waiting["id"]) == during_it

    with Receiver(answer_after(close_and_forward, behaviour), answer(200)) as receiver:
        endpoint = create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        path = new_event(stage)
        waiting = only_delivery_at(stage, path)
        wake_up(stage, waiting)
        end = read(stage, path, waiting["id"])
        if status == "canceled":
            assert_canceled(end, clock.now(), attempts=1)
        else:
            assert (end["status"], end["error_code"], end["completed_at"]) == (status, None, clock.iso(clock.now()))
        [attempt] = end["attempts"]
        assert (attempt["number"], attempt["error_code"]) == (1, error)
        assert (end["response_status_code"], end["last_attempt_at"]) == (
            attempt["response_status_code"],
            attempt["at"],
        )
        assert_nothing_follows(stage, stopped_clock, path, end)
        assert len(receiver.requests) == 1
        # What the receiver said concerned the endpoint before it was closed.
        reasons = [each["disabled_reason"] for each in list_resources(stage, "/v1/webhook_endpoints")]
        assert reasons == REASONS[close]
        assert retry(stage, path, waiting["id"]) == after_it
        if after_it is None:
            stage.deliver("retries")
            assert [each["status"] for each in list_resources(stage, path)] == ["succeeded", status]
            assert len(receiver.requests) == 2
        assert read(stage, path, waiting["id"]) == end


@closings
def test_what_a_dead_worker_was_sending_stays_attempting_until_the_next_one_cancels_it(
    stage: Stage, stopped_clock: Clock, close: Close
) -> None:
    during_it, after_it = CLOSINGS[close]
    with Receiver(answer(500), answer(200)) as receiver:
        endpoint = create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        path = new_event(stage)
        wake_up(stage, only_delivery_at(stage, path))
        stopped_clock.forward(5)
        waiting = only_delivery_at(stage, path)
        lose_worker(stage, waiting)
        close(stage, endpoint)
        for seconds in (1, deliver.LEASE_MS / clock.SECOND + 1):
            stopped_clock.forward(seconds)
            assert_under_way(stage, path, waiting)
            assert retry(stage, path, waiting["id"]) == during_it
        wake_up(stage, waiting)
        end = read(stage, path, waiting["id"])
        assert_canceled(end, clock.now(), attempts=1)
        assert_nothing_follows(stage, stopped_clock, path, end)
        assert len(receiver.requests) == 1
        assert retry(stage, path, waiting["id"]) == after_it


@closings
def test_a_delivery_of_a_closed_endpoint_is_canceled_however_many_workers_were_lost_over_it(
    stage: Stage, stopped_clock: Clock, close: Close
) -> None:
    with Receiver(answer(200)) as receiver:
        endpoint = create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        path = new_event(stage)
        waiting = only_delivery_at(stage, path)
        for _ in range(tasks.MAX_LOST_WORKERS):
            lose_worker(stage, waiting)
            stopped_clock.forward(deliver.LEASE_MS / clock.SECOND + 1)
        close(stage, endpoint)
        assert_under_way(stage, path, waiting)
        wake_up(stage, waiting)
        assert_canceled(read(stage, path, waiting["id"]), clock.now(), attempts=0)
        assert receiver.requests == []


@closings
def test_a_read_that_found_it_waiting_does_not_show_as_canceled_what_a_worker_took_meanwhile(
    stage: Stage, stopped_clock: Clock, close: Close
) -> None:
    def take_and_close() -> None:
        lose_worker(stage, waiting)
        close(stage, endpoint)

    with Receiver(answer(200)) as receiver:
        endpoint = create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        path = new_event(stage)
        waiting = only_delivery_at(stage, path)
        with just_before("BatchGetItem", take_and_close):
            assert only_delivery_at(stage, path) == waiting
        assert read(stage, path, waiting["id"]) == waiting


@closings
def test_a_read_that_cancels_keeps_the_attempt_that_was_recorded_meanwhile(
    stage: Stage, stopped_clock: Clock, close: Close
) -> None:
    closed_at: list[clock.Instant] = []

    def attempt_delivery() -> None:
        wake_up(stage, waiting)
        stopped_clock.forward(1)
        closed_at.append(clock.now())
        close(stage, endpoint)

    with Receiver(answer(500)) as receiver:
        endpoint = create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        path = new_event(stage)
        waiting = only_delivery_at(stage, path)
        with just_before("BatchGetItem", attempt_delivery):
            seen = only_delivery_at(stage, path)
        assert_canceled(seen, closed_at[0], attempts=1)
        assert read(stage, path, waiting["id"]) == seen
        assert_nothing_follows(stage, stopped_clock, path, seen)


@closings
def test_what_was_shown_canceled_is_not_taken_by_a_worker(stage: Stage, stopped_clock: Clock, close: Close) -> None:
    with Receiver(answer(200)) as receiver:
        endpoint = create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        path = new_event(stage)
        waiting = only_delivery_at(stage, path)
        close(stage, endpoint)
        seen = only_delivery_at(stage, path)
        assert_canceled(seen, clock.now(), attempts=0)
        stopped_clock.forward(2)
        # A worker dies as soon as it has tried to claim it.
        with wire(kill_after=CLAIM), pytest.raises(Killed):
            wake_up(stage, waiting)
        assert read(stage, path, waiting["id"]) == seen
        after_it = CLOSINGS[close][1]
        assert retry(stage, path, waiting["id"]) == after_it
        assert receiver.requests == []


@closings
@pytest.mark.parametrize("status", [400, 410])
def test_an_attempt_that_failed_ends_canceled_if_the_endpoint_is_closed_just_before_it_is_recorded(
    stage: Stage, stopped_clock: Clock, close: Close, status: int
) -> None:
    with Receiver(answer(status)) as receiver:
        endpoint = create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        # The endpoint is known to fail: a second failure changes nothing of it.
        wake_up(stage, only_delivery_at(stage, new_event(stage)))
        enable(stage, endpoint)
        path = new_event(stage)
        waiting = only_delivery_at(stage, path)
        with just_before("TransactWriteItems", lambda: close(stage, endpoint)):
            wake_up(stage, waiting)
        end = read(stage, path, waiting["id"])
        assert_canceled(end, clock.now(), attempts=1)
        assert_nothing_follows(stage, stopped_clock, path, end)


def test_an_attempt_that_ends_after_the_closing_is_not_completed_before_its_end(
    stage: Stage, stopped_clock: Clock
) -> None:
    def close_early() -> None:
        disable(stage, endpoint)
        stopped_clock.forward(4)

    with Receiver(answer(500), answer_after(close_early, answer(500))) as receiver:
        endpoint = create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        path = new_event(stage)
        wake_up(stage, only_delivery_at(stage, path))
        stopped_clock.forward(5)
        # That the endpoint fails is known by now, so that it is not looked at again after this attempt.
        wake_up(stage, only_delivery_at(stage, path))
        end = only_delivery_at(stage, path)
        assert_canceled(end, clock.now(), attempts=2)
        assert end["completed_at"] > stage.call("GET", endpoint).json["disabled_at"]
        assert_nothing_follows(stage, stopped_clock, path, end)


def test_a_delivery_made_for_an_endpoint_closed_just_before_is_not_completed_before_it_was_created(
    stage: Stage, stopped_clock: Clock
) -> None:
    def close_endpoint() -> None:
        stopped_clock.forward(-3)
        disable(stage, endpoint)
        stopped_clock.forward(3)

    with Receiver(answer(200)) as receiver:
        endpoint = create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        create_and_get_path(stage, "customers", phone=PHONE)
        with just_before("PutItem", close_endpoint):
            stage.fan_out()
        [event] = list_resources(stage, "/v1/events")
        [seen] = list_resources(stage, f"/v1/events/{event['id']}/deliveries")
        assert_canceled(seen, clock.parse(seen["created_at"]), attempts=0)


def test_a_410_from_a_url_that_was_just_replaced_leaves_the_endpoint_enabled(
    stage: Stage, stopped_clock: Clock
) -> None:
    with Receiver(answer(410)) as former, Receiver(answer(200)) as present:
        endpoint = create_and_get_path(stage, "webhook_endpoints", url=former.url)
        path = new_event(stage)
        with just_before("TransactWriteItems", lambda: stage.call("PATCH", endpoint, {"url": present.url})):
            wake_up(stage, only_delivery_at(stage, path))
        assert only_delivery_at(stage, path)["status"] == "failed"
        shown = stage.call("GET", endpoint).json
        assert (shown["url"], shown["enabled"]) == (present.url, True)


@closings
def test_a_worker_that_dies_while_it_cancels_leaves_it_to_the_next_one(
    stage: Stage, stopped_clock: Clock, close: Close
) -> None:
    with Receiver(answer(200)) as receiver:
        endpoint = create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        path = new_event(stage)
        waiting = only_delivery_at(stage, path)
        close(stage, endpoint)
        with wire(kill_after=CLAIM), pytest.raises(Killed):
            wake_up(stage, waiting)
        assert read(stage, path, waiting["id"]) == waiting
        stopped_clock.forward(deliver.LEASE_MS / clock.SECOND + 1)
        wake_up(stage, waiting)
        assert_canceled(read(stage, path, waiting["id"]), clock.now(), attempts=0)
        assert receiver.requests == []


TROUBLES: dict[str, tuple[Disturbance, int, int]] = {
    "throttled once": (throttle, 1, 200),
    "an answer lost": (lose_response, 1, 200),
    "four conflicts": (conflicting(0), 4, 200),
    "throttled": (throttle, ALWAYS, 503),
    "answers lost": (lose_response, ALWAYS, 503),
    "conflicts": (conflicting(0), ALWAYS, 503),
}
"""What happens to the write that cancels, how often, and the status of the read."""
CANCELLATION = 3
"""The position of that write among the calls of a read."""


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_read_in_trouble_with_the_write_that_cancels_is_carried_through_or_unavailable(
    stage: Stage, stopped_clock: Clock, trouble: str
) -> None:
    disturbance, tries, status = TROUBLES[trouble]
    with Receiver(answer(200)) as receiver:
        endpoint = create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
        path = new_event(stage)
        waiting = only_delivery_at(stage, path)
        disable(stage, endpoint)
        closed_at = clock.now()
        stopped_clock.forward(1)
        with wire(Fault(CANCELLATION, disturbance, tries)) as line:
            response = stage.call("GET", f"{path}/{waiting['id']}")
        assert line.calls[CANCELLATION].operation == "UpdateItem"
        assert response.status == status, response.body
        end = read(stage, path, waiting["id"])
        assert_canceled(end, closed_at, attempts=0)
        assert status == 503 or response.json == end
