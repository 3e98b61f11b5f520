"""/v1/appointments: create, list, retrieve, update and delete appointments."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from shared import appointments, customers, fields, http, listing, resources
from shared.http import Answer, Call, Decision

Duration = Annotated[int, Field(ge=1, le=1440)]
Reason = Annotated[str, fields.text(500)]


class AppointmentFields(fields.Input):
    """What a new appointment and a patch take alike."""

    timezone: fields.Timezone | None = None
    duration_minutes: Duration | None = None
    title: Annotated[str, fields.text(200)] | None = None
    location: Annotated[str, fields.text(500)] | None = None
    notes: Annotated[str, fields.text(2000)] | None = None
    external_id: fields.ExternalId | None = None
    metadata: fields.MetadataPatch | None = None


class AppointmentIn(AppointmentFields):
    """A new appointment; `customer_id` and `appointment_at` are required (contract 6)."""

    customer_id: str
    appointment_at: fields.Instant
    status: Literal["pending", "confirmed"] = "pending"
    metadata: fields.Metadata | None = None


class AppointmentPatch(AppointmentFields):
    """A merge patch; what is absent stays, null clears. The customer of an appointment never changes."""

    appointment_at: fields.Instant = ""
    status: Literal["pending", "confirmed", "rescheduled", "cancelled", "failed"] = "pending"
    cancellation_reason: Reason | None = None
    failure_reason: Reason | None = None


def create(call: Call) -> Answer:
    given = call.body(AppointmentIn).model_dump()
    customer = customers.must_be_live(call.scope, given["customer_id"], "customer_id")

    def decide() -> Decision:
        appointment = appointments.new(call.scope, given)
        answer = Answer(201, fields.compact(appointment), location=f"/v1/appointments/{appointment['id']}")
        return [customer, resources.insertion(appointments.LISTED, call.scope, appointment)], answer

    return call.commit(decide)


def list_appointments(call: Call) -> Answer:
    query = listing.read(appointments.LISTED, call.query)
    return Answer(200, listing.page(call.scope, appointments.LISTED, query).envelope(call.path))


def retrieve(call: Call) -> Answer:
    return Answer(200, resources.find(appointments.LISTED, call.scope, call.params["id"]).row["doc"])


def update(call: Call) -> Answer:
    patch = call.body(AppointmentPatch).model_dump(exclude_unset=True)

    def decide() -> Decision:
        found = resources.find(appointments.LISTED, call.scope, call.params["id"])
        appointment = appointments.patched(found.doc, patch)
        changed = appointment is not found.doc
        writes = [resources.change(appointments.LISTED, call.scope, found, appointment)] if changed else []
        return writes, Answer(200, fields.compact(appointment))

    return call.commit(decide)


def delete(call: Call) -> Answer:
    def decide() -> Decision:
        found = resources.find(appointments.LISTED, call.scope, call.params["id"])
        appointment = appointments.deleted(found.doc)
        if appointment is found.doc:
            return [], Answer(200, found.row["doc"])
        write = resources.change(appointments.LISTED, call.scope, found, appointment, hidden=True)
        return [write], Answer(200, fields.compact(appointment))

    return call.commit(decide)


app = http.service(
    http.Resource("/v1/appointments", get=list_appointments, post=create, query=appointments.LISTED.parameters),
    http.Resource("/v1/appointments/{id}", get=retrieve, patch=update, delete=delete),
)
handler = http.lambda_handler(app)
