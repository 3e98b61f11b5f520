"""The agent of test mode and local runs: deterministic, no network, no cost.

It acts only on a plain request and asks back otherwise. `phrases.py` has the words that it understands. `RULES` has an
object for each kind of message:

    requests    confirm my appointment, I'll be there; cancel it; move it to Monday at 10:00; call me
    which one   the physio, the one on Friday, the second one; after "Which appointment?" also "2"
    answers     yes, no, to what the agent asked; the rest of a date, in one message or in several
    questions   when is my appointment?, what appointments do I have?, list
    others      a person please, hello, thanks, bye; in a call, I can't talk right now

What cannot be undone by a "no" (to confirm, to request a call, to end a call for another) needs a request whose every
word is known; a mention in other words is asked about. A cancellation and a new time are proposed, unless the message
has a "not" or asks for something else as well. Nothing is kept between turns: what was asked is derived from the
transcript, by the fixed sentences that questions begin with, and the user's messages around a question are read
together. Whatever a user, a title or a location says is data: searched for known words, never followed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from shared.agent import Reply, Utterance, assent, dates, phrases
from shared.agent.actions import HandoffReason
from shared.agent.phrases import CALL, CANCEL, CONFIRM, MOVE
from shared.agent.simulated_messages import HANDOFF, MARKDOWN, RICH
from shared.agent.tools import Tools
from shared.agent.turn import AppointmentProposal, AppointmentView, CallContext, TurnInput
from shared.agent.wording import ATTEND, describe, describe_hours, escape, local_time, long_time, why_not
from shared.appointments.resource import AppointmentStatus
from shared.core import clock

# Fixed sentences. The questions are looked for in the transcript.
_WHICH = "Which appointment shall I"
_WHEN = "When shall I move"
_WHEN_AGAIN = "When should we call you again?"
_CONFIRM_THIS = "Would you like me to confirm"
_CALL_NOW = "Would you like us to call you now?"
_TOPICS = {_WHEN: MOVE, _WHEN_AGAIN: CALL, _CONFIRM_THIS: CONFIRM, _CALL_NOW: CALL}
_TOPICS |= {f"{_WHICH} {change}": change for change in (CANCEL, MOVE, CONFIRM)}
_OFFER = "Would you like a person to get back to you?"
_CAN = "I can list your appointments, confirm, move or cancel one, call you, or have a person get back to you."
_ELSE = "Is there anything else I can do for you?"
_UNCHANGED = "I have not changed anything."


class Scripted:
    """An Agent that follows `RULES`."""

    def reply(self, utterances: Sequence[Utterance], turn_input: TurnInput, seconds: float) -> Reply:
        """Answer the last message; takes no time to speak of."""
        tools = Tools(turn_input)
        last = _LastMessage(utterances, tools)
        return Reply(next(answer for rule in RULES if (answer := rule.answer(last)) is not None), tools.result)


@dataclass(frozen=True)
class _Message:
    """A user's message, and what the agent had said before it."""

    text: str
    previous: str

    @property
    def plain(self) -> str:
        """The text, to be searched for phrases."""
        return phrases.plain(self.text)

    @property
    def topic(self) -> str | None:
        """What the question before it is about."""
        return next((topic for question, topic in _TOPICS.items() if self.previous.startswith(question)), None)


