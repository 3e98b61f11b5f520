"""Asking: the steps of a request for consent, until it is answered or expires (contract 7)."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from shared.calls import consents, placing, settlements
from shared.calls.consents import DECLINED, EXPIRED, GRANTED, Consent, ConsentDocument
from shared.core import clock, mode, table
from shared.core.keys import Scope, scope_of
from shared.core.log import logger
from shared.projects import projects
from shared.telephony import Busy, NotConfigured, adapters, whatsapp
from shared.work import hints, owed

LEASE = 40 * clock.SECOND
"""How long a worker may take for a step: the timeout of its function."""
ASK_AGAIN = 60 * clock.SECOND
"""The wait before resending a request that may not have been sent."""
ASK_TRIES = 3
"""How often such a request is sent. The customer may see each of them."""
PERMISSION_LASTS = clock.DAY
"""How long a permission that the customer gave in WhatsApp itself is trusted before WhatsApp is asked again."""
NOT_SET_UP = "Calls on WhatsApp are not set up for this deployment. "
CANNOT_ASK = "The customer could not be asked for consent on WhatsApp."


def run_due_steps(pk: str) -> None:
    """Run the steps of a consent that are due, and send the hint for the next one."""
    scope = scope_of(pk)
    at = owed.run_due_steps(pk, "consent", LEASE, lambda claim: _step(scope, claim))
    if at is not None:
        hints.send("consents", [consents.hint(pk, at)])


def store_reply(reply: whatsapp.PermissionReply) -> None:
    """Store a customer's answer for the project whose request it answers, else for the one that asked last."""
    scope = consents.asked_by(reply.phone, reply.context_id)
    if scope is None:
        logger().info("consent reply matches no request")
        return
    settlements.answer(scope, reply.phone, GRANTED if reply.accepted else DECLINED, reply.at, reply.until)


def end_undelivered(failure: whatsapp.Failure) -> None:
    """Fail the calls that wait for a request that WhatsApp accepted and did not deliver. They free their customers.

    If the request was sent more than once, one of the others may have been delivered: the request stays pending.
    """

    def attempt() -> None:
        consent = consents.referred(failure.reference)
        if consent is None or not consent.pending or consent.ask_tries > 1:
            logger().info("failure report matches no pending consent request", extra={"error": failure.code})
            return
        logger().warning("request for consent not delivered", extra={"error": failure.code})
        settlements.settle(consent, _given_up(consent, sent=False), placing.PROVIDER_ERROR, summary=CANNOT_ASK)

    owed.retry_on_conflict(attempt)


def keep_task_token(pk: str, task_token: str) -> None:
    """Store the token that resumes the state machine, or resume it at once if the request has been answered."""

    def attempt() -> None:
        consent = consents.find_by_key(scope_of(pk), pk)
        if consent is None or not consent.pending:
            settlements.resume_machine(task_token)
        else:
            table.write([consents.update(consent, consent.doc, {"task_token": task_token})], uuid.uuid4().hex)

    owed.retry_on_conflict(attempt)


def _step(scope: Scope, claim: owed.Claim) -> None:
    """Run one step. Raises ConditionFailed or Contended if the rows were modified concurrently."""
    consent, now = consents.of_row(scope, claim.row), clock.now()
    if not consent.pending:
        owed.commit(claim, [consents.update(consent, consent.doc, owed.NO_WORK)])
    elif now >= consent.expires_at:
        doc = consents.answered(consent, EXPIRED, now)
        settlements.settle(consent, doc, placing.CONSENT_EXPIRED, claim=claim)
    elif not consent.asked:
        _ask(claim, consent)
    elif consent.answers_at is not None and now >= consent.answers_at:
        doc = consents.answered(consent, consent.simulated_answer, now)
        settlements.settle(consent, doc, settlements.ENDINGS[consent.simulated_answer], claim=claim)
    else:
        owed.commit(claim, [consents.update(consent, consent.doc, owed.due_attributes(consent.key, consent.due_at))])


def _ask(claim: owed.Claim, consent: Consent) -> None:
    """Send the request, unless the customer has permitted calls. If it cannot be sent, the calls that wait fail."""
    if mode.is_simulated(consent.scope):
        owed.commit(claim, [_asked(consent)])
        return
    tries = consent.ask_tries + 1
    started = consents.update(consent, consent.doc, {"ask_tries": tries})
    # The answer may arrive before this worker records that the request was sent.
    owed.commit(claim, [started, consents.asker(consent, "")], keep=True)
    consent = consents.after(consent, started)
    try:
        if tries > ASK_TRIES:
            raise whatsapp.CannotAsk("WhatsApp did not respond to any of the tries")
        messenger = adapters.messenger()
        if messenger.permitted(consent.phone):
            _while_pending(claim, consent, lambda present: _grant(claim, present))
            return
        name = projects.name_of(consent.scope.project_id)
        message_id = messenger.ask(consent.phone, f"May {name} call you on WhatsApp?", consent.reference)
    except Busy as busy:
        logger().warning("messenger busy", extra={"error": str(busy)})
        _while_pending(claim, consent, lambda present: _ask_again(claim, present))
    except (NotConfigured, whatsapp.CannotAsk) as error:
        logger().error("cannot ask for consent", extra={"error": str(error)})
        summary = NOT_SET_UP + str(error) if isinstance(error, NotConfigured) else CANNOT_ASK
        _while_pending(claim, consent, lambda present: _give_up(claim, present, summary, sent=tries > 1))
    else:
        _while_pending(
            claim,
            consent,
            lambda present: owed.commit(claim, [_asked(present), consents.asker(present, message_id)]),
        )


def _while_pending(claim: owed.Claim, consent: Consent, record: Callable[[Consent], None]) -> None:
    """Let `record` write the outcome of the request on the current consent, which other sessions may have joined.

    If the request has been settled meanwhile, nothing is written.
    """

    def attempt() -> None:
        present = consents.find(consent.scope, consent.phone)
        if present.pending and present.request == consent.request:
            record(present)
        else:
            owed.release(claim)

    owed.retry_on_conflict(attempt)


def _asked(consent: Consent) -> table.Update:
    """The write that records that the request was sent."""
    attributes = {**owed.due_attributes(consent.key, consent.due_at), "asked_request": consent.request}
    return consents.update(consent, consent.doc, attributes)


def _ask_again(claim: owed.Claim, consent: Consent) -> None:
    """Postpone the next try of a request that may have been sent."""
    owed.commit(
        claim, [consents.update(consent, consent.doc, owed.due_attributes(consent.key, clock.now() + ASK_AGAIN))]
    )


def _grant(claim: owed.Claim, consent: Consent) -> None:
    """Settle the request with a permission that the customer gave in another way."""
    now = clock.now()
    doc = consents.answered(consent, GRANTED, now, now + PERMISSION_LASTS)
    settlements.settle(consent, doc, None, claim=claim)


def _give_up(claim: owed.Claim, consent: Consent, summary: str, *, sent: bool) -> None:
    """Fail the calls that wait for a request that cannot be sent. `sent` if an earlier try may have been sent."""
    doc = _given_up(consent, sent=sent)
    settlements.settle(consent, doc, placing.PROVIDER_ERROR, summary=summary, claim=claim)


def _given_up(consent: Consent, *, sent: bool) -> ConsentDocument:
    """The consent after its request was given up. Only requests that were sent count towards the limits."""
    doc = consents.answered(consent, EXPIRED, clock.now())
    return doc if sent else {**doc, "requests": doc["requests"][:-1]}
