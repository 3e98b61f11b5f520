"""moto as a server on loopback for SQS, Step Functions, KMS, S3 and SNS.

What moto holds is lost when the process ends, and may be: queue messages and timers are hints, and `sweep`
finds owed work at the next start. Kept are the KMS key, for without it stored secrets could not be read, and
S3's objects (`objects`).
"""

from __future__ import annotations

import io
import json
import math
import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from moto.core.config import default_user_config
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.kms.models import kms_backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from moto.sqs.models import sqs_backends
from moto.stepfunctions.parser.asl.component.state.wait.wait_function import timestamp
from werkzeug.serving import make_server
from werkzeug.test import run_wsgi_app

from infra.local.objects import KeptObjects

REGION = "us-east-1"

_RECEIVE = "AmazonSQS.ReceiveMessage"
# How soon a receiver notices that a delay is over or a visibility time-out has passed, in seconds.
_LOOK_AGAIN = 0.05
_LOOK_AGAIN_AT_BLOCKED = 0.25


def serve(objects: KeptObjects) -> str:
    """Serve moto, with these as its S3, from a thread of this process; the URL it answers at."""
    default_user_config["stepfunctions"] = {"execute_state_machine": True}
    # Its waits until a time end up to a second early, for it cuts what is left to whole seconds.
    vars(timestamp)["int"] = math.ceil
    app = Serialized(DomainDispatcherApplication(create_backend_app), objects)
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_RequestHandler)
    # State machines send to queues over HTTP, and find this server by the variable.
    os.environ["MOTO_PORT"] = str(server.port)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.port}"


def restore_signing_key(key_id: str, material: bytes) -> str:
    """Put a KMS key with this id and these 32 bytes in; its ARN."""
    backend = kms_backends[DEFAULT_ACCOUNT_ID][REGION]
    key = backend.create_key(None, "ENCRYPT_DECRYPT", "SYMMETRIC_DEFAULT", "Signing secrets", None)
    key.arn = key.arn.replace(key.id, key_id)
    backend.keys[key_id] = backend.keys.pop(key.id)
    key.id, key.key_material = key_id, material
    return key.arn


class Serialized:
    """A WSGI application in front of moto: one request at a time, and receivers that wait without cost.

    An S3 object is on disk before the answer to its put.

    moto's queues are not safe between threads: a message that is sent while another is deleted gets lost.
    Its own long poll spins while a FIFO group is locked, and misses the unlocking. So a receive asks moto
    without waiting, again after each change of a queue.
    """

    def __init__(self, app: Callable[..., Iterable[bytes]], objects: KeptObjects) -> None:
        self._app = app
        self._objects = objects
        self._changed = threading.Condition()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Serve one request."""
        target = environ.get("HTTP_X_AMZN_TARGET") or environ.get("HTTP_X_AMZ_TARGET", "")
        with self._changed:
            if target == _RECEIVE:
                response = self._receive(environ)
            else:
                response = run_wsgi_app(self._app, environ, buffered=True)
                self._objects.save()
                if target.startswith("AmazonSQS."):
                    self._changed.notify_all()
        body, status, headers = response
        start_response(status, list(headers))
        return body

    def _receive(self, environ: dict[str, Any]) -> tuple[Iterable[bytes], str, Any]:
        request = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
        deadline = time.monotonic() + request.pop("WaitTimeSeconds", 0)
        raw = json.dumps(request | {"WaitTimeSeconds": 0}).encode()
        queues = sqs_backends[DEFAULT_ACCOUNT_ID][REGION].queues
        queue = queues.get(request["QueueUrl"].rsplit("/", 1)[-1])
        while True:
            left = deadline - time.monotonic()
            visible = queue is None or bool(queue.messages)
            if visible or left <= 0:
                asked = environ | {"wsgi.input": io.BytesIO(raw), "CONTENT_LENGTH": str(len(raw))}
                body, status, headers = run_wsgi_app(self._app, asked, buffered=True)
                body = list(body)
                if left <= 0 or not status.startswith("200") or json.loads(b"".join(body)).get("Messages"):
                    return body, status, headers
            # A visible message that moto holds back belongs to a FIFO group in work: its deletion wakes us.
            self._changed.wait(min(left, _LOOK_AGAIN_AT_BLOCKED if visible else _LOOK_AGAIN))


class _RequestHandler(MotoRequestHandler):
    # Answers leave at once rather than wait for the client's acknowledgement of their headers.
    disable_nagle_algorithm = True

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Requests are not logged."""
