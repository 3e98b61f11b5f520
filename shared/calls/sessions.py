"""Sessions: one call each, from the request to its files (promises 7).

A session only moves forward along `TRANSITIONS`. Its row schedules the next step of the call
(`shared/tasks/tasks.py`). The customer's row names its one active session, so that no two calls to a customer are under
way at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from shared.agent_settings import resource as agent_settings
from shared.appointments.resource import APPOINTMENTS, AppointmentRecord
from shared.core import clock
from shared.core.call_statuses import (
    ENDED,
    OUTCOMES,
    AnsweredBy,
    CallOutcome,
    Channel,
    ConsentStatus,
    EndedReason,
    FileStatus,
    SessionCallStatus,
)
from shared.customers.resource import CUSTOMERS, CustomerRecord
from shared.resources import filters
from shared.resources.collections import Collection, OldRows, Record, ResourceRow
from shared.resources.documents import Resource, revise
from shared.resources.filters import ListParameters
from shared.resources.indexes import Indexes
from shared.resources.schema import E164, AppointmentId, Count, CustomerId, Keywords, Metadata, SessionId, Time
from shared.store import table
from shared.store.keys import Scope
from shared.tasks import tasks, wake_ups

TRANSITIONS: Mapping[SessionCallStatus, frozenset[SessionCallStatus]] = {
    SessionCallStatus.QUEUED: frozenset(
        {SessionCallStatus.DIALING, SessionCallStatus.FAILED, SessionCallStatus.INVALID_NUMBER}
    ),
    SessionCallStatus.DIALING: frozenset(ENDED),
    **dict.fromkeys(ENDED, frozenset[SessionCallStatus]()),
}
"""By status: the statuses that can follow."""


class SessionConsent(TypedDict):
    """The request for consent that a session waited for."""

    status: ConsentStatus
    """The customer's answer to the request."""
    requested_at: Time | None
    """When the customer was asked. Null if the consent was given without a request."""
    responded_at: Time | None
    """When the customer answered. Null until then, and if nobody answers."""
    expires_at: Time | None
    """When the request expires. Null if nothing was requested."""


class Session(Resource):
    """One call to a customer (promises 7). Id prefix `sess_`."""

    id: SessionId
    """The session's id. Never changes."""
    object: Literal["session"]
    """The type of the object. Never changes."""
    customer_id: CustomerId
    """The customer who is called. Never changes."""
    appointment_id: AppointmentId | None
    """The appointment that the call is about. Null for a call about none. Never changes."""
    channel: Channel
    """How the customer is called. Never changes."""
    direction: Annotated[Literal["outbound"], Keywords(name="CallDirection")]
    """Every call is outbound."""
    to: E164
    """The number that is called, E.164: the customer's phone when the call was requested or, from then on, dialed."""
    call_status: SessionCallStatus
    """The progress of the call: `queued`, then `dialing` (ringing and talk), then its outcome, which is final."""
    ended_reason: EndedReason | None
    """Why the call ended. Null until it has ended."""
    outcome: CallOutcome | None
    """What came of the call. Null until it has ended."""
    answered_by: Annotated[AnsweredBy, Keywords(name="AnsweredBy")] | None
    """Who answered. Null until somebody answers, and if nobody does."""
    not_before: Time | None
    """The earliest time of the call that the request named. Null if it named none. Never changes."""
    dial_at: Time | None
    """When a queued call will be dialed. Null while consent is pending, and once the call is not queued."""
    dialed_at: Time | None
    """When dialing began. Null before."""
    answered_at: Time | None
    """When the call was answered. Null before, and if nobody answers."""
    ended_at: Time | None
    """When the call ended. Null before."""
    duration_seconds: Count | None
    """Whole seconds from answer to end. Null until the call has ended, and if nobody answered."""
    call_later_at: Time | None
    """When the customer asked to be called again. Null unless `call_status` is `call_later` and a time was named."""
    consent: SessionConsent | None
    """The consent for a WhatsApp call. Null for a phone call, and for a number that the project may not call."""
    transcript_status: FileStatus
    """Whether `GET /v1/sessions/{id}/transcript` has the transcript. `failed` and `available` are final."""
    recording_status: FileStatus
    """Whether `GET /v1/sessions/{id}/recording` has the recording. `failed` and `available` are final."""
    summary: str | None
    """The outcome of the call in a sentence. Null until it has ended, and if there is nothing to say."""
    metadata: Metadata
    """The caller's own keys and values, from the request for the call; `{}` when unset."""


