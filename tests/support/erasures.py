"""A person with everything that the service can know of one, and what is left of it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from shared.aws import services
from shared.calls.consent import consents
from shared.core import clock
from shared.erasure import erasing
from shared.erasure.stored_batches import StoredBatch
from shared.store import table
from shared.store.keys import Scope
from tests.support import simulated_calls
from tests.support.client_actions import simulated_phone
from tests.support.clocks import Clock
from tests.support.conversations import (
    Thread,
    run_turn_worker,
    send_and_get,
    store_unanswered_message,
    work_at_each_wait,
)
from tests.support.receivers import Behaviour, Exchange, answer
from tests.support.resources import create_resource, get_resource, idempotency_header, list_resources, woken
from tests.support.stage import Project, Stage, wake_up_record

WHEN = "2030-05-06T07:08:09Z"
Key = tuple[str, str]


@dataclass
class Person:
    """A customer in live mode, and all that belongs to it. Every text of it contains `mark`."""

    scope: Scope
    mark: str
    phone: str
    id: str = ""
    appointments: list[str] = field(default_factory=list)
    sessions: list[str] = field(default_factory=list)
    conversations: list[str] = field(default_factory=list)
    late: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """Wake-ups that are still to be worked on, each with its function."""
    traces: set[str] = field(default_factory=set)
    """The ids of everything, those of events and messages too, as far as they were ever looked for."""

    @property
    def paths(self) -> list[str]:
        """Where the API shows the person's resources."""
        ids = {"appointments": self.appointments, "sessions": self.sessions, "conversations": self.conversations}
        return [f"/v1/customers/{self.id}", *(f"/v1/{kind}/{id}" for kind, found in ids.items() for id in found)]

    def owns(self, row: Mapping[str, Any]) -> bool:
        """Whether a row is about the person, as far as the ids are known."""
        content = text(row)
        return self.mark in content or any(id in content for id in self.traces)

    @property
    def ids(self) -> list[str]:
        return [self.id, *self.appointments, *self.sessions, *self.conversations]


def echo(exchange: Exchange) -> None:
    """Answer with the beginning of what was sent."""
    body = exchange.read_request().body[:1000]
    exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(body), body))


BEHAVIOURS: Mapping[str, Behaviour] = {"takes": echo, "fails": answer(503), "refuses": answer(400), "closed": echo}
"""By label: the endpoints of a project, whose deliveries come to have every status."""


def live(stage: Stage, project: Project) -> Scope:
    """Let the stage call with the project's live key."""
    stage._key = project.live_key
    return Scope(project.id, True)


def texts(mark: str, *names: str) -> dict[str, Any]:
    return {name: f"{name} of {mark}" for name in names} | {"metadata": {"note": f"metadata of {mark}"}}


def newcomer(stage: Stage, scope: Scope, mark: str, phone: str | None = None) -> Person:
    """A person with one appointment, in the project that the stage calls as."""
    found = Person(scope, mark, phone or simulated_phone("20"))
    found.id = create_resource(stage, "/v1/customers", phone=found.phone, name=mark)["id"]
    found.appointments.append(
        create_resource(stage, "/v1/appointments", customer_id=found.id, appointment_at=WHEN)["id"]
    )
    return found


def person(stage: Stage, time: Clock, scope: Scope, mark: str) -> Person:
    """A person who lives through everything, in the project that the stage calls as."""
    found = Person(scope, mark, simulated_phone("20"))
    fields = texts(mark, "name", "external_id") | {"phone": found.phone, "email": f"{mark}@example.com"}
    made = stage.call("POST", "/v1/customers", fields, headers=idempotency_header(f"customer of {mark}"))
    assert made.status == 201, made.body
    found.id = made.json["id"]
    patched = stage.call("PATCH", f"/v1/customers/{found.id}", {"name": f"another name of {mark}"})
    assert patched.status == 200, patched.body
    for _ in range(3):
        about = texts(mark, "title", "location", "notes", "external_id") | {"appointment_at": WHEN}
        found.appointments.append(create_resource(stage, "/v1/appointments", customer_id=found.id, **about)["id"])
    cancelled = {"status": "cancelled", "cancellation_reason": f"reason of {mark}"}
    assert stage.call("PATCH", f"/v1/appointments/{found.appointments[1]}", cancelled).status == 200
    assert stage.call("DELETE", f"/v1/appointments/{found.appointments[2]}").status == 200
    call(stage, time, found, channel="phone")
    call(stage, time, found, channel="whatsapp")
    consent = consents.find(scope, found.phone)
    assert consent.doc["status"] is not None
    table.write([consents.asker_write(consent, "message of WhatsApp")])
    _converse(stage, time, found)
    stage.fan_out()
    stage.deliver()
    # What happens from here on is not fanned out, or not delivered.
    assert stage.call("PATCH", f"/v1/appointments/{found.appointments[0]}", {"title": f"new {mark}"}).status == 200
    moved = {"appointment_at": "2030-06-06T07:08:09Z"}
    assert stage.call("PATCH", f"/v1/appointments/{found.appointments[0]}", moved).status == 200
    stage.fan_out()
    found.late += [
        ("deliver", record) for queue in ("deliveries", "slow_deliveries") for record in stage.messages(queue)
    ]
    return found


