"""Customers: find, create, edit, delete and call, and everything about one customer on one page."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping

from starlette.responses import Response

from functions.admin import exports, forms, lists, names, timeline, times, today
from functions.admin.visits import PROJECT, AdminPage, InProject, Refused, SentBefore, View
from shared.admin.members import MEMBER, OWNER, VIEWER
from shared.appointments.resource import APPOINTMENTS, AppointmentStatus
from shared.calls import commands as call_commands
from shared.calls import opt_outs
from shared.calls.commands import CallCreate
from shared.calls.sessions import SESSIONS, Session
from shared.core import clock
from shared.core.call_statuses import Channel
from shared.core.errors import ApiError, Code
from shared.customers import commands as customer_commands
from shared.customers import opted_out_phones
from shared.customers.resource import CUSTOMERS, Customer, CustomerCreate, CustomerPatch, CustomerRecord
from shared.erasure import access
from shared.pages import SECURITY
from shared.resources import fields, list_pages, queries
from shared.store.transactions import Change

SECTION = "customers"
NOTICES = {
    "created": "The customer was created.",
    "saved": "The customer was changed.",
    "deleted": "The customer was deleted.",
    "opted_out": "Nobody is called at this phone any more. Calls that waited have ended.",
    "opted_in": "The customer may be called again.",
    "appointment": "The appointment was created.",
    "called": "This form was sent before, and requested one call.",
    "sent": "This form was sent before, and created one customer, the first one here.",
}
_TEXTS = ("phone", "name", "email", "external_id")
_FILTERS = ("phone", "email", "external_id")
_PAST = "This time is in the past. Without a time, the customer is called at once."
_CALL_FORM = ("appointment_id", "channel", "not_before", "instructions")


def show_all(visit: InProject) -> Response:
    """List the customers, newest first, by the filters of the API."""
    wanted = lists.wanted(visit, *_FILTERS)
    return lists.show(
        visit,
        SECTION,
        wanted,
        lambda: lists.read(visit, CUSTOMERS, lists.parameters(visit, wanted)),
        most=exports.MOST,
        notice=NOTICES.get(visit.query.get("notice", "")),
    )


def show(visit: InProject) -> Response:
    """Show a customer with what happened."""
    record = _find(visit)
    phone = record.doc["phone"]
    before = visit.query.get("before", "")
    entries, next_before = timeline.read(visit, record.doc["id"], before)
    return visit.render(
        "customer.html",
        section=SECTION,
        customer=record.doc,
        named={record.doc["id"]: record.doc},
        has_opted_out=phone is not None and opted_out_phones.contains(visit.scope, phone),
        active=_active_call(visit, record),
        next_appointment=today.next_of(visit, record.doc["id"]),
        notice=NOTICES.get(visit.query.get("notice", "")),
        entries=entries,
        before=before,
        next_before=next_before,
    )


def export(visit: InProject) -> Response:
    """The listed customers as CSV."""
    wanted = {name: visit.form.get(name, "").strip() for name in _FILTERS}
    return exports.of_list(visit, CUSTOMERS, Customer.__annotations__, wanted, lists.parameters(visit, wanted))


def export_person(visit: InProject) -> Response:
    """All that is kept about a customer, as JSON."""
    id = visit.params["id"]
    content = fields.to_json(access.document(_bounded(visit, access.parts(visit.scope, id))))
    visit.commit(lambda: Change(None, [visit.entry("customer.exported", id)]))
    headers = {"Content-Disposition": f'attachment; filename="{id}.json"'}
    return Response(content, media_type="application/json", headers=SECURITY | headers)


def _bounded(visit: InProject, parts: Iterable[access.Part]) -> Iterator[access.Part]:
    """The parts, unless they are more than one response can have. Raises Refused."""
    size = 0
    for name, one in parts:
        size += exports.size_of(fields.to_json(one))
        if size > exports.MOST_BYTES or exports.seconds_left(visit) <= 0:
            text = "Nothing was exported. Ask the operator for the output of infra.manage customers export."
            raise Refused(413, "Too much for one file", text)
        yield name, one


def ask_to_create(visit: InProject) -> Response:
    """Show the form of a new customer."""
    return _form(visit, None)


def create(visit: InProject) -> Response:
    """Create a customer."""
    try:
        values = forms.texts(visit, _TEXTS) | {"metadata": forms.metadata(visit)}
        customer_input = fields.validate(CustomerCreate, values)
        customer = visit.commit(
            lambda: customer_commands.create(visit.scope, customer_input),
            lambda new: visit.entry("customer.created", new["id"]),
            lambda _: visit.once(),
        )
    except ApiError as error:
        return _form(visit, None, error)
    except SentBefore:
        return visit.redirect(visit.path(f"{SECTION}?notice=sent"))
    if visit.query.get("at"):
        # The person has chosen the time of an appointment before.
        return visit.redirect(visit.to(SECTION, customer["id"], "new_appointment", at=visit.query["at"]))
    return _back(visit, "created", customer["id"])


def ask_to_edit(visit: InProject) -> Response:
    """Show the form that changes a customer."""
    return _form(visit, _find(visit).doc)


def edit(visit: InProject) -> Response:
    """Change a customer. The audit trail names the changed fields without their values, which are personal data."""

    def command() -> Change[Customer]:
        record = _find(visit)
        edited = forms.edited(visit, _shown(record.doc))
        values = forms.texts(visit, edited & {*_TEXTS})
        if "metadata" in edited:
            values["metadata"] = forms.metadata_patch(record.doc["metadata"], forms.metadata(visit))
        change = customer_commands.update(visit.scope, record, fields.validate(CustomerPatch, values))
        changed = ", ".join(fields.changed(record.doc, change.doc))
        return change.with_writes(visit.entry("customer.changed", change.doc["id"], after={"fields": changed}))

    try:
        visit.commit(command)
    except ApiError as error:
        return _form(visit, _find(visit).doc, error)
    return _back(visit, "saved")


def ask_to_delete(visit: InProject) -> Response:
    """Ask for confirmation."""
    return visit.render("customer_delete.html", section=SECTION, customer=_find(visit).doc)


def delete(visit: InProject) -> Response:
    """Soft-delete a customer, whose queued calls fail."""
    visit.commit(
        lambda: customer_commands.delete(visit.scope, _find(visit)),
        lambda one: visit.entry("customer.deleted", one["id"]),
    )
    return _back(visit, "deleted")


def opt_out(visit: InProject) -> Response:
    """Note that the person does not want to be called or written to again."""
    visit.commit(
        lambda: opt_outs.opt_out(visit.scope, visit.params["id"]),
        lambda one: visit.entry("customer.opted_out", one["id"]),
    )
    return _back(visit, "opted_out")


def opt_in(visit: InProject) -> Response:
    """Note that the person agrees to be called again."""
    visit.commit(
        lambda: opt_outs.opt_in(visit.scope, _find(visit)),
        lambda one: visit.entry("customer.opted_in", one["id"]),
    )
    return _back(visit, "opted_in")


def ask_to_call(visit: InProject) -> Response:
    """Show the form of a call."""
    return _call_form(visit, visit.query)


def call(visit: InProject) -> Response:
    """Call a customer once, now or at a chosen time, and go to it."""

    def command() -> Change[Session]:
        change = call_commands.request_call(visit.scope, visit.params["id"], options)
        # What is refused is not warned of.
        forms.warn(visit, _warnings(visit, options), "Call the customer", "not_before")
        return change

    try:
        sent = forms.texts(visit, _CALL_FORM)
        if sent["not_before"] is not None:
            sent["not_before"] = forms.instant(visit, "not_before", visit.zone)
        options = fields.validate(CallCreate, sent)
        # The field has no seconds.
        if options.not_before and clock.parse(options.not_before) < clock.now() - clock.MINUTE:
            raise ApiError(Code.PARAMETER_INVALID, _PAST, param="not_before")
        session = visit.commit(
            command,
            lambda one: visit.entry(
                "customer.called", visit.params["id"], after={"session": one["id"], "channel": one["channel"]}
            ),
            lambda _: visit.once(),
        )
    except SentBefore:
        return _back(visit, "called")
    except ApiError as error:
        if error.code == Code.CALL_IN_PROGRESS and visit.was_sent():
            return _back(visit, "called")
        return _call_form(visit, visit.form, error)
    return visit.redirect(visit.to("sessions", session["id"], notice="called"))


def _warnings(visit: InProject, options: CallCreate) -> list[str]:
    """Of a call for later, whether its appointment is before it."""
    appointment = names.of(visit, [options.appointment_id]).get(options.appointment_id or "")
    if not options.not_before or not appointment or appointment["appointment_at"] >= options.not_before:
        return []
    return [f"The appointment is before this call: {times.shown(appointment['appointment_at'], visit.zone)}."]


def _find(visit: InProject) -> CustomerRecord:
    return CUSTOMERS.find(visit.scope, visit.params["id"])


def _back(visit: InProject, notice: str, id: str | None = None) -> Response:
    return visit.redirect(visit.to(SECTION, id or visit.params["id"], notice=notice))


def _active_call(visit: InProject, record: CustomerRecord) -> Session | None:
    """The customer's call that waits or is under way."""
    id = record.row.get("active_session")
    return None if id is None else SESSIONS.find(visit.scope, id).doc


