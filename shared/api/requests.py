"""Requests: the checks that all requests share, and `Request`, the argument of an operation.

The order of checks (promises 2): route and method, API key, rate limit, right to write, version header, size,
content type, JSON, Idempotency-Key, query, validation of the body, the work.
"""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, overload

from starlette.requests import Request as StarletteRequest

from shared.api import idempotency, responses
from shared.api.responses import RequestContext, Response, error_body
from shared.aws.services import AwsError, Unavailable
from shared.core import api_description, limits
from shared.core.errors import NEVER_SAVED, ApiError, Code
from shared.resources import fields
from shared.resources.collections import Collection, Record
from shared.store import table, transactions
from shared.store.keys import Scope
from shared.store.transactions import Change, Command

_RESPONSE_S = 2
"""Seconds of the function's time that are reserved for the response."""

_ESCAPE = re.compile(rb"\\.", re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))

B = TypeVar("B", bound=fields.Input | None)
D = TypeVar("D", bound=Mapping[str, Any])
R = TypeVar("R", bound=Mapping[str, Any])
T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True)
class Request(Generic[B]):
    """A request that has passed the common checks. `body` is the validated body; None if the method has none."""

    scope: Scope
    project_name: str
    params: Mapping[str, str]
    query: Mapping[str, list[str]]
    path: str
    context: RequestContext
    body: B
    key: idempotency.IdempotencyKey | None = field(repr=False)
    ahead: table.ReadAhead | None = field(repr=False)
    """The read of the resource in the path, if it was sent before the key was authenticated."""

    @property
    def request_id(self) -> str:
        """The value of the response's `Service-Request-Id` header."""
        return self.context.request_id

    @property
    def id(self) -> str:
        """The id in the path."""
        return self.params["id"]

    def find(self, collection: Collection[D, R]) -> Record[D, R]:
        """The resource that the path names. Raises `resource_not_found`."""
        return collection.find(self.scope, self.id, self.ahead)

    def seconds_left(self, window: float) -> float:
        """The remaining seconds of a window that starts with the request and ends before the function times out."""
        elapsed = time.perf_counter() - self.context.started
        return min(window, self.context.seconds - _RESPONSE_S) - elapsed

    def create(self, command: Command[D]) -> Response[D]:
        """As `commit`, for a command that creates a resource: the response is a 201 with its location."""
        return self.commit(command, lambda doc: responses.created(doc, f"{self.path}/{doc['id']}"))

    @overload
    def commit(self, command: Command[T]) -> Response[T]: ...
    @overload
    def commit(self, command: Command[T], respond: Callable[[T], Response[U]]) -> Response[U]: ...
    def commit(self, command: Command[T], respond: Callable[[T], Response[Any]] = responses.ok) -> Response[Any]:
        """Commit the change of a command, and save its response under the Idempotency-Key if the request has one.

        Returns what `respond` makes of the document afterwards. Without writes and without a key, nothing is written.
        Raises Recorded if the key has a saved response: then nothing is written either. Raises ApiError, such as
        `conflict` after too many concurrent changes; Unavailable or AwsError.
        """
        _, response = self._commit(command, respond)
        return response

    def commit_before_body(self, command: Command[T], respond: Callable[[T], Response[Any]]) -> T:
        """As `commit`, if the body does not exist yet: the saved response has a name for it (`deferred`).

        Returns the document afterwards.
        """
        doc, _ = self._commit(command, respond)
        return doc

    def _commit(self, command: Command[T], respond: Callable[[T], Response[U]]) -> tuple[T, Response[U]]:
        """Returns the document afterwards, and the response."""

        def with_record() -> Change[tuple[T, Response[U]]]:
            change = command()
            response = respond(change.doc)
            record = [] if self.key is None else [idempotency.record_write(self.key, response, self.request_id)]
            return Change((change.doc, response), [*change.writes, *record], change.after_commit)

        try:
            committed = transactions.execute(with_record, seconds=self.seconds_left(transactions.CONFLICT_S))
        except (table.ConditionFailed, table.Contended):
            raise ApiError(Code.CONFLICT, headers={"Retry-After": "1"}) from None
        except (AwsError, Unavailable) as failure:
            self.context.may_have_written = failure.uncertain
            raise
        self.context.may_have_written = bool(committed.writes)
        # Not within the block above: its failure does not undo the change.
        committed.after_commit()
        return committed.doc

    def replay(self, recorded: idempotency.Recorded) -> Response[Any]:
        """The saved response of the Idempotency-Key. Raises `idempotency_key_reused`."""
        assert self.key is not None
        return idempotency.read(self.key, recorded.row)

    def replay_or_raise(self, error: ApiError) -> Response[Any]:
        """The saved response of the Idempotency-Key, if it has one (promises 4).

        Otherwise raises `error`, after saving it if it is a 409 that is not transient. If this request has written, the
        saved response is its own, which has no body yet, and `error` is why.
        """
        if self.key is None or error.status >= 500 or self.context.may_have_written:
            raise error
        if error.status == 409 and error.code not in NEVER_SAVED:
            try:
                self.commit(lambda: Change(None), lambda _: Response(409, error_body(error, self.context)))
            except idempotency.Recorded as recorded:
                return self.replay(recorded)
            raise error
        saved = idempotency.find(self.key)
        if saved is None:
            raise error
        return saved


