"""Contract sections 7 and 10: placing calls, what becomes of them, and what is told of it."""

from __future__ import annotations

import io
import time
import urllib.request
import wave
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from tests.support.client import Client, Response, assert_error, assert_replay, eventually
from tests.support.given import (
    UNKNOWN,
    Subscribe,
    call,
    call_ended,
    create_appointment,
    create_conversation,
    create_customer,
    event_about,
    events_about,
    retrieve_session,
    seconds,
    send,
    session_ended,
    session_when,
    sessions_of,
    settle,
    simulated_phone,
    unique,
)
from tests.support.racing import at_once
from tests.support.runner import Service, local_runner, needs_a_runner_of_its_own, quick_folder
from tests.support.shapes import assert_answered, assert_shape
from tests.support.signed_receiver import Hook


@dataclass(frozen=True)
class Row:
    """One of contract section 10's table. `effect` is the appointment's new status, `talked` with a customer."""

    call_status: str
    ended_reasons: frozenset[str]
    answered_by: str | None = None
    effect: str | None = None
    talked: bool = False
    answer: int = 201
    consent: str | None = None
    channel: str = "phone"


HANGUPS = frozenset({"customer_hangup", "agent_hangup"})


def unanswered(call_status: str, ended_reason: str, **fields: Any) -> Row:
    return Row(call_status, frozenset({ended_reason}), **fields)


def conversed(effect: str | None, **fields: Any) -> Row:
    return Row("completed", HANGUPS, "human", effect, talked=True, **fields)


def asked(consent: str, row: Row) -> Row:
    return Row(**(vars(row) | {"answer": 202, "consent": consent, "channel": "whatsapp"}))


ROWS = {
    "00": conversed("confirmed"),
    "01": unanswered("invalid_number", "invalid_number"),
    "02": unanswered("no_answer", "no_answer"),
    "03": unanswered("no_answer", "busy"),
    "04": unanswered("failed", "blocked"),
    "05": Row("call_later", frozenset({"callback_requested"}), "human", talked=True),
    "06": conversed("confirmed"),
    "07": unanswered("no_answer", "voicemail", answered_by="machine"),
    "08": conversed("rescheduled"),
    "09": conversed("cancelled"),
    "10": conversed(None),
    "11": unanswered("failed", "provider_error"),
    "20": asked("granted", conversed("confirmed")),
    "21": asked("declined", unanswered("failed", "consent_declined")),
    "22": asked("expired", unanswered("failed", "consent_expired")),
    "23": conversed("confirmed", channel="whatsapp"),
}
MODES = ("client", "live")

AT, A_DAY_LATER = "2030-05-06T07:08:09.000Z", "2030-05-07T07:08:09.000Z"
STATUSES = frozenset({"call_status", "transcript_status", "recording_status"})
UNEVENTED = frozenset({"transcript_status", "recording_status", "answered_at", "answered_by", "consent", "summary"})
"""What may change in a step that is no event, so that the next event's previous value is not the last event's."""


@dataclass(frozen=True)
class Placed:
    """A call of the table and all that was seen of it, when nothing more was to come."""

    row: Row
    client: Client
    hook: Hook | None
    answer: Response
    customer: Any
    before: Any
    """The appointment as it was before the call."""
    appointment: Any
    session: Any
    events: list[Any]
    appointment_events: list[Any]

    @property
    def session_id(self) -> str:
        return str(self.answer.json["session_id"])


def place_all(client: Client, hook: Hook | None) -> dict[str, Placed]:
    """A call of each row, all at once."""

    def place(outcome: str) -> tuple[Any, Any, Response]:
        customer = create_customer(client, phone=simulated_phone(outcome))
        appointment = create_appointment(client, customer["id"], appointment_at=AT)
        body = {"appointment_id": appointment["id"], "metadata": {"outcome": outcome, "price": 1.0}}
        return customer, appointment, call(client, customer["id"], body)

    with ThreadPoolExecutor(4) as pool:
        made = dict(zip(ROWS, pool.map(place, ROWS), strict=True))
    for outcome, (_, _, answer) in made.items():
        session_when(
            client,
            answer.ok(ROWS[outcome].answer)["session_id"],
            recorded if ROWS[outcome].talked else call_ended,
            # A deployed service takes the 60 s that stand for seven days.
            timeout=90 if outcome == "22" else 20,
        )
    settle(client, "customer")
    return {
        outcome: Placed(
            row=ROWS[outcome],
            client=client,
            hook=hook,
            answer=answer,
            customer=customer,
            before=before,
            appointment=client.get(f"/v1/appointments/{before['id']}").ok(),
            session=retrieve_session(client, answer.json["session_id"]),
            events=events_about(client, answer.json["session_id"]),
            appointment_events=events_about(client, before["id"]),
        )
        for outcome, (customer, before, answer) in made.items()
    }


