"""The agent of test mode and local runs: deterministic, no network, no cost.

It acts only on a plain request and asks back otherwise. Forms understood; `RULES` has one object for each kind:

    requests    confirm my appointment, I'll be there; cancel it; move it to Monday at 10:00; call me
    which one   the physio, the one on Friday, the second one; after "Which appointment?" also "2"
    answers     yes, no, to what the agent asked; the rest of a date, in one message or in several
    questions   when is my appointment?, what appointments do I have?, list
    others      a person please, hello, thanks, bye; in a call, I can't talk right now

What cannot be undone by a "no" (to confirm, to place a call, to end a call for another) needs a request whose every
word is known; a mention in other words is asked about. A cancellation and a new time are proposed, unless the message
has a "not" or asks for something else as well. Nothing is kept between turns: what was asked is derived from the
transcript, by the fixed sentences that questions begin with, and the user's messages around a question are read
together. Whatever a user, a title or a location says is data: searched for known words, never followed.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from shared.agent import Reply, Utterance, assent, dates
from shared.agent.tools import AppointmentView, HandoffReason, Tools, TurnInput
from shared.agent.wording import ATTEND, describe, describe_hours, escape, local_time, long_time, why_not
from shared.appointments.resource import AppointmentStatus
from shared.core import clock

LONGEST = 200
"""Characters of the longest message that is searched."""
MARKDOWN, HANDOFF = "[[sim:markdown]]", "[[sim:handoff]]"
RICH = """\
# Your appointment
**Everything** is in the [guide](https://example.com/guide "The guide"), <b>parking</b> and *directions* too.
- Your `insurance card`
```python
print("See you & <soon>")
```
"""

# Fixed sentences. The questions are looked for in the transcript.
CANCEL, MOVE, CONFIRM, CALL = "cancel", "move", "confirm", "call"
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

# Words that a message is searched for. None of them is enough to confirm or to call.
_MENTIONS = {
    CANCEL: r"\b(?:cancel(?:l?ing|l?ation)?|(?:remove|delete|drop|call off) (?:it|(?:my|the) (?:appointment|booking"
    r"|visit))|(?:my|the) appointment cancell?ed)\b",
    MOVE: r"\b(?:re-?sched(?:ul(?:e|ing))?|mov(?:e|ing)|postpone|change|re-?book|shift"
    r"|push (?:it |(?:my|the) appointment )?back)\b",
    CONFIRM: r"\b(?:confirm|(?:i'll|we'll|i will|we will) be there|(?:i'm|we're|i am|we are) coming)\b",
    CALL: r"\b(?:(?:call|phone|ring) (?:me|us)|give (?:me|us) a (?:call|ring)|phone call|call ?back)\b",
}
# Words that mean a new time if nothing else is mentioned.
_OTHER_TIME = re.compile(
    r"\b(?:(?:another|different|new|later|earlier) (?:day|date|time|appointment|slot)|come (?:earlier|later|another)"
    r"|come\b.* instead|would (?:be|suit me) better)\b"
)
_SHORT = {"pl[sz]": "please", "appts?": "appointment", "thx": "thanks", "resched": "reschedule"}
_REASON = re.compile(
    r"^(?:\w+ ){0,2}?(?:(?:i|we) (?:can'?t|cannot|can not|won'?t|will not|am not able to|(?:won'?t"
    r"|will not) be able to)"
    r" (?:make|come|attend|be there)|(?:i|we) no longer (?:need|want)|(?:that|this|the) (?:time|day|date|appointment)"
    r" (?:does not|doesn'?t|won'?t) (?:work|suit))[^,.;!?]*[,.;!?] (?!but\b)"
)
_QUESTION = re.compile(
    r"\b(?:when(?:'s)?|where|what|which|list|show|is it|do i have (?:an?|any) \w+|have i got|is my appointment"
    r"|my appointments|time of (?:my|the) appointment|look up (?:my|the) appointment)\b"
)
_ASKS = re.compile(
    r"\?|^(?:and |hi |hello |please )*(?:when|where|what|which|who|why|how|do|does|is|are|can|may|tell me)\b"
)
_WHAT = re.compile(r"(?:and |hi |hello |please )*(?:what|which|who|why|how|where)\b")
_OWN = "appointment booking visit time date day coming upcoming next have list show it again remind week"
_ASKS_WHAT = re.compile(
    r"(?:and |hi |hello |please )*(?:what|who|why|how|where|when|which|do|does|is|are|will|would|should|must|has|have"
    r"|(?:can|could|may) (?:i|we))\b"
)
_PLACE_WORDS = "located location address place find office building"
_HOURS = re.compile(r"\b(?:open|opening|hours|close|closed|closing)\b")
_NUMBER = re.compile(r"\b(?:your (?:\w+ )?number|reach you|call you|phone you)\b")
_UNSURE = r"confirm|coming|be there|\?|\b(?:no|or|both|all|why|if|maybe|should)\b"
_NOT = re.compile(
    r"\b(?:not|never|nor|without|cannot|no (?:need|longer)|(?:have|need|want) to (?:check|think)"
    r"|(?:do|does|did|ca|wo|should|would|could|must|is|are|was|were|has|have)n'?t)\b"
)

# A message that is a row of phrases and nothing else: at least one of its own, and any beside it. The words of a date
# are left out before. Only "can you" and its like may end with a question mark.
_PLEASE = (
    r"(?:(?:i(?:'d| would) (?:just )?like|i (?:just )?want(?:ed)?|i need|i wish|just want(?:ed)?|i(?:'m| am) writing)"
    r" (?:you )?to |i |please |just |(?:please )?go ahead and )?"
)
_CAN_YOU = r"(?:can|could|would) (?:you|someone) (?:please )?"
_IT = r"(?:it|this|(?:my|the) (?:appointment|one))(?: (?:on|at|for))*"
_TO_CALL = r"(?:(?:call|phone|ring) (?:me|us)|give (?:me|us) a (?:call|ring))(?: (?:back|now|again|on|at))*"
_POLITE = r"please|thanks|thank you|hi|hello|hey|yes|yeah|ok|okay|sure|of course|perfect|sorry|oh|then|now|and|but"
_SMALL_TALK = rf"{_POLITE}|great|\?|no|that's all|(?:so|very) much|a lot|there|again|later|soon"
_BUSY = r"(?:i'm |i am |i )?(?:can'?t talk|busy|driving|in a meeting)(?: right now| now)?|call (?:me )?(?:again|later)"
_I_WANT_TO = (
    r"(?:(?:i want to|i(?:'d| would) (?:like to|rather|prefer to)|i need to|i prefer to|(?:can|could|may) i"
    r"|let me|please let"
    r" me) )?"
)
_SOMEONE = (
    r"(?:(?:an?|the|your) )?(?:real |live |actual )?(?:person|human(?: being)?|operator|agent|representative"
    r"|someone|somebody"
    r"|receptionist|manager|staff|team|member of (?:(?:the|your) )?(?:staff|team))(?: from your (?:team|staff))?"
)
_ROWS = {
    CONFIRM: (
        rf"(?:you (?:can|may) )?{_PLEASE}confirm(?: {_IT})?|{_CAN_YOU}confirm(?: {_IT})?(?: please)?(?: \?)?"
        rf"|confirmed|(?:i(?:'m| am) |just )?confirming(?: {_IT})?|i accept(?: {_IT})?|count me in"
        rf"|put me down as confirmed"
        r"|see you (?:then|there)|(?:i'm|we're|i am|we are) coming"
        rf"|(?:i'll|we'll|i will|we will)(?: definitely| certainly)? (?:be there|come|make it|attend(?: {_IT})?)"
        r"|(?:i|we) can (?:make it|come|be there)",
        rf"{_POLITE}|{_IT}|{_BUSY}|on|at|for|that|great|sounds good|looking forward(?: to it)?|(?:that"
        rf"|it) works(?: for me)?",
    ),
    CALL: (
        rf"{_PLEASE}{_TO_CALL}|{_CAN_YOU}{_TO_CALL}(?: please)?(?: \?)?"
        r"|(?:i(?:'d| would) like|i want|i need|(?:can|could|may) i (?:get|have)) (?:a |to be )?(?:phone )?call(?:ed)?"
        r"(?: ?back)?(?: please)?(?: \?)?",
        rf"{_POLITE}|on|at|asap|as soon as possible",
    ),
    "a person": (
        rf"(?:(?:{_I_WANT_TO}(?:speak|talk|chat) (?:to|with)|i (?:want|need)|(?:get|give) me|(?:connect"
        rf"|transfer) me (?:to|with)"
        rf"|put me through to) )?{_SOMEONE}|(?:can|could|may) {_SOMEONE} (?:please )?(?:help|contact) me"
        r"|(?:can|could|may) (?:a|your) (?:real )?(?:person|human|receptionist|manager|staff) (?:call|ring"
        r"|phone) me(?: back)?"
        rf"|is there {_SOMEONE} (?:that )?i (?:can|could) (?:talk|speak) (?:to|with)"
        rf"|(?:ask|have|let) {_SOMEONE} (?:to )?(?:get back to|contact|call|help|ring|phone) me(?: back)?"
        r"|i (?:do not|don't) want to (?:talk|speak|chat) (?:to|with) (?:a |this |the )?(?:bot|machine|robot"
        r"|computer|ai)",
        rf"{_POLITE}|\?|instead",
    ),
    "goodbye": (r"(?:good)?bye|bye bye|good night|see you|have a (?:nice|good) (?:day|evening)", _SMALL_TALK),
    "greeting": (r"hi|hello|hey|good (?:morning|afternoon|evening)|help|what can you do|who are you", _SMALL_TALK),
    "thanks": (r"thanks|thank you|great|perfect|ok|okay", _SMALL_TALK),
}
_LONGEST_PHRASE = 12
# Words of a question that do not say what it is about.
_FUNCTION_WORDS = re.compile(
    "about|and|any|are|can|could|does|for|from|get|has|have|hello|how|know|like|may|much|need|our|please|should|tell"
    "|thanks?|that|the|there|they|this|want|was|what|when|where|which|who|why|will|with|would|your?|yours"
)
# Words of a request identify nothing, whatever the title of an appointment is.
_COMMON = {*re.findall(r"\w{3,}", str(_ROWS) + str(_MENTIONS)), "not", "from", "your", "make"}
_PLACES = {"1": 0, "first": 0, "2": 1, "second": 1, "3": 2, "third": 2, "4": 3, "fourth": 3, "5": 4, "fifth": 4}
_PLACE = f"({'|'.join(_PLACES)})"


class Scripted:
    """An Agent that follows `RULES`."""

    def reply(self, utterances: Sequence[Utterance], known: TurnInput, seconds: float) -> Reply:
        """Answer the last message; takes no time to speak of."""
        tools = Tools(known)
        last = _LastMessage(utterances, tools)
        return Reply(next(answer for rule in RULES if (answer := rule.answer(last)) is not None), tools.result)


@dataclass(frozen=True)
class _Message:
    """A user's message, and what the agent had said before it."""

    text: str
    previous: str

    @property
    def plain(self) -> str:
        """The text in lower case, in one line; nothing of one that is too long."""
        if len(self.text) > LONGEST:
            return ""
        plain = " ".join(self.text.replace("\u2019", "'").lower().split())
        for short, word in _SHORT.items():
            plain = re.sub(rf"\b{short}\b", word, plain)
        # Why somebody wants something is not what they want.
        return _REASON.sub("", plain).strip() or plain

    @property
    def topic(self) -> str | None:
        """What the question before it is about."""
        return next((topic for question, topic in _TOPICS.items() if self.previous.startswith(question)), None)


class _LastMessage:
    """The last message with what it answers, and the answers of the rules: None if a rule does not apply."""

    def __init__(self, utterances: Sequence[Utterance], tools: Tools) -> None:
        self.tools, self.known, self.result = tools, tools.known, tools.result
        self.thread = _thread(utterances)
        latest = self.thread[-1]
        self.text, self.plain, self.previous = latest.text, latest.plain, latest.previous
        self.topic = CONFIRM if tools.known.in_call and self.previous.endswith(ATTEND) else latest.topic
        self.now = datetime.fromtimestamp(clock.now() / clock.SECOND, UTC)
        self.upcoming = [a for a in tools.list_appointments() if a.status != AppointmentStatus.CANCELLED]
        self.numbered_list = "\n".join(f"{n}. {describe(a, details=True)}" for n, a in enumerate(self.upcoming, 1))
        self.yes, self.no = assent.agrees(self.text), assent.refuses(self.text)
        # In a call, to have no time now is to ask for another call, and the time of that one may be given.
        call_text = dates.without(re.sub(_BUSY, "call me", self.plain)) if tools.known.in_call else self.plain
        rows = {CONFIRM: dates.without(self.plain), CALL: call_text}
        self.requests = [change for change, text in rows.items() if _is_row(text, change)]
        self.wanted = self.requests or self._wanted()
        if self.topic not in self.wanted:
            del self.thread[:-1]

    def _wanted(self) -> list[str]:
        """The changes that the message mentions, or else the one that was asked about."""
        mentions = [change for change, words in _MENTIONS.items() if re.search(words, self.plain)]
        suggests = self.plain.startswith("how about ") and dates.names_any(self.plain)
        if not mentions and (suggests or _OTHER_TIME.search(self.plain)):
            mentions = [MOVE]
        if self.no or _NOT.search(self.plain) or (_QUESTION.search(self.plain) and not mentions):
            return []
        return mentions or ([self.topic] if self.topic else [])

    # Rules.

    def person(self) -> str | None:
        """Hand over to a person who is asked for, offered and accepted, or forced by a test."""
        accepts = self.yes and self.previous.endswith(_OFFER)
        if HANDOFF not in self.text and not accepts and not _is_row(self.plain, "a person"):
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
        if not self.tools.commit_proposal().ok and self.result.proposed:
            return f"Shall I {CANCEL if proposal.at is None else MOVE} {name}? Please answer yes or no, to be sure."
        if self.result.has("handoff"):
            return self._staff_decides()
        if not self.result.actions:
            return f"I could not do that, because something has changed in the meantime. {_UNCHANGED}"
        at = local_time(proposal.at, choice.timezone) if proposal.at and choice else None
        return f"Done: {name} is {f'moved to {long_time(at)}' if at else 'cancelled'}. {_ELSE}"

    def small_talk(self) -> str | None:
        if _is_row(self.plain, "goodbye"):
            self.tools.end_conversation()
            return "Goodbye, and have a nice day!"
        if _is_row(self.plain, "greeting"):
            return f"Hello! {_CAN} What can I do for you?"
        is_polite = not self.wanted and (self.yes or _is_row(self.plain, "thanks"))
        return f"All right. {_ELSE}" if is_polite else None

    def change(self) -> str | None:
        if len(self.wanted) > 1:
            return f"I can only do one thing at a time. {_UNCHANGED} What first: {' or '.join(self.wanted)}?"
        if self.wanted == [CALL]:
            return self._call_later() if self.known.in_call else self._call_now()
        if self.wanted and not self.upcoming:
            return f"You have no upcoming appointment to {self.wanted[0]}. {_OFFER}"
        return self._change(self.wanted[0]) if self.wanted else None

    def exact_fact(self) -> str | None:
        """Answer the very question of a fact, which may mention a change: "What is your cancellation policy?"."""
        asked = _question_words(self.plain)
        facts = [] if self.requests or not asked else self.known.settings["facts"]
        answer = next((fact["answer"] for fact in facts if _question_words(fact["question"]) == asked), None)
        return None if answer is None else f"{escape(answer)} {_ELSE}"

    def information(self) -> str | None:
        """Answer a question about the business from its facts and hours."""
        if not _ASKS.search(self.plain):
            return None
        asked = _terms(self.plain)
        # A fact without all the words may answer another question. What is asked of one's own appointment is no fact.
        facts = [] if asked <= _terms(_OWN) else self.known.settings["facts"]
        told = [fact for fact in facts if asked <= _terms(f"{fact['question']} {fact['answer']}")]
        shared = [(len(_terms(fact["question"]) & asked), fact["answer"]) for fact in told]
        best, answer = max(shared, key=lambda each: each[0], default=(0, ""))
        if best:
            return f"{escape(answer)} {_ELSE}"
        if _HOURS.search(self.plain) and self.known.settings["opening_hours"]:
            return f"{describe_hours(self.known.settings)} {_ELSE}"
        if _NUMBER.search(self.plain) and (phone := self.known.settings["business_phone"]):
            return f"You can reach us at {phone}. {_ELSE}"
        return None

    def question(self) -> str | None:
        """List the appointments, unless the question is about something else."""
        known = " ".join(
            f"{a.title or ''} {a.location or ''} {_PLACE_WORDS if a.location else ''}" for a in self.upcoming
        )
        others = _terms(dates.without(self.plain)) - _terms(f"{known} {_OWN}")
        is_about_other = others and (_WHAT.match(self.plain) or _HOURS.search(self.plain))
        if is_about_other or not _QUESTION.search(self.plain):
            return None
        if not self.upcoming:
            return f"You have no upcoming appointments. {_OFFER}"
        if len(self.upcoming) > 1:
            return f"You have {len(self.upcoming)} upcoming appointments:\n\n{self.numbered_list}\n\n{_ELSE}"
        return f"You have one upcoming appointment: {describe(self.upcoming[0], details=True)}. {_ELSE}"

    def unknown(self) -> str | None:
        """Offer a person for a question that nothing answers."""
        is_question = _ASKS_WHAT.match(self.plain) and _terms(self.plain)
        return f"I do not know that. {_OFFER}" if is_question else None

    def nothing_wanted(self) -> str | None:
        """Answer a no, or a message with a "not"."""
        is_refused = assent.refuses(self.text.split(",")[0]) or _NOT.search(self.plain)
        return f"All right. {_UNCHANGED} {_ELSE}" if self.no or is_refused else None

    # How requests are carried out.

    def _change(self, change: str) -> str:
        choice = self._choose(change)
        says_which = self.previous.startswith(f"{_WHICH} {CONFIRM}") and not re.search(_UNSURE, self.plain)
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
        if proposal is None or proposal.at is None:
            return ""
        at = long_time(local_time(proposal.at, choice.timezone))
        if self.result.problem is None:
            return f"Shall I move {name} to {at}?"
        return f"{why_not(self.result.problem)} The next possible time is {at}. Shall I move {name} to it?"

    def _staff_decides(self) -> str:
        why = "Our team decides about new times." if self.result.problem is None else why_not(self.result.problem)
        goodbye = " Goodbye!" if self.known.in_call else ""
        return f"{why} Someone will be in touch with you.{goodbye}"

    def _call_now(self) -> str:
        if not (self.yes or self.requests):
            return _CALL_NOW
        if not self.tools.request_call().ok:
            return f"I cannot arrange a call. {_OFFER}"
        if (at := self.known.calls_at) is None:
            return "All right, we will call you in a moment."
        when = long_time(local_time(clock.iso(at), self.known.settings["timezone"]))
        return f"All right. We do not call at this hour; we will call you on {when}."

    def _call_later(self) -> str:
        """End the call for now, as soon as the time of the next one is clear."""
        zone = self.upcoming[0].timezone if self.upcoming else self.known.timezone or self.known.settings["timezone"]
        is_request = self.requests or (self.topic == CALL and dates.names_any(self.plain))
        at = self._read([re.sub(_BUSY, "", one.plain) for one in self.thread if is_request], zone)
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
        alone = says_which and re.fullmatch(rf"(?:the |number )?{_PLACE}(?: please)?[.!]*", plain)
        if place := alone or re.search(rf"\b{_PLACE} (?:one|appointment)\b", plain):
            return self.upcoming[_PLACES[place[1]] :][:1]
        source, _ = dates.split(plain)
        # A time in a wish to move is mostly the new one.
        description = source if change == MOVE and (source or not says_which) else plain
        by_title = [a for a in self.upcoming if _words(f"{a.title or ''} {a.location or ''}") & _words(plain)]
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


def _is_row(text: str, name: str) -> bool:
    """Whether a text is a row of the phrases of `_ROWS` and nothing else; signs other than pauses are words too."""
    words = re.sub(r"([^\w' ])", r" \1 ", re.sub(r"[,.!;-]", " ", text)).split()
    decisive, beside = map(re.compile, _ROWS[name])
    return ".." not in text and assent.is_row(words, decisive, beside, _LONGEST_PHRASE)


def _terms(text: str) -> frozenset[str]:
    """The words of a question that say what it is about, without their endings."""
    plain = re.sub(r"'s\b", "", text.lower().replace("\u2019", "'")).replace("'", "")
    words = re.findall(r"\w{3,}", plain)
    return frozenset(re.sub(r"(?:ing|s|ed)$", "", word) for word in words if not _FUNCTION_WORDS.fullmatch(word))


def _question_words(text: str) -> list[str]:
    """All words of a question, without a greeting: words that `_terms` omits tell a request from a question."""
    words = re.findall(r"\w+", text.lower().replace("\u2019", "'").replace("'s ", " is ").replace("'", ""))
    return list(itertools.dropwhile(lambda word: word in ("and", "hi", "hello", "please"), words))


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"\w{3,}", text.lower()) if word not in _COMMON and not word.isdigit()}
