"""Promises 7 and 10: calls, what becomes of them, and what is told of it."""

from __future__ import annotations

import io
import time
import urllib.request
import wave
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.client import Client, Response, assert_error, wait_for
from tests.support.client_actions import (
    Subscribe,
    call,
    call_ended,
    create_appointment,
    create_customer,
    event_about,
    events_about,
    retrieve_session,
    seconds,
    session_ended,
    session_when,
    settle,
    simulated_phone,
)
from tests.support.runner import Service
from tests.support.signed_receiver import Hook


@dataclass(frozen=True)
class Row:
    """A row of promise 10.2. `effect` is the appointment's new status, `talked` with a customer."""

    call_status: str
    ended_reasons: frozenset[str]
    answered_by: str | None = None
    effect: str | None = None
    talked: bool = False
    answer: int = 201
    consent: str | None = None
    channel: str = "phone"


HANGUPS = frozenset({"customer_hangup", "agent_hangup"})


def unanswered_row(call_status: str, ended_reason: str, **fields: Any) -> Row:
    return Row(call_status, frozenset({ended_reason}), **fields)


def conversation_row(effect: str | None, **fields: Any) -> Row:
    return Row("completed", HANGUPS, "human", effect, talked=True, **fields)


def consent_row(consent: str, row: Row) -> Row:
    return Row(**(vars(row) | {"answer": 202, "consent": consent, "channel": "whatsapp"}))


ROWS = {
    "00": conversation_row("confirmed"),
    "01": unanswered_row("invalid_number", "invalid_number"),
    "02": unanswered_row("no_answer", "no_answer"),
    "03": unanswered_row("no_answer", "busy"),
    "04": unanswered_row("failed", "blocked"),
    "05": Row("call_later", frozenset({"callback_requested"}), "human", talked=True),
    "06": conversation_row("confirmed"),
    "07": unanswered_row("no_answer", "voicemail", answered_by="machine"),
    "08": conversation_row("rescheduled"),
    "09": conversation_row("cancelled"),
    "10": conversation_row(None),
    "11": unanswered_row("failed", "provider_error"),
    "20": consent_row("granted", conversation_row("confirmed")),
    "21": consent_row("declined", unanswered_row("failed", "consent_declined")),
    "22": consent_row("expired", unanswered_row("failed", "consent_expired")),
    "23": conversation_row("confirmed", channel="whatsapp"),
}
MODES = ("client", "live")

AT, A_DAY_LATER = "2030-05-06T07:08:09.000Z", "2030-05-07T07:08:09.000Z"
STATUSES = frozenset({"call_status", "transcript_status", "recording_status"})
UNEVENTED = frozenset(
    {"transcript_status", "recording_status", "answered_at", "answered_by", "consent", "dial_at", "summary"}
)
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
            is_recorded if ROWS[outcome].talked else call_ended,
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


def is_recorded(session: Any) -> bool:
    statuses = {session["transcript_status"], session["recording_status"]}
    return call_ended(session) and statuses <= {"available", "failed"}


