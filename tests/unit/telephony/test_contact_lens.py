from __future__ import annotations

from typing import Any

import pytest

from shared.telephony.contact_lens import File, file_of, lines

ID = "9ce60a8f-1b1c-4a31-9f3c-2b6c1a7d0e55"
RECORDING, TRANSCRIPT = File("recording", ID, redacted=False), File("transcript", ID, redacted=False)
REDACTED_RECORDING, REDACTED_TRANSCRIPT = File("recording", ID, redacted=True), File("transcript", ID, redacted=True)
AGENT, CUSTOMER = "the agent's ID", "the customer's ID"


def analysis(*transcript: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The frame of the administrator guide's example of an analyzed call."""
    return {
        "Version": "1.1.0",
        "AccountId": "111122223333",
        "Channel": "VOICE",
        "ContentMetadata": {"Output": "Raw"},
        "JobStatus": "COMPLETED",
        "LanguageCode": "en-US",
        "Participants": [
            {"ParticipantId": CUSTOMER, "ParticipantRole": "CUSTOMER"},
            {"ParticipantId": AGENT, "ParticipantRole": "AGENT"},
        ],
        "Categories": {"MatchedCategories": [], "MatchedDetails": {}},
        "ConversationCharacteristics": {"TotalConversationDurationMillis": 32110},
        "CustomModels": [],
        "Transcript": list(transcript),
    } | changes


def turn(participant: str, content: str | None, begin: int, end: int) -> dict[str, Any]:
    return {
        "BeginOffsetMillis": begin,
        "Content": content,
        "EndOffsetMillis": end,
        "Id": f"turn-{begin}",
        "ParticipantId": participant,
        "Sentiment": "NEUTRAL",
        "LoudnessScore": [79.27, None],
    }


@pytest.mark.parametrize(
    ("key", "named"),
    [
        (f"connect/clinic/CallRecordings/2026/11/21/{ID}_20261121T09:47_UTC.wav", RECORDING),
        (f"connect/clinic/CallRecordings/2026/11/21/{ID}_20261121T09%3A47_UTC.wav", RECORDING),
        (f"connect/clinic/CallRecordings/ivr/2026/11/21/{ID}_20261121T09%3A47_UTC.wav", RECORDING),
        (f"connect/my+clinic/CallRecordings/ivr/2026/11/21/{ID}_20261121T09%3A47_UTC.wav", RECORDING),
        (f"CallRecordings/2026/11/21/{ID}_20261121T09:47_UTC.wav", RECORDING),
        (
            f"Analysis/Voice/Redacted/2026/11/21/{ID}_call_recording_redacted_2026-11-21T09:51:16Z.wav",
            REDACTED_RECORDING,
        ),
        (f"Analysis/Voice/2026/11/21/{ID}_analysis_2026-11-21T09:51:16Z.json", TRANSCRIPT),
        (f"Analysis/Voice/2026/11/21/{ID}_analysis_2026-11-21T09%3A51%3A16Z.json", TRANSCRIPT),
        (f"Analysis/Voice/ivr/2026/11/21/{ID}_analysis_2026-11-21T09%3A51%3A16Z.json", TRANSCRIPT),
        (f"connect/clinic/Analysis/Voice/2026/11/21/{ID}_analysis_2026-11-21T09:51:16Z.json", TRANSCRIPT),
        (f"Analysis/Voice/Redacted/2026/11/21/{ID}_analysis_redacted_2026-11-21T09:51:16Z.json", REDACTED_TRANSCRIPT),
        (
            f"Analysis/Voice/ivr/Redacted/2026/11/21/{ID}_analysis_redacted_2026-11-21T09:51:16Z.json",
            REDACTED_TRANSCRIPT,
        ),
    ],
)
def test_a_key_tells_kind_contact_and_redaction(key: str, named: File) -> None:
    assert file_of(key) == named


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/",
        "%",
        f"{ID}",
        f"connect/clinic/ChatTranscripts/2026/11/21/{ID}_20261121T09:47_UTC.json",
        f"connect/clinic/CallRecordings/2026/11/21/{ID}_20261121T09:47_UTC.wav.tmp",
        f"connect/clinic/CallRecordings/2026/11/21/{ID}_20261121T09:47_UTC.json",
        f"connect/clinic/CallRecordings/2026/11/21/{ID}_20261121T09:47_UTC.wav/",
        f"connect/clinic/CallRecordings/2026/11/21/{ID}_20261121T09:47_UTC.wav\n",
        f"connect/clinic/CallRecordings/{ID}_20261121T09:47_UTC.wav",
        "connect/clinic/CallRecordings/2026/11/21/not-a-contact_20261121T09:47_UTC.wav",
        f"connect/clinic/CallRecordings/2026/11/21/x{ID}_20261121T09:47_UTC.wav",
        f"connect/clinic/CallRecordings/2026/11/21/{ID.upper()}_20261121T09:47_UTC.wav",
        f"connect/clinic/OtherCallRecordings/2026/11/21/{ID}_20261121T09:47_UTC.wav",
        f"Analysis/Chat/2026/11/21/{ID}_analysis_2026-11-21T09:51:16Z.json",
        f"Analysis/Voice/2026/11/21/{ID}_analysis_2026-11-21T09:51:16Z.wav",
        f"Analysis/Voice/2026/11/21/{ID}_summary_2026-11-21T09:51:16Z.json",
        f"Analysis/Voice/2026/11/21/{ID}_analysis_/x.json",
    ],
)
def test_any_other_key_is_none(key: str) -> None:
    assert file_of(key) is None


