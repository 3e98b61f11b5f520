"""Live calls through a carrier that does as a test says."""

from __future__ import annotations

import json
import logging
import os
import threading
import traceback
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from shared.aws import services
from shared.calls import project_limits
from shared.core import clock
from shared.core.call_statuses import EndedReason, Ending, SessionCallStatus
from shared.projects import usage
from shared.store import table
from shared.store.keys import Scope
from shared.telephony import ContactOwner, ContactState
from tests.support import log_lines, simulated_calls
from tests.support.clocks import Clock
from tests.support.resources import create_resource
from tests.support.stage import Stage, sqs_record, wake_up_record
from tests.support.wire import Killed, wire

PHONE, NAME, TITLE = "+491715550123", "Ada Byron", "Root canal"
WHEN = "2030-05-06T07:08:09Z"
RINGING = ContactState(None, None, None)
HUNG_UP = Ending(SessionCallStatus.COMPLETED, EndedReason.CUSTOMER_HANGUP)
ANALYSIS = {
    "Participants": [{"ParticipantId": "c", "ParticipantRole": "CUSTOMER"}],
    "Transcript": [
        {"ParticipantId": "c", "Content": "I am on my way", "BeginOffsetMillis": 900, "EndOffsetMillis": 2000},
        {"ParticipantId": "bot", "Content": "Hello there", "BeginOffsetMillis": 100, "EndOffsetMillis": 800},
    ],
}


@dataclass
class Line:
    """A carrier that does as the test says. `state` is what it says of a contact, or raises."""

    started: list[tuple[str, str, int, bool, str]] = field(default_factory=list)
    trouble: list[BaseException] = field(default_factory=list)
    state: ContactState | Exception | None = RINGING
    stopped: list[str] = field(default_factory=list)
    contacts: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, to: str, session_id: str, project_id: int, livemode: bool, opening: str) -> str:
        with self._lock:
            self.started.append((to, session_id, project_id, livemode, opening))
            contact = self.contacts.setdefault(session_id, str(uuid.uuid4()))
            if self.trouble:
                raise self.trouble.pop(0)
            return contact

    def describe(self, contact_id: str) -> ContactState | None:
        assert contact_id in self.contacts.values()
        if isinstance(self.state, Exception):
            raise self.state
        return self.state

    def stop(self, contact_id: str) -> None:
        self.stopped.append(contact_id)

    def owner(self, contact_id: str) -> ContactOwner | None:
        for _, session_id, project_id, livemode, _ in self.started:
            if self.contacts.get(session_id) == contact_id:
                return ContactOwner(project_id, livemode, session_id)
        return None


@dataclass(frozen=True)
class LiveCall:
    """A call in live mode, in a project of its own, about an appointment."""

    scope: Scope
    id: str
    customer: str
    appointment: str

    @property
    def row(self) -> table.Row:
        """The session's row."""
        row = table.get(self.scope.pk("session"), self.id)
        assert row is not None
        return row

    @property
    def doc(self) -> Any:
        """The session."""
        return json.loads(self.row["doc"])


def text_of(record: logging.LogRecord) -> str:
    """All that a line of the log says, with its exception."""
    trace = "".join(traceback.format_exception(*record.exc_info)) if record.exc_info else ""
    return f"{record.getMessage()} {record.__dict__} {trace}"


@contextmanager
def log_without_secrets(secrets: Sequence[str]) -> Iterator[list[logging.LogRecord]]:
    """All that is logged meanwhile, at every level; none of the secrets is in it."""
    with log_lines.lines("DEBUG") as records:
        yield records
    assert [text for text in map(text_of, records) if any(secret in text for secret in secrets)] == []


def place_live_call(stage: Stage, *, name: str = NAME, **order: Any) -> LiveCall:
    """A live call that waits to be dialed."""
    project = stage.project()
    stage._key = project.live_key
    customer = create_resource(stage, "/v1/customers", phone=PHONE, name=name)["id"]
    appointment = create_resource(stage, "/v1/appointments", customer_id=customer, appointment_at=WHEN, title=TITLE)[
        "id"
    ]
    answer = stage.call("POST", f"/v1/customers/{customer}/call", {"appointment_id": appointment, **order})
    assert answer.status in (201, 202), answer.body
    return LiveCall(Scope(project.id, True), answer.json["session_id"], customer, appointment)


def wake_up(stage: Stage, call: LiveCall) -> dict[str, Any]:
    """A wake-up at the call's next step."""
    return wake_up_record(stage, "dials", call.scope.pk("session"), call.id)


def work(stage: Stage, call: LiveCall) -> None:
    """Let the worker have a wake-up."""
    assert stage.invoke("dial", {"Records": [wake_up(stage, call)]}) == {"batchItemFailures": []}


