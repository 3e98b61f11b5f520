"""/v1/appointments: create, list, retrieve, update and delete appointments."""

from __future__ import annotations

from shared.api import responses
from shared.api.collections import list_operation, retrieve_operation
from shared.api.requests import Decision, Request
from shared.api.responses import Response
from shared.api.routes import Operation, Route, lambda_handler, service
from shared.appointments import resource as appointments
from shared.appointments.resource import APPOINTMENTS, Appointment, AppointmentCreate, AppointmentPatch
from shared.customers import resource as customers


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
            reads=APPOINTMENTS,
            returns=Appointment,
            body=AppointmentPatch,
            errors=(
                "resource_not_found",
                "appointment_deleted",
                "invalid_status_transition",
                "parameter_missing",
                "parameters_exclusive",
            ),
        ),
        delete=Operation(
            delete, name="delete_appointment", returns=Appointment, reads=APPOINTMENTS, errors=("resource_not_found",)
        ),
    ),
)
handler = lambda_handler(app)
