from __future__ import annotations

import base64
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra import topology
from shared.appointments import resource as appointments
from shared.calls import sessions
from shared.conversations import resource as conversations
from shared.core import clock, ids
from shared.core.errors import ApiError
from shared.customers import resource as customers
from shared.resources import list_pages, queries
from shared.resources.collections import Collection
from shared.store.keys import Scope
from shared.webhooks import events
from shared.webhooks.endpoints import resource as endpoints

SCOPE = Scope(1, False)
ULID = "01h00000000000000000000000"
INSTANTS = st.integers(0, 4_000_000_000_000).map(clock.Instant)
WORDS = ("gt", "gte", "lt", "lte")


def limit(text: str) -> int:
    return queries.parse(customers.CUSTOMERS, {"limit": [text]}).limit


def refusal(listed: Collection[Any, Any], **given: list[str]) -> tuple[str, str | None]:
    with pytest.raises(ApiError) as caught:
        list_pages.read(SCOPE, listed, queries.parse(listed, given))
    return caught.value.code, caught.value.param


@given(st.integers(-(10**30), 10**30), st.sampled_from(["", "+"]))
def test_any_integer_is_a_limit_and_is_clamped(number: int, sign: str) -> None:
    assert limit(str(number) if number < 0 else f"{sign}{number}") == max(1, min(100, number))


@pytest.mark.parametrize("text", ["007", "0000000005", "-0000000000005"])
def test_leading_zeros_do_not_change_a_limit(text: str) -> None:
    assert limit(text) == max(1, int(text))


@pytest.mark.parametrize(
    "text", ["", " ", "ten", "1.0", "1e2", "0x10", "5,000", "1_0", "--5", "\u0665", "NaN", "5\0", "null", "true"]
)
def test_what_is_no_integer_is_no_limit(text: str) -> None:
    assert refusal(customers.CUSTOMERS, limit=[text]) == ("parameter_invalid_integer", "limit")


def test_the_default_is_20() -> None:
    assert queries.parse(customers.CUSTOMERS, {}).limit == 20


@pytest.mark.parametrize(
    "listed",
    [customers.CUSTOMERS, appointments.APPOINTMENTS, events.EVENTS, endpoints.WEBHOOK_ENDPOINTS],
    ids=lambda one: one.kind,
)
@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "x",
        ULID,
        "req_" + ULID,
        "{}" + ULID.upper(),
        "{}" + ULID[1:],
        "{}" + ULID + "0",
        " {}" + ULID,
        "{}8" + "0" * 25,
    ],
)
def test_a_cursor_is_an_id_of_the_list_s_own_type(listed: Collection[Any, Any], cursor: str) -> None:
    written = cursor.replace("{}", listed.prefix)

    assert refusal(listed, starting_after=[written]) == ("cursor_invalid", "starting_after")


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "====",
        "\u00e4",
        "cust_" + ULID,
        base64.urlsafe_b64encode(b"").decode(),
        base64.urlsafe_b64encode(b"\xff\xfe#x").decode(),
        base64.urlsafe_b64encode(f"2027-01-01T00:00:00.000Z#cust_{ULID}".encode()).decode(),
        base64.urlsafe_b64encode(b"2027-01-01T00:00:00.000Z").decode(),
        base64.urlsafe_b64encode(f"tomorrow#appt_{ULID}".encode()).decode(),
        base64.urlsafe_b64encode(f"#appt_{ULID}".encode()).decode(),
    ],
)
def test_a_cursor_of_a_list_by_time_that_nobody_gave_out_is_refused(cursor: str) -> None:
    given = {"appointment_at[gte]": ["2027-01-01T00:00:00Z"], "starting_after": [cursor]}

    assert refusal(appointments.APPOINTMENTS, **given) == ("cursor_invalid", "starting_after")


def test_a_cursor_of_a_list_by_time_is_none_of_a_list_by_id() -> None:
    cursor = base64.urlsafe_b64encode(f"2027-01-01T00:00:00.000Z#appt_{ULID}".encode()).decode()

    assert refusal(appointments.APPOINTMENTS, starting_after=[cursor]) == ("cursor_invalid", "starting_after")


