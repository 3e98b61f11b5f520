"""The health of an endpoint, from the outcomes of its attempts: slow, hanging, busy, failing or gone (promises 9).

`mark` says when an endpoint is slow, hanging or busy, which decides about its queues (`queues.py`). `after_attempt`
adds when it is failing, noticed or disabled. A notice is a line of the log, and a message of SNS to the topic that also
gets the alarms. A stage without that topic, and the local runner, only log.
"""

from __future__ import annotations

import dataclasses
from enum import StrEnum
from typing import TYPE_CHECKING

from shared.aws import services
from shared.core import clock, settings, threads
from shared.core.log import logger
from shared.store import table
from shared.store.keys import Scope
from shared.store.transactions import Change
from shared.webhooks import queues
from shared.webhooks.deliveries.resource import DeliveryError, DeliveryStatus
from shared.webhooks.endpoints import commands as endpoint_commands
from shared.webhooks.endpoints.resource import (
    HANGING_FROM,
    WEBHOOK_ENDPOINTS,
    DisabledReason,
    EndpointSnapshot,
    unchanged_check,
)
from shared.webhooks.queues import Arrival

if TYPE_CHECKING:
    # The admin pages and the documentation read the limits below, and do without aiohttp.
    from shared.webhooks.http_client import AttemptOutcome

FAILING_LIMIT_S = 5 * 24 * 3600
"""Unscaled seconds for which every attempt must have failed before an endpoint is disabled."""
NOTICE_AFTER_S = 10 * 60
"""Unscaled seconds for which every attempt must have failed before a notice says so.

If an endpoint is disabled so soon after a person has created or changed it, the notice is a line of the log only: that
person sees it, and a client that enables it again and again does not flood the operators.
"""
NOTICE_S = 2
"""How long an attempt waits for SNS at most. Other deliveries of the batch wait for it."""
SLOW_ATTEMPT_MS = 5 * clock.SECOND
"""The duration from which an attempt counts as slow."""
SLOW_ATTEMPTS = 3
"""The slow attempts in a row after which an endpoint is slow."""
SLOW_FOR_MS = 60 * clock.SECOND
"""How long the mark of a slow endpoint lasts. A slow attempt renews it if less than half is left."""
BEHIND_MS = clock.SECOND // 2
"""How long a first attempt waits in its queue before its endpoint counts as busy."""
BUSY_FOR_MS = 10 * clock.MINUTE
"""How long the mark of a busy endpoint lasts. A first attempt that waited renews it if less than half is
left."""


class HealthNotice(StrEnum):
    """What a notice says about an endpoint."""

    FAILING = "failing"
    """Every attempt of `NOTICE_AFTER_S` failed."""
    RECOVERED = "recovered"
    """An attempt succeeded again."""
    DISABLED = "disabled"
    """The service disabled it."""


_MEANING = {
    HealthNotice.FAILING: "Every attempt of the last ten minutes failed. Deliveries are retried; after five days of"
    " failures, the service disables the endpoint.",
    HealthNotice.RECOVERED: "An attempt succeeded again. Deliveries that wait for a retry are sent when they are due.",
    HealthNotice.DISABLED: "Its receiver responded 410 Gone, or every attempt of five days failed. The endpoint gets no"
    " events until it is enabled again.",
}


def after_attempt(
    scope: Scope,
    endpoint: EndpointSnapshot | None,
    url: str,
    status: DeliveryStatus,
    outcome: AttemptOutcome,
    arrival: Arrival,
) -> Change[None]:
    """What an attempt at `url` changes about its endpoint, with the notice of it. Most attempts change nothing.

    A delivery fails only on condition that the endpoint has not changed: if it was disabled or deleted during the
    attempt, the delivery is canceled instead.
    """
    if endpoint is None or endpoint.deleted or status == DeliveryStatus.CANCELED:
        return Change(None)
    # The outcome at a previous URL says nothing about the current one.
    same_url = endpoint.doc["url"] == url
    change = _mark_or_disable(scope, endpoint, outcome, arrival) if same_url else Change(None)
    if not change.writes and status == DeliveryStatus.FAILED:
        return Change(None, [unchanged_check(scope, endpoint)])
    return change


def _mark_or_disable(
    scope: Scope, endpoint: EndpointSnapshot, outcome: AttemptOutcome, arrival: Arrival
) -> Change[None]:
    now, failing_since = clock.now(), endpoint.failing_since
    if outcome.status == 410:
        return _disable(scope, endpoint, DisabledReason.GONE)
    if outcome.error and failing_since is not None and now - failing_since >= clock.scaled_ms(FAILING_LIMIT_S):
        return _disable(scope, endpoint, DisabledReason.FAILING)
    attributes, notice = mark(endpoint, outcome, arrival), _notice(endpoint, outcome)
    if bool(outcome.error) != (failing_since is not None):
        attributes["failing_since"] = now if outcome.error else None
    if notice is not None:
        attributes["noticed"] = True if notice is HealthNotice.FAILING else None
    if not attributes:
        return Change(None)
    write = attributes_write(scope, endpoint, **attributes)
    if attributes.keys() & {"failing_since", "noticed"}:
        write = _as_read_write(write, endpoint)
    if notice is None:
        return Change(None, [write])
    return Change(None, [write], after_commit=lambda: send_notice(scope, endpoint, notice))


def _as_read_write(write: table.Update, endpoint: EndpointSnapshot) -> table.Update:
    """The write, on condition that no concurrent attempt has changed whether the endpoint is failing.

    Therefore one attempt gives each notice, and `noticed` exists only together with `failing_since`.
    """
    noticed = table.equals("noticed", endpoint.noticed or None)
    since = table.equals("failing_since", endpoint.failing_since)
    return dataclasses.replace(write, condition=write.condition & noticed & since)


