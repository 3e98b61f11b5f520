"""Failed deliveries of an endpoint, and the replay of all of them: paced, resumable, and each one once."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass

import pytest

from functions import deliver
from shared.core import clock
from shared.core.errors import ApiError
from shared.store import table
from shared.store.keys import Scope
from shared.tasks import tasks
from shared.webhooks import failures, replays
from shared.webhooks.deliveries import resource as deliveries
from shared.webhooks.replays import Replay
from tests.support.clocks import Clock
from tests.support.concurrency import just_before
from tests.support.deliveries import PHONE, delete, disable, mark
from tests.support.receivers import Obedient, Receiver, answer
from tests.support.resources import create_resource, list_resources
from tests.support.stage import Project, Stage
from tests.support.wire import Killed, wire

WHO = "ada@example.com"


@dataclass(frozen=True)
class Broken:
    """An endpoint to which deliveries have failed; the events' ids, oldest first."""

    stage: Stage
    time: Clock
    scope: Scope
    endpoint: str
    obedient: Obedient
    receiver: Receiver
    events: list[str]

    @property
    def path(self) -> str:
        return f"/v1/webhook_endpoints/{self.endpoint}"

    def failed(self, since: clock.Instant = clock.EPOCH) -> list[str]:
        """The ids of the listed deliveries, newest first."""
        return [one["id"] for one in failures.page(self.scope, [self.endpoint], 100, since).deliveries]

    def start(self, since: clock.Instant = clock.EPOCH) -> None:
        table.write(replays.start(self.scope, self.endpoint, since, WHO).writes)

    def replay(self) -> Replay:
        return replays.find(self.scope, [self.endpoint])[self.endpoint]

    def due(self) -> bool:
        """Let the time of the next step come; False if none is scheduled."""
        row = table.get(self.scope.pk("replay"), self.endpoint)
        assert row is not None
        if "due_at" in row:
            self.time.now = max(self.time.now, (max(row["due_at"], row.get("lease_until", 0)) + 1) / clock.SECOND)
        return "due_at" in row

    def step(self) -> None:
        """Let the worker take the steps that are due."""
        self.stage.nudge("replay", "replays", {"pk": self.scope.pk("replay"), "sk": self.endpoint})

    def run(self) -> Replay:
        """Let the workers take every step, until the replay has ended."""
        while self.due():
            self.step()
            self.stage.deliver("retries")
        return self.replay()

    def received(self) -> list[str]:
        """The ids of the events that the receiver has got."""
        return [json.loads(request.body)["id"] for request in self.receiver.requests]


def broken(stage: Stage, time: Clock, receiver: Receiver, obedient: Obedient, failed: int) -> Broken:
    project: Project = stage.project()
    endpoint = create_resource(stage, "/v1/webhook_endpoints", url=receiver.url)["id"]
    for _ in range(failed):
        create_resource(stage, "/v1/customers", phone=PHONE)
        time.forward(1)
        stage.fan_out()
        stage.deliver("deliveries")
    events = [one["id"] for one in reversed(list_resources(stage, "/v1/events"))]
    assert len(events) == failed
    return Broken(stage, time, Scope(project.id, False), endpoint, obedient, receiver, events)


def test_all_failed_deliveries_are_replayed_the_oldest_first(stage: Stage, stopped_clock: Clock) -> None:
    obedient = Obedient(400)
    with Receiver(obedient) as receiver:
        case = broken(stage, stopped_clock, receiver, obedient, 9)
        before = case.received()
        assert len(case.failed()) == 9
        assert case.failed() == sorted(case.failed(), reverse=True)
        obedient.behaviour = answer(200)
        case.start()
        assert case.replay().total == 9
        done = case.run()
        assert case.received()[len(before) :] == case.events
        assert (done.ended_as, done.replayed, done.skipped, done.started_by) == ("done", 9, 0, WHO)
        assert case.failed() == []
        assert failures.count(case.scope, case.endpoint, 100) == 0
        for event in case.events:
            statuses = [one["status"] for one in list_resources(stage, f"/v1/events/{event}/deliveries")]
            assert sorted(statuses) == ["failed", "succeeded"]


