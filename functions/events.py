"""/v1/events: the audit log of events and of their deliveries, and manual retry."""

from __future__ import annotations

from shared.api import http
from shared.api.http import Answer, Call, Decision
from shared.resources import fields, lists
from shared.resources.records import Document
from shared.webhooks import deliveries, events
from shared.work import hints


def list_events(call: Call) -> Answer:
    query = lists.read(events.LISTED, call.query)
    page = lists.page(call.scope, events.LISTED, query, seconds_left=call.seconds_left)
    return Answer(200, page.envelope(call.path))


def retrieve(call: Call) -> Answer:
    return Answer(200, events.find(call.scope, call.params["id"])["doc"])


def list_deliveries(call: Call) -> Answer:
    query = lists.read(deliveries.LISTED, call.query)
    event_id = events.checked(call.params["id"])
    base = call.scope.pk("event", event_id)
    page = lists.page(call.scope, deliveries.LISTED, query, base, call.seconds_left)
    if not page.rows:
        # Nothing was delivered, or there is no such event.
        events.find(call.scope, event_id)
    shown = deliveries.shown(call.scope, page.rows)
    return Answer(200, page.envelope(call.path, [fields.compact(delivery) for delivery in shown]))


def retrieve_delivery(call: Call) -> Answer:
    found = deliveries.find(call.scope, call.params["id"], call.params["delivery_id"])
    return Answer(200, fields.compact(deliveries.shown(call.scope, [found])[0]))


def retry_delivery(call: Call) -> Answer:
    call.body(fields.Nothing)
    delivery: Document = {}

    def decide() -> Decision:
        nonlocal delivery
        writes, delivery = deliveries.retried(call.scope, call.params["id"], call.params["delivery_id"])
        return writes, Answer(202, fields.compact(delivery))

    answer = call.commit(decide)
    hints.send("retries", [deliveries.hint_of(call.scope, delivery)])
    return answer


app = http.service(
    http.Resource("/v1/events", get=list_events, query=events.LISTED.parameters),
    http.Resource("/v1/events/{id}", get=retrieve),
    http.Resource("/v1/events/{id}/deliveries", get=list_deliveries, query=deliveries.LISTED.parameters),
    http.Resource("/v1/events/{id}/deliveries/{delivery_id}", get=retrieve_delivery),
    http.Resource("/v1/events/{id}/deliveries/{delivery_id}/retry", post=retry_delivery, action=True),
)
handler = http.lambda_handler(app)
