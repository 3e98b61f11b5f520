"""Settlements: the end of a request for consent, and of the calls that wait for it (contract 7)."""

from __future__ import annotations

import uuid
from typing import Any

from shared.calls import consents, placing, sessions
from shared.calls.consents import Consent, ConsentDocument
from shared.calls.sessions import SESSIONS
from shared.core import aws, clock, table
from shared.core.keys import Scope
from shared.core.log import logger
from shared.telephony import Ending
from shared.work import hints, owed

ENDINGS = {
    consents.GRANTED: None,
    consents.DECLINED: placing.CONSENT_DECLINED,
    consents.EXPIRED: placing.CONSENT_EXPIRED,
}
"""The endings of the sessions that wait, by the consent's new status; None if they are dialed."""


def answer(scope: Scope, phone: str, status: str, at: int, until: int | None = None, *, revoked: bool = False) -> None:
    """Store a phone's answer, and settle every session that waits for it. `until` ends a grant.

    Without a pending request the answer is stored for later calls. An answer that is older than the stored one is
    dropped. `revoked` if it was not the customer who answered.
    """

    def attempt() -> None:
        consent = consents.find(scope, phone)
        if not consents.is_outdated(consent, status, at):
            ending = placing.CONSENT_REVOKED if revoked else ENDINGS[status]
            settle(consent, consents.answered(consent, status, at, until), ending)

    owed.retry_on_conflict(attempt)


def settle(
    consent: Consent,
    doc: ConsentDocument,
    ending: Ending | None,
    *,
    summary: str | None = None,
    claim: owed.Claim | None = None,
) -> None:
    """Make `doc` the phone's consent and dial the sessions that wait, or end them if there is an `ending`.

    `summary` is the summary of the sessions that end. `claim` is the worker's claim of the consent's row, if it has
    one. Raises ConditionFailed or Contended if one of the rows changed since `consent` was read.
    """
    scope = consent.scope
    changes: dict[str, Any] = {"consent": consents.public(doc)}
    if summary is not None:
        changes["summary"] = summary
    writes: list[table.Write] = [consents.update(consent, doc, {**owed.NO_WORK, "task_token": None})]
    to_dial: list[str] = []
    for session_id in consent.doc["sessions"]:
        session = SESSIONS.find(scope, session_id)
        if not sessions.awaits_consent(session.doc):
            continue
        if ending is None:
            writes.append(sessions.update(scope, session, changes, owed.due_attributes(session_id, clock.now())))
            to_dial.append(session_id)
        else:
            writes += placing.ending(scope, session, ending, changes)
    if claim is None:
        table.write(writes, uuid.uuid4().hex)
    else:
        owed.commit(claim, writes)
    hints.send("dials", [sessions.hint(scope, session_id) for session_id in to_dial])
    if consent.task_token is not None:
        resume_machine(consent.task_token)


def resume_machine(task_token: str) -> None:
    """End the state machine that waits with this token. Best effort: otherwise it ends when it times out."""
    try:
        aws.stepfunctions().call("SendTaskSuccess", {"taskToken": task_token, "output": "{}"})
    except (aws.AwsError, aws.Unavailable) as error:
        logger().info("machine not resumed", extra={"error": type(error).__name__})
