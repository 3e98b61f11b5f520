"""What somebody who answers a call says to "Am I speaking with Ada Lovelace?" (promises 11). Outside the model.

Only a message that consists of known phrases, one of which says "yes, it is me", is a yes: a false no costs another
question, and a false yes tells a stranger of somebody's appointment. For the other answers it is enough that the
message contains them, since they only end the call, or let it wait.
"""

from __future__ import annotations

import re
import unicodedata
from enum import Enum

from shared.agent import assent

LONGEST = 300
"""Characters of the longest message that is understood."""


class Answer(Enum):
    """What the answer means."""

    YES = "the person speaks"
    WRONG = "a wrong number, or nobody of that name"
    AWAY = "the person cannot talk now"
    WAIT = "the person is being fetched"
    WHO = "who is calling?"
    OTHER = "anything else"


_NAME = "_name_"
_PERSON = rf"(?:she|he|they|{_NAME}|(?:my|the|her|his) \w+)"
_YES = re.compile(
    r"|".join(
        (
            r"y|ye+s+|yea+h*|yup+|yep+|ya|yah|aye|ja|oui|s[ií]|yes (?:sir|ma'?am|madam|indeed|of course)",
            r"yes (?:i am|it is|you are|he is|she is)|i am|it is|you are|indeed|sure|of course|absolutely|certainly",
            rf"(?:yes )?(?:this|that|it)(?:'s| is) (?:me|she|he|her|him|i|{_NAME})|(?:it's|its) (?:me|{_NAME})",
            rf"(?:yes )?(?:i'm|i am|im) (?:{_NAME}|(?:he|she)|the one)|(?:yes )?my name(?:'s| is) {_NAME}",
            rf"(?:yes )?(?:{_NAME} |he is |she is )?(?:is )?speaking|{_NAME} here|(?:yes )?here(?: i am)?|present",
            rf"(?:yes )?(?:you(?:'re| are)|you've got|you have|you got) (?:speaking |talking )?(?:to |with )?"
            rf"(?:me|her|him|{_NAME})",
            r"(?:that's|that is|you(?:'re| are)) (?:right|correct)|correct|right|exactly|that would be me",
        )
    )
)
_BESIDE = re.compile(
    r"hi|hello|hey|hi there|hello there|good (?:morning|afternoon|evening|day)|please|thanks|thank you|ok|okay|oh|ah|uh"
    rf"|um|er|well|yes|{_NAME}|how (?:can|may) i help(?: you)?|what can i do for you|what is it|what's up|go ahead"
    r"|i'm listening|how are you(?: doing)?(?: today)?|nice to hear from you|and"
)
_WRONG_NUMBER = r"wrong (?:number|person)|not the right (?:number|person)|misdial(?:l?ed)?"
_WRONG = re.compile(
    rf"\b(?:{_WRONG_NUMBER}|wrong (?:phone|house|family)"
    rf"|(?:no ?one|nobody|no person|anyone|anybody) (?:here )?(?:by|of|with|called|named) (?:that name|the name"
    rf"|{_NAME})"
    rf"|(?:no ?one|nobody) (?:here )?(?:is )?(?:called|named) (?:that|{_NAME})"
    rf"|(?:there(?:'s| is)|we have|i have|got) no {_NAME}|no {_NAME} (?:here|lives|at this|on this)"
    rf"|(?:no such|not a) (?:person|name|{_NAME})|never heard of (?:{_NAME}|her|him|them|that)"
    rf"|(?:do not|don'?t) know (?:a |any |anyone (?:called |named |of )?|anybody (?:called |named )?|no |who )?"
    rf"(?:{_NAME}|her|him|them|that (?:person|name)|by that name)"
    rf"|{_PERSON} (?:does not|doesn'?t|no longer|do not|don'?t) (?:lives?|works?|stays?)(?: here)?"
    rf"|{_PERSON}(?:'s| has)? left (?:us|the (?:company|firm))"
    r"|(?:do not|doesn'?t|does not|no longer) live here|moved (?:out|away)"
    r"|(?:isn'?t|is not|not|no longer) (?:her|his|their|\w+'s) (?:number|phone)"
    r"|(?:passed away|deceased|has died|is dead|died))\b"
)
_NOT_HERE = (
    r"(?:here|in|home|at home|available|around|there|at (?:work|her desk|his desk)|in (?:the )?(?:office|today"
    r"|right now)"
    r"|able to|free|back)"
)
_AWAY = re.compile(
    rf"\b(?:(?:not|isn'?t|aren'?t|ain'?t) (?:currently |yet |really )?{_NOT_HERE}"
    rf"|{_PERSON}(?:'s|'re| is| are| has|'s just| is just| just)? (?:gone |just |currently |still )?(?:out|away|at work"
    r"|asleep|sleeping|in the (?:shower|bath|garden|hospital)|in hospital|busy|on (?:vacation|holiday|leave|a trip)"
    r"|in a meeting|driving|gone|abroad|at school|unavailable|on (?:another|the other) (?:call|line)|on the phone"
    r"|tied up|occupied|stepped out|left|travell?ing|shopping|not well|ill|sick|unwell)"
    r"|(?:can'?t|cannot|can not|could ?n'?t|unable to|not able to) (?:come to the phone|talk|speak|take (?:the"
    r"|this|your)"
    r" call|answer)"
    r"|(?:call|try|ring|phone) (?:me |us |her |him |them |it )?(?:back|again|later|tomorrow|another time)"
    rf"|{_PERSON}(?:'ll| will)(?: only)? (?:be|come) (?:back|home|here|in)|(?:bad|not a good"
    rf"|not the best) (?:time|moment)"
    r"|(?:i'm|i am) (?:busy|driving|at work|in a meeting|in the middle of|about to)|stepped out|take a message"
    r"|leave a message|not now|no time|later today|another time)\b"
)
_WAIT = re.compile(
    r"\b(?:(?:one|a|half a|just a|1|gimme a|give me a) (?:moment|second|minute|sec|min|mo|tick)|hold (?:on|the line)"
    r"|hang on|please hold|(?:just |please )?wait|bear with me"
    r"|(?:let me|i'll|i will|i can|gonna|going to) (?:just )?(?:go )?(?:and )?(?:get|fetch|grab|find|put|pass|hand|see"
    r"|check|look|transfer|ask|call|bring)|(?:she|he|they)(?:'s|'re| is| are) (?:coming|on (?:her|his|their) way)"
    r"|here (?:she|he) (?:is|comes)|i'll be right back)\b"
)
_WHO = re.compile(
    r"\b(?:who(?:'s| is|'re| are| am i|m i)?(?: it)? ?(?:this|calling|there|you|asking|that|it|speaking|talking|with)?"
    r" ?(?:please)?$|who(?:'s| is|'re| are| am| wants| may| shall| should| do| did| exactly| the)\b"
    r"|(?:may|can|could) i (?:ask|know) (?:who|what|why)|where (?:are you|do you) call|which company|what company"
    r"|what(?:'s| is) (?:this|it|that|the call|the matter)(?: all)? (?:about|regarding|concerning|for|in regard)"
    r"|why are you calling|what do you want|what's your name|what is your name|your name|how did you get"
    r"|(?:are you|is this|am i (?:talking|speaking) (?:to|with)) (?:a|an|some)"
    r"|(?:pardon|excuse me|come again|say (?:that|it) again|repeat|(?:did not|didn'?t|can'?t|could ?n'?t|cannot)"
    r" (?:hear|catch|understand|get)))"
)
_CALLER = re.compile(
    r"\b(?:who(?:'s| is| are| am) (?:this|calling|there|you|i (?:talking|speaking) (?:to|with))"
    r"|where (?:are you|do you) call(?:ing)? from|(?:which|what) (?:company|clinic|business) (?:is this|are you)"
    r"|(?:are you|is this|am i (?:talking|speaking) (?:to|with)) (?:an? )?(?:robot|bot|machine|computer|ai))\b"
)
_CLAUSE = re.compile(r"[^.,!?;\n]+[.,!?;\n]*")
_OWN_WORDS = re.compile(
    r"an|am|are|away|be|by|can|do|for|go|good|got|has|have|he|hello|her|here|hi|him|his|home|in|is|it|me|my|"
    r"name|no|nobody|not|of|oh|ok|on|one|out|person|please|right|she|speaking|that|the|there|they|this|to|wait|"
    r"we|who|will|with|wrong|yes|you"
)
"""Words of these phrases, which are none of a name here, even if somebody is called so."""


