"""Appointments: find, create for a customer, move, edit, confirm and cancel.

A new time that is past, closed or taken is not refused: the form says so, and is sent again to keep it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, tzinfo
from typing import Any

from starlette.responses import Response

from functions.admin import exports, forms, lists, names, times, today
from functions.admin.find import SHOWN, customers
from functions.admin.visits import PROJECT, AdminPage, InProject, SentBefore, View
from shared.admin.members import MEMBER, OWNER, VIEWER
from shared.agent_settings import hours
from shared.agent_settings.policy import DURATION_MS
from shared.appointments import commands as appointment_commands
from shared.appointments.resource import (
    APPOINTMENTS,
    Appointment,
    AppointmentCreate,
    AppointmentPatch,
    AppointmentRecord,
    AppointmentStatus,
    call_count,
)
from shared.core import clock
from shared.core.errors import ApiError
from shared.customers.resource import CUSTOMERS
from shared.resources import fields
from shared.store.transactions import Change

SECTION = "appointments"
NOTICES = {
    "saved": "The appointment was changed.",
    "moved": "The appointment was moved.",
    "confirmed": "The appointment was confirmed.",
    "canceled": "The appointment was canceled.",
}
_TEXTS = ("timezone", "title", "location", "notes", "external_id")
_FORM = ("at", "duration_minutes", *_TEXTS, "metadata")
_EXAMINED = 100
"""The appointments of the day before a new time, and until its end, that it is compared with."""
_EXAMINED_OF_CUSTOMER = 5
"""The appointments of the customer on the same day that it is compared with."""
_LONGEST_MS = clock.DAY
_NAMED_OVERLAPS = 3
_FILTERS = ("status", "customer_id", "since", "until")
_AUDITED = ("status", "appointment_at")
"""The fields whose values the audit trail contains. The others may be personal data."""


def show_all(visit: InProject) -> Response:
    """List the appointments: by their time if a day is chosen, otherwise the newest first."""
    wanted = lists.wanted(visit, *_FILTERS)
    return lists.show(
        visit,
        SECTION,
        wanted,
        lambda: lists.read(visit, APPOINTMENTS, _parameters(visit, wanted)),
        statuses=[*AppointmentStatus],
        most=exports.MOST,
    )


def export(visit: InProject) -> Response:
    """The listed appointments as CSV."""
    wanted = {name: visit.form.get(name, "").strip() for name in _FILTERS}
    return exports.of_list(visit, APPOINTMENTS, Appointment.__annotations__, wanted, _parameters(visit, wanted))


def show(visit: InProject) -> Response:
    """Show an appointment."""
    record = _find(visit)
    appointment = record.doc
    return visit.render(
        "appointment.html",
        section=SECTION,
        appointment=appointment,
        calls=call_count(record),
        named=names.of(visit, (appointment["customer_id"], appointment["session_id"])),
        notice=NOTICES.get(visit.query.get("notice", "")),
    )


def choose_customer(visit: InProject) -> Response:
    """Find the customer of a new appointment, and go to its form with the chosen time."""
    text, at = visit.query.get("customer", "").strip()[:255], visit.query.get("at", "")
    found, has_more = customers(visit, text, SHOWN) if text else ([], False)
    if len(found) == 1 and not has_more:
        return visit.redirect(visit.to("customers", found[0]["id"], "new_appointment", at=at))
    return visit.render(
        "appointment_new.html",
        section=SECTION,
        found=found,
        has_more=has_more,
        text=text,
        at=at,
        shown_at=_typed_time(at),
    )


def _typed_time(at: str) -> str | None:
    """A local time of a link, as pages show times."""
    try:
        typed = datetime.fromisoformat(at)
    except ValueError:
        return None
    return f"{times.day(typed)}, {typed:%H:%M}"


def ask_to_create(visit: InProject) -> Response:
    """Show the form of a new appointment of a customer."""
    return _form(visit, None)


def create(visit: InProject) -> Response:
    """Create an appointment of a customer, and go to its day if that is where it was begun, else to the customer."""
    customer = CUSTOMERS.find(visit.scope, visit.params["id"]).doc

    def command() -> Change[Appointment]:
        change = appointment_commands.create(visit.scope, appointment_input)
        forms.warn(visit, _warnings(visit, change.doc), "Create appointment", "at")
        after = {"customer": customer["id"], **forms.part(change.doc, _AUDITED)}
        return change.with_writes(visit.entry("appointment.created", change.doc["id"], after=after), visit.once())

    try:
        values = _sent(visit) | {"customer_id": customer["id"], "appointment_at": _instant(visit)}
        appointment_input = fields.validate(AppointmentCreate, values)
        created = visit.commit(command)
    except ApiError as error:
        return _form(visit, None, error)
    except SentBefore:
        created = None
    if created is not None and visit.query.get("at"):
        return visit.redirect(_on_its_day(visit, created, "created"))
    return visit.redirect(visit.to("customers", customer["id"], notice="appointment"))


def ask_to_move(visit: InProject) -> Response:
    """Show the form of a new time, with the free times of its day. A link to one of them fills the form."""
    return _move_form(visit, at=visit.query.get("at", "")[:16])


def move(visit: InProject) -> Response:
    """Move an appointment to another time, or show the free times of the day that was typed."""

    def patch(appointment: Appointment) -> dict[str, Any]:
        is_edited = forms.edited(visit, _shown_time(visit, appointment))
        return {"appointment_at": forms.instant(visit, "at", _zone(visit, appointment))} if is_edited else {}

    if "free_times" in visit.form:
        return _move_form(visit, is_kept=True)
    try:
        before = _find(visit).doc
        appointment = _change(visit, patch, "appointment.changed", "Move")
    except ApiError as error:
        return _move_form(visit, error)
    except SentBefore:
        return visit.redirect(visit.to(SECTION, visit.params["id"]))
    if appointment["appointment_at"] == before["appointment_at"]:
        return visit.redirect(visit.to(SECTION, visit.params["id"]))
    return _done(visit, appointment, "moved")


def ask_to_edit(visit: InProject) -> Response:
    """Show the form that changes an appointment."""
    return _form(visit, _find(visit).doc)


def edit(visit: InProject) -> Response:
    """Change an appointment. Another time reschedules it."""

    def patch(appointment: Appointment) -> dict[str, Any]:
        edited = forms.edited(visit, _shown(visit, appointment), together=("at", "timezone"))
        values = {name: value for name, value in _sent(visit).items() if name in edited}
        if "metadata" in edited:
            values["metadata"] = forms.metadata_patch(appointment["metadata"], values["metadata"])
        return values | {"appointment_at": _instant(visit)} if "at" in edited else values

    try:
        _change(visit, patch, "appointment.changed", "Save")
    except ApiError as error:
        return _form(visit, _find(visit).doc, error)
    except SentBefore:
        return visit.redirect(visit.to(SECTION, visit.params["id"]))
    return _back(visit, "saved")


def confirm(visit: InProject) -> Response:
    """Confirm an appointment."""
    _change(visit, lambda _: {"status": AppointmentStatus.CONFIRMED}, "appointment.confirmed")
    return _back(visit, "confirmed")


def ask_to_cancel(visit: InProject) -> Response:
    """Ask for confirmation and a reason."""
    return _cancel_form(visit)


def cancel(visit: InProject) -> Response:
    """Cancel an appointment."""
    reason = forms.texts(visit, ("cancellation_reason",))
    try:
        canceled = {"status": AppointmentStatus.CANCELLED, **reason}
        appointment = _change(visit, lambda _: canceled, "appointment.cancelled")
    except ApiError as error:
        return _cancel_form(visit, error)
    return _done(visit, appointment, "canceled")


def _warnings(visit: InProject, appointment: Appointment) -> list[str]:
    start, end = today.span(appointment)
    reasons = []
    if start < clock.now():
        reasons.append("This time is in the past.")
    if not hours.contain(visit.settings["opening_hours"], visit.zone, start, end):
        reasons.append("This time is outside the opening hours.")
    near, _ = today.between(visit, max(start - _LONGEST_MS, times.FIRST), end, _EXAMINED)
    docs = [one.doc for one in near]
    others = {one["id"]: one for one in docs if one["status"] not in today.FREE and one["id"] != appointment["id"]}
    spans = {id: today.span(one) for id, one in others.items()} | {appointment["id"]: (start, end)}
    taken = [others[id] for id in today.overlapping(appointment["id"], spans)]
    same = [one for one in taken if one["customer_id"] == appointment["customer_id"] and today.span(one)[0] == start]
    if same:
        reasons.append("The customer already has an appointment at this time.")
    named = names.of(visit, (one["customer_id"] for one in taken[:_NAMED_OVERLAPS]))
    for one in taken[:_NAMED_OVERLAPS]:
        person = named.get(one["customer_id"])
        name = (person["name"] or person["phone"]) if person else one["customer_id"]
        if one not in same:
            reasons.append(f"It overlaps with {name}, {times.shown(one['appointment_at'], visit.zone)}.")
    for one in _others_of_the_day(visit, appointment):
        if one not in taken:
            at = times.shown(one["appointment_at"], visit.zone)
            reasons.append(f"The customer has another appointment on this day: {one['title'] or 'Appointment'}, {at}.")
    return reasons


def _others_of_the_day(visit: InProject, appointment: Appointment) -> list[Appointment]:
    """The customer's other appointments on the same day in the project's time zone that take place."""
    day = times.local(clock.parse(appointment["appointment_at"]), visit.zone).date()
    start, end = times.start_of_day(day, visit.zone), times.end_of_day(day, visit.zone)
    found, _ = today.between(visit, start, end, _EXAMINED_OF_CUSTOMER, customer_id=appointment["customer_id"])
    return [one.doc for one in found if one.doc["status"] not in today.FREE and one.doc["id"] != appointment["id"]]


def _change(
    visit: InProject, patch_of: Callable[[Appointment], Mapping[str, Any]], action: str, button: str | None = None
) -> Appointment:
    """Change an appointment. The form with this button warns if its time is unusual."""

    def command() -> Change[Appointment]:
        record = _find(visit)
        patch = fields.validate(AppointmentPatch, patch_of(record.doc))
        change = appointment_commands.update(visit.scope, record, patch)
        appointment = change.doc
        changed = fields.changed(record.doc, appointment)
        if button and {"appointment_at", "duration_minutes"} & {*changed}:
            forms.warn(visit, _warnings(visit, appointment), button, "at")
        audited = [name for name in _AUDITED if name in changed]
        entry = visit.entry(
            action,
            appointment["id"],
            before=forms.part(record.doc, audited),
            after={"fields": ", ".join(changed), **forms.part(appointment, audited)},
        )
        return change.with_writes(entry)

    return visit.commit(command)


def _find(visit: InProject) -> AppointmentRecord:
    return APPOINTMENTS.find(visit.scope, visit.params["id"])


def _back(visit: InProject, notice: str) -> Response:
    return visit.redirect(visit.to(SECTION, visit.params["id"], notice=notice))


def _done(visit: InProject, appointment: Appointment, done: str) -> Response:
    """Go to the appointment's day if the person came from one, else to its page."""
    return visit.redirect(_on_its_day(visit, appointment, done)) if visit.day else _back(visit, done)