def recorded(session: Any) -> bool:
    statuses = {session["transcript_status"], session["recording_status"]}
    return call_ended(session) and statuses <= {"available", "failed"}


@pytest.fixture(scope="module")
def placed(
    request: pytest.FixtureRequest, service: Service, subscribe_module: Subscribe
) -> dict[tuple[str, str], Placed]:
    """By mode and number."""
    found: dict[tuple[str, str], Placed] = {}
    for mode in MODES:
        client: Client = request.getfixturevalue(mode)
        hook: Hook | None = None
        if service.speed is not None:
            hook = request.getfixturevalue("receiver").hook()
            subscribe_module(client, hook, "session.*", "appointment.*")
        found |= {(mode, outcome): one for outcome, one in place_all(client, hook).items()}
    return found


@pytest.fixture(params=[(mode, outcome) for mode in MODES for outcome in ROWS], ids="-".join)
def over(request: pytest.FixtureRequest, placed: dict[tuple[str, str], Placed]) -> Placed:
    return placed[request.param]


def test_the_answer_tells_of_the_call(over: Placed) -> None:
    found = over.answer.ok(over.row.answer)
    assert_shape(found, "call")
    assert found == {
        "object": "call",
        "status": "consent_pending" if over.row.answer == 202 else "queued",
        "session_id": found["session_id"],
        "customer_id": over.customer["id"],
        "appointment_id": over.before["id"],
        "channel": over.row.channel,
        "call_status": "queued",
        "livemode": over.customer["livemode"],
        "created_at": over.session["created_at"],
    }
    path = f"{over.client.base_path}/v1/sessions/{found['session_id']}"
    assert over.answer.headers.get("Location") in ({path} if over.row.answer == 201 else {path, None})


def test_the_call_ends_as_its_number_says(over: Placed) -> None:
    session, row = over.session, over.row
    assert_shape(session, "session")
    assert (session["call_status"], session["answered_by"]) == (row.call_status, row.answered_by)
    assert session["ended_reason"] in row.ended_reasons
    assert (session["transcript_status"], session["recording_status"]) == (("available" if row.talked else "none"),) * 2
    assert (
        session
        | {
            "livemode": over.customer["livemode"],
            "customer_id": over.customer["id"],
            "appointment_id": over.before["id"],
            "channel": row.channel,
            "to": over.customer["phone"],
            "metadata": {"outcome": over.customer["phone"][-2:], "price": 1.0},
        }
        == session
    )


def test_its_times_are_in_order(over: Placed) -> None:
    session, row = over.session, over.row
    names = ("created_at", "dialed_at", "answered_at", "ended_at", "updated_at")
    times = [session[name] for name in names if session[name] is not None]
    assert times == sorted(times)
    assert session["ended_at"] is not None
    if row.talked:
        assert session["dialed_at"] is not None
        assert session["answered_at"] is not None
        assert session["duration_seconds"] >= 0
    if row.call_status == "no_answer":
        assert session["dialed_at"] is not None
    if row.answered_by is None:
        assert session["answered_at"] is None
        assert not session["duration_seconds"]
    if row.consent in {"declined", "expired"}:
        assert session["dialed_at"] is None


def test_only_who_asked_for_another_time_has_one(over: Placed) -> None:
    if over.row.call_status == "call_later":
        assert seconds(over.session["call_later_at"]) > max(seconds(over.session["ended_at"]), time.time())
    else:
        assert over.session["call_later_at"] is None