class _LastMessage:
    """The last message with what it answers, and the answers of the rules: None if a rule does not apply."""

    def __init__(self, utterances: Sequence[Utterance], tools: Tools) -> None:
        self.tools, self.turn_input, self.result = tools, tools.turn_input, tools.result
        self.thread = _thread(utterances)
        latest = self.thread[-1]
        self.text, self.plain, self.previous = latest.text, latest.plain, latest.previous
        self.topic = CONFIRM if self.turn_input.call and self.previous.endswith(ATTEND) else latest.topic
        self.now = datetime.fromtimestamp(clock.now() / clock.SECOND, UTC)
        self.upcoming = [a for a in tools.list_appointments() if a.status != AppointmentStatus.CANCELLED]
        self.numbered_list = "\n".join(f"{n}. {describe(a, details=True)}" for n, a in enumerate(self.upcoming, 1))
        self.yes, self.no = assent.agrees(self.text), assent.refuses(self.text)
        # In a call, to have no time now is to ask for another call, and the time of that one may be given.
        in_call = self.turn_input.call is not None
        call_text = dates.without(re.sub(phrases.BUSY, "call me", self.plain)) if in_call else self.plain
        rows = {CONFIRM: dates.without(self.plain), CALL: call_text}
        self.requests = [change for change, text in rows.items() if phrases.consists_of(text, change)]
        self.wanted = self.requests or self._wanted()
        if self.topic not in self.wanted:
            del self.thread[:-1]

    def _wanted(self) -> list[str]:
        """The changes that the message mentions, or else the one that was asked about."""
        mentions = [change for change, words in phrases.MENTIONS.items() if re.search(words, self.plain)]
        suggests = self.plain.startswith("how about ") and dates.names_any(self.plain)
        if not mentions and (suggests or phrases.OTHER_TIME.search(self.plain)):
            mentions = [MOVE]
        if self.no or phrases.NOT.search(self.plain) or (phrases.QUESTION.search(self.plain) and not mentions):
            return []
        return mentions or ([self.topic] if self.topic else [])

    # Rules.

    def person(self) -> str | None:
        """Hand over to a person who is asked for, offered and accepted, or forced by a test."""
        accepts = self.yes and self.previous.endswith(_OFFER)
        if HANDOFF not in self.text and not accepts and not phrases.consists_of(self.plain, "a person"):
            return None
        self.tools.hand_off(HandoffReason.PERSON_REQUESTED)
        return "I have asked someone from our team to get back to you."

    def answer_to_proposal(self) -> str | None:
        """Answer a yes, a no, or a "confirm" that can mean the appointment: the tools then propose again."""
        proposal = self.tools.proposal
        if proposal is None:
            return None
        choice = next((a for a in self.upcoming if a.id == proposal.appointment_id), None)
        name = describe(choice) if choice else "your appointment"
        if self.no:
            return f"All right, {name} stays as it is. {_ELSE}"
        if not (assent.agrees(self.text, proposal.kind) or assent.is_doubtful(self.text, proposal.kind)):
            return None
        if not self.tools.accept_proposal().ok and self.result.proposed:
            return f"Shall I {CANCEL if proposal.at is None else MOVE} {name}? Please answer yes or no, to be sure."
        if self.result.has("handoff"):
            return self._staff_decides()
        if not self.result.actions:
            return f"I could not do that, because something has changed in the meantime. {_UNCHANGED}"
        at = local_time(proposal.at, choice.timezone) if proposal.at and choice else None
        return f"Done: {name} is {f'moved to {long_time(at)}' if at else 'cancelled'}. {_ELSE}"

    def small_talk(self) -> str | None:
        if phrases.consists_of(self.plain, "goodbye"):
            self.tools.end_conversation()
            return "Goodbye, and have a nice day!"
        if phrases.consists_of(self.plain, "greeting"):
            return f"Hello! {_CAN} What can I do for you?"
        is_polite = not self.wanted and (self.yes or phrases.consists_of(self.plain, "thanks"))
        return f"All right. {_ELSE}" if is_polite else None

    def change(self) -> str | None:
        if len(self.wanted) > 1:
            return f"I can only do one thing at a time. {_UNCHANGED} What first: {' or '.join(self.wanted)}?"
        if self.wanted == [CALL]:
            return self._call_now() if self.turn_input.call is None else self._call_later(self.turn_input.call)
        if self.wanted and not self.upcoming:
            return f"You have no upcoming appointment to {self.wanted[0]}. {_OFFER}"
        return self._change(self.wanted[0]) if self.wanted else None

    def exact_fact(self) -> str | None:
        """Answer the very question of a fact, which may mention a change: "What is your cancellation policy?"."""
        asked = phrases.question_words(self.plain)
        facts = [] if self.requests or not asked else self.turn_input.settings["facts"]
        answer = next((fact["answer"] for fact in facts if phrases.question_words(fact["question"]) == asked), None)
        return None if answer is None else f"{escape(answer)} {_ELSE}"

    def information(self) -> str | None:
        """Answer a question about the business from its facts and hours."""
        if not phrases.ASKS.search(self.plain):
            return None
        asked = phrases.terms(self.plain)
        # A fact without all the words may answer another question. What is asked of one's own appointment is no fact.
        facts = [] if asked <= phrases.terms(phrases.OWN) else self.turn_input.settings["facts"]
        told = [fact for fact in facts if asked <= phrases.terms(f"{fact['question']} {fact['answer']}")]
        shared = [(len(phrases.terms(fact["question"]) & asked), fact["answer"]) for fact in told]
        best, answer = max(shared, key=lambda each: each[0], default=(0, ""))
        if best:
            return f"{escape(answer)} {_ELSE}"
        if phrases.HOURS.search(self.plain) and self.turn_input.settings["opening_hours"]:
            return f"{describe_hours(self.turn_input.settings)} {_ELSE}"
        if phrases.NUMBER.search(self.plain) and (phone := self.turn_input.settings["business_phone"]):
            return f"You can reach us at {phone}. {_ELSE}"
        return None

    def question(self) -> str | None:
        """List the appointments, unless the question is about something else."""
        about_appointments = " ".join(
            f"{a.title or ''} {a.location or ''} {phrases.PLACE_WORDS if a.location else ''}" for a in self.upcoming
        )
        others = phrases.terms(dates.without(self.plain)) - phrases.terms(f"{about_appointments} {phrases.OWN}")
        is_about_other = others and (phrases.WHAT.match(self.plain) or phrases.HOURS.search(self.plain))
        if is_about_other or not phrases.QUESTION.search(self.plain):
            return None
        if not self.upcoming:
            return f"You have no upcoming appointments. {_OFFER}"
        if len(self.upcoming) > 1:
            return f"You have {len(self.upcoming)} upcoming appointments:\n\n{self.numbered_list}\n\n{_ELSE}"
        return f"You have one upcoming appointment: {describe(self.upcoming[0], details=True)}. {_ELSE}"

    def unknown(self) -> str | None:
        """Offer a person for a question that nothing answers."""
        is_question = phrases.ASKS_WHAT.match(self.plain) and phrases.terms(self.plain)
        return f"I do not know that. {_OFFER}" if is_question else None

    def nothing_wanted(self) -> str | None:
        """Answer a no, or a message with a "not"."""
        is_refused = assent.refuses(self.text.split(",")[0]) or phrases.NOT.search(self.plain)
        return f"All right. {_UNCHANGED} {_ELSE}" if self.no or is_refused else None

    # How requests are carried out.

    def _change(self, change: str) -> str:
        choice = self._choose(change)
        says_which = self.previous.startswith(f"{_WHICH} {CONFIRM}") and not re.search(phrases.UNSURE, self.plain)
        # "Confirm" is a yes as well; to another question it can mean that one.
        is_request = self.requests and not (self.yes and self.topic)
        if change == CONFIRM and not (is_request or says_which or (self.yes and self.topic == CONFIRM)):
            return f"{_CONFIRM_THIS} {describe(choice) if choice else 'an appointment'}?"
        if choice is None:
            return f"{_WHICH} {change}?\n\n{self.numbered_list}"
        name = describe(choice)
        if change == CONFIRM:
            result = self.tools.confirm(choice.id)
            already = "already " if choice.status == AppointmentStatus.CONFIRMED else ""
            answer = f"{name[0].upper()}{name[1:]} is {already}confirmed. {_ELSE}"
        elif change == CANCEL:
            result = self.tools.propose_cancellation(choice.id)
            answer = f"Shall I cancel {name}?"
        else:
            at = self._new_time(choice)
            if isinstance(at, dates.Unclear):
                return f"{_WHEN} {name}? {at.ask}"
            result = self.tools.propose_reschedule(choice.id, at.astimezone(UTC).isoformat())
            if self.result.has("handoff"):
                return self._staff_decides()
            answer = self._offer(name, choice)
        return answer if result.ok else f"I could not do that. {result.message}"

    def _offer(self, name: str, choice: AppointmentView) -> str:
        """The question whether to move it to the proposed time, which may be another than the wished one."""
        proposal = self.result.proposed
        if not isinstance(proposal, AppointmentProposal) or proposal.at is None:
            return ""
        at = long_time(local_time(proposal.at, choice.timezone))
        if self.result.problem is None:
            return f"Shall I move {name} to {at}?"
        return f"{why_not(self.result.problem)} The next possible time is {at}. Shall I move {name} to it?"

    def _staff_decides(self) -> str:
        why = "Our team decides about new times." if self.result.problem is None else why_not(self.result.problem)
        goodbye = " Goodbye!" if self.turn_input.call else ""
        return f"{why} Someone will be in touch with you.{goodbye}"

    def _call_now(self) -> str:
        if not (self.yes or self.requests):
            return _CALL_NOW
        if not self.tools.request_call().ok:
            return f"I cannot arrange a call. {_OFFER}"
        if (at := self.turn_input.calls_at) is None:
            return "All right, we will call you in a moment."
        when = long_time(local_time(clock.iso(at), self.turn_input.settings["timezone"]))
        return f"All right. We do not call at this hour; we will call you on {when}."

    def _call_later(self, call: CallContext) -> str:
        """End the call for now, as soon as the time of the next one is clear."""
        of_call = call.timezone or self.turn_input.settings["timezone"]
        zone = self.upcoming[0].timezone if self.upcoming else of_call
        is_request = self.requests or (self.topic == CALL and dates.names_any(self.plain))
        at = self._read([re.sub(phrases.BUSY, "", one.plain) for one in self.thread if is_request], zone)
        if isinstance(at, dates.Unclear):
            return f"{_WHEN_AGAIN} {at.ask}"
        result = self.tools.call_later(at.astimezone(UTC).isoformat())
        if not result.ok:
            return f"I could not do that. {result.message}"
        return f"All right, we will call you again on {long_time(at)}. Goodbye!"

    # Which appointment, and when.

    def _new_time(self, choice: AppointmentView) -> datetime | dates.Unclear:
        """The time that the messages around the open question name. The same time of day keeps its seconds."""
        splits = [(one.previous.startswith(_WHICH), *dates.split(one.plain)) for one in self.thread]
        # An answer to "Which appointment?" names one, unless it says where to as well.
        texts = [target for says_which, source, target in splits if source or not says_which]
        present = local_time(choice.at, choice.timezone)
        at = self._read(texts, choice.timezone, present)
        if isinstance(at, datetime) and (at.hour, at.minute) == (present.hour, present.minute):
            return at.replace(second=present.second, microsecond=present.microsecond)
        return at

    def _read(self, texts: Sequence[str], zone: str, present: datetime | None = None) -> datetime | dates.Unclear:
        """The time that the last text names, or else the last two, three and so on together."""
        texts = [text for text in texts if dates.names_any(text)] or [""]
        together = [". ".join(texts[start:]) for start in reversed(range(len(texts)))]
        answers = [dates.read(text, self.now, ZoneInfo(zone), present) for text in together]
        return next((answer for answer in answers if isinstance(answer, datetime)), answers[0])

    def _choose(self, change: str) -> AppointmentView | None:
        """The one appointment that the messages around the open question mean; None if that is not clear."""
        choices = (self._meant(message, change) for message in reversed(self.thread))
        choice = next((some for some in choices if some is not None), self.upcoming)
        return choice[0] if len(choice) == 1 else None

    def _meant(self, message: _Message, change: str) -> list[AppointmentView] | None:
        """The appointments that a message identifies: [] if there is none such; None if it identifies nothing."""
        plain, says_which = message.plain, message.previous.startswith(_WHICH)
        alone = says_which and re.fullmatch(rf"(?:the |number )?{phrases.PLACE}(?: please)?[.!]*", plain)
        if place := alone or re.search(rf"\b{phrases.PLACE} (?:one|appointment)\b", plain):
            return self.upcoming[phrases.PLACES[place[1]] :][:1]
        source, _ = dates.split(plain)
        # A time in a wish to move is mostly the new one.
        description = source if change == MOVE and (source or not says_which) else plain
        words = phrases.words(plain)
        by_title = [a for a in self.upcoming if phrases.words(f"{a.title or ''} {a.location or ''}") & words]
        fits = {a.id: dates.fits(description, local_time(a.at, a.timezone), self.now) for a in self.upcoming}
        if None in fits.values():
            return by_title or None
        return [a for a in by_title or self.upcoming if fits[a.id]]


