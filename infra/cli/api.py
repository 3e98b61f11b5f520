"""Requests: with the key, an Idempotency-Key, retries as the service asks for them, and errors that say what to do."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from typing import Any

import click
import httpx

from . import output
from .command import COMMAND, KEY, NOT_FOUND, REFUSED, UNAVAILABLE, Failure
from .profiles import is_loopback

Query = Iterable[tuple[str, str]]

RETRIES = 3
FIRST_WAIT_S = 0.5
"""The wait before the first retry, if the response names none. It doubles."""
TIMEOUT = httpx.Timeout(40, connect=10)
"""Seconds; a message waits up to 20 s for its reply."""

_REMEDIES = {
    401: f"Run `{COMMAND} login` with a valid key.",
    403: "This key may only read. Use another one.",
    404: "Check the id. A key sees only what belongs to its project and mode: `appt whoami`.",
    429: "Send fewer requests at a time, or try again later.",
}
_EXIT_CODES = {401: KEY, 403: KEY, 404: NOT_FOUND, 429: UNAVAILABLE}


class ApiError(Failure):
    """A response with an error."""

    def __init__(self, response: httpx.Response) -> None:
        try:
            self.error: Mapping[str, Any] = response.json()["error"]
        except (ValueError, KeyError, TypeError):
            self.error = {"message": f"The response is {response.status_code} {response.reason_phrase}."}
        status = response.status_code
        unavailable = status >= 500
        super().__init__(
            self.error.get("message", ""),
            _REMEDIES.get(status, "Try again later." if unavailable else ""),
            UNAVAILABLE if unavailable else _EXIT_CODES.get(status, REFUSED),
        )
        self._as_json = output.wants_json()
        self.retry = response.headers.get("Service-Should-Retry") == "true"
        self.retry_after = response.headers.get("Retry-After")

    @property
    def code(self) -> str:
        """The error's code."""
        return str(self.error.get("code", ""))

    def show(self, file: Any = None) -> None:
        """Print the error with code, parameter and request id to stderr; with `--json`, as the service sent it."""
        if self._as_json:
            click.echo(output.compact({"error": self.error}), err=True)
            return
        super().show()
        names = {"code": "code", "param": "param", "request_id": "request", "doc_url": "more"}
        for name, label in names.items():
            if self.error.get(name):
                click.echo(f"  {click.style(f'{label:<8}', dim=True)} {self.error[name]}", err=True)


class Unreachable(Failure):
    """No response."""

    retry, retry_after = True, None

    def __init__(self, url: str, error: Exception) -> None:
        super().__init__(
            f"There is no response from {url} ({str(error) or type(error).__name__}).",
            "Check the address and the connection; `make run` starts the service on this machine.",
            UNAVAILABLE,
        )


class Client:
    """A client of one service, with one key."""

    def __init__(self, url: str, key: str) -> None:
        try:
            version = metadata.version("appointments-cli")
        except metadata.PackageNotFoundError:
            version = "development"
        self.url = url
        self._http = httpx.Client(
            headers={"Authorization": f"Bearer {key}", "User-Agent": f"appointments-cli/{version}"},
            timeout=TIMEOUT,
            trust_env=not is_loopback(url),
        )

    def get(self, path: str, query: Query = ()) -> Any:
        """The body of a GET."""
        return self.request("GET", path, query=query)

    def post(self, path: str, body: object = None) -> Any:
        """The body of a POST's response."""
        return self.request("POST", path, body=body)

    def items(self, path: str, query: Query = ()) -> Iterator[Any]:
        """All items of a list, page after page."""
        for page in self.pages(path, query):
            yield from page["data"]

    def pages(self, path: str, query: Query = ()) -> Iterator[Any]:
        """The pages of a list."""
        base = [pair for pair in query if pair[0] not in ("limit", "starting_after")]
        cursor = dict(query).get("starting_after")
        while True:
            page = self.get(path, [*base, ("limit", "100"), *([("starting_after", cursor)] if cursor else [])])
            yield page
            cursor = page["next_cursor"]
            if not page["has_more"]:
                return

    def request(
        self, method: str, path: str, *, query: Query = (), body: object = None, idempotency_key: str | None = None
    ) -> Any:
        """The body of a response, after up to `RETRIES` retries.

        Every POST and PATCH has an Idempotency-Key, the same in all attempts, so none takes effect twice.
        """
        headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())} if method in ("POST", "PATCH") else {}
        for number in range(RETRIES + 1):
            try:
                return self.send(method, path, query=query, body=body, headers=headers).json()
            except (ApiError, Unreachable) as error:
                if not error.retry or number == RETRIES:
                    raise
                wait_s = float(error.retry_after or FIRST_WAIT_S * 2**number * random.uniform(0.8, 1.2))
                click.echo(click.style(f"{error.message} Trying again in {wait_s:.1f} s.", dim=True), err=True)
                time.sleep(wait_s)
        raise AssertionError("unreachable")

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """The response to one request."""
        try:
            response = self._http.request(
                method, f"{self.url}{path}", params=list(query) or None, json=body, headers=headers
            )
        except httpx.HTTPError as error:
            raise Unreachable(self.url, error) from None
        if response.status_code >= 400:
            raise ApiError(response)
        return response
