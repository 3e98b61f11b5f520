"""DynamoDB in memory: one table with indexes, a stream, time to live and transactions, as far as the service uses it.

`call` takes and returns what the JSON protocol carries. It refuses what it does not know with `Unsupported`, so that
nothing is simulated by accident. `tests/integration/test_simulated_table.py` holds it against DynamoDB Local.
"""

from __future__ import annotations

import bisect
import itertools
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra import topology
from infra.topology import Index
from tests.simulation import expressions
from tests.simulation.expressions import Invalid, Unsupported

Item = dict[str, Any]
Key = tuple[str, str]
TOKEN_S = 600
"""Seconds for which a transaction is recognized by its token."""
MOST_BATCH_KEYS, MOST_OPERATIONS = 100, 100
_EXPIRED_BY = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}


class Refused(Exception):
    """DynamoDB refuses a call. `more` are further fields of the error's body."""

    def __init__(self, code: str, message: str = "", more: Mapping[str, Any] | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.more = code, message, more or {}


@dataclass(frozen=True)
class Write:
    """One write of an item: its key, the condition on the item, and the item afterwards (None deletes it)."""

    key: Key
    condition: Callable[[Item], bool]
    change: Callable[[Item], Item | None]
    returns_old: bool
    checks_only: bool = False


class Table:
    """The table. `now` returns Unix seconds; `lag` the seconds until an index shows a change."""

    def __init__(self, name: str, now: Callable[[], float], lag: Callable[[], float] = lambda: 0.0) -> None:
        self.name = name
        self._now, self._lag = now, lag
        self.items: dict[Key, Item] = {}
        self._sorted: dict[str, list[str]] = {}
        self._indexes = {index.name: _View(index) for index in topology.TABLE.indexes}
        self.stream: deque[dict[str, Any]] = deque()
        """The changes that were not read yet, oldest first."""
        self._numbers = itertools.count(1)
        self._tokens: dict[str, tuple[float, Any]] = {}
        self.on_change: Callable[[], None] = lambda: None

    def call(self, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The response of an operation. Raises Refused or Unsupported."""
        calls = {
            "GetItem": self._get,
            "BatchGetItem": self._batch_get,
            "Query": self._query,
            "TransactWriteItems": self._transact,
        }
        try:
            if operation in ("PutItem", "UpdateItem", "DeleteItem"):
                return self._write_one(operation, parameters)
            if operation not in calls:
                raise Unsupported(operation)
            return calls[operation](parameters)
        except Invalid as invalid:
            raise Refused("ValidationException", str(invalid)) from None

    def expire(self, key: Key) -> None:
        """Delete an item whose time to live is over."""
        self._store(key, None, user=_EXPIRED_BY)

    def expired(self) -> list[Key]:
        """The keys of the items whose time to live is over, in order."""
        now = int(self._now())
        return sorted(key for key, item in self.items.items() if _expires_at(item) < now)

    def next_due(self, shards: Sequence[str]) -> int | None:
        """The first instant (milliseconds) in these partitions of the index of due rows."""
        view = self._indexes["by_due"]
        found = [entries[0][0] for shard in shards if (entries := view.partition(shard, self._now()))]
        return min((int(due) for due in [*found, *view.pending_sort_keys()]), default=None)

    # Reads

    def _get(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        _refuse_others(parameters, "TableName", "Key", "ConsistentRead")
        if parameters["ConsistentRead"] is not True:
            raise Unsupported("reads that are not strongly consistent")
        item = self.items.get(_key(parameters["Key"]))
        return {} if item is None else {"Item": item}

    def _batch_get(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        _refuse_others(parameters, "RequestItems")
        ((name, request),) = parameters["RequestItems"].items()
        _refuse_others(request, "Keys", "ConsistentRead")
        keys = [_key(key) for key in request["Keys"]]
        if len(set(keys)) < len(keys):
            raise Invalid("Provided list of item keys contains duplicates")
        if not 1 <= len(keys) <= MOST_BATCH_KEYS or request["ConsistentRead"] is not True:
            raise Unsupported("this batch")
        return {"Responses": {name: [self.items[key] for key in keys if key in self.items]}, "UnprocessedKeys": {}}

    def _query(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        _refuse_others(
            parameters,
            *("TableName", "KeyConditionExpression", "ExpressionAttributeValues", "ScanIndexForward", "Limit"),
            *("IndexName", "ConsistentRead", "ExclusiveStartKey"),
        )
        view = self._indexes[parameters["IndexName"]] if "IndexName" in parameters else None
        if (view is None) != (parameters.get("ConsistentRead") is True):
            raise Unsupported("consistent reads of an index, or others of the table")
        hash_key, range_key = (view.index.hash_key, view.index.range_key) if view else ("pk", "sk")
        partition, least, most = expressions.key_condition(
            parameters["KeyConditionExpression"], parameters["ExpressionAttributeValues"], hash_key, range_key
        )
        if least > most:
            raise Invalid("The BETWEEN operator requires upper bound to be greater than or equal to lower bound")
        entries = view.partition(partition, self._now()) if view else self._partition(partition)
        first = bisect.bisect_left(entries, (least,))
        found = list(itertools.takewhile(lambda entry: entry[0] <= most, entries[first:]))
        forward, start = parameters["ScanIndexForward"], parameters.get("ExclusiveStartKey")
        if not forward:
            found.reverse()
        if start is not None:
            after = (start[range_key]["S"], start["pk"]["S"], start["sk"]["S"])
            found = [entry for entry in found if (entry > after if forward else entry < after)]
        page = found[: parameters["Limit"]]
        items = [self._shown(view, partition, entry) for entry in page]
        # DynamoDB finds out that nothing follows only when it reads on.
        more = len(page) == parameters["Limit"]
        names = dict.fromkeys(("pk", "sk", hash_key, range_key))
        response: dict[str, Any] = {"Items": items, "Count": len(items), "ScannedCount": len(items)}
        return response | ({"LastEvaluatedKey": {name: items[-1][name] for name in names}} if more else {})

    def _partition(self, partition: str) -> list[tuple[str, str, str]]:
        return [(sk, partition, sk) for sk in self._sorted.get(partition, ())]

    def _shown(self, view: _View | None, partition: str, entry: tuple[str, str, str]) -> Item:
        sort, pk, sk = entry
        if view is None:
            return self.items[pk, sk]
        keys = {"pk": pk, "sk": sk, view.index.hash_key: partition, view.index.range_key: sort}
        return {name: {"S": value} for name, value in keys.items()}

    # Writes

    def _write_one(self, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        write = _write(operation, parameters)
        old = self.items.get(write.key)
        if not write.condition(old or {}):
            more = {"Item": old} if old is not None and write.returns_old else {}
            raise Refused("ConditionalCheckFailedException", "The conditional request failed", more)
        new = self._changed(write)
        self._store(write.key, new)
        if parameters.get("ReturnValues") == "ALL_NEW":
            return {"Attributes": new}
        return {}

    def _transact(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        _refuse_others(parameters, "TransactItems", "ClientRequestToken")
        token, now = parameters["ClientRequestToken"], self._now()
        self._tokens = {key: entry for key, entry in self._tokens.items() if entry[0] > now}
        if token in self._tokens:
            if self._tokens[token][1] != parameters["TransactItems"]:
                raise Refused("IdempotentParameterMismatchException", "")
            return {}
        operations = {
            "Put": "PutItem",
            "Update": "UpdateItem",
            "Delete": "DeleteItem",
            "ConditionCheck": "ConditionCheck",
        }
        writes = []
        for entry in parameters["TransactItems"]:
            ((kind, details),) = entry.items()
            writes.append(_write(operations[kind], details))
        if not 1 <= len(writes) <= MOST_OPERATIONS:
            raise Invalid("a transaction has 1 to 100 operations")
        if len({write.key for write in writes}) < len(writes):
            raise Invalid("Transaction request cannot include multiple operations on one item")
        reasons = [self._reason(write) for write in writes]
        if any(reason["Code"] != "None" for reason in reasons):
            raise cancellation(reasons)
        changed = [(write, self._changed(write)) for write in writes]
        for write, new in changed:
            if not write.checks_only:
                self._store(write.key, new)
        self._tokens[token] = now + TOKEN_S, parameters["TransactItems"]
        return {}

    def _reason(self, write: Write) -> dict[str, Any]:
        old = self.items.get(write.key)
        if write.condition(old or {}):
            try:
                self._changed(write)
            except Invalid as invalid:
                return {"Code": "ValidationError", "Message": str(invalid)}
            return {"Code": "None"}
        shown = {"Item": old} if old is not None and write.returns_old else {}
        return {"Code": "ConditionalCheckFailed", "Message": "The conditional request failed", **shown}

    def _changed(self, write: Write) -> Item | None:
        """The item after a write. Raises Invalid."""
        new = None if write.checks_only else write.change(self.items.get(write.key) or {})
        if new is not None:
            new = {"pk": {"S": write.key[0]}, "sk": {"S": write.key[1]}} | new
            _check_index_keys(new)
        return new

    def _store(self, key: Key, new: Item | None, user: Mapping[str, str] | None = None) -> None:
        old = self.items.get(key)
        if new == old:
            return
        if new is None:
            del self.items[key]
            self._sorted[key[0]].remove(key[1])
        else:
            if old is None:
                bisect.insort(self._sorted.setdefault(key[0], []), key[1])
            self.items[key] = new
        at = self._now() + self._lag()
        for view in self._indexes.values():
            view.change(key, old, new, at)
        self._record(key, old, new, user)
        self.on_change()

    def _record(self, key: Key, old: Item | None, new: Item | None, user: Mapping[str, str] | None) -> None:
        number = next(self._numbers)
        images = {name: image for name, image in (("OldImage", old), ("NewImage", new)) if image is not None}
        record: dict[str, Any] = {
            "eventID": f"{number:032x}",
            "eventName": "INSERT" if old is None else "REMOVE" if new is None else "MODIFY",
            "dynamodb": {
                "ApproximateCreationDateTime": int(self._now()),
                "Keys": {"pk": {"S": key[0]}, "sk": {"S": key[1]}},
                "SequenceNumber": f"{number:021d}",
                "StreamViewType": topology.TABLE.stream,
                **images,
            },
        }
        self.stream.append(record | ({"userIdentity": user} if user else {}))


class _View:
    """What an index shows: keys only, and later than the table."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self._entries: dict[str, list[tuple[str, str, str]]] = {}
        self._pending: deque[tuple[float, bool, str, tuple[str, str, str]]] = deque()

    def change(self, key: Key, old: Item | None, new: Item | None, at: float) -> None:
        """Show the change of an item from this time on, but not before earlier changes."""
        before, after = self._entry(key, old), self._entry(key, new)
        if before == after:
            return
        at = max(at, self._pending[-1][0]) if self._pending else at
        if before is not None:
            self._pending.append((at, False, *before))
        if after is not None:
            self._pending.append((at, True, *after))

    def partition(self, name: str, now: float) -> list[tuple[str, str, str]]:
        """The sort key and the table's key of each entry of a partition, in order."""
        while self._pending and self._pending[0][0] <= now:
            _, is_new, partition, entry = self._pending.popleft()
            entries = self._entries.setdefault(partition, [])
            if is_new:
                bisect.insort(entries, entry)
            else:
                entries.remove(entry)
        return self._entries.get(name, [])

    def pending_sort_keys(self) -> Iterator[str]:
        """The sort keys of entries that are not shown yet."""
        return (entry[0] for _, is_new, _, entry in self._pending if is_new)

    def _entry(self, key: Key, item: Item | None) -> tuple[str, tuple[str, str, str]] | None:
        if item is None or self.index.hash_key not in item or self.index.range_key not in item:
            return None
        return item[self.index.hash_key]["S"], (item[self.index.range_key]["S"], *key)


def cancellation(reasons: Sequence[Mapping[str, Any]]) -> Refused:
    """The error of a transaction that is cancelled for these reasons, one for each operation."""
    codes = ", ".join(reason["Code"] for reason in reasons)
    message = f"Transaction cancelled, please refer cancellation reasons for specific reasons [{codes}]"
    return Refused("TransactionCanceledException", message, {"CancellationReasons": list(reasons)})


def _write(operation: str, parameters: Mapping[str, Any]) -> Write:
    """The write that an operation describes."""
    subject = "Item" if operation == "PutItem" else "Key"
    more = ("UpdateExpression", "ReturnValues") if operation == "UpdateItem" else ()
    _refuse_others(
        parameters,
        *("TableName", subject, "ConditionExpression", "ExpressionAttributeValues"),
        *("ReturnValuesOnConditionCheckFailure", *more),
    )
    if parameters.get("ReturnValues", "ALL_NEW") != "ALL_NEW":
        raise Unsupported(f"ReturnValues {parameters['ReturnValues']}")
    if parameters.get("ReturnValuesOnConditionCheckFailure", "ALL_OLD") != "ALL_OLD":
        raise Unsupported("other values on failure")
    values = parameters.get("ExpressionAttributeValues", {})
    texts = [parameters[name] for name in ("ConditionExpression", "UpdateExpression") if name in parameters]
    _check_values(values, " ".join(texts))
    text = parameters.get("ConditionExpression")
    condition = expressions.condition(text, values) if text else _always
    if operation == "PutItem":
        item = dict(parameters["Item"])
        # DynamoDB checks a whole item before its condition.
        _check_index_keys(item)
        change: Callable[[Item], Item | None] = lambda old: item  # noqa: E731
    elif operation == "UpdateItem":
        change = expressions.update(parameters["UpdateExpression"], values)
    elif operation in ("DeleteItem", "ConditionCheck"):
        change = lambda old: None  # noqa: E731
    else:
        raise Unsupported(operation)
    returns_old = "ReturnValuesOnConditionCheckFailure" in parameters
    return Write(_key(parameters[subject]), condition, change, returns_old, operation == "ConditionCheck")


def _always(item: Item) -> bool:
    return True


def _check_index_keys(item: Item) -> None:
    for index in topology.TABLE.indexes:
        for name in (index.hash_key, index.range_key):
            if name in item and not item[name].get("S"):
                raise Invalid(f"The type or value of {name} does not suit the index {index.name}")


def _check_values(values: Mapping[str, Any], text: str) -> None:
    used = set(expressions.names_of_values(text))
    if unused := set(values) - used:
        raise Invalid(f"Value provided in ExpressionAttributeValues unused in expressions: keys: {sorted(unused)}")


def _key(given: Mapping[str, Any]) -> Key:
    pk, sk = given.get("pk", {}).get("S"), given.get("sk", {}).get("S")
    if not pk or not sk:
        raise Invalid("One or more parameter values are not valid: the key is missing or empty")
    return pk, sk


def _expires_at(item: Item) -> float:
    return int(item["expires_at"]["N"]) if "expires_at" in item else float("inf")


def _refuse_others(parameters: Mapping[str, Any], *known: str) -> None:
    if unknown := set(parameters) - set(known):
        raise Unsupported(f"parameters {sorted(unknown)}")