class SessionChanges(TypedDict, total=False):
    """Changes to the fields of a session."""

    to: str
    call_status: SessionCallStatus
    ended_reason: EndedReason
    outcome: CallOutcome | None
    answered_by: AnsweredBy | None
    dial_at: str | None
    dialed_at: str
    answered_at: str | None
    ended_at: str
    duration_seconds: int | None
    call_later_at: str | None
    consent: SessionConsent
    transcript_status: FileStatus
    recording_status: FileStatus
    summary: str | None


class CheckStage(StrEnum):
    """What the agent of a call waits for, until the person speaks (`shared/calls/identity_check.py`)."""

    TOLD = "told"
    """The first answer of a customer without a name, who was told of the appointment."""
    ASKED = "asked"
    """The answer to "Am I speaking with Ada?"."""
    ASKED_AGAIN = "asked_again"
    """The same, after an answer that was not understood."""
    WAITING = "waiting"
    """The person, who is fetched. The next words are followed by the opening."""
    CALLBACK = "callback"
    """When to call again, since the person cannot talk now."""
    CALLBACK_TIME = "callback_time"
    """The rest of the time to call again."""


class SessionRow(ResourceRow, tasks.TaskRow):
    """A session's row, which schedules the call's next step."""

    instructions: NotRequired[str]
    """Instructions to the agent, from the request for the call."""
    customer_deleted: NotRequired[bool]
    """The customer was deleted while the call was under way."""
    opted_out: NotRequired[bool]
    """The person does not want to be called: the call is to end."""
    started_at: NotRequired[clock.Instant]
    """When a worker began to start a live call. The call counts towards the limits from then on."""
    waits_since: NotRequired[clock.Instant]
    """Since when the call has waited for capacity, if it was put off because of that."""
    contact_id: NotRequired[str]
    """The carrier's id of a live call, once the carrier has accepted it."""
    opening: NotRequired[str]
    """The agent's first words in a live call."""
    stage: NotRequired[CheckStage]
    """What the agent of a live call waits for, until the person speaks."""
    voicemail: NotRequired[bool]
    """A machine has answered the live call."""
    talked: NotRequired[bool]
    """The customer has spoken with the agent."""
    silences: NotRequired[int]
    """How often in succession the customer has said nothing."""
    proposal: NotRequired[str]
    """The change that the agent has proposed and the customer has not answered yet, as JSON text."""
    changed: NotRequired[bool]
    """The agent of a live call has changed the appointment."""
    summary_so_far: NotRequired[str]
    """What has come of a live call so far, in sentences (`Progress.summary`)."""
    outcome_so_far: NotRequired[CallOutcome]
    """What has come of a live call so far, if anything (`Progress.outcome`)."""
    outcome: NotRequired[str]
    """The same as `summary_so_far`, as version 0.1.0 wrote it."""
    call_result: NotRequired[CallOutcome]
    """The same as `outcome_so_far`, as version 0.1.0 wrote it."""
    ends_for_later: NotRequired[bool]
    """The live call ends for another one."""
    later: NotRequired[clock.Instant]
    """When to call again, if a time was named."""
    recording_key: NotRequired[str]
    """The recording's object in the bucket."""
    recording_redacted: NotRequired[bool]
    """The recording is a redacted copy."""
    raw_recording_key: NotRequired[str]
    """The object of the recording before it was redacted. It is deleted."""
    recording_seconds: NotRequired[int]
    """The recording's length, if it differs from the call's."""


def _indexed(status: str, outcome: str | None) -> str:
    """The indexed value of a call's status and outcome."""
    return status if outcome is None else f"{status}/{outcome}"


def _values(session: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**session, "call_status": _indexed(session["call_status"], session.get("outcome"))}


