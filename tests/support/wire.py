"""What the service asks of AWS: watched, disturbed and cut off at botocore's event hooks.

    with wire() as line:
        stage.call(...)
        assert [call.operation for call in line.calls] == ["UpdateItem", "GetItem"]

    with wire(Fault(1, lost, tries=1)):  # the second call's first try reaches AWS, and its answer is lost
        stage.call(...)

Calls are the API calls of our code; botocore's own tries of one call are not counted twice, and follow each
other here without its pauses. Several threads may call at once: a call's position is that of its start.
"""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import ConnectionClosedError, EndpointConnectionError
from botocore.httpsession import URLLib3Session

MOST_TRIES = 4
"""How often the service's clients try a call."""
ALWAYS = 1_000


class Killed(BaseException):
    """The process is gone: nothing catches this, and no other thread makes a call any more."""


@dataclass(frozen=True)
class Sent:
    """One API call."""

    service: str
    operation: str
    parameters: Mapping[str, Any]


Disturbance = Callable[["_Try"], AWSResponse | None]
"""What becomes of one try: an answer in AWS's place, an exception, or None to let it through."""


@dataclass(frozen=True)
class Fault:
    """The call with this position (from 0), or every one of `service`, is disturbed so many tries running.

    A call that our code repeats counts on: `tries` runs over calls of the same operation then.
    """

    position: int
    disturbance: Disturbance
    tries: int = ALWAYS
    service: str | None = None


@dataclass
class _Try:
    """An HTTP request on its way to AWS."""

    service: str
    operation: str
    request: AWSPreparedRequest
    before: bool

    def answer(self, status: int, body: Mapping[str, Any]) -> AWSResponse:
        raw = _Raw(json.dumps(body).encode())
        headers = HTTPHeaders.from_dict({"Content-Type": "application/x-amz-json-1.0"})
        return AWSResponse(self.request.url, status, headers, raw)


class _Raw(io.BytesIO):
    def stream(self, **options: Any) -> Iterator[bytes]:
        yield self.read()


def throttled(attempt: _Try) -> AWSResponse | None:
    """AWS refuses for now."""
    if not attempt.before:
        return None
    kind = "com.amazonaws.dynamodb.v20120810#ThrottlingException"
    return attempt.answer(400, {"__type": kind, "message": "Rate exceeded"})


def broken(attempt: _Try) -> AWSResponse | None:
    """AWS has an error of its own."""
    kind = "com.amazonaws.dynamodb.v20120810#InternalServerError"
    return attempt.answer(500, {"__type": kind, "message": "Internal"}) if attempt.before else None


def refused(attempt: _Try) -> AWSResponse | None:
    """Nobody takes the connection."""
    raise EndpointConnectionError(endpoint_url=attempt.request.url)


def lost(attempt: _Try) -> AWSResponse | None:
    """AWS does as it is asked, and the connection breaks before its answer is here."""
    if attempt.before:
        return None
    if attempt.service == "dynamodb":
        _session.send(attempt.request)
    raise ConnectionClosedError(endpoint_url=attempt.request.url)


def conflicting(position: int) -> Disturbance:
    """Another transaction holds the row: of a transaction's operations, the one at this position (-1: the last)."""

    def disturb(attempt: _Try) -> AWSResponse | None:
        if not attempt.before:
            return None
        prefix = "com.amazonaws.dynamodb.v20120810#"
        if attempt.operation != "TransactWriteItems":
            body = {"__type": prefix + "TransactionConflictException", "message": "Transaction is ongoing"}
            return attempt.answer(400, body)
        sent: Any = attempt.request.body
        count = len(json.loads(sent)["TransactItems"])
        reasons = [{"Code": "None"} for _ in range(count)]
        reasons[position] = {"Code": "TransactionConflict", "Message": "Transaction is ongoing"}
        cancelled: dict[str, Any] = {
            "__type": prefix + "TransactionCanceledException",
            "Message": "cancelled",
            "CancellationReasons": reasons,
        }
        return attempt.answer(400, cancelled)

    return disturb


_session = URLLib3Session()


class _Current(threading.local):
    """The call that this thread is making: its position, and whether its last try was disturbed."""

    position = 0
    disturbed = False