def _on_its_day(visit: InProject, appointment: Appointment, done: str) -> str:
    """The path of the day of an appointment, which marks it and says what was done."""
    day = times.local(clock.parse(appointment["appointment_at"]), visit.zone).date()
    return visit.to(date=day, appointment=appointment["id"], done=done)


def _sent(visit: InProject) -> dict[str, Any]:
    """The fields of the form, without the time."""
    numbers = {"duration_minutes": forms.integer(visit, "duration_minutes", "Duration in minutes")}
    return forms.texts(visit, _TEXTS) | numbers | {"metadata": forms.metadata(visit)}


def _instant(visit: InProject) -> str:
    """The time of the form, which is local in the time zone of the form, with its UTC offset."""
    return forms.instant(visit, "at", times.zone_of(visit.form.get("timezone", "").strip(), visit.zone))


def _parameters(visit: InProject, wanted: Mapping[str, str]) -> dict[str, list[str]]:
    """The API's query parameters for those of the page."""
    parameters = lists.parameters(visit, {name: wanted[name] for name in ("status", "customer_id")})
    return parameters | lists.days(wanted, "appointment_at", visit.zone, clock.iso)


def _shown(visit: InProject, appointment: Appointment) -> dict[str, str]:
    """The texts of the form's fields. The time is local in the appointment's time zone."""
    texts = forms.shown(appointment, ("duration_minutes", *_TEXTS))
    return texts | _shown_time(visit, appointment) | {"metadata": forms.metadata_text(appointment["metadata"])}


