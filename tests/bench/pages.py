"""Admin pages of a project with 10,000 rows of a kind: the time of a page, beside that of one list of the API.

Both are requests to the handlers in this process, on DynamoDB Local, and take turns. The list is one of the same rows,
or of events where the API has none, of which there are as many. It returns as many as the page shows, or reads for its
chart, and has a filter if the page reads by an index.
"""

from __future__ import annotations

import asyncio
import gc
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shared.core import clock
from tests.bench.samples import Figure, Goal

if TYPE_CHECKING:
    from shared.store import table
    from shared.store.keys import Scope
    from tests.support.admin_client import Shown
    from tests.support.stage import Answer, Project, Stage

ROWS = 10_000
EVERY_MS = 8_000
"""The time between two rows: all are of the last day."""
FAILED = 500
"""One delivery, and one request, in so many has failed."""
WARM = 20
"""The rounds before the measured ones, in which DynamoDB Local compiles what the page needs."""
GOAL = Goal(3, "lists")
LIST, FILTERED_LIST = "/v1/events?limit=50", "/v1/events?type=customer.created&limit=50"
LONGEST_LIST = "/v1/events?type=customer.created&limit=100"
PAGES = {
    "Today": ("", "/v1/appointments?limit=100&appointment_at[gte]={today}&appointment_at[lte]={tomorrow}"),
    "Waiting": ("/waiting", "/v1/conversations?waiting=true&limit=50"),
    "Customers": ("/customers", "/v1/customers?limit=50"),
    "A customer, with the timeline": ("/customers/{customer}", FILTERED_LIST),
    "People found by a word of the name": ("/find?q=lovelace", "/v1/events?type=customer.created&limit=20"),
    "Webhook endpoint, with its chart": ("/webhook_endpoints/{endpoint}", LONGEST_LIST),
    "Deliveries": ("/webhook_endpoints/{endpoint}/deliveries", FILTERED_LIST),
    "Deliveries that have failed": ("/webhook_endpoints/{endpoint}/deliveries?status=failed", FILTERED_LIST),
    "Deliveries of a type": ("/webhook_endpoints/{endpoint}/deliveries?type=customer.created", FILTERED_LIST),
    "Requests": ("/requests", LIST),
    "Requests that were refused": ("/requests?status=errors", FILTERED_LIST),
    "Requests of a key": ("/requests?key={key}", FILTERED_LIST),
    "Audit trail": ("/audit_trail", LIST),
    "Audit trail of a person": ("/audit_trail?who=ada@example.com", FILTERED_LIST),
    "An event": ("/events/{event}", LIST),
    "Rotation of a key": ("/api_keys/{key}/rotate", LIST),
}
"""By name: the path of a page, and of the list of the API that it is compared with."""
HEADINGS = (f"a page of a project with {ROWS:,} rows", "reads", "time, ms", "time of a list, ms", "time ÷ list")
Measured = tuple[int, list[float], list[float]]
"""The reads of a page, and the milliseconds of the page and of the list in each round."""


def measure(rounds: int) -> dict[str, Measured]:
    """The reads and times of each page."""
    from shared.admin import members
    from tests.support import admin_client, privileges
    from tests.support.stage import running, running_database

    # The stage of the lists has closed the loop on which handlers of requests run.
    asyncio.set_event_loop(asyncio.new_event_loop())
    with (
        tempfile.TemporaryDirectory() as folder,
        running_database(Path(folder)) as port,
        running(port, Path(folder), privileges.Recorder()) as stage,
    ):
        project = stage.project()
        browser = admin_client.signed_in(stage, "ada@example.com", {project.id: members.OWNER})
        names = _fill(stage, project)
        # The emulators' objects and the rows, which no function has, are not searched for garbage in every round.
        gc.collect()
        gc.freeze()
        return {
            name: _compare(
                partial(browser.get, f"/admin/projects/{project.id}/test{page.format(**names)}"),
                partial(stage.call, "GET", path.format(**names)),
                rounds,
            )
            for name, (page, path) in PAGES.items()
        }


def report(found: Mapping[str, Measured]) -> list[Figure]:
    """The figures. The last is the median of the rounds' own ratios."""
    figures = []
    for name, (reads, page, listed) in found.items():
        ratio = statistics.median(one / other for one, other in zip(page, listed, strict=True))
        cells = [f"{reads}", f"{statistics.median(page):.1f}", f"{statistics.median(listed):.1f}", f"{ratio:.1f}"]
        figures.append(Figure(name, cells, ratio, GOAL))
    return figures


def _compare(page: Callable[[], Shown], listed: Callable[[], Answer], rounds: int) -> Measured:
    from tests.support.wire import wire

    times = [(_time(page), _time(listed)) for _ in range(WARM + rounds)][WARM:]
    with wire() as line:
        page()
    return len(line.operations()), [one for one, _ in times], [one for _, one in times]


def _time(request: Callable[[], Shown | Answer]) -> float:
    began = time.perf_counter()
    status = request().status
    taken = (time.perf_counter() - began) * 1000
    assert status == 200, status
    return taken


