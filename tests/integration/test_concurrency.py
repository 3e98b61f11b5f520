"""What holds however many do it at once: on DynamoDB Local, whose conditions and transactions are the real ones."""

from __future__ import annotations

import hashlib
import itertools
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from shared.core import clock
from shared.projects import api_keys, rate_limits
from shared.store import table, transactions
from shared.store.transactions import Change
from tests.support.clocks import Clock
from tests.support.concurrency import run_at_once
from tests.support.receivers import Receiver, answer
from tests.support.stage import Answer, Project, Stage
from tests.support.wire import wire

WHEN = "2030-05-06T07:08:09Z"
PHONE = "+15005550006"


def create(stage: Stage, kind: str, **fields: Any) -> Any:
    response = stage.call("POST", f"/v1/{kind}", fields)
    assert response.status == 201, response.body
    return response.json


def appointment_of(stage: Stage) -> Any:
    return create(stage, "appointments", customer_id=create(stage, "customers", phone=PHONE)["id"], appointment_at=WHEN)


def list_all(stage: Stage, path: str) -> list[Any]:
    response = stage.call("GET", f"{path}{'&' if '?' in path else '?'}limit=100")
    assert response.status == 200, response.body
    assert not response.json["has_more"]
    data: list[Any] = response.json["data"]
    return data


def events_about(stage: Stage, id: str) -> list[Any]:
    """The log of one resource, oldest first."""
    stage.fan_out()
    return list_all(stage, f"/v1/events?object_id={id}")[::-1]


def codes(answers: list[Answer]) -> Counter[str]:
    """How often there was which status, or error code."""
    return Counter(found.code if found.status >= 400 else str(found.status) for found in answers)


# Updates


def test_sixteen_writers_of_one_appointment_lose_nothing_and_emit_an_event_each(stage: Stage) -> None:
    path = f"/v1/appointments/{(made := appointment_of(stage))['id']}"
    writes = [lambda n=n: stage.call("PATCH", path, {"metadata": {f"k{n}": n}}) for n in range(16)]
    answers = run_at_once(writes)
    assert codes(answers) == {"200": 16}
    assert stage.call("GET", path).json["metadata"] == {f"k{n}": n for n in range(16)}
    # Each saw its own change, on top of what came before it.
    assert sorted(len(found.json["metadata"]) for found in answers) == list(range(1, 17))
    created, *updates = events_about(stage, made["id"])
    assert created["type"] == "appointment.created"
    assert [event["type"] for event in updates] == ["appointment.updated"] * 16
    before = [event["data"]["previous_attributes"]["metadata"] for event in updates]
    after = [event["data"]["object"]["metadata"] for event in updates]
    assert before == [{}, *after[:-1]]


def test_sixteen_writers_of_one_customer_lose_nothing_and_emit_an_event_each(stage: Stage) -> None:
    customer = create(stage, "customers", phone=PHONE)
    path = f"/v1/customers/{customer['id']}"
    keyed = [{"Idempotency-Key": f"k{n}"} if n % 2 else {} for n in range(16)]
    writes = [lambda n=n: stage.call("PATCH", path, {"metadata": {f"k{n}": n}}, headers=keyed[n]) for n in range(16)]
    assert codes(run_at_once(writes)) == {"200": 16}
    assert stage.call("GET", path).json["metadata"] == {f"k{n}": n for n in range(16)}
    created, *updates = events_about(stage, customer["id"])
    assert created["type"] == "customer.created"
    assert [event["type"] for event in updates] == ["customer.updated"] * 16
    # In the log as in the table, each change begins where the one before it ended.
    before = [event["data"]["previous_attributes"]["metadata"] for event in updates]
    after = [event["data"]["object"]["metadata"] for event in updates]
    assert before == [{}, *after[:-1]]


def test_of_racing_changes_of_status_each_that_happened_emitted_one_event(stage: Stage) -> None:
    made = appointment_of(stage)
    statuses = ["confirmed", "failed", "confirmed", "failed", "cancelled"]
    path = f"/v1/appointments/{made['id']}"
    answers = run_at_once([partial(stage.call, "PATCH", path, {"status": status}) for status in statuses])
    assert set(codes(answers)) <= {"200", "invalid_status_transition"}
    happened = events_about(stage, made["id"])
    chain = [event["data"]["object"]["status"] for event in happened]
    assert chain[-1] == stage.call("GET", path).json["status"] == "cancelled"
    assert [event["data"]["previous_attributes"]["status"] for event in happened[1:]] == chain[:-1]
    assert all(one != other for one, other in itertools.pairwise(chain))


