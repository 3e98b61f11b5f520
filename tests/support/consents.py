"""Consent to be called: what is stored of a phone, and the wake-ups at it."""

from __future__ import annotations

from typing import Any

from shared.calls.consent import consents
from shared.store.keys import Scope
from tests.support.resources import create_resource
from tests.support.simulated_calls import WHEN, Callee, session_of, work
from tests.support.stage import Stage, wake_up_record


def stored_consent(scope: Scope, phone: str) -> Any:
    """What is stored of a phone's consent."""
    return consents.find(scope, phone).doc


def reminder(stage: Stage, scope: Scope, phone: str, **also: Any) -> dict[str, Any]:
    """A wake-up at a consent; `task_token` in it as the machine sends it."""
    return wake_up_record(stage, "consents", consents.pk(scope, phone), "consent", **also)


def remind(stage: Stage, scope: Scope, phone: str) -> None:
    """Give the worker a wake-up; it may fail."""
    work(stage, "consent", reminder(stage, scope, phone))


def another_customer(stage: Stage, whom: Callee, phone: str) -> Callee:
    """Another customer of the same project."""
    id = create_resource(stage, "/v1/customers", phone=phone)["id"]
    return Callee(whom.scope, id, create_resource(stage, "/v1/appointments", customer_id=id, appointment_at=WHEN)["id"])


def status_and_reason(stage: Stage, id: str) -> tuple[str, str]:
    session = session_of(stage, id)
    return session["call_status"], session["ended_reason"]
