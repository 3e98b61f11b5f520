"""The erasure of a person: what it removes, what it leaves, and what comes too late to write anything back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

from infra import topology
from shared.aws import client as aws_client
from shared.aws import services
from shared.calls.consent import consents
from shared.core import clock
from shared.erasure import erasing
from shared.projects import usage
from shared.store import table
from shared.store.keys import Scope
from tests.support import privileges
from tests.support.client_actions import simulated_phone, unique
from tests.support.clocks import Clock
from tests.support.concurrency import just_before
from tests.support.conversations import (
    Hurried,
    Thread,
    new_thread,
    send,
    store_unanswered_message,
    wake_up,
    work_at_each_wait,
)
from tests.support.erasures import (
    BEHAVIOURS,
    Key,
    Person,
    call,
    erase,
    live,
    newcomer,
    none_stored,
    person,
    put_back,
    remaining_data,
    rows,
    statuses,
    text,
    trace,
)
from tests.support.receivers import Receiver
from tests.support.resources import create_resource, get_resource, idempotency_header
from tests.support.stage import Answer, Stage
from tests.support.wire import Fault, Killed, Try, wire

pytestmark = pytest.mark.usefixtures("empty_storage")


@contextmanager
def die_after_write(after: int = 0) -> Iterator[None]:
    """The process dies after its first write to the table or the bucket, or after so many more."""
    left = [after]
    writes = {"PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems", "DeleteObject", "PutObject"}

    def count_write(operation: str) -> None:
        if operation in writes:
            if left[0] == 0:
                raise Killed(f"after {operation}")
            left[0] -= 1

    class AfterCalls(aws_client.Hook):
        def call(self, call: aws_client.AwsCall, proceed: Callable[[aws_client.AwsCall], Any]) -> Any:
            if call.operation == "DeleteItem":
                call = replace(call, parameters={**call.parameters, "ReturnValues": "ALL_OLD"})
            response = proceed(call)
            # Deleting a row that is gone changes nothing.
            if call.operation != "DeleteItem" or "Attributes" in response:
                count_write(call.operation)
            return response

    def after_call(model: Any, http_response: Any, **others: Any) -> None:
        if http_response.status_code < 300:
            count_write(model.name)

    events = services.s3().meta.events
    events.register_last("after-call.s3", after_call)
    try:
        with aws_client.hooked(AfterCalls()):
            yield
    finally:
        events.unregister("after-call.s3", after_call)


def differences(before: Mapping[Key, Any], after: Mapping[Key, Any], whom: Person) -> Iterator[str]:
    """What the erasure did to rows that are not the person's."""
    for key in before.keys() | after.keys():
        old, new = before.get(key), after.get(key)
        own = old is not None and (whom.owns(old) or whom.phone in text(old) or "ASKED#" in key[0])
        if old == new or (new is None and own):
            continue
        if key[0] == whom.scope.pk("erasure") or (key[1] == "erased" and "#usage#" in key[0]):
            continue
        yield f"{key}: {old} became {new}"


def receiving(stage: Stage, receivers: Mapping[str, Receiver]) -> None:
    """Register the endpoints in the project that the stage calls as."""
    for label, receiver in receivers.items():
        create_resource(stage, "/v1/webhook_endpoints", url=receiver.url, label=label, enabled=label != "closed")


@pytest.fixture
def receivers() -> Iterator[dict[str, Receiver]]:
    with ExitStack() as stack:
        yield {label: stack.enter_context(Receiver(behaviour)) for label, behaviour in BEHAVIOURS.items()}


@pytest.fixture(autouse=True)
def _simulated(monkeypatch: pytest.MonkeyPatch, nothing_of_other_tests_is_due: None) -> None:
    monkeypatch.setenv("SIMULATE_LIVE", "1")


def month_usage(scope: Scope) -> dict[str, int]:
    return dict(usage.of_month(scope, clock.iso(clock.now())[:7]))


