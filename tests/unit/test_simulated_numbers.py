from __future__ import annotations

import pytest

from shared.calls.simulated_numbers import (
    CONSENTS,
    IMPLIES_WHATSAPP,
    SCRIPTED_CALLS,
    ConsentBehaviour,
    consent,
    number,
    scripted_call,
)
from shared.core.call_statuses import EndedReason, Ending, SessionCallStatus


@pytest.mark.parametrize(
    ("phone", "digits"),
    [
        ("+15005550008", 8),
        ("+15005550000", 0),
        ("+15005550025", 25),
        ("+12125550108", 8),
        ("+19995550111", 11),
        ("+15005550108", 8),
        # Not in the table.
        ("+15005550014", 0),
        ("+15005550024", 0),
        ("+12125550199", 0),
        # Not a simulator's number.
        ("+15005551008", 0),
        ("+12125550008", 0),
        ("+12125551108", 0),
        ("+442125550108", 0),
        ("+150055500080", 0),
        ("+1500555000", 0),
        ("15005550008", 0),
        ("+15005550008\n", 0),
        ("+1500555000\u0668", 0),
        ("", 0),
    ],
)
def test_the_last_two_digits_of_a_simulators_number_decide(phone: str, digits: int) -> None:
    assert number(phone) == digits


def test_every_outcome_is_as_promised() -> None:
    endings = {nn: one.ending for nn, one in SCRIPTED_CALLS.items() if one.ending}
    assert {nn: (ending.call_status, ending.ended_reason, ending.answered_by) for nn, ending in endings.items()} == {
        1: ("invalid_number", "invalid_number", None),
        2: ("no_answer", "no_answer", None),
        3: ("no_answer", "busy", None),
        4: ("failed", "blocked", None),
        5: ("call_later", "callback_requested", "human"),
        7: ("no_answer", "voicemail", "machine"),
        11: ("failed", "provider_error", None),
    }
    assert SCRIPTED_CALLS.keys() - endings.keys() == {0, 6, 8, 9, 10, 12, 13, 20, 21, 22, 23, 25}


def test_somebody_talks_exactly_where_a_human_answered() -> None:
    for nn, one in SCRIPTED_CALLS.items():
        talks = one.ending is None or one.ending.answered_by == "human"
        assert (bool(one.says), bool(one.says_alone)) == (talks, talks), nn


def test_the_numbers_about_consent_act_as_00_once_dialed() -> None:
    assert all(SCRIPTED_CALLS[nn] is SCRIPTED_CALLS[0] for nn in (20, 21, 22, 23, 25))
    assert scripted_call("+15005550023") == scripted_call("+4930123456") == SCRIPTED_CALLS[0]
    assert scripted_call("+15005550003").ending == Ending(SessionCallStatus.NO_ANSWER, EndedReason.BUSY)


def test_consent_is_on_file_but_for_four_numbers() -> None:
    assert consent("+15005550020") == ConsentBehaviour.ACCEPTS
    assert consent("+15005550021") == ConsentBehaviour.DECLINES
    assert consent("+12125550122") == ConsentBehaviour.SILENT
    assert consent("+15005550025") == ConsentBehaviour.LIMITED
    assert {consent(phone) for phone in ("+15005550023", "+15005550006", "+4930123456")} == {ConsentBehaviour.ON_FILE}
    assert CONSENTS.keys() < IMPLIES_WHATSAPP
    assert {20, 21, 22, 23, 25} == IMPLIES_WHATSAPP
