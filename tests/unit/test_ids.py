from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core import clock, ids

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's, in lower case
INSTANTS = st.integers(0, 2**48 - 1).map(clock.Instant)
TAILS = st.text(ALPHABET, min_size=25, max_size=25)


def number(id: str) -> int:
    """The 128 bits of an id's last 26 characters."""
    value = 0
    for character in id[-26:]:
        value = value * 32 + ALPHABET.index(character)
    return value


@given(INSTANTS)
def test_a_new_id_is_its_prefix_and_a_lower_case_ulid_of_its_instant(instant: clock.Instant) -> None:
    id = ids.new("cust_", instant)

    assert re.fullmatch(f"cust_[0-7][{ALPHABET}]{{25}}", id)
    assert ids.is_id("cust_", id)
    assert number(id) >> 80 == ids.created_at("cust_", id) == instant


@given(INSTANTS, INSTANTS)
def test_ids_sort_by_the_time_of_their_making(one: clock.Instant, other: clock.Instant) -> None:
    if one != other:
        assert (ids.new("appt_", one) < ids.new("appt_", other)) == (one < other)


def test_ids_of_one_instant_differ() -> None:
    assert len({ids.new("req_", clock.Instant(1_790_000_000_000)) for _ in range(1000)}) == 1000


@pytest.mark.parametrize(
    "value",
    [
        "",
        "cust_",
        "01h00000000000000000000000",
        "appt_01h00000000000000000000000",
        "cust_01H00000000000000000000000",
        "CUST_01h00000000000000000000000",
        "cust_01h0000000000000000000000",
        "cust_01h000000000000000000000000",
        "cust_81h00000000000000000000000"[:31],
        "cust_0ih00000000000000000000000",
        "cust_0lh00000000000000000000000",
        "cust_0oh00000000000000000000000",
        "cust_0uh00000000000000000000000",
        "cust_01h00000000000000000000000\n",
        " cust_01h0000000000000000000000",
        "cust_\u0660" + "0" * 25,
    ],
)
def test_what_is_not_an_id_of_the_type_is_told_apart(value: str) -> None:
    assert not ids.is_id("cust_", value)


@given(TAILS, st.sampled_from("01234567"))
def test_the_id_before_is_the_very_next_lower_one(tail: str, head: str) -> None:
    id = f"evt_{head}{tail}"
    before = ids.before("evt_", id)

    assert ids.is_id("evt_", before)
    assert number(before) == max(number(id) - 1, 0)


@given(st.integers(1, 2**48 - 1))
def test_the_first_id_of_an_instant_parts_it_from_the_instant_before(instant: clock.Instant) -> None:
    first = ids.first_of("whd_", instant)

    assert ids.new("whd_", instant - 1) < first <= ids.new("whd_", instant)
    assert ids.created_at("whd_", ids.before("whd_", first)) == instant - 1


@given(INSTANTS, st.text(max_size=20), st.integers(0, 1000))
def test_a_derived_id_follows_from_its_arguments_alone(instant: clock.Instant, part: str, version: int) -> None:
    id = ids.deterministic("evt_", instant, part, version, order=version)

    assert id == ids.deterministic("evt_", instant, part, version, order=version)
    assert ids.is_id("evt_", id)
    assert ids.created_at("evt_", id) == instant
    assert id != ids.deterministic("evt_", instant, part, version + 1, order=version)


@given(INSTANTS, st.text(max_size=20), st.integers(0, 0xFFFE))
def test_of_two_derived_ids_of_one_instant_the_greater_order_sorts_later(
    instant: clock.Instant, part: str, order: int
) -> None:
    assert ids.deterministic("evt_", instant, part, order=order) < ids.deterministic(
        "evt_", instant, "x", order=order + 1
    )


def test_an_order_beyond_what_an_id_can_hold_still_gives_an_id() -> None:
    assert ids.is_id("evt_", ids.deterministic("evt_", clock.EPOCH, "x", order=2**40))


@pytest.mark.parametrize(("instant", "kept"), [(-1, 0), (-(2**60), 0), (2**48, 2**48 - 1), (2**60, 2**48 - 1)])
def test_an_instant_that_no_id_can_hold_is_the_nearest_one(instant: clock.Instant, kept: int) -> None:
    assert ids.created_at("cust_", ids.first_of("cust_", instant)) == kept
