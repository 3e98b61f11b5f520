"""What can go wrong with each call of a request or a worker, and what is to come of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.stage import Answer, Stage
from tests.support.wire import (
    ALWAYS,
    Disturbance,
    Fault,
    broken,
    conflicting,
    lose_response,
    refuse_connection,
    throttle,
    wire,
)

WRITES = ("PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems")
READS = ("GetItem", "BatchGetItem", "Query", "Encrypt", "Decrypt")
"""The operations that change nothing."""


@dataclass(frozen=True)
class Request:
    """A request that writes, and the status it is answered with when all is well."""

    method: str
    path: str
    body: Any
    status: int

    def send(self, stage: Stage, key: str | None) -> Answer:
        """The answer."""
        headers = {"Idempotency-Key": key} if key else None
        return stage.call(self.method, self.path, self.body, headers=headers)


Preparation = Callable[[Stage], Request]


@dataclass(frozen=True)
class Trouble:
    """What goes wrong with one call, and what the request's answer is to be; None stands for success."""

    name: str
    disturbance: Disturbance
    tries: int
    code: str | None = None
    writes_only: bool = False

    @property
    def may_have_written(self) -> bool:
        """Whether a write that meets it may have taken effect all the same."""
        return self.disturbance in (broken, lose_response)

    def concerns(self, operation: str) -> bool:
        """Whether this operation can meet it, in a way that no other trouble shows.

        A read whose answer is lost is the same as one that is refused.
        """
        if self.writes_only:
            return operation in WRITES
        return self.disturbance is not lose_response or operation not in READS


PASSING_TROUBLE = (
    Trouble("throttled once", throttle, 1),
    Trouble("broken once", broken, 1),
    Trouble("refused once", refuse_connection, 1),
    Trouble("answer lost once", lose_response, 1),
    Trouble("answer lost three times", lose_response, 3),
)
LASTING_TROUBLE = (
    Trouble("throttled", throttle, ALWAYS, "service_unavailable"),
    Trouble("broken", broken, ALWAYS, "service_unavailable"),
    Trouble("refused", refuse_connection, ALWAYS, "service_unavailable"),
    Trouble("answers lost", lose_response, ALWAYS, "service_unavailable"),
)
CONFLICTS = (
    *(Trouble(f"{n} conflicts over the first row", conflicting(0), n, None, True) for n in (1, 2, 3, 7)),
    Trouble("conflicts over the first row", conflicting(0), ALWAYS, "conflict", True),
)
CONFLICTS_OVER_THE_RECORD = (
    *(Trouble(f"{n} conflicts over the record", conflicting(-1), n, None, True) for n in (1, 2)),
    *(
        Trouble(f"{n} conflicts over the record", conflicting(-1), n, "idempotency_key_in_use", True)
        for n in (3, ALWAYS)
    ),
)

FEWER_TROUBLES = {
    "passing": [trouble for trouble in PASSING_TROUBLE if "lost" in trouble.name],
    "lasting": [trouble for trouble in LASTING_TROUBLE if trouble.name in ("throttled", "answers lost")],
    "conflict": [trouble for trouble in CONFLICTS if trouble.tries in (1, ALWAYS)],
    "conflict_over_the_record": [trouble for trouble in CONFLICTS_OVER_THE_RECORD if trouble.tries in (1, 3)],
}
"""One of those that the service cannot tell from each other, and the edges: for requests like one that meets all."""


def expected_code(trouble: Trouble, service: str, operation: str, request: Request) -> str | None:
    """The error code that the trouble with this call is to be answered with."""
    if service in ("sqs", "stepfunctions"):
        return None  # Wake-ups are best effort.
    if request.status == 409 and operation == "PutItem" and trouble.tries >= 3 and trouble.writes_only:
        return "idempotency_key_in_use"  # Nothing but the record is written.
    return trouble.code


def wrongs(response: Answer, request: Request, code: str | None, *, retry: str = "true") -> Iterator[str]:
    """What is wrong with an answer; `retry` is what an error is to say of a repetition."""
    if code is None:
        if response.status != request.status:
            yield f"{response.status} {response.body[:90]!r}"
    elif response.status < 400 or response.code != code:
        yield f"{response.status} {response.body[:90]!r} instead of {code}"
    else:
        if response.headers["service-should-retry"] != retry:
            yield f"whether to retry {code}: {response.headers['service-should-retry']}"
        if code != "conflict" and int(response.headers.get("retry-after", "0")) < 1:
            yield f"{code} without Retry-After"


def faults(
    stage: Stage, prepare: Preparation, troubles: Sequence[Trouble], key: str | None
) -> Iterator[tuple[str, Fault, str | None, str]]:
    """Every trouble with every call of the request in turn: its name, the fault, the error, and whether to retry."""
    stage.project()
    request = prepare(stage)
    with wire() as line:
        assert request.send(stage, key).status == request.status
    for trouble, (position, call) in itertools.product(troubles, enumerate(line.calls)):
        # The key's row takes no part in any transaction.
        if not trouble.concerns(call.operation) or (trouble.writes_only and position == 0):
            continue
        name = f"{trouble.name} at {position} {call.operation}"
        fault = Fault(position, trouble.disturbance, trouble.tries)
        # The first call counts the request, which is no effect.
        unsure = trouble.may_have_written and call.operation in WRITES and position > 0
        harmless = key is not None or request.method == "DELETE" or not unsure
        error = expected_code(trouble, call.service, call.operation, request)
        yield name, fault, error, "true" if harmless else "false"


def first_and_last_of_each(operations: Sequence[str]) -> list[int]:
    """The positions of the first and the last call of each operation, where its other calls differ in nothing."""
    first = {operation: position for position, operation in reversed([*enumerate(operations)])}
    last = {operation: position for position, operation in enumerate(operations)}
    return sorted({*first.values(), *last.values()})


def places_of(trouble: Trouble, course: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
    """Where a worker that runs several times meets this trouble: which time, and at which of its calls.

    Throttling is met at every call. What the other troubles leave behind, deaths show at every write (`deaths`), so
    they are met at the first and the last call of each operation.
    """
    calls = [(number, position) for number, operations in enumerate(course) for position in range(len(operations))]
    operations = [course[number][position] for number, position in calls]
    ends = range(len(calls)) if trouble.disturbance is throttle else first_and_last_of_each(operations)
    return [calls[end] for end in ends if trouble.concerns(operations[end])]


Death = tuple[int | None, int | None]
"""Before which call a worker dies, or after which."""


def deaths(operations: Sequence[str]) -> Iterator[Death]:
    """Every point at which the death of a worker that makes these calls, one by one, leaves something else behind.

    That is at its start and after each call that changes something. A worker that dies anywhere between two of them,
    before a read or after it, leaves the same as one that dies right after the first.
    """
    yield 0, None
    for position, operation in enumerate(operations):
        if operation not in READS:
            yield None, position


def deaths_around(operations: Sequence[str]) -> Iterator[Death]:
    """As `deaths`, for a worker that does something outside of AWS, too: it dies before each change and after it."""
    for position, operation in enumerate(operations):
        if operation not in READS:
            yield position, None
            yield None, position


PHONE = "+15005550006"
URL = "https://example.com/hook"

TROUBLES = {
    "passing": PASSING_TROUBLE,
    "lasting": LASTING_TROUBLE,
    "conflict": CONFLICTS,
    "conflict_over_the_record": CONFLICTS_OVER_THE_RECORD,
}