def test_an_endpoint_that_still_refuses_gets_single_attempts_and_then_none(stage: Stage, stopped_clock: Clock) -> None:
    obedient = Obedient(400)
    with Receiver(obedient) as receiver:
        case = broken(stage, stopped_clock, receiver, obedient, 12)
        before, began = len(case.received()), stopped_clock.now
        case.start()
        done = case.run()
        assert (done.ended_as, done.replayed) == ("refused", replays.MAX_REFUSALS)
        assert len(case.received()) - before == replays.MAX_REFUSALS
        assert stopped_clock.now - began > 120
        # What failed again is listed in place of the deliveries that it repeats.
        assert len(case.failed()) == 12


def test_a_replay_waits_until_the_endpoint_has_got_the_previous_deliveries(stage: Stage, stopped_clock: Clock) -> None:
    obedient = Obedient(400)
    with Receiver(obedient) as receiver:
        case = broken(stage, stopped_clock, receiver, obedient, 4)
        obedient.behaviour = answer(200)
        case.start()
        for _ in range(5):
            assert case.due()
            case.step()
        assert case.replay().replayed == 1
        stage.deliver("retries")
        assert case.run().replayed == 4


def test_a_replay_begins_at_its_time(stage: Stage, stopped_clock: Clock) -> None:
    obedient = Obedient(400)
    with Receiver(obedient) as receiver:
        case = broken(stage, stopped_clock, receiver, obedient, 2)
        since = clock.now()
        stopped_clock.forward(60)
        create_resource(stage, "/v1/customers", phone=PHONE)
        stage.fan_out()
        stage.deliver("deliveries")
        assert len(case.failed()) == 3
        assert len(case.failed(since)) == 1
        obedient.behaviour = answer(200)
        case.start(since)
        assert case.run().replayed == 1
        assert len(case.failed()) == 2


def test_a_delivery_that_a_client_has_retried_is_listed_no_more(stage: Stage, stopped_clock: Clock) -> None:
    obedient = Obedient(400)
    with Receiver(obedient) as receiver:
        case = broken(stage, stopped_clock, receiver, obedient, 1)
        [failed] = case.failed()
        assert stage.call("POST", f"/v1/events/{case.events[0]}/deliveries/{failed}/retry").status == 202
        assert case.failed() == []
        stage.deliver("retries")
        [again] = case.failed()
        assert again != failed


def test_a_failed_test_event_is_not_listed(stage: Stage, stopped_clock: Clock) -> None:
    obedient = Obedient(400)
    with Receiver(obedient) as receiver:
        case = broken(stage, stopped_clock, receiver, obedient, 0)
        assert stage.call("POST", f"{case.path}/test").status == 202
        stage.deliver("retries")
        assert len(case.received()) == 1
        assert case.failed() == []


def test_a_delivery_that_fails_after_all_its_workers_were_lost_is_listed(stage: Stage, stopped_clock: Clock) -> None:
    obedient = Obedient(200)
    with Receiver(obedient) as receiver:
        case = broken(stage, stopped_clock, receiver, obedient, 0)
        create_resource(stage, "/v1/customers", phone=PHONE)
        stage.fan_out()
        [event] = list_resources(stage, "/v1/events")
        [row] = deliveries.of_event(case.scope, event["id"])
        for _ in range(tasks.MAX_LOST_WORKERS):
            assert deliver.claim(row["pk"], row["sk"]) is not None
            stopped_clock.forward(deliver.LEASE_MS / clock.SECOND + 1)
        stage.nudge("deliver", "retries", {"pk": row["pk"], "sk": row["sk"]})
        [delivery] = list_resources(stage, f"/v1/events/{event['id']}/deliveries")
        assert delivery["error_code"] == "worker_lost"
        assert case.failed() == [row["sk"]]


