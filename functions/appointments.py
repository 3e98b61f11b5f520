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

Duration = Annotated[int, Field(ge=1, le=1440)]
Reason = Annotated[str, fields.text(500)]


class AppointmentFields(fields.Input):
    """The common fields of a new appointment and a patch."""

    timezone: fields.Timezone | None = None
    duration_minutes: Duration | None = None
    title: Annotated[str, fields.text(200)] | None = None
    location: Annotated[str, fields.text(500)] | None = None
    notes: Annotated[str, fields.text(2000)] | None = None
    external_id: fields.ExternalId | None = None
    metadata: fields.MetadataPatch | None = None


class AppointmentCreate(AppointmentFields):
    """A new appointment; `customer_id` and `appointment_at` are required (contract 6)."""

    customer_id: str
    appointment_at: fields.Instant
    status: Literal["pending", "confirmed"] = "pending"
    metadata: fields.Metadata | None = None


class AppointmentPatch(AppointmentFields):
    """A merge patch: an absent field keeps its value, null clears it. The customer never changes."""

    appointment_at: fields.Instant = fields.ABSENT
    status: Literal["pending", "confirmed", "rescheduled", "cancelled", "failed"] = fields.ABSENT
    cancellation_reason: Reason | None = None
    failure_reason: Reason | None = None


def create(request: Request[AppointmentCreate]) -> Response:
    """Create an appointment of a customer and return it, with the event `appointment.created` (contract 6).

    An unknown `customer_id` is 400 `resource_not_found`; a deleted customer is 409 `customer_deleted`.
    """
    values = request.body.model_dump()
    customer_exists = customers.must_exist(request.scope, values["customer_id"], "customer_id")

    def decide() -> Decision:
        appointment = appointments.new(request.scope, values)
        response = responses.created(appointment, f"/v1/appointments/{appointment['id']}")
        return Decision([customer_exists, APPOINTMENTS.insert(request.scope, appointment)], response)

    return request.commit(decide)


def update(request: Request[AppointmentPatch]) -> Response:
    """Change an appointment by a merge patch and return it (contract 3 and 6).

    A new `appointment_at` reschedules it. `status` changes only along the allowed transitions; another change is 409
    `invalid_status_transition`. Each change of the status or the time has one event. A patch that changes nothing is a
    200 without an event. A deleted appointment is 409 `appointment_deleted`; values that cannot be combined are 400
    `parameters_exclusive`; an unknown id is 404 `resource_not_found`.
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
    """Cancel an appointment, soft-delete it and return it (contract 6).

    Lists no longer include it, but it can still be retrieved. A repeated request returns the same appointment. An
    unknown id is 404 `resource_not_found`.
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
            returns=Appointment,
            body=AppointmentPatch,
            errors=("resource_not_found", "appointment_deleted", "invalid_status_transition", "parameters_exclusive"),
        ),
        delete=Operation(delete, returns=Appointment, errors=("resource_not_found",)),
    ),
)
handler = lambda_handler(app)
