"""Turns of a live call: what the customer says is answered, done once and kept (promises 7 and 8)."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.stub import Stubber

from functions import voice_turn
from shared.agent import AgentFailed, Reply, Utterance, use_agent
from shared.agent.bedrock import Bedrock
from shared.agent.scripted import Scripted
from shared.agent.turn import TurnInput
from shared.calls import identity_check
from shared.calls.live import voice
from shared.calls.live.steps import FILES_GIVEN_UP_AFTER_MS, LONGEST_MS, POLL_MS, START_AGAIN_MS
from shared.core import clock
from shared.core.call_statuses import EndedReason, Ending, SessionCallStatus
from shared.core.errors import ApiError
from shared.store import table
from shared.telephony import ContactState
from shared.telephony import adapters as carriers
from tests.support import models, privileges
from tests.support.clocks import Clock
from tests.support.concurrency import run_at_once
from tests.support.conversations import before_commit
from tests.support.lex_events import event as lex_event
from tests.support.lex_events import valid
from tests.support.live_calls import (
    HUNG_UP,
    NAME,
    PHONE,
    TITLE,
    Line,
    LiveCall,
    analysis_of,
    answer_live_call,
    assert_over,
    contact_event,
    dial_live_call,
    events_of,
    files,
    forward_and_work,
    log_without_secrets,
    lose_worker_at_start,
    object_event,
    outcome,
    place_live_call,
    tell,
    text_of,
    work,
)
from tests.support.resources import create_resource, get_resource
from tests.support.stage import Stage
from tests.support.wire import Fault, conflicting, wire

MOVE = "Can you move it to 7 June 2030 at 8:00 in the morning?"
NEXT = (datetime.now(UTC) + timedelta(days=20)).replace(hour=10, minute=0, second=0, microsecond=0)
LATER = f"I can't talk right now, please call me on {NEXT.day} {NEXT:%B %Y} at 10 in the morning."
CALL_AT = f"{NEXT:%Y-%m-%dT%H}:00:00.000Z"
INSTRUCTIONS = "Mention the new parking deck"
SECRETS = (PHONE, PHONE[1:], NAME, TITLE, "7 June", "parking", "Goodbye", "I'll be there", "in the morning")
MOVED = "2030-06-07T08:00:00.000Z"
WHEN = "Monday 6 May 2030 at 07:08 (UTC)"


@pytest.fixture(autouse=True)
def logged(stage: Stage) -> Iterator[list[logging.LogRecord]]:
    with log_without_secrets(SECRETS) as lines:
        yield lines


@pytest.fixture(autouse=True)
def scripted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Live mode, with an agent that costs nothing."""
    monkeypatch.setenv("SIMULATE_LIVE", "0")
    use_agent(Scripted())
    yield
    use_agent(None)


@pytest.fixture
def line() -> Iterator[Line]:
    carrier = Line()
    carriers.use(carrier=carrier)
    yield carrier
    carriers.use()


class Broken:
    """An agent that cannot."""

    def reply(self, said: Sequence[Utterance], turn: TurnInput, seconds: float) -> Reply:
        raise AgentFailed("ModelTimeout")


class Watched:
    """The scripted agent, and what it was given."""

    def __init__(self, meanwhile: Callable[[], Any] | None = None) -> None:
        self.turns: list[TurnInput] = []
        self.said: list[list[Utterance]] = []
        self.seconds: list[float] = []
        self._meanwhile = [meanwhile] if meanwhile else []

    def reply(self, said: Sequence[Utterance], turn: TurnInput, seconds: float) -> Reply:
        self.turns.append(turn)
        self.said.append(list(said))
        self.seconds.append(seconds)
        if self._meanwhile:
            with privileges.running(None):
                self._meanwhile.pop()()
        return Scripted().reply(said, turn, seconds)


def say(stage: Stage, call: LiveCall, text: str | None) -> tuple[str, bool]:
    """What the agent answers, and whether the call is over with it."""
    event = lex_event(text or "")
    attributes = {"session_id": call.id, "project_id": str(call.scope.project_id), "livemode": "true"}
    event["sessionState"]["sessionAttributes"] = attributes
    answer = stage.invoke("voice_turn", event)
    valid(answer)
    closes = answer["sessionState"]["dialogAction"]["type"] == "Close"
    assert (answer["sessionState"]["sessionAttributes"].get("call_ended") == "true") is closes
    return answer["messages"][0]["content"], closes