# Idempotency-Keys


@pytest.mark.parametrize("count", [2, 16])
def test_however_many_come_at_once_with_one_key_there_is_one_effect_and_one_body(stage: Stage, count: int) -> None:
    customer = create(stage, "customers", phone=PHONE)
    bodies: dict[str, Any] = {
        "customers": {"phone": PHONE, "external_id": "one"},
        "appointments": {"customer_id": customer["id"], "appointment_at": WHEN, "external_id": "one"},
        "webhook_endpoints": {"url": "https://example.com/one"},
    }
    for kind, body in bodies.items():
        request = {"Idempotency-Key": f"{kind}-{count}"}
        answers = run_at_once([lambda: stage.call("POST", f"/v1/{kind}", body, headers=request)] * count)  # noqa: B023
        assert codes(answers) == {"201": count}
        assert len({found.body for found in answers}) == 1
        assert sum(found.headers.get("idempotent-replayed") == "true" for found in answers) == count - 1
        originals = {found.headers["original-request"] for found in answers if "original-request" in found.headers}
        [first] = [found for found in answers if "original-request" not in found.headers]
        assert originals == {first.headers["service-request-id"]}
        same = [item for item in list_all(stage, f"/v1/{kind}") if item["id"] == first.json["id"]]
        assert len(same) == 1
    assert len(list_all(stage, "/v1/customers")) == 2
    assert len(list_all(stage, "/v1/appointments")) == len(list_all(stage, "/v1/webhook_endpoints")) == 1
    stage.fan_out()
    types = Counter(event["type"] for event in list_all(stage, "/v1/events"))
    assert types == {"customer.created": 2, "appointment.created": 1}


def test_a_patch_sent_sixteen_times_at_once_with_one_key_reschedules_once(stage: Stage) -> None:
    made = appointment_of(stage)
    path, body = f"/v1/appointments/{made['id']}", {"appointment_at": "2031-01-01T00:00:00Z"}
    answers = run_at_once([lambda: stage.call("PATCH", path, body, headers={"Idempotency-Key": "once"})] * 16)
    assert codes(answers) == {"200": 16}
    assert len({found.body for found in answers}) == 1
    types = [event["type"] for event in events_about(stage, made["id"])]
    assert types == ["appointment.created", "appointment.rescheduled"]


def test_two_bodies_racing_for_one_key_have_one_effect_and_the_other_is_refused(stage: Stage) -> None:
    def work(n: int) -> Answer:
        body = {"phone": PHONE, "name": f"n{n % 2}"}
        return stage.call("POST", "/v1/customers", body, headers={"Idempotency-Key": "k"})

    answers = run_at_once([partial(work, n) for n in range(8)])
    assert codes(answers) == {"201": 4, "idempotency_key_reused": 4}
    assert len(list_all(stage, "/v1/customers")) == 1


# Limits


def test_of_sixteen_racing_for_the_last_places_exactly_sixteen_endpoints_exist(stage: Stage) -> None:
    for n in range(8):
        create(stage, "webhook_endpoints", url=f"https://example.com/{n}")
    works = [
        lambda n=n: stage.call("POST", "/v1/webhook_endpoints", {"url": f"https://example.com/r{n}"}) for n in range(16)
    ]
    assert codes(run_at_once(works)) == {"201": 8, "webhook_endpoint_limit": 8}
    assert len(list_all(stage, "/v1/webhook_endpoints")) == 16
    assert (
        stage.call("POST", "/v1/webhook_endpoints", {"url": "https://example.com/17"}).code == "webhook_endpoint_limit"
    )
    # A place that falls free is one place, however many delete the same endpoint at once.
    path = f"/v1/webhook_endpoints/{list_all(stage, '/v1/webhook_endpoints')[0]['id']}"
    assert codes(run_at_once([lambda: stage.call("DELETE", path)] * 8)) == {"200": 1, "resource_not_found": 7}
    assert codes(run_at_once(works[:4])) == {"201": 1, "webhook_endpoint_limit": 3}
    assert len(list_all(stage, "/v1/webhook_endpoints")) == 16


