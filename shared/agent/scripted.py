"""The agent of test mode and local runs: deterministic, no network, no cost.

It acts only on a plain request and asks back otherwise. Forms understood; `RULES` has one object for each:

    requests    confirm my appointment, I'll be there; cancel it; move it to Monday at 10:00; call me
    which one   the second one, the physio, my Monday appointment, the one on Friday, the other one
    answers     yes, no, to what the agent asked; the rest of a date, in one message or in several
    questions   when is my appointment?, what appointments do I have?
    others      a person please, hello, thanks, bye, I can't come, I'm not sure; in a call, I can't talk right now

What cannot be undone by a "no" (to confirm, to place a call, to end a call for another) needs a request whose every
word is known; a mention in other words is asked about. A cancellation and a new time are proposed in any case.

It keeps nothing between turns. What was asked is derived from the transcript: its own questions begin with fixed
sentences, and the user's messages around them are read together. Whatever a user, a title or a location says is
data: searched for known words, never followed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from zoneinfo import ZoneInfo

from shared.agent import Reply, Utterance, assent, dates
from shared.agent.tools import AppointmentView, Proposal, Result, Tools
from shared.agent.wording import ATTEND, describe, local_time, long_time
from shared.core import clock

LONGEST = 1_000
"""Characters of the longest message that is searched for requests."""
LONGEST_REQUEST = 200
"""Characters of the longest message that can be a plain request."""

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

# Fixed sentences. Those that begin a question or a miss are looked for in the transcript.
_MISSED = "Sorry, I did not understand that."
_WHICH = "Which appointment"
_WHEN = "When shall I move"
_WHEN_AGAIN = "When should we call you again?"
_CONFIRM_THIS = "Would you like me to confirm"
_CALL_NOW = "Would you like us to call you now?"
_WHICH_FIRST = "I can only do one thing at a time."
_OFFER = "Would you like a person to take over?"
_OFFER_IN_CALL = "Would you like a person to get back to you?"
_MOVE_OR_CANCEL = "Sorry to hear that. Shall I move it or cancel it?"
_CAN = "I can tell you about your appointments, confirm, move or cancel one, or hand you over to a person."
_CAN_CALL = _CAN.replace(" or cancel one, or", " or cancel one, arrange a call, or")
_CAN_IN_CALL = _CAN.split(", or hand", maxsplit=1)[0] + ", call you at another time, or have a person get back to you."
_ELSE = "Is there anything else I can do for you?"
_UNCHANGED = "I have not changed anything."
_OPEN = (_WHICH, _WHEN, _WHEN_AGAIN, _CONFIRM_THIS)

# Where a message mentions a request at all.
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
    r"|confirm (?:the|your) (?:address|location|place|date|time)"
)
# To ask these of a confirmation asks whether there is one: "can you confirm when it is?"
_ASKS_FIRST = re.compile(
    r"\b(?:when|what|where|which|is it|is my|confirmed|confirm (?:the|your) (?:address|location|place|date|time))\b"
)
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
    r"(?:(?:i'm|i am|sorry) )?(?:(?:can'?t|cannot|can not|unable to|not able to) (?:really )?(?:talk|speak)"
    r"(?: (?:to|with) you)?(?: (?:right )?now| at the moment)?|busy(?: right now| now| at the moment)?|driving"
    r"|in a meeting|no time (?:right )?now|(?:a bad|not a good|no good) (?:time|moment) (?:right now|now|to talk)"
    r"|now is (?:a bad|not a good|no good) (?:time|moment)|call (?:me |us )?(?:again|later)|not (?:right )?now)"
)
# A plain request is a row of these phrases and nothing else; the words of a date are left out before. Only "can you"
# and its like may end with a question mark.
_CAN_YOU = r"(?:can|could|would) (?:you|someone|somebody|anyone) (?:please |kindly |just )?"
_I_WANT = r"(?:i(?:'d| would) like (?:you )?to |i (?:want|wish|need) (?:you )?to |let me |i do |i |please |just )"
_WHOSE = (
    r"(?:it|this|this one|that one|(?:my|the|this|our)(?: (?:[1-5](?:st|nd|rd|th)|next|last|other))?"
    r" (?:appointment|one|visit|booking))(?: (?:on|at|for|of|in|from|the))*"
)
_TO_CONFIRM = rf"confirm(?: {_WHOSE})?"
_TO_CALL = (
    r"(?:(?:call|phone|ring) (?:me|us)|give (?:me|us) a (?:call|ring))"
    r"(?: (?:back|up|now|again|later|asap|soon|right now|right away|on|at|in|the))*"
)
_DECISIVE = {
    CONFIRM: re.compile(
        rf"{_I_WANT}?{_TO_CONFIRM}|{_CAN_YOU}{_TO_CONFIRM}(?: please)?(?: \?)?|confirmed|count me in"
        r"|(?:i'll|i will|we'll|we will) (?:be there|come|attend|make it)|(?:i'm|i am|we're|we are) coming"
        r"|see you (?:then|there)"
    ),
    CALL: re.compile(
        rf"{_I_WANT}?{_TO_CALL}|{_CAN_YOU}{_TO_CALL}(?: please)?(?: \?)?|(?:a )?(?:phone call|call ?back)|call again"
        r"|i(?:'d| would) like (?:a (?:phone )?call(?: back)?|to be called(?: back)?)"
    ),
}
_BESIDE = re.compile(
    rf"{_WHOSE}|{_BUSY}|on|at|for|of|in|from|the|and|but|then|now|again|instead|sorry|would be better|yes|yeah|ok|okay"
    r"|sure|of course|great|perfect|please|thanks|thank you|hi|hello|hey|no problem|i'm|i am|i"
)
_NOT = re.compile(
    r"\b(?:don'?t|do not|not|never|no need to|no longer|won'?t|will not|can'?t|cannot|without|didn'?t|shouldn'?t"
    r"|mustn'?t|isn'?t|wasn'?t|wouldn'?t|couldn'?t|nor)\b(?: \w+){0,4} ?$"
)
_CLAUSE = re.compile(r"[.,;:!?\n]+|\b(?:but|and|just|rather|please)\b")
_QUESTION = re.compile(rf"\b(?:{_ASKS})\b")
_ALL = re.compile(r"\b(?:both|all|every|everything|them|each)\b")

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
# Words of a title or a place that identify nothing.
_COMMON = frozenset(
    (
        *("the", "and", "for", "with", "from", "that", "this", "one", "appointment", "appointments", "your", "please"),
        *("confirm", "cancel", "move", "reschedule", "change", "call", "can", "you", "want", "would", "like", "make"),
        "not",
    )
)


class Scripted:
    """An Agent that follows `RULES`."""

    def reply(self, said: Sequence[Utterance], tools: Tools, seconds: float) -> Reply:
        """Answer the last message; takes no time to speak of."""
        turn = _Turn(said, tools)
        answers = (rule.answer(turn) for rule in RULES)
        return Reply(next(answer for answer in answers if answer is not None))


@dataclass(frozen=True)
class _Message:
    """A user's message, and what the agent had said before it."""

    text: str
    after: str

    @property
    def plain(self) -> str:
        return " ".join(self.text[:LONGEST].replace("\u2019", "'").lower().split())

    def answers(self, *questions: str) -> bool:
        return _begins(self.after, *questions)