def test_lines_tell_who_said_what_and_when() -> None:
    said = lines(
        analysis(
            turn(AGENT, "Hello. Peter, how can I help you?", 4640, 6610),
            turn(CUSTOMER, "I need to cancel.", 7370, 11190),
        )
    )
    assert said == [
        {"role": "agent", "content": "Hello. Peter, how can I help you?", "started_at_ms": 4640, "ended_at_ms": 6610},
        {"role": "customer", "content": "I need to cancel.", "started_at_ms": 7370, "ended_at_ms": 11190},
    ]


def test_lines_are_in_order_of_time() -> None:
    said = lines(analysis(turn(AGENT, "third", 200, 300), turn(CUSTOMER, "second", 0, 90), turn(AGENT, "first", 0, 50)))
    assert [line["content"] for line in said] == ["first", "second", "third"]


def test_a_bots_voice_is_the_agents() -> None:
    roles = [
        {"ParticipantId": "SYSTEM", "ParticipantRole": "SYSTEM"},
        {"ParticipantId": "CUSTOMER", "ParticipantRole": "CUSTOMER"},
    ]
    spoken = (turn("SYSTEM", "Hello, this is the clinic.", 0, 4000), turn("CUSTOMER", "Yes.", 5000, 6000))
    said = lines(analysis(*spoken, Channel="IVR", Participants=roles))
    assert [line["role"] for line in said] == ["agent", "customer"]


def test_a_participant_that_is_not_listed_is_known_by_its_id() -> None:
    said = lines(analysis(turn("AGENT", "Hello.", 0, 1), turn("CUSTOMER", "Hi.", 2, 3), Participants=None))
    assert [line["role"] for line in said] == ["agent", "customer"]


def test_a_redacted_file_is_read_like_its_twin() -> None:
    redacted = turn(CUSTOMER, "My name is [PII].", 160, 4640)
    redacted["Redaction"] = {"RedactedTimestamps": [{"BeginOffsetMillis": 3290, "EndOffsetMillis": 3620}]}
    metadata = {"RedactionTypes": ["PII"], "Output": "Redacted"}
    [line] = lines(analysis(redacted, ContentMetadata=metadata))
    assert line["content"] == "My name is [PII]."


@pytest.mark.parametrize("content", ["", "  ", None])
def test_turns_without_words_are_left_out(content: str | None) -> None:
    assert lines(analysis(turn(AGENT, content, 0, 10))) == []


@pytest.mark.parametrize("failed", [{}, {"JobStatus": "FAILED"}, analysis(Transcript=None)])
def test_an_analysis_that_failed_has_no_lines(failed: dict[str, Any]) -> None:
    assert lines(failed) == []
