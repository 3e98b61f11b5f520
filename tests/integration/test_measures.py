"""What a request costs: calls and capacity, counted at the DynamoDB client (promises 3)."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import parse_qs, quote

import pytest

from shared.aws import services
from shared.calls import sessions
from shared.calls.consent import consents
from shared.core import clock
from shared.customers import commands as customer_commands
from shared.customers.resource import CUSTOMERS
from shared.resources import list_pages, queries
from shared.store import table
from shared.store.keys import Scope
from shared.tasks import wake_ups
from tests.support import rows
from tests.support.clocks import Clock
from tests.support.receivers import Receiver, answer
from tests.support.rows import _TRANSACTION
from tests.support.stage import Answer, Project, Stage
from tests.support.wire import Wire, wire

FEW = 100
MANY = int(os.environ.get("MEASURED_ROWS", "1000"))
"""Rows of the large table, ten times the small one's; filling it takes some 4 ms a row."""
RARE = 40
"""Rows that a filter by a rare value finds, the oldest ones."""
EXAMINED = 1_000
ASKED = "+12125550120"
"""The phone of a customer who is asked for consent and gives it."""
PHONE = "+15005550006"
WHEN = "2030-05-06T07:08:09Z"


# Calls


def delete_customers(scope: Scope, rows: Sequence[table.Row]) -> None:
    """Delete these customers, by the writes of a request that deletes one."""
    writes: list[table.Write] = []
    for row in rows:
        writes += customer_commands.delete(scope, CUSTOMERS.record(row)).writes
    for start in range(0, len(writes), _TRANSACTION):
        table.write(writes[start : start + _TRANSACTION])


def create_kind(stage: Stage, kind: str) -> dict[str, Any]:
    """A new resource of the kind, by the API."""
    bodies: dict[str, Callable[[], Any]] = {
        "customers": lambda: {"phone": PHONE},
        "appointments": lambda: {"customer_id": create_kind(stage, "customers")["id"], "appointment_at": WHEN},
        "webhook_endpoints": lambda: {"url": "https://example.com/hook"},
    }
    response = stage.call("POST", f"/v1/{kind}", bodies[kind]())
    assert response.status == 201, response.body
    result: dict[str, Any] = response.json
    return result


def cost(
    stage: Stage, method: str, path: str, body: Any = None, *, status: int = 200, key: str | None = None
) -> list[str]:
    """The DynamoDB calls that the request takes."""
    with wire() as line:
        response = stage.call(method, path, body, headers={"Idempotency-Key": key} if key else None)
    assert response.status == status, response.body
    return line.operations("dynamodb")


def test_a_request_pays_for_key_and_both_rate_windows_with_one_update(stage: Stage) -> None:
    for _ in range(3):
        assert cost(stage, "GET", "/v1/ping") == ["UpdateItem"]


def test_the_first_request_of_a_minute_pays_no_more_than_the_others(stage: Stage, stopped_clock: Clock) -> None:
    for _ in range(3):
        assert cost(stage, "GET", "/v1/ping") == ["UpdateItem"]
        stopped_clock.forward(60)


def test_a_key_that_cannot_exist_costs_nothing(stage: Stage) -> None:
    with wire() as line:
        assert stage.call("GET", "/v1/ping", key="sk_test_short").code == "api_key_invalid"
    assert line.calls == []


@pytest.mark.parametrize("kind", ["customers", "appointments", "webhook_endpoints"])
def test_retrieving_takes_two_calls(stage: Stage, kind: str) -> None:
    assert cost(stage, "GET", f"/v1/{kind}/{create_kind(stage, kind)['id']}") == ["UpdateItem", "GetItem"]


@pytest.mark.parametrize("kind", ["customers", "appointments"])
def test_retrieving_what_was_deleted_or_never_was_takes_three_calls(stage: Stage, kind: str) -> None:
    id = create_kind(stage, kind)["id"]
    assert stage.call("DELETE", f"/v1/{kind}/{id}").status == 200
    assert cost(stage, "GET", f"/v1/{kind}/{id}") == ["UpdateItem", "GetItem", "GetItem"]
    unknown = id[: id.index("_") + 1] + "0" * 26
    assert cost(stage, "GET", f"/v1/{kind}/{unknown}", status=404) == ["UpdateItem", "GetItem", "GetItem"]


