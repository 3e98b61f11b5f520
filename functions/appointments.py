"""/v1/appointments: create, list, retrieve, update and delete appointments."""

from __future__ import annotations

from shared.api.collection_operations import list_operation, retrieve_operation
from shared.api.requests import Request
from shared.api.responses import Response
from shared.api.routes import Operation, Route, Service, lambda_handler
from shared.appointments import commands as appointment_commands
from shared.appointments.resource import APPOINTMENTS, Appointment, AppointmentCreate, AppointmentPatch
from shared.core.errors import Code


def create(request: Request[AppointmentCreate]) -> Response[Appointment]:
    """Create an appointment.

    Emits the event `appointment.created` (promises 6).
    """
    return request.create(lambda: appointment_commands.create(request.scope, request.body))


def update(request: Request[AppointmentPatch]) -> Response[Appointment]:
    """Update an appointment.

    A merge patch: an absent field keeps its value, and null clears it. A new `appointment_at` reschedules the
    appointment: its status becomes `rescheduled`, or `confirmed` if the same request says so. Nothing returns to
    `pending`, and `cancelled` is final. Each change emits one event: that of the status or the time, or else
    `appointment.updated` (promises 3, 6 and 11).
    """
    return request.commit(lambda: appointment_commands.update(request.scope, request.find(APPOINTMENTS), request.body))


def delete(request: Request[None]) -> Response[Appointment]:
    """Delete an appointment.

    Cancels the appointment if it is not cancelled, with the event `appointment.cancelled`, and sets `deleted_at`. Lists
    no longer include it, but it can still be retrieved. A repeated request returns the same appointment (promises 6).
    """
    return request.commit(lambda: appointment_commands.delete(request.scope, request.find(APPOINTMENTS)))


app = Service(
    Route(
        "/v1/appointments",
        get=list_operation(APPOINTMENTS),
        post=Operation(
            create,
            name="create_appointment",
            status=(201,),
            errors=(Code.RESOURCE_NOT_FOUND, Code.CUSTOMER_DELETED),
        ),
    ),
    Route(
        "/v1/appointments/{id}",
        get=retrieve_operation(APPOINTMENTS),
        patch=Operation(
            update,
            name="update_appointment",
            reads=APPOINTMENTS,
            errors=(
                Code.RESOURCE_NOT_FOUND,
                Code.APPOINTMENT_DELETED,
                Code.INVALID_STATUS_TRANSITION,
                Code.PARAMETER_MISSING,
                Code.PARAMETERS_EXCLUSIVE,
            ),
        ),
        delete=Operation(
            delete,
            name="delete_appointment",
            reads=APPOINTMENTS,
            errors=(Code.RESOURCE_NOT_FOUND,),
        ),
    ),
)
handler = lambda_handler(app)