@pytest.mark.parametrize(("close", "how"), [(disable, "disabled"), (delete, "deleted")])
def test_a_replay_ends_with_its_endpoint(stage: Stage, stopped_clock: Clock, close: object, how: str) -> None:
    obedient = Obedient(400)
    with Receiver(obedient) as receiver:
        case = broken(stage, stopped_clock, receiver, obedient, 3)
        case.start()
        assert callable(close)
        close(stage, case.path)
        done = case.run()
        assert (done.ended_as, done.replayed) == (how, 0)


def test_an_endpoint_has_one_replay_at_a_time_and_none_while_it_is_disabled(stage: Stage, stopped_clock: Clock) -> None:
    obedient = Obedient(400)
    with Receiver(obedient) as receiver:
        case = broken(stage, stopped_clock, receiver, obedient, 1)
        case.start()
        with pytest.raises(table.ConditionFailed) as failed:
            case.start()
        assert failed.value.op.refusal is not None
        error = failed.value.op.refusal.error({})
        assert isinstance(error, ApiError)
        assert error.code == "delivery_in_progress"
        case.run()
        case.start()
        disable(stage, case.path)
        with pytest.raises(ApiError, match="disabled"):
            case.start()


def test_a_replay_that_is_stopped_sends_nothing_more(stage: Stage, stopped_clock: Clock) -> None:
    obedient = Obedient(400)
    with Receiver(obedient) as receiver:
        case = broken(stage, stopped_clock, receiver, obedient, 3)
        case.start()
        case.step()
        table.write(replays.stop(case.scope, case.endpoint).writes)
        stopped_clock.forward(60)
        case.step()
        assert (case.replay().ended_as, case.replay().replayed) == ("stopped", 1)
        assert not replays.stop(case.scope, case.endpoint).writes


@pytest.mark.parametrize("position", [3, 7, 10, 13, 16, 24])
@pytest.mark.parametrize("before_call", [True, False])
def test_a_replay_whose_worker_dies_goes_on_where_it_was(
    stage: Stage, stopped_clock: Clock, position: int, before_call: bool
) -> None:
    obedient = Obedient(400)
    with Receiver(obedient) as receiver:
        case = broken(stage, stopped_clock, receiver, obedient, 5)
        before = len(case.received())
        obedient.behaviour = answer(200)
        case.start()
        case.step()
        stage.deliver("retries")
        assert case.due()
        death = (position, None) if before_call else (None, position)
        with suppress(Killed), wire(None, *death):
            case.step()
        for _ in range(2):
            # Wake-ups may be lost with the worker: `sweep` finds scheduled steps.
            stopped_clock.forward(120)
            stage.invoke("sweep", {})
            stage.deliver("retries")
        done = case.run()
        assert (done.ended_as, done.replayed, done.skipped) == ("done", 5, 0)
        assert sorted(case.received()[before:]) == sorted(case.events)


def test_sweep_goes_on_with_a_replay_whose_wake_up_was_lost(stage: Stage, stopped_clock: Clock) -> None:
    obedient = Obedient(400)
    with Receiver(obedient) as receiver:
        case = broken(stage, stopped_clock, receiver, obedient, 1)
        case.start()
        stage.messages("replays")
        stopped_clock.forward(120)
        stage.invoke("sweep", {})
        [message] = stage.messages("replays")
        assert json.loads(message["body"]) == {"pk": case.scope.pk("replay"), "sk": case.endpoint}