@dataclass(frozen=True)
class Rule:
    """What the agent answers to a kind of message; the first rule whose answer is not None gives the reply."""

    example: str
    answer: Callable[[_LastMessage], str | None]


RULES: Sequence[Rule] = (
    Rule(f"a person please, {HANDOFF}", _LastMessage.person),
    Rule(MARKDOWN, lambda last: RICH if MARKDOWN in last.text else None),
    Rule("yes, no or confirm, to a proposal", _LastMessage.answer_to_proposal),
    Rule("bye, hello, thanks", _LastMessage.small_talk),
    Rule("the very question of a fact", _LastMessage.exact_fact),
    Rule("confirm; cancel it; move it to Monday at 10:00; call me", _LastMessage.change),
    Rule("do you have parking? when are you open?", _LastMessage.information),
    Rule("when is my appointment?", _LastMessage.question),
    Rule("don't cancel it; I have to check", _LastMessage.nothing_wanted),
    Rule("do you treat dogs?", _LastMessage.unknown),
    Rule("anything else", lambda last: f"Sorry, I did not understand that. {_UNCHANGED} {_CAN}"),
)


def _thread(utterances: Sequence[Utterance]) -> list[_Message]:
    """The user's messages that belong together: the last, and those before it with only one question in between."""
    thread: list[_Message] = []
    for index in range(len(utterances) - 1, -1, -2):
        before = utterances[index - 1] if index else None
        previous = before.content if before and before.role == "assistant" else ""
        if utterances[index].role != "user":
            break
        thread.insert(0, _Message(utterances[index].content, previous))
        if thread[0].topic is None or thread[0].topic != thread[-1].topic:
            break
    return thread