def new_person(stage: Stage, time: Clock, receivers: dict[str, Receiver], mark: str = "") -> Person:
    """A person in a new project."""
    project = stage.project()
    scope = live(stage, project)
    receiving(stage, receivers)
    return person(stage, time, scope, mark or unique("quetzal"))


def test_nothing_of_an_erased_person_remains_and_everybody_else_is_untouched(
    stage: Stage, stopped_clock: Clock, receivers: dict[str, Receiver]
) -> None:
    stopped_clock.now = 1_900_000_000.0
    whom = new_person(stage, stopped_clock, receivers)
    person(stage, stopped_clock, whom.scope, unique("heron"))
    there = stage._key
    # Somebody in another project has the same phone.
    with_same_phone = newcomer(stage, live(stage, stage.project()), unique("ibis"), whom.phone)
    call(stage, stopped_clock, with_same_phone, channel="whatsapp")
    stage._key = there
    assert statuses(stage, whom) == {"attempting", "succeeded", "failed", "canceled"}
    counted, before = month_usage(whom.scope), rows()
    assert counted["messages"] >= 4
    assert counted["calls"] == 4
    assert list(remaining_data(whom, idempotency=True))

    lines = erase(stopped_clock, whom)

    after = rows()
    assert list(remaining_data(whom)) == []
    assert list(differences(before, after, whom)) == []
    assert month_usage(whom.scope) == counted
    assert {"erased 3 appointments", "erased 2 sessions", "erased 3 conversations", "erased the customer"} <= {*lines}
    assert not consents.find(whom.scope, whom.phone).row
    assert consents.find(with_same_phone.scope, whom.phone).row
    for path in whom.paths:
        assert stage.call("GET", path).status == 404, path
    for path in ("/v1/customers", "/v1/appointments", "/v1/sessions", "/v1/conversations", "/v1/events"):
        assert whom.mark not in stage.call("GET", f"{path}?limit=100").body.decode()
    assert not get_resource(stage, f"/v1/events?object_id={whom.id}")["data"]
    # Again, nothing is left to do.
    assert erase(stopped_clock, whom) == []
    assert month_usage(whom.scope) == counted


def test_an_erasure_that_is_killed_after_each_of_its_writes_is_completed(
    stage: Stage, stopped_clock: Clock, receivers: dict[str, Receiver]
) -> None:
    stopped_clock.now = 1_900_000_000.0
    whom = new_person(stage, stopped_clock, receivers)
    counted, before = month_usage(whom.scope), rows()
    trace(whom)
    deaths = 0
    # Each run marks the erasure, and dies after its next write.
    while deaths < 500:
        try:
            with die_after_write(after=1):
                for _ in erasing.erase(whom.scope, whom.id, none_stored):
                    pass
        except Killed:
            deaths += 1
        except erasing.NotYet as wait:
            stopped_clock.now = max(stopped_clock.now, wait.until / clock.SECOND)
        else:
            break
        assert month_usage(whom.scope) == counted
    assert 30 < deaths < 500
    assert list(remaining_data(whom)) == []
    assert list(differences(before, rows(), whom)) == []
    assert month_usage(whom.scope) == counted


def test_whoever_comes_late_writes_nothing_back(
    stage: Stage, stopped_clock: Clock, receivers: dict[str, Receiver]
) -> None:
    whom = new_person(stage, stopped_clock, receivers)
    assert {function for function, _ in whom.late} == {"deliver", "turn"}
    # Changes that fan_out has not seen yet, and those that it sees for a second time.
    moved = {"appointment_at": "2030-07-06T07:08:09Z"}
    assert stage.call("PATCH", f"/v1/appointments/{whom.appointments[0]}", moved).status == 200
    changes = stage.stream_records()
    assert changes
    erase(stopped_clock, whom)
    after = rows()

    stage.fan_out(changes)
    stage.settle()
    for function, record in whom.late:
        assert stage.invoke(function, {"Records": [record]}) == {"batchItemFailures": []}
    stopped_clock.forward(3600)
    stage.invoke("sweep", {})
    stage.settle()

    assert list(remaining_data(whom)) == []
    assert {*rows()} == {*after}