def understand(text: str, name: str) -> Answer:
    """What the answer to the question for the person with this name means."""
    if len(text) > LONGEST:
        return Answer.OTHER
    plain = _plain(text, name)
    words = _words(plain)
    for meaning, pattern in ((Answer.WRONG, _WRONG), (Answer.AWAY, _AWAY), (Answer.WAIT, _WAIT), (Answer.WHO, _WHO)):
        if pattern.search(words):
            return meaning
    return Answer.YES if _is_yes(plain) else Answer.OTHER


def is_wrong_number(text: str) -> bool:
    """Whether somebody says that the wrong number was called."""
    return len(text) <= LONGEST and bool(re.search(rf"\b(?:{_WRONG_NUMBER})\b", _plain(text, "")))


def asks_who(text: str) -> bool:
    """Whether the first words in a call ask who is calling, or why."""
    return len(text) <= LONGEST and bool(_WHO.search(_words(_plain(text, ""))))


def asks_for_caller(text: str) -> bool:
    """Whether somebody asks who is calling, at any moment of a call."""
    return len(text) <= LONGEST and bool(_CALLER.search(_words(_plain(text, ""))))


def _words(plain: str) -> str:
    return " ".join(re.sub(r"[^\w' ]", " ", plain).split())


def _is_yes(plain: str) -> bool:
    """Whether the message consists of known phrases, and one that is not a question says that the person speaks."""
    says_yes = False
    for clause in _CLAUSE.findall(plain):
        words = re.sub(r"[^\w' ]", " ", clause).split()
        is_decisive = assent.consists_of(words, _YES, _BESIDE)
        if words and not is_decisive and not assent.consists_of(words, _BESIDE, _BESIDE):
            return False
        says_yes = says_yes or (is_decisive and "?" not in clause)
    return says_yes


def _plain(text: str, name: str) -> str:
    """The text in lower case, with `_NAME` for the name or a part of it."""
    plain = unicodedata.normalize("NFKC", text).replace("\u2019", "'").lower()
    parts = [part for part in re.findall(r"\w{2,}", name.lower()) if not _OWN_WORDS.fullmatch(part)]
    if not parts:
        return plain
    one = "|".join(map(re.escape, parts))
    titles = r"(?:(?:mrs?|ms|miss|dr|doctor|mister|misses)\.? )?"
    return re.sub(rf"\b{titles}(?:{one})(?:[ -]+(?:{one}))*\b(?!['\w])", _NAME, plain)