@dataclass
class Wire:
    """The calls so far, and what is to become of them."""

    fault: Fault | None = None
    kill_before: int | None = None
    kill_after: int | None = None
    calls: list[Sent] = field(default_factory=list)
    answers: list[Mapping[str, Any]] = field(default_factory=list)
    """Parsed answers of the calls that were answered, in order."""
    capacity: float = 0.0
    """Capacity units consumed."""
    disturbed: int = 0
    """How many tries the fault has met."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _current: _Current = field(default_factory=lambda: _Current())
    _faulted: str | None = None
    _dead: bool = False

    def operations(self, *services: str) -> list[str]:
        """The names of the calls, of all services where none is named."""
        return [call.operation for call in self.calls if not services or call.service in services]

    def of(self, operation: str) -> list[Sent]:
        """The calls of one operation."""
        return [call for call in self.calls if call.operation == operation]

    def _asked(self, service: str, operation: str, params: dict[str, Any]) -> None:
        with self._lock:
            self._current.position = len(self.calls)
            self.calls.append(Sent(service, operation, dict(params)))
        if service == "dynamodb":
            params["ReturnConsumedCapacity"] = "TOTAL"

    def _calling(self) -> None:
        if self._dead or self.kill_before == self._current.position:
            self._die("before")

    def _called(self, parsed: Mapping[str, Any]) -> None:
        with self._lock:
            self.answers.append(parsed)
            consumed = parsed.get("ConsumedCapacity") or []
            for part in [consumed] if isinstance(consumed, Mapping) else consumed:
                self.capacity += part["CapacityUnits"]
        if self._dead or self.kill_after == self._current.position:
            self._die("after")

    def _die(self, when: str) -> None:
        self._dead = True
        raise Killed(f"{when} {self.calls[self._current.position].operation}")

    def _sending(self, attempt: _Try) -> AWSResponse | None:
        if attempt.before:
            self._current.disturbed = False
        fault = self.fault
        if fault is None or not self._meant(fault, attempt):
            return None
        if self.disturbed >= fault.tries:
            return None
        try:
            found = fault.disturbance(attempt)
        except Exception:
            self._meet(attempt)
            raise
        if found is not None:
            self._meet(attempt)
        return found

    def _meant(self, fault: Fault, attempt: _Try) -> bool:
        if fault.service is not None:
            return attempt.service == fault.service
        at = self._current.position
        # A call made again by our own code, after the one that was meant, is meant too.
        return at == fault.position or (at > fault.position and self._faulted == attempt.operation)

    def _meet(self, attempt: _Try) -> None:
        self.disturbed += 1
        self._current.disturbed = True
        self._faulted = attempt.operation

    def _again(self, response: Any, attempts: int) -> float | None:
        if not self._current.disturbed or attempts >= MOST_TRIES:
            return None
        if response is None:
            return 0
        code = response[1].get("Error", {}).get("Code", "")
        return None if code.startswith("Transaction") else 0


@contextmanager
def wire(fault: Fault | None = None, kill_before: int | None = None, kill_after: int | None = None) -> Iterator[Wire]:
    """Watch all that the service asks of AWS, with at most one fault or killing."""
    from shared.core import aws

    line = Wire(fault, kill_before, kill_after)
    clients: Sequence[Any] = (aws.dynamodb(), aws.sqs(), aws.stepfunctions(), aws.kms())
    hooks: list[tuple[Any, str, Any]] = []

    def hook(events: Any, name: str, handler: Any, first: bool = True) -> None:
        (events.register_first if first else events.register_last)(name, handler)
        hooks.append((events, name, handler))

    for client in clients:
        service, events = client.meta.service_model.service_id.hyphenize(), client.meta.events

        def asked(params: dict[str, Any], model: Any, service: str = service, **others: Any) -> None:
            line._asked(service, model.name, params)

        def calling(**others: Any) -> None:
            line._calling()

        def called(parsed: Mapping[str, Any], **others: Any) -> None:
            line._called(parsed)

        def before(request: AWSPreparedRequest, event_name: str, service: str = service, **others: Any) -> Any:
            return line._sending(_Try(service, event_name.rpartition(".")[2], request, True))

        def after(request: AWSPreparedRequest, event_name: str, service: str = service, **others: Any) -> Any:
            return line._sending(_Try(service, event_name.rpartition(".")[2], request, False))

        def again(response: Any, attempts: int, **others: Any) -> Any:
            return line._again(response, attempts)

        hook(events, f"before-parameter-build.{service}", asked)
        hook(events, f"before-call.{service}", calling)
        hook(events, f"after-call.{service}", called, first=False)
        hook(events, f"before-send.{service}", before)
        hook(events, f"before-send.{service}", after, first=False)
        hook(events, f"needs-retry.{service}", again)
    try:
        yield line
    finally:
        for events, name, handler in hooks:
            events.unregister(name, handler)
