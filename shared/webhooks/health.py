"""What an attempt says of its endpoint: that it is slow, failing, or gone (contract 9, "A receiver's 410")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.core import clock, table
from shared.core.keys import Scope
from shared.webhooks import deliveries, endpoints
from shared.webhooks.deliveries import Ended, Retry
from shared.webhooks.endpoints import State

if TYPE_CHECKING:
    from shared.webhooks.http_client import Outcome

SLOW = 5 * clock.SECOND
"""A receiver that takes this long is slow."""


def writes(
    scope: Scope, endpoint: State | None, url: str, step: Retry | Ended, outcome: Outcome, *, behind: bool
) -> list[table.Operation]:
    """The operations on the endpoint's row that an attempt at `url` is recorded with; most attempts have none.

    `behind` if the endpoint's first attempts have fallen behind. An attempt fails for good only if the endpoint is
    unchanged: closed meanwhile, it ends the delivery as canceled.
    """
    if endpoint is None or endpoint.deleted or step == Ended(deliveries.CANCELED):
        return []
    # What the receiver at one URL did says nothing of the one at another.
    changes = _changes(scope, endpoint, step, outcome, behind) if endpoint.doc["url"] == url else []
    if not changes and isinstance(step, Ended) and step.status == deliveries.FAILED:
        return [endpoints.unchanged(scope, endpoint)]
    return changes


def _changes(
    scope: Scope, endpoint: State, step: Retry | Ended, outcome: Outcome, behind: bool
) -> list[table.Operation]:
    now, failing_since = clock.now(), endpoint.failing_since
    if isinstance(step, Ended) and step.gone:
        return endpoints.disabling(scope, endpoint, "gone")
    if outcome.error and failing_since is not None and now - failing_since >= clock.scaled(endpoints.FAILING_LIMIT):
        return endpoints.disabling(scope, endpoint, "failing")
    attributes: dict[str, table.Value | None] = {}
    if bool(outcome.error) != (failing_since is not None):
        attributes["failing_since"] = now if outcome.error else None
    if (behind or outcome.duration_ms >= SLOW) and endpoint.slow_until < now:
        attributes["slow_until"] = now + endpoints.SLOW_FOR
    return [endpoints.set_health(scope, endpoint, **attributes)] if attributes else []
