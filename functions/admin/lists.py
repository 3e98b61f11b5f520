"""Lists of resources, by the filters and cursors of the API."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import date, tzinfo
from typing import Any

from starlette.responses import Response

from functions.admin import find, names, times, words
from functions.admin.visits import InProject
from shared.core import clock
from shared.core.errors import ApiError, Code
from shared.resources import list_pages, queries
from shared.resources.collections import Collection
from shared.store import table

PAGE = 50
"""The rows of a page."""


def wanted(visit: InProject, *names: str) -> dict[str, str]:
    """The filters of the page's form, empty if they are not set."""
    filters = {name: visit.query.get(name, "").strip() for name in names}
    if "customer_id" in filters and "customer" in visit.query and not visit.query["customer"].strip():
        # The form has the id of the customer beside the name, which somebody has removed.
        filters["customer_id"] = ""
    return filters


def parameters(visit: InProject, filters: Mapping[str, str]) -> dict[str, list[str]]:
    """The API's query parameters for the requested page and these filters."""
    return {name: [value] for name, value in filters.items() if value} | visit.page_parameters(PAGE)


def bounds(filters: Mapping[str, str], zone: tzinfo) -> dict[str, clock.Instant]:
    """The instants from the day `since` to the end, exclusive, of the day `until`.

    A day that is not set is left out. Raises `datetime_invalid`.
    """
    instants = {}
    if filters["since"]:
        instants["since"] = times.start_of_day(day_of(filters["since"], "since"), zone)
    if filters["until"]:
        instants["until"] = times.end_of_day(day_of(filters["until"], "until"), zone)
    return instants


def days(
    filters: Mapping[str, str], field: str, zone: tzinfo, text: Callable[[clock.Instant], str]
) -> dict[str, list[str]]:
    """The API's range of `field` for the days `since` and `until` of the form, in `zone`; `text` writes an instant.

    Raises `datetime_invalid`.
    """
    instants = bounds(filters, zone)
    since = {f"{field}[gte]": [text(instants["since"])]} if "since" in instants else {}
    # The end of a day is its last millisecond: after 9999-12-31 there is no other day.
    until = {f"{field}[lte]": [text(instants["until"] - 1)]} if "until" in instants else {}
    return since | until


def day_of(text: str, name: str) -> date:
    """The day that the field `name` has. Raises `datetime_invalid`."""
    try:
        return times.parse_day(text)
    except ValueError:
        raise ApiError(Code.DATETIME_INVALID, "Days have the form 2027-03-04.", param=name) from None


def instant_of(text: str, name: str) -> clock.Instant:
    """The instant that the field `name` has, as the pages write it into links. Raises `datetime_invalid`."""
    try:
        return clock.parse(text)
    except ValueError:
        raise ApiError(Code.DATETIME_INVALID, param=name) from None


def document(row: table.Row) -> dict[str, Any]:
    """The resource of a row, as the API shows it."""
    found: dict[str, Any] = json.loads(row["doc"])
    return found


def read(
    visit: InProject,
    collection: Collection[Any, Any],
    query: Mapping[str, list[str]],
    view: Callable[[table.Row], Any] = document,
) -> tuple[list[Any], str | None]:
    """The resources of a page as `view` shows them, and the cursor of the next one. Raises ApiError."""
    page = list_pages.read(visit.scope, collection, queries.parse(collection, query))
    return [view(row) for row in page.rows], page.next_cursor


def show(
    visit: InProject,
    section: str,
    filters: Mapping[str, str],
    page: Callable[[], tuple[list[Any], str | None]],
    subject: Callable[[Any], Mapping[str, Any]] = dict,
    **values: Any,
) -> Response:
    """The list of a section, which is also the name of its template and of the rows in it.

    The template gets the names of the customers of the rows. `subject` returns the object of a row that may have one.
    If the API refuses a filter, the response has status 400, the error and no rows. A list with the filter
    `customer_id` takes what the find box takes for a customer, and lists the customers if it finds several.
    """
    error, rows, cursor = None, list[Any](), None
    typed = _typed_customer(visit, filters)
    people, more_people = find.customers(visit, typed, find.SHOWN) if typed else ([], False)
    if len(people) == 1 and not more_people:
        query = words.query({**filters, "customer_id": people[0]["id"]})
        return visit.redirect(f"{visit.path(section)}?{query}")
    try:
        rows, cursor = page() if not typed else ([], None)
    except ApiError as refused:
        error = refused
    chosen = [filters.get("customer_id"), filters.get("appointment_id")]
    return visit.render(
        f"{section}.html",
        400 if error else 200,
        section=section,
        cursor=cursor,
        wanted=filters,
        error=error,
        typed=typed,
        people=people,
        more_people=more_people,
        named=names.of(visit, [*chosen, *(subject(row).get("customer_id") for row in rows)]),
        **{section: rows},
        **values,
    )


def _typed_customer(visit: InProject, filters: Mapping[str, str]) -> str:
    """What somebody has typed to choose another customer than that of the filters; empty if nothing."""
    typed = visit.query.get("customer", "").strip()[: find.LONGEST]
    if not typed or "customer_id" not in filters:
        return ""
    id = filters["customer_id"]
    return "" if typed == words.customer(names.of(visit, [id]), id) else typed