def test_its_consent_tells_what_the_customer_answered(over: Placed, service: Service) -> None:
    consent, speed = over.session["consent"], service.speed or 1
    if over.row.consent is None:
        # Consent that was on file may be shown; a phone call needs none.
        assert consent is None or (over.row.channel, consent["status"]) == ("whatsapp", "granted")
        return
    assert consent["status"] == over.row.consent
    requested_at, expires_at = seconds(consent["requested_at"]), seconds(consent["expires_at"])
    assert requested_at < expires_at
    if over.row.consent == "expired":
        assert consent["responded_at"] is None
        assert expires_at - requested_at == pytest.approx(60 / speed, rel=0.05)
        assert consent["expires_at"] <= over.session["ended_at"]
    else:
        assert seconds(consent["responded_at"]) - requested_at >= 4.5 / speed
        assert consent["responded_at"] <= consent["expires_at"]
        assert consent["responded_at"] <= (over.session["dialed_at"] or over.session["ended_at"])


def test_the_appointment_changes_as_the_number_says(over: Placed) -> None:
    before, now, effect = over.before, over.appointment, over.row.effect
    assert_shape(now, "appointment")
    changed = {"session_id": over.session_id, "status": effect or "pending", "updated_at": now["updated_at"]}
    if effect == "rescheduled":
        changed["appointment_at"] = A_DAY_LATER
    if effect == "cancelled":
        changed["cancellation_reason"] = now["cancellation_reason"]
    assert now == before | changed


# What is told of it.


def steps(over: Placed) -> list[str]:
    """The types of the session's events up to the call's end."""
    dialing = ["session.dialing"] if over.session["dialed_at"] is not None else []
    return ["session.created", *dialing, f"session.{over.row.call_status}"]


def test_each_step_is_one_event(over: Placed) -> None:
    types = [event["type"] for event in over.events]
    expected = steps(over)
    assert types[: len(expected)] == expected
    ready = ["session.recording_ready", "session.transcript_ready"] if over.row.talked else []
    assert sorted(types[len(expected) :]) == ready
    for event in over.events:
        assert_shape(event, "event")
        assert_shape(event["data"]["object"], "session")
        assert event["livemode"] == event["data"]["object"]["livemode"] == over.customer["livemode"]


def test_an_event_has_the_state_before_and_after_it(over: Placed) -> None:
    created, *changes = over.events
    assert "previous_attributes" not in created["data"]
    earlier = created["data"]["object"]
    assert (earlier["call_status"], earlier["dialed_at"], earlier["ended_at"]) == ("queued", None, None)
    assert (earlier["transcript_status"], earlier["recording_status"]) == ("none", "none")
    for event in changes:
        now, previous = event["data"]["object"], event["data"]["previous_attributes"]
        assert "updated_at" not in previous
        assert [name for name, value in previous.items() if now[name] == value] == []
        changed = {name: value for name, value in earlier.items() if value != now[name]}
        kept = set(now) - UNEVENTED - {"updated_at"}
        assert {name: previous[name] for name in kept & set(previous)} == {
            name: changed[name] for name in kept & set(changed)
        }
        name = event["type"].removeprefix("session.").removesuffix("_ready")
        status = f"{name}_status" if event["type"].endswith("_ready") else "call_status"
        assert STATUSES & set(previous) == {status}, "no event tells of two statuses"
        assert now[status] == ("available" if status != "call_status" else name)
        assert status == "call_status" or previous[status] in {"none", "processing"}
        earlier = now


def test_what_the_last_event_shows_is_what_the_session_reads(over: Placed) -> None:
    last = max((event["data"]["object"] for event in over.events), key=lambda session: session["updated_at"])
    kept = set(last) - UNEVENTED - {"updated_at"}
    assert {name: last[name] for name in kept} == {name: over.session[name] for name in kept}


def test_the_change_of_the_appointment_is_one_event(over: Placed) -> None:
    created, *changes = over.appointment_events
    assert created["type"] == "appointment.created"
    if over.row.effect is None:
        assert changes == []
        return
    (event,) = changes
    now, before = over.appointment, over.before | {"session_id": over.session_id}
    assert event["type"] == f"appointment.{over.row.effect}"
    assert event["data"] == {
        "object": now,
        "previous_attributes": {
            name: value for name, value in before.items() if value != now[name] and name != "updated_at"
        },
    }


def test_a_receiver_gets_each_event_once(over: Placed) -> None:
    hook = over.hook
    if hook is None:
        pytest.skip("a deployed service cannot reach a receiver on loopback")
    expected = {event["id"]: event for event in over.events + over.appointment_events}
    objects = (over.session_id, over.before["id"])
    received = eventually(
        lambda: len(found := [one.event for id_ in objects for one in hook.about(id_)]) >= len(expected) and found
    )
    assert sorted(event["id"] for event in received) == sorted(expected)
    for event in received:
        assert event == expected[event["id"]]