def reach_customer(stage: Stage, line: Line, **order: Any) -> LiveCall:
    """A live call whose customer has said that it is they."""
    call = answer_live_call(stage, line, **order)
    assert TITLE in say(stage, call, "Yes, speaking.")[0]
    return call


def talk(stage: Stage, time: Clock, call: LiveCall, *texts: str) -> tuple[str, bool]:
    """The answer to the last of these; those before it do not end the call."""
    for text in texts[:-1]:
        time.forward(6)
        assert not say(stage, call, text)[1]
    time.forward(6)
    return say(stage, call, texts[-1])


def appointment(call: LiveCall) -> Any:
    row = table.get(call.scope.pk("appointment"), call.appointment)
    assert row is not None
    return json.loads(row["doc"])


def transcript(call: LiveCall) -> list[Any]:
    row = table.get(call.scope.pk("session", call.id), "transcript")
    lines: list[Any] = json.loads(row["doc"]) if row else []
    return lines


def hangs_up(stage: Stage, time: Clock, call: LiveCall, line: Line, ending: Ending = HUNG_UP) -> None:
    """The call ends, and the worker is told."""
    began = clock.parse(call.doc["answered_at"])
    time.forward(3)
    line.state = ContactState(began, clock.now(), ending)
    tell(stage, contact_event(line.contacts[call.id], "DISCONNECTED"))
    work(stage, call)


def assert_in_order(lines: Sequence[Any]) -> None:
    """Lines begin after those before them have ended."""
    times = [instant for one in lines for instant in (one["started_at_ms"], one["ended_at_ms"])]
    assert times == sorted(set(times))
    assert times[0] >= 0


# What the agent does


