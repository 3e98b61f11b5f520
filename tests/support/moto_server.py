"""moto's SQS, Step Functions and KMS over HTTP, where our own client reaches them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

SERVICES = ("SQS", "SFN", "KMS")
"""The names of the services in `AWS_ENDPOINT_URL_…`."""


class _RequestHandler(MotoRequestHandler):
    # Responses are sent at once, without waiting for the acknowledgement of their headers.
    disable_nagle_algorithm = True

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Do nothing: requests are not logged."""


@contextmanager
def serving() -> Iterator[dict[str, str]]:
    """Serve moto's state of this process, which `mock_aws` resets. Gives the environment variables of the endpoints."""
    app = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_RequestHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield {f"AWS_ENDPOINT_URL_{service}": f"http://127.0.0.1:{server.port}" for service in SERVICES}
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
