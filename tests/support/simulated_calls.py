"""Simulated calls, whose steps a test lets the worker take."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from shared.aws import services
from shared.calls import project_limits
from shared.calls.project_limits import Limits
from shared.core import clock
from shared.core.call_statuses import ENDED, SessionCallStatus
from shared.store import table
from shared.store.keys import Scope
from tests.support.clocks import Clock
from tests.support.faults import CONFLICTS, Trouble
from tests.support.resources import create_resource, get_resource, idempotency_header, list_resources, woken
from tests.support.stage import Answer, Stage, wake_up_record
from tests.support.wire import ALWAYS, Fault, lose_response, refuse_connection, throttle, wire

WHEN = "2030-05-06T07:08:09Z"
CONFIRMS, NOBODY, ACCEPTS, LIMITED = (f"+150055500{number}" for number in ("00", "02", "20", "25"))
BEGIN = ["session.created", "session.dialing"]
WHOLE = [*BEGIN, "session.completed", "session.transcript_ready", "session.recording_ready"]
STATUSES = ("call_status", "transcript_status", "recording_status")
WAKE_UPS_LOST = Fault(0, refuse_connection, service="sqs")


@dataclass(frozen=True)
class Callee:
    """A customer with one appointment."""

    scope: Scope
    id: str
    appointment: str

    @property
    def path(self) -> str:
        """The customer's path."""
        return f"/v1/customers/{self.id}"


def callee(stage: Stage, phone: str = CONFIRMS, scope: Scope | None = None, livemode: bool = False) -> Callee:
    """A customer in a new project, or in the one that the stage calls as."""
    if scope is None:
        project = stage.project()
        scope = Scope(project.id, livemode)
        stage._key = project.live_key if livemode else project.test_key
    customer = create_resource(stage, "/v1/customers", phone=phone)["id"]
    appointment = create_resource(stage, "/v1/appointments", customer_id=customer, appointment_at=WHEN)["id"]
    return Callee(scope, customer, appointment)


def limit_calls(project_id: int, limits: Limits) -> None:
    """Set the limits of a project that has none yet."""
    table.write([project_limits.limits_write(project_id, limits, Limits())])


def place(stage: Stage, whom: Callee, key: str | None = None, **order: Any) -> Answer:
    """The answer to a call about the customer's appointment."""
    return stage.call(
        "POST", f"{whom.path}/call", {"appointment_id": whom.appointment} | order, headers=idempotency_header(key)
    )


def place_call(stage: Stage, whom: Callee, **order: Any) -> str:
    """The id of a call's session."""
    response = place(stage, whom, **order)
    assert response.status in (201, 202), response.body
    return str(response.json["session_id"])


def session_of(stage: Stage, id: str) -> Any:
    return get_resource(stage, f"/v1/sessions/{id}")


def wake_up(stage: Stage, scope: Scope, id: str) -> dict[str, Any]:
    """A wake-up at a call."""
    return wake_up_record(stage, "dials", scope.pk("session"), id)


def work(stage: Stage, function: str, record: dict[str, Any]) -> None:
    """Let a worker have a wake-up; one that fails is left to the queue, which gives the wake-up again."""
    stage.invoke(function, {"Records": [record]})


def forward_to_next_step(time: Clock, scope: Scope, id: str) -> bool:
    """Let the time of a call's next step come, and a dead worker's lease end; False if none is scheduled."""
    row = table.get(scope.pk("session"), id)
    assert row is not None
    if "due_at" in row:
        time.now = max(time.now, (max(row["due_at"], row.get("lease_until", 0)) + 1) / clock.SECOND)
    return "due_at" in row


def dial(stage: Stage, time: Clock, scope: Scope, id: str, times: int = 30) -> int:
    """Give the worker wake-ups at a call as they are due, so many at most; how many it was."""
    for count in range(times):
        if not forward_to_next_step(time, scope, id):
            return count
        work(stage, "dial", wake_up(stage, scope, id))
    return times


def sweep(stage: Stage, time: Clock, scope: Scope, times: int = 30) -> None:
    """Let nobody but `sweep` wake the workers of a project's tasks, until none is left."""
    for _ in range(times):
        if not any("due_at" in row for kind in ("session", "consent") for row in rows(scope, kind)):
            return
        time.forward(61)
        stage.invoke("sweep", {})
        with wire(WAKE_UPS_LOST):
            for queue, function in (("consents", "consent"), ("dials", "dial")):
                for record in woken(stage, scope, queue):
                    work(stage, function, record)


