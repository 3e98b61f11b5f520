"""The functions of a test's stage behind a real HTTP server on loopback, which calls them as the runner does."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from infra import topology
from infra.local import proxy
from infra.local.routes import Routes
from tests.support.stage import Stage

ROUTES = Routes(topology.FUNCTIONS)


@dataclass(frozen=True)
class Served:
    """An API that is served at `base_url`, with the headers of its requests and the bodies of its responses so far."""

    base_url: str
    sent: list[dict[str, str]] = field(default_factory=list)
    answered: list[bytes] = field(default_factory=list)


@contextmanager
def serving(stage: Stage) -> Iterator[Served]:
    """Serve the stage's API until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked = proxy.Request(self.command, self.path, self.headers.items(), body, "127.0.0.1", 80)
            match = ROUTES.match(asked.method, asked.path)
            assert match is not None, "fallback takes every path"
            served.sent.append(dict(self.headers))
            # Like the main thread of a Lambda function.
            loop = asyncio.new_event_loop()
            asyncio.set_event_loop(loop)
            try:
                event = proxy.event(asked, match, str(uuid.uuid4()))
                answer = proxy.response(stage.invoke(match.function.name, event))
            finally:
                asyncio.set_event_loop(None)
                loop.close()
            served.answered.append(answer.body)
            self.send_response(answer.status)
            for name, value in [*answer.headers, ("Content-Length", str(len(answer.body)))]:
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _serve

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    served = Served(f"http://127.0.0.1:{server.server_address[1]}")
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def delivering(stage: Stage) -> Iterator[None]:
    """Let changes become events and webhooks in the background until the block ends."""
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(0.05):
            stage.fan_out()
            stage.deliver()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
