"""/v1/appointments: create, list, retrieve, update and delete appointments."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from shared import appointments, customers
from shared.api import responses
from shared.api.collections import list_operation, retrieve_operation
from shared.api.requests import Decision, Request
from shared.api.responses import Response
from shared.api.routes import Operation, Route, lambda_handler, service
from shared.appointments import APPOINTMENTS, Appointment
from shared.resources import fields
from shared.resources.schema import CustomerId

Duration = Annotated[int, Field(ge=1, le=1440)]
Reason = Annotated[str, fields.text(500)]


class AppointmentFields(fields.Input):
    """The common fields of a new appointment and a patch."""

    timezone: fields.Timezone | None = None
    """The IANA time zone in which the agent reads and states times, for example `Europe/Berlin`. UTC if unset."""
    duration_minutes: Duration | None = None
    """The duration in minutes."""
    title: Annotated[str, fields.text(200)] | None = None
    """What the appointment is for. The agent mentions it."""
    location: Annotated[str, fields.text(500)] | None = None
    """Where the appointment takes place. The agent mentions it."""
    notes: Annotated[str, fields.text(2000)] | None = None
    """Your own notes. The agent does not see them."""
    external_id: fields.ExternalId | None = None
    """Your own identifier of the appointment. It need not be unique."""
    metadata: fields.MetadataPatch | None = None
    """Merged by key: the value null removes a key, and null instead of the object removes all keys."""


class AppointmentCreate(AppointmentFields):
    """A new appointment (contract 6)."""

    customer_id: CustomerId
    """The id of a customer who is not deleted."""
    appointment_at: fields.Instant
    """The time of the appointment, with a UTC offset. A past time is accepted."""
    status: Literal["pending", "confirmed"] = "pending"
    """The status to begin with."""
    metadata: fields.Metadata | None = None
    """Your own keys and values. A key with the value null is omitted."""


class AppointmentPatch(AppointmentFields):
    """A merge patch: an absent field keeps its value, null clears it. The customer never changes."""

    appointment_at: fields.Instant = fields.ABSENT
    """The time of the appointment, with a UTC offset. A new time reschedules the appointment."""
    status: Literal["pending", "confirmed", "rescheduled", "cancelled", "failed"] = fields.ABSENT
    """The new status. `rescheduled` requires a new `appointment_at`; `cancelled` and `failed` allow none."""
    cancellation_reason: Reason | None = None
    """Why the appointment is cancelled. Only if the status is `cancelled`."""
    failure_reason: Reason | None = None
    """Why the appointment failed. Only if the status is `failed`."""


def create(request: Request[AppointmentCreate]) -> Response:
    """Create an appointment.

    Emits the event `appointment.created` (contract 6).
    """
    values = request.body.model_dump()
    customer_exists = customers.must_exist(request.scope, values["customer_id"], "customer_id")

    def decide() -> Decision:
        appointment = appointments.new(request.scope, values)
        response = responses.created(appointment, f"/v1/appointments/{appointment['id']}")
        return Decision([customer_exists, APPOINTMENTS.insert(request.scope, appointment)], response)

    return request.commit(decide)


def update(request: Request[AppointmentPatch]) -> Response:
    """Update an appointment.

    A merge patch: an absent field keeps its value, and null clears it. A new `appointment_at` reschedules the
    appointment: its status becomes `rescheduled`, or `confirmed` if the same request says so. Nothing returns to
    `pending`, and `cancelled` is final. Each change of the status or the time emits one event; a change of other fields
    emits none (contract 3 and 6).
    """
    patch = request.body.model_dump(exclude_unset=True)

    def decide() -> Decision:
        record = APPOINTMENTS.find(request.scope, request.id)
        appointment = appointments.patched(record.doc, patch)
        if appointment is None:
            return Decision([], responses.ok(record.json))
        return Decision([APPOINTMENTS.update(request.scope, record, appointment)], responses.ok(appointment))

    return request.commit(decide)


def delete(request: Request[None]) -> Response:
    """Delete an appointment.

    Cancels the appointment if it is not cancelled, with the event `appointment.cancelled`, and sets `deleted_at`. Lists
    no longer include it, but it can still be retrieved. A repeated request returns the same appointment (contract 6).
    """

    def decide() -> Decision:
        record = APPOINTMENTS.find(request.scope, request.id)
        appointment = appointments.deleted(record.doc)
        if appointment is None:
            return Decision([], responses.ok(record.json))
        return Decision(APPOINTMENTS.delete(request.scope, record, appointment), responses.ok(appointment))

    return request.commit(decide)


app = service(
    Route(
        "/v1/appointments",
        get=list_operation(APPOINTMENTS, Appointment),
        post=Operation(
            create,
            name="create_appointment",
            returns=Appointment,
            status=(201,),
            body=AppointmentCreate,
            errors=("resource_not_found", "customer_deleted"),
        ),
    ),
    Route(
        "/v1/appointments/{id}",
        get=retrieve_operation(APPOINTMENTS, Appointment),
        patch=Operation(
            update,
            name="update_appointment",
            returns=Appointment,
            body=AppointmentPatch,
            errors=("resource_not_found", "appointment_deleted", "invalid_status_transition", "parameters_exclusive"),
        ),
        delete=Operation(delete, name="delete_appointment", returns=Appointment, errors=("resource_not_found",)),
    ),
)
handler = lambda_handler(app)
