"""What a page calls the customers, appointments, calls and conversations of its rows: one read for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from functions.admin.visits import InProject
from shared.appointments.resource import APPOINTMENTS
from shared.calls.sessions import SESSIONS
from shared.conversations.resource import CONVERSATIONS
from shared.core import ids
from shared.customers.resource import CUSTOMERS
from shared.resources.collections import Collection
from shared.store import table

_NAMED: tuple[Collection[Any, Any], ...] = (CUSTOMERS, APPOINTMENTS, SESSIONS, CONVERSATIONS)


def of(visit: InProject, wanted: Iterable[str | None]) -> dict[str, Mapping[str, Any]]:
    """The resources with these ids, by id, without those that do not exist.

    One read for up to 100 ids, and another one only if some of them are deleted.
    """
    collections = {id: one for id in wanted if id for one in _NAMED if ids.is_id(one.prefix, id)}
    found: dict[str, Mapping[str, Any]] = {}
    for place in (0, 1):
        missing = {id: one for id, one in collections.items() if id not in found and (not place or one.keeps_deleted)}
        keys = {one.row_keys(visit.scope, id)[place]: one for id, one in missing.items()}
        found |= {key[1]: keys[key].record(row).doc for key, row in table.get_many([*keys]).items()}
    return found
