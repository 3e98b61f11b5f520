"""Amazon Connect, End User Messaging Social and Bedrock on loopback: each operation that is used has one answer.

What they are asked is not judged here: tests/unit holds requests against AWS's own service models.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

REPLY = "Of course. Your appointment is confirmed."
"""What the model says, whatever it is asked."""


class Providers:
    """`asked` are the operations that were called, by name, and `contacts` the ids of the calls placed, in order."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.asked: list[str] = []
        self.contacts: list[str] = []

    def answer(self, path: str) -> Any:
        """What the operation at a path answers; None where there is no such operation."""
        for operation, (pattern, answer) in _OPERATIONS.items():
            if found := re.fullmatch(pattern, path):
                self.asked.append(operation)
                if operation == "StartOutboundVoiceContact":
                    self.contacts.append(str(uuid.uuid4()))
                    return {"ContactId": self.contacts[-1]}
                return _contact(found[1]) if operation == "DescribeContact" else answer
        return None


_OPERATIONS: dict[str, tuple[str, Any]] = {
    "StartOutboundVoiceContact": ("/contact/outbound-voice", None),
    "DescribeContact": ("/contacts/[^/]+/([^/]+)", None),
    "GetWhatsAppCallPermission": (
        "/v1/whatsapp/call/permission/get",
        {"permission": {"status": "no_permission"}, "actions": []},
    ),
    "SendWhatsAppMessage": ("/v1/whatsapp/send", {"messageId": str(uuid.uuid4())}),
    "Converse": (
        "/model/[^/]+/converse",
        {
            "output": {"message": {"role": "assistant", "content": [{"text": REPLY}]}},
            "stopReason": "end_turn",
            "usage": {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15},
            "metrics": {"latencyMs": 1},
        },
    ),
}
"""The path of each operation's request, as a pattern, and its answer where that is always the same."""


def _contact(id: str) -> Any:
    """A call that was answered, and that the customer has just ended; times in Unix seconds."""
    now = time.time()
    return {
        "Contact": {
            "Id": id,
            "InitiationTimestamp": now - 3,
            "ConnectedToSystemTimestamp": now - 2,
            "DisconnectTimestamp": now - 1,
            "DisconnectReason": "CUSTOMER_DISCONNECT",
        }
    }


@contextlib.contextmanager
def running() -> Iterator[Providers]:
    """They listen until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answer = providers.answer(self.path)
            body = json.dumps(answer or {}).encode()
            self.send_response(404 if answer is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = answer

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    providers = Providers(server.server_address[1])
    threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
    try:
        yield providers
    finally:
        server.shutdown()
        server.server_close()