class _Turn:
    """The last message with what it answers, and the answers of the rules: None if a rule does not apply."""

    def __init__(self, said: Sequence[Utterance], tools: Tools) -> None:
        self.tools = tools
        self.thread = _thread(said)
        self.message = self.thread[-1]
        self.text, self.plain, self.last = self.message.text, self.message.plain, self.message.after
        words = " ".join(re.sub(r"[^\w' 👋🙏😊]+", " ", self.plain).split())
        self.words = words if len(words) <= assent.LONGEST else ""
        self.now = datetime.fromtimestamp(clock.now() / clock.SECOND, UTC)
        self.upcoming = [a for a in tools.list_appointments() if a.status != "cancelled"]
        self.proposal = tools.proposal
        self.yes, self.no = assent.agrees(self.text), assent.refuses(self.text)
        self.requested, self.refused = _requests(self.plain)
        self.busy = tools.in_call and _mentions(_BUSY, self.plain) and not _negates(_BUSY, self.plain)
        self.wanted = self._wanted()

    def _wanted(self) -> list[str]:
        """The changes that the message is about."""
        if self.requested or self.refused:
            return self.requested or ([CALL] if self.busy else [])
        if self.busy:
            return [CALL]
        question = _QUESTION.search(self.plain)
        if (asked := self._asked()) and not self.no and not question:
            return [asked]
        return self._corrected(self.proposal) if self.proposal and not question else []

    def _asked(self) -> str | None:
        """The change that the agent's last message asked about."""
        if _begins(self.last, _WHEN_AGAIN):
            return CALL
        if _begins(self.last, _CONFIRM_THIS):
            return CONFIRM
        which = re.search(rf"{_WHICH} shall I (\w+)", self.last) if _begins(self.last, _WHICH) else None
        return which[1] if which else MOVE if _begins(self.last, _WHEN) else None

    def _corrected(self, proposal: Proposal) -> list[str]:
        """What was proposed, if the message names another time or appointment for it."""
        if proposal.kind == "reschedule" and dates.names_any(self.text):
            return [MOVE]
        wanted = MOVE if proposal.kind == "reschedule" else CANCEL
        meant = self._meant(self.message, wanted)
        return [wanted] if meant and all(a.id != proposal.appointment_id for a in meant) else []

    # Words that tests send, and answers to a proposal.

    def forced(self) -> str | None:
        if HANDOFF in self.text:
            return self._hand_off("requested by the test")
        return RICH if MARKDOWN in self.text else None

    def agreed(self) -> str | None:
        proposal = self.proposal
        if proposal is None or not assent.agrees(self.text, proposal.kind):
            return None
        name = self._name(proposal)
        if not self.tools.commit_proposal().ok:
            return f"I could not do that, because something has changed in the meantime. {_UNCHANGED} {_ELSE}"
        if proposal.kind == "cancel":
            return f"Done: {name} is cancelled. {_ELSE}"
        zone = next((a.timezone for a in self.upcoming if a.id == proposal.appointment_id), "UTC")
        return f"Done: {name} is moved to {long_time(local_time(proposal.at or '', zone))}. {_ELSE}"

    def doubtful(self) -> str | None:
        proposal = self.proposal
        if proposal is None or not assent.is_doubtful(self.text, proposal.kind):
            return None
        self.tools.commit_proposal()
        if self.tools.proposed is None:
            return f"Something has changed in the meantime. {_UNCHANGED} {_ELSE}"
        what = "cancel" if proposal.kind == "cancel" else "move"
        return f"I want to be sure. Shall I {what} {self._name(proposal)}? Please answer yes or no."

    def refused_proposal(self) -> str | None:
        if self.proposal is None or not self.no:
            return None
        return f"All right, {self._name(self.proposal)} stays as it is. {_ELSE}"

    def too_long(self) -> str | None:
        return self._miss() if len(self.text) > LONGEST else None

    # A person, yes and no to other questions, and small talk.

    def person(self) -> str | None:
        asks = _mentions(_PERSON, self.plain) and not _negates(_PERSON, self.plain)
        accepts = self.last.endswith((_OFFER, _OFFER_IN_CALL)) and self.yes
        return self._hand_off("customer_request") if asks or accepts else None

    def accepted(self) -> str | None:
        if not self.yes:
            return None
        if self.last.endswith(_CALL_NOW) and not self.tools.in_call:
            return self._place_call()
        attends = self.tools.in_call and self.upcoming and self.last.endswith(ATTEND)
        return self._change(CONFIRM) if attends or _begins(self.last, _CONFIRM_THIS) else None

    def not_attending(self) -> str | None:
        asked = self.tools.in_call and self.upcoming and self.last.endswith(ATTEND)
        no = self.no or assent.refuses(self.text.split(",")[0])
        return _MOVE_OR_CANCEL if asked and no and not self.busy and not self.requested else None

    def goodbye(self) -> str | None:
        if not _BYE.fullmatch(self.words):
            return None
        self.tools.end_conversation()
        return "Goodbye, and have a nice day!"

    def greeting(self) -> str | None:
        return f"Hello! {self._can} What can I do for you?" if _HELLO.fullmatch(self.words) else None

    def plain_word(self) -> str | None:
        """A yes, a no or thanks, to nothing that the agent asked."""
        open_question = _begins(self.last, *_OPEN, _WHICH_FIRST, _MOVE_OR_CANCEL)
        if open_question or self.requested or self.refused or self.busy:
            return None
        if self.no:
            return f"All right. {'Thank you for your time.' if self.tools.in_call else 'I am here if you need me.'}"
        if self.yes and self.last.endswith(_ELSE):
            return f"What can I do for you? {self._can}"
        if _THANKS.fullmatch(self.words):
            return f"You are welcome! {_ELSE}"
        return f"There is nothing to agree to at the moment. {self._can}" if self.yes else None

    # Requests.

    def several(self) -> str | None:
        if len(self.wanted) < 2:
            return None
        doing = {CALL: "call you again" if self.tools.in_call else "arrange a call"}
        return f"{_WHICH_FIRST} {_UNCHANGED} What first: {' or '.join(doing.get(one, one) for one in self.wanted)}?"

    def all_of_them(self) -> str | None:
        if not self.wanted or self.wanted == [CALL] or len(self.upcoming) < 2 or not _ALL.search(self.plain):
            return None
        return f"{_WHICH} shall I {self.wanted[0]} first? {_WHICH_FIRST}\n\n{self._listed()}"

    def booking(self) -> str | None:
        books = _mentions(_BOOKS, self.plain) and not self.wanted
        return f"I cannot make new appointments. {self._offer}" if books else None

    def undecided(self) -> str | None:
        if self.wanted not in ([], [CONFIRM]) or self._is_plain(CONFIRM) or not _mentions(_UNSURE, self.plain):
            return None
        return f"All right, there is no hurry. {_UNCHANGED} {_ELSE}"

    def question(self) -> str | None:
        about = not self.wanted or (self.wanted == [CONFIRM] and _ASKS_FIRST.search(self.plain))
        if not about or not _QUESTION.search(self.plain):
            return None
        if not self.upcoming:
            return f"You have no upcoming appointments. {self._offer}"
        if len(self.upcoming) == 1:
            return f"You have one upcoming appointment: {describe(self.upcoming[0], details=True)}. {_ELSE}"
        return f"You have {len(self.upcoming)} upcoming appointments:\n\n{self._listed()}\n\n{_ELSE}"

    def call(self) -> str | None:
        if self.wanted != [CALL]:
            return None
        if self.tools.in_call:
            return self._call_again()
        if self.tools.can_call and dates.names_any(self.text):
            return f"I can only arrange a call right away. {_CALL_NOW}"
        return self._place_call() if self._is_plain(CALL) else _CALL_NOW

    def change(self) -> str | None:
        return self._change(self.wanted[0]) if self.wanted else None

    def cannot_come(self) -> str | None:
        return _MOVE_OR_CANCEL if _mentions(_CANNOT, self.plain) and self.upcoming else None

    def nothing_wanted(self) -> str | None:
        no = self.refused or self.no or assent.refuses(self.text.split(",")[0])
        return f"All right. {_UNCHANGED} {_ELSE}" if no else None

    def missed(self) -> str:
        return self._miss()

    # How requests are carried out.

    def _is_plain(self, wanted: str) -> bool:
        """Whether the message is a request in known words only: no question, condition, remark or quotation."""
        # In a call, to have no time now is to ask for another call.
        asks_by_reason = self.tools.in_call and wanted == CALL
        text = dates.without(re.sub(_BUSY, "call me", self.plain) if asks_by_reason else self.plain)
        if len(self.plain) > LONGEST_REQUEST or ".." in text or "…" in text:
            return False
        names = {word for a in self.upcoming for word in _split(f"{a.title or ''} {a.location or ''}")}
        words: list[str] = []
        for word in _split(re.sub(r"'s\b", "", text)):
            # "The physio" is an appointment.
            named = word in names - {"appointment"} and words and words[-1] in ("the", "my", "confirm", "appointment")
            if named and words[-1] == "confirm":
                words.append("the")
            if not (named or word == "appointment") or words[-1:] != ["appointment"]:
                words.append("appointment" if named else word)
        return assent.is_row(words, _DECISIVE[wanted], _BESIDE)

    def _change(self, wanted: str) -> str:
        if not self.upcoming:
            return f"You have no upcoming appointment to {wanted}. {self._offer}"
        choice = self._choose(wanted)
        if choice is None and wanted == CONFIRM and not self._is_sure():
            return f"{_CONFIRM_THIS} an appointment?"
        if choice is None:
            asking = f"{_WHICH} shall I {wanted}?\n\n{self._listed()}"
            repeated = _begins(self.last, _WHICH) and len(self.thread) > 1 and not self.requested
            return self._miss(asking) if repeated else asking
        if wanted == CONFIRM:
            return self._confirm(choice)
        return self._propose_cancellation(choice) if wanted == CANCEL else self._propose_move(choice)

    def _is_sure(self) -> bool:
        """Whether the message asks to confirm: a plain request, or an answer to a question about it."""
        answers = self.message.answers(_WHICH) and not self.requested and "?" not in self.text
        return self.yes or answers or self._is_plain(CONFIRM)

    def _confirm(self, choice: AppointmentView) -> str:
        name = describe(choice)
        if choice.status == "confirmed":
            return f"{_upper(name)} is already confirmed. {_ELSE}"
        if not self._is_sure():
            return f"{_CONFIRM_THIS} {name}?"
        result = self.tools.confirm(choice.id)
        return f"{_upper(name)} is confirmed. {_ELSE}" if result.ok else _failure(result)

    def _propose_cancellation(self, choice: AppointmentView) -> str:
        result = self.tools.propose_cancellation(choice.id)
        return f"{self._dropped()}Shall I cancel {describe(choice)}?" if result.ok else _failure(result)

    def _propose_move(self, choice: AppointmentView) -> str:
        at = self._new_time(choice)
        if isinstance(at, dates.Unclear):
            return self._ask_when(f"{_WHEN} {describe(choice)}?", _WHEN, at)
        target, present = at.at, local_time(choice.at, choice.timezone)
        if (target.hour, target.minute) == (present.hour, present.minute):
            target = target.replace(second=present.second, microsecond=present.microsecond)
        result = self.tools.propose_reschedule(choice.id, target.astimezone(UTC).isoformat())
        if not result.ok:
            return _failure(result)
        return f"{self._dropped()}Shall I move {describe(choice)} to {long_time(target)}?"

    def _ask_when(self, question: str, again: str, unclear: dates.Unclear) -> str:
        asking = f"{question} {unclear.ask}"
        names_none = unclear.why == "missing" and not self.requested and not dates.names_any(self.text)
        return self._miss(asking) if names_none and _begins(self.last, again) else asking

    def _dropped(self) -> str:
        """A word about a proposal that the user said yes to, and then more."""
        first = re.split(r"\W", self.plain, maxsplit=1)[0]
        return f"One thing at a time: {_UNCHANGED} " if self.proposal and assent.agrees(first) else ""

    def _place_call(self) -> str:
        placed = self.tools.request_call().ok
        return "All right, we will call you in a moment." if placed else f"I cannot arrange a call. {self._offer}"

    def _call_again(self) -> str:
        """End the call for now, as soon as the time of the next one is clear."""
        texts: list[str] = []
        for message in reversed(self.thread):
            texts.insert(0, re.sub(_BUSY, "", message.plain))
            if not message.answers(_WHEN_AGAIN):
                break
        zone = self.upcoming[0].timezone if self.upcoming else self.tools.timezone or "UTC"
        at = self._put_together(texts, ZoneInfo(zone), None, None, None)
        if not isinstance(at, dates.Unclear) and not self.message.answers(_WHEN_AGAIN) and not self._is_plain(CALL):
            at = dates.read("", self.now, ZoneInfo(zone))
        if isinstance(at, dates.Unclear):
            return self._ask_when(_WHEN_AGAIN, _WHEN_AGAIN, at)
        result = self.tools.call_later(at.at.astimezone(UTC).isoformat())
        if not result.ok:
            return f"I could not do that. {result.message} {_ELSE}"
        return f"All right, we will call you again on {long_time(at.at)}. Goodbye!"

    def _miss(self, again: str = "") -> str:
        """Say that it was not understood; the second time in a row a person takes over."""
        if _begins(self.last, _MISSED):
            return self._hand_off("not_understood")
        return f"{_MISSED} {again or self._can}"

    def _hand_off(self, reason: str) -> str:
        self.tools.hand_off(reason)
        if self.tools.in_call:
            return "I have asked a person of our team to get back to you."
        return "I am handing you over to a person, who will answer here."

    @property
    def _can(self) -> str:
        if self.tools.in_call:
            return _CAN_IN_CALL
        return _CAN_CALL if self.tools.can_call else _CAN

    @property
    def _offer(self) -> str:
        return _OFFER_IN_CALL if self.tools.in_call else _OFFER

    def _name(self, proposal: Proposal) -> str:
        return next((describe(a) for a in self.upcoming if a.id == proposal.appointment_id), "the appointment")

    def _listed(self) -> str:
        return "\n".join(f"{n}. {describe(a, details=True)}" for n, a in enumerate(self.upcoming, 1))

    # Which appointment, and when.

    def _new_time(self, choice: AppointmentView) -> dates.Moment | dates.Unclear:
        """The time that the messages around the open question name for an appointment."""
        day = hour = None
        if self.proposal and self.proposal.at and self.proposal.appointment_id == choice.id:
            offered = local_time(self.proposal.at, choice.timezone)
            day, hour = offered.date(), offered.time()
        targets = []
        for message in self.thread:
            _, target = _source_and_target(message.text)
            # An answer to "which?" names the appointment, unless it says where to as well.
            if not (message.answers(_WHICH) and target == message.text and not _requests(message.plain)[0]):
                targets.append(target)
        return self._put_together(targets, ZoneInfo(choice.timezone), _minute(choice), day, hour)

    def _put_together(
        self, texts: Iterable[str], zone: ZoneInfo, present: datetime | None, day: date | None, hour: time | None
    ) -> dates.Moment | dates.Unclear:
        """The time that the texts name together, the latest last."""
        answer: dates.Moment | dates.Unclear = dates.read("", self.now, zone, present)
        for text in texts:
            if not dates.names_any(text):
                continue
            answer = dates.read(text, self.now, zone, present, day=day, hour=hour)
            if isinstance(answer, dates.Moment):
                day, hour = answer.at.date(), answer.at.time()
            else:
                day, hour = answer.day or day, answer.hour or hour
        return answer

    def _choose(self, wanted: str) -> AppointmentView | None:
        """The one appointment that the messages around the open question mean; None if that is not clear."""
        for message in reversed(self.thread):
            meant = self._meant(message, wanted)
            if meant is not None:
                return meant[0] if len(meant) == 1 else None
        if self.proposal:
            return next((a for a in self.upcoming if a.id == self.proposal.appointment_id), None)
        if wanted == CONFIRM and len(pending := [a for a in self.upcoming if a.status != "confirmed"]) == 1:
            return pending[0]
        return self.upcoming[0] if len(self.upcoming) == 1 else None

    def _meant(self, message: _Message, wanted: str) -> list[AppointmentView] | None:
        """The appointments that a message identifies: [] if there is none such; None if it identifies nothing."""
        plain, answers = message.plain, message.answers(_WHICH)
        if places := _places(plain, len(self.upcoming), answers):
            return [self.upcoming[place] for place in sorted(places) if place < len(self.upcoming)]
        this_one = assent.agrees(message.text) or re.search(r"\b(?:that|this) one\b", plain)
        if answers and len(self.upcoming) == 1 and this_one:
            return self.upcoming
        if self.proposal and re.search(r"\b(?:the )?other(?: one| appointment)?\b(?! (?:time|day|date))", plain):
            return [a for a in self.upcoming if a.id != self.proposal.appointment_id]
        source, target = _source_and_target(message.text)
        if wanted != MOVE or (answers and target == message.text):
            source = plain
        return self._identified(plain, source)

    def _identified(self, plain: str, source: str) -> list[AppointmentView] | None:
        """The appointments with most words of the text in their title and location, at the time that it names."""
        hits = {a.id: len(_words(f"{a.title or ''} {a.location or ''}") & _words(plain)) for a in self.upcoming}
        best = max(hits.values(), default=0)
        candidates = [a for a in self.upcoming if hits[a.id] == best]
        fitting = [(a, dates.fits(source, _minute(a), self.now)) for a in candidates]
        if any(fits is not None for _, fits in fitting):
            return [a for a, fits in fitting if fits] or (candidates if best else [])
        return candidates if best else None


