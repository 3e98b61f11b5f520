"""Consent to be called on WhatsApp, kept per project, mode and phone (contract 7).

One row for each phone: the latest request, what was answered, and the sessions that wait for it. Every change of
it is conditional on its version, so of an acceptance, a refusal and an expiry exactly one wins, and with it, in one
transaction, all sessions that wait. Timers, task tokens and queue messages are hints; `next_step` is the truth.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from shared.core import clock, mode, table
from shared.core.errors import ApiError
from shared.core.keys import Scope, scope_of
from shared.resources import fields
from shared.resources.records import Document
from shared.telephony import test_numbers
from shared.work import hints, steps

PENDING, GRANTED, DECLINED, EXPIRED = "pending", "granted", "declined", "expired"
LASTS = 7 * clock.DAY // clock.SECOND
"""Seconds, scaled, after which a request that nobody answers is over."""
SILENCE = 60
"""What stands for them where a simulated customer never answers (contract 10)."""
SIMULATED_ANSWER = 5
"""Seconds, scaled, after which a simulated customer answers."""
REQUESTS = ((clock.DAY, 1), (7 * clock.DAY, 2))
"""How many requests a phone may get in a time (Meta's limits for call permission requests; contract 7)."""
MOST_SESSIONS = 30
"""Sessions that may wait for one answer, as all of them are written in one transaction."""
KEPT = 400 * clock.DAY
"""How long it is remembered who asked a phone; a permission that lasts longer can be revoked by an operator."""
_NEVER: Document = {
    "status": None,
    "phone": None,
    "request": 0,
    "requests": [],
    "requested_at": None,
    "responded_at": None,
    "expires_at": None,
    "until": None,
    "sessions": [],
}


@dataclass(frozen=True)
class Consent:
    """What is known of a phone; version 0 where nothing was ever asked."""

    scope: Scope
    phone: str
    doc: Document
    version: int = 0
    row: table.Row = field(default_factory=dict, repr=False)

    @property
    def pending(self) -> bool:
        """Whether a request is waiting for its answer."""
        return bool(self.doc["status"] == PENDING)

    @property
    def granted(self) -> bool:
        """Whether the phone may be called now."""
        if self.doc["status"] == GRANTED:
            return self.doc["until"] is None or clock.parse(self.doc["until"]) > clock.now()
        return self.doc["status"] is None and self.simulated == test_numbers.Consent.ON_FILE

    @property
    def answers_at(self) -> int | None:
        """When a simulated customer answers the present request."""
        if self.simulated in (None, test_numbers.Consent.SILENT):
            return None
        return clock.parse(self.doc["requested_at"]) + clock.scaled(SIMULATED_ANSWER)

    @property
    def simulated_answer(self) -> bool:
        """What a simulated customer answers."""
        return self.simulated != test_numbers.Consent.DECLINES

    @property
    def asked(self) -> bool:
        """Whether the request has reached the customer."""
        return bool(self.row.get("asked_request") == self.request)

    @property
    def shown(self) -> Document:
        """What a session shows of it."""
        return shown(self.doc if self.doc["status"] else self.doc | {"status": GRANTED})

    @property
    def request(self) -> int:
        """The number of the present request."""
        return int(self.doc["request"])

    @property
    def machine(self) -> str:
        """The name of the state machine's execution for the present request."""
        return f"{hashlib.sha256(self.row['pk'].encode()).hexdigest()[:40]}-{self.request}"

    @property
    def simulated(self) -> test_numbers.Consent | None:
        """What a simulated customer does about being asked; None for a live one."""
        return test_numbers.consent(self.phone) if mode.simulated(self.scope) else None


def pk(scope: Scope, phone: str) -> str:
    """The partition of a phone's consent; the phone itself stays out of keys."""
    return scope.pk("consent", hashlib.sha256(phone.encode()).hexdigest()[:32])


def find(scope: Scope, phone: str) -> Consent:
    """The consent of a phone as it is now."""
    return of_row(scope, table.get(pk(scope, phone), "consent"), phone)


def find_by_key(scope: Scope, key: str) -> Consent | None:
    """The consent in this partition, None if there is none."""
    row = table.get(key, "consent")
    return None if row is None else of_row(scope, row, json.loads(row["doc"])["phone"])


def of_row(scope: Scope, row: table.Row | None, phone: str) -> Consent:
    """The consent in a row."""
    if row is None:
        return Consent(scope, phone, _NEVER, row={"pk": pk(scope, phone), "sk": "consent"})
    return Consent(scope, phone, json.loads(row["doc"]), row["v"], row)


def shown(doc: Document) -> Document:
    """What a session shows of a consent."""
    return {name: doc[name] for name in ("status", "requested_at", "responded_at", "expires_at")}


def requested(consent: Consent, session_id: str) -> Document:
    """The consent with a new request, for this session. Raises `consent_request_limited`."""
    now, old = clock.now(), consent.doc
    earlier = [clock.parse(at) for at in old["requests"]]
    limited = consent.simulated == test_numbers.Consent.LIMITED
    if consent.simulated is None:
        limited = any(sum(now - at < window for at in earlier) >= most for window, most in REQUESTS)
    if limited:
        raise ApiError("consent_request_limited")
    silent = consent.simulated == test_numbers.Consent.SILENT
    return _NEVER | {
        "status": PENDING,
        "phone": consent.phone,
        "request": old["request"] + 1,
        "requests": [*old["requests"], clock.iso(now)][-2:],
        "requested_at": clock.iso(now),
        "expires_at": clock.iso(now + clock.scaled(SILENCE if silent else LASTS)),
        "sessions": [session_id],
    }


def joined(consent: Consent, session_id: str) -> Document:
    """The consent with another session that waits for the same answer. Raises `call_in_progress`."""
    if len(consent.doc["sessions"]) >= MOST_SESSIONS:
        raise ApiError("call_in_progress", f"{MOST_SESSIONS} calls wait for this phone's consent already.")
    return consent.doc | {"sessions": [*consent.doc["sessions"], session_id]}


def left(consent: Consent, session_id: str) -> Document:
    """The consent without a session that does not wait for it any more."""
    return consent.doc | {"sessions": [other for other in consent.doc["sessions"] if other != session_id]}


def unchanged(consent: Consent) -> table.Check:
    """The condition that nothing was asked or answered since it was read."""
    if consent.version == 0:
        return table.Check(consent.row["pk"], "consent", condition=table.ABSENT)
    return table.Check(consent.row["pk"], "consent", condition="v = :v", values={":v": consent.version})


def answered(consent: Consent, status: str, at: int, until: int | None = None) -> Document:
    """The consent once its request is granted, declined or expired; `until` ends a grant."""
    responded = None if status == EXPIRED else clock.iso(at)
    ends = None if until is None else clock.iso(until)
    settled: Document = {
        "phone": consent.phone,
        "status": status,
        "responded_at": responded,
        "until": ends,
        "sessions": [],
    }
    return consent.doc | settled


def outdated(consent: Consent, status: str, at: int) -> bool:
    """Whether an answer is older than what is known; of two at once the refusal holds."""
    if consent.pending:
        # Carriers tell whole seconds.
        return at + clock.SECOND <= clock.parse(consent.doc["requested_at"])
    if consent.doc["responded_at"] is None:
        return False
    known = clock.parse(consent.doc["responded_at"])
    return known > at or (known == at and status != DECLINED)


def write(consent: Consent, doc: Document, next_step: int | None, **internal: table.Value | None) -> table.Put:
    """The write that makes `doc` the phone's consent, unless another came between."""
    row = {"pk": consent.row["pk"], "sk": "consent", "kind": "consent", "doc": fields.to_json(doc)}
    row |= {name: consent.row.get(name) for name in ("asked_request", "ask_tries", "task_token")} | internal
    if next_step is not None:
        row |= steps.owed(row["pk"], next_step)
    return table.versioned(row, consent.version)


def hint(scope: Scope, key: str, at: int | None = None) -> hints.Hint:
    """The message that tells the worker of a consent's next step, now or about `at`."""
    delay = 0 if at is None else hints.delay_until(at)
    return hints.Hint(_told(scope, key), group=scope.pk("consents"), delay=delay)


def begin(consent: Consent) -> None:
    """Start the state machine that asks and waits. `consent` has been written."""
    left = clock.parse(consent.doc["expires_at"]) - clock.now()
    given: dict[str, Any] = {
        **_told(consent.scope, consent.row["pk"]),
        "group": consent.scope.pk("consents"),
        "timeout_seconds": max(1, -(-left // clock.SECOND)),
    }
    hints.start("call_consent", consent.machine, given)


def next_step(consent: Consent) -> int:
    """When something is to be done about a request that has been sent."""
    expires = clock.parse(consent.doc["expires_at"])
    return expires if consent.answers_at is None else min(expires, consent.answers_at)


def asker(consent: Consent, message_id: str) -> table.Put:
    """The write that remembers who asked a phone, by which a reply finds its project."""
    row = {"pk": _askers(consent.phone), "sk": consent.row["pk"], "kind": "asker", "message_id": message_id}
    gone = (clock.now() + KEPT) // clock.SECOND
    return table.Put(row | {"asked_at": clock.now(), "expires_at": gone}, condition="")


def asked_by(phone: str, message_id: str | None) -> Scope | None:
    """The project and mode that a phone's reply is for: whose message it answers, else who asked last."""
    rows = [row for page in table.query(_askers(phone), limit=100) for row in page if not table.expired(row)]
    rows.sort(key=lambda row: (row["message_id"] == message_id, row["asked_at"]))
    return scope_of(rows[-1]["sk"]) if rows else None


def _askers(phone: str) -> str:
    return f"ASKED#{hashlib.sha256(phone.encode()).hexdigest()[:32]}"


def _told(scope: Scope, key: str) -> Document:
    return {"project_id": scope.project_id, "livemode": scope.livemode, "consent": key}
