"""What people say to the scripted agent: the words and phrases by which it understands a message.

Patterns are for a message in lower case (`plain`). To mention a change is not enough to confirm or to call: the message
must be a row of known phrases and nothing else (`consists_of`).
"""

from __future__ import annotations

import itertools
import re

from shared.agent import assent

LONGEST = 200
"""Characters of the longest message that is searched."""
CANCEL, MOVE, CONFIRM, CALL = "cancel", "move", "confirm", "call"

MENTIONS = {
    CANCEL: r"\b(?:cancel(?:l?ing|l?ation)?|(?:remove|delete|drop|call off) (?:it|(?:my|the) (?:appointment|booking"
    r"|visit))|(?:my|the) appointment cancell?ed)\b",
    MOVE: r"\b(?:re-?sched(?:ul(?:e|ing))?|mov(?:e|ing)|postpone|change|re-?book|shift"
    r"|push (?:it |(?:my|the) appointment )?back)\b",
    CONFIRM: r"\b(?:confirm|(?:i'll|we'll|i will|we will) be there|(?:i'm|we're|i am|we are) coming)\b",
    CALL: r"\b(?:(?:call|phone|ring) (?:me|us)|give (?:me|us) a (?:call|ring)|phone call|call ?back)\b",
}
"""By change: words that mention it. None of them is enough to confirm or to call."""
OTHER_TIME = re.compile(
    r"\b(?:(?:another|different|new|later|earlier) (?:day|date|time|appointment|slot)|come (?:earlier|later|another)"
    r"|come\b.* instead|would (?:be|suit me) better)\b"
)
"""Means a new time if nothing else is mentioned."""
_SHORT = {"pl[sz]": "please", "appts?": "appointment", "thx": "thanks", "resched": "reschedule"}
_REASON = re.compile(
    r"^(?:\w+ ){0,2}?(?:(?:i|we) (?:can'?t|cannot|can not|won'?t|will not|am not able to|(?:won'?t"
    r"|will not) be able to)"
    r" (?:make|come|attend|be there)|(?:i|we) no longer (?:need|want)|(?:that|this|the) (?:time|day|date|appointment)"
    r" (?:does not|doesn'?t|won'?t) (?:work|suit))[^,.;!?]*[,.;!?] (?!but\b)"
)
QUESTION = re.compile(
    r"\b(?:when(?:'s)?|where|what|which|list|show|is it|do i have (?:an?|any) \w+|have i got|is my appointment"
    r"|my appointments|time of (?:my|the) appointment|look up (?:my|the) appointment)\b"
)
"""A question that can be about the person's own appointments."""
ASKS = re.compile(
    r"\?|^(?:and |hi |hello |please )*(?:when|where|what|which|who|why|how|do|does|is|are|can|may|tell me)\b"
)
"""A question about anything."""
WHAT = re.compile(r"(?:and |hi |hello |please )*(?:what|which|who|why|how|where)\b")
"""The beginning of a question that can be about something else than an appointment."""
OWN = "appointment booking visit time date day coming upcoming next have list show it again remind week"
"""Words of a question about the person's own appointments."""
ASKS_WHAT = re.compile(
    r"(?:and |hi |hello |please )*(?:what|who|why|how|where|when|which|do|does|is|are|will|would|should|must|has|have"
    r"|(?:can|could|may) (?:i|we))\b"
)
"""The beginning of a question that only a person may be able to answer."""
PLACE_WORDS = "located location address place find office building"
"""Words of a question about the place of an appointment."""
HOURS = re.compile(r"\b(?:open|opening|hours|close|closed|closing)\b")
NUMBER = re.compile(r"\b(?:your (?:\w+ )?number|reach you|call you|phone you)\b")
UNSURE = r"confirm|coming|be there|\?|\b(?:no|or|both|all|why|if|maybe|should)\b"
"""What makes the answer to "Which appointment shall I confirm?" unclear."""
NOT = re.compile(
    r"\b(?:not|never|nor|without|cannot|no (?:need|longer)|(?:have|need|want) to (?:check|think)"
    r"|(?:do|does|did|ca|wo|should|would|could|must|is|are|was|were|has|have)n'?t)\b"
)
"""Means perhaps the opposite of what a message mentions."""

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
BUSY = r"(?:i'm |i am |i )?(?:can'?t talk|busy|driving|in a meeting)(?: right now| now)?|call (?:me )?(?:again|later)"
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
        rf"{_POLITE}|{_IT}|{BUSY}|on|at|for|that|great|sounds good|looking forward(?: to it)?|(?:that"
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
_COMMON = {*re.findall(r"\w{3,}", str(_ROWS) + str(MENTIONS)), "not", "from", "your", "make"}
PLACES = {"1": 0, "first": 0, "2": 1, "second": 1, "3": 2, "third": 2, "4": 3, "fourth": 3, "5": 4, "fifth": 4}
PLACE = f"({'|'.join(PLACES)})"


def plain(text: str) -> str:
    """A message in lower case, in one line, without its reason; nothing of one that is too long."""
    if len(text) > LONGEST:
        return ""
    plain = " ".join(text.replace("\u2019", "'").lower().split())
    for short, word in _SHORT.items():
        plain = re.sub(rf"\b{short}\b", word, plain)
    # Why somebody wants something is not what they want.
    return _REASON.sub("", plain).strip() or plain


def consists_of(text: str, name: str) -> bool:
    """Whether a text is a row of the phrases of `_ROWS` and nothing else; signs other than pauses are words too."""
    words = re.sub(r"([^\w' ])", r" \1 ", re.sub(r"[,.!;-]", " ", text)).split()
    decisive, beside = map(re.compile, _ROWS[name])
    return ".." not in text and assent.consists_of(words, decisive, beside, _LONGEST_PHRASE)


def terms(text: str) -> frozenset[str]:
    """The words of a question that say what it is about, without their endings."""
    plain = re.sub(r"'s\b", "", text.lower().replace("\u2019", "'")).replace("'", "")
    words = re.findall(r"\w{3,}", plain)
    return frozenset(re.sub(r"(?:ing|s|ed)$", "", word) for word in words if not _FUNCTION_WORDS.fullmatch(word))


def question_words(text: str) -> list[str]:
    """All words of a question, without a greeting: words that `terms` omits tell a request from a question."""
    words = re.findall(r"\w+", text.lower().replace("\u2019", "'").replace("'s ", " is ").replace("'", ""))
    return list(itertools.dropwhile(lambda word: word in ("and", "hi", "hello", "please"), words))


def words(text: str) -> set[str]:
    """The words of a text that can identify an appointment."""
    return {word for word in re.findall(r"\w{3,}", text.lower()) if word not in _COMMON and not word.isdigit()}