def rows(scope: Scope, kind: str) -> list[table.Row]:
    """The rows of a kind; every phone's consent is in a partition of its own, which the sessions tell."""
    if kind == "consent":
        from shared.calls.consent import consents

        phones = {json.loads(row["doc"])["to"] for row in rows(scope, "session")}
        found = [table.get(consents.pk(scope, phone), "consent") for phone in phones]
        return [row for row in found if row is not None]
    return [row for page in table.query(scope.pk(kind), limit=1000) for row in page]


def lock_and_count_errors(scope: Scope) -> Iterator[str]:
    """What is wrong with who is being called, and with the count of live calls."""
    calls = {row["sk"]: json.loads(row["doc"]) for row in rows(scope, "session")}
    active = {row["sk"]: row.get("active_session") for row in rows(scope, "customer")}
    for customer, id in active.items():
        if id is not None and (id not in calls or calls[id]["call_status"] in ENDED):
            yield f"{customer} is held by {calls.get(id, {}).get('call_status', 'no session')}"
    deleted = {row["sk"] for row in rows(scope, "deleted_customer")}
    for id, session in calls.items():
        if session["call_status"] == SessionCallStatus.DIALING and session["customer_id"] in deleted:
            continue
        if session["call_status"] not in ENDED and active.get(session["customer_id"]) != id:
            yield f"a {session['call_status']} session does not hold its customer"
    counted = (table.get(scope.pk("count"), "call") or {}).get("calls_now", 0)
    dialing = [id for id, session in calls.items() if session["call_status"] == SessionCallStatus.DIALING]
    if counted != (len(dialing) if scope.livemode else 0):
        yield f"{counted} calls are counted, {len(dialing)} are under way"


def writes_with_two_events(records: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Writes that changed two of a session's statuses, for which there would be but one event."""
    for record in records:
        images = [record["dynamodb"].get(name) for name in ("OldImage", "NewImage")]
        before, after = (image and table.decode(image) for image in images)
        if before and after and after["kind"] == "session":
            old, new = json.loads(before["doc"]), json.loads(after["doc"])
            differ = [name for name in STATUSES if old[name] != new[name]]
            if len(differ) > 1:
                yield f"one write changed {differ}"


def events_of(stage: Stage, id: str) -> list[str]:
    """The types of an object's events, oldest first."""
    return [event["type"] for event in get_resource(stage, f"/v1/events?object_id={id}&limit=100")["data"]][::-1]


def incomplete(stage: Stage, whom: Callee) -> Iterator[str]:
    """What is wrong with the one call to a customer who confirms, once no step is left."""
    yield from writes_with_two_events(stage.fan_out())
    yield from lock_and_count_errors(whom.scope)
    found = list_resources(stage, "/v1/sessions")
    if len(found) != 1:
        yield f"{len(found)} sessions"
        return
    [session] = found
    shown = [session[name] for name in (*STATUSES, "ended_reason")]
    if shown != ["completed", "available", "available", "agent_hangup"]:
        yield f"the session is {shown}"
        return
    if (happened := events_of(stage, session["id"])) != WHOLE:
        yield f"events {happened}"
    if (happened := events_of(stage, whom.appointment)) != ["appointment.created", "appointment.confirmed"]:
        yield f"events of the appointment {happened}"
    if not get_resource(stage, f"/v1/sessions/{session['id']}/transcript")["data"]:
        yield "no transcript"
    row = table.get(whom.scope.pk("session"), session["id"]) or {}
    sound = services.s3().get_object(Bucket=os.environ["RECORDINGS_BUCKET"], Key=row["recording_key"])["Body"].read()
    if not sound.startswith(b"RIFF"):
        yield "no recording"
    if not {"due_at", "due", "lease"}.isdisjoint(row):
        yield "a step is scheduled"


FEW_TROUBLES = (
    Trouble("answer lost", lose_response, 1),
    Trouble("answers lost", lose_response, ALWAYS),
    Trouble("throttled", throttle, ALWAYS),
    *(trouble for trouble in CONFLICTS if trouble.tries in (1, ALWAYS)),
)
