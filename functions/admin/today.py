"""The day: its appointments in order of time, with what the agent did, overlaps and free time; or a week of them."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from starlette.responses import Response

from functions.admin import lists, names, times
from functions.admin.visits import PROJECT, AdminPage, InProject, View
from shared.admin.members import VIEWER
from shared.agent_settings import hours
from shared.agent_settings.hours import Span
from shared.agent_settings.policy import DURATION_MS
from shared.appointments.resource import APPOINTMENTS, Appointment, AppointmentRecord, AppointmentStatus, call_count
from shared.conversations import resource as conversations
from shared.core import clock
from shared.core.errors import ApiError
from shared.resources import list_pages, queries

SECTION = "today"
DAYS_SHOWN = {"day": 1, "week": 7}
MOST = {"day": 100, "week": 300}
"""The appointments of a view: a day with more shows the latest ones, and leads to the list."""
_EXAMINED = 20
"""The next appointments of a customer among which one that takes place is looked for."""
MOST_WAITING = 10
"""Conversations that wait are counted up to this number."""
SHORTEST_GAP_MS = 15 * clock.MINUTE
FREE = (AppointmentStatus.CANCELLED, AppointmentStatus.FAILED)
"""The statuses of appointments that take no time."""
DONE = ("created", "moved", "canceled")
"""What was done with an appointment before its day is shown."""


@dataclass(frozen=True)
class DayEntry:
    """An appointment of a day, with the ids of those that it overlaps, or free time (None)."""

    start: str
    end: str
    appointment: Mapping[str, Any] | None = None
    overlaps: Sequence[str] = ()

    @property
    def minutes(self) -> int:
        """Its duration in minutes."""
        return (clock.parse(self.end) - clock.parse(self.start)) // clock.MINUTE


def show(visit: InProject) -> Response:
    """Show a day or a week, by default today."""
    today = times.local(clock.now(), visit.zone).date()
    view = "week" if visit.query.get("view") == "week" else "day"
    error, chosen = None, today
    try:
        if visit.query.get("date"):
            chosen = lists.day_of(visit.query["date"], "date")
    except ApiError as refused:
        error = refused
    first = chosen - timedelta(days=chosen.weekday()) if view == "week" else chosen
    days = [day for number in range(DAYS_SHOWN[view]) if (day := _after(first, number))]
    start, end = times.start_of_day(days[0], visit.zone), times.end_of_day(days[-1], visit.zone)
    records, has_more = between(visit, start, end, MOST[view])
    appointments = [one.doc for one in records]
    agendas = [(day, agenda(visit, day, appointments)) for day in days]
    by_id = {one["id"]: one for one in appointments}
    named = names.of(visit, (one[name] for one in appointments for name in ("customer_id", "session_id")))
    marked, done = by_id.get(visit.query.get("appointment", "")), visit.query.get("done", "")
    waiting, _ = conversations.longest_waiting(visit.scope, MOST_WAITING) if chosen == today else ([], None)
    return dataclasses.replace(visit, day=chosen).render(
        "today.html",
        400 if error else 200,
        section=SECTION,
        view=view,
        chosen=chosen,
        today=today,
        days=agendas,
        previous=_after(first, -DAYS_SHOWN[view]),
        next=_after(first, DAYS_SHOWN[view]),
        has_more=has_more,
        most=MOST[view],
        by_id=by_id,
        next_id=next((one["id"] for one in appointments if _is_ahead(one)), None) if chosen == today else None,
        calls={one.doc["id"]: call_count(one) for one in records},
        named=named,
        back=visit.day if visit.day != chosen else None,
        new_at=next((one.start for one in dict(agendas)[chosen] if one.appointment is None), None),
        marked=marked if done in DONE and _is_so(marked, done) else None,
        done=done,
        waiting=len(waiting),
        most_waiting=MOST_WAITING,
        error=error,
    )


def _is_so(appointment: Mapping[str, Any] | None, done: str) -> bool:
    """Whether a link from a form may be right about what was done. Anybody can write such a link."""
    return appointment is not None and (done == "canceled") == (appointment["status"] == AppointmentStatus.CANCELLED)


def agenda(visit: InProject, day: date, appointments: Sequence[Mapping[str, Any]]) -> list[DayEntry]:
    """The appointments of a day and its free time, in order."""
    start, end = times.start_of_day(day, visit.zone), times.end_of_day(day, visit.zone)
    mine = [one for one in appointments if start <= clock.parse(one["appointment_at"]) < end]
    busy = {one["id"]: span(one) for one in mine if one["status"] not in FREE}
    entries = [_entry(span(one), one, overlapping(one["id"], busy)) for one in mine]
    now = clock.now() + -clock.now() % clock.MINUTE
    # Of today, only the time ahead is free.
    opened = [
        (max(first, now) if start <= now < end else first, last)
        for first, last in _open(visit, start, end, [*busy.values()])
    ]
    entries += [_entry(gap) for gap in gaps(opened, [*busy.values()])]
    return sorted(entries, key=lambda entry: entry.start)


def _entry(taken: Span, appointment: Mapping[str, Any] | None = None, overlaps: Sequence[str] = ()) -> DayEntry:
    return DayEntry(clock.iso(taken[0]), clock.iso(taken[1]), appointment, overlaps)


def span(appointment: Mapping[str, Any]) -> Span:
    """From when until when an appointment takes, within the calendar. Without a duration it is half an hour."""
    start, minutes = clock.parse(appointment["appointment_at"]), appointment["duration_minutes"]
    return start, min(start + (minutes * clock.MINUTE if minutes else DURATION_MS), clock.LAST)


def overlapping(id: str, spans: Mapping[str, Span]) -> list[str]:
    """The ids of the others that take some of the same time."""
    if id not in spans:
        return []
    start, end = spans[id]
    return [other for other, (first, last) in spans.items() if other != id and first < end and start < last]


def gaps(opened: Sequence[Span], busy: Sequence[Span]) -> Iterator[Span]:
    """The times of `opened` that are not in `busy`, from one full minute to another, without short ones."""
    for start, end in opened:
        for first, last in [*sorted(busy), (end, end)]:
            until = min(first, end)
            until -= until % clock.MINUTE
            if until - start >= SHORTEST_GAP_MS:
                yield start, until
            start = max(start, last + -last % clock.MINUTE)


def _open(visit: InProject, start: clock.Instant, end: clock.Instant, busy: Sequence[Span]) -> list[Span]:
    """The opening hours of a day; without any, the time from its first appointment to its last."""
    if not visit.settings["opening_hours"]:
        return [(min(first for first, _ in busy), max(last for _, last in busy))] if busy else []
    open_spans = hours.spans(visit.settings["opening_hours"], visit.zone, start, end)
    clipped = [(max(first, start), min(last, end)) for first, last in open_spans]
    return [(first, last) for first, last in clipped if first < last]


def between(
    visit: InProject, start: clock.Instant, end: clock.Instant, most: int, **filters: str
) -> tuple[list[AppointmentRecord], bool]:
    """The appointments from `start` to before `end`, the earliest first. If there are more, the last ones, and True."""
    parameters = {"appointment_at[gte]": [clock.iso(start)], "appointment_at[lte]": [clock.iso(end - 1)]}
    parameters |= {name: [value] for name, value in filters.items()}
    query = dataclasses.replace(queries.parse(APPOINTMENTS, parameters), limit=most)
    page = list_pages.read(visit.scope, APPOINTMENTS, query)
    return [APPOINTMENTS.record(row) for row in reversed(page.rows)], page.next_cursor is not None


def next_of(visit: InProject, customer_id: str | None) -> Appointment | None:
    """The next appointment of a customer that takes place."""
    if customer_id is None:
        return None
    parameters = {"customer_id": customer_id, "appointment_at[gte]": clock.iso(clock.now()), "limit": "5"}
    query = queries.parse(APPOINTMENTS, {name: [value] for name, value in parameters.items()})
    ahead = itertools.islice(list_pages.earliest_first(visit.scope, APPOINTMENTS, query), _EXAMINED)
    return next((one.doc for one in ahead if one.doc["status"] not in FREE), None)


def _is_ahead(appointment: Appointment) -> bool:
    return appointment["status"] not in FREE and clock.parse(appointment["appointment_at"]) >= clock.now()


def _after(day: date, days: int) -> date | None:
    """A day some days later, or earlier; None beyond the calendar."""
    with contextlib.suppress(OverflowError):
        return day + timedelta(days=days)
    return None


PAGES = (AdminPage(PROJECT, get=View(show, VIEWER)),)
