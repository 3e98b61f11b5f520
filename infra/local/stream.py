"""Lambda's event source mapping for the table's stream: reads, filters, calls the function, stores the position.

Records are processed in order within a shard, and a shard after its parent. A failing batch is halved until the
failing record is alone. That record is retried until it is `max_age_s` old and then written to `stream_failures`, in
the format of Lambda's on-failure destination, so that it does not block the stream.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from infra.local import names
from infra.local.console import StartError, warn
from infra.local.data_dir import STREAM_FAILURES, DataDir, write_json
from infra.local.lambdas import Lambdas
from infra.local.proxy import Event
from infra.local.queues import failed_items
from infra.topology import Function, StreamSource
from shared.aws.client import AwsClient, AwsError, AwsService, Unavailable

STREAMS = AwsService("dynamodbstreams", "dynamodb", "DynamoDBStreams_20120810", "DYNAMODB_STREAMS")
"""The streams of DynamoDB Local. (Those of AWS are at the host `streams.dynamodb`, where Lambda reads them.)"""
INTERVAL_S = 0.2
"""Seconds between two reads of the stream without a nudge."""
SPACING_S = 0.03
"""The least seconds between two reads. Under load, a read gets several changes, and their events share reads."""
SHARDS_EVERY_S = 10.0
"""Seconds between two reads of the list of shards."""
_PAUSE_AFTER_ERROR_S = 1.0
_LONGEST_PAUSE_S = 30.0
_DONE = "done"
_EXPIRED, _TRIMMED = "ExpiredIteratorException", "TrimmedDataAccessException"

log = logging.getLogger(__name__)


class Poller:
    """Calls a function with the stream's records until `stop` is set."""

    def __init__(
        self,
        function: Function,
        source: StreamSource,
        stream_arn: str,
        streams: AwsClient,
        functions: Lambdas,
        data_dir: DataDir,
        stop: threading.Event,
    ) -> None:
        """Load the stored position. Raises StartError if it is damaged."""
        self._function, self._source, self._arn = function, source, stream_arn
        self._streams, self._functions, self._stop = streams, functions, stop
        self._data_dir = data_dir
        kept = data_dir.load("stream.json") or {"stream": stream_arn, "shards": {}}
        try:
            # Sequence numbers are valid only for the stream that they belong to.
            self._checkpoints: dict[str, str] = dict(kept["shards"]) if kept["stream"] == stream_arn else {}
        except (KeyError, TypeError, ValueError):
            path = data_dir.path / "stream.json"
            raise StartError(f"{path} is damaged: delete it to read the stream from its beginning") from None
        self._iterators: dict[str, str] = {}
        self._parents: dict[str, str | None] = {}
        self._shards_known_until = 0.0
        self._nudged = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stream", daemon=True)

    def start(self) -> None:
        """Start in a new thread."""
        self._thread.start()

    def nudge(self) -> None:
        """Read the stream at once, because a row may have been written."""
        self._nudged.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._nudged.wait(INTERVAL_S)
            self._nudged.clear()
            try:
                self.read()
            # OSError: the position could not be stored, for example because the disk is full.
            except (AwsError, Unavailable, OSError):
                if not self._stop.is_set():
                    log.exception("reading the stream failed")
                    self._iterators.clear()
                    self._stop.wait(_PAUSE_AFTER_ERROR_S)
            self._stop.wait(SPACING_S)

    def read(self) -> None:
        """Process all records that the stream has now."""
        if time.monotonic() >= self._shards_known_until:
            self._find_shards()
        for shard in list(self._parents):
            parent = self._parents[shard]
            if parent in self._parents and self._checkpoints.get(str(parent)) != _DONE:
                continue
            while self._checkpoints.get(shard) != _DONE and not self._stop.is_set():
                if not self._read_batch(shard):
                    break

    def _find_shards(self) -> None:
        shards: list[Any] = []
        page: dict[str, str] = {}
        while True:
            found = self._streams.call("DescribeStream", {"StreamArn": self._arn, **page})["StreamDescription"]
            shards += found["Shards"]
            if "LastEvaluatedShardId" not in found:
                break
            page = {"ExclusiveStartShardId": found["LastEvaluatedShardId"]}
        # Sorting puts parents before children, because a shard's id begins with the time at which it was opened.
        self._parents = {
            shard["ShardId"]: shard.get("ParentShardId") for shard in sorted(shards, key=lambda shard: shard["ShardId"])
        }
        self._checkpoints = {shard: mark for shard, mark in self._checkpoints.items() if shard in self._parents}
        self._shards_known_until = time.monotonic() + SHARDS_EVERY_S

    def _read_batch(self, shard: str) -> bool:
        """Process the next records of a shard. Returns whether there may be more."""
        iterator = self._iterators.pop(shard, None) or self._iterator(shard)
        try:
            answer = self._streams.call("GetRecords", {"ShardIterator": iterator, "Limit": self._source.batch_size})
        except AwsError as error:
            if error.code == _TRIMMED:
                self._read_on_from_what_is_left(shard)
            elif error.code != _EXPIRED:
                raise
            return True
        records = answer["Records"]
        wanted = [record for record in map(stream_record, records, [self._arn] * len(records)) if self._wants(record)]
        if wanted:
            self._handle(shard, wanted)
        if self._stop.is_set():
            # Records that were not processed are read again at the next start.
            return False
        following = answer.get("NextShardIterator")
        if following is None:
            self._remember(shard, _DONE)
            self._shards_known_until = 0
            return False
        self._iterators[shard] = following
        if records:
            self._remember(shard, records[-1]["dynamodb"]["SequenceNumber"])
        return len(records) == self._source.batch_size

    def _iterator(self, shard: str) -> str:
        mark = self._checkpoints.get(shard)
        place: Any = (
            {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": mark}
            if mark
            else {"ShardIteratorType": "TRIM_HORIZON"}
        )
        try:
            answer = self._streams.call("GetShardIterator", {"StreamArn": self._arn, "ShardId": shard, **place})
        except AwsError as error:
            if error.code != _TRIMMED:
                raise
            self._read_on_from_what_is_left(shard)
            return self._iterator(shard)
        return str(answer["ShardIterator"])

    def _read_on_from_what_is_left(self, shard: str) -> None:
        warn("The stream was trimmed after 24 hours: older changes may have no events.")
        log.warning("checkpoint %s of shard %s was trimmed", self._checkpoints.pop(shard, None), shard)

    def _remember(self, shard: str, mark: str) -> None:
        self._checkpoints[shard] = mark
        self._data_dir.save("stream.json", {"stream": self._arn, "shards": self._checkpoints})

    def _wants(self, record: Event) -> bool:
        images = (record["dynamodb"].get(name, {}) for name in ("NewImage", "OldImage"))
        return any(image.get("kind", {}).get("S") in self._source.kinds for image in images)

    def _handle(self, shard: str, records: Sequence[Event]) -> None:
        """Call the function until each record is processed, or written to `stream_failures`."""
        todo = [list(records)]
        tries = 0
        while todo and not self._stop.is_set():
            batch = todo.pop(0)
            first_failed = self._call(batch)
            if first_failed is None:
                tries = 0
            elif len(rest := batch[first_failed:]) > 1:
                tries = 0
                todo[:0] = [rest[: len(rest) // 2], rest[len(rest) // 2 :]]
            elif time.time() - rest[0]["dynamodb"]["ApproximateCreationDateTime"] < self._source.max_age_s:
                tries += 1
                todo.insert(0, rest)
                self._stop.wait(min(0.1 * 2**tries, _LONGEST_PAUSE_S))
            else:
                self._put_aside(shard, rest, tries + 1)
                tries = 0

    def _call(self, batch: list[Event]) -> int | None:
        """Call the function. Returns the position of the first record on which it failed, or None."""
        try:
            failed = failed_items(self._functions.call(self._function, {"Records": batch}))
        except Exception:  # noqa: BLE001  # `Lambdas.call` has logged it
            return 0
        positions = [n for n, record in enumerate(batch) if record["dynamodb"]["SequenceNumber"] in failed]
        return min(positions) if positions else 0 if failed else None

    def _put_aside(self, shard: str, records: list[Event], attempts: int) -> None:
        folder = self._data_dir.path / STREAM_FAILURES
        folder.mkdir(exist_ok=True, mode=0o700)
        now = datetime.now(UTC)
        path = folder / f"{now:%Y-%m-%dT%H.%M.%S}-{uuid.uuid4()}.json"
        write_json(path, failure(self._function, self._arn, shard, records, now, attempts))
        warn(f"{self._function.name} could not process a change of the table: its batch is in {path}")


def stream_record(record: Any, stream_arn: str) -> Event:
    """A record of GetRecords as Lambda hands it to a function.

    The region and the stream's ARN are replaced, because DynamoDB Local uses its own.
    """
    return {
        "eventID": record["eventID"],
        "eventName": record["eventName"],
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": names.REGION,
        "dynamodb": record["dynamodb"],
        "eventSourceARN": names.in_region(stream_arn),
    }


def failure(
    function: Function, stream_arn: str, shard: str, records: Sequence[Event], at: datetime, attempts: int
) -> dict[str, Any]:
    """A failed batch in the format of Lambda's on-failure destination in S3. `payload` is the event as JSON text."""
    changes = [record["dynamodb"] for record in records]
    arrivals = [
        f"{datetime.fromtimestamp(change['ApproximateCreationDateTime'], UTC):%Y-%m-%dT%H:%M:%SZ}" for change in changes
    ]
    return {
        "requestContext": {
            "requestId": str(uuid.uuid4()),
            "functionArn": names.arn("lambda", f"function:{names.function(function.name)}"),
            "condition": "RecordAgeExceeded",
            "approximateInvokeCount": attempts,
        },
        "responseContext": {"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"},
        "version": "1.0",
        "timestamp": f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z",
        "DDBStreamBatchInfo": {
            "shardId": shard,
            "startSequenceNumber": changes[0]["SequenceNumber"],
            "endSequenceNumber": changes[-1]["SequenceNumber"],
            "approximateArrivalOfFirstRecord": arrivals[0],
            "approximateArrivalOfLastRecord": arrivals[-1],
            "batchSize": len(records),
            "streamArn": names.in_region(stream_arn),
        },
        "payload": json.dumps({"Records": list(records)}),
    }
