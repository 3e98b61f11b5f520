"""The canary: its requests go through the simulated gateway, and its webhook comes to `canary_receiver`.

It runs on its schedule during the load, and once more when all is quiet.
"""

from __future__ import annotations

import email.message
import io
import random
import urllib.error
import urllib.request
import urllib.response
from collections.abc import Mapping
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from infra import topology
from shared.core.limits import RECEIVER_S
from tests.simulation import scheduler
from tests.simulation.faults import Fault

if TYPE_CHECKING:
    from tests.simulation.hosts import Host
    from tests.simulation.world import Response, World

HOST = "api.example.test"
BASE_URL = f"https://{HOST}"
HOSTS = 3
"""The hosts that a run needs: its own, that of its requests or of `deliver`, and that of the receiver."""
MOST_LAST = 4
"""The runs at the end, of which one must pass."""
_EVERY_S = next(function.every_s for function in topology.FUNCTIONS if function.name == "canary") or 0


class Canary:
    """The canary of a history."""

    def __init__(self, seed: str, world: World) -> None:
        self.results: list[bool | None] = []
        """Whether each run passed; None if it did not report anything."""
        self._world = world
        self._random = random.Random(f"{seed}/canary")

    def connect(self, host: Host) -> None:
        """Let a host send the canary's requests."""
        requests = SimpleNamespace(Request=urllib.request.Request, urlopen=self._open)
        host.module("shared.canary.runs").urllib = SimpleNamespace(error=urllib.error, request=requests)

    def start(self, runs: int) -> None:
        """Run so often on the schedule."""
        for number in range(runs):
            self._schedule(f"canary {number}", self._random.uniform(0, 60) + number * _EVERY_S)

    def run_until_passed(self) -> None:
        """Run until it passes. Some calls of AWS take so long that a run fails, though no fault happens."""
        for _ in range(MOST_LAST):
            self._run()
            if self.results[-1]:
                return
            # A request that had no response in time may still have its effect.
            self._world.scheduler.sleep(60)

    def _run(self) -> None:
        ended = self._world.invoke("canary", {"detail-type": "Scheduled Event"})
        self.results.append(ended.result["passed"] if ended.succeeded else None)
        self._world.note("canary", self.results[-1])

    def _schedule(self, name: str, after: float) -> None:
        # All is not quiet before the run has ended.
        self._world.timers.add(name)
        self._world.scheduler.spawn("canary", partial(self._run_scheduled, name), after=after)

    def _run_scheduled(self, name: str) -> None:
        if self._world.faults.strikes(Fault.CANARY_DOUBLED):
            self._schedule(f"{name} again", self._random.uniform(0, 1))
        self._run()
        self._world.timers.discard(name)

    def receive(self, url: str, headers: Mapping[str, str], body: bytes) -> tuple[int | None, str | None]:
        """The status and the error of a webhook that is sent to the canary."""
        response = self._request(RECEIVER_S, "POST", urlsplit(url).path, "", headers, body)
        self._world.note("POST", url, headers["webhook-id"], response.status if response else "timeout")
        if response is None:
            return None, "timeout"
        return response.status, None if response.status == 204 else "http_error"

    def _open(self, request: urllib.request.Request, timeout: float) -> Any:
        """The response to a request, as `urllib.request.urlopen` returns or raises it."""
        method, path = request.get_method(), request.full_url.removeprefix(BASE_URL)
        assert request.data is None or isinstance(request.data, bytes)
        key = (request.get_header("Authorization") or "").removeprefix("Bearer ")
        response = self._request(timeout, method, path, key, {}, request.data)
        self._world.note("canary", method, path, response.status if response else "timeout")
        if response is None:
            raise TimeoutError("timed out")
        headers = email.message.Message()
        for name, value in response.headers.items():
            headers[name] = value
        content = io.BytesIO(response.body.encode())
        if response.status >= 400:
            raise urllib.error.HTTPError(request.full_url, response.status, "", headers, content)
        return urllib.response.addinfourl(content, headers, request.full_url, response.status)

    def _request(
        self, seconds: float, method: str, path: str, key: str, headers: Mapping[str, str], body: bytes | None
    ) -> Response | None:
        """The response to a request that the present function sends; None if there is none within so many seconds."""
        future, raw = scheduler.Future(), None if body is None else body.decode()

        def send() -> None:
            future.set_result(self._world.request(method, path, key, headers=headers, raw=raw))

        self._world.spawn_alone("request", send)
        done, _ = scheduler.wait([future], seconds)
        response: Response | None = future.result() if done else None
        if response is None or response.was_hit:
            # A fault of the function that was called may be why the caller fails.
            self._world.mark_hit()
        return response
