"""Sessions: one call each, from the request to what was said (specification, "Session"; contract 7).

A session only moves forward along `TRANSITIONS`. While work is owed on it, its row carries `next_step`, the
instant of the next step, and a due time for `sweep`. The customer's row names its one active session, so that no
two calls to a customer are under way at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.core import clock, table
from shared.core.keys import Scope
from shared.resources import lists, records
from shared.resources.lists import Listed
from shared.resources.records import Document, Found
from shared.telephony import Ending
from shared.work import hints

QUEUED, DIALING = "queued", "dialing"
COMPLETED, NO_ANSWER, FAILED, INVALID_NUMBER, CALL_LATER = ENDED = (
    "completed",
    "no_answer",
    "failed",
    "invalid_number",
    "call_later",
)
CALL_STATUSES = (QUEUED, DIALING, *ENDED)
TRANSITIONS: Mapping[str, frozenset[str]] = {
    QUEUED: frozenset({DIALING, FAILED, INVALID_NUMBER}),
    DIALING: frozenset(ENDED),
    **dict.fromkeys(ENDED, frozenset[str]()),
}
CHANNELS = PHONE, WHATSAPP = "phone", "whatsapp"
NONE, PROCESSING, AVAILABLE, MISSED = "none", "processing", "available", "failed"
"""What a transcript or a recording can be."""

LISTED = Listed(
    kind="session",
    prefix="sess_",
    slots=("appointment_id", "customer_id", "call_status", "channel"),
    pairs=(
        ("appointment_id", "call_status"),
        ("appointment_id", "channel"),
        ("customer_id", "call_status"),
        ("customer_id", "channel"),
    ),
    filters={
        "appointment_id": lambda text: ("appointment_id", text),
        "customer_id": lambda text: ("customer_id", text),
        "call_status": lists.one_of("call_status", CALL_STATUSES),
        "channel": lists.one_of("channel", CHANNELS),
    },
)


def new(
    scope: Scope,
    customer: Document,
    *,
    appointment_id: str | None,
    channel: str,
    metadata: Mapping[str, Any] | None,
) -> Document:
    """A call to the customer that waits to be dialed."""
    return records.new(
        LISTED,
        scope,
        customer_id=customer["id"],
        appointment_id=appointment_id,
        channel=channel,
        direction="outbound",
        to=customer["phone"],
        call_status=QUEUED,
        ended_reason=None,
        answered_by=None,
        dialed_at=None,
        answered_at=None,
        ended_at=None,
        duration_seconds=None,
        call_later_at=None,
        consent=None,
        transcript_status=NONE,
        recording_status=NONE,
        summary=None,
        metadata=dict(metadata or {}),
    )


def hint(scope: Scope, session_id: str, at: int | None = None) -> hints.Hint:
    """The message that tells the worker of a session's next step, now or about `at`."""
    told = {"project_id": scope.project_id, "livemode": scope.livemode, "session_id": session_id}
    return hints.Hint(told, group=scope.pk("dials"), delay=0 if at is None else hints.delay_until(at))


def awaits_consent(session: Document) -> bool:
    """Whether the call waits for the customer's consent."""
    consent = session["consent"]
    return session["call_status"] == QUEUED and consent is not None and consent["status"] == "pending"


def changed(
    scope: Scope,
    found: Found,
    changes: Mapping[str, Any],
    internal: Mapping[str, table.Value | None],
) -> table.Update:
    """The write of a step, unless another came between."""
    status = changes.get("call_status", found.doc["call_status"])
    assert status == found.doc["call_status"] or status in TRANSITIONS[found.doc["call_status"]]
    return records.change(LISTED, scope, found, records.touched(found.doc, changes), internal=internal)


def ended(session: Document, ending: Ending, now: int) -> Document:
    """The changes that end a call at `now`."""
    answered = session["answered_at"]
    spoke = None if answered is None else max(0, round((now - clock.parse(answered)) / clock.SECOND))
    return {
        "call_status": ending.call_status,
        "ended_reason": ending.ended_reason,
        "answered_by": ending.answered_by or session["answered_by"],
        "ended_at": clock.iso(now),
        "duration_seconds": spoke,
    }
