"""What can be done with an appointment: create, update and delete (promises 6).

A command returns the appointment afterwards and the writes of one transaction, which the caller commits. The agent
applies patches, too (`apply`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.appointments.resource import (
    APPOINTMENTS,
    STATUS_OF_REASON,
    TRANSITIONS,
    Appointment,
    AppointmentCreate,
    AppointmentPatch,
    AppointmentRecord,
    AppointmentStatus,
)
from shared.core import clock, ids
from shared.core.errors import ApiError, Code
from shared.customers import resource as customers
from shared.resources.documents import apply_changes, changes_of, revise_deleted
from shared.store.keys import Scope
from shared.store.transactions import Change


def create(scope: Scope, body: AppointmentCreate) -> Change[Appointment]:
    """Create an appointment of a customer who is not deleted. Raises `resource_not_found`.

    The writes raise `customer_deleted` or `resource_not_found`.
    """
    customer_exists = customers.exists_check(scope, body.customer_id, "customer_id")
    appointment = new(scope, body)
    return Change(appointment, [customer_exists, *APPOINTMENTS.insert_writes(scope, appointment)])


def new(scope: Scope, body: AppointmentCreate) -> Appointment:
    """A new appointment, which is not stored."""
    return {
        **APPOINTMENTS.common_fields(scope),
        "object": "appointment",
        "status": AppointmentStatus(body.status),
        "appointment_at": body.appointment_at,
        "timezone": body.timezone,
        "duration_minutes": body.duration_minutes,
        "title": body.title,
        "location": body.location,
        "notes": body.notes,
        "customer_id": body.customer_id,
        "session_id": None,
        "external_id": body.external_id,
        "metadata": body.metadata or {},
        "cancellation_reason": None,
        "failure_reason": None,
        "deleted_at": None,
    }


def sample(scope: Scope) -> Appointment:
    """An appointment that is not stored, for the webhook test operation (promises 9)."""
    body = AppointmentCreate.model_construct(
        customer_id=ids.new("cust_"),
        appointment_at=clock.iso(clock.now() + clock.DAY),
        timezone="UTC",
        duration_minutes=30,
        title="Test appointment",
    )
    return new(scope, body)


def update(scope: Scope, record: AppointmentRecord, patch: AppointmentPatch) -> Change[Appointment]:
    """Apply a merge patch to an appointment as it was read. Raises what `apply` raises."""
    appointment = apply(record.doc, patch)
    if appointment is record.doc:
        return Change(appointment)
    return Change(appointment, APPOINTMENTS.replace_writes(scope, record, appointment))


def delete(scope: Scope, record: AppointmentRecord) -> Change[Appointment]:
    """Cancel and soft-delete an appointment. Nothing changes if it is deleted already."""
    if record.doc["deleted_at"] is not None:
        return Change(record.doc)
    cancelled: Appointment = {**record.doc, "status": AppointmentStatus.CANCELLED, "failure_reason": None}
    appointment = revise_deleted(record.doc, cancelled)
    return Change(appointment, APPOINTMENTS.deletion_writes(scope, record, appointment))


def apply(appointment: Appointment, patch: AppointmentPatch) -> Appointment:
    """The appointment after a merge patch; the appointment itself if nothing changes (promises 6).

    A new time reschedules it. Raises `appointment_deleted`, `invalid_status_transition`, `parameters_exclusive`,
    `parameter_missing`, `parameter_invalid` or an error of the metadata.
    """
    if appointment["deleted_at"] is not None:
        raise ApiError(Code.APPOINTMENT_DELETED)
    changes = changes_of(patch, appointment)
    current, requested = appointment["status"], changes.pop("status", None)
    moved = changes.get("appointment_at", appointment["appointment_at"]) != appointment["appointment_at"]
    _check_combination(changes, requested, moved)
    # A new time reschedules, unless the same patch confirms. Clients that send back the whole object mean no change by
    # a status that is the present one.
    target = (
        AppointmentStatus.RESCHEDULED
        if moved and (requested is None or requested == current == AppointmentStatus.PENDING)
        else requested
    )
    if target is not None and (target != current or moved):
        _check_transition(current, target)
        changes["status"] = target
    for reason, status in STATUS_OF_REASON.items():
        if changes.get("status", current) != status:
            if changes.get(reason) is not None:
                raise ApiError(Code.PARAMETERS_EXCLUSIVE, f"{reason} requires status '{status}'.", param=reason)
            changes[reason] = None
    return apply_changes(appointment, changes)


def _check_combination(changes: Mapping[str, Any], requested: str | None, moved: bool) -> None:
    if moved and requested in (AppointmentStatus.CANCELLED, AppointmentStatus.FAILED):
        raise ApiError(
            Code.PARAMETERS_EXCLUSIVE,
            f"A new appointment_at cannot be combined with status '{requested}'.",
            param="appointment_at",
        )
    if requested == AppointmentStatus.RESCHEDULED and not moved:
        code = Code.PARAMETER_INVALID if "appointment_at" in changes else Code.PARAMETER_MISSING
        raise ApiError(code, "Rescheduling requires a new appointment_at.", param="appointment_at")


def _check_transition(current: AppointmentStatus, target: AppointmentStatus) -> None:
    if target not in TRANSITIONS[current]:
        raise ApiError(
            Code.INVALID_STATUS_TRANSITION,
            f"The status cannot change from {current} to {target}.",
            param="status",
        )
