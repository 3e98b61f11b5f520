"""Requests for consent: sending one, and closing it with every call that waits for its answer (promises 7).

A request is closed by an answer, by its expiry, or because it cannot be sent. One transaction closes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from shared.agent_settings import resource as agent_settings
from shared.aws import services
from shared.calls import dialing, endings, sessions
from shared.calls.consent import consents
from shared.calls.consent.consents import Consent, ConsentDocument, ConsentRow
from shared.calls.sessions import SESSIONS, SessionChanges
from shared.core import clock
from shared.core.call_statuses import (
    CONSENT_DECLINED,
    CONSENT_EXPIRED,
    CONSENT_REVOKED,
    OPTED_OUT,
    PROVIDER_ERROR,
    ConsentStatus,
    Ending,
)
from shared.core.log import logger
from shared.customers import opted_out_phones
from shared.store import table, transactions
from shared.store.keys import Scope, scope_of
from shared.tasks import tasks, wake_ups
from shared.telephony import Busy, NotConfigured, adapters, whatsapp

LEASE_MS = 40 * clock.SECOND
"""How long a worker may take for a step: the timeout of its function."""
ASK_AGAIN_MS = 60 * clock.SECOND
"""The wait before resending a request that may not have been sent."""
ASK_TRIES = 3
"""How often such a request is sent. The customer may see each of them."""
PERMISSION_LASTS_MS = clock.DAY
"""How long a permission that the customer gave in WhatsApp itself is trusted before WhatsApp is asked again."""
NOT_SET_UP = "Calls on WhatsApp are not set up for this deployment. "
CANNOT_ASK = "The customer could not be asked for consent on WhatsApp."
ENDINGS = {
    ConsentStatus.GRANTED: None,
    ConsentStatus.DECLINED: CONSENT_DECLINED,
    ConsentStatus.EXPIRED: CONSENT_EXPIRED,
}
"""The endings of the sessions that wait, by the consent's new status; None if they are dialed."""


@dataclass(frozen=True)
class Sent:
    """WhatsApp has accepted the request, as the message with this id."""

    message_id: str


@dataclass(frozen=True)
class Permitted:
    """The customer has permitted calls in another way. Nothing was sent."""

    at: clock.Instant
    """When WhatsApp was asked. A later refusal holds, although it is told later."""


@dataclass(frozen=True)
class NoResponse:
    """The request may have been sent. It is sent again later."""


@dataclass(frozen=True)
class CannotSend:
    """The request cannot be sent. The calls that wait for it end with this summary."""

    summary: str


SendResult = Sent | Permitted | NoResponse | CannotSend


def run_due_steps(pk: str) -> None:
    """Run the steps of a consent that are due, and send the wake-up for the next one."""
    scope = scope_of(pk)
    at = tasks.run_due_steps(pk, "consent", LEASE_MS, partial(_step, scope))
    if at is not None:
        wake_ups.send([wake_ups.new("consents", pk, "consent", at)])


def answer(
    scope: Scope,
    phone: str,
    status: ConsentStatus,
    at: clock.Instant,
    until: clock.Instant | None = None,
    *,
    revoked: bool = False,
) -> None:
    """Store a phone's answer, and close the request with every session that waits for it. `until` ends a grant.

    Without a pending request the answer is stored for later calls. An answer that is older than the stored one is
    dropped. `revoked` if it was not the customer who answered.
    """

    def attempt() -> None:
        consent = consents.find(scope, phone)
        if not consents.is_outdated(consent, status, at):
            ending = CONSENT_REVOKED if revoked else ENDINGS[status]
            close(consent, consents.with_answer(consent, status, at, until), ending)

    transactions.retry_on_conflict(attempt)