def _shown(customer: Customer) -> dict[str, str]:
    return forms.shown(customer, _TEXTS) | {"metadata": forms.metadata_text(customer["metadata"])}


def _form(visit: InProject, customer: Customer | None, error: ApiError | None = None) -> Response:
    form = forms.view(visit, _shown(customer) if customer else dict.fromkeys((*_TEXTS, "metadata"), ""), error)
    status = error.status if error else 200
    return visit.render("customer_form.html", status, section=SECTION, customer=customer, form=form, error=error)


def _call_form(visit: InProject, values: Mapping[str, str], error: ApiError | None = None) -> Response:
    record = _find(visit)
    customer = record.doc
    query = queries.parse(APPOINTMENTS, {"customer_id": [customer["id"]], "limit": ["50"]})
    appointments = [*map(lists.document, list_pages.read(visit.scope, APPOINTMENTS, query).rows)]
    shown = [one for one in appointments if one["status"] != AppointmentStatus.CANCELLED]
    if "appointment_id" not in values and (following := today.next_of(visit, customer["id"])) is not None:
        values = {**values, "appointment_id": following["id"]}
    return visit.render(
        "customer_call.html",
        error.status if error else 200,
        section=SECTION,
        customer=customer,
        appointments=shown,
        past={one["id"] for one in shown if clock.parse(one["appointment_at"]) < clock.now()},
        channels=[*Channel],
        active=_active_call(visit, record),
        warned=forms.warned(error),
        form={name: values.get(name, "") for name in _CALL_FORM} | {"once": secrets.token_urlsafe(16)},
        error=error,
    )


_ONE = f"{PROJECT}/{SECTION}/{{id}}"
PAGES = (
    AdminPage(f"{PROJECT}/{SECTION}", get=View(show_all, VIEWER), post=View(create, MEMBER)),
    AdminPage(f"{PROJECT}/{SECTION}/new", get=View(ask_to_create, MEMBER)),
    AdminPage(f"{PROJECT}/{SECTION}/export", post=View(export, OWNER)),
    AdminPage(_ONE, get=View(show, VIEWER)),
    AdminPage(f"{_ONE}/export", post=View(export_person, OWNER)),
    AdminPage(f"{_ONE}/edit", get=View(ask_to_edit, MEMBER), post=View(edit, MEMBER)),
    AdminPage(f"{_ONE}/delete", get=View(ask_to_delete, MEMBER), post=View(delete, MEMBER)),
    AdminPage(f"{_ONE}/opt_out", post=View(opt_out, MEMBER)),
    AdminPage(f"{_ONE}/opt_in", post=View(opt_in, MEMBER)),
    AdminPage(f"{_ONE}/call", get=View(ask_to_call, MEMBER), post=View(call, MEMBER)),
)
