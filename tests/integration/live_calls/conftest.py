"""Live mode, a carrier that does as the test says, and a log without anybody's words."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from shared.telephony import adapters
from tests.support.live_calls import SECRETS, Line, log_without_secrets
from tests.support.stage import Stage


@pytest.fixture(autouse=True)
def logged(stage: Stage) -> Iterator[list[logging.LogRecord]]:
    with log_without_secrets(SECRETS) as lines:
        yield lines


@pytest.fixture(autouse=True)
def live(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIMULATE_LIVE", "0")


@pytest.fixture
def line() -> Iterator[Line]:
    carrier = Line()
    adapters.use(carrier=carrier)
    yield carrier
    adapters.use()