def forward_and_work(stage: Stage, time: Clock, call: LiveCall, milliseconds: int) -> None:
    """Let time pass, then the worker have a wake-up."""
    time.forward(milliseconds / clock.SECOND)
    work(stage, call)


def dial_live_call(stage: Stage, **order: Any) -> LiveCall:
    """A live call that rings."""
    call = place_live_call(stage, **order)
    work(stage, call)
    assert call.doc["call_status"] == "dialing"
    return call


def answer_live_call(stage: Stage, line: Line, **order: Any) -> LiveCall:
    """A live call in which people may talk."""
    call = dial_live_call(stage, **order)
    line.state = ContactState(clock.now(), None, None)
    tell(stage, contact_event(line.contacts[call.id]))
    work(stage, call)
    assert call.doc["answered_at"] is not None
    return call


def contact_event(
    contact_id: str, happened: str = "CONNECTED_TO_SYSTEM", kind: str = "Amazon Connect Contact Event", **detail: Any
) -> dict[str, Any]:
    """What EventBridge sends."""
    told = {"contactId": contact_id, "eventType": happened, "channel": "VOICE", **detail}
    return {"source": "aws.connect", "detail-type": kind, "detail": told}


def object_event(key: str) -> dict[str, Any]:
    """What EventBridge sends of a new object in the recordings' bucket."""
    detail = {"bucket": {"name": os.environ.get("RECORDINGS_BUCKET", "none")}, "object": {"key": key}}
    return {"source": "aws.s3", "detail-type": "Object Created", "detail": detail}


def analysis_of(contact_id: str, content: Any = ANALYSIS, *, redacted: bool = False) -> str:
    """The key of a contact's analysis, which is in the bucket."""
    folder, word = ("Redacted/", "analysis_redacted") if redacted else ("", "analysis")
    key = f"connect/Analysis/Voice/ivr/{folder}2026/11/21/{contact_id}_{word}_2026-11-21T09:51:16Z.json"
    services.s3().put_object(Bucket=os.environ["RECORDINGS_BUCKET"], Key=key, Body=json.dumps(content).encode())
    return key


def tell(stage: Stage, *events: dict[str, Any]) -> None:
    """Let call_events have these, one by one."""
    for event in events:
        record = sqs_record(json.dumps(event), stage.queues["call_events"].arn)
        assert stage.invoke("call_events", {"Records": [record]}) == {"batchItemFailures": []}


def events_of(stage: Stage, id: str) -> list[str]:
    """The types of an object's events, oldest first; no write changed two statuses of a session."""
    assert [*simulated_calls.writes_with_two_events(stage.fan_out())] == []
    return simulated_calls.events_of(stage, id)


def month_usage(call: LiveCall) -> dict[str, int]:
    return dict(usage.of_month(call.scope, clock.iso(clock.now())[:7]))


def calls_under_way(call: LiveCall) -> int:
    """How many calls the project's counter holds."""
    _, counts = project_limits.of_rows(call.scope, table.get_many(project_limits.keys(call.scope)))
    return counts.at_once


def assert_over(call: LiveCall, calls: int = 1) -> None:
    """The call has given back what it took, was counted, and has no step left."""
    assert calls_under_way(call) == 0
    assert month_usage(call)["calls"] == calls
    assert month_usage(call)["call_seconds"] == (call.doc["duration_seconds"] or 0)
    customer = table.get(call.scope.pk("customer"), call.customer)
    assert customer is not None
    assert "active_session" not in customer
    assert not {"due_at", "due", "due_shard", "lease"} & set(call.row)


def outcome(call: LiveCall) -> tuple[str, str, str | None]:
    doc = call.doc
    return doc["call_status"], doc["ended_reason"], doc["answered_by"]


def files(call: LiveCall) -> tuple[str, str]:
    return call.doc["transcript_status"], call.doc["recording_status"]


def lose_worker_at_start(stage: Stage, call: LiveCall, line: Line) -> list[int]:
    """A worker dies once the carrier has placed the call; the delays of the wake-ups that it left."""
    line.trouble.append(Killed("after the start"))
    with wire() as wired, suppress(Killed):
        work(stage, call)
    assert "contact_id" not in call.row
    sent = [entry for batch in wired.of("SendMessageBatch") for entry in batch.parameters["Entries"]]
    return [entry["DelaySeconds"] for entry in sent if json.loads(entry["MessageBody"])["sk"] == call.id]


SECRETS = (PHONE, PHONE[1:], NAME, TITLE, "on my way")


def recording_of(contact_id: str, *, redacted: bool = False) -> str:
    if redacted:
        folder = "connect/Analysis/Voice/ivr/Redacted/2026/11/21"
        return f"{folder}/{contact_id}_call_recording_redacted_2026-11-21T09:51:16Z.wav"
    return f"connect/CallRecordings/ivr/2026/11/21/{contact_id}_20261121T09:47_UTC.wav"
