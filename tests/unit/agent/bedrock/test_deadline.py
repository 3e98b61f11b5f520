"""A request to the model is cut off at the end of the turn's time, by a real socket and a real clock."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time

import pytest

from shared.agent import AgentUnavailable, Utterance
from shared.agent.bedrock import Bedrock
from tests.support.models import MODEL_ID, turn_of

LEEWAY = 0.5
"""Seconds that a busy machine may add."""


class Silent:
    """A server that takes requests; it closes the first `closes` of them, and answers none."""

    def __init__(self, closes: int = 0) -> None:
        self.requests = 0
        self._closes = closes
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                connection.recv(65_536)
                self.requests += 1
                if self.requests <= self._closes:
                    connection.close()
                else:
                    self._open.append(connection)

    def close(self) -> None:
        self._listening.close()
        for connection in self._open:
            connection.close()


NO_WAIT = 1514
"""A seed whose first random wait is less than a thousandth of the longest."""


@pytest.mark.parametrize("closes", [0, 1], ids=["first", "second"])
@pytest.mark.parametrize("seconds", [2.2, 3.0])
def test_a_request_in_flight_is_cut_off_whichever_attempt_it_is(
    monkeypatch: pytest.MonkeyPatch, closes: int, seconds: float
) -> None:
    server = Silent(closes)
    random.seed(NO_WAIT)
    settings = {"MODEL_ID": MODEL_ID, "AWS_DEFAULT_REGION": "eu-central-1", "AWS_ENDPOINT_URL": server.url}
    for name, value in settings.items() | {"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none"}.items():
        monkeypatch.setenv(name, value)
    agent, began = Bedrock.from_environment(), time.monotonic()
    with contextlib.closing(server), pytest.raises(AgentUnavailable):
        agent.reply([Utterance("user", "Hello")], turn_of(), seconds)
    assert time.monotonic() - began < seconds + LEEWAY
    assert server.requests == closes + 1
