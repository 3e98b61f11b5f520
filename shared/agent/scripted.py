"""The agent of test mode and local runs: deterministic, no network, no cost.

It keeps nothing between turns. What was asked is derived from the transcript: its own questions begin with fixed
sentences, and the user's messages around them are read together. Whatever a user, a title or a location says is
data: looked at for known words, never followed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from shared.agent import Reply, Said, assent, moments
from shared.agent.tools import Appointment, Proposal, Result, Tools
from shared.core import clock

LONGEST = 1_000
"""Characters of the longest message that is read for wishes."""

MARKDOWN, HANDOFF = "[[sim:markdown]]", "[[sim:handoff]]"
RICH = """\
# Your appointment

Here is **everything** in *one* place, with a [link to the guide](https://example.com/guide "The guide").

## What to bring

1. Your `insurance card`
2. A pen
   - blue
   - or black

- [x] Confirmed
- [ ] Paid

| What | When |
|:-----|-----:|
| Check-up | 15:00 |
| Follow-up | ~~16:00~~ 16:30 |

> Please be there ten minutes early.

```python
print("See you & <soon>")
```

<p class="note">Parking is <b>free</b>.<br>Really.</p>

---

![A map](https://example.com/map.png) or plainly <https://example.com/map>
"""

ATTEND = "Will you be there?"
"""What a call about an appointment begins with; a plain yes to it confirms."""

# Fixed sentences. Those that begin a question or a miss are looked for in the transcript.
_MISSED = "Sorry, I did not understand that."
_WHICH = "Which appointment"
_WHEN = "When shall I move"
_WHEN_AGAIN = "When may I call you again?"
_WHICH_FIRST = "I do one thing at a time."
_OFFER = "Would you like a person to take over?"
_OFFER_IN_CALL = "Would you like a person to get back to you?"
_MOVE_OR_CANCEL = "Sorry to hear that. Shall I move it or cancel it?"
_CAN = "I can tell you about your appointments, confirm, move or cancel one, or hand you over to a person."
_CAN_CALL = _CAN.replace(" or cancel one, or", " or cancel one, have you called, or")
_CAN_IN_CALL = _CAN.split(", or hand", maxsplit=1)[0] + ", call you at another time, or have a person get back to you."
_ELSE = "Is there anything else I can do for you?"
_PERSON_COMES = "I am handing you over to a person, who will answer here."
_PERSON_CALLS = "I have asked a person of our team to get back to you."
_UNCHANGED = "I have changed nothing."

CANCEL, MOVE, CONFIRM, CALL = "cancel", "move", "confirm", "call"
_CHANGES = {
    CANCEL: r"cancel|cancell?ing|cancell?ation|call (?:it|that|everything|my appointment) off|call off|delete",
    MOVE: r"re-?schedul(?:e|ing)|move|moving|postpone|delay|push|shift|rebook|change(?! of)|bring (?:it )?forward",
    CONFIRM: (
        r"confirm|confirming|(?:i'll|i will|we'll|we will) (?:be there|come|attend|make it)"
        r"|(?:i'm|i am|we're) coming|count me in|see you (?:then|there)"
    ),
    CALL: r"(?:call|phone|ring) (?:me|us)|(?:give|giving) (?:me|us) a (?:call|ring)|phone call|call ?back",
}
# These move an appointment only where nothing else is wished for: "cancel it instead".
_HINTS = (
    r"make it|(?:another|different|other|new|better) (?:time|day|date|slot)|how about|what about|instead"
    r"|(?:minutes?|hours?|days?|weeks?) (?:later|earlier)"
)
_PERSON = (
    r"(?:a|the|some|real|live|actual|human) (?:human|person|operator|representative|receptionist|agent|being)"
    r"|(?:speak|talk|chat)(?:ing)? (?:to|with) (?:an?|the|some|your|one of)\b"
    r"|(?:speak|talk) (?:to|with) (?:someone|somebody)|^(?:human|person|operator|agent|representative)(?: please)?$"
    r"|someone real|hand me over|put me through"
)
_ASKS = (
    r"when|what time|what day|which day|where|what appointments?|my appointments"
    r"|list|show|do i have|have i got|details|upcoming|is (?:it|my appointment|that)|are my|confirmed|remind me"
)
# To ask these of a confirmation asks whether there is one: "can you confirm when it is?"
_ASKS_FIRST = re.compile(r"\b(?:when|what|where|which|is it|is my|confirmed)\b")
_BOOKS = r"book|(?:make|schedule|arrange|need|want|get) (?:a|an|another|a new|one more) appointment|new appointment"
_CANNOT = (
    r"(?:can'?t|cannot|can not|won'?t|will not|unable to|not able to|couldn'?t|not be able to)"
    r" (?:\w+ ){0,3}?(?:make|come|attend|be there|get there|do)|not (?:coming|attending|able to)"
)
_UNSURE = (
    r"not (?:\w+ )?sure|(?:don'?t|do not) know|undecided|(?:have|need|want) to (?:check|think|ask)|think about it"
    r"|(?:can'?t|cannot|can not) (?:say|tell|decide)"
)
# In a call: now is no time to talk.
_BUSY = (
    r"(?:can'?t|cannot|can not|unable to|not able to) (?:really )?(?:talk|speak)(?: (?:to|with) you)?(?: (?:right )?now"
    r"| at the moment)?|busy (?:right now|now|at the moment)|driving|in a meeting|no time (?:right )?now"
    r"|(?:a bad|not a good|no good) (?:time|moment) (?:right now|now|to talk)|now is (?:a bad|not a good|no good)"
    r" (?:time|moment)|call (?:me |us )?(?:again|later)|not (?:right )?now"
)
_NOT = re.compile(
    r"\b(?:don'?t|do not|not|never|no need to|no longer|won'?t|will not|can'?t|cannot|without|didn'?t|shouldn'?t"
    r"|mustn'?t|isn'?t|wasn'?t|wouldn'?t|couldn'?t|nor)\b(?: \w+){0,4} ?$"
)
_CLAUSE = re.compile(r"[.,;:!?\n]+|\b(?:but|and|just|rather|please)\b")
_QUESTION = re.compile(rf"\b(?:{_ASKS})\b")
_BOTH = re.compile(r"\b(?:both|all|every|everything|them|each)\b")

_COURTESY = r"thanks?|thank you|you|so much|very much|a lot|many thanks|cheers|ok|okay|great|perfect|super|much|for"
_COURTESY += (
    r"|your help|the help|that's all|that is all|no|nothing else|all good|alright|everyone|there|then|now|for now"
)
_BYE = re.compile(
    rf"(?:(?:{_COURTESY}) )*(?:(?:good)?bye|bye bye|good ?night|see you(?! then| there)|see ya|cya"
    r"|so long|farewell|take care"
    rf"|have a (?:nice|good|great|lovely) (?:day|evening|weekend|one)) ?(?:(?:{_COURTESY}|bye|later|soon|you too) ?)*"
)
_THANKS = re.compile(rf"(?:(?:{_COURTESY}|lovely|awesome|cool|nice|good|appreciated|🙏|😊) ?)+")
_HELLO = re.compile(
    r"(?:hi|hello|hey|hiya|howdy|greetings|good (?:morning|afternoon|evening|day)) ?(?:there|everyone|again|👋)?"
    r"|help|help me|what can you do|what can i do(?: here)?|who are you|👋"
)
_ORDINALS = ("first|1st", "second|2nd", "third|3rd", "fourth|4th", "fifth|5th")
# "My Friday appointment", "the one on Friday": which one is meant, and not where to.
_POINTS = re.compile(
    r"\b(?:my|the) (?P<before>[\w':. ]{2,30}?) (?:appointment|one|visit|meeting)\b"
    r"|\b(?:appointment|one|visit|meeting) (?:on|at|of|from) (?P<after>[\w': ]{2,30}?)(?= to |[,.?!]|$)"
)
# Words of a title or a place that point at nothing.
_COMMON = frozenset(
    (
        "the",
        "and",
        "for",
        "with",
        "from",
        "that",
        "this",
        "one",
        "appointment",
        "appointments",
        "your",
        "please",
        "at",
        "confirm",
        "cancel",
        "move",
        "reschedule",
        "change",
        "call",
        "can",
        "you",
        "want",
        "would",
        "like",
        "make",
        "not",
    )
)
_STATUS = {"pending": "not yet confirmed", "failed": "not confirmed", "rescheduled": "moved, not yet confirmed"}


class Scripted:
    """An Agent that knows its words."""

    def reply(self, said: Sequence[Said], tools: Tools, seconds: float) -> Reply:
        """Answer the last message; takes no time to speak of."""
        return Reply(_Turn(said, tools).answer())


@dataclass(frozen=True)
class _Wishes:
    """What a message asks for: changes, in the order of `_CHANGES`, and those that it says not to make."""

    wanted: tuple[str, ...]
    unwanted: tuple[str, ...]


class _Turn:
    def __init__(self, said: Sequence[Said], tools: Tools) -> None:
        self.tools = tools
        self.text = said[-1].content
        self.plain = _plain(self.text)
        self.last = said[-2].content if len(said) > 1 and said[-2].role == "assistant" else ""
        self.thread = _thread(said)
        self.heard = self.thread[-1]
        self.now = datetime.fromtimestamp(clock.now() / clock.SECOND, UTC)
        self.coming = [a for a in tools.list_appointments() if a.status != "cancelled"]
        self.proposal = tools.proposal

    def answer(self) -> str:
        if HANDOFF in self.text:
            return self._hand_off("requested by the test")
        if MARKDOWN in self.text:
            return RICH
        if self.proposal and assent.agrees(self.text, self.proposal.kind):
            return self._commit(self.proposal)
        if self.proposal and assent.refuses(self.text):
            return f"All right, {self._named(self.proposal.appointment_id)} stays as it is. {_ELSE}"
        if len(self.text) > LONGEST:
            return self._miss()
        return self._small_talk() or self._wish()

    def _small_talk(self) -> str | None:
        words = re.sub(r"[^\w' 👋🙏😊]+", " ", self.plain)
        words = " ".join(words.split())
        if len(words) > assent.LONGEST:
            words = ""
        if _has(_PERSON, self.plain) and not _negated(_PERSON, self.plain):
            return self._hand_off("customer_request")
        if self.last.endswith((_OFFER, _OFFER_IN_CALL)) and assent.agrees(self.text):
            return self._hand_off("customer_request")
        if self.tools.in_call and self.coming and self.last.endswith(ATTEND):
            if assent.agrees(self.text):
                return self._change(CONFIRM)
            refused = assent.refuses(self.text) or assent.refuses(self.text.split(",")[0])
            if refused and not self._cannot_talk and not _wishes(self.plain).wanted:
                return _MOVE_OR_CANCEL
        if _BYE.fullmatch(words):
            self.tools.end_conversation()
            return "Goodbye, and have a nice day!"
        if _HELLO.fullmatch(words):
            return f"Hello! {self._can} What can I do for you?"
        wishes = _wishes(self.plain)
        if self._is_open() or wishes.wanted or wishes.unwanted or self._cannot_talk:
            return None
        if assent.refuses(self.text):
            if self.proposal:
                return f"All right. {_UNCHANGED}"
            return f"All right. {'Thank you for your time.' if self.tools.in_call else 'I am here if you need me.'}"
        if assent.agrees(self.text) and self.last.endswith(_ELSE):
            return f"What can I do for you? {self._can}"
        if _THANKS.fullmatch(words):
            return f"You are welcome! {_ELSE}"
        return f"Nothing is waiting for a yes. {self._can}" if assent.agrees(self.text) else None

    @property
    def _cannot_talk(self) -> bool:
        return self.tools.in_call and _has(_BUSY, self.plain) and not _negated(_BUSY, self.plain)

    def _is_open(self) -> bool:
        """Whether the agent's last message asked something that a plain word can answer."""
        return _begins(self.last, _WHICH, _WHEN, _WHEN_AGAIN, _WHICH_FIRST, _MOVE_OR_CANCEL)

    def _wish(self) -> str:
        wishes = _wishes(self.plain)
        wanted, asked = list(wishes.wanted), self._asked_for()
        if not wanted and self._cannot_talk:
            wanted = [CALL]
        elif not wanted and not wishes.unwanted:
            if asked and not assent.refuses(self.text) and not _QUESTION.search(self.plain):
                wanted = [asked]
            elif self.proposal:
                wanted = self._corrected(self.proposal)
        if len(wanted) > 1:
            doing = _DOING | ({CALL: "call you again"} if self.tools.in_call else {})
            return f"{_WHICH_FIRST} {_UNCHANGED} What shall I do first: {' or '.join(doing[one] for one in wanted)}?"
        if _BOTH.search(self.plain) and wanted and wanted[0] in (CANCEL, CONFIRM, MOVE) and len(self.coming) > 1:
            return f"{_WHICH} shall I {wanted[0]} first? I do one thing at a time.\n\n{self._listed(self.coming)}"
        if wanted == [CALL]:
            return self._call_again() if self.tools.in_call else self._call()
        if _has(_BOOKS, self.plain) and not wanted:
            return f"I cannot make new appointments. {self._offer}"
        if wanted == [CONFIRM] and _ASKS_FIRST.search(self.plain):
            wanted = []
        if wanted:
            return self._change(wanted[0])
        return self._no_change(wishes)

    def _no_change(self, wishes: _Wishes) -> str:
        if _QUESTION.search(self.plain):
            return self._list()
        if _has(_CANNOT, self.plain) and self.coming:
            return _MOVE_OR_CANCEL
        if _has(_UNSURE, self.plain):
            return f"All right, there is no hurry. {_UNCHANGED} {_ELSE}"
        if wishes.unwanted or assent.refuses(self.text) or assent.refuses(self.text.split(",")[0]):
            return f"All right, {_UNCHANGED} {_ELSE}"
        return self._miss()

    def _asked_for(self) -> str | None:
        """The change that the open question is about."""
        if _begins(self.last, _WHEN_AGAIN):
            return CALL
        for heard in reversed(self.thread[:-1]):
            wanted = _wishes(_plain(heard.text)).wanted
            if len(wanted) == 1:
                return wanted[0]
        return MOVE if _begins(self.last, _WHEN) else None

    def _corrected(self, proposal: Proposal) -> list[str]:
        """What was proposed, if the message names another time or appointment for it."""
        if _QUESTION.search(self.plain):
            return []
        if proposal.kind == "reschedule" and moments.names_any(self.text):
            return [MOVE]
        wanted = MOVE if proposal.kind == "reschedule" else CANCEL
        meant = self._meant(self.heard, wanted)
        return [wanted] if meant and all(a.id != proposal.appointment_id for a in meant) else []

    def _change(self, wanted: str) -> str:
        if not self.coming:
            return f"You have no coming appointment to {wanted}. {self._offer}"
        choice = self._choose(wanted)
        if choice is None:
            asking = f"{_WHICH} shall I {wanted}?"
            if _begins(self.last, _WHICH) and len(self.thread) > 1 and not _wishes(self.plain).wanted:
                return self._miss(f"{asking}\n\n{self._listed(self.coming)}")
            return f"{asking}\n\n{self._listed(self.coming)}"
        if wanted == CONFIRM:
            return self._confirm(choice)
        return self._propose_cancellation(choice) if wanted == CANCEL else self._propose_move(choice)

    def _confirm(self, choice: Appointment) -> str:
        if choice.status == "confirmed":
            return f"{_upper(described(choice))} is already confirmed. {_ELSE}"
        result = self.tools.confirm(choice.id)
        return f"{_upper(described(choice))} is confirmed. {_ELSE}" if result.ok else _failed(result)

    def _propose_cancellation(self, choice: Appointment) -> str:
        result = self.tools.propose_cancellation(choice.id)
        return f"{self._dropped()}Shall I cancel {described(choice)}?" if result.ok else _failed(result)

    def _propose_move(self, choice: Appointment) -> str:
        at = self._new_time(choice)
        if isinstance(at, moments.Unclear):
            asking = f"{_WHEN} {described(choice)}? {at.ask}"
            stuck = at.why == "missing" and not _wishes(self.plain).wanted and not moments.names_any(self.text)
            return self._miss(asking) if stuck and _begins(self.last, _WHEN) else asking
        target, present = at.at, _in_zone(choice.at, choice.timezone)
        if (target.hour, target.minute) == (present.hour, present.minute):
            target = target.replace(second=present.second, microsecond=present.microsecond)
        result = self.tools.propose_reschedule(choice.id, target.astimezone(UTC).isoformat())
        if not result.ok:
            return _failed(result)
        return f"{self._dropped()}Shall I move {described(choice)} to {_local(target)}?"

    def _new_time(self, choice: Appointment) -> moments.Moment | moments.Unclear:
        """The time that the messages around the open question name for an appointment."""
        day = hour = None
        if self.proposal and self.proposal.at and self.proposal.appointment_id == choice.id:
            offered = _in_zone(self.proposal.at, choice.timezone)
            day, hour = offered.date(), offered.time()
        targets = []
        for heard in self.thread:
            _, target = _source_and_target(heard.text)
            # An answer to "which?" names the appointment, unless it says where to as well.
            names_it = heard.answers(_WHICH) and target == heard.text and not _wishes(_plain(heard.text)).wanted
            if not names_it:
                targets.append(target)
        return self._put_together(targets, ZoneInfo(choice.timezone), _at(choice), day, hour)

    def _put_together(
        self, texts: Iterable[str], zone: ZoneInfo, present: datetime | None, day: date | None, hour: time | None
    ) -> moments.Moment | moments.Unclear:
        """The time that the texts name together, the latest last."""
        answer: moments.Moment | moments.Unclear = moments.read("", self.now, zone, present)
        for text in texts:
            if not moments.names_any(text):
                continue
            answer = moments.read(text, self.now, zone, present, day=day, hour=hour)
            if isinstance(answer, moments.Moment):
                day, hour = answer.at.date(), answer.at.time()
            else:
                day, hour = answer.day or day, answer.hour or hour
        return answer

    def _commit(self, proposal: Proposal) -> str:
        named = self._named(proposal.appointment_id)
        if not self.tools.commit_proposal().ok:
            return f"I could not do that, because something has changed in the meantime. {_UNCHANGED} {_ELSE}"
        if proposal.kind == "cancel":
            return f"Done: {named} is cancelled. {_ELSE}"
        zone = next((a.timezone for a in self.coming if a.id == proposal.appointment_id), "UTC")
        at = _in_zone(proposal.at or "", zone)
        return f"Done: {named} is moved to {_local(at)}. {_ELSE}"

    def _dropped(self) -> str:
        """A word about a proposal that the user said yes to, and then more."""
        first = re.split(r"\W", self.plain, maxsplit=1)[0]
        return f"One thing at a time: {_UNCHANGED} " if self.proposal and assent.agrees(first) else ""

    @property
    def _can(self) -> str:
        if self.tools.in_call:
            return _CAN_IN_CALL
        return _CAN_CALL if self.tools.can_call else _CAN

    @property
    def _offer(self) -> str:
        return _OFFER_IN_CALL if self.tools.in_call else _OFFER

    def _call(self) -> str:
        if self.tools.can_call and moments.names_any(self.text):
            return 'I can only have you called right away. Say "call me" if you want that.'
        result = self.tools.request_call()
        if result.ok:
            return "All right, you will be called in a moment."
        return f"I cannot have you called. {self._offer}"

    def _call_again(self) -> str:
        """End the call for now, as soon as it is clear for when to."""
        texts: list[str] = []
        for heard in reversed(self.thread):
            texts.insert(0, re.sub(_BUSY, "", _plain(heard.text)))
            if not heard.answers(_WHEN_AGAIN):
                break
        zone = self.coming[0].timezone if self.coming else self.tools.timezone or "UTC"
        at = self._put_together(texts, ZoneInfo(zone), None, None, None)
        if isinstance(at, moments.Unclear):
            asking = f"{_WHEN_AGAIN} {at.ask}"
            stuck = at.why == "missing" and not moments.names_any(self.text) and not _wishes(self.plain).wanted
            return self._miss(asking) if stuck and _begins(self.last, _WHEN_AGAIN) else asking
        result = self.tools.call_later(at.at.astimezone(UTC).isoformat())
        if not result.ok:
            return f"I could not do that. {result.message} {_ELSE}"
        return f"All right, we will call you again on {_local(at.at)}. Goodbye!"

    def _list(self) -> str:
        if not self.coming:
            return f"You have no coming appointment. {self._offer}"
        if len(self.coming) == 1:
            return f"You have one coming appointment: {described(self.coming[0], more=True)}. {_ELSE}"
        return f"You have {len(self.coming)} coming appointments:\n\n{self._listed(self.coming)}\n\n{_ELSE}"

    def _listed(self, appointments: Sequence[Appointment]) -> str:
        return "\n".join(f"{n}. {described(a, more=True)}" for n, a in enumerate(appointments, 1))

    def _choose(self, wanted: str) -> Appointment | None:
        """The one appointment that the messages around the open question mean; None where that is not clear."""
        for heard in reversed(self.thread):
            named = self._meant(heard, wanted)
            if named is not None:
                return named[0] if len(named) == 1 else None
        if self.proposal:
            return next((a for a in self.coming if a.id == self.proposal.appointment_id), None)
        if wanted == CONFIRM and len(open_ := [a for a in self.coming if a.status != "confirmed"]) == 1:
            return open_[0]
        return self.coming[0] if len(self.coming) == 1 else None

    def _meant(self, heard: _Heard, wanted: str) -> list[Appointment] | None:
        """The appointments that a message points at: none if they are not there; None if it points nowhere."""
        plain, answers = _plain(heard.text), heard.answers(_WHICH)
        source, target = _source_and_target(heard.text)
        if wanted != MOVE or (answers and target == heard.text):
            source = plain
        places = _places(plain, len(self.coming), answers)
        if places:
            return [self.coming[place] for place in sorted(places) if place < len(self.coming)]
        if (
            answers
            and len(self.coming) == 1
            and (assent.agrees(heard.text) or re.search(r"\b(?:that|this) one\b", plain))
        ):
            return self.coming
        if self.proposal and re.search(r"\b(?:the )?other(?: one| appointment)?\b(?! (?:time|day|date))", plain):
            return [a for a in self.coming if a.id != self.proposal.appointment_id]
        candidates = self.coming
        hits = {a.id: len(_words(f"{a.title or ''} {a.location or ''}") & _words(plain)) for a in candidates}
        best = max(hits.values(), default=0)
        if best:
            candidates = [a for a in candidates if hits[a.id] == best]
        fitting = [(a, moments.fits(source, _at(a), self.now)) for a in candidates]
        if any(fits is not None for _, fits in fitting):
            dated = [a for a, fits in fitting if fits]
            return dated if dated or not best else candidates
        return candidates if best else None

    def _miss(self, again: str = "") -> str:
        """Say that it was not understood; the second time in a row a person takes over."""
        if _begins(self.last, _MISSED):
            return self._hand_off("not_understood")
        return f"{_MISSED} {again or self._can}"

    def _hand_off(self, reason: str) -> str:
        self.tools.hand_off(reason)
        return _PERSON_CALLS if self.tools.in_call else _PERSON_COMES

    def _named(self, id: str) -> str:
        return next((described(a) for a in self.coming if a.id == id), "the appointment")


_DOING = {CANCEL: "cancel", MOVE: "move", CONFIRM: "confirm", CALL: "have you called"}


@dataclass(frozen=True)
class _Heard:
    """A user's message, and what the agent had said before it."""

    text: str
    after: str

    def answers(self, question: str) -> bool:
        return _begins(self.after, question)


def _thread(said: Sequence[Said]) -> list[_Heard]:
    """The user's messages that belong together: the last, and those before it that only questions back part."""
    thread: list[_Heard] = []
    for index in range(len(said) - 1, -1, -2):
        before = said[index - 1] if index else None
        after = before.content if before and before.role == "assistant" else ""
        if said[index].role != "user":
            break
        thread.insert(0, _Heard(said[index].content, after))
        if not _begins(after, _WHICH, _WHEN, _WHEN_AGAIN):
            break
    return thread


def _begins(last: str, *sentences: str) -> bool:
    return last.removeprefix(f"{_MISSED} ").startswith(sentences) or last.startswith(sentences)


def _wishes(plain: str) -> _Wishes:
    wanted: list[str] = []
    unwanted: list[str] = []
    for change, words in _CHANGES.items():
        if _has(words, plain):
            (unwanted if _negated(words, plain) else wanted).append(change)
    if not wanted and _has(_HINTS, plain) and not _negated(_HINTS, plain):
        wanted.append(MOVE)
    return _Wishes(tuple(wanted), tuple(unwanted))


def _source_and_target(text: str) -> tuple[str, str]:
    """What of a message says which appointment is meant, and what says where to."""
    source, target = moments.split(text)
    if source:
        return source, target
    plain = _plain(text)
    points = [(match["before"] or match["after"], match.span()) for match in _POINTS.finditer(plain)]
    points = [(words, span) for words, span in points if moments.names_any(words)]
    if not points:
        return "", text
    for _, (start, end) in reversed(points):
        plain = f"{plain[:start]} {plain[end:]}"
    return " ".join(words for words, _ in points), plain


def _has(words: str, plain: str) -> bool:
    return re.search(rf"(?<!\w)(?:{words})(?!\w)", plain) is not None


def _negated(words: str, plain: str) -> bool:
    """Whether every place where the words stand has a "not" before it in its clause."""
    found = False
    for match in re.finditer(rf"(?<!\w)(?:{words})(?!\w)", plain):
        found = True
        if not _NOT.search(_CLAUSE.split(plain[: match.start()])[-1]):
            return False
    return found


def _places(plain: str, count: int, answers: bool) -> set[int]:
    """Places in the numbered list that the text names: "the second one", "the last", or just "2" as an answer."""
    places = set()
    for place, words in enumerate(_ORDINALS):
        if re.search(rf"\b(?:{words}) (?:one|appointment)\b|\bnumber {place + 1}\b|#{place + 1}\b", plain):
            places.add(place)
        if answers and re.fullmatch(rf"(?:the )?(?:{words}|{place + 1})(?: please)?[.!)]*", plain):
            places.add(place)
    if re.search(r"\b(?:the|my) (?:last|latter) (?:one|appointment)\b", plain):
        places.add(count - 1)
    if re.search(r"\b(?:the|my) (?:next|former) (?:one|appointment)\b", plain):
        places.add(0)
    return places


def _plain(text: str) -> str:
    return " ".join(text[:LONGEST].replace("\u2019", "'").lower().split())


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"\w{3,}", text.lower()) if word not in _COMMON and not word.isdigit()}