@pytest.mark.parametrize(
    ("listed", "name", "texts"),
    [
        (customers.CUSTOMERS, "limit", ["1", "1"]),
        (customers.CUSTOMERS, "starting_after", [f"cust_{ULID}"] * 2),
        (customers.CUSTOMERS, "phone", ["+15005550006"] * 2),
        (customers.CUSTOMERS, "created_at[gt]", ["2027-01-01T00:00:00Z"] * 2),
        (appointments.APPOINTMENTS, "customer_id", [f"cust_{ULID}"] * 2),
        (events.EVENTS, "type", ["customer.*"] * 2),
    ],
)
def test_a_parameter_that_takes_one_value_is_given_once(
    listed: Collection[Any, Any], name: str, texts: list[str]
) -> None:
    assert refusal(listed, **{name: texts}) == ("parameter_invalid", name)


@pytest.mark.parametrize(
    ("listed", "name", "text", "code"),
    [
        (customers.CUSTOMERS, "phone", "5005550006", "phone_invalid_format"),
        (appointments.APPOINTMENTS, "status", "late", "parameter_invalid"),
        (appointments.APPOINTMENTS, "status", "", "parameter_invalid"),
        (events.EVENTS, "type", "appointment.", "parameter_invalid"),
        (events.EVENTS, "type", "message.*", "parameter_invalid"),
        (customers.CUSTOMERS, "created_at[gt]", "2027-01-01T00:00:00", "datetime_invalid"),
        (appointments.APPOINTMENTS, "appointment_at[lte]", "", "datetime_invalid"),
        (events.EVENTS, "created[gte]", "1.5", "parameter_invalid_integer"),
        (events.EVENTS, "created[gte]", "2027-01-01T00:00:00Z", "parameter_invalid_integer"),
    ],
)
def test_a_filter_takes_values_of_its_kind(listed: Collection[Any, Any], name: str, text: str, code: str) -> None:
    assert refusal(listed, **{name: [text]}) == (code, name)


def test_a_status_may_be_repeated_and_one_given_twice_counts_once() -> None:
    query = queries.parse(appointments.APPOINTMENTS, {"status": ["failed", "pending", "failed"]})

    assert query.filters == {"status": ("failed", "pending")}


def test_a_plus_that_arrives_as_a_space_is_understood() -> None:
    phone = queries.parse(customers.CUSTOMERS, {"phone": [" 15005550006"]})
    spaced = queries.parse(customers.CUSTOMERS, {"phone": [" +1 500 555 0006"]})
    range_ = queries.parse(appointments.APPOINTMENTS, {"appointment_at[gte]": ["2027-01-01T02:00:00 02:00"]})

    assert phone.filters == spaced.filters == {"phone": ("+15005550006",)}
    assert range_.min_time == "2027-01-01T00:00:00.000Z"


@given(INSTANTS, st.sampled_from(WORDS), st.integers(-2, 2))
def test_a_range_of_creation_takes_exactly_the_ids_made_within_it(bound: clock.Instant, word: str, beside: int) -> None:
    made = max(clock.EPOCH, bound + beside)
    query = queries.parse(customers.CUSTOMERS, {f"created_at[{word}]": [clock.iso(bound)]})

    assert is_within(query, ids.new("cust_", made)) == compare(made, word, bound)


@given(st.integers(0, 4_000_000_000), st.sampled_from(WORDS), st.integers(-2000, 2000))
def test_a_range_of_events_counts_whole_seconds(bound: clock.UnixSeconds, word: str, beside: int) -> None:
    made = max(clock.EPOCH, clock.of_unix(bound) + beside)
    query = queries.parse(events.EVENTS, {f"created[{word}]": [str(bound)]})

    assert is_within(query, ids.new("evt_", made)) == compare(clock.to_unix(made), word, bound)


