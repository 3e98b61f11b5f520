"""Deliveries that wait for a later attempt: the list of them, and sending one now instead of at its time."""

from __future__ import annotations

from typing import Any

import pytest

from functions import deliver
from shared.core import clock, limits
from shared.core.errors import ApiError
from shared.store import table
from shared.store.keys import Scope
from shared.webhooks import failures
from shared.webhooks.deliveries import commands as delivery_commands
from shared.webhooks.deliveries import resource as deliveries
from shared.webhooks.endpoints.resource import HANGING_FROM
from tests.support.clocks import Clock
from tests.support.deliveries import delete, disable, mark, new_event, only_delivery_at, wake_up
from tests.support.receivers import Obedient, Receiver, answer
from tests.support.resources import create_resource
from tests.support.stage import Stage


class Waiting:
    """A delivery whose first attempt has failed."""

    def __init__(self, stage: Stage, receiver: Receiver) -> None:
        self.stage = stage
        self.scope = Scope(stage.project().id, False)
        self.endpoint = create_resource(stage, "/v1/webhook_endpoints", url=receiver.url)["id"]
        self.path = new_event(stage)
        stage.deliver("deliveries")
        assert self.doc["attempt_count"] == 1

    @property
    def doc(self) -> Any:
        return only_delivery_at(self.stage, self.path)

    def send_now(self) -> bool:
        """Whether there was anything to write. The wake-up of the attempt is delivered."""
        change = delivery_commands.send_now(self.scope, self.doc["event_id"], self.doc["id"])
        if change.writes:
            table.write(change.writes)
        wake_up(self.stage, {"event_id": self.doc["event_id"], "id": change.doc["id"]})
        return bool(change.writes)

    def listed(self) -> list[str]:
        page = failures.page(self.scope, [self.endpoint], 10, retrying=True)
        return [one["id"] for one in page.deliveries]


def test_it_is_sent_now_and_the_ladder_goes_on(stage: Stage, stopped_clock: Clock) -> None:
    obedient = Obedient(500)
    with Receiver(obedient) as receiver:
        one = Waiting(stage, receiver)
        assert one.send_now()
        assert (len(receiver.requests), one.doc["attempt_count"]) == (2, 2)
        wait = clock.parse(one.doc["next_attempt_at"]) - clock.now()
        assert wait == clock.scaled_ms(limits.RETRY_SCHEDULE_S[2])
        wake_up(stage, one.doc)
        assert len(receiver.requests) == 2, "the timer of the first wait sends nothing"
        obedient.behaviour = answer(200)
        assert one.send_now()
        assert one.doc["status"] == "succeeded"
        assert one.listed() == []
        with pytest.raises(ApiError, match="invalid_status_transition"):
            one.send_now()
        assert len(receiver.requests) == 3


def test_it_is_listed_until_it_ends(stage: Stage, stopped_clock: Clock) -> None:
    obedient = Obedient(500)
    with Receiver(obedient) as receiver:
        one = Waiting(stage, receiver)
        assert one.listed() == [one.doc["id"]]
        obedient.behaviour = answer(400)
        one.send_now()
        assert one.doc["status"] == "failed"
        assert one.listed() == []
        assert [failed["id"] for failed in failures.page(one.scope, [one.endpoint], 10).deliveries] == [one.doc["id"]]


@pytest.mark.parametrize("close", [disable, delete])
def test_it_is_listed_no_more_once_its_endpoint_is_closed(stage: Stage, stopped_clock: Clock, close: Any) -> None:
    with Receiver(Obedient(500)) as receiver:
        one = Waiting(stage, receiver)
        close(stage, f"/v1/webhook_endpoints/{one.endpoint}")
        assert one.listed() == []
        with pytest.raises(ApiError, match="invalid_status_transition"):
            one.send_now()
        assert one.doc["status"] == "canceled"


def test_it_is_not_sent_twice_while_an_attempt_is_under_way(stage: Stage, stopped_clock: Clock) -> None:
    with Receiver(Obedient(500)) as receiver:
        one = Waiting(stage, receiver)
        stopped_clock.forward(6)
        assert deliver.claim(deliveries.partition(one.scope, one.doc["event_id"]), one.doc["id"]) is not None
        assert not one.send_now()
        assert len(receiver.requests) == 1


def test_a_hanging_endpoint_gets_it_although_others_are_put_off(stage: Stage, stopped_clock: Clock) -> None:
    obedient = Obedient(500)
    with Receiver(obedient) as receiver:
        one = Waiting(stage, receiver)
        mark(stage, f"/v1/webhook_endpoints/{one.endpoint}", timeouts=HANGING_FROM)
        obedient.behaviour = answer(200)
        assert one.send_now()
        stage.deliver("manual_deliveries")
        assert one.doc["status"] == "succeeded"


def test_a_delivery_that_was_put_off_is_sent_now(stage: Stage, stopped_clock: Clock) -> None:
    obedient = Obedient(500)
    with Receiver(obedient) as receiver:
        one = Waiting(stage, receiver)
        mark(stage, f"/v1/webhook_endpoints/{one.endpoint}", timeouts=HANGING_FROM)
        stopped_clock.forward(6)
        wake_up(stage, one.doc)
        assert clock.parse(one.doc["next_attempt_at"]) > clock.now()
        obedient.behaviour = answer(200)
        assert one.send_now()
        assert clock.parse(one.doc["next_attempt_at"]) <= clock.now()
        stage.deliver("manual_deliveries")
        assert one.doc["status"] == "succeeded"


@pytest.mark.parametrize("hangs_before_its_event", [True, False])
def test_a_delivery_that_is_put_off_before_its_first_attempt_is_listed_and_sent_now(
    stage: Stage, stopped_clock: Clock, hangs_before_its_event: bool
) -> None:
    obedient = Obedient(500)
    with Receiver(obedient) as receiver:
        one = Waiting(stage, receiver)
        endpoint, others = f"/v1/webhook_endpoints/{one.endpoint}", one.listed()
        if hangs_before_its_event:
            mark(stage, endpoint, timeouts=HANGING_FROM)
        stopped_clock.forward(1)
        one.path = new_event(stage)
        if not hangs_before_its_event:
            assert one.listed() == others, "its first attempt is due"
            mark(stage, endpoint, timeouts=HANGING_FROM)
            wake_up(stage, one.doc)
        assert one.doc["attempt_count"] == 0
        assert one.listed() == [one.doc["id"], *others]
        obedient.behaviour = answer(200)
        assert one.send_now()
        stage.deliver("manual_deliveries")
        assert one.doc["status"] == "succeeded"
        assert one.listed() == others


def test_a_test_event_that_waits_is_not_listed(stage: Stage, stopped_clock: Clock) -> None:
    with Receiver(Obedient(500)) as receiver:
        one = Waiting(stage, receiver)
        test = stage.call("POST", f"/v1/webhook_endpoints/{one.endpoint}/test").json
        stage.deliver("retries")
        assert only_delivery_at(stage, f"/v1/events/{test['event_id']}/deliveries")["attempt_count"] == 1
        mark(stage, f"/v1/webhook_endpoints/{one.endpoint}", timeouts=HANGING_FROM)
        stopped_clock.forward(6)
        wake_up(stage, only_delivery_at(stage, f"/v1/events/{test['event_id']}/deliveries"))
        assert one.listed() == [one.doc["id"]]