def _notice(endpoint: EndpointSnapshot, outcome: AttemptOutcome) -> HealthNotice | None:
    """The notice that is due: that the endpoint is failing, or that it has recovered."""
    if not outcome.error:
        return HealthNotice.RECOVERED if endpoint.noticed and endpoint.doc["enabled"] else None
    since = endpoint.failing_since
    is_due = since is not None and not endpoint.noticed and clock.now() - since >= clock.scaled_ms(NOTICE_AFTER_S)
    return HealthNotice.FAILING if is_due else None


def _disable(scope: Scope, endpoint: EndpointSnapshot, reason: DisabledReason) -> Change[None]:
    """Disable an endpoint because of its receiver's responses.

    Nothing changes if the endpoint was disabled, deleted or changed to another URL since `endpoint` was read, or if the
    reason is `failing` and an attempt has succeeded since.
    """
    row = table.get(scope.pk(WEBHOOK_ENDPOINTS.kind), endpoint.doc["id"])
    if row is None or row["generation"] != endpoint.generation:
        return Change(None)
    record = WEBHOOK_ENDPOINTS.record(row)
    if record.doc["url"] != endpoint.doc["url"]:
        return Change(None)
    if reason is DisabledReason.FAILING and row.get("failing_since") != endpoint.failing_since:
        return Change(None)
    change = endpoint_commands.disable(scope, record, reason)
    if not change.writes:
        return Change(None)
    return Change(None, change.writes, after_commit=lambda: send_notice(scope, endpoint, HealthNotice.DISABLED))


def attributes_write(scope: Scope, endpoint: EndpointSnapshot, **attributes: table.Value | None) -> table.Update:
    """The write of an endpoint's health attributes, on condition that the endpoint has not changed since."""
    as_read = table.unchanged(endpoint.version)
    return table.Update(scope.pk(WEBHOOK_ENDPOINTS.kind), endpoint.doc["id"], set=attributes, condition=as_read)


def send_notice(scope: Scope, endpoint: EndpointSnapshot, notice: HealthNotice) -> None:
    """Send the notice of a committed change, once. Best effort: a message that cannot be sent is logged."""
    endpoint_id, unchanged_for = endpoint.doc["id"], clock.now() - clock.parse(endpoint.doc["updated_at"])
    mode = "live" if scope.livemode else "test"
    about = {"project_id": scope.project_id, "mode": mode, "endpoint_id": endpoint_id}
    logger().warning(f"webhook endpoint {notice}", extra=about)
    topic = settings.notices_topic_arn()
    if topic is None or (notice is HealthNotice.DISABLED and unchanged_for < clock.scaled_ms(NOTICE_AFTER_S)):
        return
    parameters = {
        "TopicArn": topic,
        "Subject": f"Webhook endpoint {notice}: project {scope.project_id}, {mode} mode",
        "Message": f"The webhook endpoint {endpoint_id} of project {scope.project_id} ({mode} mode) is {notice}.\n\n"
        f"{_MEANING[notice]}\n\nIts attempts and responses are in the admin pages, at\n"
        f"/admin/projects/{scope.project_id}/{mode}/webhook_endpoints/{endpoint_id}",
    }
    try:
        in_time = threads.run_within(NOTICE_S, lambda: services.call(services.sns().publish, **parameters))
        problem = "" if in_time else f"SNS did not respond within {NOTICE_S} seconds"
    except (services.AwsError, services.Unavailable) as error:
        problem = str(error)
    if problem:
        logger().warning("notice not sent", extra=about | {"error": problem})


def mark(endpoint: EndpointSnapshot, outcome: AttemptOutcome, arrival: Arrival) -> dict[str, table.Value | None]:
    """The changes to the endpoint's marks after an attempt. Most attempts have none."""
    now = clock.now()
    if outcome.duration_ms < SLOW_ATTEMPT_MS:
        return _after_quick(endpoint, arrival, now)
    slow = min(endpoint.slow_attempts + 1, SLOW_ATTEMPTS)
    timeouts = min(endpoint.timeouts + 1, HANGING_FROM) if outcome.error == DeliveryError.TIMEOUT else 0
    changes: dict[str, table.Value | None] = {}
    if slow != endpoint.slow_attempts:
        changes["slow_attempts"] = slow
    if timeouts != endpoint.timeouts:
        changes["timeouts"] = timeouts or None
    # Renewed early, so that the mark does not end between two slow attempts.
    if slow == SLOW_ATTEMPTS and (endpoint.slow_until is None or endpoint.slow_until - now < SLOW_FOR_MS // 2):
        changes["slow_until"] = now + SLOW_FOR_MS
    return changes


def _after_quick(endpoint: EndpointSnapshot, arrival: Arrival, now: clock.Instant) -> dict[str, table.Value | None]:
    if endpoint.hanging:
        return {"timeouts": None, "slow_until": now + SLOW_FOR_MS}
    changes: dict[str, table.Value | None] = {}
    if endpoint.timeouts:
        changes["timeouts"] = None
    if endpoint.slow_until is None or endpoint.slow_until <= now:
        ended = {"slow_attempts": endpoint.slow_attempts, "slow_until": endpoint.slow_until}
        changes |= {name: None for name, value in ended.items() if value}
    waited_ms = arrival.waited_ms if arrival.queue == queues.FIRST else 0
    if waited_ms > BEHIND_MS and endpoint.busy_until - now < BUSY_FOR_MS // 2:
        changes["busy_until"] = now + BUSY_FOR_MS
    return changes