@dataclass(frozen=True)
class Rule:
    """What the agent answers to a kind of message; the first rule whose answer is not None gives the reply."""

    name: str
    example: str
    answer: Callable[[_Turn], str | None]


RULES: Sequence[Rule] = (
    Rule("forced", HANDOFF, _Turn.forced),
    Rule("agreed", "yes, to a proposal", _Turn.agreed),
    Rule("doubtful", "confirm, to a proposed cancellation", _Turn.doubtful),
    Rule("refused", "no, to a proposal", _Turn.refused_proposal),
    Rule("too long", "a message of 1,001 characters", _Turn.too_long),
    Rule("person", "a person please", _Turn.person),
    Rule("accepted", "yes, to another question", _Turn.accepted),
    Rule("not attending", "no, to the opening of a call", _Turn.not_attending),
    Rule("goodbye", "bye", _Turn.goodbye),
    Rule("greeting", "hello", _Turn.greeting),
    Rule("plain word", "thanks", _Turn.plain_word),
    Rule("several", "cancel it and call me", _Turn.several),
    Rule("all", "cancel both", _Turn.all_of_them),
    Rule("booking", "I need a new appointment", _Turn.booking),
    Rule("undecided", "I'll confirm later", _Turn.undecided),
    Rule("question", "when is my appointment?", _Turn.question),
    Rule("call", "call me", _Turn.call),
    Rule("change", "confirm; cancel it; move it to Monday at 10:00", _Turn.change),
    Rule("cannot come", "I can't come", _Turn.cannot_come),
    Rule("nothing wanted", "don't cancel it", _Turn.nothing_wanted),
    Rule("missed", "anything else", _Turn.missed),
)