@pytest.mark.parametrize("kind", ["customers", "appointments", "webhook_endpoints"])
def test_changing_takes_three_calls_with_and_without_an_idempotency_key(stage: Stage, kind: str) -> None:
    path = f"/v1/{kind}/{create_kind(stage, kind)['id']}"
    field = "label" if kind == "webhook_endpoints" else "external_id"
    assert cost(stage, "PATCH", path, {field: "a"}) == ["UpdateItem", "GetItem", "UpdateItem"]
    assert cost(stage, "PATCH", path, {field: "b"}, key="b") == ["UpdateItem", "GetItem", "TransactWriteItems"]


@pytest.mark.parametrize("kind", ["customers", "appointments", "webhook_endpoints"])
def test_deleting_takes_three_calls(stage: Stage, kind: str) -> None:
    calls = cost(stage, "DELETE", f"/v1/{kind}/{create_kind(stage, kind)['id']}")
    assert len(calls) == 3, calls


def test_creating_a_customer_takes_two_calls_with_and_without_an_idempotency_key(stage: Stage) -> None:
    body = {"phone": PHONE}
    for key in (None, "k"):
        assert cost(stage, "POST", "/v1/customers", body, status=201, key=key) == ["UpdateItem", "TransactWriteItems"]


def test_without_search_rows_creating_a_customer_takes_no_transaction(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEARCH", "0")
    assert cost(stage, "POST", "/v1/customers", {"phone": PHONE}, status=201) == ["UpdateItem", "PutItem"]


def test_creating_an_appointment_takes_two_calls_with_and_without_an_idempotency_key(stage: Stage) -> None:
    body = {"customer_id": create_kind(stage, "customers")["id"], "appointment_at": WHEN}
    for key in (None, "k"):
        assert cost(stage, "POST", "/v1/appointments", body, status=201, key=key) == [
            "UpdateItem",
            "TransactWriteItems",
        ]


def test_a_new_call_takes_three_calls_and_four_where_consent_is_looked_for(stage: Stage) -> None:
    expected = ["UpdateItem", "BatchGetItem", "TransactWriteItems"]
    for key in (None, "k"):
        appointment = create_kind(stage, "appointments")
        path, body = f"/v1/customers/{appointment['customer_id']}/call", {"appointment_id": appointment["id"]}
        assert cost(stage, "POST", path, body, status=201, key=key) == expected
    asked = stage.call("POST", "/v1/customers", {"phone": ASKED}).json
    with_consent = ["UpdateItem", "BatchGetItem", "GetItem", "TransactWriteItems"]
    assert cost(stage, "POST", f"/v1/customers/{asked['id']}/call", {}, status=202) == with_consent


def test_a_replay_takes_two_calls_for_a_create_and_three_for_a_patch(stage: Stage) -> None:
    customer = create_kind(stage, "customers")
    cost(stage, "POST", "/v1/customers", {"phone": PHONE}, status=201, key="create")
    assert len(cost(stage, "POST", "/v1/customers", {"phone": PHONE}, status=201, key="create")) == 2
    cost(stage, "PATCH", f"/v1/customers/{customer['id']}", {"name": "A"}, key="patch")
    assert len(cost(stage, "PATCH", f"/v1/customers/{customer['id']}", {"name": "A"}, key="patch")) == 3


@pytest.mark.parametrize("limit", [1, 20, 99, 100])
def test_a_page_of_any_size_takes_two_calls_and_three_with_a_filter_though_more_follow(
    stage: Stage, project: Project, limit: int
) -> None:
    scope = Scope(project.id, False)
    rows.write([rows.customer(scope, external_id="same") for _ in range(130)])
    assert cost(stage, "GET", f"/v1/customers?limit={limit}") == ["UpdateItem", "Query"]
    filtered = cost(stage, "GET", f"/v1/customers?limit={limit}&external_id=same")
    assert filtered == ["UpdateItem", "Query", "BatchGetItem"]


@pytest.mark.parametrize("limit", [20, 100])
def test_the_last_page_takes_two_calls_and_three_with_a_filter(stage: Stage, project: Project, limit: int) -> None:
    rows.write([rows.customer(Scope(project.id, False), external_id="same") for _ in range(limit)])
    assert cost(stage, "GET", f"/v1/customers?limit={limit}") == ["UpdateItem", "Query"]
    filtered = cost(stage, "GET", f"/v1/customers?limit={limit}&external_id=same")
    assert filtered == ["UpdateItem", "Query", "BatchGetItem"]


@pytest.mark.parametrize("query", ["status=active", "external_id=thread", "external_id=thread&status=active"])
def test_a_filtered_page_of_conversations_takes_a_query_for_each_filter_and_one_read(stage: Stage, query: str) -> None:
    conversation = stage.call("POST", "/v1/conversations", {"external_id": "thread"}).json
    queries = ["Query"] * (query.count("&") + 1)
    assert cost(stage, "GET", f"/v1/conversations?{query}") == ["UpdateItem", *queries, "BatchGetItem"]
    assert stage.call("GET", f"/v1/conversations?{query}").json["data"] == [conversation]


# Capacity


def fill_table(kind: str, scope: Scope, time: Clock, first: int, last: int) -> list[table.Row]:
    """Rows `first` to `last` of a table; alike but for the rare ones, each a second younger than the last."""
    found = []
    start = time.now
    for number in range(first, last):
        time.now = BEGINNING + number
        rare = number < RARE
        if kind == "customers":
            word = "rare" if rare else "some"
            phone = "+15005550001" if rare else "+15005550002"
            found.append(rows.customer(scope, phone=phone, email=f"{word}@example.com", external_id=word))
        elif kind == "appointments":
            given = {
                "customer_id": f"cust_{int(rare):026d}",
                "external_id": "rare" if rare else "some",
                "status": "confirmed" if rare else "pending",
                "appointment_at": clock.iso(clock.of_unix(clock.UnixSeconds(int(BEGINNING + number)))),
            }
            found.append(rows.appointment(scope, **given))
        else:
            about = {"id": f"cust_{int(rare):026d}", "object": "customer"}
            found.append(rows.event(scope, "customer.deleted" if rare else "customer.created", about))
    time.now = start
    return found


BEGINNING = 1_900_000_000.0


def time_of(number: int) -> str:
    """The time of a row."""
    return clock.iso(clock.of_unix(clock.UnixSeconds(int(BEGINNING + number))))


ONE, NONE = f"cust_{1:026d}", f"cust_{0:026d}"
_CREATED = f"created_at[gte]={time_of(5)}&created_at[lt]={time_of(35)}"
_SECONDS = f"created[gte]={int(BEGINNING) + 5}&created[lt]={int(BEGINNING) + 35}"
_TIME = f"appointment_at[gte]={time_of(5)}&appointment_at[lt]={time_of(35)}"
PAGES = {
    "customers": [
        "",
        _CREATED,
        "phone=%2B15005550001",
        "phone=%2B15005550002",
        "email=rare@example.com",
        "external_id=rare",
        "external_id=some",
        *(f"{query}&{_CREATED}" for query in ("phone=%2B15005550001", "email=rare@example.com", "external_id=rare")),
    ],
    "appointments": [
        "",
        _CREATED,
        _TIME,
        f"customer_id={ONE}",
        f"customer_id={NONE}",
        "external_id=rare",
        "status=confirmed",
        "status=pending",
        "status=pending&status=confirmed",
        *(f"{query}&{_CREATED}" for query in (f"customer_id={ONE}", "external_id=rare", "status=confirmed")),
        *(f"{query}&{_TIME}" for query in (f"customer_id={ONE}", "external_id=rare", "status=confirmed")),
    ],
    "events": [
        "",
        _SECONDS,
        "type=customer.deleted",
        "type=customer.created",
        "type=customer.*",
        f"object_id={ONE}",
        *(f"{query}&{_SECONDS}" for query in ("type=customer.deleted", "type=customer.*", f"object_id={ONE}")),
    ],
}


def page(stage: Stage, kind: str, query: str) -> tuple[int, float, list[str]]:
    """How many rows a page has, what it consumes, and its calls."""
    with wire() as line:
        response = stage.call("GET", f"/v1/{kind}?limit=20&{quote(query, safe='=&%')}")
    assert response.status == 200, response.body
    key_check = 1
    return len(response.json["data"]), line.capacity, line.operations()[key_check:]


@pytest.mark.parametrize("kind", PAGES)
def test_a_page_costs_the_same_capacity_in_a_small_and_in_a_large_table(
    stage: Stage, project: Project, stopped_clock: Clock, kind: str
) -> None:
    scope = Scope(project.id, False)
    rows.write(fill_table(kind, scope, stopped_clock, 0, FEW))
    small = {query: page(stage, kind, query) for query in PAGES[kind]}
    assert all(count == 20 for count, _, _ in small.values()), small
    rows.write(fill_table(kind, scope, stopped_clock, FEW, MANY))
    large = {query: page(stage, kind, query) for query in PAGES[kind]}
    assert large == small


# Several filters


def alternate(kind: str, scope: Scope, time: Clock, count: int) -> list[table.Row]:
    """Rows of which every other one has the one value, those between the other, and one in `BOTH` has both.

    A third value is the same in all; each row is a second younger than the last.
    """
    found = []
    for number in range(count):
        time.forward(1)
        both = number % BOTH == 0
        one, other = both or number % 2 == 0, both or number % 2 == 1
        if kind == "customers":
            given = {"external_id": "one" if one else f"own{number}", "email": "b@example.com" if other else None}
            found.append(rows.customer(scope, phone=PHONE, **given))
        elif kind == "appointments":
            given = {"customer_id": ONE if one else NONE, "status": "confirmed" if other else "pending"}
            found.append(rows.appointment(scope, external_id="same", **given))
        else:
            given = {"customer_id": ONE if one else NONE, "channel": "whatsapp" if other else "phone"}
            found.append(rows.session(scope, **given))
    return found


BOTH = 10
_SOME_DAY = "&appointment_at[gte]=2001-01-01T00:00:00Z"
TOGETHER = {
    "customers": ["external_id=one&email=b@example.com"],
    "appointments": [
        f"customer_id={ONE}&status=confirmed",
        f"customer_id={ONE}&status=confirmed&status=failed",
        f"customer_id={ONE}&status=confirmed{_SOME_DAY}",
    ],
    "sessions": [f"customer_id={ONE}&channel=whatsapp"],
}
"""Filters that rare rows have in common, though each alone finds half of them."""
MANY_TOGETHER = {"customers": 2_000, "appointments": 1_100, "sessions": 1_100}
MOST_UNITS, MOST_CALLS = 30, 16


@pytest.mark.parametrize("kind", TOGETHER)
def test_two_filters_cost_at_most_30_read_units_and_few_calls_at_any_size_and_fill_their_pages(
    stage: Stage, project: Project, stopped_clock: Clock, kind: str
) -> None:
    scope = Scope(project.id, False)
    # More than a page of them has both values, so that both pages read as many entries of the index.
    all_rows = alternate(kind, scope, stopped_clock, 550)
    rows.write(all_rows)
    small = {query: page(stage, kind, query) for query in TOGETHER[kind]}
    rows.write(more := alternate(kind, scope, stopped_clock, MANY_TOGETHER[kind] - 550))
    large = {query: page(stage, kind, query) for query in TOGETHER[kind]}
    assert large == small
    common = [row["sk"] for row in (*all_rows[::BOTH], *more[::BOTH])]
    for query, (count, units, calls) in large.items():
        assert count == 20
        assert units <= MOST_UNITS
        assert len(calls) <= MOST_CALLS
        pages = read_once(stage, f"/v1/{kind}?limit=30&{query}", common)
        assert [len(page["data"]) for page in pages[:-1]] == [30] * (len(pages) - 1)


@pytest.mark.parametrize(
    ("kind", "query"),
    [
        ("customers", "external_id=one&email=b@example.com&phone=%2B15005550006"),
        ("appointments", f"external_id=same&customer_id={ONE}&status=confirmed"),
        ("appointments", f"external_id=same&customer_id={ONE}&status=confirmed{_SOME_DAY}"),
        ("sessions", f"customer_id={ONE}&channel=whatsapp&call_status=queued"),
        ("sessions", "channel=whatsapp&call_status=queued"),
    ],
)
def test_filters_that_no_one_index_answers_find_what_their_indexes_have_in_common(
    stage: Stage, project: Project, stopped_clock: Clock, kind: str, query: str
) -> None:
    scope = Scope(project.id, False)
    rows.write(all_rows := alternate(kind, scope, stopped_clock, 1_000))
    common = [row["sk"] for number, row in enumerate(all_rows) if number % BOTH == 0]
    if kind == "sessions" and ONE not in query:
        common = [row["sk"] for number, row in enumerate(all_rows) if number % BOTH == 0 or number % 2]
    count, units, _ = page(stage, kind, query)
    assert count == 20
    assert units <= MOST_UNITS + 5
    read_once(stage, f"/v1/{kind}?limit=10&{query}", common)


@pytest.mark.parametrize(("filters", "most_reads", "most_units"), [(2, 9, 160), (3, 16, 310)])
def test_filters_that_alternate_without_a_match_read_10000_rows_in_few_reads(
    stage: Stage, project: Project, stopped_clock: Clock, filters: int, most_reads: int, most_units: int
) -> None:
    customers, query = rows.alternating(Scope(project.id, False), filters)
    rows.write(list(itertools.islice(customers, 10_000)))
    count, units, calls = page(stage, "customers", query)
    assert count == 1
    assert len(calls) <= most_reads
    assert units <= most_units


def test_a_page_without_a_row_looks_at_the_time_after_each_thousand_entries(stage: Stage, project: Project) -> None:
    scope = Scope(project.id, False)
    customers, query = rows.alternating(scope, 2)
    rows.write(list(itertools.islice(customers, 5_000)))
    with wire() as line, pytest.raises(services.Unavailable):
        list_pages.read(scope, CUSTOMERS, queries.parse(CUSTOMERS, parse_qs(query)), seconds_left=lambda window: 0)
    assert line.operations() == ["Query"] * 6


# Rows that a list does not show


def pages_of(stage: Stage, path: str) -> Iterator[tuple[Answer, Wire]]:
    """The pages of a list, each after the last item of the one before it, with the calls that each took."""
    cursor = ""
    for _ in range(500):
        with wire() as line:
            response = stage.call("GET", path + cursor)
        assert response.status == 200, response.body
        yield response, line
        if not response.json["has_more"]:
            assert response.json["next_cursor"] is None
            return
        last = response.json["data"][-1]["id"]
        assert "appointment_at" in path or response.json["next_cursor"] == last
        cursor = f"&starting_after={last}"
    raise AssertionError("the list has no end")


def read_rows(line: Wire) -> int:
    """How many rows of the base table the calls gave."""
    found = 0
    for parsed in line.answers:
        found += sum(len(part) for part in parsed.get("Responses", {}).values())
        found += sum("doc" in item for item in parsed.get("Items", []))
    return found


def read_once(stage: Stage, path: str, visible: list[str]) -> list[Any]:
    """Read all pages of the list and find exactly the visible rows, newest first; the pages."""
    pages, seen = [], []
    for found, line in pages_of(stage, path):
        assert read_rows(line) <= EXAMINED + 101
        pages.append(found.json)
        seen += [item["id"] for item in found.json["data"]]
    assert seen == visible[::-1]
    return pages


DELETED = 1_100


@pytest.mark.parametrize("kind", ["customers", "appointments"])
def test_a_list_loses_nothing_behind_many_deleted_rows_and_does_not_read_them(
    stage: Stage, project: Project, stopped_clock: Clock, kind: str
) -> None:
    # Enough of one kind for a page that reads them to find nothing else. Most are deleted without requests, for speed.
    deleted = DELETED if kind == "customers" else 40
    shown = (0, 1, deleted // 2, deleted + 2)
    scope, all_rows = Scope(project.id, False), []
    for number in range(deleted + len(shown)):
        stopped_clock.forward(0.01)
        when = clock.iso(clock.of_unix(clock.UnixSeconds(1_900_000_000 + number)))
        given = {"external_id": "same"} | ({} if kind == "customers" else {"appointment_at": when})
        all_rows.append((rows.customer if kind == "customers" else rows.appointment)(scope, **given))
    rows.write(all_rows)
    ids = [row["sk"] for row in all_rows]
    visible = [ids[number] for number in shown]
    gone = [row for row in all_rows if row["sk"] not in visible]
    for row in gone[:40]:
        stopped_clock.forward(0.02)
        assert stage.call("DELETE", f"/v1/{kind}/{row['sk']}").status == 200
    delete_customers(scope, gone[40:])
    orders = ["", "&external_id=same", *([_SOME_DAY] if kind == "appointments" else [])]
    for order in orders:
        for limit in (3, 100):
            pages = read_once(stage, f"/v1/{kind}?limit={limit}{order}", visible)
            assert [len(page["data"]) for page in pages] == ([3, 1] if limit == 3 else [4])
        # The id of a deleted row still stands where it stood.
        with wire() as line:
            response = stage.call("GET", f"/v1/{kind}?starting_after={ids[deleted // 2 + 1]}{order}")
        assert [item["id"] for item in response.json["data"]] == visible[2::-1]
        assert line.capacity <= 10


def test_a_page_that_has_found_something_ends_after_a_thousand_rows_that_are_over(
    stage: Stage, project: Project, stopped_clock: Clock
) -> None:
    _events_behind_others_that_are_over(project, stopped_clock, 2)
    first, *others = [found.json for found, _ in pages_of(stage, "/v1/events?limit=20")]
    assert (len(first["data"]), first["has_more"]) == (1, True)
    assert sum(len(page["data"]) for page in others) == 1
    assert all(page["data"] for page in others if page["has_more"])


def test_a_page_that_finds_nothing_reads_on_while_there_is_time_and_is_given_up_then(
    stage: Stage, project: Project, stopped_clock: Clock
) -> None:
    _events_behind_others_that_are_over(project, stopped_clock, 1)
    event = stage.request("GET", "/v1/events?limit=1")
    found = stage.invoke("events", event)
    assert (found["statusCode"], len(json.loads(found["body"])["data"])) == (200, 1)
    # What the function needs to answer in is all that it has left.
    found = stage.invoke("events", event, seconds=2)
    assert (found["statusCode"], json.loads(found["body"])["error"]["code"]) == (503, "service_unavailable")
    assert found["headers"]["retry-after"]


def _events_behind_others_that_are_over(project: Project, time: Clock, count: int) -> None:
    """Events: one, then 1,100 that are over though they are still there, and one more if `count` is 2."""
    scope, about = Scope(project.id, False), {"id": ONE, "object": "customer"}
    found = []
    for number in range(DELETED + count):
        time.forward(0.01)
        row = rows.event(scope, "customer.created", about)
        shown = number in (0, DELETED + 1)
        found.append(row if shown else row | {"expires_at": int(time.now)})
    rows.write(found)


def test_a_page_ends_before_four_megabytes_and_loses_nothing(
    stage: Stage, project: Project, stopped_clock: Clock
) -> None:
    scope, all_rows = Scope(project.id, False), []
    for _ in range(90):
        stopped_clock.forward(1)
        # Two bytes a character.
        about = {"id": ONE, "object": "customer", "metadata": {"a": "\u00e9" * 35_000}}
        all_rows.append(rows.event(scope, "customer.created", about))
    rows.write(all_rows)
    for query in ("", "&type=customer.created", f"&type=customer.created&object_id={ONE}"):
        seen = []
        for found, _ in pages_of(stage, f"/v1/events?limit=100{query}"):
            assert len(found.body) < 4 * 1024 * 1024
            assert found.json["data"]
            seen += [item["id"] for item in found.json["data"]]
        assert seen == [row["sk"] for row in reversed(all_rows)]


# Rights


def test_a_day_in_the_life_of_a_project_takes_no_right_that_a_function_lacks(
    stage: Stage, project: Project, stopped_clock: Clock
) -> None:
    """Every kind of request and worker once; `tests/support/privileges.py` holds what they ask against their roles."""

    def api(method: str, path: str, body: Any = None, key: str | None = None) -> Any:
        response = stage.call(method, path, body, headers={"Idempotency-Key": key} if key else None)
        assert response.status < 300, response.body
        return response.json

    with Receiver(answer(500), answer(410), answer(200)) as receiver:
        api("GET", "/v1/ping")
        endpoint = api("POST", "/v1/webhook_endpoints", {"url": receiver.url}, key="e")
        endpoint_path = f"/v1/webhook_endpoints/{endpoint['id']}"
        customer = api("POST", "/v1/customers", {"phone": PHONE}, key="c")
        stage.settle()
        # The attempt after the one that failed is answered 410, and disables the endpoint.
        stopped_clock.forward(3_600)
        stage.invoke("sweep", {})
        stage.settle()
        api("PATCH", endpoint_path, {"enabled": True})
        api("POST", f"{endpoint_path}/rotate_secret", key="r")
        api("POST", f"{endpoint_path}/test", key="t")
        stage.settle()
        event = api("GET", "/v1/events?type=customer.created")["data"][0]
        delivery = api("GET", f"/v1/events/{event['id']}/deliveries")["data"][0]
        api("POST", f"/v1/events/{event['id']}/deliveries/{delivery['id']}/retry", key="y")
        stage.settle()
        api("GET", "/v1/events")
        api("GET", "/v1/webhook_endpoints")
        body = {"customer_id": customer["id"], "appointment_at": WHEN}
        for kind, made in (("appointments", body), ("customers", {"phone": PHONE})):
            path = f"/v1/{kind}/{api('POST', f'/v1/{kind}', made)['id']}"
            for key in (None, f"{kind}-key"):
                api("PATCH", path, {"external_id": f"x{key}"}, key=key)
            api("GET", path)
            api("DELETE", path)
            api("GET", f"/v1/{kind}?external_id=x")
        api("DELETE", endpoint_path)
    asked = api("POST", "/v1/customers", {"phone": ASKED})
    about = {"customer_id": asked["id"], "appointment_at": WHEN}
    appointment = api("POST", "/v1/appointments", about)
    placed = api("POST", f"/v1/customers/{asked['id']}/call", {"appointment_id": appointment["id"]})
    scope = Scope(project.id, False)
    wake_up = wake_ups.new("consents", consents.pk(scope, ASKED), "consent").message
    for seconds in (0, 6):
        stopped_clock.forward(seconds)
        stage.nudge("consent", "consents", wake_up)
    told = sessions.wake_up(scope, placed["session_id"]).message
    for _ in range(4):
        stopped_clock.forward(2)
        stage.nudge("dial", "dials", told)
    session = api("GET", f"/v1/sessions/{placed['session_id']}")
    assert session["recording_status"] == "available"
    for part in ("transcript", "recording"):
        api("GET", f"/v1/sessions/{session['id']}/{part}")
    api("GET", f"/v1/sessions?customer_id={asked['id']}")
    api("POST", f"/v1/customers/{asked['id']}/call", {}, key="again")
    api("DELETE", f"/v1/customers/{asked['id']}")
