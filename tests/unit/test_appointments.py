from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

import pytest

from shared.appointments import commands as appointment_commands
from shared.appointments.resource import AppointmentCreate, AppointmentPatch
from shared.core import clock
from shared.core.errors import ApiError
from shared.store.keys import Scope

NOW = 1_790_000_000.0
STATUSES = ("pending", "confirmed", "rescheduled", "cancelled", "failed")
TIME, NEW_TIME = "2027-01-01T00:00:00.000Z", "2027-01-02T00:00:00.000Z"
REASON_OF = {"cancelled": "cancellation_reason", "failed": "failure_reason"}

# Promises 6, without a new time: "=" is the no-op 200, a number the error's HTTP status.
TRANSITIONS = """
    from         pending confirmed rescheduled cancelled failed
    pending      =       yes       400         yes       yes
    confirmed    409     =         400         yes       yes
    rescheduled  409     yes       400         yes       yes
    failed       409     yes       400         yes       =
    cancelled    409     409       400         =         409
"""
# With a new time, by the status in the same patch: what the status becomes, or the error's HTTP status.
MOVES = """
    from         -           pending     confirmed  rescheduled  cancelled failed
    pending      rescheduled rescheduled confirmed  rescheduled  400       400
    confirmed    rescheduled 409         confirmed  rescheduled  400       400
    rescheduled  rescheduled 409         confirmed  rescheduled  400       400
    failed       rescheduled 409         confirmed  rescheduled  400       400
    cancelled    409         409         409        409          400       400
"""


def cells(table: str) -> list[tuple[str, str, str]]:
    header, *lines = (line.split() for line in table.strip().splitlines())
    return [(line[0], to, cell) for line in lines for to, cell in zip(header[1:], line[1:], strict=True)]


@pytest.fixture(autouse=True)
def _stopped_clock() -> Iterator[None]:
    clock.use(lambda: NOW, lambda seconds: None)
    yield
    clock.use(time.time, time.sleep)


def appointment(status: str = "pending", **fields: Any) -> Any:
    given: dict[str, Any] = {"customer_id": "cust_1", "status": status, "appointment_at": TIME, "metadata": {"a": 1}}
    made = appointment_commands.new(Scope(1, False), AppointmentCreate.model_construct(**given))
    before = {"created_at": "2026-01-01T00:00:00.000Z", "updated_at": "2026-01-01T00:00:00.000Z"}
    reason = {REASON_OF[status]: "because"} if status in REASON_OF else {}
    return {**made, **before, **reason, **fields}


def apply_patch(before: Any, patch: dict[str, Any]) -> Any:
    """The appointment after a patch that changes it."""
    after = appointment_commands.apply(before, AppointmentPatch.model_validate(patch))
    assert after is not before
    return after


def refusal(before: Any, patch: dict[str, Any]) -> ApiError:
    with pytest.raises(ApiError) as caught:
        appointment_commands.apply(before, AppointmentPatch.model_validate(patch))
    return caught.value


@pytest.mark.parametrize(("status", "asked", "cell"), cells(TRANSITIONS))
def test_a_status_changes_by_the_promised_table(status: str, asked: str, cell: str) -> None:
    before, patch = appointment(status), {"status": asked}
    if cell.isdigit():
        error = refusal(before, patch)
        assert error.status == int(cell)
        assert error.code == ("invalid_status_transition" if cell == "409" else "parameter_missing")
        return
    after = appointment_commands.apply(before, AppointmentPatch.model_validate(patch))

    if cell == "=":
        assert after is before
    else:
        assert after["status"] == asked
        assert after["updated_at"] == clock.iso(clock.Instant(NOW * 1000))


@pytest.mark.parametrize(("status", "asked", "cell"), cells(MOVES))
def test_a_new_time_reschedules_unless_the_same_patch_confirms(status: str, asked: str, cell: str) -> None:
    before = appointment(status)
    patch = {"appointment_at": NEW_TIME} | ({} if asked == "-" else {"status": asked})
    if cell.isdigit():
        error = refusal(before, patch)
        assert error.status == int(cell)
        assert error.code == ("invalid_status_transition" if cell == "409" else "parameters_exclusive")
        return
    after = apply_patch(before, patch)

    assert (after["status"], after["appointment_at"]) == (cell, NEW_TIME)