_OF_STATUS: Mapping[str, tuple[str, ...]] = {
    # Calls that ended before there were outcomes are indexed by the status alone.
    status: (status, *(_indexed(status, outcome) for outcome in OUTCOMES.get(status, ())))
    for status in SessionCallStatus
}
_OF_OUTCOME: Mapping[str, tuple[str, ...]] = {
    outcome: tuple(_indexed(status, outcome) for status in OUTCOMES if outcome in OUTCOMES[status])
    for outcome in CallOutcome
}


def _known_outcome(session: Mapping[str, Any]) -> CallOutcome | None:
    """The outcome of a call that ended before there were outcomes, as far as its status tells it."""
    outcomes = OUTCOMES.get(session["call_status"], ())
    return outcomes[0] if len(outcomes) == 1 else None


SESSIONS: Collection[Session, SessionRow] = Collection(
    Session,
    kind="session",
    prefix="sess_",
    indexes=Indexes(("appointment_id", "customer_id", "call_status", "channel"), values=_values),
    parameters=ListParameters(
        {
            "appointment_id": filters.Exact("appointment_id"),
            "customer_id": filters.Exact("customer_id"),
            # One index serves both: the table's four are used.
            "call_status": filters.Enumerated("call_status", (), _OF_STATUS),
            "outcome": filters.Enumerated("call_status", (), _OF_OUTCOME),
            "channel": filters.Enumerated("channel", [*Channel]),
        }
    ),
    old_rows=OldRows(added={"not_before": None, "dial_at": None, "outcome": _known_outcome}),
)


SessionRecord = Record[Session, SessionRow]


def change_write(
    scope: Scope, record: SessionRecord, changes: SessionChanges, internal: table.Attributes
) -> table.Update:
    """The write of these changes and attributes, on condition that the session did not change since it was read."""
    present = record.doc["call_status"]
    status = changes.get("call_status", present)
    assert status == present or status in TRANSITIONS[present]
    after: Session = {**record.doc, **changes}
    # Sessions have no search rows.
    return SESSIONS.replace_writes(scope, record, revise(record.doc, after), internal)[0]


@dataclass(frozen=True)
class Subject:
    """What a call depends on, as it is now: its customer, its appointment, and the settings of the agent.

    `customer` is None if the customer was deleted. `appointment` is None if the call is about none, and if the customer
    was deleted: a call that is under way then changes nothing any more.
    """

    customer: CustomerRecord | None
    appointment: AppointmentRecord | None
    stored: agent_settings.StoredSettings


def subject(scope: Scope, session: Session) -> Subject:
    """What a call depends on, in one read; an appointment that is deleted takes another."""
    customer_key = (scope.pk(CUSTOMERS.kind), session["customer_id"])
    id = session["appointment_id"]
    appointment_key = (scope.pk(APPOINTMENTS.kind), id or "")
    keys = [customer_key, *([appointment_key] if id else []), *agent_settings.keys(scope)]
    rows = table.get_many(keys)
    stored = agent_settings.of_rows(scope, rows)
    if customer_key not in rows:
        return Subject(None, None, stored)
    customer = CUSTOMERS.record(rows[customer_key])
    if id is None:
        return Subject(customer, None, stored)
    row = rows.get(appointment_key) or APPOINTMENTS.deleted_row(scope, id)
    return Subject(customer, None if row is None else APPOINTMENTS.record(row), stored)


def wake_up(scope: Scope, session_id: str, at: clock.Instant | None = None) -> wake_ups.WakeUp:
    """The wake-up for the next step of a session, now or at about the instant `at`."""
    return wake_ups.new("dials", scope.pk(SESSIONS.kind), session_id, at)


def awaits_consent(session: Session) -> bool:
    """Whether the call waits for the customer's consent."""
    consent = session["consent"]
    pending = consent is not None and consent["status"] == ConsentStatus.PENDING
    return pending and session["call_status"] == SessionCallStatus.QUEUED


def is_starting(record: SessionRecord) -> bool:
    """Whether a worker is starting the call, or died while it did: the customer's phone may ring."""
    return record.doc["call_status"] == SessionCallStatus.QUEUED and "started_at" in record.row


def is_waiting(record: SessionRecord) -> bool:
    """Whether the call is queued, and no worker has begun to start it."""
    return record.doc["call_status"] == SessionCallStatus.QUEUED and not is_starting(record)