def test_a_change_is_no_event_though_fan_out_had_begun_before(
    stage: Stage, stopped_clock: Clock, receivers: dict[str, Receiver]
) -> None:
    scope = live(stage, stage.project())
    receiving(stage, receivers)
    whom = newcomer(stage, scope, unique("quetzal"))

    def begin() -> None:
        with suppress(erasing.NotYet):
            list(erasing.erase(whom.scope, whom.id, none_stored))

    with just_before("PutItem", begin):
        stage.fan_out()
    assert list(remaining_data(whom)), "the event was written"
    erase(stopped_clock, whom)
    assert list(remaining_data(whom)) == []


def test_an_erasure_waits_until_no_request_of_an_earlier_function_is_accepted() -> None:
    # A function that stands still sends its last request late. AWS refuses it five minutes after its signature.
    assert max(function.timeout_s for function in topology.FUNCTIONS) + 300 < erasing.SETTLES_S


def test_an_attempt_under_way_is_not_recorded(stage: Stage, stopped_clock: Clock) -> None:
    people, mark = list[Person](), unique("quetzal")

    def erased(exchange: Any) -> None:
        exchange.read_request()
        erase(stopped_clock, people[0])
        exchange.send(b"HTTP/1.1 503 No\r\nContent-Length: 24\r\nConnection: close\r\n\r\n" + mark.encode())

    scope = live(stage, stage.project())
    people.append(Person(scope, mark, "+15005550006"))
    with Receiver(erased) as receiver:
        receiving(stage, {"takes": receiver})
        people[0].id = create_resource(stage, "/v1/customers", phone="+15005550006", name=mark)["id"]
        stage.fan_out()
        stage.deliver("deliveries")
        assert len(receiver.requests) == 1
    assert list(remaining_data(people[0])) == []


def test_a_delivery_whose_event_is_erased_after_its_claim_is_not_sent(
    stage: Stage, stopped_clock: Clock, receivers: dict[str, Receiver]
) -> None:
    scope = live(stage, stage.project())
    receiving(stage, {"takes": receivers["takes"]})
    whom = newcomer(stage, scope, unique("quetzal"))
    stage.fan_out()
    [record, *_] = stage.messages("deliveries")
    with just_before("BatchGetItem", lambda: erase(stopped_clock, whom)):
        assert stage.invoke("deliver", {"Records": [record]}) == {"batchItemFailures": []}
    assert receivers["takes"].requests == []
    assert list(remaining_data(whom)) == []


def test_a_turn_under_way_is_not_kept(stage: Stage, stopped_clock: Clock) -> None:
    whom = newcomer(stage, live(stage, stage.project()), unique("quetzal"))
    whom.conversations.append(create_resource(stage, "/v1/conversations", customer={"id": whom.id})["id"])
    thread = Thread(whom.scope, whom.conversations[0], whom.id, whom.appointments[0])
    turn = wake_up(stage, thread, store_unanswered_message(stage, thread, f"Hello from {whom.mark}"))

    def begin() -> None:
        with suppress(erasing.NotYet):
            list(erasing.erase(whom.scope, whom.id, none_stored))

    with just_before("TransactWriteItems", begin):
        assert stage.invoke("turn", {"Records": [turn]}) == {"batchItemFailures": []}
    erase(stopped_clock, whom)
    assert list(remaining_data(whom)) == []


