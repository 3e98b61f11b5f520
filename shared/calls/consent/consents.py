"""Consent to be called on WhatsApp, kept per project, mode and phone (promises 7).

Each phone has one row: its latest request, the answer to it, and the sessions that wait for the answer. Every write of
the row is conditional on its version, so exactly one of an acceptance, a refusal and an expiry takes effect, in one
transaction with all sessions that wait. The row is a task (`shared/tasks/tasks.py`). Timers, task tokens and queue
messages are wake-ups.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NotRequired, TypedDict, cast

from shared.calls import simulated_numbers
from shared.calls.sessions import SessionConsent
from shared.calls.simulated_numbers import ConsentBehaviour
from shared.core import clock, trace
from shared.core.call_statuses import ConsentStatus
from shared.core.errors import ApiError, Code
from shared.resources import fields
from shared.store import table
from shared.store.keys import Scope, scope_of
from shared.tasks import tasks, wake_ups

LASTS_S = 7 * clock.DAY // clock.SECOND
"""Unscaled seconds after which a request without an answer expires."""
SILENCE_S = 60
"""The same for a simulated customer who never answers (promises 10)."""
SIMULATED_ANSWER_S = 5
"""Unscaled seconds after which a simulated customer answers."""
REQUESTS = ((clock.DAY, 1), (7 * clock.DAY, 2))
"""How many requests a phone may get in a period (Meta's limits for call permission requests; promises 7)."""
SESSIONS_LIMIT = 30
"""Sessions that may wait for one answer, because all of them are written in one transaction."""
ASKER_KEPT_MS = 400 * clock.DAY
"""How long the projects that asked a phone are stored. An operator can revoke a permission that lasts longer."""

_REFERENCE = re.compile(r"(P#[0-9]{1,18}#(?:live|test)#consent#[0-9a-f]{32}) [0-9]{1,18}")


class ConsentDocument(TypedDict):
    """A phone's latest request and the answer to it. Times are as in resources."""

    phone: str
    status: ConsentStatus | None
    """Null if the phone was never asked and never answered."""
    request: int
    """The number of the latest request, from 1; 0 before the first."""
    requests: list[str]
    """When the last two requests were made, for the limits."""
    requested_at: str | None
    """When the latest request was made. Null if the phone was never asked."""
    responded_at: str | None
    """When the customer answered. Null until then, and if the request expired."""
    expires_at: str | None
    """When the latest request expires. Null if the phone was never asked."""
    until: str | None
    """When a grant ends. Null for one that does not end, and for every other status."""
    sessions: list[str]
    """The sessions that wait for the answer."""


class ConsentRow(tasks.TaskRow):
    """The row of a phone's consent, which schedules the request's next step."""

    pk: str
    sk: str
    """Always `consent`."""
    kind: str
    """Always `consent`."""
    doc: str
    """The `ConsentDocument` as JSON text."""
    v: int
    """Counts the changes of the document, from 1. Claims and releases of the task do not count."""
    asked_request: NotRequired[int]
    """The number of the latest request that has been sent."""
    ask_tries: NotRequired[int]
    """How often the present request may have been sent."""
    task_token: NotRequired[str]
    """Resumes the state machine of the present request."""


@dataclass(frozen=True)
class Consent:
    """The consent of a phone as it was read. `row` is None if the phone was never asked and never answered."""

    scope: Scope
    phone: str
    doc: ConsentDocument
    row: ConsentRow | None = field(default=None, repr=False)

    @property
    def key(self) -> str:
        """The partition of its row."""
        return pk(self.scope, self.phone)

    @property
    def version(self) -> int:
        """The row's version, on condition of which it is written; 0 if there is no row."""
        return 0 if self.row is None else self.row["v"]

    @property
    def is_pending(self) -> bool:
        """Whether a request waits for its answer."""
        return self.doc["status"] == ConsentStatus.PENDING

    @property
    def is_granted(self) -> bool:
        """Whether the phone may be called now."""
        if self.doc["status"] == ConsentStatus.GRANTED:
            return self.doc["until"] is None or clock.parse(self.doc["until"]) > clock.now()
        return self.doc["status"] is None and self.behaviour == ConsentBehaviour.ON_FILE

    @property
    def expires_at(self) -> clock.Instant:
        """When the pending request expires."""
        assert self.doc["expires_at"] is not None, "a pending request expires"
        return clock.parse(self.doc["expires_at"])

    @property
    def answers_at(self) -> clock.Instant | None:
        """When a simulated customer answers the pending request; None for all other customers."""
        if self.behaviour in (None, ConsentBehaviour.SILENT):
            return None
        assert self.doc["requested_at"] is not None, "a pending request was made"
        return clock.parse(self.doc["requested_at"]) + clock.scaled_ms(SIMULATED_ANSWER_S)

    @property
    def simulated_answer(self) -> ConsentStatus:
        """The status that a simulated customer's answer leads to."""
        return ConsentStatus.DECLINED if self.behaviour == ConsentBehaviour.DECLINES else ConsentStatus.GRANTED

    @property
    def due_at(self) -> clock.Instant:
        """When the next step of a request that has been sent is due."""
        return self.expires_at if self.answers_at is None else min(self.expires_at, self.answers_at)

    @property
    def is_sent(self) -> bool:
        """Whether the present request has been sent."""
        return self.row is not None and self.row.get("asked_request") == self.request

    @property
    def ask_tries(self) -> int:
        """How often the present request may have been sent."""
        return 0 if self.row is None else self.row.get("ask_tries", 0)

    @property
    def task_token(self) -> str | None:
        """Resumes the state machine of the present request; None if it has not sent its token, or was resumed."""
        return None if self.row is None else self.row.get("task_token")

    @property
    def public(self) -> SessionConsent:
        """The consent in a session. A phone that may be called without a request has the status `granted`."""
        return public(self.doc)

    @property
    def request(self) -> int:
        """The number of the current request."""
        return self.doc["request"]

    @property
    def reference(self) -> str:
        """Identifies the current request in WhatsApp's reports. It contains only a hash of the phone."""
        return f"{self.key} {self.request}"

    @property
    def execution_name(self) -> str:
        """The name of the state machine's execution for the current request."""
        return f"{hashlib.sha256(self.key.encode()).hexdigest()[:40]}-{self.request}"

    @property
    def behaviour(self) -> ConsentBehaviour | None:
        """How a simulated customer reacts to a request; None for a live one."""
        return simulated_numbers.consent(self.phone) if self.scope.is_simulated else None


def pk(scope: Scope, phone: str) -> str:
    """The partition of a phone's consent. It has a hash of the phone, so that keys contain no phone numbers."""
    return scope.pk("consent", hashlib.sha256(phone.encode()).hexdigest()[:32])


def find(scope: Scope, phone: str) -> Consent:
    """The consent of a phone."""
    row = table.get(pk(scope, phone), "consent")
    return Consent(scope, phone, _never_asked(phone)) if row is None else of_row(scope, row)


def find_by_reference(reference: str) -> Consent | None:
    """The consent whose present request has this reference; None if there is none."""
    match = _REFERENCE.fullmatch(reference)
    consent = None if match is None else find_by_key(scope_of(match[1]), match[1])
    return consent if consent is not None and consent.reference == reference else None


def find_by_key(scope: Scope, key: str) -> Consent | None:
    """The consent in this partition, None if there is none."""
    row = table.get(key, "consent")
    return None if row is None else of_row(scope, row)


def of_row(scope: Scope, row: Mapping[str, Any]) -> Consent:
    """The consent in a row."""
    doc: ConsentDocument = json.loads(row["doc"])
    return Consent(scope, doc["phone"], doc, cast("ConsentRow", row))


def public(doc: ConsentDocument) -> SessionConsent:
    """The consent in a session."""
    return {
        # Only a consent on file has no status.
        "status": doc["status"] or ConsentStatus.GRANTED,
        "requested_at": doc["requested_at"],
        "responded_at": doc["responded_at"],
        "expires_at": doc["expires_at"],
    }


def with_request(consent: Consent, session_id: str) -> ConsentDocument:
    """The consent with a new request, for this session. Raises `consent_request_limited`."""
    now, old = clock.now(), consent.doc
    if _is_limited(consent, now):
        raise ApiError(Code.CONSENT_REQUEST_LIMITED)
    lasts_s = SILENCE_S if consent.behaviour == ConsentBehaviour.SILENT else LASTS_S
    return {
        **_never_asked(consent.phone),
        "status": ConsentStatus.PENDING,
        "request": old["request"] + 1,
        "requests": [*old["requests"], clock.iso(now)][-2:],
        "requested_at": clock.iso(now),
        "expires_at": clock.iso(now + clock.scaled_ms(lasts_s)),
        "sessions": [session_id],
    }


def with_session(consent: Consent, session_id: str) -> ConsentDocument:
    """The consent with another session that waits for the same answer. Raises `call_in_progress`."""
    if len(consent.doc["sessions"]) >= SESSIONS_LIMIT:
        raise ApiError(Code.CALL_IN_PROGRESS, f"{SESSIONS_LIMIT} calls already wait for this phone's consent.")
    return {**consent.doc, "sessions": [*consent.doc["sessions"], session_id]}


def without_session(consent: Consent, session_id: str) -> ConsentDocument:
    """The consent without a session that no longer waits for it."""
    return {**consent.doc, "sessions": [other for other in consent.doc["sessions"] if other != session_id]}


def with_answer(
    consent: Consent, status: ConsentStatus, at: clock.Instant, until: clock.Instant | None = None
) -> ConsentDocument:
    """The consent once its request is granted, declined or expired; `until` ends a grant."""
    return {
        **consent.doc,
        "status": status,
        "responded_at": None if status == ConsentStatus.EXPIRED else clock.iso(at),
        "until": None if until is None else clock.iso(until),
        "sessions": [],
    }


def is_outdated(consent: Consent, status: ConsentStatus, at: clock.Instant) -> bool:
    """Whether an answer is older than the pending request or the stored answer.

    Carriers report whole seconds. Of two answers in the same second, the refusal wins.
    """
    since = consent.doc["requested_at"] if consent.is_pending else consent.doc["responded_at"]
    if since is None:
        return False
    if consent.is_pending or status == ConsentStatus.DECLINED:
        return at + clock.SECOND <= clock.parse(since)
    return at <= clock.parse(since)


def document_write(consent: Consent, doc: ConsentDocument, internal: table.Attributes | None = None) -> table.Update:
    """The write that makes `doc` the phone's consent, on condition that it did not change since it was read.

    `internal` attributes are set, or removed if they are None. They include those of the task
    (`tasks.due_attributes`).
    """
    attributes: dict[str, table.Value | None] = {
        "kind": "consent",
        "doc": fields.to_json(doc),
        "v": consent.version + 1,
    }
    attributes |= internal or {}
    return table.Update(consent.key, "consent", set=attributes, condition=table.unchanged(consent.version))


def after_write(consent: Consent, write: table.Update) -> Consent:
    """The consent as it is after this write of it."""
    row: table.Row = {"pk": write.pk, "sk": write.sk, **(consent.row or {}), **write.set}
    return of_row(consent.scope, {name: value for name, value in row.items() if value is not None})


def unchanged_check(consent: Consent) -> table.Check:
    """The condition that the consent did not change since it was read."""
    return table.Check(consent.key, "consent", table.unchanged(consent.version))


def start_machine(consent: Consent) -> None:
    """Start the state machine that sends the wake-ups of a request that has been written, and waits for its answer."""
    seconds = -(-(consent.expires_at - clock.now()) // clock.SECOND)
    wake_up = wake_ups.new("consents", consent.key, "consent")
    execution_input = {**wake_up.message, "group": wake_up.group, "timeout_seconds": max(1, seconds)}
    wake_ups.start_state_machine("call_consent", consent.execution_name, execution_input)


def askers_pk(phone: str) -> str:
    """The partition of the rows that record which projects asked a phone."""
    return f"ASKED#{hashlib.sha256(phone.encode()).hexdigest()[:32]}"


def asker_write(consent: Consent, message_id: str) -> table.Put:
    """The write that records which project asked a phone, so that a reply finds it."""
    row = {"pk": askers_pk(consent.phone), "sk": consent.key, "kind": "asker", "message_id": message_id}
    expires_at = table.expiry(clock.now() + ASKER_KEPT_MS)
    return table.Put(row | {"asked_at": clock.now(), "expires_at": expires_at}, table.ALWAYS)


def find_asker(phone: str, message_id: str | None) -> Scope | None:
    """The project and mode of a phone's reply: those whose message it answers, else those that asked last."""
    rows = [row for page in table.query(askers_pk(phone), limit=100) for row in page if not table.is_expired(row)]
    rows.sort(key=lambda row: (row["message_id"] == message_id, row["asked_at"]))
    if not rows:
        return None
    trace.follow(rows[-1])
    return scope_of(rows[-1]["sk"])


def _never_asked(phone: str) -> ConsentDocument:
    """The document of a phone that was never asked and never answered."""
    return {
        "phone": phone,
        "status": None,
        "request": 0,
        "requests": [],
        "requested_at": None,
        "responded_at": None,
        "expires_at": None,
        "until": None,
        "sessions": [],
    }


def _is_limited(consent: Consent, now: clock.Instant) -> bool:
    """Whether the phone has had as many requests as it may get."""
    if consent.behaviour is not None:
        return consent.behaviour == ConsentBehaviour.LIMITED
    earlier = [clock.parse(at) for at in consent.doc["requests"]]
    return any(sum(now - at < period_ms for at in earlier) >= limit for period_ms, limit in REQUESTS)
