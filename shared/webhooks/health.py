"""The health of an endpoint, from the outcomes of its attempts: slow, hanging, busy, failing or gone (promises 9)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from shared.core import clock
from shared.store import table
from shared.store.keys import Scope
from shared.webhooks import deliveries, endpoints, notices, queues
from shared.webhooks.deliveries import Ended, Retry
from shared.webhooks.endpoints import Snapshot
from shared.webhooks.queues import Arrival

if TYPE_CHECKING:
    from shared.webhooks.http_client import Outcome


NOTICE_AFTER = 10 * 60
"""Seconds, scaled, for which every attempt must have failed before a notice says so.

If an endpoint is disabled so soon after a person has created or changed it, the notice is a line of the log only: that
person sees it, and a client that enables it again and again does not flood the operators.
"""


def writes(
    scope: Scope, endpoint: Snapshot | None, url: str, step: Retry | Ended, outcome: Outcome, arrival: Arrival
) -> list[table.Write]:
    """The operations on the endpoint's row that belong to an attempt at `url`. Most attempts have none.

    A delivery fails only on condition that the endpoint has not changed: if it was disabled or deleted during the
    attempt, the delivery is canceled instead.
    """
    if endpoint is None or endpoint.deleted or step == Ended(deliveries.CANCELED):
        return []
    # The outcome at a previous URL says nothing about the current one.
    changes = _changes(scope, endpoint, step, outcome, arrival) if endpoint.doc["url"] == url else []
    if not changes and isinstance(step, Ended) and step.status == deliveries.FAILED:
        return [endpoints.unchanged(scope, endpoint)]
    return changes


def _changes(
    scope: Scope, endpoint: Snapshot, step: Retry | Ended, outcome: Outcome, arrival: Arrival
) -> list[table.Write]:
    now, failing_since = clock.now(), endpoint.failing_since
    if isinstance(step, Ended) and step.gone:
        return endpoints.disabling(scope, endpoint, "gone")
    if outcome.error and failing_since is not None and now - failing_since >= clock.scaled(endpoints.FAILING_LIMIT):
        return endpoints.disabling(scope, endpoint, "failing")
    attributes = queues.marks(endpoint, outcome, arrival)
    if bool(outcome.error) != (failing_since is not None):
        attributes["failing_since"] = now if outcome.error else None
    if _notice_is_due(endpoint, outcome):
        attributes["noticed"] = True if outcome.error else None
    if not attributes:
        return []
    write = endpoints.set_health(scope, endpoint, **attributes)
    return [_if_as_read(write, endpoint) if attributes.keys() & {"failing_since", "noticed"} else write]


def _if_as_read(write: table.Update, endpoint: Snapshot) -> table.Update:
    """The write, on condition that no concurrent attempt has changed whether the endpoint is failing.

    Therefore one attempt gives each notice, and `noticed` exists only together with `failing_since`.
    """
    noticed = "attribute_exists(noticed)" if endpoint.noticed else "attribute_not_exists(noticed)"
    since, values = "attribute_not_exists(failing_since)", write.values
    if endpoint.failing_since is not None:
        since, values = "failing_since = :since", {**values, ":since": endpoint.failing_since}
    return dataclasses.replace(write, condition=f"{write.condition} AND {noticed} AND {since}", values=values)


def announce(scope: Scope, endpoint: Snapshot, written: Sequence[table.Write]) -> None:
    """Give the notices that belong to the committed operations of an attempt (`writes`), each once.

    An endpoint is failing, has recovered from that, or was disabled because of its receiver's responses.
    """
    for write in written:
        changes = write.set if isinstance(write, table.Update) else {}
        if "doc" in changes:
            unchanged_for = clock.now() - clock.parse(endpoint.doc["updated_at"])
            notices.give(scope, endpoint.doc["id"], "disabled", message=unchanged_for >= clock.scaled(NOTICE_AFTER))
        elif changes.get("noticed"):
            notices.give(scope, endpoint.doc["id"], "failing")
        elif "noticed" in changes:
            notices.give(scope, endpoint.doc["id"], "recovered")


def _notice_is_due(endpoint: Snapshot, outcome: Outcome) -> bool:
    """Whether people must be told that the endpoint is failing, or that it has recovered."""
    if not outcome.error:
        return endpoint.noticed and endpoint.doc["enabled"]
    since = endpoint.failing_since
    return since is not None and not endpoint.noticed and clock.now() - since >= clock.scaled(NOTICE_AFTER)