def _at(appointment: Appointment) -> datetime:
    return _in_zone(appointment.at, appointment.timezone).replace(second=0, microsecond=0)


def _in_zone(instant: str, zone: str) -> datetime:
    at = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=clock.parse(instant))
    try:
        return at.astimezone(ZoneInfo(zone))
    except OverflowError:
        # The first and the last day of the calendar have no local time everywhere.
        return at


def local(instant: str, zone: str) -> str:
    """An instant (RFC 3339) on the clocks of a zone, as Markdown."""
    return _local(_in_zone(instant, zone))


def _local(at: datetime) -> str:
    zone = at.tzinfo.key if isinstance(at.tzinfo, ZoneInfo) else "UTC"
    return f"**{at:%A} {at.day} {at:%B %Y} at {at:%H:%M}** ({zone})"


def described(appointment: Appointment, more: bool = False) -> str:
    """An appointment in a sentence, as Markdown: its title, if it has one, and its local time."""
    title = escaped(appointment.title or "")
    what = f"**{title}**" if title else "your appointment"
    text = f"{what} on {_local(_at(appointment))}"
    if more:
        place = f", {place}" if (place := escaped(appointment.location or "")) else ""
        text += f"{place}, {_STATUS.get(appointment.status, appointment.status)}"
    return text


def escaped(text: str) -> str:
    """Somebody's text as plain words in a line of Markdown: no markup, no HTML, no link."""
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    line = re.sub(r"([\\`*_\[\]<>~|&!#])", r"\\\1", line)
    return re.sub(r"(?<=\w):(?=//)|(?<=www)\.|@", lambda sign: f"\\{sign[0]}", line, flags=re.IGNORECASE)


def _upper(text: str) -> str:
    return text[0].upper() + text[1:]


def _failed(result: Result) -> str:
    return f"I could not do that. {result.message} {_UNCHANGED}"