def close(
    consent: Consent,
    doc: ConsentDocument,
    ending: Ending | None,
    *,
    summary: str | None = None,
    claim: tasks.Claim[ConsentRow] | None = None,
) -> None:
    """Make `doc` the phone's consent and dial the sessions that wait, or end them if there is an `ending`.

    `summary` is the summary of the sessions that end. `claim` is the worker's claim of the consent's row, if it has
    one. Raises ConditionFailed or Contended if one of the rows changed since `consent` was read.
    """
    scope = consent.scope
    if ending is None and opted_out_phones.contains(scope, consent.phone):
        doc, ending = {**doc, "status": ConsentStatus.DECLINED, "until": None}, OPTED_OUT
    changes: SessionChanges = {"consent": consents.public(doc)}
    if summary is not None:
        changes["summary"] = summary
    writes: list[table.Write] = [consents.document_write(consent, doc, {**tasks.NO_WORK, "task_token": None})]
    to_wake: list[wake_ups.WakeUp] = []
    settings = agent_settings.read(scope).settings
    for session_id in consent.doc["sessions"]:
        session = SESSIONS.find(scope, session_id)
        if not sessions.awaits_consent(session.doc):
            continue
        if ending is None:
            dial_at = dialing.next_dial_time(settings, session.doc["not_before"])
            due = dialing.schedule(scope, session_id, dial_at, delay_s=0)
            dialed: SessionChanges = {**changes, "dial_at": clock.iso(dial_at)}
            writes.append(sessions.change_write(scope, session, dialed, due.attributes))
            to_wake += due.wake_ups
        else:
            writes += endings.end_writes(scope, session, ending, changes)
    if claim is None:
        table.write(writes)
    else:
        tasks.save_step(claim, writes)
    wake_ups.send(to_wake)
    if consent.task_token is not None:
        _resume_machine(consent.task_token)


def store_reply(reply: whatsapp.PermissionReply) -> None:
    """Store a customer's answer for the project whose request it answers, else for the one that asked last."""
    scope = consents.find_asker(reply.phone, reply.context_id)
    if scope is None:
        logger().info("consent reply matches no request")
        return
    status = ConsentStatus.GRANTED if reply.accepted else ConsentStatus.DECLINED
    answer(scope, reply.phone, status, reply.at, reply.until)


def end_undelivered(failure: whatsapp.UndeliveredRequest) -> None:
    """Fail the calls that wait for a request that WhatsApp accepted and did not deliver. They free their customers.

    If the request was sent more than once, one of the others may have been delivered: the request stays pending.
    """

    def attempt() -> None:
        consent = consents.find_by_reference(failure.reference)
        if consent is None or not consent.is_pending or consent.ask_tries > 1:
            logger().info("failure report matches no pending consent request", extra={"error": failure.code})
            return
        logger().warning("request for consent not delivered", extra={"error": failure.code})
        close(consent, _after_giving_up(consent, sent=False), PROVIDER_ERROR, summary=CANNOT_ASK)

    transactions.retry_on_conflict(attempt)


def keep_task_token(pk: str, task_token: str) -> None:
    """Store the token that resumes the state machine, or resume it at once if the request has been answered."""

    def attempt() -> None:
        consent = consents.find_by_key(scope_of(pk), pk)
        if consent is None or not consent.is_pending:
            _resume_machine(task_token)
        else:
            table.write([consents.document_write(consent, consent.doc, {"task_token": task_token})])

    transactions.retry_on_conflict(attempt)


def _step(scope: Scope, claim: tasks.Claim[ConsentRow]) -> None:
    """Run one step. Raises ConditionFailed or Contended if the rows were modified concurrently."""
    consent, now = consents.of_row(scope, claim.row), clock.now()
    if not consent.is_pending:
        tasks.save_step(claim, [consents.document_write(consent, consent.doc, tasks.NO_WORK)])
    elif now >= consent.expires_at:
        doc = consents.with_answer(consent, ConsentStatus.EXPIRED, now)
        close(consent, doc, CONSENT_EXPIRED, claim=claim)
    elif not consent.is_sent:
        _ask(claim, consent)
    elif consent.answers_at is not None and now >= consent.answers_at:
        doc = consents.with_answer(consent, consent.simulated_answer, now)
        close(consent, doc, ENDINGS[consent.simulated_answer], claim=claim)
    else:
        tasks.save_step(
            claim, [consents.document_write(consent, consent.doc, tasks.due_attributes(consent.key, consent.due_at))]
        )


