"""Whether a user's message agrees to a proposal. A security boundary: tools commit a proposal only if it does.

The check is a grammar of whole messages, not a search for words. The message must consist of known phrases from the
first word to the last, and one of them must mean yes. Anything else (a time, a condition, a second request, a question
mark, quoted text) is not agreement. A false no costs another question; a false yes costs an appointment.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Literal

ProposalKind = Literal["cancel", "reschedule", "opt_out"]
"""What a proposal is about."""
LONGEST = 80
"""The length in characters of the longest message that can be a plain yes or no."""

# Phrases of lower-case words. Omitted because people also use them to refuse or to express doubt: "right",
# "it's fine", "that's okay", "no problem", "no worries", "all good", "I'm good", "why not", "I guess", "oh great".
_YES = (
    r"y|ye+s+|yea+h*|yup+|yep+|ya|yah|aye|(?:oh|ah) yes|yes i (?:do|am)|yes you (?:can|may)|sim|s[ií]|oui|ja|jawohl",
    r"o+k+|k|kk|oka+y+|okey|okie dokie|okey dokey|alright|all right",
    r"sure|sure thing|for sure|of course|certainly|absolutely|definitely|indeed|exactly|affirmative|gladly",
    r"correct|that(?:'s| is) (?:correct|right)|i(?:'m| am) sure",
    r"(?:i )?agree|agreed|(?:i )?accept|accepted|(?:i )?approve|approved|deal",
    r"(?:please )?(?:do (?:it|so|that)|go ahead|proceed|go for it)|please do|go ahead and do (?:it|so|that)",
    r"you (?:can|may)|let's (?:do (?:it|that)|go with (?:it|that))",
    r"(?:(?:it|that|this) )?works(?: (?:for me|well|fine|perfectly|great))?",
    r"(?:it|that|this)(?:'ll| will|'d| would) work(?: (?:for me|well|fine|perfectly|great))?",
    r"(?:(?:it|that|this) )?(?:sounds|looks) (?:good|great|fine|perfect|lovely|ok|okay)(?: to me)?",
    r"perfect|great|excellent|wonderful|(?:that's |that is )?fine",
    r"(?:(?:that's|that is) )?(?:fine|okay|ok) (?:by|with|for) me",
    r"(?:it|that|this)(?:'s| is|'ll be| will be|'d be| would be) (?:perfect|great|excellent|wonderful|lovely|ideal)",
    r"that(?:'ll be| will be|'d be| would be) (?:good|fine)|that(?:'s| is) good",
    r"(?:(?:it|that|this) )?suits me(?: (?:well|fine|perfectly))?",
    r"i(?:'m| am) (?:happy|fine|ok|okay) with (?:it|that|this)",
    r"[👍👌✅✔☑💯]",
)
_POLITE = (
    r"please|thanks|thank you|thx|ty|cheers|many thanks|thank you (?:so |very )much|thanks (?:a lot|so much)",
    r"(?:thanks|thank you) for (?:your|the) help|and (?:thanks|thank you)|much appreciated|very much",
    r"por favor|gracias|merci|danke|bitte|obrigad[oa]|s'il vous pla[iî]t",
    r"hi|hello|hey|then|cool|nice|lovely|awesome|brilliant|super|good|totally",
    r"[🙏😊🙂😀😃😄😁👏❤🎉]",
)
# Agrees, except to a cancellation: there it can mean that the appointment should stay.
_CONFIRM = r"(?:i )?confirm|confirmed"
# Repeating the proposal agrees to it, and to no other proposal. "Cancel that" may mean the proposal itself.
_IT = r"(?:it|(?:the|my) appointment)"
_AGAIN = {
    "cancel": (rf"(?:(?:please|you can|go ahead and) )?cancel {_IT}", r"confirm the cancell?ation"),
    "reschedule": (rf"(?:(?:please|you can|go ahead and) )?(?:move|reschedule) {_IT}",),
}
# To "Would you like us not to call or write to you again?".
_CONTACT = r"(?:call|phone|contact|text|message|write to)"
_LEFT_ALONE = (
    r"stop|no more|yes i (?:would|want that)",
    rf"(?:yes )?(?:do not|don'?t) {_CONTACT}(?: or {_CONTACT})?(?: (?:me|us))?",
)
_NO = (
    r"n|no+|nope|nah|naw|never|never ?mind|no way|no (?:thanks|thank you)|not (?:now|really|today|yet)|stop|negative",
    r"do not|don'?t",
    r"(?:do not|don'?t) (?:do|cancel|move|change|reschedule) (?:it|that|this|anything|my appointment|the appointment)",
    r"(?:keep|leave) (?:it|that|my appointment|the appointment|everything)(?: (?:as (?:it )?is|alone))?",
    r"i (?:do not|don'?t) (?:agree|accept|want (?:it|that|this|to))|i disagree|i(?:'d| would) rather not",
    r"(?:that|this|it)(?:'s| is) (?:wrong|not right|not correct|incorrect)|wrong|incorrect|not correct",
    r"(?:that|this|it) (?:doesn'?t|does not|won'?t|will not) work(?: for me)?|forget (?:it|that|about it)",
    r"[👎❌🚫]",
)
_REGRET = ("sorry", "i'm sorry", "actually", "oh", "ok", "okay", "it's fine", "that's okay", "that's ok", "i'm good")
_Phrases = tuple[re.Pattern[str], re.Pattern[str]]


def _phrases(decisive: tuple[str, ...], beside: tuple[str, ...]) -> _Phrases:
    return re.compile("|".join(decisive)), re.compile("|".join(beside))


_AGREEING = {
    None: _phrases((*_YES, _CONFIRM), _POLITE),
    "cancel": _phrases(_YES + _AGAIN["cancel"], _POLITE),
    "reschedule": _phrases((*_YES, _CONFIRM, *_AGAIN["reschedule"]), _POLITE),
    "opt_out": _phrases((*_YES, *_LEFT_ALONE), _POLITE),
}
# "Confirm it" can mean the proposal, or the appointment as it is.
_DOUBTFUL = {
    "cancel": _phrases((rf"(?:{_CONFIRM})(?: (?:it|that|this))?",), _YES + _POLITE),
    "reschedule": _phrases((rf"(?:{_CONFIRM})(?: (?:that|this|{_IT}))?",), _YES + _POLITE),
}
_REFUSING = _phrases(_NO, _POLITE + _REGRET)
_LONGEST_PHRASE = 9
_EMOJI = re.compile("([👍👌✅✔☑💯🙏😊🙂😀😃😄😁👏❤🎉👎❌🚫])[\U0001f3fb-\U0001f3ff\ufe0f]*")
# Punctuation that does not change the meaning. An ellipsis (doubt) and a question mark (a question) do.
_PUNCTUATION = re.compile(r"[,.!;\-\u2013\u2014]")


def agrees(text: str, kind: ProposalKind | None = None) -> bool:
    """Whether the message is an unconditional yes and nothing else.

    With the `kind` of the proposal, "yes, cancel it" agrees to a cancellation, but not to a new time.
    """
    return _consists_of(_AGREEING[kind], text)


def is_doubtful(text: str, kind: ProposalKind) -> bool:
    """Whether the message says "confirm" without making clear whether it means the proposal or the appointment."""
    return kind in _DOUBTFUL and not agrees(text, kind) and _consists_of(_DOUBTFUL[kind], text)


def refuses(text: str) -> bool:
    """Whether the message is a clear no and nothing else. Many messages neither agree nor refuse."""
    return _consists_of(_REFUSING, text)


def _consists_of(phrases: _Phrases, text: str) -> bool:
    return consists_of(_words(text), *phrases)


def consists_of(
    words: Sequence[str], decisive: re.Pattern[str], beside: re.Pattern[str], longest: int = _LONGEST_PHRASE
) -> bool:
    """Whether all words form a sequence of these phrases of at most `longest` words, at least one of them decisive."""
    # The positions that phrases reach from the start, and whether one was decisive. This needs no backtracking.
    positions = {(0, False)}
    for start in range(len(words)):
        for decided in (False, True):
            if (start, decided) not in positions:
                continue
            for end in range(start + 1, min(start + longest, len(words)) + 1):
                phrase = " ".join(words[start:end])
                if decisive.fullmatch(phrase):
                    positions.add((end, True))
                if beside.fullmatch(phrase):
                    positions.add((end, decided))
    return (len(words), True) in positions


def _words(text: str) -> list[str]:
    """The words and emoji of a message in lower case; none if it is too long or has an ellipsis."""
    if len(text) > LONGEST:
        return []
    plain = unicodedata.normalize("NFKC", text).replace("\u2019", "'").lower()
    if ".." in plain:
        return []
    return _PUNCTUATION.sub(" ", _EMOJI.sub(r" \1 ", plain)).split()
