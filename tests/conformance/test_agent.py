"""Promises 8 and 10: what the test-mode agent does, as a consumer of the API sees it."""

from __future__ import annotations

import calendar
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.support.client import Client, assert_error, wait_for
from tests.support.client_actions import (
    Subscribe,
    create_appointment,
    create_conversation,
    create_customer,
    event_about,
    events_about,
    send,
    settle,
    transcript,
    unique,
)
from tests.support.signed_receiver import Receiver

YEAR = datetime.now(UTC).year + 1
"""Dates of the coming year are never past, and never far."""
AN_AFTERNOON = f"12 May {YEAR} at 3pm"
IN_UTC = f"{YEAR}-05-12T15:00:00.000Z"


@dataclass(frozen=True)
class Talk:
    """A customer's conversation about an appointment, which reads as it was when the conversation began."""

    client: Client
    conversation_id: str
    appointment: Any

    def say(self, content: str) -> Any:
        """The reply."""
        message = send(self.client, self.conversation_id, content)
        assert message["reply_status"] == "complete"
        assert message["reply"]["content"]
        return message["reply"]

    def say_in_vain(self, content: str) -> str:
        """What the agent says to something that it does not act on."""
        reply = self.say(content)
        assert reply["actions"] == []
        self.assert_unchanged()
        text: str = reply["content"]
        return text

    def now(self) -> Any:
        """The appointment as it reads now."""
        return self.client.get(f"/v1/appointments/{self.appointment['id']}").ok()

    def assert_unchanged(self) -> None:
        assert self.now() == self.appointment

    def action(self, type_: str) -> dict[str, str]:
        return {"type": f"appointment_{type_}", "appointment_id": self.appointment["id"]}


def talk_about(client: Client, *appointments: Any) -> Talk:
    """A conversation of the customer of these appointments, with an agent that sees them by now."""
    customer_id = appointments[0]["customer_id"]
    params = {"customer_id": customer_id, "limit": 100}
    wait_for(lambda: len(client.get("/v1/appointments", params).ok()["data"]) >= len(appointments))
    conversation = create_conversation(client, customer={"id": customer_id})
    return Talk(client, conversation["id"], appointments[0])


@pytest.fixture
def talk(client: Client) -> Talk:
    return talk_about(client, create_appointment(client))


def assert_event(client: Client, talk: Talk, type_: str) -> None:
    """The change is an event with the appointment as it reads now and what it was before."""
    event = event_about(client, talk.appointment["id"], f"appointment.{type_}")
    now = talk.now()
    assert event["data"]["object"] == now
    previous = {name: value for name, value in talk.appointment.items() if value != now[name] and name != "updated_at"}
    assert event["data"]["previous_attributes"] == previous


# Confirming, at once.


@pytest.mark.smoke
@pytest.mark.parametrize("words", ["confirm", "Please confirm my appointment.", "I'd like to confirm the appointment"])
def test_an_appointment_is_confirmed_at_once(client: Client, talk: Talk, words: str) -> None:
    assert talk.say(words)["actions"] == [talk.action("confirmed")]
    assert talk.now()["status"] == "confirmed"
    assert_event(client, talk, "confirmed")


@pytest.mark.parametrize(
    "words",
    [
        "How do I confirm?",
        "should I confirm?",
        "I'll confirm later",
        "can you confirm the address?",
        "My wife will confirm",
        "I'll be there if it does not rain",
        "don't confirm",
    ],
)
def test_a_question_or_a_remark_about_confirming_confirms_nothing(talk: Talk, words: str) -> None:
    talk.say_in_vain(words)


@pytest.mark.parametrize("words", ["Did you call me?", "My doctor will call me", "call me Ada", "don't call me"])
def test_a_question_or_a_remark_about_calling_places_no_call(talk: Talk, words: str) -> None:
    talk.say_in_vain(words)


def test_a_confirmation_reaches_a_receiver(
    client: Client, talk: Talk, receiver: Receiver, subscribe: Subscribe
) -> None:
    hook = receiver.hook()
    subscribe(client, hook, "appointment.confirmed")
    talk.say("confirm")
    (received,) = hook.wait_about(talk.appointment["id"])
    assert received.event["type"] == "appointment.confirmed"
    assert received.event["data"] == {"object": talk.now(), "previous_attributes": {"status": "pending"}}


