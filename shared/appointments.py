"""Appointments and their status machine (specification, "Appointment status"; contract 6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.core import clock, ids
from shared.core.errors import ApiError
from shared.core.keys import Scope
from shared.resources import fields, lists, records
from shared.resources.lists import Listed
from shared.resources.records import Document

PENDING, CONFIRMED, RESCHEDULED, CANCELLED, FAILED = STATUSES = (
    "pending",
    "confirmed",
    "rescheduled",
    "cancelled",
    "failed",
)
TRANSITIONS: Mapping[str, frozenset[str]] = {
    PENDING: frozenset({CONFIRMED, RESCHEDULED, CANCELLED, FAILED}),
    CONFIRMED: frozenset({RESCHEDULED, CANCELLED, FAILED}),
    RESCHEDULED: frozenset({CONFIRMED, RESCHEDULED, CANCELLED, FAILED}),
    FAILED: frozenset({CONFIRMED, RESCHEDULED, CANCELLED}),
    CANCELLED: frozenset(),
}
REASONS = {"cancellation_reason": CANCELLED, "failure_reason": FAILED}
"""A reason, and the status that it goes with."""


LISTED = Listed(
    kind="appointment",
    prefix="appt_",
    slots=("external_id", "session_id", "customer_id", "status"),
    # A session is about one appointment at most, so its own index is as good as any pair.
    pairs=(("external_id", "customer_id"), ("external_id", "status"), ("customer_id", "status")),
    filters={
        "external_id": lambda text: ("external_id", text),
        "session_id": lambda text: ("session_id", text),
        "customer_id": lambda text: ("customer_id", text),
        "status": lists.one_of("status", STATUSES),
    },
    repeatable=frozenset({"status"}),
    ordered_by="appointment_at",
    keeps_deleted=True,
)


def new(scope: Scope, given: Mapping[str, Any]) -> Document:
    """An appointment with the given fields."""
    return records.new(
        LISTED,
        scope,
        status=given["status"],
        appointment_at=given["appointment_at"],
        timezone=given["timezone"],
        duration_minutes=given["duration_minutes"],
        title=given["title"],
        location=given["location"],
        notes=given["notes"],
        customer_id=given["customer_id"],
        session_id=None,
        external_id=given["external_id"],
        metadata=given["metadata"] or {},
        cancellation_reason=None,
        failure_reason=None,
        deleted_at=None,
    )


def sample(scope: Scope) -> Document:
    """An appointment that belongs to nothing, for the webhook test operation."""
    given = {
        "status": PENDING,
        "appointment_at": clock.iso(clock.now() + clock.DAY),
        "timezone": "UTC",
        "duration_minutes": 30,
        "title": "Test appointment",
        "customer_id": ids.new("cust_"),
    }
    return new(scope, dict.fromkeys(("location", "notes", "external_id", "metadata")) | given)


def patched(appointment: Document, patch: Mapping[str, Any]) -> Document:
    """The appointment after a merge patch; the very same object where nothing changes.

    A new time reschedules; a status moves only along `TRANSITIONS`. Raises ApiError.
    """
    if appointment["deleted_at"] is not None:
        raise ApiError("appointment_deleted")
    changes = dict(patch)
    if "metadata" in changes:
        changes["metadata"] = fields.merged_metadata(appointment["metadata"], changes["metadata"])
    now, asked = appointment["status"], changes.pop("status", None)
    moved = changes.get("appointment_at", appointment["appointment_at"]) != appointment["appointment_at"]
    _check_combination(changes, asked, moved)
    # A new time reschedules, unless the same patch says that it is confirmed.
    target = RESCHEDULED if moved and (asked is None or asked == now == PENDING) else asked
    if target is not None and (target != now or moved):
        _check_transition(now, target)
        changes["status"] = target
    for reason, status in REASONS.items():
        if changes.get("status", now) != status:
            if changes.get(reason) is not None:
                raise ApiError("parameters_exclusive", f"{reason} goes only with status '{status}'.", param=reason)
            changes[reason] = None
    return records.touched(appointment, changes)


def deleted(appointment: Document) -> Document:
    """The appointment, cancelled if it was not and soft-deleted; the very same object where it already is."""
    if appointment["deleted_at"] is not None:
        return appointment
    changes = {"status": CANCELLED, "failure_reason": None, "deleted_at": clock.iso(clock.now())}
    changed = records.touched(appointment, changes)
    return changed | {"deleted_at": changed["updated_at"]}


def _check_combination(changes: Mapping[str, Any], asked: str | None, moved: bool) -> None:
    if moved and asked in (CANCELLED, FAILED):
        raise ApiError(
            "parameters_exclusive", f"A new appointment_at cannot go with status '{asked}'.", param="appointment_at"
        )
    if asked == RESCHEDULED and not moved:
        code = "parameter_invalid" if "appointment_at" in changes else "parameter_missing"
        raise ApiError(code, "Rescheduling takes a new appointment_at.", param="appointment_at")


def _check_transition(now: str, target: str) -> None:
    # A confirmed appointment may be moved and stay confirmed.
    if target not in TRANSITIONS[now] and not target == now == CONFIRMED:
        raise ApiError(
            "invalid_status_transition", f"An appointment that is {now} cannot become {target}.", param="status"
        )