# Transcript and recording.


@pytest.mark.smoke
def test_a_call_that_is_over_can_be_read_and_heard(client: Client) -> None:
    customer = create_customer(client, phone=simulated_phone("06"))
    appointment = create_appointment(client, customer["id"])
    session_id = call(client, customer["id"], {"appointment_id": appointment["id"]}).ok(201)["session_id"]
    session = session_when(client, session_id, recorded, timeout=60)
    assert (session["call_status"], session["answered_by"]) == ("completed", "human")
    assert client.get(f"/v1/appointments/{appointment['id']}").ok()["status"] == "confirmed"
    assert client.get(f"/v1/sessions/{session_id}/transcript").ok()["data"]
    with without_proxy().open(client.get(f"/v1/sessions/{session_id}/recording").ok()["url"], timeout=20) as sound:
        assert sound.read(4) == b"RIFF"
    for type_ in ("created", "dialing", "completed", "transcript_ready", "recording_ready"):
        event_about(client, session_id, f"session.{type_}")
    event_about(client, appointment["id"], "appointment.confirmed")


def test_a_transcript_is_a_dialogue(over: Placed) -> None:
    response = over.client.get(f"/v1/sessions/{over.session_id}/transcript")
    if not over.row.talked:
        assert_error(response, 404, "resource_not_found")
        return
    found = response.ok()
    assert_shape(found, "transcript")
    assert (found["session_id"], found["status"]) == (over.session_id, "available")
    lines = found["data"]
    assert len(lines) >= 3
    assert [line["role"] for line in lines] == [("agent", "customer")[n % 2] for n in range(len(lines))]
    assert all(line["content"].strip() for line in lines)
    assert len({line["content"] for line in lines}) > len(lines) / 2, "it repeats itself"
    times = [line[name] for line in lines for name in ("started_at_ms", "ended_at_ms")]
    assert times[0] >= 0
    assert times == sorted(times), "two speak at once"
    assert all(line["started_at_ms"] < line["ended_at_ms"] for line in lines)


def test_a_recording_plays_and_is_as_long_as_the_talk(over: Placed) -> None:
    path = f"/v1/sessions/{over.session_id}"
    asked_at = time.time()
    response = over.client.get(f"{path}/recording")
    if not over.row.talked:
        assert_error(response, 404, "resource_not_found")
        return
    found = response.ok()
    assert_shape(found, "recording")
    assert (found["session_id"], found["status"]) == (over.session_id, "available")
    assert seconds(found["url_expires_at"]) - asked_at == pytest.approx(15 * 60, abs=10)
    with without_proxy().open(found["url"], timeout=20) as download:
        assert download.status == 200
        assert download.headers["Content-Type"] == found["content_type"]
        with wave.open(io.BytesIO(download.read())) as sound:
            length = sound.getnframes() / sound.getframerate()
    said = over.client.get(f"{path}/transcript").ok()["data"]
    assert length > 1
    assert found["duration_seconds"] == pytest.approx(length, abs=0.5)
    assert 0 <= length - said[-1]["ended_at_ms"] / 1000 < 1


def without_proxy() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(urllib.request.ProxyHandler({}))


def test_customers_who_want_different_things_say_so(placed: dict[tuple[str, str], Placed]) -> None:
    said = set()
    for outcome in ("00", "05", "08", "09", "10"):
        one = placed["client", outcome]
        lines = one.client.get(f"/v1/sessions/{one.session_id}/transcript").ok()["data"]
        said.add(" ".join(line["content"] for line in lines if line["role"] == "customer"))
    assert len(said) == 5


# Which numbers do what.


@pytest.mark.parametrize(
    ("phone", "outcome"),
    [
        ("+15005550000", "00"),
        ("+15005550002", "02"),
        ("+15005550005", "05"),
        ("+15005550111", "11"),
        # Any other number acts as 00.
        ("+15005550012", "00"),
        ("+15005550099", "00"),
        ("+14155550112", "00"),
        ("+14155550202", "00"),
        ("+14155560101", "00"),
        ("+4930123401", "00"),
        ("+44155550101", "00"),
    ],
)
def test_a_number_of_another_form_has_its_outcome(client: Client, phone: str, outcome: str) -> None:
    customer = create_customer(client, phone=phone)
    made = call(client, customer["id"]).ok(201)
    assert made["channel"] == "phone"
    session = session_ended(client, made["session_id"])
    row = ROWS[outcome]
    assert (session["to"], session["call_status"], session["answered_by"]) == (phone, row.call_status, row.answered_by)
    assert session["ended_reason"] in row.ended_reasons


