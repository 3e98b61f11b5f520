"""moto as a server on loopback for Step Functions, KMS, S3 and SNS. Requests to SQS are forwarded to the runner.

moto's state is lost when the process ends, which is acceptable: timers are wake-ups, and `sweep` finds scheduled steps
at the next start. Two things are kept: the KMS key, without which stored secrets cannot be read, and S3's objects
(`objects`).
"""

from __future__ import annotations

import http.client
import math
import os
import threading
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import urlsplit

from moto.core.config import default_user_config
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.kms.models import kms_backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from moto.stepfunctions.parser.asl.component.state.wait.wait_function import timestamp
from werkzeug.serving import make_server
from werkzeug.test import run_wsgi_app

from infra.local import names
from infra.local.objects import KeptObjects

_QUEUES = "AmazonSQS."


def serve(objects: KeptObjects) -> str:
    """Serve moto from a thread of this process, with `objects` as its S3. Returns its URL."""
    default_user_config["stepfunctions"] = {"execute_state_machine": True}
    # moto truncates the rest of a wait to whole seconds, so it would end up to a second early.
    vars(timestamp)["int"] = math.ceil
    app = Serialized(DomainDispatcherApplication(create_backend_app), objects)
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_RequestHandler)
    # State machines send to queues over HTTP, and find this server through this variable.
    os.environ["MOTO_PORT"] = str(server.port)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.port}"


def restore_signing_key(key_id: str, material: bytes) -> str:
    """Create a KMS key with this id and these 32 bytes of key material. Returns its ARN."""
    backend = kms_backends[DEFAULT_ACCOUNT_ID][names.REGION]
    key = backend.create_key(None, "ENCRYPT_DECRYPT", "SYMMETRIC_DEFAULT", "Signing secrets", None)
    key.arn = key.arn.replace(key.id, key_id)
    backend.keys[key_id] = backend.keys.pop(key.id)
    key.id, key.key_material = key_id, material
    return key.arn


class Serialized:
    """A WSGI application in front of moto that serves one request at a time, because moto is not thread-safe.

    An S3 object is on disk before the response to its put.
    """

    def __init__(self, app: Callable[..., Iterable[bytes]], objects: KeptObjects) -> None:
        self._app = app
        self._objects = objects
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Serve one request. A request to SQS is forwarded to the runner."""
        if environ.get("HTTP_X_AMZ_TARGET", "").startswith(_QUEUES):
            return _forward(environ, start_response)
        with self._lock:
            body, status, headers = run_wsgi_app(self._app, environ, buffered=True)
            self._objects.save()
        start_response(status, list(headers))
        return body


def _forward(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Forward a request to the runner's queues: moto's state machines send SQS requests to moto itself."""
    connection = http.client.HTTPConnection(urlsplit(os.environ["AWS_ENDPOINT_URL_SQS"]).netloc)
    try:
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        headers = {"X-Amz-Target": environ["HTTP_X_AMZ_TARGET"], "Content-Type": environ["CONTENT_TYPE"]}
        connection.request("POST", "/", body, headers)
        response = connection.getresponse()
        content = response.read()
    finally:
        connection.close()
    start_response(f"{response.status} {response.reason}", response.getheaders())
    return [content]


class _RequestHandler(MotoRequestHandler):
    # Responses are sent at once, without waiting for the acknowledgement of their headers.
    disable_nagle_algorithm = True

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Do nothing: requests are not logged."""