def test_a_range_of_events_takes_any_integer() -> None:
    first, last = ids.new("evt_", clock.EPOCH), ids.new("evt_", clock.Instant(4_000_000_000_000))

    assert not is_within(queries.parse(events.EVENTS, {"created[gt]": ["9" * 5000]}), last)
    assert is_within(queries.parse(events.EVENTS, {"created[gt]": ["-" + "9" * 5000]}), first)
    assert is_within(queries.parse(events.EVENTS, {"created[lte]": ["9" * 5000]}), last)


@given(INSTANTS, INSTANTS, INSTANTS)
def test_two_bounds_both_hold(least: clock.Instant, most: clock.Instant, made: clock.Instant) -> None:
    given = {"created_at[gte]": [clock.iso(least)], "created_at[lt]": [clock.iso(most)]}

    assert is_within(queries.parse(customers.CUSTOMERS, given), ids.new("cust_", made)) == (least <= made < most)


@given(INSTANTS, st.sampled_from(WORDS), st.integers(-2, 2))
def test_a_range_of_appointment_times_takes_exactly_the_times_within_it(
    bound: clock.Instant, word: str, beside: int
) -> None:
    at = max(clock.EPOCH, bound + beside)
    query = queries.parse(appointments.APPOINTMENTS, {f"appointment_at[{word}]": [clock.iso(bound)]})
    sort_time = f"{clock.iso(at)}#{ids.new('appt_', at)}"
    found = (query.min_time is None or sort_time >= query.min_time) and (
        query.max_time is None or sort_time <= query.max_time
    )

    assert found == compare(at, word, bound)
    assert query.by_time


def is_within(query: queries.Query, id: str) -> bool:
    return (query.min_id is None or id >= query.min_id) and (query.max_id is None or id <= query.max_id)


def compare(value: int, word: str, bound: int) -> bool:
    return {"gt": value > bound, "gte": value >= bound, "lt": value < bound, "lte": value <= bound}[word]


def test_each_list_takes_the_parameters_that_are_promised() -> None:
    def parameter_names(listed: Collection[Any, Any]) -> list[str]:
        return sorted({re.sub(r"\[.*", "[]", name) for name in queries.parameters(listed)})

    paging = ["limit", "starting_after"]
    assert parameter_names(customers.CUSTOMERS) == sorted(["created_at[]", "email", "external_id", "phone", *paging])
    assert parameter_names(appointments.APPOINTMENTS) == sorted(
        ["appointment_at[]", "created_at[]", "customer_id", "external_id", "session_id", "status", *paging]
    )
    assert parameter_names(events.EVENTS) == sorted(["created[]", "object_id", "type", *paging])
    assert parameter_names(endpoints.WEBHOOK_ENDPOINTS) == paging


def test_a_row_is_in_the_indexes_of_the_fields_that_it_has() -> None:
    doc = {"id": f"appt_{ULID}", "customer_id": "cust_1", "status": "pending", "appointment_at": "x"}
    found = appointments.APPOINTMENTS.indexes.attributes(SCOPE, "appointment", doc)

    assert {name for name, value in found.items() if value} == {"f3", "f4", "t0", "t3", "t4", "sort_time"}
    assert {name for name, value in found.items() if not value} == {"f1", "f2", "t1", "t2"}


@pytest.mark.parametrize(
    "listed",
    [customers.CUSTOMERS, appointments.APPOINTMENTS, sessions.SESSIONS, conversations.CONVERSATIONS, events.EVENTS],
    ids=lambda one: one.kind,
)
def test_every_index_of_a_list_is_one_of_the_table(listed: Collection[Any, Any]) -> None:
    indexes = {index.hash_key for index in topology.TABLE.indexes}

    count = len(listed.indexes.fields)

    assert {f"f{number + 1}" for number in range(count)} <= indexes
    assert not listed.indexes.time_field or {f"t{number}" for number in range(count + 1)} <= indexes


def test_values_that_are_alike_only_to_python_do_not_share_an_index_partition() -> None:
    indexes = customers.CUSTOMERS.indexes
    one, other = (indexes.attributes(SCOPE, "customer", {"external_id": text}) for text in ("1", "1 "))

    assert one["f1"] != other["f1"]