@pytest.mark.parametrize("answered", [True, False], ids=["answered", "pending"])
@pytest.mark.parametrize("by_thread", [False, True], ids=["by_id", "by_thread"])
def test_the_key_of_an_erased_message_is_404_at_once_and_creates_nothing_for_24_hours(
    stage: Stage, stopped_clock: Clock, by_thread: bool, answered: bool
) -> None:
    whom = newcomer(stage, live(stage, stage.project()), unique("quetzal"))
    thread = {"external_id": "t", "customer": {"id": whom.id}}
    whom.conversations.append(create_resource(stage, "/v1/conversations", **thread)["id"])
    path = "/v1/messages" if by_thread else f"/v1/conversations/{whom.conversations[0]}/messages"
    body = {"content": f"Hello from {whom.mark}", "customer": {"phone": whom.phone}}
    body |= {"external_conversation_id": "t"} if by_thread else {}

    def send_again(key: str, **other: str) -> Answer:
        with work_at_each_wait(stopped_clock, lambda: None):
            return stage.call("POST", path, body | other, headers=idempotency_header(key))

    first = send_again("k") if answered else Hurried(stage).call("POST", path, body, headers=idempotency_header("k"))
    assert first.status == (201 if answered else 504)
    expires_at = stopped_clock.now + 24 * 3600
    erase(stopped_clock, whom)
    assert whom.mark not in str(rows())
    for now in (stopped_clock.now, expires_at - 2):
        stopped_clock.now = now
        before = {*rows()}
        again = send_again("k")
        assert (again.status, again.code) == (404, "resource_not_found"), again.body
        assert again.headers["service-should-retry"] == "false"
        assert send_again("k", content="Another").code == "idempotency_key_reused"
        assert {*rows()} == before
    # Another key, or the same one after its 24 hours, begins a new conversation on the thread.
    assert send_again("another").status == (201 if by_thread else 404)
    stopped_clock.now = expires_at + 1
    assert send_again("k").status == (201 if by_thread else 404)


@pytest.mark.parametrize("key", [None, "k"])
def test_a_message_that_is_erased_while_its_request_waits_for_the_reply_is_404(
    stage: Stage, stopped_clock: Clock, key: str | None
) -> None:
    whom = newcomer(stage, live(stage, stage.project()), unique("quetzal"))
    body = {"external_conversation_id": "t", "content": "[[sim:timeout]]", "customer": {"id": whom.id}}
    with work_at_each_wait(stopped_clock, lambda: None, lambda: erase(stopped_clock, whom), lambda: None):
        response = stage.call("POST", "/v1/messages", body, headers=idempotency_header(key))
    assert (response.status, response.code) == (404, "resource_not_found"), response.body
    assert list(remaining_data(whom)) == []


def test_a_retry_during_whose_turn_the_message_is_erased_is_404(stage: Stage, stopped_clock: Clock) -> None:
    def given() -> tuple[Thread, Person]:
        thread = new_thread(stage, stage.project())
        store_unanswered_message(stage, thread, "Hello", "k")
        return thread, Person(thread.scope, unique("nobody"), simulated_phone("20"), thread.customer)

    thread, _ = given()
    with wire() as line:
        assert send(stage, thread, "Hello", "k").status == 201
    problems = []
    for position, operation in enumerate(line.operations()):
        if operation == "SendMessageBatch":
            # The request waits a second for its wake-ups, which an erasure in their thread could exceed.
            continue
        thread, whom = given()

        def erased(attempt: Try, whom: Person = whom) -> Any:
            with privileges.running(None):
                erase(stopped_clock, whom)
            return attempt.send()

        with wire(Fault(position, erased, tries=1)), work_at_each_wait(stopped_clock, *[lambda: None] * 3):
            response = send(stage, thread, "Hello", "k")
        if (response.status, response.code) != (404, "resource_not_found") or list(remaining_data(whom)):
            problems.append(
                f"{position} {operation}: {response.status} {response.body[:90]!r} {list(remaining_data(whom))}"
            )
    assert not problems, "\n".join(problems)


def test_nothing_begins_for_a_person_whose_erasure_has_begun(stage: Stage, stopped_clock: Clock) -> None:
    whom = newcomer(stage, live(stage, stage.project()), unique("quetzal"))
    conversation = create_resource(stage, "/v1/conversations", customer={"id": whom.id})["id"]
    with pytest.raises(erasing.NotYet):
        list(erasing.erase(whom.scope, whom.id, none_stored))
    refused = {
        stage.call("POST", "/v1/appointments", {"customer_id": whom.id, "appointment_at": "2030-01-01T00:00:00Z"}).code,
        stage.call("POST", f"/v1/customers/{whom.id}/call", {}).code,
        stage.call("PATCH", f"/v1/customers/{whom.id}", {"name": "quetzal"}).code,
        stage.call("POST", "/v1/conversations", {"customer": {"id": whom.id}}).code,
    }
    assert refused == {"customer_deleted"}
    message = stage.call("POST", f"/v1/conversations/{conversation}/messages", {"content": "Hello?"})
    assert message.code == "conversation_ended"
    stage.fan_out()
    assert not get_resource(stage, "/v1/events")["data"]