def read_api_key(request: StarletteRequest) -> str:
    """The API key in the Authorization header. Raises `api_key_missing`."""
    scheme, _, key = request.headers.get("Authorization", "").strip().partition(" ")
    if scheme.lower() != "bearer" or not key.strip():
        raise ApiError(Code.API_KEY_MISSING)
    return key.strip()


def read_version(request: StarletteRequest) -> str:
    """The API revision that the request selects; the newest without the header. Raises `api_version_invalid`."""
    version = request.headers.get("Service-Version")
    if version is None:
        return api_description.NEWEST_REVISION
    if version not in api_description.REVISIONS:
        known = ", ".join(api_description.REVISIONS)
        raise ApiError(Code.API_VERSION_INVALID, f"The known revisions are {known}.", param="Service-Version")
    return version


def read_json(request: StarletteRequest, body: bytes, *, required: bool) -> Mapping[str, Any]:
    """The body as a JSON object; `{}` for an empty body that is not required.

    Raises `request_too_large`, `unsupported_media_type` or `invalid_json`.
    """
    if len(body) > limits.BODY_BYTES:
        raise ApiError(Code.REQUEST_TOO_LARGE)
    if not body:
        if not required:
            return {}
        raise ApiError(Code.INVALID_JSON, "The body is empty. Send one JSON object.")
    media_type = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if media_type != "application/json" or request.headers.get("Content-Encoding", "identity") != "identity":
        raise ApiError(Code.UNSUPPORTED_MEDIA_TYPE)
    return parse_json(body)


def parse_json(body: bytes) -> Mapping[str, Any]:
    """The JSON object in a body. Raises `invalid_json`."""
    # Limits recursion, both in the parser and when the document is serialised later, deeper in the stack.
    if _depth(body) > limits.JSON_LEVELS:
        raise ApiError(Code.INVALID_JSON, f"The body is nested deeper than {limits.JSON_LEVELS} levels.")
    try:
        document = json.loads(body.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant)
        # The parser accepts lone surrogates and numbers beyond a double, but they cannot be serialised as JSON.
        fields.canonical(document).encode()
    except ValueError as error:
        raise ApiError(Code.INVALID_JSON) from error
    if not isinstance(document, dict):
        raise ApiError(Code.INVALID_JSON, "The body must be one JSON object.")
    return document


def check_query(query: Mapping[str, list[str]], known: frozenset[str]) -> None:
    """Raises `parameter_unknown` for a query parameter that the operation does not accept."""
    for name in query:
        if name not in known:
            raise fields.unknown(name, name, sorted(known))


def _depth(body: bytes) -> int:
    """The depth of arrays and objects in a JSON text, in linear time. Of an invalid text, at least up to its error."""
    # Without escapes, each quote begins or ends a string, so every second part between quotes is outside of strings.
    outside = b"".join(_ESCAPE.sub(b"", body).split(b'"')[::2])
    steps = (1 if bracket in b"[{" else -1 for bracket in outside.translate(None, _NO_BRACKETS))
    return max(itertools.accumulate(steps), default=0)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("duplicate key")
    return document


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