def test_confirming_twice_is_one_event(client: Client, talk: Talk) -> None:
    talk.say("confirm")
    confirmed = talk.now()
    talk.say("confirm")
    assert talk.now() == confirmed
    settle(client, "appointment")
    types = [event["type"] for event in events_about(client, talk.appointment["id"])]
    assert types == ["appointment.created", "appointment.confirmed"]


def test_a_cancelled_appointment_is_not_confirmed(client: Client, talk: Talk) -> None:
    cancelled = client.patch(f"/v1/appointments/{talk.appointment['id']}", {"status": "cancelled"}).ok()
    assert talk.action("confirmed") not in talk.say("confirm")["actions"]
    assert talk.now() == cancelled


# Rescheduling and cancelling, in two steps.


def test_an_appointment_is_moved_in_two_steps(
    client: Client, talk: Talk, receiver: Receiver, subscribe: Subscribe
) -> None:
    hook = receiver.hook()
    subscribe(client, hook, "appointment.rescheduled")
    talk.say_in_vain(f"Can we move it to {AN_AFTERNOON}?")
    assert talk.say("yes")["actions"] == [talk.action("rescheduled")]
    now = talk.now()
    assert (now["status"], now["appointment_at"]) == ("rescheduled", IN_UTC)
    assert_event(client, talk, "rescheduled")
    (received,) = hook.wait_about(talk.appointment["id"])
    assert received.event["data"]["object"] == now


def test_an_appointment_is_cancelled_in_two_steps(
    client: Client, talk: Talk, receiver: Receiver, subscribe: Subscribe
) -> None:
    hook = receiver.hook()
    subscribe(client, hook, "appointment.cancelled")
    talk.say_in_vain("Please cancel my appointment.")
    assert talk.say("yes")["actions"] == [talk.action("cancelled")]
    assert talk.now()["status"] == "cancelled"
    assert_event(client, talk, "cancelled")
    (received,) = hook.wait_about(talk.appointment["id"])
    assert received.event["data"]["object"] == talk.now()


PROPOSALS = {"cancel": "cancel my appointment", "reschedule": f"move it to {AN_AFTERNOON}"}


@pytest.mark.parametrize(
    ("proposal", "words"),
    [
        ("cancel", "yes"),
        ("reschedule", "Yes, please."),
        ("cancel", "ok"),
        ("reschedule", "sure"),
        ("cancel", "yes please, thank you!"),
    ],
)
def test_a_yes_agrees(talk: Talk, proposal: str, words: str) -> None:
    talk.say_in_vain(PROPOSALS[proposal])
    done = {"cancel": "cancelled", "reschedule": "rescheduled"}[proposal]
    assert talk.say(words)["actions"] == [talk.action(done)]
    assert talk.now()["status"] == done


@pytest.mark.parametrize(
    ("proposal", "words"),
    [
        ("cancel", "no"),
        ("reschedule", "No, thank you."),
        ("cancel", "hello"),
        ("reschedule", "what appointments do I have?"),
        ("cancel", "maybe"),
        ("reschedule", "yes, but not yet"),
        ("cancel", "[[sim:markdown]]"),
    ],
)
def test_anything_but_a_yes_drops_the_proposal(talk: Talk, proposal: str, words: str) -> None:
    talk.say_in_vain(PROPOSALS[proposal])
    talk.say_in_vain(words)
    assert talk.say("yes")["actions"] == []
    talk.assert_unchanged()


@pytest.mark.parametrize("words", ["confirm", "Confirm.", "I confirm", "yes, confirm"])
def test_confirm_after_a_proposed_cancellation_is_asked_back(talk: Talk, words: str) -> None:
    talk.say_in_vain(PROPOSALS["cancel"])
    assert "?" in talk.say_in_vain(words)
    assert talk.say("yes")["actions"] == [talk.action("cancelled")]


def test_a_yes_to_nothing_does_nothing(talk: Talk) -> None:
    assert talk.say("yes")["actions"] == []
    talk.assert_unchanged()


@pytest.mark.parametrize("proposal", PROPOSALS)
def test_a_second_yes_does_nothing_more(client: Client, talk: Talk, proposal: str) -> None:
    talk.say_in_vain(PROPOSALS[proposal])
    talk.say("yes")
    after = talk.now()
    assert talk.say("yes")["actions"] == []
    assert talk.now() == after


