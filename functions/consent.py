"""Queue -> the steps of a request for consent: ask, take the answer, let it expire (contract 7).

Messages are hints of the service and of the `call_consent` machine, which also bring its task token, and what
WhatsApp publishes of customers' answers.
"""

from __future__ import annotations

import contextlib
import functools
import json
import uuid
from typing import Any

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from shared.calls import consents, placing, settlements
from shared.calls.consents import Consent
from shared.core import clock, mode, table
from shared.core.keys import Scope
from shared.core.log import logger
from shared.projects import projects
from shared.telephony import NotConfigured, whatsapp
from shared.work import batches, hints, steps

LEASE = 60 * clock.SECOND
"""How long one worker may take to ask, before another does."""
ASK_TRIES = 3
"""How often a request is sent of which it is not known whether it arrived; the customer may see each of them."""
FOUND_LASTS = clock.DAY
"""How long a permission holds that WhatsApp knows of and this service does not, before it is looked for again."""
TRIES = 20
NOT_SET_UP = "Calls on WhatsApp are not set up for this deployment. "
CANNOT_ASK = "The customer could not be asked for consent on WhatsApp."


def handler(event: dict[str, Any], context: Any) -> Any:
    """A batch of messages; each is independent of the others."""
    return batches.each_message(event, context, take)


def take(record: SQSRecord) -> None:
    """Take the steps that are due, or an answer from WhatsApp."""
    told = json.loads(record.body)
    if "whatsAppWebhookEntry" in told:
        for reply in whatsapp.replies(record.body):
            _replied(reply)
        return
    scope = Scope(told["project_id"], told["livemode"])
    if "task_token" in told:
        _keep_token(scope, told["consent"], told["task_token"])
    taken = steps.take(told["consent"], "consent", lambda row: _step(scope, row))
    if taken is not None:
        hints.send("consents", [consents.hint(scope, told["consent"], taken)])


def _step(scope: Scope, row: table.Row) -> None:
    """One step. Raises CallRefused or Contended where another worker was quicker."""
    consent = consents.of_row(scope, row, json.loads(row["doc"])["phone"])
    now = clock.now()
    if not consent.pending:
        _write([consents.write(consent, consent.doc, None)])
    elif now >= clock.parse(consent.doc["expires_at"]):
        settlements.settle(consent, consents.EXPIRED, now)
    elif not consent.asked:
        _ask(consent)
    elif consent.answers_at is not None and now >= consent.answers_at:
        settlements.settle(consent, consents.GRANTED if consent.simulated_answer else consents.DECLINED, now)
    else:
        _write([consents.write(consent, consent.doc, consents.next_step(consent))])


def _ask(consent: Consent) -> None:
    """Send the request, unless the customer has said yes by another way; where it cannot be sent, the calls fail."""
    if mode.simulated(consent.scope):
        _write([consents.write(consent, consent.doc, consents.next_step(consent), asked_request=consent.request)])
        return
    tries = consent.row.get("ask_tries", 0) + 1
    lease = consents.write(consent, consent.doc, clock.now() + LEASE, ask_tries=tries)
    # An answer may come before it is written down that the question was sent.
    _write([lease, consents.asker(consent, "")])
    held = consents.of_row(consent.scope, lease.row, consent.phone)
    try:
        if tries > ASK_TRIES:
            raise whatsapp.CannotAsk("WhatsApp did not answer time after time")
        if _whatsapp().permitted(consent.phone):
            settlements.settle(held, consents.GRANTED, clock.now(), clock.now() + FOUND_LASTS)
            return
        name = projects.name_of(consent.scope.project_id)
        message_id = _whatsapp().ask(consent.phone, f"May {name} call you on WhatsApp?")
    except (NotConfigured, whatsapp.CannotAsk) as error:
        logger().error("consent cannot be asked for", extra={"why": str(error)})
        summary = NOT_SET_UP + str(error) if isinstance(error, NotConfigured) else CANNOT_ASK
        doc = consents.answered(held, consents.EXPIRED, clock.now())
        if tries == 1:
            # What was never sent does not count towards the limits; an earlier try may have been.
            doc["requests"] = doc["requests"][:-1]
        writes, _ = placing.settlement(held.scope, held, doc, placing.PROVIDER_ERROR, summary=summary)
        _write([consents.write(held, doc, None), *writes])
        settlements.resume(held)
        return
    _keep_asked(held, message_id)


def _keep_asked(held: Consent, message_id: str) -> None:
    """Write down that the request was sent; others may have joined it meanwhile, or it may be answered."""
    for _ in range(TRIES):
        consent = consents.find(held.scope, held.phone)
        if not consent.pending or consent.request != held.request:
            return
        asked = consents.write(consent, consent.doc, consents.next_step(consent), asked_request=held.request)
        with contextlib.suppress(table.ConditionFailed, table.Contended):
            _write([asked, consents.asker(consent, message_id)])
            return
    raise RuntimeError("the consent was being changed by others all the while")


def _replied(reply: whatsapp.PermissionReply) -> None:
    """Take a customer's answer to the project that asked last, or to the one whose request it answers."""
    scope = consents.asked_by(reply.phone, reply.context_id)
    if scope is None:
        logger().info("an answer that nobody asked for")
        return
    settlements.answer(
        scope, reply.phone, consents.GRANTED if reply.accepted else consents.DECLINED, reply.at, reply.until
    )


def _keep_token(scope: Scope, key: str, token: str) -> None:
    """Remember how to resume the machine; resume it at once where the answer came first."""
    for _ in range(TRIES):
        consent = consents.find_by_key(scope, key)
        if consent is None or not consent.pending:
            settlements.send_success(token)
            return
        with contextlib.suppress(table.ConditionFailed, table.Contended):
            _write([consents.write(consent, consent.doc, consent.row.get("next_step"), task_token=token)])
            return
    raise RuntimeError("the consent was being changed by others all the while")


def _write(writes: list[table.Operation]) -> None:
    table.write(writes, uuid.uuid4().hex)


@functools.cache
def _whatsapp() -> whatsapp.WhatsApp:
    return whatsapp.WhatsApp.from_environment()