def test_the_failed_deliveries_of_several_endpoints_are_one_list(stage: Stage, stopped_clock: Clock) -> None:
    obedient = Obedient(400)
    with Receiver(obedient) as receiver:
        case = broken(stage, stopped_clock, receiver, obedient, 0)
        other = create_resource(stage, "/v1/webhook_endpoints", url=receiver.url)["id"]
        for _ in range(5):
            create_resource(stage, "/v1/customers", phone=PHONE)
            stopped_clock.forward(1)
            stage.fan_out()
            stage.deliver("deliveries")
        both, found, cursor = [case.endpoint, other], list[str](), None
        while True:
            page = failures.page(case.scope, both, 3, starting_after=cursor)
            found += [one["id"] for one in page.deliveries]
            assert len(page.deliveries) <= 3
            cursor = page.cursor
            if cursor is None:
                break
        assert found == sorted(set(found), reverse=True)
        assert len(found) == 10


def test_slow_endpoints_are_replayed_by_a_queue_of_their_own(stage: Stage, stopped_clock: Clock) -> None:
    obedient = Obedient(400)
    with Receiver(obedient) as receiver:
        case = broken(stage, stopped_clock, receiver, obedient, 1)
        obedient.behaviour = answer(200)
        mark(stage, case.path, slow_until=clock.now() + clock.HOUR)
        case.start()
        case.step()
        stage.deliver("retries")
        assert case.failed() == []
        assert stage.deliver("slow_deliveries") == 1
        assert case.run().ended_as == "done"


def test_a_test_event_that_somebody_retried_is_not_listed(stage: Stage, stopped_clock: Clock) -> None:
    obedient = Obedient(400)
    with Receiver(obedient) as receiver:
        case = broken(stage, stopped_clock, receiver, obedient, 0)
        test = stage.call("POST", f"{case.path}/test").json
        for _ in range(2):
            stage.deliver("retries")
            again = stage.call("POST", f"/v1/events/{test['event_id']}/deliveries/{test['id']}/retry")
            assert again.status == 202
            test = again.json
        stage.deliver("retries")
        assert case.failed() == []


def test_a_replay_whose_endpoint_is_deleted_during_its_last_step_ends_as_deleted(
    stage: Stage, stopped_clock: Clock
) -> None:
    obedient = Obedient(400)
    with Receiver(obedient) as receiver:
        case = broken(stage, stopped_clock, receiver, obedient, 1)
        case.start()
        assert case.due()
        # The step has read that the endpoint exists.
        with just_before("GetItem", lambda: delete(stage, case.path)):
            case.step()
        done = case.replay()
        assert (done.ended_as, done.replayed, done.skipped) == ("deleted", 0, 0)


def test_a_replay_does_not_send_again_what_somebody_retries_meanwhile(stage: Stage, stopped_clock: Clock) -> None:
    obedient = Obedient(400)
    with Receiver(obedient) as receiver:
        case = broken(stage, stopped_clock, receiver, obedient, 1)
        before, [failed] = len(case.received()), case.failed()
        obedient.behaviour = answer(200)
        case.start()

        def retried() -> None:
            assert stage.call("POST", f"/v1/events/{case.events[0]}/deliveries/{failed}/retry").status == 202
            stage.deliver("retries")

        assert case.due()
        # The first step has read which deliveries have failed.
        with just_before("GetItem", retried):
            case.step()
        done = case.run()
        assert len(case.received()) - before == 1
        assert (done.ended_as, done.replayed, done.skipped) == ("done", 0, 1)


def test_a_replay_counts_what_was_accepted_and_what_has_failed_again(stage: Stage, stopped_clock: Clock) -> None:
    obedient = Obedient(400)
    with Receiver(obedient) as receiver:
        case = broken(stage, stopped_clock, receiver, obedient, 11)
        before = len(case.received())
        obedient.behaviour = lambda exchange: answer(500 if len(case.received()) - before in (4, 5) else 200)(exchange)
        case.start()
        done = case.run()
        assert (done.ended_as, done.replayed, done.accepted, done.failed_again) == ("done", 11, 9, 2)
        retrying = failures.page(case.scope, [case.endpoint], 100, retrying=True).deliveries
        assert sorted(one["event_id"] for one in retrying) == sorted(case.events[4:6])
