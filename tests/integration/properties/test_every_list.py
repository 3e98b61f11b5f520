"""Lists show what their filters say, in order and over pages."""

from __future__ import annotations

import itertools
import re
import urllib.parse
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from tests.support.keys import new_key
from tests.support.properties import DAYS, fixed_examples
from tests.support.stage import Stage
from tests.support.world import KEYS

WORDS = {"gt": "__gt__", "gte": "__ge__", "lt": "__lt__", "lte": "__le__"}


class Shelf:
    """A project with some customers and appointments, and nothing else, some of them deleted."""

    def __init__(self, stage: Stage) -> None:
        project = stage.project("Shelf")
        keys = [new_key(project.id) for _ in range(KEYS)]
        self._keys = itertools.cycle(keys)
        self.stage = stage
        self.customers = [self._make("customers", self._customer(number)) for number in range(14)]
        ids = [customer["id"] for customer in self.customers[:3]]
        self.appointments = [self._make("appointments", self._appointment(number, ids)) for number in range(28)]
        for number in range(0, 28, 5):
            self.appointments[number] = self._call("PATCH", "appointments", number, {"status": "cancelled"})
        for number in range(3, 28, 9):
            self._call("DELETE", "appointments", number)
        self._call("DELETE", "customers", 7)
        self.shown = {
            "customers": [one for number, one in enumerate(self.customers) if number != 7],
            "appointments": [one for number, one in enumerate(self.appointments) if number not in range(3, 28, 9)],
        }

    def get(self, path: str) -> Any:
        answer = self.stage.call("GET", path, key=next(self._keys))
        assert answer.status == 200, answer.body
        return answer.json

    def _customer(self, number: int) -> dict[str, Any]:
        email = ["ada@example.com", None, "bea@example.com"][number % 3]
        external_id = ["x", "y z&=", "\u00e4"][number % 3] if number % 2 else None
        return {"phone": f"+1500555000{number % 4}", "email": email, "external_id": external_id}

    def _appointment(self, number: int, ids: list[str]) -> dict[str, Any]:
        status = ("pending", "confirmed")[number % 2]
        at = DAYS[number * 3 % 5]
        return {"customer_id": ids[number % 3], "appointment_at": at, "status": status, "external_id": f"e{number % 4}"}

    def _make(self, group: str, body: dict[str, Any]) -> Any:
        answer = self.stage.call("POST", f"/v1/{group}", body, key=next(self._keys))
        assert answer.status == 201, answer.body
        return answer.json

    def _call(self, method: str, group: str, number: int, body: Any = None) -> Any:
        id = {"customers": self.customers, "appointments": self.appointments}[group][number]["id"]
        answer = self.stage.call(method, f"/v1/{group}/{id}", body, key=next(self._keys))
        assert answer.status == 200, answer.body
        return answer.json


@pytest.fixture(scope="module")
def shelf(_stage: Stage) -> Shelf:
    return Shelf(_stage)


@st.composite
def filters(draw: st.DrawFn, group: str) -> list[tuple[str, str]]:
    """Filters as (parameter, value); "#n" stands for the creation time of the n-th item."""
    exact = {
        "customers": {
            "phone": [f"+1500555000{number}" for number in range(5)],
            "email": ["ada@example.com", "bea@example.com", "nobody@example.com"],
            "external_id": ["x", "y z&=", "\u00e4", "z"],
        },
        "appointments": {
            "status": ["pending", "confirmed", "cancelled", "failed"],
            "customer_id": ["@0", "@1", "@2", "@9"],
            "external_id": ["e0", "e1", "e9"],
        },
    }[group]
    found = []
    for name in draw(st.lists(st.sampled_from(sorted(exact)), max_size=3, unique=True)):
        count = draw(st.integers(1, 3)) if name == "status" else 1
        found += [(name, draw(st.sampled_from(exact[name]))) for _ in range(count)]
    for word in draw(st.lists(st.sampled_from(sorted(WORDS)), max_size=2, unique=True)):
        found.append((f"created_at[{word}]", f"#{draw(st.integers(0, 13))}"))
    if group == "appointments":
        for word in draw(st.lists(st.sampled_from(sorted(WORDS)), max_size=2, unique=True)):
            found.append((f"appointment_at[{word}]", draw(st.sampled_from(DAYS))))
    return found


def expected_items(items: list[Any], chosen: list[tuple[str, str]]) -> list[Any]:
    """The reference: every item judged by every filter, newest or latest first."""
    values: dict[str, set[str]] = {}
    for name, value in chosen:
        values.setdefault(name, set()).add(value)

    def matches_filters(item: Any) -> bool:
        for name, texts in values.items():
            ranged = re.fullmatch(r"(\w+)\[(\w+)\]", name)
            if ranged:
                if not all(getattr(item[ranged[1]], WORDS[ranged[2]])(text) for text in texts):
                    return False
            elif item[name] not in texts:
                return False
        return True

    by_time = any(name.startswith("appointment_at") for name in values)
    order = (lambda item: (item["appointment_at"], item["id"])) if by_time else (lambda item: item["id"])
    return sorted(filter(matches_filters, items), key=order, reverse=True)


@pytest.mark.parametrize("group", ["customers", "appointments"])
def test_a_list_shows_exactly_what_its_filters_say_in_order_and_over_pages(shelf: Shelf, group: str) -> None:
    @fixed_examples(80)
    @given(filters(group), st.integers(1, 12))
    def property_(chosen: list[tuple[str, str]], limit: int) -> None:
        items = shelf.customers if group == "customers" else shelf.appointments
        named = []
        for name, value in chosen:
            if value.startswith("@"):
                value = shelf.customers[int(value[1:])]["id"]
            if value.startswith("#"):
                value = items[int(value[1:])]["created_at"]
            named.append((name, value))
        found: list[Any] = []
        cursor: list[tuple[str, str]] = []
        while True:
            query = urllib.parse.urlencode([*named, ("limit", str(limit)), *cursor])
            page = shelf.get(f"/v1/{group}?{query}")
            found += page["data"]
            assert len(page["data"]) <= limit
            assert page["has_more"] == (page["next_cursor"] is not None)
            if not page["has_more"]:
                break
            assert len(page["data"]) == limit
            cursor = [("starting_after", page["next_cursor"])]
        expected = expected_items(shelf.shown[group], named)
        event(f"{len(expected)} found")
        assert [item["id"] for item in found] == [item["id"] for item in expected]
        assert found == expected

    property_()
