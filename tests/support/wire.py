"""What the service asks of AWS: watched, disturbed and cut off at the hook of its client (`shared/aws/client.py`).

    with wire() as line:
        stage.call(...)
        assert [call.operation for call in line.calls] == ["UpdateItem", "GetItem"]

    with wire(Fault(1, lost, tries=1)):  # the second call's first try reaches AWS, and its answer is lost
        stage.call(...)

Calls are the API calls of our code; the client's own tries of one call are not counted twice, and follow each
other here without its pauses. Several threads may call at once: a call's position is that of its start.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from infra.local.stream import STREAMS
from shared.aws import client as aws_client
from shared.aws import services
from shared.aws.connections import ConnectionFailed, HttpResponse

ALWAYS = 1_000


class Killed(BaseException):
    """The process is gone: nothing catches this, and no other thread makes a call any more."""


@dataclass(frozen=True)
class Sent:
    """One API call."""

    service: str
    operation: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class Try:
    """A request on its way to AWS; `send` sends it."""

    call: aws_client.AwsCall
    send: Callable[[], HttpResponse]


Disturbance = Callable[[Try], HttpResponse]
"""What becomes of one try: an answer in AWS's place, or an exception."""


@dataclass(frozen=True)
class Fault:
    """The call with this position (from 0), or every one of `service`, is disturbed so many tries running.

    A call that our code repeats counts on: `tries` runs over calls of the same operation then.
    """

    position: int
    disturbance: Disturbance
    tries: int = ALWAYS
    service: str | None = None


def answer(status: int, body: Mapping[str, Any]) -> HttpResponse:
    """An answer in AWS's place."""
    return HttpResponse(status, {"content-type": "application/x-amz-json-1.0"}, json.dumps(body).encode())


def cancel_transaction(attempt: Try, position: int, reason: str) -> HttpResponse:
    """A transaction is cancelled because of its operation at this position (-1: the last)."""
    reasons = [{"Code": "None"} for _ in attempt.call.parameters["TransactItems"]]
    reasons[position] = {"Code": reason, "Message": "because"}
    kind = "com.amazonaws.dynamodb.v20120810#TransactionCanceledException"
    return answer(400, {"__type": kind, "Message": "cancelled", "CancellationReasons": reasons})


def throttle(attempt: Try) -> HttpResponse:
    """AWS refuses for now."""
    if attempt.call.operation == "TransactWriteItems":
        return cancel_transaction(attempt, 0, "ThrottlingError")
    kind = "com.amazonaws.dynamodb.v20120810#ThrottlingException"
    return answer(400, {"__type": kind, "message": "Rate exceeded"})


def broken(attempt: Try) -> HttpResponse:
    """AWS has an error of its own."""
    return answer(500, {"__type": "com.amazonaws.dynamodb.v20120810#InternalServerError", "message": "Internal"})


def refuse_connection(attempt: Try) -> HttpResponse:
    """Nobody takes the connection."""
    raise ConnectionFailed("connect_failed")


def lose_response(attempt: Try) -> HttpResponse:
    """AWS does as it is asked, and the connection breaks before its answer is here."""
    if attempt.call.service == "dynamodb":
        attempt.send()
    raise ConnectionFailed("connection_closed")


def conflicting(position: int) -> Disturbance:
    """Another transaction holds the row: of a transaction's operations, the one at this position (-1: the last)."""

    def disturb(attempt: Try) -> HttpResponse:
        prefix = "com.amazonaws.dynamodb.v20120810#"
        if attempt.call.operation != "TransactWriteItems":
            return answer(400, {"__type": f"{prefix}TransactionConflictException", "message": "Transaction is ongoing"})
        return cancel_transaction(attempt, position, "TransactionConflict")

    return disturb


class _Current(threading.local):
    """The call that this thread is making: its position, and whether its last try was disturbed."""

    position = 0
    disturbed = False


@dataclass
class Wire(aws_client.Hook):
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

    def call(self, call: aws_client.AwsCall, proceed: Callable[[aws_client.AwsCall], Any]) -> Any:
        """Count the call and make it, or die."""
        if call.service == STREAMS.name:
            return proceed(call)  # On AWS, it is not the service that reads the stream.
        parameters = dict(call.parameters)
        with self._lock:
            position = self._current.position = len(self.calls)
            self.calls.append(Sent(call.service, call.operation, parameters))
        if self._dead or self.kill_before == position:
            self._die("before", call)
        if call.service == "dynamodb":
            parameters = {**parameters, "ReturnConsumedCapacity": "TOTAL"}
        try:
            response = proceed(aws_client.AwsCall(call.service, call.operation, parameters))
        except aws_client.AwsError as error:
            self._answered(call, position, error.body)
            raise
        self._answered(call, position, response)
        return response

    def attempt(self, call: aws_client.AwsCall, proceed: Callable[[], HttpResponse]) -> HttpResponse:
        """Make the try, or let the fault meet it."""
        self._current.disturbed = False
        fault = self.fault
        if (
            call.service == STREAMS.name
            or fault is None
            or not self._meant(fault, call)
            or self.disturbed >= fault.tries
        ):
            return proceed()
        self.disturbed += 1
        self._current.disturbed = True
        self._faulted = call.operation
        return fault.disturbance(Try(call, proceed))

    def pause(self, call: aws_client.AwsCall, proceed: Callable[[], None]) -> None:
        """Wait only for what is not our doing."""
        if not self._current.disturbed:
            proceed()

    def _answered(self, call: aws_client.AwsCall, position: int, parsed: Mapping[str, Any]) -> None:
        with self._lock:
            self.answers.append(parsed)
            consumed = parsed.get("ConsumedCapacity") or []
            for part in [consumed] if isinstance(consumed, Mapping) else consumed:
                self.capacity += part["CapacityUnits"]
        if self._dead or self.kill_after == position:
            self._die("after", call)

    def _die(self, when: str, call: aws_client.AwsCall) -> None:
        self._dead = True
        raise Killed(f"{when} {call.operation}")

    def _meant(self, fault: Fault, call: aws_client.AwsCall) -> bool:
        if call.service == STREAMS.name:
            return False
        if fault.service is not None:
            return call.service == fault.service
        at = self._current.position
        # A call made again by our own code, after the one that was meant, is meant too.
        return at == fault.position or (at > fault.position and self._faulted == call.operation)


@contextmanager
def wire(fault: Fault | None = None, kill_before: int | None = None, kill_after: int | None = None) -> Iterator[Wire]:
    """Watch all that the service asks of AWS, with at most one fault or killing."""
    line = Wire(fault, kill_before, kill_after)
    if fault is not None:
        # New clients: the quota of retries of the present ones may be used up by earlier faults.
        forget_clients()
    with aws_client.hooked(line):
        yield line


def forget_clients() -> None:
    """Close the service's clients, so that the next calls create new ones."""
    for client in (services.dynamodb, services.sqs, services.stepfunctions, services.kms):
        client().close()
        client.cache_clear()
