from __future__ import annotations

import copy
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from shared.agent import Reply, Utterance
from shared.agent.actions import HandoffReason, handoff
from shared.agent.scripted import Scripted
from shared.agent.tools import Tools
from shared.agent.turn import AppointmentView, CallContext, CallLater, TurnInput, TurnResult
from shared.agent.wording import ATTEND
from shared.agent_settings.resource import DEFAULTS, Settings
from shared.appointments import commands as appointment_commands
from shared.appointments.resource import APPOINTMENTS, Appointment, AppointmentCreate, AppointmentRecord
from shared.calls.dialogue import LONGEST_NAME, Briefing, to_lines
from shared.calls.simulated import SPEAKING, SimulatedCall, simulate
from shared.calls.simulated_numbers import SCRIPTED_CALLS, ScriptedCall
from shared.core import clock
from shared.docs import samples
from shared.store import table
from shared.store.keys import Scope
from tests.support import rows

SCOPE = Scope(1, livemode=False)
NOW = datetime(2027, 3, 3, 9, 0, 0, 123_000, tzinfo=UTC)  # a Wednesday
TALKING = [nn for nn, outcome in SCRIPTED_CALLS.items() if outcome.says]
BERLIN = "Europe/Berlin"


@pytest.fixture(autouse=True)
def wednesday_morning() -> Iterator[None]:
    clock.use(NOW.timestamp, lambda seconds: None)
    yield
    clock.use(time.time, time.sleep)


def appointment_record(
    at: str = "2027-03-05T13:30:00.000Z", deleted_at: str | None = None, **given: Any
) -> AppointmentRecord:
    usual = {"status": "pending", "timezone": BERLIN, "customer_id": "cust_1", "title": "Dental check-up"}
    doc = appointment_commands.new(SCOPE, AppointmentCreate.model_construct(**usual | given | {"appointment_at": at}))
    return rows.record({**doc, "deleted_at": deleted_at}, 7)


CASES: dict[str, dict[str, Any] | None] = {
    "no appointment": None,
    "pending": {},
    "confirmed": {"status": "confirmed"},
    "rescheduled": {"status": "rescheduled"},
    "failed": {"status": "failed"},
    "cancelled": {"status": "cancelled"},
    "deleted": {"status": "cancelled", "deleted_at": "2027-03-03T08:00:00.000Z"},
    "past": {"at": "2027-03-03T09:00:00.000Z"},
    "long past": {"at": "0001-01-01T00:00:00.000Z", "timezone": "America/New_York"},
    "in a moment": {"at": "2027-03-03T09:00:01.000Z"},
    "today": {"at": "2027-03-03T16:00:00.000Z"},
    "far future": {"at": "2090-06-01T10:00:00.000Z", "timezone": None},
    "clocks go forward": {"at": "2027-03-27T14:00:00.000Z"},
    "clocks skip the time": {"at": "2027-03-27T01:30:00.000Z"},
    "clocks go back": {"at": "2027-10-30T14:00:00.500Z"},
    "clocks show the time twice": {"at": "2027-10-30T00:30:12.345Z"},
    "the second of both times": {"at": "2027-10-31T01:30:00.000Z"},
    "another hemisphere": {"at": "2027-04-02T16:15:00.000Z", "timezone": "Australia/Lord_Howe"},
    "no zone": {"timezone": None},
    "no title": {"title": None},
    "blank title": {"title": " \u200b "},
    "odd title": {"title": '# **Check** <b onclick="x">up</b> [a](https://evil.example) `| 1.\n- ![i](x) &lt;i&gt;'},
    "title of orders": {"title": "Cancel: move tomorrow at 3pm? Yes, confirm. Will you be there?"},
    "title of questions": {"title": "When shall I move", "location": "Which appointment"},
    "long title": {"title": "w" * 200, "location": "l" * 500},
    "seconds and milliseconds": {"at": "2027-03-05T15:00:30.250Z"},
    "the last day": {"at": "9999-12-31T22:00:00.000Z", "timezone": "UTC"},
}


