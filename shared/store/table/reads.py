"""Reads of rows. Those of the base table are strongly consistent; those of an index are not."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from shared.aws import services
from shared.aws.client import BegunCall
from shared.aws.services import Unavailable
from shared.core import clock, settings
from shared.store.table.conditions import ABSENT, Condition, at_most
from shared.store.table.encoding import Key, Row, Value, decode, encode, key

_BATCH_KEYS = 100  # the limit of BatchGetItem
_BATCH_RETRIES = 6


class ReadAhead:
    """The request of a `get` that is sent before its response is needed. The block must not write the row before."""

    def __init__(self, pk: str, sk: str) -> None:
        self._key = (pk, sk)
        self._call: BegunCall | None = services.dynamodb().begin("GetItem", _get_item(pk, sk))

    def call_for(self, pk: str, sk: str) -> BegunCall | None:
        """The call, once, if it reads this row."""
        call = None
        if (pk, sk) == self._key:
            call, self._call = self._call, None
        return call

    def __enter__(self) -> ReadAhead:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._call is not None:
            self._call.end()


def get(pk: str, sk: str, ahead: ReadAhead | None = None) -> Row | None:
    """The current row; None if it does not exist or has expired. `ahead` may have sent the request."""
    begun = ahead.call_for(pk, sk) if ahead else None
    response = services.dynamodb().call("GetItem", _get_item(pk, sk)) if begun is None else begun.response()
    row = decode(response["Item"]) if "Item" in response else None
    return None if row is None or is_expired(row) else row


def _get_item(pk: str, sk: str) -> dict[str, Any]:
    return {"TableName": settings.table_name(), "Key": key(pk, sk), "ConsistentRead": True}


def expiry(at: clock.Instant) -> clock.UnixSeconds:
    """The attribute `expires_at` of a row that expires at this instant."""
    return clock.to_unix(at)


def is_expired(row: Row) -> bool:
    """Whether the row has expired. DynamoDB deletes expired rows later."""
    return "expires_at" in row and row["expires_at"] <= clock.to_unix(clock.now())


class Rows(Mapping[Key, Row]):
    """The rows with the `keys` that were read, by key, without those that do not exist or have expired.

    A key that was not read is a programming error, not an absent row: a limit would not apply, for example.
    """

    def __init__(self, keys: Iterable[Key], rows: Mapping[Key, Row]) -> None:
        self._keys = frozenset(keys)
        self._rows = {key: row for key, row in rows.items() if key in self._keys}

    def __getitem__(self, key: Key) -> Row:
        if key not in self._keys:
            raise RuntimeError(f"the row {key} was not read")
        return self._rows[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def absent_or_expired() -> Condition:
    """The condition that a row does not exist or has expired."""
    return ABSENT | at_most("expires_at", clock.to_unix(clock.now()))


def get_many(keys: Sequence[Key]) -> Rows:
    """The rows with these keys. One request for each 100 keys."""
    rows: dict[Key, Row] = {}
    unique = list(dict.fromkeys(keys))
    for start in range(0, len(unique), _BATCH_KEYS):
        for item in _batch_get([key(*one) for one in unique[start : start + _BATCH_KEYS]]):
            row = decode(item)
            if not is_expired(row):
                rows[row["pk"], row["sk"]] = row
    return Rows(unique, rows)


def rows_of(entries: Sequence[Row]) -> list[Row]:
    """The rows of index entries, in their order, without those that do not exist any more or have expired."""
    keys = [(entry["pk"], entry["sk"]) for entry in entries]
    rows = get_many(keys)
    return [rows[key] for key in keys if key in rows]


@dataclass(frozen=True)
class _SharedRead:
    """What one request of `SharedReads` reads, and its result."""

    keys: list[Key] = field(default_factory=list)
    rows: Future[Rows] = field(default_factory=Future)


class SharedReads:
    """Reads of concurrent threads, combined into few requests.

    One request is under way at a time. Keys that are asked for meanwhile are read together by the next request, each
    key once. So a read begins after it was asked for, and is as current as one of its own. A read that has waited for
    `seconds` makes its own request, so that it does not take twice as long as a request that is slow.
    """

    def __init__(self, seconds: float = 1.0) -> None:
        self._seconds = seconds
        self._joining = threading.Lock()
        self._reading = threading.Lock()
        self._next = _SharedRead()

    def get_many(self, keys: Iterable[Key]) -> Rows:
        """As `get_many`, which this may call for several threads at once. A failure is raised in each of them."""
        with self._joining:
            read = self._next
            wanted = list(keys)
            read.keys.extend(wanted)
        if not self._reading.acquire(timeout=self._seconds):
            return get_many(wanted)
        try:
            if not read.rows.done():
                self._read(read)
        finally:
            self._reading.release()
        return Rows(wanted, read.rows.result())

    def _read(self, read: _SharedRead) -> None:
        with self._joining:
            self._next = _SharedRead()
        try:
            read.rows.set_result(get_many(read.keys))
        except BaseException as error:  # noqa: BLE001  # raised where the rows are read
            read.rows.set_exception(error)


def _batch_get(pending: list[dict[str, Any]]) -> Iterator[Any]:
    """The items with these keys that exist. Retries the keys that DynamoDB leaves unprocessed."""
    name = settings.table_name()
    for attempt in itertools.count(1):
        response = services.dynamodb().call(
            "BatchGetItem", {"RequestItems": {name: {"Keys": pending, "ConsistentRead": True}}}
        )
        yield from response["Responses"].get(name, ())
        pending = response.get("UnprocessedKeys", {}).get(name, {}).get("Keys", [])
        if not pending:
            return
        if attempt > _BATCH_RETRIES:
            raise Unavailable("BatchGetItem left keys unprocessed")
        clock.sleep(random.uniform(0, 0.05 * 2**attempt))


def query(
    pk: str,
    *,
    index: str | None = None,
    at_least: str | None = None,
    at_most: str | None = None,
    limit: int,
    next_limit: int | None = None,
    forward: bool = False,
) -> Iterator[list[Row]]:
    """Pages of a partition's rows between two sort keys, both inclusive; descending unless `forward`.

    `index` is the partition attribute of an index, or `due`; rows of an index hold only keys, and an index may lag by
    about a second. The first page has at most `limit` rows, later pages at most `next_limit`, and each at
    most 1 MB. A page is read when the caller asks for it.
    """
    hash_key, range_key = _index_keys(index)
    condition = f"{hash_key} = :pk"
    values: dict[str, Value] = {":pk": pk}
    if at_least is not None and at_most is not None:
        if at_least > at_most:
            return
        condition += f" AND {range_key} BETWEEN :least AND :most"
    elif at_least is not None:
        condition += f" AND {range_key} >= :least"
    elif at_most is not None:
        condition += f" AND {range_key} <= :most"
    values |= {name: bound for name, bound in ((":least", at_least), (":most", at_most)) if bound is not None}
    options: dict[str, Any] = {
        "TableName": settings.table_name(),
        "KeyConditionExpression": condition,
        "ExpressionAttributeValues": encode(values),
        "ScanIndexForward": forward,
        "Limit": limit,
    }
    options |= {"IndexName": f"by_{index}"} if index else {"ConsistentRead": True}
    while True:
        response = services.dynamodb().call("Query", options)
        yield [decode(item) for item in response["Items"]]
        if "LastEvaluatedKey" not in response:
            return
        options |= {"ExclusiveStartKey": response["LastEvaluatedKey"], "Limit": next_limit or limit}


def _index_keys(index: str | None) -> tuple[str, str]:
    if index is None:
        return "pk", "sk"
    if index == "due":
        return "due_shard", "due"
    return index, "sk" if index.startswith("f") else "sort_time"
