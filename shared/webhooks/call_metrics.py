"""Metrics of live calls, from their events: every call has one event of its end, whatever ended it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from shared.core import metrics

ENDS = frozenset(f"session.{status}" for status in ("completed", "no_answer", "failed", "invalid_number", "call_later"))
"""The types of the events of a call's end (promises 7)."""
FAILURES = frozenset({"provider_error", "provider_timeout"})
"""The values of `ended_reason` that the carrier or this service causes."""


def count_event(type: str, row: Mapping[str, Any]) -> None:
    """Record an event of this type and the new image of its row: if a live call has ended, whether it failed."""
    if type not in ENDS:
        return
    session = json.loads(row["doc"])
    # Test keys choose the outcome of a call themselves.
    if session["livemode"]:
        metrics.rate(metrics.FAILED_CALLS, session["ended_reason"] in FAILURES, service=metrics.CALLS)
