"""Appointments and their status machine (promises 6)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal, NotRequired

from pydantic import Field

from shared.core import clock
from shared.resources import fields, filters
from shared.resources.collections import Collection, Record, ResourceRow
from shared.resources.documents import Resource
from shared.resources.filters import ListParameters
from shared.resources.indexes import Indexes
from shared.resources.schema import AppointmentId, CustomerId, Keywords, Metadata, SessionId, Time, at_most
from shared.resources.search import SearchRows

MOST_MINUTES = 1440
"""The longest appointment."""
TITLE, LOCATION, NOTES, REASON = 200, 500, 2000, 500
"""The most characters of these fields."""


class AppointmentStatus(StrEnum):
    """The status of an appointment (promises 6)."""

    PENDING = "pending"
    """The customer has not confirmed it yet."""
    CONFIRMED = "confirmed"
    """The customer has confirmed it."""
    RESCHEDULED = "rescheduled"
    """It was moved to another time."""
    CANCELLED = "cancelled"
    """It was cancelled."""
    FAILED = "failed"
    """It did not take place, for example because the customer did not come."""


TRANSITIONS: Mapping[AppointmentStatus, frozenset[AppointmentStatus]] = {
    AppointmentStatus.PENDING: frozenset(
        {
            AppointmentStatus.CONFIRMED,
            AppointmentStatus.RESCHEDULED,
            AppointmentStatus.CANCELLED,
            AppointmentStatus.FAILED,
        }
    ),
    AppointmentStatus.CONFIRMED: frozenset(
        {
            AppointmentStatus.CONFIRMED,
            AppointmentStatus.RESCHEDULED,
            AppointmentStatus.CANCELLED,
            AppointmentStatus.FAILED,
        }
    ),
    AppointmentStatus.RESCHEDULED: frozenset(
        {
            AppointmentStatus.CONFIRMED,
            AppointmentStatus.RESCHEDULED,
            AppointmentStatus.CANCELLED,
            AppointmentStatus.FAILED,
        }
    ),
    AppointmentStatus.FAILED: frozenset(
        {AppointmentStatus.CONFIRMED, AppointmentStatus.RESCHEDULED, AppointmentStatus.CANCELLED}
    ),
    AppointmentStatus.CANCELLED: frozenset(),
}
"""By status: the statuses that can follow. A status that follows itself requires a new time in the same change."""
STATUS_OF_REASON = {"cancellation_reason": AppointmentStatus.CANCELLED, "failure_reason": AppointmentStatus.FAILED}
"""By field: the status that has this reason."""


class Appointment(Resource):
    """An appointment of a customer (promises 6). Id prefix `appt_`."""

    id: AppointmentId
    """The appointment's id. Never changes."""
    object: Literal["appointment"]
    """The type of the object. Never changes."""
    status: AppointmentStatus
    """The current status. `cancelled` is final; nothing returns to `pending`."""
    appointment_at: Time
    """The time of the appointment. A new time reschedules it."""
    timezone: Annotated[str, Keywords(format="iana-timezone")] | None
    """IANA zone in which the agent reads and states times. Null when unset: that of the agent's settings."""
    duration_minutes: Annotated[int, Keywords(minimum=1, maximum=MOST_MINUTES)] | None
    """1 to 1440. Null when unset."""
    title: Annotated[str, at_most(TITLE)] | None
    """At most 200 characters. Null when unset."""
    location: Annotated[str, at_most(LOCATION)] | None
    """At most 500 characters. Null when unset."""
    notes: Annotated[str, at_most(NOTES)] | None
    """At most 2000 characters. Null when unset."""
    customer_id: CustomerId
    """The customer's id. Never changes."""
    session_id: SessionId | None
    """The id of the latest session (call) about the appointment. Null before the first."""
    external_id: Annotated[str, at_most(255)] | None
    """The caller's own identifier, at most 255 characters; not unique. Null when unset."""
    metadata: Metadata
    """The caller's own keys and values, at most 50; `{}` when unset."""
    cancellation_reason: Annotated[str, at_most(REASON)] | None
    """At most 500 characters. Null unless the status is `cancelled` and the request had a reason."""
    failure_reason: Annotated[str, at_most(REASON)] | None
    """At most 500 characters. Null unless the status is `failed` and the request had a reason."""
    deleted_at: Time | None
    """When the appointment was deleted. Null until then; never changes afterwards."""