def _ask(claim: tasks.Claim[ConsentRow], consent: Consent) -> None:
    """Send the request, and write what came of it. If it cannot be sent, the calls that wait fail."""
    if consent.scope.is_simulated:
        tasks.save_step(claim, [_sent_write(consent)])
        return
    tries = consent.ask_tries + 1
    started = consents.document_write(consent, consent.doc, {"ask_tries": tries})
    # The answer may arrive before this worker records that the request was sent.
    tasks.save_step(claim, [started, consents.asker_write(consent, "")], keep=True)
    consent = consents.after_write(consent, started)
    result = _send(consent)
    transactions.retry_on_conflict(lambda: _save_result(claim, consent, result))


def _send(consent: Consent) -> SendResult:
    """Send the request to the customer, unless the customer has permitted calls."""
    try:
        if consent.ask_tries > ASK_TRIES:
            raise whatsapp.CannotAsk("WhatsApp did not respond to any of the tries")
        messenger, now = adapters.messenger(), clock.now()
        if messenger.is_permitted(consent.phone):
            return Permitted(now)
        business = agent_settings.read(consent.scope).business
        return Sent(messenger.ask(consent.phone, business, consent.reference))
    except Busy as busy:
        logger().warning("messenger busy", extra={"error": str(busy)})
        return NoResponse()
    except (NotConfigured, whatsapp.CannotAsk) as error:
        logger().error("cannot ask for consent", extra={"error": str(error)})
        return CannotSend(NOT_SET_UP + str(error) if isinstance(error, NotConfigured) else CANNOT_ASK)


def _save_result(claim: tasks.Claim[ConsentRow], consent: Consent, result: SendResult) -> None:
    """Write the result of a request on the present consent, which other sessions may have joined.

    If the request has been closed meanwhile, nothing is written.
    """
    present, now = consents.find(consent.scope, consent.phone), clock.now()
    if not present.is_pending or present.request != consent.request:
        tasks.release(claim)
        return
    match result:
        case Sent(message_id):
            tasks.save_step(claim, [_sent_write(present), consents.asker_write(present, message_id)])
        case NoResponse():
            again = tasks.due_attributes(present.key, now + ASK_AGAIN_MS)
            tasks.save_step(claim, [consents.document_write(present, present.doc, again)])
        case Permitted(at):
            doc = consents.with_answer(present, ConsentStatus.GRANTED, at, at + PERMISSION_LASTS_MS)
            close(present, doc, None, claim=claim)
        case CannotSend(summary):
            doc = _after_giving_up(present, sent=present.ask_tries > 1)
            close(present, doc, PROVIDER_ERROR, summary=summary, claim=claim)


def _sent_write(consent: Consent) -> table.Update:
    """The write that records that the request was sent."""
    attributes = {**tasks.due_attributes(consent.key, consent.due_at), "asked_request": consent.request}
    return consents.document_write(consent, consent.doc, attributes)


def _after_giving_up(consent: Consent, *, sent: bool) -> ConsentDocument:
    """The consent after its request was given up. Only requests that were sent count towards the limits."""
    doc = consents.with_answer(consent, ConsentStatus.EXPIRED, clock.now())
    return doc if sent else {**doc, "requests": doc["requests"][:-1]}


def _resume_machine(task_token: str) -> None:
    """End the state machine that waits with this token. Best effort: otherwise it ends when it times out."""
    try:
        services.stepfunctions().call("SendTaskSuccess", {"taskToken": task_token, "output": "{}"})
    except (services.AwsError, services.Unavailable) as error:
        logger().info("machine not resumed", extra={"error": type(error).__name__})
