"""The stream poller against a stream in memory: it answers as DynamoDB does, errors included."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from infra.local import stream
from infra.local.data_dir import DataDir
from infra.local.lambdas import Lambdas
from infra.topology import Function, StreamSource
from shared.aws.client import AwsError
from tests.support.client import wait_for

ARN = "arn:aws:dynamodb:us-east-1:123456789012:table/t/stream/1"
FUNCTION = Function("fan_out")


class Stream:
    """Shards of records, by shard id; `parents` and `closed` as in DynamoDB."""

    def __init__(self) -> None:
        self.shards: dict[str, list[Any]] = {"shard-1": []}
        self.parents: dict[str, str] = {}
        self.closed: set[str] = set()
        self.trimmed_before = 0
        self.expired = 0

    def put(self, number: int, kind: str = "customer", shard: str = "shard-1", at: float = 1767225600) -> None:
        change = {
            "ApproximateCreationDateTime": at,
            "SequenceNumber": f"{number:05d}",
            "NewImage": {"pk": {"S": str(number)}, "kind": {"S": kind}, "raw": {"M": {"b": {"B": "/w=="}}}},
        }
        self.shards[shard].append({"eventID": str(number), "eventName": "INSERT", "awsRegion": "x", "dynamodb": change})

    def call(self, operation: str, parameters: Any) -> Any:
        match operation:
            case "DescribeStream":
                shards = [{"ShardId": shard, "ParentShardId": self.parents.get(shard)} for shard in self.shards]
                return {"StreamDescription": {"Shards": shards}}
            case "GetShardIterator":
                return self._iterator(parameters["ShardId"], parameters.get("SequenceNumber", ""))
            case "GetRecords":
                return self._records(parameters["ShardIterator"], parameters["Limit"])

    def _iterator(self, shard: str, after: str) -> Any:
        if after and int(after) < self.trimmed_before:
            raise AwsError("TrimmedDataAccessException", "", 400, {})
        read = [record["dynamodb"]["SequenceNumber"] <= after for record in self.shards[shard]]
        return {"ShardIterator": f"{shard}/{sum(read)}"}

    def _records(self, iterator: str, limit: int) -> Any:
        shard, _, start = iterator.rpartition("/")
        if self.expired:
            self.expired -= 1
            raise AwsError("ExpiredIteratorException", "", 400, {})
        records = self.shards[shard][int(start) : int(start) + limit]
        end = int(start) + len(records)
        over = shard in self.closed and end == len(self.shards[shard])
        return {"Records": records} | ({} if over else {"NextShardIterator": f"{shard}/{end}"})


class Calls:
    """A function that notes the numbers of the records it gets; `answer` may fail."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.answer: Callable[[list[int]], Any] = lambda numbers: None

    def call(self, function: Function, event: Any) -> Any:
        numbers = [int(record["dynamodb"]["SequenceNumber"]) for record in event["Records"]]
        self.batches.append(numbers)
        return self.answer(numbers)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[DataDir]:
    held = DataDir(tmp_path)
    yield held
    held.close()


def reader(source: Stream, calls: Calls, folder: DataDir) -> stream.Poller:
    settings = StreamSource(kinds=("customer",), batch_size=4)
    return stream.Poller(FUNCTION, settings, ARN, cast(Any, source), cast(Lambdas, calls), folder, threading.Event())


def test_records_of_the_wanted_kinds_come_in_order_and_once(folder: DataDir) -> None:
    source, calls = Stream(), Calls()
    for number in range(10):
        source.put(number, kind="customer" if number % 2 else "api_key")
    poller = reader(source, calls, folder)
    poller.read()
    source.put(11)
    poller.read()
    assert calls.batches == [[1, 3], [5, 7], [9], [11]]


def test_a_restart_goes_on_after_the_last_batch(folder: DataDir) -> None:
    source, calls = Stream(), Calls()
    source.put(1)
    reader(source, calls, folder).read()
    source.put(2)
    reader(source, calls, folder).read()
    assert calls.batches == [[1], [2]]


def test_a_child_waits_for_the_end_of_its_parent(folder: DataDir) -> None:
    source, calls = Stream(), Calls()
    source.shards["shard-2"] = []
    source.parents["shard-2"] = "shard-1"
    source.put(5, shard="shard-2")
    source.put(1)
    poller = reader(source, calls, folder)
    poller.read()
    assert calls.batches == [[1]]
    source.closed.add("shard-1")
    poller.read()
    assert calls.batches == [[1], [5]]