@pytest.fixture(scope="module")
def calls_by_number(
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
def ended_call(request: pytest.FixtureRequest, calls_by_number: dict[tuple[str, str], Placed]) -> Placed:
    return calls_by_number[request.param]


def test_the_answer_tells_of_the_call(ended_call: Placed) -> None:
    found = ended_call.answer.ok(ended_call.row.answer)
    assert found == {
        "object": "call",
        "status": "consent_pending" if ended_call.row.answer == 202 else "queued",
        "session_id": found["session_id"],
        "customer_id": ended_call.customer["id"],
        "appointment_id": ended_call.before["id"],
        "channel": ended_call.row.channel,
        "call_status": "queued",
        "not_before": None,
        "dial_at": None if ended_call.row.answer == 202 else ended_call.session["created_at"],
        "livemode": ended_call.customer["livemode"],
        "created_at": ended_call.session["created_at"],
    }
    path = f"{ended_call.client.base_path}/v1/sessions/{found['session_id']}"
    assert ended_call.answer.headers.get("Location") in ({path} if ended_call.row.answer == 201 else {path, None})


def test_the_call_ends_as_its_number_says(ended_call: Placed) -> None:
    session, row = ended_call.session, ended_call.row
    assert (session["call_status"], session["answered_by"]) == (row.call_status, row.answered_by)
    assert session["ended_reason"] in row.ended_reasons
    assert (session["transcript_status"], session["recording_status"]) == (("available" if row.talked else "none"),) * 2
    assert (
        session
        | {
            "livemode": ended_call.customer["livemode"],
            "customer_id": ended_call.customer["id"],
            "appointment_id": ended_call.before["id"],
            "channel": row.channel,
            "to": ended_call.customer["phone"],
            "metadata": {"outcome": ended_call.customer["phone"][-2:], "price": 1.0},
        }
        == session
    )


def test_its_times_are_in_order(ended_call: Placed) -> None:
    session, row = ended_call.session, ended_call.row
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


def test_only_who_asked_for_another_time_has_one(ended_call: Placed) -> None:
    if ended_call.row.call_status == "call_later":
        assert seconds(ended_call.session["call_later_at"]) > max(seconds(ended_call.session["ended_at"]), time.time())
    else:
        assert ended_call.session["call_later_at"] is None


def test_its_consent_tells_what_the_customer_answered(ended_call: Placed, service: Service) -> None:
    consent, speed = ended_call.session["consent"], service.speed or 1
    if ended_call.row.consent is None:
        # Consent that was on file may be shown; a phone call needs none.
        assert consent is None or (ended_call.row.channel, consent["status"]) == ("whatsapp", "granted")
        return
    assert consent["status"] == ended_call.row.consent
    requested_at, expires_at = seconds(consent["requested_at"]), seconds(consent["expires_at"])
    assert requested_at < expires_at
    if ended_call.row.consent == "expired":
        assert consent["responded_at"] is None
        assert expires_at - requested_at == pytest.approx(60 / speed, rel=0.05)
        assert consent["expires_at"] <= ended_call.session["ended_at"]
    else:
        assert seconds(consent["responded_at"]) - requested_at >= 4.5 / speed
        assert consent["responded_at"] <= consent["expires_at"]
        assert consent["responded_at"] <= (ended_call.session["dialed_at"] or ended_call.session["ended_at"])


def test_the_appointment_changes_as_the_number_says(ended_call: Placed) -> None:
    before, now, effect = ended_call.before, ended_call.appointment, ended_call.row.effect
    changed = {"session_id": ended_call.session_id, "status": effect or "pending", "updated_at": now["updated_at"]}
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


def test_each_step_is_one_event(ended_call: Placed) -> None:
    types = [event["type"] for event in ended_call.events]
    expected = steps(ended_call)
    assert types[: len(expected)] == expected
    ready = ["session.recording_ready", "session.transcript_ready"] if ended_call.row.talked else []
    assert sorted(types[len(expected) :]) == ready
    for event in ended_call.events:
        assert event["livemode"] == event["data"]["object"]["livemode"] == ended_call.customer["livemode"]


def test_an_event_has_the_state_before_and_after_it(ended_call: Placed) -> None:
    created, *changes = ended_call.events
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


def test_what_the_last_event_shows_is_what_the_session_reads(ended_call: Placed) -> None:
    last = max((event["data"]["object"] for event in ended_call.events), key=lambda session: session["updated_at"])
    kept = set(last) - UNEVENTED - {"updated_at"}
    assert {name: last[name] for name in kept} == {name: ended_call.session[name] for name in kept}


def test_the_change_of_the_appointment_is_one_event(ended_call: Placed) -> None:
    created, *changes = ended_call.appointment_events
    assert created["type"] == "appointment.created"
    if ended_call.row.effect is None:
        assert changes == []
        return
    (event,) = changes
    now, before = ended_call.appointment, ended_call.before | {"session_id": ended_call.session_id}
    assert event["type"] == f"appointment.{ended_call.row.effect}"
    assert event["data"] == {
        "object": now,
        "previous_attributes": {
            name: value for name, value in before.items() if value != now[name] and name != "updated_at"
        },
    }


def test_a_receiver_gets_each_event_once(ended_call: Placed) -> None:
    hook = ended_call.hook
    if hook is None:
        pytest.skip("a deployed service cannot reach a receiver on loopback")
    expected = {event["id"]: event for event in ended_call.events + ended_call.appointment_events}
    objects = (ended_call.session_id, ended_call.before["id"])
    received = wait_for(
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
    session = session_when(client, session_id, is_recorded, timeout=60)
    assert (session["call_status"], session["answered_by"]) == ("completed", "human")
    assert client.get(f"/v1/appointments/{appointment['id']}").ok()["status"] == "confirmed"
    assert client.get(f"/v1/sessions/{session_id}/transcript").ok()["data"]
    with opener_without_proxy().open(
        client.get(f"/v1/sessions/{session_id}/recording").ok()["url"], timeout=20
    ) as sound:
        assert sound.read(4) == b"RIFF"
    for type_ in ("created", "dialing", "completed", "transcript_ready", "recording_ready"):
        event_about(client, session_id, f"session.{type_}")
    event_about(client, appointment["id"], "appointment.confirmed")


def test_a_transcript_is_a_dialogue(ended_call: Placed) -> None:
    response = ended_call.client.get(f"/v1/sessions/{ended_call.session_id}/transcript")
    if not ended_call.row.talked:
        assert_error(response, 404, "resource_not_found")
        return
    found = response.ok()
    assert (found["session_id"], found["status"]) == (ended_call.session_id, "available")
    lines = found["data"]
    assert len(lines) >= 3
    assert [line["role"] for line in lines] == [("agent", "customer")[n % 2] for n in range(len(lines))]
    assert all(line["content"].strip() for line in lines)
    assert len({line["content"] for line in lines}) > len(lines) / 2, "it repeats itself"
    times = [line[name] for line in lines for name in ("started_at_ms", "ended_at_ms")]
    assert times[0] >= 0
    assert times == sorted(times), "two speak at once"
    assert all(line["started_at_ms"] < line["ended_at_ms"] for line in lines)


def test_a_recording_plays_and_is_as_long_as_the_talk(ended_call: Placed) -> None:
    path = f"/v1/sessions/{ended_call.session_id}"
    asked_at = time.time()
    response = ended_call.client.get(f"{path}/recording")
    if not ended_call.row.talked:
        assert_error(response, 404, "resource_not_found")
        return
    found = response.ok()
    assert (found["session_id"], found["status"]) == (ended_call.session_id, "available")
    assert seconds(found["url_expires_at"]) - asked_at == pytest.approx(15 * 60, abs=10)
    with opener_without_proxy().open(found["url"], timeout=20) as download:
        assert download.status == 200
        assert download.headers["Content-Type"] == found["content_type"]
        with wave.open(io.BytesIO(download.read())) as sound:
            length = sound.getnframes() / sound.getframerate()
    said = ended_call.client.get(f"{path}/transcript").ok()["data"]
    assert length > 1
    assert found["duration_seconds"] == pytest.approx(length, abs=0.5)
    assert 0 <= length - said[-1]["ended_at_ms"] / 1000 < 1


def opener_without_proxy() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(urllib.request.ProxyHandler({}))


def test_customers_who_want_different_things_say_so(calls_by_number: dict[tuple[str, str], Placed]) -> None:
    said = set()
    for outcome in ("00", "05", "08", "09", "10"):
        one = calls_by_number["client", outcome]
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