def _thread(said: Sequence[Utterance]) -> list[_Message]:
    """The user's messages that belong together: the last, and those before it with only questions in between."""
    thread: list[_Message] = []
    for index in range(len(said) - 1, -1, -2):
        before = said[index - 1] if index else None
        after = before.content if before and before.role == "assistant" else ""
        if said[index].role != "user":
            break
        thread.insert(0, _Message(said[index].content, after))
        if not _begins(after, *_OPEN):
            break
    return thread


def _begins(last: str, *sentences: str) -> bool:
    return last.removeprefix(f"{_MISSED} ").startswith(sentences) or last.startswith(sentences)


def _requests(plain: str) -> tuple[list[str], list[str]]:
    """The changes that a message mentions, and those that it says not to make."""
    mentioned = [change for change, words in _CHANGES.items() if _mentions(words, plain)]
    refused = [change for change in mentioned if _negates(_CHANGES[change], plain)]
    wanted = [change for change in mentioned if change not in refused]
    if not wanted and _mentions(_HINTS, plain) and not _negates(_HINTS, plain):
        wanted.append(MOVE)
    return wanted, refused


def _mentions(words: str, plain: str) -> bool:
    return re.search(rf"(?<!\w)(?:{words})(?!\w)", plain) is not None


def _negates(words: str, plain: str) -> bool:
    """Whether every place of the words has a "not" before it in its clause."""
    places = re.finditer(rf"(?<!\w)(?:{words})(?!\w)", plain)
    return all(_NOT.search(_CLAUSE.split(plain[: place.start()])[-1]) for place in places)


def _source_and_target(text: str) -> tuple[str, str]:
    """What of a message says which appointment is meant, and what says where to."""
    source, target = dates.split(text)
    if source:
        return source, target
    plain = _Message(text, "").plain
    points = [(match["before"] or match["after"], match.span()) for match in _POINTS.finditer(plain)]
    points = [(words, span) for words, span in points if dates.names_any(words)]
    if not points:
        return "", text
    for _, (start, end) in reversed(points):
        plain = f"{plain[:start]} {plain[end:]}"
    return " ".join(words for words, _ in points), plain


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


def _split(text: str) -> list[str]:
    """The words of a text in lower case; signs other than pauses are words too."""
    return re.sub(r"([^\w' ])", r" \1 ", re.sub(r"[,.!;-]", " ", text.lower())).split()


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"\w{3,}", text.lower()) if word not in _COMMON and not word.isdigit()}


def _minute(appointment: AppointmentView) -> datetime:
    return local_time(appointment.at, appointment.timezone).replace(second=0, microsecond=0)


def _upper(text: str) -> str:
    return text[0].upper() + text[1:]


def _failure(result: Result) -> str:
    return f"I could not do that. {result.message} {_UNCHANGED}"