def ping_concurrently(stage: Stage, each: int) -> list[Answer]:
    """What sixteen threads get, each for so many pings."""
    answers = run_at_once([lambda: [stage.call("GET", "/v1/ping") for _ in range(each)]] * 16)
    return [found for part in answers for found in part]


def test_a_second_takes_exactly_a_hundred_requests(stage: Stage, stopped_clock: Clock) -> None:
    stopped_clock.now = stopped_clock.now // 60 * 60 + 70.5
    for _ in range(3):
        answers = ping_concurrently(stage, 12)
        assert codes(answers) == {"200": 100, "rate_limit_exceeded": 92}
        refused = [found for found in answers if found.status == 429]
        assert {found.headers["service-rate-limited-reason"] for found in refused} == {"second"}
        assert {found.headers["retry-after"] for found in refused} == {"1"}
        assert {found.headers["ratelimit"] for found in refused} == {'"second";r=0;t=1'}
        left = sorted(int(found.headers["ratelimit"].split("r=")[1].split(";")[0]) for found in answers)[-100:]
        assert left == list(range(100))
        stopped_clock.forward(1)


def counters(project: Project) -> table.Row:
    """The key's row."""
    found = table.get(f"KEY#{hashlib.sha256(project.test_key.encode()).hexdigest()}", "key")
    assert found is not None
    return found


def test_a_running_clock_never_lets_more_than_a_hundred_through_a_second(
    stage: Stage, project: Project, stopped_clock: Clock
) -> None:
    start = stopped_clock.now // 60 * 60 + 65
    looks = itertools.count()
    # Each look at the clock takes it a little further: some three seconds in all, and never over a minute's end.
    clock.use(lambda: start + next(looks) * 0.0008, lambda seconds: None)
    answers = ping_concurrently(stage, 60)
    counted = counters(project)["w"]
    seconds = {name: count for name, count in counted.items() if name != "n"}
    assert max(seconds.values()) == 100
    # What was let through was counted, once, in the second it was let through in.
    assert sum(seconds.values()) == counted["n"] == codes(answers)["200"]
    assert set(codes(answers)) == {"200", "rate_limit_exceeded"}