@pytest.mark.parametrize("status", STATUSES)
def test_the_time_that_it_has_already_is_no_new_time(status: str) -> None:
    before = appointment(status)

    assert appointment_commands.apply(before, AppointmentPatch.model_validate({"appointment_at": TIME})) is before
    assert refusal(before, {"appointment_at": TIME, "status": "rescheduled"}).status == 400


@pytest.mark.parametrize("asked", ["cancelled", "failed"])
def test_the_time_that_it_has_already_does_not_get_in_the_way_of_an_ending(asked: str) -> None:
    # "A *new* time together with `cancelled` or `failed`" is refused; one that was read and sent back is not new.
    assert apply_patch(appointment(), {"appointment_at": TIME, "status": asked})["status"] == asked


@pytest.mark.parametrize(
    ("status", "reason", "asked"),
    list(itertools.product(STATUSES, REASON_OF.values(), [None, *STATUSES])),
)
def test_a_reason_goes_only_with_its_status(status: str, reason: str, asked: str | None) -> None:
    before, becomes = appointment(status), asked or status
    patch = {reason: "new reason"} | ({"status": asked} if asked else {})
    if REASON_OF.get(becomes) == reason and (status, asked) != ("cancelled", "failed"):
        after = apply_patch(before, patch)
        assert (after["status"], after[reason]) == (becomes, "new reason")
    else:
        assert refusal(before, patch).status in (400, 409)


@pytest.mark.parametrize("reason", [*REASON_OF.values()])
def test_a_reason_without_its_status_is_the_reason_s_error(reason: str) -> None:
    error = refusal(appointment(), {reason: "because"})

    assert (error.code, error.param) == ("parameters_exclusive", reason)


@pytest.mark.parametrize("asked", ["confirmed", "rescheduled", "cancelled"])
def test_a_reason_is_gone_once_its_status_is(asked: str) -> None:
    patch = {"status": asked} | ({"appointment_at": NEW_TIME} if asked == "rescheduled" else {})
    after = apply_patch(appointment("failed"), patch)

    assert after["failure_reason"] is None


@pytest.mark.parametrize(("status", "reason"), list(itertools.product(STATUSES, REASON_OF.values())))
def test_a_reason_may_always_be_null(status: str, reason: str) -> None:
    # Null where nothing is set changes nothing.
    after = appointment_commands.apply(appointment(status), AppointmentPatch.model_validate({reason: None}))

    assert after[reason] is None  # type: ignore[literal-required]


@pytest.mark.parametrize("status", STATUSES)
def test_other_fields_change_in_every_status_and_leave_it_as_it_is(status: str) -> None:
    before = appointment(status)
    after = appointment_commands.apply(
        before, AppointmentPatch(title="Visit", metadata={"b": [1.0]}, duration_minutes=30)
    )

    new = {"title": "Visit", "metadata": {"a": 1, "b": [1.0]}, "duration_minutes": 30}
    assert after == before | new | {"updated_at": clock.iso(clock.Instant(NOW * 1000))}


@pytest.mark.parametrize(
    "patch",
    [{}, {"title": None}, {"metadata": {}}, {"metadata": {"a": 1}}, {"metadata": {"b": None}}, {"status": "pending"}],
)
def test_a_patch_that_changes_nothing_gives_the_very_same_appointment(patch: dict[str, Any]) -> None:
    before = appointment()

    assert appointment_commands.apply(before, AppointmentPatch.model_validate(patch)) is before


def test_a_value_of_another_type_is_a_change() -> None:
    after = apply_patch(appointment(), {"metadata": {"a": True}})

    assert after["metadata"]["a"] is True


def test_a_clock_that_was_set_back_does_not_take_the_appointment_back_in_time() -> None:
    before = appointment(updated_at="2099-01-01T00:00:00.000Z")

    assert apply_patch(before, {"title": "x"})["updated_at"] == "2099-01-01T00:00:00.000Z"


@pytest.mark.parametrize("patch", [{}, {"title": "x"}, {"status": "cancelled"}, {"appointment_at": NEW_TIME}])
def test_a_deleted_appointment_takes_no_patch(patch: dict[str, Any]) -> None:
    error = refusal(appointment(deleted_at=TIME), patch)

    assert (error.code, error.status) == ("appointment_deleted", 409)


def test_what_is_patched_is_a_copy() -> None:
    before = appointment()
    kept = {**before, "metadata": dict(before["metadata"])}
    apply_patch(before, {"metadata": {"a": None}, "status": "cancelled", "cancellation_reason": "x"})

    assert before == kept
