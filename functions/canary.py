"""Schedule, every five minutes -> one run of the canary, and its result as metrics. Failures are alarms."""

from __future__ import annotations

from typing import Any

from shared.canary import runs
from shared.core import metrics, settings, trace
from shared.core.log import logger


def handler(event: dict[str, Any], context: Any) -> dict[str, bool]:
    """Test the stage once. Whatever goes wrong, the metric says that the run failed."""
    with trace.naming():
        try:
            took_ms = runs.run(settings.base_url())
        except Exception as error:  # noqa: BLE001  # any error is a failed run
            logger().error("canary failed", extra={"reason": str(error)}, exc_info=not isinstance(error, runs.Failed))
            metrics.rate(metrics.CANARY_PASSED, False, service=metrics.CANARY)
            return {"passed": False}
    logger().info("canary passed", extra={"webhook_ms": took_ms})
    metrics.rate(metrics.CANARY_PASSED, True, service=metrics.CANARY)
    metrics.milliseconds(metrics.CANARY_WEBHOOK, took_ms, service=metrics.CANARY)
    return {"passed": True}