def test_a_minute_takes_exactly_five_thousand_requests(stage: Stage, project: Project, stopped_clock: Clock) -> None:
    minute = int(stopped_clock.now // 60) + 1
    stopped_clock.now = minute * 60 + 30.5
    key = counters(project)
    used = {"n": rate_limits.PER_MINUTE - 150} | {f"s{n}": 97 for n in range(30)}
    table.write_and_get(table.Update(key["pk"], key["sk"], set={"m": minute, "w": used}))
    assert codes(ping_concurrently(stage, 10)) == {"200": 100, "rate_limit_exceeded": 60}
    stopped_clock.forward(1)
    answers = ping_concurrently(stage, 10)
    assert codes(answers) == {"200": 50, "rate_limit_exceeded": 110}
    refused = [found for found in answers if found.status == 429]
    assert {found.headers["service-rate-limited-reason"] for found in refused} == {"minute"}
    assert {found.headers["retry-after"] for found in refused} == {"29"}
    stopped_clock.now = (minute + 1) * 60
    assert codes(ping_concurrently(stage, 1)) == {"200": 16}


# A host's clock that runs ahead

DAY = 24 * 3600


def count_by_another_host(project: Project, minute: int, **counts: int) -> None:
    """The key's row as a host leaves it whose clock shows this minute."""
    key = counters(project)
    table.write_and_get(table.Update(key["pk"], key["sk"], set={"m": minute, "w": counts}))


def ping(stage: Stage) -> tuple[str, str | None]:
    """What a ping gets, and when to come back."""
    response = stage.call("GET", "/v1/ping")
    return response.code if response.status >= 400 else str(response.status), response.headers.get("retry-after")


@pytest.mark.parametrize("ahead", [2 * 60, DAY, 365 * DAY])
@pytest.mark.parametrize("spent", [1, rate_limits.PER_MINUTE])
@pytest.mark.parametrize("warm", [False, True], ids=["fresh", "warm"])
def test_a_minute_counted_by_a_clock_that_ran_ahead_locks_nobody_out(
    stage: Stage, project: Project, stopped_clock: Clock, warm: bool, spent: int, ahead: int
) -> None:
    minute = int(stopped_clock.now // 60) + 1
    stopped_clock.now = minute * 60 + 30.5
    if warm:
        assert ping(stage) == ("200", None)
    count_by_another_host(project, minute + ahead // 60, n=spent, s0=min(spent, rate_limits.PER_SECOND))
    answers = ping_concurrently(stage, 10)
    assert codes(answers) == {"200": 100, "rate_limit_exceeded": 60}
    assert {found.headers["retry-after"] for found in answers if found.status == 429} == {"1"}
    stopped_clock.forward(1)
    count_by_another_host(project, minute, n=rate_limits.PER_MINUTE)
    assert ping(stage) == ("rate_limit_exceeded", "29")
    stopped_clock.now = (minute + 1) * 60
    assert ping(stage) == ("200", None)


@pytest.mark.parametrize("spent", [0, rate_limits.PER_SECOND, rate_limits.PER_MINUTE])
def test_a_container_whose_clock_was_a_day_ahead_and_is_set_back_locks_nobody_out(
    stage: Stage, project: Project, stopped_clock: Clock, spent: int
) -> None:
    minute = int(stopped_clock.now // 60) + 1
    right = minute * 60 + 30.5
    for _ in range(2):
        stopped_clock.now = right + DAY
        assert ping(stage) == ("200", None)
        count_by_another_host(project, minute + DAY // 60, n=spent, s30=min(spent, rate_limits.PER_SECOND))
        # What it refuses, it remembers.
        refused = [("rate_limit_exceeded", "30" if spent == rate_limits.PER_MINUTE else "1")] if spent else []
        assert [ping(stage) for _ in refused * 2] == refused * 2
        stopped_clock.now = right
        assert ping(stage) == ("200", None)
        assert counters(project)["m"] == minute
        assert counters(project)["w"] == {"n": 1, "s30": 1}


@pytest.mark.parametrize("warm", [False, True], ids=["fresh", "warm"])
def test_the_next_minute_of_a_clock_slightly_ahead_is_counted_in(
    stage: Stage, project: Project, stopped_clock: Clock, warm: bool
) -> None:
    minute = int(stopped_clock.now // 60) + 1
    stopped_clock.now = minute * 60 + 59.8
    if warm:
        assert ping(stage) == ("200", None)
    count_by_another_host(project, minute + 1, n=40, s0=40)
    assert codes(ping_concurrently(stage, 5)) == {"200": 60, "rate_limit_exceeded": 20}
    assert counters(project)["w"] == {"n": 100, "s0": 100}
    assert ping(stage) == ("rate_limit_exceeded", "2")
    stopped_clock.now = (minute + 1) * 60 + 0.9
    assert ping(stage) == ("rate_limit_exceeded", "1")
    stopped_clock.forward(0.1)
    assert ping(stage) == ("200", None)
    stopped_clock.now = (minute + 1) * 60 + 59.5
    count_by_another_host(project, minute + 2, n=rate_limits.PER_MINUTE)
    for _ in range(2):
        response = stage.call("GET", "/v1/ping")
        assert (response.code, response.headers["retry-after"]) == ("rate_limit_exceeded", "61")
        assert response.headers["ratelimit"] == '"minute";r=0;t=61'


def test_refused_requests_cost_no_further_writes(stage: Stage, stopped_clock: Clock) -> None:
    answers = ping_concurrently(stage, 8)
    assert codes(answers)["200"] == 100
    with wire() as line:
        assert codes(ping_concurrently(stage, 4)) == {"rate_limit_exceeded": 64}
        unknown = "sk_test_" + "Z" * 32
        assert stage.call("GET", "/v1/ping", key=unknown).code == "api_key_invalid"
        assert len(line.calls) == 1
        for _ in range(10):
            assert stage.call("GET", "/v1/ping", key=unknown).code == "api_key_invalid"
    assert len(line.calls) == 1


# Deliveries


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A receiver that refuses what it is sent first, and takes the rest."""
    with Receiver(answer(400), answer(200)) as found:
        yield found


def failed_delivery_path(stage: Stage, receiver: Receiver) -> str:
    """The path of a failed delivery."""
    create(stage, "webhook_endpoints", url=receiver.url)
    create(stage, "customers", phone=PHONE)
    stage.settle()
    [event] = list_all(stage, "/v1/events")
    [delivery] = list_all(stage, f"/v1/events/{event['id']}/deliveries")
    assert delivery["status"] == "failed"
    return f"/v1/events/{event['id']}/deliveries/{delivery['id']}"


@pytest.mark.parametrize("count", [2, 16])
def test_of_manual_retries_at_once_one_is_queued_and_the_others_find_it_in_progress(
    stage: Stage, receiver: Receiver, count: int
) -> None:
    path = failed_delivery_path(stage, receiver)
    answers = run_at_once([lambda: stage.call("POST", f"{path}/retry")] * count)
    assert codes(answers) == {"202": 1, "delivery_in_progress": count - 1}
    stage.settle()
    assert len(receiver.requests) == 2
    assert stage.call("POST", f"{path}/retry").status == 202


def test_manual_retries_at_once_with_one_key_queue_one_delivery_and_all_show_it(
    stage: Stage, receiver: Receiver
) -> None:
    path = failed_delivery_path(stage, receiver)
    answers = run_at_once([lambda: stage.call("POST", f"{path}/retry", headers={"Idempotency-Key": "r"})] * 8)
    assert codes(answers) == {"202": 8}
    assert len({found.body for found in answers}) == 1
    stage.settle()
    assert len(receiver.requests) == 2


def test_a_wake_up_given_to_sixteen_workers_at_once_is_sent_once(stage: Stage) -> None:
    with Receiver(answer(200)) as receiver:
        create(stage, "webhook_endpoints", url=receiver.url)
        create(stage, "customers", phone=PHONE)
        stage.fan_out()
        [message] = stage.messages("deliveries")
        run_at_once([lambda: stage.invoke("deliver", {"Records": [message]})] * 16)
        assert len(receiver.requests) == 1
    [event] = list_all(stage, "/v1/events")
    [delivery] = list_all(stage, f"/v1/events/{event['id']}/deliveries")
    assert (delivery["status"], delivery["attempt_count"]) == ("succeeded", 1)


def test_a_batch_fanned_out_by_sixteen_at_once_makes_its_events_and_deliveries_once(stage: Stage) -> None:
    with Receiver(answer(200)) as receiver:
        create(stage, "webhook_endpoints", url=receiver.url)
        for _ in range(5):
            create(stage, "customers", phone=PHONE)
        batch = stage.stream_records()
        run_at_once([lambda: stage.fan_out(batch)] * 16)
        stage.settle()
        assert len(receiver.requests) == 5
    assert len(list_all(stage, "/v1/events")) == 5


# Deletions


def test_a_change_that_races_a_deletion_comes_before_it_or_is_refused(stage: Stage) -> None:
    for kind, refusal in (("customers", "customer_deleted"), ("appointments", "appointment_deleted")):
        for _ in range(6):
            made = appointment_of(stage) if kind == "appointments" else create(stage, "customers", phone=PHONE)
            path = f"/v1/{kind}/{made['id']}"
            patches = [lambda n=n: stage.call("PATCH", path, {"metadata": {f"k{n}": n}}) for n in range(3)]  # noqa: B023
            *changed, deleted = run_at_once([*patches, lambda: stage.call("DELETE", path)])  # noqa: B023
            assert deleted.status == 200
            assert set(codes(changed)) <= {"200", refusal}
            # What was changed before is in what the deletion answered; nothing was changed after it.
            done = {f"k{n}" for n, found in enumerate(changed) if found.status == 200}
            assert set(deleted.json["metadata"]) == done
            assert stage.call("GET", path).json == deleted.json
            assert stage.call("DELETE", path).body == deleted.body
            types = [event["type"] for event in events_about(stage, made["id"])]
            assert types.count("customer.deleted" if kind == "customers" else "appointment.cancelled") == 1
            assert types[-1] in ("customer.deleted", "appointment.cancelled")


def test_deleting_many_times_at_once_deletes_once(stage: Stage) -> None:
    made = appointment_of(stage)
    path = f"/v1/appointments/{made['id']}"
    answers = run_at_once([lambda: stage.call("DELETE", path)] * 16)
    assert codes(answers) == {"200": 16}
    assert len({found.body for found in answers}) == 1
    types = [event["type"] for event in events_about(stage, made["id"])]
    assert types == ["appointment.created", "appointment.cancelled"]


def test_no_appointment_is_made_once_the_deletion_of_its_customer_was_answered(stage: Stage) -> None:
    for _ in range(6):
        customer = create(stage, "customers", phone=PHONE)
        gone = threading.Event()

        def book(customer: Any = customer, gone: threading.Event = gone) -> list[tuple[bool, Answer]]:
            found = []
            for _ in range(4):
                too_late = gone.is_set()
                body = {"customer_id": customer["id"], "appointment_at": WHEN}
                found.append((too_late, stage.call("POST", "/v1/appointments", body)))
            return found

        def delete(customer: Any = customer, gone: threading.Event = gone) -> list[tuple[bool, Answer]]:
            assert stage.call("DELETE", f"/v1/customers/{customer['id']}").status == 200
            gone.set()
            return []

        answers = [each for part in run_at_once([book, book, book, delete]) for each in part]
        assert set(codes([found for _, found in answers])) <= {"201", "customer_deleted"}
        assert all(found.code == "customer_deleted" for too_late, found in answers if too_late)
        made = list_all(stage, f"/v1/appointments?customer_id={customer['id']}")
        assert len(made) == codes([found for _, found in answers])["201"]


def test_the_header_names_the_window_that_refuses(stage: Stage, project: Project, stopped_clock: Clock) -> None:
    minute = int(stopped_clock.now // 60) + 1
    stopped_clock.now = minute * 60 + 30.5
    count_by_another_host(project, minute, n=rate_limits.PER_MINUTE - 1, s30=rate_limits.PER_SECOND - 1)
    assert ping(stage) == ("200", None)
    for _ in range(2):
        response = stage.call("GET", "/v1/ping")
        assert response.headers["service-rate-limited-reason"] == "minute"
        assert response.headers["ratelimit"] == f'"minute";r=0;t={response.headers["retry-after"]}'
        stopped_clock.forward(5)


def test_a_key_that_is_revoked_after_it_reached_its_limit_is_told_so(
    stage: Stage, project: Project, stopped_clock: Clock
) -> None:
    minute = int(stopped_clock.now // 60) + 1
    stopped_clock.now = minute * 60 + 1.5
    count_by_another_host(project, minute, n=rate_limits.PER_MINUTE)
    assert ping(stage) == ("rate_limit_exceeded", "59")
    [key] = [key for key in api_keys.of_project(project.id) if not key.livemode]
    transactions.commit(lambda: api_keys.revoke(project.id, key.id))
    stopped_clock.forward(5)
    assert ping(stage) == ("api_key_revoked", None)


# Transactions of which several conditions fail


@pytest.mark.usefixtures("stage")
@pytest.mark.parametrize("order", sorted(itertools.permutations(("record", "rule", "version"))))
def test_the_first_refusal_decides_and_then_any_other_whatever_the_order_of_the_writes(order: tuple[str, ...]) -> None:
    pk = "ORDER#" + "".join(order)
    table.write([table.Put({"pk": pk, "sk": "record"}), table.Put({"pk": pk, "sk": "version", "v": 2})])
    writes: dict[str, table.Write] = {
        "record": table.Put(
            {"pk": pk, "sk": "record"}, refusal=table.Refusal(lambda row: FileExistsError(row["sk"]), goes_first=True)
        ),
        "rule": table.Check(pk, "rule", refusal=table.Refusal(lambda _: PermissionError())),
        "version": table.Update(pk, "version", set={"v": 2}, condition=table.unchanged(1)),
    }
    with pytest.raises(FileExistsError, match="record"):
        transactions.commit(lambda: Change(None, [writes[name] for name in order]))
    with pytest.raises(PermissionError):
        transactions.commit(lambda: Change(None, [writes[name] for name in order if name != "record"]))
