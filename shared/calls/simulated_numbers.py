"""Test mode's phone numbers: the last digits of a number decide the outcome of a simulated call (promises 10)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from shared.core.call_statuses import EndedReason, Ending, SessionCallStatus


class ConsentBehaviour(Enum):
    """How a customer reacts to a request for consent to calls on WhatsApp."""

    ON_FILE = "on_file"
    ACCEPTS = "accepts"
    DECLINES = "declines"
    SILENT = "silent"
    LIMITED = "limited"


@dataclass(frozen=True)
class ScriptedCall:
    """How a call that is dialed ends, and the lines of the customer who answers it.

    `ending` is None if the talk decides who hangs up: then the call is completed. `says` is for a call about an
    appointment, `says_alone` for a call about none, or about one that is cancelled. Both are empty if nobody answers.
    `asked_back` is said if the agent asks back after the first line.
    """

    ending: Ending | None = None
    says: tuple[str, ...] = ()
    says_alone: tuple[str, ...] = ()
    asked_back: str | None = None
    is_person: bool = True
    """Whether the one who answers is the customer. If so, and the agent asks for them, they say so first."""


_THANKS = "No, thank you. Goodbye."
_WRONG = "Sorry, you have the wrong number."
_STOP = "Please do not call me again."
_LATER = "I can't talk right now, please call me tomorrow at 10 in the morning."
_CONFIRMS = ScriptedCall(
    says=("Yes, I'll be there.", _THANKS),
    says_alone=(_THANKS,),
)

SCRIPTED_CALLS: Mapping[int, ScriptedCall] = {
    0: _CONFIRMS,
    1: ScriptedCall(Ending(SessionCallStatus.INVALID_NUMBER, EndedReason.INVALID_NUMBER)),
    2: ScriptedCall(Ending(SessionCallStatus.NO_ANSWER, EndedReason.NO_ANSWER)),
    3: ScriptedCall(Ending(SessionCallStatus.NO_ANSWER, EndedReason.BUSY)),
    4: ScriptedCall(Ending(SessionCallStatus.FAILED, EndedReason.BLOCKED)),
    5: ScriptedCall(
        Ending(SessionCallStatus.CALL_LATER, EndedReason.CALLBACK_REQUESTED, "human"),
        says=(_LATER,),
        says_alone=(_LATER,),
    ),
    6: ScriptedCall(
        says=("Hello, when is it again?", "Thank you, I'm coming. See you then.", "No, thanks. Bye!"),
        says_alone=("Who are you?", "No, thanks. Bye!"),
    ),
    7: ScriptedCall(Ending(SessionCallStatus.NO_ANSWER, EndedReason.VOICEMAIL, "machine")),
    8: ScriptedCall(
        says=(
            "Could you move it to one day later, at the same time, please?",
            "Yes, please.",
            "No, that's all. Goodbye.",
        ),
        says_alone=("Could you move my appointment, please?", _THANKS),
        # The clocks may skip that time a day later, or show it twice.
        asked_back="24 hours later, then.",
    ),
    9: ScriptedCall(
        says=("I'm sorry, I have to cancel my appointment.", "Yes, please cancel it.", "No, that's all. Goodbye."),
        says_alone=("I have to cancel my appointment.", _THANKS),
    ),
    10: ScriptedCall(
        says=("I'm not sure yet, I have to check my calendar first.", "No, thank you, not now."),
        says_alone=("I'm not sure, I would have to think about it.", "No, thank you, not now."),
    ),
    11: ScriptedCall(Ending(SessionCallStatus.FAILED, EndedReason.PROVIDER_ERROR)),
    12: ScriptedCall(
        says=(_WRONG,),
        says_alone=(_WRONG,),
        is_person=False,
    ),
    13: ScriptedCall(
        says=(_STOP,),
        says_alone=(_STOP,),
    ),
    20: _CONFIRMS,
    21: _CONFIRMS,
    22: _CONFIRMS,
    23: _CONFIRMS,
    25: _CONFIRMS,
}
"""By NN. Numbers 20 to 23 and 25 are about consent: once dialed, or called by phone, they act as 00."""

CONSENTS: Mapping[int, ConsentBehaviour] = {
    20: ConsentBehaviour.ACCEPTS,
    21: ConsentBehaviour.DECLINES,
    22: ConsentBehaviour.SILENT,
    25: ConsentBehaviour.LIMITED,
}
"""By NN. Every other number has given its consent before."""

IMPLIES_WHATSAPP = frozenset({20, 21, 22, 23, 25})
"""Numbers that are called on WhatsApp unless the request names a channel."""

_NUMBER = re.compile(r"\+150055500(\d\d)|\+1\d{3}55501(\d\d)", re.ASCII)


def number(phone: str) -> int:
    """The NN of a phone number in E.164: the last two digits if they are in `SCRIPTED_CALLS`, else 0."""
    match = _NUMBER.fullmatch(phone)
    digits = int(match[1] or match[2]) if match else 0
    return digits if digits in SCRIPTED_CALLS else 0


def scripted_call(phone: str) -> ScriptedCall:
    """What happens in a call to this number once it is dialed."""
    return SCRIPTED_CALLS[number(phone)]


def consent(phone: str) -> ConsentBehaviour:
    """How the customer with this number reacts to a request for consent."""
    return CONSENTS.get(number(phone), ConsentBehaviour.ON_FILE)
