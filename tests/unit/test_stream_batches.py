"""Batches of stream records: order, concurrency, and what Lambda is told of failures."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from typing import Any

import pytest

from shared.tasks import batches


def record(number: int, resource: str, pk: str = "P#1#test#customer") -> dict[str, Any]:
    """The stream record with this sequence number, of a change of this resource."""
    keys = {"pk": {"S": pk}, "sk": {"S": resource}}
    return {"eventID": f"e{number}", "dynamodb": {"SequenceNumber": str(number), "Keys": keys}}


def batch_of(resources: str) -> dict[str, Any]:
    """A batch of changes, one a letter, of the resource that the letter names."""
    return {"Records": [record(number, resource) for number, resource in enumerate(resources)]}


def number_of(one: batches.StreamRecord) -> int:
    return int(one["dynamodb"]["SequenceNumber"])


def test_records_of_different_resources_are_worked_on_concurrently() -> None:
    # Each waits until as many are at work as may be.
    barrier = threading.Barrier(batches.RECORDS_AT_ONCE, timeout=20)

    def work(one: batches.StreamRecord) -> None:
        barrier.wait()

    found = batches.each_record(batch_of("abcdefghijklmnopqrst"), work)

    assert found.response == {"batchItemFailures": []}


@pytest.mark.parametrize("deleted", ["P#1#test#customer", "P#1#test#deleted_customer"])
def test_records_of_one_resource_are_worked_on_in_order_also_over_its_deletion(deleted: str) -> None:
    seen: list[int] = []
    others = threading.Event()

    def work(one: batches.StreamRecord) -> int:
        number = number_of(one)
        if one["dynamodb"]["Keys"]["sk"]["S"] == "a":
            # The others have all the time to get past.
            others.wait(20)
            seen.append(number)
        elif number == 11:
            others.set()
        return number

    batch = batch_of("abacadaeafag")
    batch["Records"][10] = record(10, "a", pk=deleted)
    found = batches.each_record(batch, work)

    assert seen == [0, 2, 4, 6, 8, 10]
    assert found.in_order == list(range(12))


@pytest.mark.parametrize(
    ("failing", "worked_on", "named"),
    [
        ({0}, {0, 1, 3, 5}, "0"),
        ({2}, {0, 1, 2, 3, 5}, "2"),
        ({4}, {0, 1, 2, 3, 4, 5}, "4"),
        ({5, 4, 3}, {0, 1, 2, 3, 4, 5}, "3"),
        ({0, 1, 3, 5}, {0, 1, 3, 5}, "0"),
    ],
)
def test_the_earliest_record_that_failed_is_named_and_only_its_resource_stops(
    failing: set[int], worked_on: set[int], named: str
) -> None:
    seen: list[int] = []

    def work(one: batches.StreamRecord) -> int:
        seen.append(number_of(one))
        if number_of(one) in failing:
            raise ValueError("cannot be processed")
        return number_of(one)

    found = batches.each_record(batch_of("abacad"), work)

    assert {*seen} == worked_on
    # Whatever was not worked on comes later than the record that is named, and so comes again with it.
    assert {*range(6)} - worked_on <= {*range(int(named), 6)}
    assert found.response == {"batchItemFailures": [{"itemIdentifier": named}]}
    assert found.in_order == sorted(worked_on - failing)


def test_records_are_worked_on_in_the_context_of_the_batch() -> None:
    cause: ContextVar[str] = ContextVar("cause")
    cause.set("invocation")

    def work(one: batches.StreamRecord) -> str:
        inherited = cause.get()
        cause.set(str(number_of(one)))
        return inherited

    assert batches.each_record(batch_of("abcdefghijkl"), work).in_order == ["invocation"] * 12
