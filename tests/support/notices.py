"""Endpoints whose health changes, and the notices about it."""

from __future__ import annotations

import logging

from tests.support.clocks import Clock
from tests.support.deliveries import PHONE
from tests.support.resources import create_resource
from tests.support.stage import Stage

FAILING, RECOVERED, DISABLED = (f"webhook endpoint {what}" for what in ("failing", "recovered", "disabled"))


def notices(lines: list[logging.LogRecord]) -> list[str]:
    return [line.getMessage() for line in lines if line.getMessage() in (FAILING, RECOVERED, DISABLED)]


def deliver_event(stage: Stage, time: Clock) -> None:
    """An event is sent to the endpoint."""
    create_resource(stage, "/v1/customers", phone=PHONE)
    stage.fan_out()
    stage.deliver("deliveries", "slow_deliveries")
    time.forward(1)
