"""Exports: lists as CSV, within what one response of the service can have. The audit trail says who made them."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
import time
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from starlette.responses import Response

from functions.admin import names
from functions.admin.visits import InProject
from shared.aws.services import Unavailable
from shared.pages import SECURITY
from shared.resources import fields, list_pages, queries
from shared.resources.collections import Collection
from shared.store.transactions import Change

MOST = 5_000
"""The most rows of an export."""
MOST_BYTES = 5_000_000
"""The largest file, as JSON text: a response of Lambda, which contains it as that, has at most 6 MB."""
SECONDS = 15
"""How long an export reads, of the 29 seconds after which API Gateway gives up."""
_BLOCK = 500
_FORMULA = ("=", "+", "-", "@")
"""The first characters of what a spreadsheet takes for a formula, also if they are of full width."""
_PHONE = re.compile(r"\+[0-9]+", re.ASCII)


def of_list(
    visit: InProject,
    collection: Collection[Any, Any],
    columns: Iterable[str],
    wanted: Mapping[str, str],
    parameters: Mapping[str, list[str]],
) -> Response:
    """The resources of a list as CSV, with their customers' names and phones. The file's name says if there are more.

    The audit trail has the names of the filters `wanted` only: their values may be personal data. Raises ApiError.
    """
    columns = [*columns]
    lines, size, cursor = list[list[Any]](), 0, None
    query = queries.parse(collection, parameters)
    while len(lines) < MOST and size < MOST_BYTES and seconds_left(visit) > 0:
        block = dataclasses.replace(query, limit=min(_BLOCK, MOST - len(lines)), starting_after=cursor)
        try:
            page = list_pages.read(visit.scope, collection, block, seconds_left=lambda _: seconds_left(visit))
        except Unavailable:
            if lines:
                break
            raise
        cursor = page.next_cursor
        docs = [collection.record(row).doc for row in page.rows]
        for line in _lines(visit, columns, docs):
            size += size_of(_text([line]))
            if size > MOST_BYTES:
                cursor = cursor or docs[-1]["id"]
                break
            lines.append(line)
        if cursor is None:
            break
    kind = "call" if collection.kind == "session" else collection.kind
    facts = {"rows": len(lines), "filters": ", ".join(name for name, value in wanted.items() if value)}
    entry = visit.entry(f"{kind}.list_exported", str(visit.scope.project_id), after=facts)
    visit.commit(lambda: Change(None, [entry]))
    people = ["customer_name", "customer_phone"] if "customer_id" in columns else []
    return csv_file(f"{kind}s{f'-first-{len(lines)}' if cursor else ''}", [*columns, *people], lines)


def csv_file(name: str, columns: Sequence[str], lines: Iterable[Iterable[Any]]) -> Response:
    """A CSV file, in which no spreadsheet finds a formula."""
    headers = {"Content-Disposition": f'attachment; filename="{name}.csv"'}
    # Excel reads UTF-8 if the file begins with this mark.
    return Response("\ufeff" + _text([columns, *lines]), media_type="text/csv", headers=SECURITY | headers)


def seconds_left(visit: InProject) -> float:
    """The seconds that an export still has for reading."""
    return SECONDS - (time.perf_counter() - visit.context.started)


def size_of(text: str) -> int:
    """The bytes that a text takes in a response of Lambda."""
    return len(json.dumps(text))


def _lines(visit: InProject, columns: Sequence[str], docs: Sequence[Mapping[str, Any]]) -> Iterator[list[Any]]:
    named = names.of(visit, (one.get("customer_id") for one in docs))
    for one in docs:
        person = named.get(one.get("customer_id") or "", {})
        people = [person.get("name"), person.get("phone")] if "customer_id" in columns else []
        yield [*(one[name] for name in columns), *people]


def _text(lines: Iterable[Iterable[Any]]) -> str:
    file = io.StringIO()
    csv.writer(file).writerows(map(_cell, line) for line in lines)
    return file.getvalue()


def _cell(value: Any) -> str:
    text = "" if value is None else value if isinstance(value, str) else fields.to_json(value)
    first = unicodedata.normalize("NFKC", text.lstrip()[:1])
    is_formula = first.startswith(_FORMULA) or text[:1] in ("\t", "\r", "\n")
    return f"'{text}" if is_formula and not _PHONE.fullmatch(text) else text
