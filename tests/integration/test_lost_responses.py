"""Writes whose response is lost while others write the same row: one effect, one event, and the later change stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from shared.admin import members, sign_in
from shared.aws import client as aws_client
from shared.aws.connections import ConnectionFailed, HttpResponse
from shared.core import clock, ids, limits
from shared.store import table
from shared.store.keys import Scope
from shared.tasks import tasks
from tests.support.admin_client import signed_in
from tests.support.clocks import Clock
from tests.support.concurrency import WRITES, run_at_once
from tests.support.conversations import CANCEL, Thread, new_thread, send, send_and_get, work_at_each_wait
from tests.support.receivers import Receiver, answer
from tests.support.resources import create_and_get_path, get_resource, idempotency_header, list_resources, woken
from tests.support.stage import Project, Stage, sqs_record
from tests.support.wire import Fault, conflicting, wire
from tests.support.wire import answer as answered_by_aws

PHONE = "+15005550006"
WHEN = "2030-05-06T07:08:09Z"


@contextmanager
def response_lost(work: Callable[[], Any] | None, *, sent: bool = True, writes_before: int = 0) -> Iterator[None]:
    """The response to the next write is lost, and the work is done by somebody else before the client's retry.

    Requests that are counted by their key are no writes. Without `sent`, the write itself is lost; with
    `writes_before`, it is a later one.
    """
    left = [work]
    skipped = [None] * writes_before

    class Lost(aws_client.Hook):
        def attempt(self, call: aws_client.AwsCall, proceed: Callable[[], HttpResponse]) -> HttpResponse:
            counts_a_key = call.parameters.get("Key", {}).get("pk", {}).get("S", "").startswith("KEY#")
            if call.operation not in WRITES or counts_a_key or not left:
                return proceed()
            if skipped:
                skipped.pop()
                return proceed()
            others = left.pop()
            if sent:
                proceed()
            if others is not None:
                run_at_once([others])
            raise ConnectionFailed("connection_closed")

    with aws_client.hooked(Lost()):
        yield
    assert not left, "there was no write"


def customer(stage: Stage) -> str:
    return create_and_get_path(stage, "customers", phone=PHONE)


def appointment(stage: Stage) -> str:
    return create_and_get_path(
        stage, "appointments", customer_id=customer(stage).rpartition("/")[2], appointment_at=WHEN
    )


def endpoint(stage: Stage) -> str:
    return create_and_get_path(stage, "webhook_endpoints", url="https://example.com/hook")


def settings(stage: Stage) -> str:
    assert stage.call("PATCH", "/v1/agent_settings", {"business_name": "Before"}).status == 200
    return "/v1/agent_settings"


CHANGES: dict[str, tuple[Callable[[Stage], str], str, str, tuple[str, str], str | None]] = {
    "customer": (customer, "email", "mine@example.com", ("theirs@example.com", "too@example.com"), "customer.updated"),
    "appointment": (appointment, "status", "confirmed", ("failed", "confirmed"), "appointment.{}"),
    "endpoint": (endpoint, "label", "Mine", ("Theirs", "Theirs too"), None),
    "agent_settings": (settings, "business_name", "Mine", ("Theirs", "Theirs too"), None),
    "first settings": (lambda _: "/v1/agent_settings", "business_name", "Mine", ("Theirs", "Theirs too"), None),
}
"""What is changed, a field, our value, the values of others in turn, and the type of the event of a change.