def briefing(
    about: AppointmentRecord | None = None,
    name: str | None = samples.CUSTOMER["name"],
    settings: Settings = DEFAULTS,
    instructions: str | None = None,
) -> Briefing:
    """What is known of a call about this appointment, of which the agent speaks unless it is cancelled."""
    coming = None if about is None or about.doc["status"] == "cancelled" else about
    timezone = None if about is None else about.doc["timezone"]
    return Briefing(samples.CUSTOMER["id"], name, "Blue Clinic", settings, coming, timezone, instructions)


def simulate_call(nn: int, about: AppointmentRecord | None = None) -> SimulatedCall:
    return simulate(SCRIPTED_CALLS[nn], Scripted(), briefing(about))


def is_coming(doc: Appointment) -> bool:
    return doc["status"] != "cancelled" and clock.parse(doc["appointment_at"]) > clock.now()


def expected_changes(nn: int, doc: Appointment) -> dict[str, Any]:
    """What promise 10.2 says becomes of the appointment; nothing is moved into the past."""
    if doc["status"] == "cancelled":
        return {}
    if nn == 8 and clock.parse(doc["appointment_at"]) + clock.DAY <= clock.now():
        return {}
    if nn == 8:
        local = datetime.fromisoformat(doc["appointment_at"]).astimezone(ZoneInfo(doc["timezone"] or "UTC"))
        if local.year == 9999:
            return {}
        later = (local + timedelta(days=1)).replace(fold=0).astimezone(UTC)
        return {
            "appointment_at": f"{later:%Y-%m-%dT%H:%M:%S}.{later.microsecond // 1000:03d}Z",
            "status": "rescheduled",
        }
    if nn == 9:
        return {"status": "cancelled"}
    return {"status": "confirmed"} if nn not in (5, 10, 12, 13) and doc["status"] != "confirmed" else {}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("nn", TALKING)
def test_every_call_ends_as_its_number_says(nn: int, case: str) -> None:
    given = CASES[case]
    concerned = None if given is None else appointment_record(**given)
    before = copy.deepcopy(concerned)

    dialogue = simulate_call(nn, concerned)

    assert concerned == before
    changes = {} if concerned is None else expected_changes(nn, concerned.doc)
    if changes:
        assert dialogue.staged is not None
        original, doc = dialogue.staged.record, dialogue.staged.doc
        assert concerned is original
        assert doc == original.doc | changes | {"updated_at": doc["updated_at"]}
        assert APPOINTMENTS.replace_writes(SCOPE, original, doc)[0].condition == table.unchanged(7)
    else:
        assert dialogue.staged is None
    ending = SCRIPTED_CALLS[nn].ending
    assert (dialogue.progress.call_later is not None) == (ending is not None)
    assert dialogue.ended_by == ("customer" if nn == 10 else "agent")
    assert_is_speech(dialogue)


@pytest.mark.parametrize("name", [samples.CUSTOMER["name"], None])
def test_nobody_is_asked_to_attend_what_is_over(name: str | None) -> None:
    for at, asks in (("2027-03-03T09:00:00.000Z", False), ("2027-03-03T09:00:01.000Z", True)):
        call = simulate(SCRIPTED_CALLS[10], Scripted(), briefing(appointment_record(at), name))
        said = " ".join(line for role, line in call.said if role == "agent")
        assert "I am calling about" in said
        assert (ATTEND in said) == asks, said


