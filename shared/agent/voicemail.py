"""Whether a machine answers a call, from the first thing that is heard: what it says, and how long it goes on.

Amazon Connect detects machines for outbound campaigns only. A false alarm hangs up on a person, so the signs of a
machine must outweigh those of a person: a question, an offer to help, the person's own name with "speaking".
"""

from __future__ import annotations

import re
import unicodedata

ENOUGH = 2
"""The weight from which it is a machine."""
LONG = 28
"""Words that a person rarely says before the other side speaks."""
_A_MESSAGE = r"(?:a|your|any|us a|me a|us your|me your|an? (?:brief|short|detailed)|your (?:brief|name|number|details))"
_CALL = r"(?:your|the|this) (?:phone )?call"
_SIGNS = (
    # What only machines say.
    (rf"(?:leave|record) {_A_MESSAGE}(?: \w+){{0,6}}? ?(?:message|name|number|details)"
     rf"|leave a voice ?(?:message|mail)", 3),
    (r"(?:after|at|following|wait for|hear) the (?:\w+ )?(?:tone|beep|signal)", 3),
    (r"voice ?mail(?: ?box)?|mail ?box|answering (?:machine|service)|automatic voice message|automated (?:voice"
     r"|system)", 3),
    (r"(?:the )?(?:person|number|party|subscriber|customer|mobile|phone|caller) (?:that )?(?:you|you're|you've)"
     r" (?:are |have )?(?:trying|called|call|calling|dialed|dialled|reached|wish|want)", 3),
    (rf"{_CALL} (?:has been|is being|will be|was) (?:forwarded|transferred|diverted|redirected|recorded|answered)", 3),
    (r"(?:press|dial) (?:start|one|two|three|four|five|zero|nine|hash|pound|star|the \w+ key|\d)\b", 3),
    (r"(?:is|has been) (?:switched|turned) off|out of (?:range|coverage)|not in service|temporarily unavailable"
     r"|no longer"
     r" in service|cannot be (?:reached|connected|completed)", 3),
    (r"our (?:office|opening|business|normal|regular) hours are|(?:we are|we're|office is|clinic is|shop is)"
     r" (?:currently |now )?closed|outside (?:of )?(?:our )?(?:office|business|opening) hours", 2),
    # What people say of others, machines of their owners.
    (r"(?:i|we)(?:'m| am|'re| are)?(?: sorry)?(?: (?:i|we))?(?: am| are)? ?(?:currently |just )?(?:can'?t"
     r"|cannot|can not"
     r"|couldn'?t|could not|not able to|unable to|not available to|unavailable to) (?:come to|get to|take"
     r"|answer|pick up"
     r"|reach)(?: the| my| our| your)? (?:phone|call)s?", 3),
    (r"(?:i|we) (?:can'?t|cannot) (?:answer|pick up)|non ?working number|(?:number|line) (?:that )?has been"
     r" disconnected|next available (?:agent|representative|operator)", 2),
    (r"(?:i|we)(?:'ll| will) (?:\w+ )?(?:get back|be in touch|return|call you(?: right)? back|ring you back|reply)", 2),
    (r"(?:get back to you|return your call|call you back)(?: \w+)? (?:as soon as|when|once|at (?:my|our)"
     r"|shortly|soon)", 2),
    (r"as soon as (?:possible|i can|we can|i am|i'm)", 1),
    (r"(?:you've|you have|youve) (?:now )?(?:reached|got through|come through)|this is the (?:voice|phone) of", 1),
    (r"(?:i am|i'm|we are|we're) (?:currently |either |probably |most likely |away |unfortunately )*(?:away from"
     r"|unavailable|not available|not in|out of the office|on the other line|not here|on another call)", 1),
    (r"no ?(?:one|body) is (?:available|here|able|in)|all (?:of )?our (?:agents|lines|operators|staff)", 2),
    (r"thank(?:s| you) for (?:calling|your call)", 1),
    (r"please (?:hang up|try (?:again|your call)|call (?:back|again)|send (?:me )?(?:a|an) (?:text|email"
     r"|message)|text me"
     r"|hold the line|stay on the line|listen)|your call is important|at this time|leave (?:one|it) (?:here|now)"
     r"|you know what to do", 1),
)  # fmt: skip
_PERSON = (
    (r"(?:how|what) (?:can|may|could) (?:i|we) (?:help|do|assist)|can i help|may i help|help you\?", 3),
    (r"who(?:'s| is) (?:this|calling|that|there|it|speaking)|who am i|who are you|may i ask|can i ask|what(?:'s"
     r"| is) this"
     r" about|what do you want", 3),
    (r"(?:can|may|could|shall|should) i (?:take|give|pass)|do you want to leave|would you like (?:to|me)"
     r"|i(?:'ll| can) (?:get"
     r"|fetch|take|tell)", 3),
    (r"\bspeaking\b|are you there|can you hear|i can'?t hear|hold on|one (?:moment|second|sec)|just a", 2),
    (r"my appointment|about the appointment|(?:i|we)(?:'ve| have)? (?:just )?(?:tried|got|received|heard|listened|was"
     r" just)|is my\b|(?:did|were|are|was|have|could|can|would) you|your (?:last )?message\b.*\?", 3),
    (r"\?\s*$", 1),
)  # fmt: skip
_SIGNS_OF = [(re.compile(rf"\b(?:{pattern})"), weight) for pattern, weight in _SIGNS]
_PERSON_OF = [(re.compile(pattern), weight) for pattern, weight in _PERSON]


def is_greeting(text: str) -> bool:
    """Whether the first words in a call are the greeting of a machine."""
    plain = " ".join(unicodedata.normalize("NFKC", text).replace("\u2019", "'").lower().split())
    words = re.sub(r"[^\w' ]+", " ", plain)
    words = " ".join(words.split())
    machine = sum(weight for sign, weight in _SIGNS_OF if sign.search(words)) + (len(words.split()) >= LONG)
    person = sum(weight for sign, weight in _PERSON_OF if sign.search(plain))
    return machine - person >= ENOUGH