# What a call may ask for.


@pytest.mark.parametrize("outcome", ["00", "09"])
def test_without_an_appointment_the_call_concerns_none(client: Client, outcome: str) -> None:
    customer = create_customer(client, phone=simulated_phone(outcome))
    appointment = create_appointment(client, customer["id"])
    made = call(client, customer["id"]).ok(201)
    assert_shape(made, "call")
    assert made["appointment_id"] is None
    session = session_ended(client, made["session_id"])
    assert (session["call_status"], session["appointment_id"]) == ("completed", None)
    assert (session["metadata"], session["consent"]) == ({}, None)
    event_about(client, session["id"], "session.transcript_ready")
    assert client.get(f"/v1/appointments/{appointment['id']}").ok() == appointment
    assert [event["type"] for event in events_about(client, appointment["id"])] == ["appointment.created"]


@pytest.mark.parametrize(
    "body",
    [
        None,
        {},
        {"channel": "phone"},
        {"instructions": "x" * 2000},
        {"instructions": "Ask for Zoë.\nBe\tbrief."},
        {"appointment_id": None, "channel": None, "instructions": None},
        {"metadata": {"a": [1.0, {"b": None}]}},
    ],
)
def test_every_field_of_the_request_is_optional(client: Client, body: dict[str, Any] | None) -> None:
    customer = create_customer(client, phone=simulated_phone("02"))
    made = call(client, customer["id"], body).ok(201)
    assert_shape(made, "call")
    assert (made["status"], made["channel"], made["appointment_id"]) == ("queued", "phone", None)
    assert retrieve_session(client, made["session_id"])["metadata"] == ((body or {}).get("metadata") or {})


@pytest.mark.parametrize(
    ("body", "codes", "param"),
    [
        ({"instructions": "x" * 2001}, {"parameter_invalid"}, "instructions"),
        ({"instructions": 5}, {"parameter_invalid"}, "instructions"),
        ({"instructions": "a\x00b"}, {"parameter_invalid"}, "instructions"),
        ({"channel": "sms"}, {"parameter_invalid"}, "channel"),
        ({"channel": "Phone"}, {"parameter_invalid"}, "channel"),
        ({"channel": 1}, {"parameter_invalid"}, "channel"),
        ({"metadata": 3}, {"parameter_invalid", "metadata_invalid"}, "metadata"),
        ({"metadata": {"k": "x" * 600}}, {"metadata_invalid"}, "metadata[k]"),
        ({"appointment_id": 5}, {"parameter_invalid", "resource_not_found"}, "appointment_id"),
        ({"appointment_id": "nonsense"}, {"resource_not_found"}, "appointment_id"),
        ({"appointment_id": f"appt_{UNKNOWN}"}, {"resource_not_found"}, "appointment_id"),
        ({"customer_id": f"cust_{UNKNOWN}"}, {"parameter_unknown"}, "customer_id"),
        ({"to": "+14155550100"}, {"parameter_unknown"}, "to"),
    ],
)
def test_an_invalid_request_calls_nobody(client: Client, body: object, codes: set[str], param: str) -> None:
    customer = create_customer(client, phone=simulated_phone("00"))
    assert_error(call(client, customer["id"], body), 400, codes, param=param)
    assert sessions_of(client, customer["id"]) == []
    # Nor is the customer taken for being called.
    call(client, customer["id"]).ok(201)


@pytest.mark.parametrize(
    ("written", "meant"),
    [("instruction", "instructions"), ("chanel", "channel"), ("appointment", "appointment_id")],
)
def test_an_unknown_field_is_refused_with_a_guess(client: Client, written: str, meant: str) -> None:
    customer = create_customer(client)
    error = assert_error(call(client, customer["id"], {written: "x"}), 400, "parameter_unknown", param=written)
    assert "did you mean" in error["message"].lower()
    assert meant in error["message"]