def call(stage: Stage, time: Clock, whom: Person, channel: str) -> None:
    """A call that somebody answers, with its transcript and recording; on WhatsApp, after a request for consent."""
    order = texts(whom.mark, "instructions") | {"appointment_id": whom.appointments[0], "channel": channel}
    placed = stage.call("POST", f"/v1/customers/{whom.id}/call", order)
    assert placed.status in (201, 202), placed.body
    session = placed.json["session_id"]
    whom.sessions.append(session)
    pk = consents.pk(whom.scope, whom.phone)
    for _ in range(3 if placed.status == 202 else 0):
        simulated_calls.work(stage, "consent", wake_up_record(stage, "consents", pk, "consent"))
        time.forward(6)
    simulated_calls.dial(stage, time, whom.scope, session)
    assert simulated_calls.session_of(stage, session)["recording_status"] == "available"


def _converse(stage: Stage, time: Clock, whom: Person) -> None:
    """Conversations by id and by thread: one that ended, one that was handed off, one without an answer."""
    with_customer = {"customer": {"id": whom.id}}
    ids = [create_resource(stage, "/v1/conversations", **texts(whom.mark, "external_id"), **with_customer)["id"]]
    send_and_get(stage, time, _thread(whom, ids[0]), f"Hello from {whom.mark}", f"message of {whom.mark}")
    assert stage.call("POST", f"/v1/conversations/{ids[0]}/end").status == 200
    message = {"external_conversation_id": f"external_id of {whom.mark}", "content": f"[[sim:handoff]] {whom.mark}"}
    with work_at_each_wait(time, lambda: run_turn_worker(stage, _thread(whom, ""))):
        sent = stage.call("POST", "/v1/messages", message | with_customer | texts(whom.mark))
    assert sent.status == 201, sent.body
    ids.append(sent.json["conversation"]["id"])
    ids.append(create_resource(stage, "/v1/conversations", **with_customer)["id"])
    store_unanswered_message(stage, _thread(whom, ids[2]), f"Is anybody there? asks {whom.mark}")
    whom.late += [("turn", record) for record in woken(stage, whom.scope)]
    whom.conversations += ids


def _thread(whom: Person, conversation: str) -> Thread:
    return Thread(whom.scope, conversation, whom.id, f"/v1/appointments/{whom.appointments[0]}")


def statuses(stage: Stage, whom: Person) -> set[str]:
    """The statuses of the deliveries of the person's events."""
    events = [event for id in whom.ids for event in get_resource(stage, f"/v1/events?object_id={id}&limit=100")["data"]]
    return {
        each["status"] for event in events for each in list_resources(stage, f"/v1/events/{event['id']}/deliveries")
    }


def trace(whom: Person) -> None:
    """Look for the ids of everything that belongs to a person."""
    whom.traces |= {*whom.ids}
    for _ in range(2):
        # By the resources their events and messages are found, by these their deliveries and usage.
        found = {sk for (_, sk), row in rows().items() if whom.owns(row)}
        whom.traces |= {sk for sk in found if sk.startswith(("evt_", "msg_"))}


def none_stored() -> list[StoredBatch]:
    return []


def erase(time: Clock, whom: Person) -> list[str]:
    """Erase the person, and wait as long as it says; what it says."""
    trace(whom)
    lines: list[str] = []
    for _ in range(5):
        try:
            for line in erasing.erase(whom.scope, whom.id, none_stored):
                lines.append(line)  # noqa: PERF402  # lines until NotYet count, too
        except erasing.NotYet as wait:
            time.now = max(time.now, wait.until / clock.SECOND)
        else:
            return lines
    raise AssertionError("the erasure does not end")


def rows() -> dict[Key, dict[str, Any]]:
    """The whole table, expired rows included."""
    scan: dict[str, Any] = {"TableName": os.environ["TABLE_NAME"], "ConsistentRead": True}
    items = []
    while True:
        page = services.dynamodb().call("Scan", scan)
        items += [table.decode(item) for item in page["Items"]]
        if "LastEvaluatedKey" not in page:
            break
        scan["ExclusiveStartKey"] = page["LastEvaluatedKey"]
    return {(item["pk"], item["sk"]): item for item in items}


def objects(bucket: str | None = None) -> dict[str, bytes]:
    """All objects of the bucket of recordings."""
    bucket = bucket or os.environ["RECORDINGS_BUCKET"]
    pages = services.s3().get_paginator("list_objects_v2").paginate(Bucket=bucket)
    keys = [item["Key"] for page in pages for item in page.get("Contents", [])]
    return {key: services.s3().get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}


def text(row: Mapping[str, Any]) -> str:
    return json.dumps(row, default=repr, ensure_ascii=False)


def remaining_data(whom: Person, *, idempotency: bool = False) -> Iterator[str]:
    """Whatever is left of a person in table and bucket. Saved responses of Idempotency-Keys end by themselves."""
    for (pk, sk), row in rows().items():
        if "#idempotency#" in pk and not idempotency:
            continue
        if pk != whom.scope.pk("erasure") and whom.owns(row):
            yield f"{pk} {sk}"
        elif pk.startswith(whom.scope.pk("")) and whom.phone in text(row):
            yield f"{pk} {sk} has the phone"
        elif sk == consents.pk(whom.scope, whom.phone):
            yield f"{pk} says who asked"
    for key, content in objects().items():
        if whom.mark.encode() in content or any(id in key for id in whom.ids):
            yield key


def put_back(items: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as a restored table has them."""
    for item in items:
        table.write([table.Put(dict(item), table.ALWAYS)])