def _shown_time(visit: InProject, appointment: Appointment) -> dict[str, str]:
    return {"at": _field(visit, appointment, clock.parse(appointment["appointment_at"]))}


def _field(visit: InProject, appointment: Appointment, instant: clock.Instant) -> str:
    """An instant as the form of an appointment has it: local in the appointment's time zone."""
    return times.local(instant, _zone(visit, appointment)).isoformat(timespec="minutes")


def _zone(visit: InProject, appointment: Appointment) -> tzinfo:
    return times.zone_of(appointment["timezone"], visit.zone)


def _empty(visit: InProject) -> dict[str, str]:
    """The texts of the form of a new appointment, with the time that was chosen before."""
    return dict.fromkeys(_FORM, "") | {"at": visit.query.get("at", "")[:16]}


def _form(visit: InProject, appointment: Appointment | None, error: ApiError | None = None) -> Response:
    customer_id = appointment["customer_id"] if appointment else visit.params["id"]
    return visit.render(
        "appointment_form.html",
        error.status if error else 200,
        section=SECTION,
        appointment=appointment,
        customer=CUSTOMERS.find(visit.scope, customer_id).doc,
        form=forms.view(visit, _shown(visit, appointment) if appointment else _empty(visit), error),
        default_minutes=DURATION_MS // clock.MINUTE,
        warned=forms.warned(error),
        error=error,
    )