def assert_is_speech(dialogue: SimulatedCall) -> None:
    """It goes by turns from the agent's opening to the agent's last word, in plain words."""
    lines = to_lines(dialogue.said)
    assert [line["role"] for line in lines] == ["agent", "customer"] * (len(lines) // 2) + ["agent"]
    assert len(lines) >= 3
    times = [at for line in lines for at in (line["started_at_ms"], line["ended_at_ms"])]
    assert times[0] >= 0
    assert all(one < later for one, later in pairwise(times))
    for line in lines:
        assert line["content"] == " ".join(line["content"].split())
        assert re.search(r"<[a-zA-Z/!?]", line["content"]) is None
        assert 0 < len(line["content"]) < 1_200
    assert "did not understand" not in " ".join(line["content"] for line in lines)
    assert re.fullmatch(r"[A-Z][^.\n]{10,200}\.", dialogue.summary)


@pytest.mark.parametrize("nn", TALKING)
def test_it_reaches_its_end_at_any_time_of_any_day(nn: int) -> None:
    for hours in range(0, 24 * 8, 5):
        clock.use(lambda hours=hours: NOW.timestamp() + hours * 3_600, lambda seconds: None)  # type: ignore[misc]
        at = clock.iso(clock.now() + 30 * clock.HOUR)
        dialogue = simulate_call(nn, appointment_record(at))
        assert (dialogue.staged.doc["status"] if dialogue.staged else None) == expected_changes(
            nn, appointment_record(at).doc
        ).get("status")
        assert (dialogue.progress.call_later is not None) == (nn == 5)


@pytest.mark.parametrize(
    ("given", "hour"),
    [
        ({}, "2027-03-04T09:00:00.000Z"),
        ({"timezone": "America/New_York"}, "2027-03-04T15:00:00.000Z"),
        ({"timezone": None}, "2027-03-04T10:00:00.000Z"),
        # The customer's clocks are the same, whatever has become of the appointment.
        ({"status": "cancelled", "timezone": "Asia/Tokyo"}, "2027-03-04T01:00:00.000Z"),
        ({"at": "2020-01-01T00:00:00.000Z", "timezone": "Asia/Tokyo"}, "2027-03-04T01:00:00.000Z"),
        (None, "2027-03-04T10:00:00.000Z"),
    ],
)
def test_a_call_later_is_at_ten_on_the_customers_clocks(given: dict[str, Any] | None, hour: str) -> None:
    dialogue = simulate_call(5, None if given is None else appointment_record(**given))
    assert dialogue.progress.call_later == CallLater(clock.parse(hour))
    assert dialogue.ended_by == "agent"
    assert dialogue.summary.startswith("The customer asked to be called again on Thursday 4 March 2027 at 10:00 (")


def test_a_dialogue_reads_as_one() -> None:
    assert list(simulate_call(8, appointment_record()).said) == [
        (
            "agent",
            "Hello, this is the automated AI assistant of Blue Clinic. This call is recorded. Am I speaking with Ada?",
        ),
        ("customer", SPEAKING),
        (
            "agent",
            "Thank you. I am calling about Dental check-up on Friday 5 March 2027 at 14:30 (Europe/Berlin). "
            "Will you be there?",
        ),
        ("customer", "Could you move it to one day later, at the same time, please?"),
        (
            "agent",
            "Shall I move Dental check-up on Friday 5 March 2027 at 14:30 (Europe/Berlin) to "
            "Saturday 6 March 2027 at 14:30 (Europe/Berlin)?",
        ),
        ("customer", "Yes, please."),
        (
            "agent",
            "Done: Dental check-up on Friday 5 March 2027 at 14:30 (Europe/Berlin) is moved to "
            "Saturday 6 March 2027 at 14:30 (Europe/Berlin). Is there anything else I can do for you?",
        ),
        ("customer", "No, that's all. Goodbye."),
        ("agent", "Goodbye, and have a nice day!"),
    ]


def test_a_time_that_the_clocks_skip_is_asked_back_and_agreed_on() -> None:
    dialogue = simulate_call(8, appointment_record("2027-03-27T01:30:00.000Z"))
    said = [content for _, content in dialogue.said]
    assert "The clocks skip 02:30 on Sunday 28 March 2027" in said[4]
    assert said[5] == SCRIPTED_CALLS[8].asked_back
    assert "Sunday 28 March 2027 at 03:30" in said[6]


@pytest.mark.parametrize("given", [None, {"status": "cancelled"}])
def test_the_agent_does_not_speak_of_an_appointment_that_does_not_stand(given: dict[str, Any] | None) -> None:
    for nn in TALKING:
        said = " ".join(
            content for _, content in simulate_call(nn, None if given is None else appointment_record(**given)).said
        )
        assert "Dental" not in said
        assert "2027 at 14:30" not in said


def test_a_confirmed_appointment_is_told_to_be_so() -> None:
    said = [content for _, content in simulate_call(0, appointment_record(status="confirmed")).said]
    assert "is already confirmed." in said[4]


@pytest.mark.parametrize(
    ("nn", "summary"),
    [
        (0, "The customer confirmed the appointment of Friday 5 March 2027 at 14:30 (Europe/Berlin)."),
        (
            8,
            "The customer moved the appointment of Friday 5 March 2027 at 14:30 (Europe/Berlin) "
            "to Saturday 6 March 2027 at 14:30 (Europe/Berlin).",
        ),
        (9, "The customer cancelled the appointment of Friday 5 March 2027 at 14:30 (Europe/Berlin)."),
        (10, "The appointment of Friday 5 March 2027 at 14:30 (Europe/Berlin) stays as it is."),
    ],
)
def test_the_summary_says_what_came_of_the_call(nn: int, summary: str) -> None:
    assert simulate_call(nn, appointment_record()).summary == summary


def test_a_call_about_nothing_has_a_summary_too() -> None:
    assert simulate_call(0).summary == "The call ended without a change."


class Watched:
    """The scripted agent, and the input of each turn."""

    def __init__(self) -> None:
        self.given: list[tuple[TurnInput, list[AppointmentView]]] = []

    def reply(self, said: Sequence[Utterance], turn: TurnInput, seconds: float) -> Reply:
        self.given.append((turn, Tools(turn).list_appointments()))
        return Scripted().reply(said, turn, seconds)


def test_each_turn_has_an_input_of_its_own_that_knows_what_the_call_has_done() -> None:
    agent = Watched()
    simulate(SCRIPTED_CALLS[9], agent, briefing(appointment_record(), instructions="Be brief."))
    turns = [turn for turn, _ in agent.given]
    assert len({id(one) for one in turns}) == 3
    assert [one.can_call for one in turns] == [False] * 3
    assert [one.message for one in turns] == list(SCRIPTED_CALLS[9].says)
    assert [one.proposal is not None for one in turns] == [False, True, False]
    assert [one.call for one in turns] == [
        CallContext("Be brief.", BERLIN, changed_before) for changed_before in (False, False, True)
    ]
    assert [[one.status for one in shown] for _, shown in agent.given] == [["pending"], ["pending"], ["cancelled"]]


def test_two_changes_in_a_call_become_one_of_the_appointment_as_it_was_found() -> None:
    line = SCRIPTED_CALLS[8].says
    outcome = ScriptedCall(SCRIPTED_CALLS[0].ending, says=("Yes, I'll be there.", *line))
    concerned = appointment_record()
    call = simulate(outcome, Scripted(), briefing(concerned, name=None))
    change = call.staged
    assert change is not None
    assert change.record is concerned
    assert change.doc["appointment_at"] == "2027-03-06T13:30:00.000Z"
    at, later = (f"{day} March 2027 at 14:30 (Europe/Berlin)" for day in ("Friday 5", "Saturday 6"))
    assert call.summary == (
        f"The customer confirmed the appointment of {at}. The customer moved the appointment of {at} to {later}."
    )


class Saying:
    """An agent that says one thing, and uses one tool or none."""

    def __init__(self, content: str, tool: str | None = None) -> None:
        self.content, self.tool = content, tool

    def reply(self, said: Sequence[Utterance], turn: TurnInput, seconds: float) -> Reply:
        result = TurnResult([handoff(HandoffReason.CANNOT_HELP)] if self.tool == "hand_off" else [])
        return Reply(self.content, result)


@pytest.mark.parametrize("nn", [nn for nn in TALKING if nn not in (12, 13)])
def test_nothing_happens_but_through_the_agents_tools(nn: int) -> None:
    dialogue = simulate(SCRIPTED_CALLS[nn], Saying("Hm."), briefing(appointment_record()))
    assert (dialogue.staged, dialogue.progress.call_later, dialogue.ended_by) == (None, None, "customer")
    # Nobody agrees to what was not proposed.
    assert "Yes, please." not in [content for _, content in dialogue.said]


def test_a_handoff_ends_the_call() -> None:
    dialogue = simulate(
        SCRIPTED_CALLS[6], Saying("A person will help you.", "hand_off"), briefing(appointment_record())
    )
    assert len(dialogue.said) == 5
    assert dialogue.ended_by == "agent"


def test_what_the_agent_says_is_spoken_as_plain_words() -> None:
    agent = Saying("# Hello\n\n- **one**\n- [two](https://example.com) <b>x</b>")
    dialogue = simulate(SCRIPTED_CALLS[0], agent, briefing(name=None))
    assert dialogue.said[2][1] == "Hello - one - two: https://example.com x"


def first_words(
    name: str | None, business: str, about: AppointmentRecord | None = None, *, recorded: bool = True
) -> str:
    return replace(briefing(about, name), business=business).first_words(recorded=recorded)


def test_a_person_with_a_name_is_asked_for_before_anything_is_told() -> None:
    said = "Hello, this is the automated AI assistant of Blue Clinic. This call is recorded. Am I speaking with Ada?"
    assert first_words("Ada", "Blue Clinic", appointment_record()) == first_words("Ada", "Blue Clinic") == said


def test_that_a_call_is_recorded_is_said_only_where_it_is() -> None:
    assert first_words("Ada", "Blue Clinic", recorded=False) == (
        "Hello, this is the automated AI assistant of Blue Clinic. Am I speaking with Ada?"
    )


def test_a_customer_without_a_name_is_told_the_time_and_nothing_else() -> None:
    said = first_words(None, "Blue Clinic", appointment_record(location="Main Street 1"))
    assert said.endswith(
        "This call is recorded. I am calling about your appointment on Friday 5 March 2027 at 14:30 (Europe/Berlin). "
        "Will you be there?"
    )
    assert said == first_words(" \n", "Blue Clinic", appointment_record(location="Main Street 1"))


def test_a_call_about_nothing_begins_with_an_offer() -> None:
    assert first_words(None, "Blue Clinic").endswith("This call is recorded. Is there anything that I can do for you?")


def test_names_and_titles_are_data() -> None:
    odd = "**A**\n<script>x</script> [b](https://evil.example)\u202e " + "c" * 500
    said = first_words(odd, odd)
    assert said == " ".join(said.split())
    assert said.startswith("Hello, this is the automated AI assistant of **A** < script>x< /script> [b](https://evil")
    assert said.count("c" * 20 + "…") == 2
    told = simulate_call(0, appointment_record(title=odd)).said[2][1]
    assert told.startswith("Thank you. I am calling about **A** < script>x< /script> [b](https://evil.example)")
    assert told.count("c" * 20 + "…") == 1
    assert "\u202e" not in said + told
    assert len(said) + len(told) < 3 * LONGEST_NAME + 300


def test_the_phone_of_the_business_comes_before_the_goodbye() -> None:
    settings: Settings = {**DEFAULTS, "business_phone": "+4930123456"}
    for nn in TALKING:
        for name in (samples.CUSTOMER["name"], None):
            _, last = simulate(SCRIPTED_CALLS[nn], Scripted(), briefing(appointment_record(), name, settings)).said[-1]
            assert (re.search(r"You can reach us at \+4930123456\. Goodbye\b", last) is not None) == (nn != 10)


def test_a_wrong_number_hears_no_word_of_the_appointment() -> None:
    for given in (None, {}, {"status": "cancelled"}):
        dialogue = simulate_call(12, None if given is None else appointment_record(location="Main Street 1", **given))
        said = [content for _, content in dialogue.said]
        assert said[1:] == ["Sorry, you have the wrong number.", "I am sorry to have disturbed you. Goodbye."]
        assert not re.search(r"Dental|Main Street|2027|14:30", " ".join(said))
        assert (dialogue.progress.outcome, dialogue.staged, dialogue.ended_by) == ("wrong_person", None, "agent")
        assert dialogue.summary == "Somebody else answered."


def test_lines_take_their_time() -> None:
    lines = to_lines([("agent", "x" * 150), ("customer", "Yes."), ("agent", "")])
    assert [(line["started_at_ms"], line["ended_at_ms"]) for line in lines] == [
        (400, 10_400),
        (10_800, 11_600),
        (12_000, 12_800),
    ]
    assert [line["role"] for line in lines] == ["agent", "customer", "agent"]
    assert to_lines([]) == []