Each change is a single write. That of a customer's name is a transaction with search rows, whose token tells a retry.
"""


def patch_values(stage: Stage, path: str, field: str, values: list[str]) -> None:
    """Somebody gives the field these values, one after another."""
    for value in values:
        assert stage.call("PATCH", path, {field: value}).status == 200


def types(stage: Stage, path: str) -> list[str]:
    """The types of the events of a resource, oldest first, but for that of its creation."""
    stage.fan_out()
    id = path.rpartition("/")[2]
    return [event["type"] for event in get_resource(stage, f"/v1/events?object_id={id}&limit=100")["data"]][-2::-1]


@pytest.mark.parametrize("later", [1, 2, table.WRITERS - 1])
@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("what", CHANGES)
def test_a_patch_takes_effect_once_and_does_not_overwrite_what_came_after_it(
    stage: Stage, what: str, key: str | None, later: int
) -> None:
    create, field, mine, theirs, event = CHANGES[what]
    path, values = create(stage), [theirs[n % 2] for n in range(later)]
    with response_lost(lambda: patch_values(stage, path, field, values)):
        response = stage.call("PATCH", path, {field: mine}, headers=idempotency_header(key))
    assert (response.status, response.json[field]) == (200, mine)
    assert get_resource(stage, path)[field] == values[-1]
    assert types(stage, path) == ([event.format(value) for value in (mine, *values)] if event else [])


@pytest.mark.parametrize("later", [1, 2, table.WRITERS])
@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("what", CHANGES)
def test_a_patch_that_did_not_reach_the_table_is_applied_to_what_others_wrote(
    stage: Stage, what: str, key: str | None, later: int
) -> None:
    create, field, mine, theirs, event = CHANGES[what]
    mine = theirs[later % 2]
    path, values = create(stage), [theirs[n % 2] for n in range(later)]
    with response_lost(lambda: patch_values(stage, path, field, values), sent=False):
        response = stage.call("PATCH", path, {field: mine}, headers=idempotency_header(key))
    assert (response.status, response.json[field]) == (200, mine)
    assert get_resource(stage, path)[field] == mine
    assert types(stage, path) == ([event.format(value) for value in (*values, mine)] if event else [])


@pytest.mark.parametrize("what", CHANGES)
def test_if_nobody_can_tell_whether_a_patch_took_effect_it_is_not_repeated(stage: Stage, what: str) -> None:
    create, field, mine, theirs, event = CHANGES[what]
    path, values = create(stage), [theirs[n % 2] for n in range(table.WRITERS + 1)]
    with response_lost(lambda: patch_values(stage, path, field, values)):
        response = stage.call("PATCH", path, {field: mine})
    assert (response.code, response.headers["service-should-retry"]) == ("service_unavailable", "false")
    assert get_resource(stage, path)[field] == values[-1]
    assert types(stage, path) == ([event.format(value) for value in (mine, *values)] if event else [])


@pytest.mark.parametrize("what", ["customer", "appointment"])
def test_a_patch_before_a_deletion_is_not_said_to_have_failed_because_of_it(stage: Stage, what: str) -> None:
    create, field, mine, _, event = CHANGES[what]
    path = create(stage)
    with response_lost(lambda: stage.call("DELETE", path)):
        response = stage.call("PATCH", path, {field: mine})
    assert (response.code, response.headers["service-should-retry"]) == ("service_unavailable", "false")
    assert get_resource(stage, path)["deleted_at"] is not None
    assert event is not None
    assert types(stage, path)[:-1] == [event.format(mine)]


@pytest.mark.parametrize("what", ["customer", "appointment", "endpoint", "agent_settings"])
def test_rows_of_the_previous_release_are_written_once(stage: Stage, project: Project, what: str) -> None:
    create, field, mine, theirs, event = CHANGES[what]
    path = create(stage)
    kind, id = ("webhook_endpoint" if what == "endpoint" else what), path.rpartition("/")[2]
    pk = Scope(project.id, False).pk(kind)
    table.write_and_get(table.Update(pk, id, set={"req": ids.new("req_"), "w1": None}))
    with response_lost(lambda: patch_values(stage, path, field, [theirs[0]])):
        assert stage.call("PATCH", path, {field: mine}).status == 200
    assert types(stage, path) == ([event.format(value) for value in (mine, theirs[0])] if event else [])

    def write_as_the_previous_release() -> None:
        row = table.get(pk, id)
        assert row is not None
        table.write_and_get(table.Update(pk, id, set={"v": row["v"] + 1, "req": ids.new("req_")}))

    # Such a writer is not stored, so nobody can tell whose version it is.
    with response_lost(write_as_the_previous_release, sent=False):
        response = stage.call("PATCH", path, {field: mine})
    assert (response.code, response.headers["service-should-retry"]) == ("service_unavailable", "false")
    assert stage.call("PATCH", path, {field: mine}).status == 200


@pytest.mark.parametrize("what", ["customer", "appointment", "endpoint"])
def test_a_deletion_takes_effect_once(stage: Stage, what: str) -> None:
    create, field, mine, _, event = CHANGES[what]
    path, others = create(stage), []

    def others_come_late() -> None:
        others.extend([stage.call("DELETE", path).status, stage.call("PATCH", path, {field: mine}).status])

    with response_lost(others_come_late):
        response = stage.call("DELETE", path)
    assert response.status == 200
    assert others == ([404, 404] if what == "endpoint" else [200, 409])
    if event is not None:
        assert stage.call("DELETE", path).body == response.body
        assert types(stage, path) == ["customer.deleted" if what == "customer" else "appointment.cancelled"]


def test_a_creation_takes_effect_once_and_does_not_undo_what_came_after_it(stage: Stage) -> None:
    def rename() -> None:
        [new] = list_resources(stage, "/v1/customers")
        patch_values(stage, f"/v1/customers/{new['id']}", "name", ["Theirs"])

    with response_lost(rename):
        response = stage.call("POST", "/v1/customers", {"phone": PHONE, "name": "Mine"})
    assert (response.status, response.json["name"]) == (201, "Mine")
    [only] = list_resources(stage, "/v1/customers")
    assert only["name"] == "Theirs"


@pytest.mark.parametrize("thread", [None, "t"])
def test_the_end_of_a_conversation_takes_effect_once(stage: Stage, thread: str | None) -> None:
    path = create_and_get_path(stage, "conversations", external_id=thread)

    def others_come_late() -> None:
        assert stage.call("POST", f"{path}/end").status == 200
        assert stage.call("POST", "/v1/conversations", {"external_id": thread}).status == 201

    with response_lost(others_come_late):
        response = stage.call("POST", f"{path}/end")
    assert (response.status, response.json["status"]) == (200, "ended")
    assert [each["status"] for each in list_resources(stage, "/v1/conversations")] == ["active", "ended"]
    if thread is not None:
        # The thread belongs to the new conversation.
        assert stage.call("POST", "/v1/conversations", {"external_id": thread}).code == "conversation_exists"


def test_a_turn_changes_an_appointment_once(stage: Stage, stopped_clock: Clock) -> None:
    thread: Thread = new_thread(stage)
    send_and_get(stage, stopped_clock, thread, CANCEL)
    title = {"title": "Theirs"}
    with (
        work_at_each_wait(stopped_clock, lambda: None),
        response_lost(lambda: stage.call("PATCH", thread.appointment, title), writes_before=1),
    ):
        response = send(stage, thread, "yes")
    assert response.status == 201, response.body
    assert [action["type"] for action in response.json["reply"]["actions"]] == ["appointment_cancelled"]
    assert sorted(types(stage, thread.appointment)) == ["appointment.cancelled", "appointment.updated"]
    assert [message["role"] for message in get_resource(stage, thread.messages)["data"]] == ["user", "assistant"] * 2


def test_a_form_of_the_admin_pages_is_saved_once(stage: Stage, project: Project) -> None:
    path = customer(stage)
    page = f"/admin/projects/{project.id}/test/customers/{path.rpartition('/')[2]}"
    browser = signed_in(stage, "lost@example.com", {project.id: members.MEMBER})
    form = {"phone": PHONE, "email": "", "external_id": "", "metadata": "{}", "name": "Mine"}
    csrf = browser.get(f"{page}/edit").field("csrf")
    with response_lost(lambda: patch_values(stage, path, "name", ["Theirs"])):
        assert browser.post(f"{page}/edit", form | {"csrf": csrf}).status == 303
    assert get_resource(stage, path)["name"] == "Theirs"
    assert types(stage, path) == ["customer.updated"] * 2


def test_a_sign_in_link_whose_deletion_is_not_answered_signs_in_once(stage: Stage) -> None:
    token, others = sign_in.new_link("lost@example.com"), []
    with response_lost(lambda: others.append(sign_in.take_link(token))):
        assert sign_in.take_link(token) is not None
    assert others == [None]
    assert sign_in.take_link(token) is None


# Scheduled work


def delivery_of(stage: Stage) -> Any:
    [event] = list_resources(stage, "/v1/events")
    [delivery] = list_resources(stage, f"/v1/events/{event['id']}/deliveries")
    return delivery


def wake_up_of_a_delivery(stage: Stage, receiver: Receiver) -> Any:
    create_and_get_path(stage, "webhook_endpoints", url=receiver.url)
    customer(stage)
    stage.fan_out()
    [message] = stage.messages("deliveries")
    message["attributes"]["SentTimestamp"] = str(clock.now())
    return message


def test_a_claimed_delivery_is_sent_once(stage: Stage, stopped_clock: Clock) -> None:
    with Receiver(answer(200)) as receiver:
        message = wake_up_of_a_delivery(stage, receiver)
        with response_lost(lambda: stage.invoke("deliver", {"Records": [message]})):
            stage.invoke("deliver", {"Records": [message]})
        assert len(receiver.requests) == 1
    assert (delivery_of(stage)["status"], delivery_of(stage)["attempt_count"]) == ("succeeded", 1)


@pytest.mark.parametrize("status", [200, 500])
def test_an_attempt_is_recorded_once_although_the_next_one_follows_at_once(
    stage: Stage, project: Project, stopped_clock: Clock, status: int
) -> None:
    with Receiver(answer(500), answer(500), answer(status)) as receiver:
        message = wake_up_of_a_delivery(stage, receiver)
        stage.invoke("deliver", {"Records": [message]})

        def next_attempt() -> None:
            stopped_clock.forward(limits.RETRY_SCHEDULE_S[2])
            again = sqs_record(message["body"], stage.queues["retries"].arn)
            stage.invoke("deliver", {"Records": [again]})

        # The second attempt is a single write: the endpoint is known to be failing.
        stopped_clock.forward(limits.RETRY_SCHEDULE_S[1])
        woken(stage, Scope(project.id, False), "retries")
        with response_lost(next_attempt, writes_before=1):
            again = sqs_record(message["body"], stage.queues["retries"].arn)
            stage.invoke("deliver", {"Records": [again]})
        assert len(receiver.requests) == 3
    delivery = delivery_of(stage)
    assert [attempt["number"] for attempt in delivery["attempts"]] == [1, 2, 3]
    assert delivery["status"] == ("succeeded" if status == 200 else "attempting")


def test_a_lease_is_held_by_one_worker_and_its_work_is_recorded_once(stage: Stage, stopped_clock: Clock) -> None:
    pk, lease = ids.new("job_"), 30 * clock.SECOND
    row = {"pk": pk, "sk": "job", "kind": "job", "done": 0} | tasks.due_attributes("job", clock.now())
    table.write([table.Put(row)])

    def claim() -> Any:
        return tasks.claim_row(pk, "job", lease)

    def record(claim: tasks.Claim[table.Row]) -> None:
        update = table.Update(pk, "job", add={"done": 1})
        tasks.save_step(claim, [update])

    others: list[Any] = []
    with response_lost(lambda: others.append(claim())):
        mine = claim()
    assert isinstance(mine, tasks.Claim)
    assert others == [None]

    with response_lost(lambda: others.append(claim())):
        record(mine)
    assert isinstance(others[1], tasks.Claim)
    # The step of the other worker hides who recorded the first one.
    with response_lost(lambda: record(claim())), pytest.raises(aws_client.Unavailable) as unknown:
        record(others[1])
    assert unknown.value.uncertain
    now = table.get(pk, "job")
    assert now is not None
    assert now["done"] == 3


# Service-Should-Retry


class InProgress(aws_client.Hook):
    """DynamoDB is still busy with an earlier attempt of each transaction."""

    def attempt(self, call: aws_client.AwsCall, proceed: Callable[[], HttpResponse]) -> HttpResponse:
        if call.operation != "TransactWriteItems":
            return proceed()
        kind = "com.amazonaws.dynamodb.v20120810#TransactionInProgressException"
        return answered_by_aws(400, {"__type": kind, "message": "in progress"})


@pytest.mark.parametrize("key", [None, "k"])
def test_a_transaction_in_progress_may_take_effect(stage: Stage, stopped_clock: Clock, key: str | None) -> None:
    body = {"customer_id": customer(stage).rpartition("/")[2], "appointment_at": WHEN}
    with aws_client.hooked(InProgress()):
        response = stage.call("POST", "/v1/appointments", body, headers=idempotency_header(key))
    assert (response.status, response.code) == (503, "service_unavailable")
    assert response.headers["service-should-retry"] == ("true" if key else "false")


@pytest.mark.parametrize("rows", [1, 2], ids=["single", "transaction"])
@pytest.mark.parametrize("conflicts", [1, 2, 3])
def test_a_write_waits_between_its_attempts_and_not_after_the_last(
    stage: Stage, stopped_clock: Clock, rows: int, conflicts: int
) -> None:
    waits = list[float]()
    clock.use(lambda: stopped_clock.now, waits.append)
    puts = [table.Put({"pk": ids.new("row_"), "sk": "row", "kind": "row"}) for _ in range(rows)]
    with wire(Fault(0, conflicting(0), conflicts)):
        if conflicts < 3:
            table.write(puts)
        else:
            with pytest.raises(table.Contended):
                table.write(puts)
    assert len(waits) == min(conflicts, 2)
