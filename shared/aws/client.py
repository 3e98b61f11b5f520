"""A client for AWS services with the AWS JSON protocol: DynamoDB, SQS, Step Functions and KMS.

    client = AwsClient(DYNAMODB, Source())
    client.call("GetItem", {"TableName": "table", "Key": {"pk": {"S": "a"}, "sk": {"S": "b"}}})

A call makes up to `ATTEMPTS` attempts. What is retried, and after which pauses, follows botocore's standard mode. Bytes
are base64 text in parameters and responses, as in the protocol.

    AwsError      AWS refused the call
    Unavailable   AWS throttled the call or did not respond

Both say whether an attempt of the call may have taken effect (`uncertain`).
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import ssl
import threading
import time
from binascii import crc32
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from pydantic_core import from_json, to_json

from shared.aws import sigv4
from shared.aws.connections import (
    CONNECT_S,
    RESPONSE_S,
    ConnectionFailed,
    Connections,
    Exchange,
    HttpResponse,
    tls_context,
)
from shared.aws.credentials import NoCredentials, Source
from shared.aws.error_codes import THROTTLED_WRITES, CancellationReason, ErrorCode, is_throttled, is_transient
from shared.core import clock, settings

ATTEMPTS = 4
THROTTLED_PAUSE_S, TRANSIENT_PAUSE_S, DYNAMODB_PAUSE_S = 1.0, 0.05, 0.025
"""The longest pause, in seconds, before the second attempt; each later pause may be twice as long as the one before."""
_LONGEST_PAUSE_S = 20.0
LONGEST_CALL_S = int(ATTEMPTS * (CONNECT_S + RESPONSE_S) + THROTTLED_PAUSE_S * (2 ** (ATTEMPTS - 1) - 1) + 1)
"""Seconds that one call takes at most: attempts that time out, and the pauses of up to 1, 2 and 4 s in between."""

_QUOTA = 500
_THROTTLED_COST, _TRANSIENT_COST = 5, 14


class Unavailable(Exception):
    """A service throttled a request or did not respond in time. If `uncertain`, a write may have taken effect."""

    def __init__(self, reason: str = "", *, uncertain: bool = False) -> None:
        super().__init__(reason)
        self.uncertain = uncertain


class AwsError(Exception):
    """AWS refused a call. `body` is the parsed error response, with fields such as `CancellationReasons`.

    If `uncertain`, AWS refused a retry, and an earlier attempt of the call may have taken effect.
    """

    uncertain = False

    def __init__(self, code: str, message: str, status: int, body: Mapping[str, Any]) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status
        self.body = body


@dataclass(frozen=True)
class AwsService:
    """A service. `name` is boto3's name for it, `target` begins the header that names an operation.

    `endpoint` begins the host name and is also the name in signatures; `variable` ends `AWS_ENDPOINT_URL_…`.
    """

    name: str
    endpoint: str
    target: str
    variable: str
    version: str = "1.0"


DYNAMODB = AwsService("dynamodb", "dynamodb", "DynamoDB_20120810", "DYNAMODB")
SQS = AwsService("sqs", "sqs", "AmazonSQS", "SQS")
STEP_FUNCTIONS = AwsService("stepfunctions", "states", "AWSStepFunctions", "SFN")
KMS = AwsService("kms", "kms", "TrentService", "KMS", version="1.1")

_REGION = re.compile(r"(?!cn-)[a-z]{2}(-gov)?-[a-z]+-[0-9]{1,2}")
"""A region under `amazonaws.com`. China, the sovereign cloud and the isolated partitions have other domains."""


@dataclass(frozen=True)
class AwsCall:
    """A call of an operation, with all its attempts."""

    service: str
    operation: str
    parameters: Mapping[str, Any]


class Hook:
    """What happens around each call and each attempt. Tests count calls and inject faults with a subclass."""

    one_at_a_time = True
    """Whether calls that are begun early wait until their response is read, so that the hook sees one after another."""

    def call(self, call: AwsCall, proceed: Callable[[AwsCall], Any]) -> Any:
        """Make the call and return its response."""
        return proceed(call)

    def attempt(self, call: AwsCall, proceed: Callable[[], HttpResponse]) -> HttpResponse:
        """Make one attempt and return the HTTP response. May raise ConnectionFailed."""
        return proceed()

    def pause(self, call: AwsCall, proceed: Callable[[], None]) -> None:
        """Wait between two attempts."""
        proceed()


_hooks: tuple[Hook, ...] = ()


@contextlib.contextmanager
def hooked(hook: Hook) -> Iterator[None]:
    """Use the hook for the calls of all clients and threads. It surrounds the hooks that are already in use."""
    global _hooks
    _hooks = (*_hooks, hook)
    try:
        yield
    finally:
        _hooks = tuple(each for each in _hooks if each is not hook)


class AwsClient:
    """A client of one service in one region, as the environment says when it is created. Threads may share it."""

    def __init__(self, service: AwsService, credentials: Source) -> None:
        self.service = service
        self._region = region()
        url = endpoint(service, self._region)
        parts = urlsplit(url)
        self._host, self._path = parts.netloc, parts.path or "/"
        self._connections = Connections(url, partial(_tls_context, _ca_file(self._host)))
        self._credentials = credentials
        self._content_type = f"application/x-amz-json-{service.version}"
        self._quota = _Quota()

    def call(self, operation: str, parameters: Mapping[str, Any]) -> Any:
        """Call an operation and return its response. Raises AwsError or Unavailable."""
        if not _hooks:
            return self._call(AwsCall(self.service.name, operation, parameters))
        proceed: Callable[[AwsCall], Any] = self._call
        for hook in _hooks:
            proceed = partial(hook.call, proceed=proceed)
        return proceed(AwsCall(self.service.name, operation, parameters))

    def begin(self, operation: str, parameters: Mapping[str, Any]) -> BegunCall:
        """Send the request of a call now, and read its response later: one thread can have several calls under way.

        Raises nothing. With a hook, the request is sent later, unless the hook need not see such calls.
        """
        call, exchange = AwsCall(self.service.name, operation, parameters), None
        if not any(hook.one_at_a_time for hook in _hooks):
            with contextlib.suppress(NoCredentials, ConnectionFailed):
                exchange = self._connections.send(self._request(call))
        return BegunCall(self, call, exchange)

    def warm(self) -> None:
        """Build what the first call would otherwise build. Sends nothing."""
        self._connections.warm()

    def close(self) -> None:
        """Close the connections that are not in use."""
        self._connections.close()

    def _call(self, call: AwsCall, begun: Exchange | None = None) -> Any:
        uncertain = False
        cost = 0
        attempt = 1
        while True:
            outcome = self._attempt(call, begun if attempt == 1 else None)
            if isinstance(outcome, Success):
                self._quota.put_back(cost or 1)
                return outcome.response
            uncertain = uncertain or outcome.uncertain
            cost = _THROTTLED_COST if outcome.throttled else _TRANSIENT_COST
            if not outcome.retryable or attempt == ATTEMPTS or not self._quota.take(cost):
                outcome.error.uncertain = uncertain
                raise outcome.error
            self._pause(call, pause_s(self.service, attempt, outcome.throttled))
            attempt += 1

    def _attempt(self, call: AwsCall, begun: Exchange | None) -> Success | Failure:
        send: Callable[[], HttpResponse]
        try:
            send = begun.response if begun else partial(self._connections.exchange, self._request(call))
        except NoCredentials as error:
            return Failure(Unavailable(f"no credentials: {error}"))
        for hook in _hooks:
            send = partial(hook.attempt, call, send)
        try:
            return outcome_of(self.service, send())
        except ConnectionFailed as failed:
            unsent = failed.reason.startswith("connect_")
            return Failure(Unavailable(failed.reason), retryable=True, uncertain=not unsent)

    def _request(self, call: AwsCall) -> bytes:
        credentials = self._credentials.current()
        body = to_json(call.parameters)
        now = time.gmtime(clock.to_unix(clock.now()))
        headers = {
            "content-type": self._content_type,
            "host": self._host,
            "x-amz-date": time.strftime("%Y%m%dT%H%M%SZ", now),
            "x-amz-target": f"{self.service.target}.{call.operation}",
        }
        if credentials.session_token:
            headers["x-amz-security-token"] = credentials.session_token
        signature = sigv4.authorization(
            credentials.access_key_id,
            credentials.secret_access_key,
            region=self._region,
            service=self.service.endpoint,
            headers=headers,
            body=body,
            path=self._path,
        )
        lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
        head = (
            f"POST {self._path} HTTP/1.1\r\n{''.join(lines)}authorization: {signature}\r\n{_trace()}"
            f"user-agent: appointments-service\r\naccept-encoding: identity\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        return head.encode("latin-1") + body

    def _pause(self, call: AwsCall, seconds: float) -> None:
        wait: Callable[[], None] = partial(clock.sleep, seconds)
        for hook in _hooks:
            wait = partial(hook.pause, call, wait)
        wait()


@dataclass(frozen=True)
class BegunCall:
    """A call whose request is sent, unless `exchange` is None."""

    client: AwsClient
    call: AwsCall
    exchange: Exchange | None

    def response(self) -> Any:
        """The response, once. Raises AwsError or Unavailable."""
        if self.exchange is None:
            return self.client.call(self.call.operation, self.call.parameters)
        return self.client._call(self.call, self.exchange)

    def end(self) -> None:
        """End a call whose response nobody has read. Does not wait for it."""
        if self.exchange is not None:
            self.exchange.end()


@dataclass(frozen=True)
class Success:
    """A successful attempt and the parsed response."""

    response: Any


@dataclass(frozen=True)
class Failure:
    """A failed attempt. If `uncertain`, it may have taken effect."""

    error: AwsError | Unavailable
    uncertain: bool = False
    retryable: bool = False
    throttled: bool = False


class _Quota:
    """Limits the retries of a client, so that they do not multiply the load while a service is down."""

    def __init__(self) -> None:
        self._left = _QUOTA
        self._lock = threading.Lock()

    def take(self, cost: int) -> bool:
        """Take the cost of a retry; False if too little is left."""
        with self._lock:
            if cost > self._left:
                return False
            self._left -= cost
            return True

    def put_back(self, amount: int) -> None:
        """Put back the cost of the retry that succeeded, or a little for each success without one."""
        if self._left < _QUOTA:
            with self._lock:
                self._left = min(_QUOTA, self._left + amount)


def outcome_of(service: AwsService, response: HttpResponse) -> Success | Failure:
    """What an HTTP response says, and whether another attempt may help."""
    checksum = response.headers.get("x-amz-crc32") if service is DYNAMODB else None
    if checksum is not None and checksum != str(crc32(response.body)):
        return Failure(Unavailable("checksum"), uncertain=True, retryable=True)
    if 200 <= response.status < 300:
        try:
            return Success(from_json(response.body) if response.body else {})
        except ValueError:
            return Failure(Unavailable("not JSON"), uncertain=True, retryable=True)
    error = _error(response)
    throttled = is_throttled(error.code, response.status) or _throttled_writes(error)
    transient = is_transient(error.code, response.status)
    in_progress = error.code == ErrorCode.TRANSACTION_IN_PROGRESS
    unavailable = (throttled or transient) and not in_progress
    uncertain = in_progress or (not throttled and (transient or response.status >= 500))
    return Failure(
        Unavailable(error.code) if unavailable else error,
        uncertain=response.resent or uncertain,
        retryable=throttled or transient,
        throttled=throttled,
    )


def pause_s(service: AwsService, attempt: int, throttled: bool) -> float:
    """Seconds to wait after this failed attempt (from 1): a random part of a time that doubles."""
    scale = THROTTLED_PAUSE_S if throttled else DYNAMODB_PAUSE_S if service is DYNAMODB else TRANSIENT_PAUSE_S
    return random.random() * float(min(scale * 2 ** (attempt - 1), _LONGEST_PAUSE_S))


def region() -> str:
    """The region of this process. Raises LookupError."""
    # Both are set on Lambda. boto3, which serves the other services, reads only AWS_DEFAULT_REGION.
    name = os.environ.get("AWS_DEFAULT_REGION") or os.environ.get("AWS_REGION")
    if not name:
        raise LookupError("set AWS_DEFAULT_REGION")
    return name


def endpoint(service: AwsService, region: str) -> str:
    """The URL of a service's endpoint: the environment's, or that of the region."""
    for variable in (f"AWS_ENDPOINT_URL_{service.variable}", "AWS_ENDPOINT_URL"):
        if url := os.environ.get(variable):
            return url
    if not _REGION.fullmatch(region):
        raise ValueError(f"not a region of amazonaws.com: {region}")
    return f"https://{service.endpoint}.{region}.amazonaws.com"


def _error(response: HttpResponse) -> AwsError:
    try:
        body = json.loads(response.body) if response.body else {}
    except ValueError:
        body = {"message": response.body[:200].decode(errors="replace")}
    if not isinstance(body, dict):
        body = {}
    named = body.get("__type") or response.headers.get("x-amzn-errortype") or str(response.status)
    # In full "com.amazonaws.dynamodb.v20120810#ThrottlingException" or "ThrottlingException:http://…".
    code = str(named).partition(":")[0].rpartition("#")[2]
    return AwsError(code, str(body.get("message", body.get("Message", ""))), response.status, body)


def _throttled_writes(error: AwsError) -> bool:
    """Whether throttling cancelled a transaction, and nothing else that would cancel it again."""
    reasons = {reason["Code"] for reason in error.body.get("CancellationReasons", ())}
    passing = THROTTLED_WRITES | {CancellationReason.NONE, CancellationReason.CONFLICT}
    return bool(reasons & THROTTLED_WRITES) and reasons <= passing


def _trace() -> str:
    """The header by which AWS follows a request through services, and stops loops of functions and queues."""
    trace = settings.trace_header()
    if not trace or "AWS_LAMBDA_FUNCTION_NAME" not in os.environ:
        return ""
    safe = quote(trace, safe="-=;:+&[]{}\"',")
    return f"x-amzn-trace-id: {safe}\r\n"


def _ca_file(host: str) -> str | None:
    """The file of the certificates to trust; None for those of certifi.

    The public endpoints have certificates of Amazon Trust Services. Its five roots load in a tenth of the time of all.
    """
    if bundle := os.environ.get("AWS_CA_BUNDLE"):
        return bundle
    is_public = host.endswith(".amazonaws.com") and ".us-gov-" not in host
    return str(Path(__file__).with_name("amazon_roots.pem")) if is_public else None


@cache
def _tls_context(ca_file: str | None) -> ssl.SSLContext:
    return tls_context(ca_file)