def _fill(stage: Stage, project: Project) -> dict[str, str]:
    """Write the rows. Returns what the paths name."""
    from shared.store.keys import Scope
    from tests.support import admin_client, rows
    from tests.support.resources import create_resource

    scope = Scope(project.id, False)
    endpoint = create_resource(stage, "/v1/webhook_endpoints", url="http://127.0.0.1:1/")["id"]
    customer = create_resource(stage, "/v1/customers", phone="+15005550006")["id"]
    conversation = create_resource(stage, "/v1/conversations")
    today = clock.now() - clock.now() % clock.DAY
    [key] = [one.id for one in admin_client.keys_of(project.id) if not one.livemode]
    with admin_client.as_test() as operator:
        found = [
            *_people(scope),
            *_appointments(scope, customer, today),
            *_waiting(scope, conversation),
            *_deliveries(scope, endpoint),
            *_requests(scope, key),
            *_audit(project.id, operator.request_id, customer),
        ]
        rows.write(found)
    event = next(row["sk"] for row in found if row["kind"] == "event")
    days = {"today": clock.iso(today), "tomorrow": clock.iso(today + clock.DAY - 1)}
    return {"endpoint": endpoint, "key": key, "event": event, "customer": customer, **days}


def _instants() -> Iterator[clock.Instant]:
    now = clock.now()
    return (now - ago for ago in range(ROWS * EVERY_MS, 0, -EVERY_MS))


def _people(scope: Scope) -> Iterator[table.Row]:
    """Customers of one family name, with the rows by which they are found."""
    from shared.customers import commands as customer_commands
    from shared.customers.resource import CustomerCreate
    from shared.store import table

    for number in range(ROWS):
        body = CustomerCreate.model_construct(phone=f"+1500{number:07d}", name=f"Ada{number} Lovelace")
        yield from (write.row for write in customer_commands.create(scope, body).writes if isinstance(write, table.Put))


def _appointments(scope: Scope, customer_id: str, today: clock.Instant) -> Iterator[table.Row]:
    """A hundred on each day, from 50 days ago."""
    from tests.support import rows

    for number in range(ROWS):
        at = today - 50 * clock.DAY + number * clock.DAY // 100
        facts = {"customer_id": customer_id, "appointment_at": clock.iso(at), "duration_minutes": 10}
        yield rows.appointment(scope, title="Check-up", **facts)


def _waiting(scope: Scope, conversation: Any) -> Iterator[table.Row]:
    """Conversations that wait for a person."""
    from shared.agent.actions import HandoffReason
    from shared.conversations.resource import CONVERSATIONS
    from shared.core import ids

    for instant in _instants():
        handoff = {"reason": HandoffReason.PERSON_REQUESTED, "at": clock.iso(instant)}
        doc = {"id": ids.new(CONVERSATIONS.prefix, instant), "waiting": True, "handoff": handoff}
        yield CONVERSATIONS.insert_writes(scope, conversation | doc)[0].row


def _deliveries(scope: Scope, endpoint_id: str) -> Iterator[table.Row]:
    """Events, each with a delivery of one attempt."""
    from shared.core import ids
    from shared.webhooks import events
    from shared.webhooks.deliveries import resource as deliveries
    from shared.webhooks.endpoints import resource as endpoints
    from tests.support import rows

    endpoint = endpoints.read(scope, [endpoint_id])[endpoint_id]
    changed = json.loads(rows.customer(scope, name="Ada Lovelace", email="ada@example.com")["doc"])
    for number, instant in enumerate(_instants()):
        type = "customer.created" if number % 2 else "customer.updated"
        event = events.build(scope, ids.new(events.EVENTS.prefix, instant), type, instant, changed, None)
        yield event.row()
        row = deliveries.new_row(event, endpoint)
        failed = number % FAILED == 0
        attempt: Any = {
            "number": 1,
            "at": clock.iso(instant),
            "response_status_code": 500 if failed else 200,
            "error_code": "http_error" if failed else None,
            "duration_ms": 20 + number % 100,
        }
        outcome = {name: attempt[name] for name in ("response_status_code", "error_code", "duration_ms")}
        attempted: Any = {"attempts": [attempt], "attempt_count": 1, "response_body": "ok"}
        doc = deliveries.end(
            json.loads(row["doc"]) | outcome | attempted,
            deliveries.DeliveryStatus.FAILED if failed else deliveries.DeliveryStatus.SUCCEEDED,
            clock.iso(instant),
        )
        ended = {name: value for name, value in row.items() if not name.startswith(("due", "lease"))}
        listed = {"f1": deliveries.failed_partition(scope, endpoint_id)} if failed else {}
        yield ended | listed | {"doc": json.dumps(doc)}


def _requests(scope: Scope, key_id: str) -> Iterator[table.Row]:
    from shared.core import ids
    from shared.core.metrics import REQUEST_LINE
    from shared.projects import request_log

    for number, instant in enumerate(_instants()):
        refused = number % FAILED == 0
        line = {
            "message": REQUEST_LINE,
            "request_id": ids.new(request_log.PREFIX, instant),
            "method": "POST",
            "route": "/v1/customers",
            "status": 400 if refused else 201,
            "code": "parameter_missing" if refused else None,
            "project_id": scope.project_id,
            "livemode": scope.livemode,
            "key_id": key_id,
            "duration_ms": 12.3,
        }
        row = request_log.row_of(json.dumps(line))
        assert row
        yield row


def _audit(project_id: int, request_id: str, customer: str) -> Iterator[table.Row]:
    from shared.admin import audit

    for number in range(ROWS):
        who = "ada@example.com" if number % 2 else "grace@example.com"
        actor = audit.Actor(who, "192.0.2.1", request_id)
        facts: Any = {"livemode": False, "after": {"fields": "name"}}
        yield audit.entry(project_id, actor, "customer.changed", customer, **facts).row