def test_a_yes_does_exactly_what_was_proposed_last(talk: Talk) -> None:
    talk.say_in_vain("cancel my appointment")
    talk.say_in_vain(f"move it to {AN_AFTERNOON}")
    assert talk.say("yes")["actions"] == [talk.action("rescheduled")]
    assert talk.now()["appointment_at"] == IN_UTC


def test_a_yes_in_another_conversation_does_not_agree(client: Client, talk: Talk) -> None:
    talk.say_in_vain("cancel my appointment")
    elsewhere = talk_about(client, talk.appointment)
    assert elsewhere.say("yes")["actions"] == []
    talk.assert_unchanged()
    assert talk.say("yes")["actions"] == [talk.action("cancelled")]


def test_what_was_cancelled_meanwhile_is_not_moved(client: Client, talk: Talk) -> None:
    talk.say_in_vain(PROPOSALS["reschedule"])
    cancelled = client.patch(f"/v1/appointments/{talk.appointment['id']}", {"status": "cancelled"}).ok()
    assert talk.action("rescheduled") not in talk.say("yes")["actions"]
    assert talk.now() == cancelled


# Dates and times.


def local_time(day: date, hour: int, zone: str, minute: int = 0) -> str:
    """A local time as the API shows it."""
    at = datetime(day.year, day.month, day.day, hour, minute, tzinfo=ZoneInfo(zone)).astimezone(UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


WINTER = (f"Can we move it to 12 January {YEAR} at 3pm?", date(YEAR, 1, 12), 15)
SUMMER = (f"Please reschedule to July 9, {YEAR} at 10:00", date(YEAR, 7, 9), 10)
SPRING = (f"reschedule it to {YEAR}-03-05 at 16:00", date(YEAR, 3, 5), 16)


@pytest.mark.parametrize(
    ("zone", "words", "day", "hour"),
    [
        (None, *WINTER),
        ("UTC", *SPRING),
        ("Asia/Kolkata", *SPRING),
        ("America/New_York", *WINTER),
        ("America/New_York", *SUMMER),
        ("Europe/Berlin", *SUMMER),
        ("Pacific/Auckland", *WINTER),
    ],
)
def test_times_are_read_in_the_time_zone_of_the_appointment(
    client: Client, zone: str | None, words: str, day: date, hour: int
) -> None:
    talk = talk_about(client, create_appointment(client, timezone=zone) if zone else create_appointment(client))
    talk.say_in_vain(words)
    assert talk.say("yes")["actions"] == [talk.action("rescheduled")]
    now = talk.now()
    assert now["appointment_at"] == local_time(day, hour, zone or "UTC")
    assert now["timezone"] == zone


ZONES = ("Pacific/Auckland", "Asia/Tokyo", "Asia/Kolkata", "Europe/Berlin", "America/New_York", "Pacific/Honolulu")


def where_it_is_midday() -> str:
    """The zone that is farthest from midnight, so that a day does not end during a test."""
    return min(ZONES, key=lambda zone: abs(datetime.now(ZoneInfo(zone)).hour - 12))


@pytest.mark.parametrize(
    ("words", "days"),
    [("can we move it to next {weekday} at 3pm?", 7), ("move it to tomorrow at 3pm", 1)],
)
def test_relative_days_count_from_today_in_that_time_zone(client: Client, words: str, days: int) -> None:
    zone = where_it_is_midday()
    today = datetime.now(ZoneInfo(zone)).date()
    talk = talk_about(client, create_appointment(client, timezone=zone))
    # Next week's same weekday is what everybody means by it, on any day of the week.
    talk.say_in_vain(words.format(weekday=f"{today:%A}"))
    assert talk.say("yes")["actions"] == [talk.action("rescheduled")]
    assert talk.now()["appointment_at"] == local_time(today + timedelta(days), 15, zone)


def test_an_offset_behind_a_zone_counts(client: Client) -> None:
    talk = talk_about(client, create_appointment(client))
    talk.say_in_vain(f"move it to 12 May at 15:00 GMT+2 {YEAR + 4}")
    talk.say("yes")
    assert talk.now()["appointment_at"] == f"{YEAR + 4}-05-12T13:00:00.000Z"


def last_sunday(month: int) -> str:
    """When clocks change in Europe: at night from two to three in March, from three to two in October."""
    sundays = [week[calendar.SUNDAY] for week in calendar.monthcalendar(YEAR, month)]
    return f"{max(sundays)} {calendar.month_name[month]} {YEAR}"


@pytest.mark.parametrize(
    "words",
    [
        "move it",
        "reschedule my appointment",
        "move it to tomorrow",
        f"move it to 12 May {YEAR}",
        "move it to 3pm",
        "move it to next week",
        "move it to some afternoon next month",
        f"move it to 03/04/{YEAR} at 3pm",
        f"move it to 30 February {YEAR} at 3pm",
        f"move it to 12 May {YEAR} at 25:00",
        f"move it to {YEAR}-13-01 at 15:00",
        f"move it to {last_sunday(3)} at 02:30",
        f"move it to {last_sunday(10)} at 02:30",
        f"move it to 12 May {YEAR} at 3",
        f"move it to 12 May {YEAR} at 10 or 11",
        "move it to tomorrow 10 or 11",
        "move it to any day but monday at 10:00",
        f"move it to the 31st of June {YEAR} at 15:00",
        f"move it to 12 May {YEAR} at midnight",
        f"move it to 12 May {YEAR} at 15:00 GMT+25",
        "move it to yesterday at 3pm",
        f"move it to 12 May {YEAR - 3} at 3pm",
    ],
)
def test_a_time_that_is_not_clear_or_cannot_be_is_asked_back(client: Client, words: str) -> None:
    talk = talk_about(client, create_appointment(client, timezone="Europe/Berlin"))
    assert "?" in talk.say_in_vain(words)
    # Nothing was proposed, so there is nothing to agree to.
    assert talk.say("yes")["actions"] == []
    talk.assert_unchanged()


# What else it understands.


def test_it_lists_the_appointments_of_the_customer_and_nobody_else(client: Client) -> None:
    customer_id, titles = create_customer(client)["id"], [unique("Check-up") for _ in range(2)]
    mine = [create_appointment(client, customer_id, title=title) for title in titles]
    foreign = create_appointment(client, title=unique("Check-up"))
    told = talk_about(client, *mine).say_in_vain("What appointments do I have?")
    assert all(title in told for title in titles)
    assert foreign["title"] not in told


def test_it_answers_a_greeting(talk: Talk) -> None:
    for words in ("hello", "Hi there!", "good morning"):
        talk.say_in_vain(words)


@pytest.mark.parametrize("words", ["a person please", "I want to talk to a person", "Can I speak to a human?"])
def test_it_hands_off_to_a_person_and_then_only_holds(talk: Talk, words: str) -> None:
    assert [action["type"] for action in talk.say(words)["actions"]] == ["handoff"]
    for more in ("confirm", "cancel my appointment", "yes"):
        assert {action["type"] for action in talk.say(more)["actions"]} <= {"handoff"}
    talk.assert_unchanged()


def test_a_handoff_drops_what_was_proposed(talk: Talk) -> None:
    talk.say_in_vain("cancel my appointment")
    talk.say("a person please")
    assert {action["type"] for action in talk.say("yes")["actions"]} <= {"handoff"}
    talk.assert_unchanged()


# Several appointments, none, and those of others.


@pytest.mark.parametrize("words", ["confirm", "cancel my appointment", f"move my appointment to {AN_AFTERNOON}"])
def test_with_several_appointments_it_asks_which(client: Client, words: str) -> None:
    customer_id = create_customer(client)["id"]
    days = (f"{YEAR}-06-01T10:00:00Z", f"{YEAR}-06-02T11:00:00Z")
    appointments = [create_appointment(client, customer_id, appointment_at=at) for at in days]
    talk = talk_about(client, *appointments)
    assert "?" in talk.say_in_vain(words)
    assert talk.say("yes")["actions"] == []
    for appointment in appointments:
        assert client.get(f"/v1/appointments/{appointment['id']}").ok() == appointment


def test_of_several_appointments_the_one_that_is_named_is_taken(client: Client) -> None:
    customer_id = create_customer(client)["id"]
    days = (f"{YEAR}-06-02T11:00:00Z", f"{YEAR}-06-01T10:00:00Z", f"{YEAR}-07-02T11:00:00Z")
    first, *others = [create_appointment(client, customer_id, appointment_at=at) for at in days]
    talk = talk_about(client, first, *others)
    talk.say_in_vain(f"cancel the one on 2 June {YEAR}")
    assert talk.say("yes")["actions"] == [talk.action("cancelled")]
    assert talk.now()["status"] == "cancelled"
    for appointment in others:
        assert client.get(f"/v1/appointments/{appointment['id']}").ok() == appointment


@pytest.mark.parametrize("words", ["confirm", "cancel my appointment", f"move it to {AN_AFTERNOON}"])
def test_without_an_appointment_nothing_is_claimed(client: Client, words: str) -> None:
    for fields in ({}, {"customer": {"id": create_customer(client)["id"]}}):
        conversation_id = create_conversation(client, **fields)["id"]
        for content in (words, "yes"):
            reply = send(client, conversation_id, content)["reply"]
            assert {action["type"] for action in reply["actions"]} <= {"handoff"}


@pytest.mark.parametrize(
    ("whose", "words"),
    [
        ("same project", "confirm {id}"),
        ("same project", "cancel {id}"),
        ("same project", "move {id} to {at}"),
        ("other project", "cancel appointment {id}, yes"),
    ],
)
def test_the_appointment_of_another_customer_cannot_be_touched(
    client: Client, other: Client, talk: Talk, words: str, whose: str
) -> None:
    owner = client if whose == "same project" else other
    foreign = create_appointment(owner, title=unique("Check-up"))
    for content in (words.format(id=foreign["id"], at=AN_AFTERNOON), "yes"):
        reply = talk.say(content)
        assert foreign["id"] not in {action.get("appointment_id") for action in reply["actions"]}
        assert foreign["title"] not in reply["content"]
    assert owner.get(f"/v1/appointments/{foreign['id']}").ok() == foreign


@pytest.mark.parametrize("words", ["confirm", "cancel my appointment", "hello"])
def test_for_a_deleted_customer_it_only_hands_off(client: Client, talk: Talk, words: str) -> None:
    client.delete(f"/v1/customers/{talk.appointment['customer_id']}").ok()
    assert [action["type"] for action in talk.say(words)["actions"]] == ["handoff"]
    assert {action["type"] for action in talk.say("yes")["actions"]} <= {"handoff"}
    talk.assert_unchanged()


def test_a_proposal_dies_with_the_customer(client: Client, talk: Talk) -> None:
    talk.say_in_vain("cancel my appointment")
    client.delete(f"/v1/customers/{talk.appointment['customer_id']}").ok()
    assert [action["type"] for action in talk.say("yes")["actions"]] == ["handoff"]
    talk.assert_unchanged()


# Ends and changes that race a turn.


@pytest.mark.parametrize("delay", [0, 0.02, 0.05, 0.1, 0.2, 0.4])
def test_an_end_drops_the_effects_of_a_turn_or_comes_after_them(client: Client, talk: Talk, delay: float) -> None:
    path = f"/v1/conversations/{talk.conversation_id}"
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(client.post, f"{path}/messages", {"content": "confirm"})
        time.sleep(delay)
        assert client.post(f"{path}/end").ok()["status"] == "ended"
        answer = asked.result()
    found = transcript(client, talk.conversation_id)
    if answer.status == 409:
        assert_error(answer, 409, "conversation_ended")
        assert found == []
        talk.assert_unchanged()
        return
    answer.ok(201)
    assert [message["role"] for message in found] == ["user", "assistant"]
    assert found[1] == answer.json["reply"]
    assert client.get(path).ok()["status"] == "ended"
    if talk.action("confirmed") in found[1]["actions"]:
        assert talk.now()["status"] == "confirmed"
    else:
        talk.assert_unchanged()


def test_no_change_is_lost_when_the_agent_and_the_api_write_at_once(client: Client) -> None:
    for _ in range(5):
        talk = talk_about(client, create_appointment(client))
        path = f"/v1/appointments/{talk.appointment['id']}"
        with ThreadPoolExecutor(2) as pool:
            said = pool.submit(talk.say, "confirm")
            for number in range(5):
                client.patch(path, {"metadata": {f"k{number}": number}}).ok()
            assert said.result()["actions"] == [talk.action("confirmed")]
        now = talk.now()
        assert now["status"] == "confirmed"
        assert now["metadata"] == {f"k{number}": number for number in range(5)}
        event_about(client, talk.appointment["id"], "appointment.confirmed")