def test_a_trimmed_checkpoint_goes_on_with_what_is_left(folder: DataDir, capfd: pytest.CaptureFixture[str]) -> None:
    source, calls = Stream(), Calls()
    source.put(1)
    reader(source, calls, folder).read()
    source.shards["shard-1"].clear()
    source.put(50)
    source.trimmed_before = 50
    reader(source, calls, folder).read()
    assert calls.batches == [[1], [50]]
    assert "trimmed" in capfd.readouterr().err


def test_an_expired_iterator_is_replaced(folder: DataDir) -> None:
    source, calls = Stream(), Calls()
    source.put(1)
    poller = reader(source, calls, folder)
    poller.read()
    source.put(2)
    source.expired = 1
    poller.read()
    assert calls.batches == [[1], [2]]


def test_reading_goes_on_after_the_position_could_not_be_stored(
    folder: DataDir, caplog: pytest.LogCaptureFixture
) -> None:
    source, calls = Stream(), Calls()
    found = reader(source, calls, folder)
    # The file cannot be replaced.
    (folder.path / "stream.json").mkdir()
    source.put(1)
    found.start()
    wait_for(lambda: "reading the stream failed" in caplog.text)
    (folder.path / "stream.json").rmdir()
    source.put(2)
    wait_for(lambda: calls.batches == [[1], [2]])
    wait_for(lambda: (folder.load("stream.json") or {}).get("shards") == {"shard-1": "00002"})
    found._stop.set()


def test_a_partial_failure_is_tried_again_from_the_first_that_failed(folder: DataDir) -> None:
    source, calls = Stream(), Calls()
    for number in range(4):
        source.put(number)
    failing = {2}

    def answer(numbers: list[int]) -> Any:
        failed = sorted(failing & set(numbers))
        failing.clear()
        return {"batchItemFailures": [{"itemIdentifier": f"{number:05d}"} for number in failed]}

    calls.answer = answer
    reader(source, calls, folder).read()
    assert calls.batches == [[0, 1, 2, 3], [2], [3]]


def test_a_record_is_retried_until_it_is_too_old(folder: DataDir) -> None:
    source, calls = Stream(), Calls()
    source.put(1, at=time.time())

    def answer(numbers: list[int]) -> Any:
        if len(calls.batches) < 4:
            raise RuntimeError

    calls.answer = answer
    reader(source, calls, folder).read()
    assert calls.batches == [[1]] * 4
    assert not (folder.path / "stream_failures").exists()


def test_a_record_that_fails_until_it_is_too_old_is_put_aside_and_the_others_go_on(
    folder: DataDir, capfd: pytest.CaptureFixture[str]
) -> None:
    source, calls = Stream(), Calls()
    for number in range(4):
        source.put(number)

    def answer(numbers: list[int]) -> Any:
        if 1 in numbers:
            raise RuntimeError

    calls.answer = answer
    reader(source, calls, folder).read()
    assert calls.batches == [[0, 1, 2, 3], [0, 1], [0], [1], [2, 3]]
    [path] = (folder.path / "stream_failures").iterdir()
    kept = json.loads(path.read_text())
    assert kept["DDBStreamBatchInfo"]["startSequenceNumber"] == "00001"
    [record] = json.loads(kept["payload"])["Records"]
    assert record["dynamodb"]["NewImage"]["raw"] == {"M": {"b": {"B": "/w=="}}}
    assert record["dynamodb"]["ApproximateCreationDateTime"] == 1767225600.0
    assert path.name in capfd.readouterr().err


def test_a_record_has_the_stages_region_and_account_and_not_the_local_databases() -> None:
    source = Stream()
    source.put(1)
    there = "arn:aws:dynamodb:ddblocal:000000000000:table/t/stream/1"
    made = stream.stream_record(source.shards["shard-1"][0], there)
    assert (made["awsRegion"], made["eventSourceARN"]) == ("us-east-1", ARN)
    told = stream.failure(FUNCTION, there, "shard-1", [made], datetime(2026, 1, 1, tzinfo=UTC), 1)
    assert told["DDBStreamBatchInfo"]["streamArn"] == ARN
    assert told["requestContext"]["functionArn"].startswith(
        "arn:aws:lambda:us-east-1:123456789012:function:appointments-local-FanOut"
    )