@pytest.mark.parametrize("customer_id", [f"cust_{UNKNOWN}", "nonsense", f"appt_{UNKNOWN}"])
def test_an_unknown_customer_is_not_found(client: Client, customer_id: str) -> None:
    assert_error(call(client, customer_id), 404, "resource_not_found")
    assert_error(call(client, customer_id, {"channel": "sms"}), 400, "parameter_invalid", param="channel")


def test_a_deleted_customer_is_not_called(client: Client) -> None:
    customer = create_customer(client, phone=simulated_phone("00"))
    client.delete(f"/v1/customers/{customer['id']}").ok()
    assert_error(call(client, customer["id"]), 409, "customer_deleted")
    assert sessions_of(client, customer["id"]) == []


def without_phone(client: Client) -> str:
    """A customer whom only a conversation made."""
    conversation = create_conversation(client, customer={"email": f"{unique()}@example.com"})
    return str(conversation["customer_id"])


@pytest.mark.parametrize("channel", [None, "phone", "whatsapp"])
def test_a_customer_without_a_phone_is_not_called(client: Client, channel: str | None) -> None:
    customer_id = without_phone(client)
    assert client.get(f"/v1/customers/{customer_id}").ok()["phone"] is None
    body = None if channel is None else {"channel": channel}
    assert_error(call(client, customer_id, body), 409, "customer_phone_missing")
    assert sessions_of(client, customer_id) == []


def test_an_appointment_must_be_the_customers_own(client: Client, live: Client, other: Client) -> None:
    customer = create_customer(client, phone=simulated_phone("00"))
    for caller in (client, live, other):
        foreign = create_appointment(caller)
        response = call(client, customer["id"], {"appointment_id": foreign["id"]})
        error = assert_error(response, 400, "resource_not_found", param="appointment_id")
        assert error["type"] == "invalid_request_error"
        assert caller.get(f"/v1/appointments/{foreign['id']}").ok() == foreign
    assert sessions_of(client, customer["id"]) == []


@pytest.mark.parametrize("how", ["cancelled", "deleted"])
def test_nobody_is_called_about_an_appointment_that_is_off(client: Client, how: str) -> None:
    customer = create_customer(client, phone=simulated_phone("00"))
    path = f"/v1/appointments/{create_appointment(client, customer['id'])['id']}"
    off = client.patch(path, {"status": "cancelled"}).ok() if how == "cancelled" else client.delete(path).ok()
    response = call(client, customer["id"], {"appointment_id": off["id"]})
    assert_error(response, 409, f"appointment_{how}")
    assert client.get(path).ok() == off
    assert sessions_of(client, customer["id"]) == []


# Idempotency.


@pytest.mark.parametrize(("outcome", "status"), [("00", 201), ("21", 202)])
def test_a_call_is_replayed_also_after_it_ended(client: Client, outcome: str, status: int) -> None:
    customer, key = create_customer(client, phone=simulated_phone(outcome)), unique()
    path, body = f"/v1/customers/{customer['id']}/call", {"instructions": "Zoë", "metadata": {"price": 10.0}}
    first = client.post(path, body, idempotency_key=key)
    assert_replay(first, client.post(path, body, idempotency_key=key))
    session_ended(client, first.ok(status)["session_id"])
    assert_replay(first, client.post(path, body, idempotency_key=key))
    for changed in (None, {**body, "channel": "phone"}):
        error = assert_error(client.post(path, changed, idempotency_key=key), 400, "idempotency_key_reused")
        assert error["type"] == "idempotency_error"
    assert sessions_of(client, customer["id"]) == [first.json["session_id"]]


@pytest.mark.parametrize("outcome", ["00", "23", "20"])
def test_of_sixteen_with_one_key_one_calls(client: Client, outcome: str) -> None:
    customer, key = create_customer(client, phone=simulated_phone(outcome)), unique()

    def place() -> Response:
        while True:
            response = call(client, customer["id"], {}, idempotency_key=key)
            if response.status != 409 or response.error["code"] != "idempotency_key_in_use":
                return response
            time.sleep(0.2)

    answers = at_once([place] * 16)
    (first,) = [answer for answer in answers if not answer.replayed]
    for answer in answers:
        if answer is not first:
            assert_replay(first, answer)
    session_id = first.ok(202 if outcome == "20" else 201)["session_id"]
    session_ended(client, session_id)
    assert sessions_of(client, customer["id"]) == [session_id]
    settle(client, "customer")
    types = [event["type"] for event in events_about(client, session_id)]
    assert types.count("session.created") == types.count("session.dialing") == types.count("session.completed") == 1


