"""A service of a later revision, for generated clients: passes requests on, and changes the values of the responses."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

LATER = "of_a_later_revision"
CHANGED = {
    **dict.fromkeys(("status", "reply_status", "code", "role", "api_version"), LATER),
    **dict.fromkeys(("call_status", "ended_reason", "outcome", "channel", "direction", "answered_by"), LATER),
    **dict.fromkeys(("recording_status", "transcript_status", "content_type"), LATER),
    **dict.fromkeys(("language", "change_policy", "event_type", "trigger"), LATER),
    "event_filters": [LATER],
    "max_attempts": 12,
}
"""The fields whose values change. Every second event becomes one of an unknown type."""
OVERLAP_S = 120
"""What a program reads again of the time before it last read the log."""
HEADERS = {
    "Service-Version": "2032-01-01",
    "RateLimit": '"hour";r=9;t=3',
    "RateLimit-Policy": '"hour";q=10;w=3600',
    "Service-Later": "1",
}


def as_later_revision(value: Any) -> Any:
    """The value as a later revision may send it."""
    if isinstance(value, list):
        return [as_later_revision(part) for part in value]
    if not isinstance(value, dict):
        return value
    found = {
        name: CHANGED[name] if name in CHANGED and part else as_later_revision(part) for name, part in value.items()
    }
    if found.get("object") is None and "type" in found:
        found["type"] = LATER  # an action or an error
    return found | {"a_later_field": {"x": 1}}


@contextlib.contextmanager
def later_revision(base_url: str) -> Iterator[str]:
    """The base URL of a server that changes the responses of the service at `base_url`."""
    is_unknown: dict[str, bool] = {}  # by id, because an event never changes its type

    class Later(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))) or None
            kept = {name: value for name, value in self.headers.items() if name in ("Authorization", "Content-Type")}
            request = urllib.request.Request(base_url + self.path, body, kept, method=self.command)
            try:
                response = urllib.request.urlopen(request, timeout=40)
            except urllib.error.HTTPError as error:
                response = error
            with response:
                document = as_later_revision(json.loads(response.read()))
            if self.path.partition("?")[0] == "/v1/events":
                for event in document["data"]:
                    if is_unknown.setdefault(event["id"], len(is_unknown) % 2 == 1):
                        event |= {"type": "robot.created", "data": {"object": {"object": "robot", "wheels": 4}}}
            answer = json.dumps(document).encode()
            self.send_response(response.status)
            for name, value in ({"Content-Type": "application/json"} | HEADERS).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_POST = do_PATCH = do_DELETE = do_GET

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Later) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def check(printed: str, base_url: str, api_key: str, since: int) -> None:
    """That a client has read the values of the later revision, and each event of the log once."""
    found: dict[str, list[str]] = {}
    for line in printed.splitlines():
        name, _, value = line.partition(" ")
        found.setdefault(name, []).append(value)
    for name in ("status", "reply_status", "action", "error", "language", "call_status"):
        assert LATER in found[name], (name, printed)
    url = f"{base_url}/v1/events?limit=100&created[gte]={since - OVERLAP_S}"
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {api_key}"})
    with urllib.request.urlopen(request, timeout=40) as response:
        log = json.loads(response.read())
    events = [line.split() for line in found["event"]]
    ids = [id for id, _ in events]
    assert len(ids) == len({*ids}), printed
    since_start = {event["id"] for event in log["data"] if event["created"] >= since}
    assert since_start <= {*ids} <= {event["id"] for event in log["data"]}, printed
    assert len(events) > 6, events  # more than two pages
    assert {"robot.created"} < {type for _, type in events}, events
