"""Clients that read a list by `appointment_at` while its appointments are rescheduled (promises 3, "Lists")."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from shared.core import ids
from shared.store.keys import Scope
from tests.support import rows
from tests.support.clocks import Clock
from tests.support.properties import fixed_examples
from tests.support.stage import Answer, Project, Stage

TIMES = [f"2032-03-{day:02d}T09:00:00.000Z" for day in range(1, 28)]
HOUR = 3600
MANY = 30


class Diary:
    """The appointments of a new customer, and a client of their list by time. A second passes at each request."""

    def __init__(self, stage: Stage, project: Project, time: Clock, days: list[int]) -> None:
        self._stage, self.time = stage, time
        customer_id = ids.new("cust_")
        self._path = f"/v1/appointments?customer_id={customer_id}&appointment_at[gte]={TIMES[0]}"
        made = []
        for day in days:
            time.forward(1)
            made.append(
                rows.appointment(Scope(project.id, False), customer_id=customer_id, appointment_at=TIMES[day - 1])
            )
        rows.write(made)
        self.ids = [str(row["sk"]) for row in made]

    def page(self, limit: int, cursor: str | None) -> Any:
        answer = self._call("GET", f"{self._path}&limit={limit}" + (f"&starting_after={cursor}" if cursor else ""))
        assert answer.status == 200, answer.body
        found = [(item["appointment_at"], item["id"]) for item in answer.json["data"]]
        assert found == sorted(found, reverse=True)
        assert len(found) <= limit
        assert found or not answer.json["has_more"]
        return answer.json

    def after(self, id: str) -> list[str]:
        return [item["id"] for item in self.page(100, id)["data"]]

    def move(self, id: str, day: int) -> None:
        answer = self._call("PATCH", f"/v1/appointments/{id}", {"appointment_at": TIMES[day - 1]})
        assert answer.status == 200, answer.body

    def delete(self, id: str) -> None:
        assert self._call("DELETE", f"/v1/appointments/{id}").status == 200

    def start_after(self, id: str) -> Answer:
        return self._call("GET", f"{self._path}&starting_after={id}")

    def _call(self, method: str, path: str, body: Any = None) -> Answer:
        self.time.forward(1)
        return self._stage.call(method, path, body)


def pages(diary: Diary, limit: int, cursor_of: Any) -> Any:
    """Read page after page. After more pages than the list has rows, much time passes before each page."""
    cursor = None
    for number in itertools.count(1):
        page = diary.page(limit, cursor)
        yield page["data"]
        if not page["has_more"]:
            return
        cursor = cursor_of(page)
        if number >= MANY:
            diary.time.forward(2 * HOUR)
        assert number < 2 * MANY, "the list has no end"


def last_id(page: Any) -> str:
    return str(page["data"][-1]["id"])


def next_cursor(page: Any) -> str:
    return str(page["next_cursor"])


def test_no_appointment_is_left_out_after_an_id_whose_appointment_is_moved_to_an_earlier_time(
    stage: Stage, project: Project, stopped_clock: Clock
) -> None:
    diary = Diary(stage, project, stopped_clock, [19, 18, 17, 16, 15, 14, 13, 12, 11])
    found = []
    for number, page in enumerate(pages(diary, 3, last_id)):
        found += [item["id"] for item in page]
        if number == 0:
            diary.move(found[-1], 2)

    assert found == [*diary.ids, diary.ids[2]]


@pytest.mark.parametrize("limit", [2, 3, 4])
def test_a_client_that_sends_ids_reaches_the_end_although_a_page_could_end_with_a_moved_appointment(
    stage: Stage, project: Project, stopped_clock: Clock, limit: int
) -> None:
    for day in range(1, 20):
        diary = Diary(stage, project, stopped_clock, [19, 17, 15, 13, 11, 9, 7, 5, 3])
        diary.move(diary.ids[0], day)
        read = list(pages(diary, limit, last_id))

        assert sorted(item["id"] for page in read for item in page) == sorted(diary.ids)
        assert len(read) < MANY


def test_an_id_continues_from_the_latest_time_of_the_last_hour(
    stage: Stage, project: Project, stopped_clock: Clock
) -> None:
    diary = Diary(stage, project, stopped_clock, [20, 18, 16, 14, 12])
    moved, rest = diary.ids[0], diary.ids[1:]
    diary.move(moved, 15)
    diary.move(moved, 17)
    diary.move(moved, 13)
    assert diary.after(moved) == [*rest[:3], moved, rest[3]]

    stopped_clock.forward(HOUR - 10)
    assert diary.after(moved) == [*rest[:3], moved, rest[3]]
    # An hour after the last move, only the present time counts.
    stopped_clock.forward(20)
    assert diary.after(moved) == rest[3:]
    # Times that counted once do not count again.
    diary.move(moved, 11)
    assert diary.after(moved) == [rest[3], moved]


def test_an_id_continues_from_a_time_to_which_its_appointment_was_moved(
    stage: Stage, project: Project, stopped_clock: Clock
) -> None:
    diary = Diary(stage, project, stopped_clock, [16, 14, 12])
    moved, rest = diary.ids[0], diary.ids[1:]
    diary.move(moved, 11)
    diary.move(moved, 18)
    assert diary.after(moved) == rest
    diary.move(moved, 13)
    assert diary.after(moved) == [rest[0], moved, rest[1]]


def test_the_id_of_a_deleted_appointment_continues_from_the_latest_time_of_the_last_hour(
    stage: Stage, project: Project, stopped_clock: Clock
) -> None:
    diary = Diary(stage, project, stopped_clock, [16, 14, 12])
    moved, rest = diary.ids[0], diary.ids[1:]
    diary.move(moved, 13)
    diary.delete(moved)
    assert diary.after(moved) == rest
    stopped_clock.forward(HOUR)
    assert diary.after(moved) == rest[1:]


def test_an_id_without_an_appointment_is_no_cursor_of_a_list_by_time(
    stage: Stage, project: Project, stopped_clock: Clock
) -> None:
    diary = Diary(stage, project, stopped_clock, [16])
    other = rows.appointment(Scope(project.id, True))
    rows.write([other])
    for id in (ids.new("appt_"), "appt_" + "0" * 26, "appt_" + "7" + "z" * 25, other["sk"]):
        refused = diary.start_after(id)
        assert (refused.status, refused.code) == (400, "cursor_invalid")


def test_what_is_known_of_earlier_times_is_not_in_the_appointment_nor_in_events(
    stage: Stage, project: Project, stopped_clock: Clock
) -> None:
    customer = stage.call("POST", "/v1/customers", {"phone": "+15005550006"}).json
    body = {"customer_id": customer["id"], "appointment_at": TIMES[9]}
    made = stage.call("POST", "/v1/appointments", body).json
    path = f"/v1/appointments/{made['id']}"
    moved = stage.call("PATCH", path, {"appointment_at": TIMES[3]}).json
    assert moved.keys() == made.keys()
    assert stage.call("GET", path).json == moved
    stage.fan_out()
    happened = stage.call("GET", f"/v1/events?object_id={made['id']}").json["data"]
    assert [one["type"] for one in happened] == ["appointment.rescheduled", "appointment.created"]
    assert happened[0]["data"] == {
        "object": moved,
        "previous_attributes": {"appointment_at": TIMES[9], "status": "pending"},
    }


CHANGES = st.lists(
    st.one_of(
        # Which appointment: by its number, or the one that the client sends next.
        st.tuples(st.just("move"), st.none() | st.integers(0, 8), st.integers(1, 27)),
        st.tuples(st.just("delete"), st.none() | st.integers(0, 8)),
        st.tuples(st.just("wait"), st.sampled_from([60, HOUR // 4])),
    ),
    max_size=3,
)


@pytest.mark.parametrize("cursor_of", [last_id, next_cursor])
def test_appointments_that_stay_are_never_left_out_while_others_are_rescheduled(
    stage: Stage, project: Project, stopped_clock: Clock, cursor_of: Any
) -> None:
    @fixed_examples(60)
    @given(
        st.lists(st.integers(1, 27), min_size=5, max_size=9), st.integers(1, 4), CHANGES, st.lists(CHANGES, max_size=6)
    )
    def property_(days: list[int], limit: int, before: Any, during: Any) -> None:
        stopped_clock.forward(2 * HOUR)
        diary = Diary(stage, project, stopped_clock, days)
        changed, deleted, moved = set[str](), set[str](), set[str]()

        def carry_out(these: Any, last: str) -> None:
            for kind, *values in these:
                if kind == "wait":
                    stopped_clock.forward(values[0])
                    continue
                id = last if values[0] is None else diary.ids[values[0] % len(diary.ids)]
                if id in deleted:
                    continue
                changed.add(id)
                if kind == "move":
                    diary.move(id, values[1])
                    moved.add(id)
                else:
                    diary.delete(id)
                    deleted.add(id)

        carry_out(before, diary.ids[0])
        # What was moved before the first page stays from then on.
        changed &= deleted
        found, count, meanwhile = [], 0, iter(during)
        for page in pages(diary, limit, cursor_of):
            found += [item["id"] for item in page]
            count += 1
            carry_out(next(meanwhile, ()), found[-1] if found else diary.ids[0])
        stayed, few = set(diary.ids) - changed, len(moved) < limit
        event(f"few: {few}, all once: {len(found) == len(set(found))}, all stayed: {not changed}")
        assert stayed <= set(found)
        assert count < MANY or not few
        if cursor_of is next_cursor:
            assert count < MANY
            assert all(found.count(id) == 1 for id in stayed)

    property_()