def test_a_refusal_for_the_customers_state_is_kept(client: Client) -> None:
    customer_id, key = without_phone(client), unique()
    first = call(client, customer_id, idempotency_key=key)
    assert_error(first, 409, "customer_phone_missing")
    client.patch(f"/v1/customers/{customer_id}", {"phone": simulated_phone("00")}).ok()
    assert_replay(first, call(client, customer_id, idempotency_key=key))
    assert sessions_of(client, customer_id) == []
    call(client, customer_id, idempotency_key=unique()).ok(201)


def test_a_refusal_for_the_request_is_not_kept(client: Client) -> None:
    customer, key = create_customer(client, phone=simulated_phone("00")), unique()
    for body in ({"channel": "sms"}, {"appointment_id": f"appt_{UNKNOWN}"}):
        assert call(client, customer["id"], body, idempotency_key=key).status == 400
    accepted = call(client, customer["id"], {}, idempotency_key=key)
    accepted.ok(201)
    assert not accepted.replayed


# One call at a time. At the suite's speed a call is over before the next request, so these take their time.


@pytest.fixture(scope="module")
def unhurried(service: Service) -> Iterator[Client]:
    """Test mode of a service where a call is queued for one second and takes two more."""
    if service.speed in {None, 1}:
        yield service.client(service.projects[0].test_key)
        return
    needs_a_runner_of_its_own()
    with quick_folder() as folder, local_runner(folder, speed=1) as started:
        yield started.client(started.projects[0].test_key)
        assert not started.promises.new, "\n".join(started.promises.new)


def has_status(status: str, session: Any) -> bool:
    return bool(session["call_status"] == status)


def test_a_customer_is_called_once_at_a_time(unhurried: Client) -> None:
    customer, key = create_customer(unhurried, phone=simulated_phone("00")), unique()
    first = call(unhurried, customer["id"]).ok(201)["session_id"]
    assert_error(unhurried.get(f"/v1/sessions/{first}/transcript"), 404, "resource_not_found")
    assert_error(unhurried.get(f"/v1/sessions/{first}/recording"), 404, "resource_not_found")
    for status in ("queued", "dialing"):
        session_when(unhurried, first, partial(has_status, status))
        for body in ({}, {"channel": "whatsapp"}):
            response = call(unhurried, customer["id"], body, idempotency_key=None if body else key)
            assert_error(response, 409, "call_in_progress")
            assert not response.replayed
    assert sessions_of(unhurried, customer["id"]) == [first]
    assert session_ended(unhurried, first)["call_status"] == "completed"
    # What was in the way is gone, also for the key that met it.
    second = call(unhurried, customer["id"], {}, idempotency_key=key)
    assert not second.replayed
    assert sessions_of(unhurried, customer["id"]) == [second.ok(201)["session_id"], first]


@pytest.mark.parametrize("channel", ["phone", "whatsapp"])
def test_of_sixteen_who_call_at_once_one_gets_through(unhurried: Client, channel: str) -> None:
    customer = create_customer(unhurried, phone=simulated_phone("00"))
    answers = at_once([lambda: call(unhurried, customer["id"], {"channel": channel})] * 16)
    (made,) = [answer for answer in answers if answer.status != 409]
    for answer in answers:
        if answer is not made:
            assert_error(answer, 409, {"call_in_progress", "conflict"})
    assert sessions_of(unhurried, customer["id"]) == [made.ok(201)["session_id"]]


def test_customers_with_one_phone_are_called_side_by_side(unhurried: Client) -> None:
    phone = simulated_phone("00")
    made = [call(unhurried, create_customer(unhurried, phone=phone)["id"]).ok(201) for _ in range(2)]
    sessions = [session_ended(unhurried, one["session_id"]) for one in made]
    assert [session["call_status"] for session in sessions] == ["completed", "completed"]