def _move_form(visit: InProject, error: ApiError | None = None, *, is_kept: bool = False, at: str = "") -> Response:
    appointment = _find(visit).doc
    form = forms.view(visit, _shown_time(visit, appointment), error, is_kept=is_kept)
    form["at"] = at or form["at"]
    day, free = _free(visit, appointment, form["at"])
    return visit.render(
        "appointment_move.html",
        error.status if error else 200,
        section=SECTION,
        appointment=appointment,
        minutes=(today.span(appointment)[1] - today.span(appointment)[0]) // clock.MINUTE,
        named=names.of(visit, [appointment["customer_id"]]),
        form=form,
        day=day,
        free=[(one, _field(visit, appointment, clock.parse(one.start))) for one in free],
        warned=forms.warned(error),
        error=error,
    )


def _free(visit: InProject, appointment: Appointment, at: str) -> tuple[date | None, list[today.DayEntry]]:
    """The day of a time in the form, and its free times for this appointment. No day if they are not known."""
    try:
        instant = times.instant(at.strip(), _zone(visit, appointment))
        day = times.local(instant, visit.zone).date()
        start, end = times.start_of_day(day, visit.zone), times.end_of_day(day, visit.zone)
    except ValueError:
        return None, []
    records, has_more = today.between(visit, start, end, today.MOST["day"])
    if has_more:
        return None, []
    others = [one.doc for one in records if one.doc["id"] != appointment["id"]]
    return day, [one for one in today.agenda(visit, day, others) if one.appointment is None]


def _cancel_form(visit: InProject, error: ApiError | None = None) -> Response:
    appointment = _find(visit).doc
    status = error.status if error else 200
    reason = visit.form.get("cancellation_reason", "")
    return visit.render(
        "appointment_cancel.html",
        status,
        section=SECTION,
        appointment=appointment,
        named=names.of(visit, [appointment["customer_id"]]),
        reason=reason,
        error=error,
    )


_ONE = f"{PROJECT}/{SECTION}/{{id}}"
PAGES = (
    AdminPage(f"{PROJECT}/{SECTION}", get=View(show_all, VIEWER)),
    AdminPage(f"{PROJECT}/{SECTION}/export", post=View(export, OWNER)),
    AdminPage(f"{PROJECT}/{SECTION}/new", get=View(choose_customer, MEMBER)),
    AdminPage(
        f"{PROJECT}/customers/{{id}}/new_appointment", get=View(ask_to_create, MEMBER), post=View(create, MEMBER)
    ),
    AdminPage(_ONE, get=View(show, VIEWER)),
    AdminPage(f"{_ONE}/move", get=View(ask_to_move, MEMBER), post=View(move, MEMBER)),
    AdminPage(f"{_ONE}/edit", get=View(ask_to_edit, MEMBER), post=View(edit, MEMBER)),
    AdminPage(f"{_ONE}/confirm", post=View(confirm, MEMBER)),
    AdminPage(f"{_ONE}/cancel", get=View(ask_to_cancel, MEMBER), post=View(cancel, MEMBER)),
)