class AppointmentRow(ResourceRow):
    """An appointment's row."""

    latest_at: NotRequired[clock.Instant]
    """The latest of the times that it had before, which its id continues a list from (`Indexes.latest_time`)."""
    latest_until: NotRequired[clock.Instant]
    """Until when `latest_at` counts: an hour after the appointment was last moved."""
    calls: NotRequired[int]
    """How many calls about it were requested (`call_count`). `request_call` in `shared/calls/commands.py` counts."""


APPOINTMENTS: Collection[Appointment, AppointmentRow] = Collection(
    Appointment,
    kind="appointment",
    prefix="appt_",
    indexes=Indexes(("external_id", "session_id", "customer_id", "status"), time_field="appointment_at"),
    parameters=ListParameters(
        {
            "external_id": filters.Exact("external_id"),
            "session_id": filters.Exact("session_id"),
            "customer_id": filters.Exact("customer_id"),
            "status": filters.Enumerated("status", [*AppointmentStatus]),
        },
        repeatable=frozenset({"status"}),
    ),
    search_rows=SearchRows("title"),
    keeps_deleted=True,
)
AppointmentRecord = Record[Appointment, AppointmentRow]


def takes_place(record: AppointmentRecord | None) -> bool:
    """Whether an appointment is not cancelled. A deleted one is cancelled, too."""
    return record is not None and record.doc["status"] != AppointmentStatus.CANCELLED


def call_count(record: AppointmentRecord) -> int:
    """How many calls about an appointment were requested. Those of an earlier release, which did not count, are one."""
    return record.row.get("calls", 1 if record.doc["session_id"] else 0)


Duration = Annotated[int, Field(ge=1, le=MOST_MINUTES)]
Reason = Annotated[str, fields.text(REASON)]


class AppointmentFields(fields.Input):
    """The common fields of a new appointment and a patch."""

    timezone: fields.Timezone | None = None
    """The IANA time zone in which the agent reads and states times. If unset, that of the agent's settings."""
    duration_minutes: Duration | None = None
    """The duration in minutes."""
    title: Annotated[str, fields.text(TITLE)] | None = None
    """What the appointment is for. The agent mentions it."""
    location: Annotated[str, fields.text(LOCATION)] | None = None
    """Where the appointment takes place. The agent mentions it."""
    notes: Annotated[str, fields.text(NOTES)] | None = None
    """Your own notes. The agent does not see them."""
    external_id: fields.ExternalId | None = None
    """Your own identifier of the appointment. It need not be unique."""
    metadata: fields.MetadataPatch | None = None
    """Merged by key: the value null removes a key, and null instead of the object removes all keys."""


class AppointmentCreate(AppointmentFields):
    """A new appointment (promises 6)."""

    customer_id: CustomerId
    """The id of a customer who is not deleted."""
    appointment_at: fields.DateTime
    """The time of the appointment, with a UTC offset. A past time is accepted."""
    status: Annotated[Literal["pending", "confirmed"], Keywords(name="AppointmentCreateStatus")] = "pending"
    """The status to begin with."""
    metadata: fields.MetadataCreate | None = None
    """Your own keys and values. A key with the value null is omitted."""


class AppointmentPatch(AppointmentFields):
    """A merge patch: an absent field keeps its value, null clears it. The customer never changes."""

    appointment_at: fields.DateTime = fields.OMITTED
    """The time of the appointment, with a UTC offset. A new time reschedules the appointment."""
    status: Literal["pending", "confirmed", "rescheduled", "cancelled", "failed"] = fields.OMITTED
    """The new status. `rescheduled` requires a new `appointment_at`; `cancelled` and `failed` allow none."""
    cancellation_reason: Reason | None = None
    """Why the appointment is cancelled. Only if the status is `cancelled`."""
    failure_reason: Reason | None = None
    """Why the appointment failed. Only if the status is `failed`."""