def test_a_yes_confirms_the_appointment(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    call = reach_customer(stage, line)
    _, closes = talk(stage, stopped_clock, call, "Yes, I'll be there.")
    assert not closes
    assert appointment(call)["status"] == "confirmed"
    _, closes = talk(stage, stopped_clock, call, "No, thank you. Goodbye.")
    assert closes
    hangs_up(stage, stopped_clock, call, line)
    assert outcome(call) == ("completed", "customer_hangup", "human")
    assert call.doc["summary"] == f"The customer confirmed the appointment of {WHEN}."
    assert events_of(stage, call.appointment) == ["appointment.created", "appointment.confirmed"]
    assert events_of(stage, call.id)[-2:] == ["session.completed", "session.transcript_ready"]


def test_an_appointment_is_moved_in_two_turns(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    call = reach_customer(stage, line)
    talk(stage, stopped_clock, call, MOVE)
    assert (appointment(call)["status"], "proposal" in call.row) == ("pending", True)
    talk(stage, stopped_clock, call, "Yes, please.")
    assert (appointment(call)["status"], appointment(call)["appointment_at"]) == ("rescheduled", MOVED)
    assert "proposal" not in call.row
    hangs_up(stage, stopped_clock, call, line)
    assert call.doc["summary"] == f"The customer moved the appointment of {WHEN} to Friday 7 June 2030 at 08:00 (UTC)."


def test_a_proposal_that_is_not_agreed_to_is_dropped(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    call = reach_customer(stage, line)
    talk(stage, stopped_clock, call, MOVE, "No, thanks.", "Yes")
    assert (appointment(call)["status"], appointment(call)["appointment_at"]) == ("pending", "2030-05-06T07:08:09.000Z")
    hangs_up(stage, stopped_clock, call, line)
    assert call.doc["summary"] is None


def test_an_appointment_is_cancelled_in_two_turns(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    call = reach_customer(stage, line)
    talk(stage, stopped_clock, call, "I'm sorry, I have to cancel my appointment.", "Yes, please cancel it.")
    assert appointment(call)["status"] == "cancelled"
    hangs_up(stage, stopped_clock, call, line)
    assert call.doc["summary"] == f"The customer cancelled the appointment of {WHEN}."


def test_who_does_not_want_to_be_called_again_is_not_and_the_call_ends(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    call = answer_live_call(stage, line)
    text, closes = talk(stage, stopped_clock, call, "Please do not call me again.")
    assert (text, closes) == ("All right, we will not call or write to you again. Goodbye!", True)
    hangs_up(stage, stopped_clock, call, line)
    assert call.doc["summary"] == "The customer does not want to be called again."
    assert get_resource(stage, f"/v1/customers/{call.customer}")["do_not_call"] is True
    assert events_of(stage, call.customer) == ["customer.created", "customer.updated"]
    refused = stage.call("POST", f"/v1/customers/{call.customer}/call", {})
    assert refused.json["error"]["code"] == "customer_opted_out"


def test_whoever_answers_opts_the_phone_out_that_was_called(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    call = answer_live_call(stage, line)
    other = create_resource(stage, "/v1/customers", phone=PHONE)["id"]
    waiting = stage.call("POST", f"/v1/customers/{other}/call", {}).json["session_id"]
    stage.call("PATCH", f"/v1/customers/{call.customer}", {"phone": "+15005550199"})
    talk(stage, stopped_clock, call, "Stop calling me!")
    assert get_resource(stage, f"/v1/sessions/{waiting}")["ended_reason"] == "opted_out"
    refused = stage.call("POST", f"/v1/customers/{other}/call", {})
    assert refused.json["error"]["code"] == "customer_opted_out"


def test_an_opt_out_in_a_call_stops_another_call_to_the_phone_that_rings(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    call = answer_live_call(stage, line)
    other = create_resource(stage, "/v1/customers", phone=PHONE)["id"]
    session = stage.call("POST", f"/v1/customers/{other}/call", {}).json["session_id"]
    ringing = LiveCall(call.scope, session, other, "")
    line.state = ContactState(None, None, None)
    stopped_clock.forward(2)
    work(stage, ringing)
    assert ringing.doc["call_status"] == "dialing"
    talk(stage, stopped_clock, call, "Stop calling me!")
    work(stage, ringing)
    assert line.stopped == [line.contacts[ringing.id]]
    assert outcome(ringing) == ("failed", "opted_out", None)


def test_a_call_that_is_spoken_when_the_customer_opts_out_elsewhere_ends_with_the_next_sentence(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    call = answer_live_call(stage, line)
    assert stage.call("PATCH", f"/v1/customers/{call.customer}", {"do_not_call": True}).status == 200
    work(stage, call)
    assert call.doc["call_status"] == "dialing"
    text, closes = talk(stage, stopped_clock, call, "Yes, I'll be there.")
    assert (text, closes) == ("Sorry, I have just heard that we are not to call you. Goodbye.", True)
    assert appointment(call)["status"] == "pending"


def test_a_call_that_rings_when_the_customer_opts_out_is_stopped(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    call = dial_live_call(stage)
    assert stage.call("PATCH", f"/v1/customers/{call.customer}", {"do_not_call": True}).status == 200
    work(stage, call)
    assert line.stopped == [line.contacts[call.id]]
    assert outcome(call) == ("failed", "opted_out", None)
    work(stage, call)
    assert_over(call)


def test_a_customer_who_asks_to_be_called_again_ends_the_call_so(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    call = answer_live_call(stage, line)
    _, closes = talk(stage, stopped_clock, call, LATER)
    assert closes
    hangs_up(stage, stopped_clock, call, line, Ending(SessionCallStatus.COMPLETED, EndedReason.AGENT_HANGUP))
    assert outcome(call) == ("call_later", "callback_requested", "human")
    assert call.doc["call_later_at"] == CALL_AT
    assert (
        call.doc["summary"]
        == f"The customer asked to be called again on {NEXT:%A} {NEXT.day} {NEXT:%B %Y} at 10:00 (UTC)."
    )
    assert appointment(call)["status"] == "pending"
    assert events_of(stage, call.id)[-2:] == ["session.call_later", "session.transcript_ready"]
    forward_and_work(stage, stopped_clock, call, FILES_GIVEN_UP_AFTER_MS)
    assert_over(call)


def test_after_a_change_in_an_earlier_turn_the_customer_is_not_called_again(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    call = reach_customer(stage, line)
    talk(stage, stopped_clock, call, "Yes, I'll be there.")
    text, closes = talk(stage, stopped_clock, call, LATER)
    assert ("another call is not needed" in text, closes) == (True, False)
    hangs_up(stage, stopped_clock, call, line)
    assert (call.doc["outcome"], call.doc["call_later_at"]) == ("confirmed", None)


def test_a_customer_who_wants_a_person_is_to_be_called_back(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    call = reach_customer(stage, line)
    _, closes = talk(stage, stopped_clock, call, "I want to speak to a person")
    assert closes
    hangs_up(stage, stopped_clock, call, line)
    assert call.doc["summary"] == "The customer is to be called back by a person."


def test_what_was_changed_is_told_though_a_person_is_asked_for_in_the_end(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    call = reach_customer(stage, line)
    talk(stage, stopped_clock, call, "Yes, I'll be there.", "I want to speak to a person")
    hangs_up(stage, stopped_clock, call, line)
    told = f"The customer confirmed the appointment of {WHEN}. The customer is to be called back by a person."
    assert call.doc["summary"] == told


def test_three_silences_in_a_row_end_the_call(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    call = answer_live_call(stage, line)
    assert [say(stage, call, None)[1] for _ in range(2)] == [False, False]
    assert not talk(stage, stopped_clock, call, "When is it?")[1]
    spoken = [say(stage, call, None) for _ in range(3)]
    assert spoken == [(voice.SILENCE, False), (voice.SILENCE, False), (voice.FAREWELL, True)]
    hangs_up(stage, stopped_clock, call, line, Ending(SessionCallStatus.COMPLETED, EndedReason.AGENT_HANGUP))
    assert outcome(call)[:2] == ("completed", "agent_hangup")


def test_nobody_is_called_a_person_for_being_silent(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    call = answer_live_call(stage, line)
    for _ in range(3):
        say(stage, call, None)
    hangs_up(stage, stopped_clock, call, line, Ending(SessionCallStatus.COMPLETED, EndedReason.AGENT_HANGUP))
    assert outcome(call) == ("completed", "agent_hangup", None)
    assert transcript(call) == []
    forward_and_work(stage, stopped_clock, call, FILES_GIVEN_UP_AFTER_MS)
    assert files(call) == ("failed", "failed")


def test_a_machine_that_was_taken_for_a_person_is_a_machine(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    call = answer_live_call(stage, line)
    talk(stage, stopped_clock, call, "You have reached the mailbox of somebody")
    hangs_up(stage, stopped_clock, call, line, Ending(SessionCallStatus.NO_ANSWER, EndedReason.VOICEMAIL, "machine"))
    assert outcome(call) == ("no_answer", "voicemail", "machine")


def test_a_talk_that_takes_too_long_keeps_what_was_done(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    call = reach_customer(stage, line)
    talk(stage, stopped_clock, call, "Yes, I'll be there.")
    forward_and_work(stage, stopped_clock, call, LONGEST_MS)
    assert outcome(call) == ("completed", "max_duration", "human")
    assert call.doc["summary"] == f"The customer confirmed the appointment of {WHEN}."
    assert call.doc["transcript_status"] == "available"


def test_an_appointment_that_was_cancelled_meanwhile_stays_so(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    call = reach_customer(stage, line)
    other = stage.call("PATCH", f"/v1/appointments/{call.appointment}", {"status": "cancelled"})
    assert other.status == 200
    talk(stage, stopped_clock, call, "Yes, I'll be there.", MOVE, "Yes, please.")
    assert appointment(call)["status"] == "cancelled"
    assert appointment(call)["appointment_at"] == "2030-05-06T07:08:09.000Z"


# Whom it speaks with


def test_a_wrong_number_hears_no_personal_data_and_the_call_has_that_outcome(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    call = answer_live_call(stage, line)
    assert talk(stage, stopped_clock, call, "You have the wrong number.") == (identity_check.WRONG, True)
    hangs_up(stage, stopped_clock, call, line, Ending(SessionCallStatus.COMPLETED, EndedReason.AGENT_HANGUP))
    assert outcome(call) == ("completed", "agent_hangup", "human")
    assert (call.doc["outcome"], call.doc["summary"]) == ("wrong_person", "Somebody else answered.")
    assert [TITLE in one["content"] or "2030" in one["content"] for one in transcript(call)] == [False] * 3
    assert appointment(call)["status"] == "pending"


@pytest.mark.parametrize(("time", "at"), [("No idea.", None), (f"On {NEXT.day} {NEXT:%B %Y} at 10 am.", CALL_AT)])
def test_a_person_who_is_not_there_is_called_later(
    stage: Stage, stopped_clock: Clock, line: Line, time: str, at: str | None
) -> None:
    call = answer_live_call(stage, line)
    text, closes = talk(stage, stopped_clock, call, "She's not here right now.", time)
    assert (text.endswith("Goodbye!"), closes) == (True, True)
    hangs_up(stage, stopped_clock, call, line, Ending(SessionCallStatus.COMPLETED, EndedReason.AGENT_HANGUP))
    assert outcome(call) == ("call_later", "callback_requested", "human")
    assert (call.doc["outcome"], call.doc["call_later_at"]) == ("callback", at)
    assert TITLE not in "".join(one["content"] for one in transcript(call))


def test_who_does_not_say_who_they_are_hears_a_goodbye(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    agent = Watched()
    use_agent(agent)
    call = answer_live_call(stage, line)
    _, closes = talk(stage, stopped_clock, call, "Cancel it!", "Yes, please cancel it.")
    assert closes
    assert agent.said == []
    hangs_up(stage, stopped_clock, call, line, Ending(SessionCallStatus.COMPLETED, EndedReason.AGENT_HANGUP))
    assert (call.doc["call_status"], call.doc["outcome"]) == ("completed", "no_change")
    assert appointment(call)["status"] == "pending"


def test_the_agent_waits_longer_for_a_person_who_is_fetched(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    call = answer_live_call(stage, line)
    assert talk(stage, stopped_clock, call, "One moment, please.") == (identity_check.PERSON_COMES, False)
    silences = [say(stage, call, None) for _ in range(voice.WAITING_SILENCES - 1)]
    assert silences == [(voice.WAITING, False)] * (voice.WAITING_SILENCES - 1)
    assert talk(stage, stopped_clock, call, "Hello?")[0] == line.started[0][-1]
    assert TITLE in talk(stage, stopped_clock, call, "Yes, speaking.")[0]


def test_nobody_is_waited_for_for_ever(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    call = answer_live_call(stage, line)
    talk(stage, stopped_clock, call, "One moment, please.")
    assert [say(stage, call, None) for _ in range(voice.WAITING_SILENCES)][-1] == (voice.FAREWELL, True)


def test_a_voicemail_that_answers_is_recognized_by_its_greeting(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    call = answer_live_call(stage, line)
    greeting = "Hi, you have reached Ada. Please leave a message after the beep."
    assert talk(stage, stopped_clock, call, greeting) == (voice.WORDS_TO_MACHINE, True)
    hangs_up(stage, stopped_clock, call, line, Ending(SessionCallStatus.COMPLETED, EndedReason.AGENT_HANGUP))
    assert outcome(call) == ("no_answer", "voicemail", "machine")
    assert call.doc["outcome"] == "unreached"
    assert events_of(stage, call.id)[-2:] == ["session.no_answer", "session.transcript_ready"]
    forward_and_work(stage, stopped_clock, call, FILES_GIVEN_UP_AFTER_MS)
    assert_over(call)


def test_a_voicemail_that_hangs_up_first_is_one_all_the_same(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    call = answer_live_call(stage, line)
    talk(stage, stopped_clock, call, "The mailbox is full. Goodbye.")
    hangs_up(stage, stopped_clock, call, line, HUNG_UP)
    assert outcome(call) == ("no_answer", "voicemail", "machine")


def test_who_speaks_of_a_message_later_in_the_call_is_no_machine(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    call = reach_customer(stage, line)
    _, closes = talk(stage, stopped_clock, call, "Please leave a message after the tone.")
    assert not closes


def test_the_phone_of_the_business_is_said_before_every_goodbye(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    call = answer_live_call(stage, line)
    assert stage.call("PATCH", "/v1/agent_settings", {"business_phone": "+4930123456"}).status == 200
    said = "You can reach us at +4930123456. Goodbye"
    assert said in [say(stage, call, None) for _ in range(3)][-1][0]
    assert said in say(stage, call, "Wrong number.")[0]
    assert stage.call("PATCH", f"/v1/customers/{call.customer}", {"do_not_call": True}).status == 200
    assert said in say(stage, call, "Hello?")[0]


def test_the_agent_says_that_a_call_is_recorded_only_where_it_is(
    stage: Stage, stopped_clock: Clock, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    dial_live_call(stage)
    monkeypatch.setenv("CONNECT_RECORD_CALLS", "0")
    stopped_clock.forward(10)
    dial_live_call(stage)
    assert ["This call is recorded." in start[-1] for start in line.started] == [True, False]


# What it is given


def test_the_agent_knows_the_instructions_and_what_was_said(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    agent = Watched()
    use_agent(agent)
    call = reach_customer(stage, line, instructions=INSTRUCTIONS)
    first, _ = talk(stage, stopped_clock, call, "When is it?")
    talk(stage, stopped_clock, call, "Thank you.")
    assert [turn.call and turn.call.instructions for turn in agent.turns] == [INSTRUCTIONS] * 2
    assert all(0 < seconds <= 60 - voice_turn.COMMIT_S for seconds in agent.seconds)
    opening = line.started[0][-1]
    introduced, matter = agent.said[1][1:3]
    assert (introduced.content, TITLE in matter.content) == ("Yes, speaking.", True)
    assert [(one.role, one.content) for one in [agent.said[1][0], *agent.said[1][3:]]] == [
        ("assistant", opening),
        ("user", "When is it?"),
        ("assistant", first),
        ("user", "Thank you."),
    ]


def test_a_live_calls_turn_is_answered_by_the_stages_model(
    stage: Stage, stopped_clock: Clock, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL_ID", "model")
    agent = Bedrock.from_environment()
    use_agent(agent)
    call = reach_customer(stage, line)
    with Stubber(agent.client) as model:
        model.add_response("converse", models.answer("end_turn", [{"text": "See you then."}]))
        assert say(stage, call, "When is it?") == ("See you then.", False)
        model.assert_no_pending_responses()


def test_a_test_calls_turn_never_reaches_the_live_agent(
    stage: Stage, stopped_clock: Clock, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Watched()
    use_agent(agent)
    monkeypatch.setenv("SIMULATE_LIVE", "1")
    call = place_live_call(stage)
    say(stage, call, "Hello")
    assert agent.said == []


def test_no_appointment_of_a_deleted_customer_is_touched(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    call = answer_live_call(stage, line)
    assert stage.call("DELETE", f"/v1/customers/{call.customer}").status == 200
    talk(stage, stopped_clock, call, "Yes, I'll be there.")
    assert appointment(call)["status"] == "pending"


def test_a_customer_who_is_deleted_during_a_turn_keeps_the_appointment_as_it_is(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    call = answer_live_call(stage, line)
    with before_commit(lambda: stage.call("DELETE", f"/v1/customers/{call.customer}")):
        talk(stage, stopped_clock, call, "Yes, I'll be there.")
    assert appointment(call)["status"] == "pending"
    assert [one["role"] for one in transcript(call)] == ["agent", "customer", "agent"]


# What is kept


def test_the_transcript_begins_with_the_opening_and_goes_on_in_order(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    call = answer_live_call(stage, line)
    opening = line.started[0][-1]
    reply, _ = talk(stage, stopped_clock, call, "When is it?")
    talk(stage, stopped_clock, call, "Thank you.")
    # Quicker than anybody speaks.
    say(stage, call, "Hello?")
    say(stage, call, "Hello?")
    hangs_up(stage, stopped_clock, call, line)
    assert call.doc["transcript_status"] == "available"
    lines = get_resource(stage, f"/v1/sessions/{call.id}/transcript")["data"]
    told = [("agent", opening), ("customer", "When is it?"), ("agent", reply), ("customer", "Thank you.")]
    assert [(one["role"], one["content"]) for one in lines][:4] == told
    assert [one["role"] for one in lines] == ["agent", *["customer", "agent"] * 4]
    assert_in_order(lines)


def test_who_answers_before_the_contact_is_written_down_is_understood_and_rung_up_with_the_same_words(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    call = place_live_call(stage)
    lose_worker_at_start(stage, call, line)
    stopped_clock.forward(12)
    say(stage, call, "Yes.")
    say(stage, call, "Yes, I'll be there.")
    assert appointment(call)["status"] == "confirmed"
    forward_and_work(stage, stopped_clock, call, START_AGAIN_MS)
    first, again = line.started
    assert first == again
    line.state = ContactState(clock.now() - 20_000, None, None)
    forward_and_work(stage, stopped_clock, call, POLL_MS)
    hangs_up(stage, stopped_clock, call, line)
    assert [one["content"] for one in transcript(call)][:2] == [first[-1], "Yes."]
    assert outcome(call) == ("completed", "customer_hangup", "human")


def test_what_is_said_before_anybody_knows_that_the_call_was_answered_is_kept(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    call = dial_live_call(stage)
    stopped_clock.forward(15)
    say(stage, call, "Yes, I'll be there.")
    line.state = ContactState(clock.now() - 9000, None, None)
    tell(stage, contact_event(line.contacts[call.id]))
    work(stage, call)
    talk(stage, stopped_clock, call, "Goodbye.")
    hangs_up(stage, stopped_clock, call, line)
    assert files(call) == ("available", "processing")
    lines = transcript(call)
    assert [one["role"] for one in lines] == ["agent", *["customer", "agent"] * 2]
    assert_in_order(lines)


def test_the_agents_transcript_is_not_overwritten_by_an_analysis(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    call = answer_live_call(stage, line)
    talk(stage, stopped_clock, call, "When is it?")
    before = transcript(call)
    tell(stage, object_event(analysis_of(line.contacts[call.id])))
    hangs_up(stage, stopped_clock, call, line)
    assert transcript(call) == before
    assert call.doc["transcript_status"] == "available"


# Again, at once, too late, in trouble


@pytest.mark.parametrize(
    ("before", "text", "status", "closes"),
    [
        ((), "Yes, I'll be there.", "confirmed", False),
        ((MOVE,), "Yes, please.", "rescheduled", False),
        (("I have to cancel my appointment.",), "Yes, please cancel it.", "cancelled", False),
        ((), LATER, "pending", True),
        ((), "I want to speak to a person", "pending", True),
        ((), "Goodbye.", "pending", True),
    ],
)
def test_a_turn_that_lex_asks_for_again_does_nothing_twice(
    stage: Stage, stopped_clock: Clock, line: Line, before: Sequence[str], text: str, status: str, closes: bool
) -> None:
    call = reach_customer(stage, line)
    once = talk(stage, stopped_clock, call, *before, text)
    again = say(stage, call, text)
    assert (once[1], again[1]) == (closes, closes)
    assert appointment(call)["status"] == status
    changes = [type for type in events_of(stage, call.appointment) if type != "appointment.created"]
    assert len(changes) == (status != "pending")
    assert_in_order(transcript(call))
    hangs_up(stage, stopped_clock, call, line)
    assert call.doc["call_later_at"] == (CALL_AT if text == LATER else None)


def test_two_turns_at_once_are_both_answered_and_kept_in_order(stage: Stage, line: Line) -> None:
    call = answer_live_call(stage, line)
    run_at_once([lambda: say(stage, call, "Yes, I'll be there."), lambda: say(stage, call, "When is it?")])
    lines = transcript(call)
    assert [one["role"] for one in lines] == ["agent", *["customer", "agent"] * 2]
    assert {one["content"] for one in lines if one["role"] == "customer"} == {"Yes, I'll be there.", "When is it?"}
    assert_in_order(lines)
    assert events_of(stage, call.appointment) in (
        ["appointment.created", "appointment.confirmed"],
        ["appointment.created"],
    )


def test_an_appointment_that_changes_during_a_turn_is_looked_at_again(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    call = answer_live_call(stage, line)
    change = {"status": "cancelled"}
    with before_commit(lambda: stage.call("PATCH", f"/v1/appointments/{call.appointment}", change)):
        talk(stage, stopped_clock, call, "Yes, I'll be there.")
    assert appointment(call)["status"] == "cancelled"
    assert events_of(stage, call.appointment) == ["appointment.created", "appointment.cancelled"]


def test_a_call_that_ends_during_a_turn_stays_as_it_ended(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    call = reach_customer(stage, line)
    use_agent(Watched(lambda: hangs_up(stage, stopped_clock, call, line)))
    assert say(stage, call, "Yes, I'll be there.") == (voice.LOST, True)
    assert outcome(call) == ("completed", "customer_hangup", "human")
    assert appointment(call)["status"] == "pending"
    assert len(transcript(call)) == 3


@pytest.mark.parametrize("told", [False, True])
def test_a_look_during_a_turn_is_no_harm_and_costs_no_second_answer_unless_something_happened(
    stage: Stage, stopped_clock: Clock, line: Line, told: bool
) -> None:
    call = reach_customer(stage, line)

    def look_up() -> None:
        if told:
            tell(stage, contact_event(line.contacts[call.id], "CONTACT_DATA_UPDATED"))
        due = call.row["due_at"]
        forward_and_work(stage, stopped_clock, call, POLL_MS)
        assert call.row["due_at"] > due

    agent = Watched(look_up)
    use_agent(agent)
    talk(stage, stopped_clock, call, "Yes, I'll be there.")
    assert appointment(call)["status"] == "confirmed"
    assert [one["role"] for one in transcript(call)] == ["agent", "customer"] * 2 + ["agent"]
    assert len(agent.said) == (2 if told else 1)


def test_who_speaks_once_the_call_is_over_is_told_goodbye(stage: Stage, stopped_clock: Clock, line: Line) -> None:
    call = answer_live_call(stage, line)
    hangs_up(stage, stopped_clock, call, line)
    assert say(stage, call, "Yes, I'll be there.") == (voice.LOST, True)
    assert say(stage, call, None) == (voice.LOST, True)
    assert appointment(call)["status"] == "pending"
    assert transcript(call) == []


@pytest.mark.parametrize("livemode", ["true", "false"])
def test_a_call_that_is_nobodys_is_an_error(stage: Stage, livemode: str, line: Line) -> None:
    call = dial_live_call(stage)
    event = lex_event("Hello")
    project = str(call.scope.project_id + (livemode == "true"))
    attributes = {"session_id": call.id, "project_id": project, "livemode": livemode}
    event["sessionState"]["sessionAttributes"] = attributes
    with pytest.raises(ApiError):
        stage.invoke("voice_turn", event)


def test_an_agent_that_fails_apologises_ends_the_call_and_has_a_person_call_back(
    stage: Stage, stopped_clock: Clock, line: Line, logged: list[logging.LogRecord]
) -> None:
    use_agent(Broken())
    call = reach_customer(stage, line)
    assert talk(stage, stopped_clock, call, "Yes, I'll be there.") == (voice.LOST, True)
    assert [text for text in map(text_of, logged) if "agent failed" in text and "ModelTimeout" in text]
    assert [(one["role"], one["content"]) for one in transcript(call)][3:] == [
        ("customer", "Yes, I'll be there."),
        ("agent", voice.LOST),
    ]
    hangs_up(stage, stopped_clock, call, line, Ending(SessionCallStatus.COMPLETED, EndedReason.AGENT_HANGUP))
    assert call.doc["summary"] == "The customer is to be called back by a person."
    assert appointment(call)["status"] == "pending"


def test_a_turn_whose_commit_meets_other_transactions_is_made_all_the_same(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    call = reach_customer(stage, line)
    with wire() as wired:
        talk(stage, stopped_clock, call, "When is it?")
    last = len(wired.calls) - 1
    assert wired.calls[last].operation == "TransactWriteItems"
    with wire(Fault(last, conflicting(-1), tries=4)) as wired:
        talk(stage, stopped_clock, call, "Yes, I'll be there.")
    assert wired.disturbed == 4
    assert appointment(call)["status"] == "confirmed"
    assert len(transcript(call)) == 7


def test_of_a_customers_appointments_only_the_one_that_the_call_is_about_is_seen(
    stage: Stage, stopped_clock: Clock, line: Line
) -> None:
    call = reach_customer(stage, line)
    other = create_resource(
        stage, "/v1/appointments", customer_id=call.customer, appointment_at="2030-02-03T04:05:06Z"
    )["id"]
    talk(stage, stopped_clock, call, "I'm coming, please confirm my appointment.")
    assert appointment(call)["status"] == "confirmed"
    assert get_resource(stage, f"/v1/appointments/{other}")["status"] == "pending"