def test_deleting_a_customer_ends_a_queued_call_and_spares_a_dialled_one(unhurried: Client) -> None:
    queued, dialled = (create_customer(unhurried, phone=simulated_phone("00")) for _ in range(2))
    appointment = create_appointment(unhurried, queued["id"])
    gone = call(unhurried, queued["id"], {"appointment_id": appointment["id"]}).ok(201)["session_id"]
    unhurried.delete(f"/v1/customers/{queued['id']}").ok()
    kept = call(unhurried, dialled["id"]).ok(201)["session_id"]
    session_when(unhurried, kept, partial(has_status, "dialing"))
    unhurried.delete(f"/v1/customers/{dialled['id']}").ok()

    failed = session_ended(unhurried, gone)
    assert (failed["call_status"], failed["ended_reason"]) == ("failed", "customer_deleted")
    assert failed["ended_at"] is not None
    event = event_about(unhurried, gone, "session.failed")
    previous = {"call_status": "queued", "ended_at": None, "ended_reason": None}
    assert event["data"] == {"object": failed, "previous_attributes": previous}

    ended = session_ended(unhurried, kept)
    assert (ended["call_status"], ended["answered_by"]) == ("completed", "human")
    event_about(unhurried, kept, "session.completed")
    # By now the other call, which was to be dialled before this one, would have been.
    assert retrieve_session(unhurried, gone) == failed
    types = [event["type"] for event in events_about(unhurried, gone)]
    assert types == ["session.created", "session.failed"]
    now = unhurried.get(f"/v1/appointments/{appointment['id']}").ok()
    assert (now["status"], now["deleted_at"]) == ("pending", None)


# Calls that a customer asks the agent for.


def say(client: Client, conversation_id: str, content: str) -> Any:
    message = send(client, conversation_id, content)
    assert_answered(message)
    return message["reply"]


@pytest.mark.parametrize("words", ["call me", "Please call me back.", "Can you give me a call?"])
def test_the_agent_calls_who_asks_for_it(client: Client, words: str) -> None:
    customer = create_customer(client, phone=simulated_phone("00"))
    conversation = create_conversation(client, customer={"id": customer["id"]})
    (action,) = say(client, conversation["id"], words)["actions"]
    assert action["type"] == "call_requested"
    made = retrieve_session(client, action["session_id"])
    assert_shape(made, "session")
    assert (made["customer_id"], made["to"], made["channel"]) == (customer["id"], customer["phone"], "phone")
    ended = session_ended(client, made["id"])
    assert (ended["call_status"], ended["answered_by"]) == ("completed", "human")
    for type_ in ("created", "dialing", "completed", "transcript_ready", "recording_ready"):
        event_about(client, made["id"], f"session.{type_}")
    assert sessions_of(client, customer["id"]) == [made["id"]]


@pytest.mark.parametrize("words", ["don't call me", "[[sim:handoff]]"])
def test_the_agent_calls_nobody_unasked(client: Client, words: str) -> None:
    customer = create_customer(client, phone=simulated_phone("00"))
    conversation = create_conversation(client, customer={"id": customer["id"]})
    say(client, conversation["id"], words)
    if words == "[[sim:handoff]]":
        # From then on it changes nothing.
        say(client, conversation["id"], "call me")
    assert sessions_of(client, customer["id"]) == []


@pytest.mark.parametrize("known", [True, False], ids=["no phone", "no customer"])
def test_who_cannot_be_called_is_offered_a_person(client: Client, known: bool) -> None:
    fields = {"customer": {"email": f"{unique()}@example.com"}} if known else {}
    conversation = create_conversation(client, **fields)
    before = client.get("/v1/sessions", {"limit": 1}).ok()["data"]
    reply = say(client, conversation["id"], "call me")
    assert {action["type"] for action in reply["actions"]} <= {"handoff"}
    assert reply["actions"] or "person" in reply["content"].lower()
    assert client.get("/v1/sessions", {"limit": 1}).ok()["data"] == before


def test_asking_the_agent_again_makes_no_second_call(unhurried: Client) -> None:
    customer = create_customer(unhurried, phone=simulated_phone("00"))
    conversation = create_conversation(unhurried, customer={"id": customer["id"]})
    (action,) = say(unhurried, conversation["id"], "call me")["actions"]
    again = say(unhurried, conversation["id"], "call me")
    assert again["content"]
    assert {one.get("session_id", action["session_id"]) for one in again["actions"]} <= {action["session_id"]}
    assert_error(call(unhurried, customer["id"]), 409, "call_in_progress")
    assert sessions_of(unhurried, customer["id"]) == [action["session_id"]]
