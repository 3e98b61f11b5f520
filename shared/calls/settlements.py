"""Settling a request for consent: its answer, the sessions and the machine that wait for it (contract 7)."""

from __future__ import annotations

import contextlib
import uuid

from botocore.exceptions import BotoCoreError, ClientError

from shared.calls import consents, placing, sessions
from shared.calls.consents import Consent
from shared.core import aws, table
from shared.core.keys import Scope
from shared.core.log import logger
from shared.work import hints

TRIES = 20


def answer(scope: Scope, phone: str, status: str, at: int, until: int | None = None, *, revoked: bool = False) -> None:
    """Settle the phone's request, and every session that waits for it; an answer older than the stored one is dropped.

    Without a pending request the answer is kept all the same: it holds for later calls. `revoked` where it was not
    the customer who answered.
    """
    for _ in range(TRIES):
        consent = consents.find(scope, phone)
        if consents.outdated(consent, status, at):
            return
        with contextlib.suppress(table.ConditionFailed, table.Contended):
            settle(consent, status, at, until, revoked=revoked)
            return
    raise RuntimeError("the consent was being changed by others all the while")


def settle(consent: Consent, status: str, at: int, until: int | None = None, *, revoked: bool = False) -> None:
    """Answer the request, if there is one; `until` ends a grant. Raises Refused or Contended where it lost a race."""
    doc = consents.answered(consent, status, at, until)
    refused = placing.REVOKED if revoked else placing.DECLINED
    end = {consents.GRANTED: None, consents.DECLINED: refused, consents.EXPIRED: placing.EXPIRED}[status]
    writes, dial = placing.settlement(consent.scope, consent, doc, end)
    table.write([consents.write(consent, doc, None, task_token=None), *writes], uuid.uuid4().hex)
    hints.send("dials", [sessions.hint(consent.scope, session_id) for session_id in dial])
    resume(consent)


def resume(consent: Consent) -> None:
    """Let the machine of the present request end, where its token is known."""
    if "task_token" in consent.row:
        send_success(consent.row["task_token"])


def send_success(token: str) -> None:
    """Let the machine end. Best effort: it is over at its time-out anyway, or it is gone already."""
    try:
        aws.stepfunctions().send_task_success(taskToken=token, output="{}")
    except (ClientError, BotoCoreError) as error:
        logger().info("machine not resumed", extra={"error": type(error).__name__})