def test_a_person_who_comes_back_with_a_restored_table_is_erased_again(
    stage: Stage, stopped_clock: Clock, receivers: dict[str, Receiver]
) -> None:
    whom = new_person(stage, stopped_clock, receivers)
    counted, before = month_usage(whom.scope), rows()
    erase(stopped_clock, whom)
    merged = [row for key, row in rows().items() if key[1] == "erased" and key[0].startswith(whom.scope.pk("usage"))]
    for row in (*merged, {"pk": whom.scope.pk("erasure"), "sk": whom.id}):
        table.write([table.Delete(row["pk"], row["sk"])])
    put_back(before[key] for key in before.keys() - rows().keys())
    assert list(remaining_data(whom))
    assert month_usage(whom.scope) == counted
    erase(stopped_clock, whom)
    assert list(remaining_data(whom)) == []
    assert month_usage(whom.scope) == counted


def test_the_consent_of_a_phone_that_another_customer_has_is_kept(stage: Stage, stopped_clock: Clock) -> None:
    whom = newcomer(stage, live(stage, stage.project()), unique("quetzal"))
    call(stage, stopped_clock, whom, channel="whatsapp")
    other = create_resource(stage, "/v1/customers", phone=whom.phone)["id"]
    before = rows()
    lines = erase(stopped_clock, whom)
    assert "kept the consent of a phone that another customer has, too" in lines
    kept = (consents.pk(whom.scope, whom.phone), "consent")
    assert rows()[kept] == before[kept]
    # The last one to have the phone takes the consent along.
    another = Person(whom.scope, unique("nobody"), whom.phone, other)
    erase(stopped_clock, another)
    assert kept not in rows()
    assert list(remaining_data(another)) == []


def test_a_request_for_consent_that_waits_is_erased_and_its_answer_is_for_nobody(
    stage: Stage, stopped_clock: Clock
) -> None:
    project = stage.project()
    scope = Scope(project.id, False)
    phone, mark = simulated_phone("22"), unique("quetzal")  # never answers
    whom = Person(scope, mark, phone, create_resource(stage, "/v1/customers", phone=phone, name=mark)["id"])
    call = stage.call("POST", f"/v1/customers/{whom.id}/call", {"instructions": mark})
    assert call.status == 202, call.body
    whom.sessions.append(call.json["session_id"])
    consent = consents.find(scope, phone)
    assert consent.is_pending
    erase(stopped_clock, whom)
    stopped_clock.forward(8 * 24 * 3600)
    stage.invoke("sweep", {})
    for record in stage.messages("consents"):
        stage.invoke("consent", {"Records": [record]})
    assert list(remaining_data(whom)) == []


def test_an_unknown_customer_is_not_erased(stage: Stage) -> None:
    scope = live(stage, stage.project())
    unknown = "cust_" + "0" * 26
    before = rows()
    assert not erasing.exists(scope, unknown)
    assert list(erasing.erase(scope, unknown, none_stored)) == []
    assert rows() == before


def test_an_erasure_during_another_one_of_the_same_person_does_not_fail(stage: Stage) -> None:
    scope = live(stage, stage.project())
    id = create_resource(stage, "/v1/customers", phone=simulated_phone("06"))["id"]

    def remove() -> None:
        table.write([table.Delete(scope.pk("customer"), id)])

    with just_before("TransactWriteItems", remove), pytest.raises(erasing.NotYet):
        list(erasing.erase(scope, id, none_stored))
    assert table.get(scope.pk("customer"), id) is None
