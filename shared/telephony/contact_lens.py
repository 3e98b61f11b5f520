"""The files of a call that Amazon Connect stores in S3: its recording, and the transcript by Contact Lens.

A call that no human agent joins is recorded as an "automated interaction", whose files are stored under `ivr/`. If
redaction is on, there are redacted files beside the others, or instead of them; they have the same shape.
Sources: "Output file locations" and "Example output files" of Contact Lens in the Connect administrator guide; the
folder `ivr/` from files of real instances.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypedDict
from urllib.parse import unquote_plus

FileKind = Literal["recording", "transcript"]

BASES = ("", "connect/")
"""Where the folders of the files may be: in the bucket's root, and where the stack stores recordings."""
_FOLDERS = (
    "CallRecordings/",
    "CallRecordings/ivr/",
    "Analysis/Voice/",
    "Analysis/Voice/ivr/",
    "Analysis/Voice/Redacted/",
    "Analysis/Voice/ivr/Redacted/",
)


@dataclass(frozen=True)
class File:
    """A file of a contact. `redacted` if it is the copy without sensitive data."""

    kind: FileKind
    contact_id: str
    redacted: bool


class SpokenLine(TypedDict):
    """What was said in one go. Times are milliseconds from the recording's start."""

    role: Literal["agent", "customer"]
    content: str
    started_at_ms: int
    ended_at_ms: int


_DAY_AND_ID = r"[0-9]{4}/[0-9]{2}/[0-9]{2}/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
_ANALYSIS = r"(?:.*/)?Analysis/Voice/(?:ivr/)?"
_FILES: tuple[tuple[FileKind, bool, re.Pattern[str]], ...] = (
    ("recording", False, re.compile(rf"(?:.*/)?CallRecordings/(?:ivr/)?{_DAY_AND_ID}_[0-9]{{8}}T[0-9:]{{5}}_UTC\.wav")),
    ("recording", True, re.compile(rf"{_ANALYSIS}Redacted/{_DAY_AND_ID}_call_recording_redacted_[^/]+\.wav")),
    ("transcript", False, re.compile(rf"{_ANALYSIS}{_DAY_AND_ID}_analysis_[^/]+\.json")),
    ("transcript", True, re.compile(rf"{_ANALYSIS}Redacted/{_DAY_AND_ID}_analysis_[^/]+\.json")),
)


def file_of(key: str) -> File | None:
    """The file with this key in the instance's bucket; None for any other object.

    The key may be URL-encoded, as in S3's notifications.
    """
    plain = unquote_plus(key)
    for kind, redacted, pattern in _FILES:
        if match := pattern.fullmatch(plain):
            return File(kind, match[1], redacted)
    return None


def prefixes(contact_id: str, days: Iterable[str], known: str | None) -> Iterator[str]:
    """The prefixes of the keys of all files of a contact.

    `days` are the days of the contact (`YYYY-MM-DD`, UTC). `known` is the key of one of its files, None if none is
    known: the others may be in the same place.
    """
    base = None if known is None else re.split("CallRecordings/|Analysis/Voice/", unquote_plus(known))[0]
    bases = dict.fromkeys((*BASES, *([] if base is None else [base])))
    for day in dict.fromkeys(days):
        yield from (f"{at}{folder}{day.replace('-', '/')}/{contact_id}" for at in bases for folder in _FOLDERS)


def lines(analysis: Mapping[str, Any]) -> list[SpokenLine]:
    """The lines of an analysis, in order of time. An analysis that failed has none.

    Every participant but the customer speaks for the business: an `AGENT`, or the `SYSTEM`, which is a bot's voice.
    """
    roles = {each["ParticipantId"]: each["ParticipantRole"] for each in analysis.get("Participants") or ()}
    items = [item for item in analysis.get("Transcript") or () if (item.get("Content") or "").strip()]
    return [
        {
            "role": "customer" if roles.get(item["ParticipantId"], item["ParticipantId"]) == "CUSTOMER" else "agent",
            "content": item["Content"].strip(),
            "started_at_ms": item["BeginOffsetMillis"],
            "ended_at_ms": item["EndOffsetMillis"],
        }
        for item in sorted(items, key=lambda item: (item["BeginOffsetMillis"], item["EndOffsetMillis"]))
    ]
