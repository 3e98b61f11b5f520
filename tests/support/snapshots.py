"""Snapshots of webhook endpoints, for the pure functions that judge them."""

from __future__ import annotations

from typing import Any, cast

from shared.core import clock
from shared.webhooks.endpoints.resource import EndpointSnapshot


def snapshot(id: str = "whk_1", generation: int = 0, *, deleted: bool = False) -> EndpointSnapshot:
    """An endpoint without any mark."""
    return EndpointSnapshot(
        doc=cast(Any, {"id": id}),
        generation=generation,
        closed={},
        deleted=deleted,
        slow_attempts=0,
        timeouts=0,
        slow_until=None,
        busy_until=clock.EPOCH,
        failing_since=None,
        noticed=False,
        version=1,
        secrets=(b"",),
    )
