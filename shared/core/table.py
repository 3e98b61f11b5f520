"""The one table: all traffic with DynamoDB goes through here.

Rows are flat dicts of str, int, bool, bytes, or a dict of ints. Reads are strongly consistent, except those of an
index. `write` carries out one operation, or several as one transaction.

    ConditionFailed(op, old)    the condition of an operation failed; nothing was written
    Contended(op)               other transactions held a row three times in a row; nothing was written
    Unavailable                 DynamoDB throttled or did not answer
"""

from __future__ import annotations

import itertools
import os
import random
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from shared.core import aws, clock
from shared.core.aws import Unavailable

Value = str | int | bool | bytes | dict[str, int]
Row = dict[str, Any]
OnConditionFailed = Callable[[Row | None], Exception | None]
"""From the row that an operation's condition met to the error for the client; None to decide again."""

ABSENT = "attribute_not_exists(pk)"
PRESENT = "attribute_exists(pk)"
CONFLICTS_IN_A_ROW = 3
"""Transaction conflicts after which a write gives up."""
_KEYS_IN_A_CALL = 100  # what BatchGetItem takes
_BATCH_TRIES = 6


def decide_again(old: Row | None) -> None:
    """For a write that lost a race: read again, and apply the change to what is there now."""


@dataclass(frozen=True)
class Put:
    """Write a whole row."""

    row: Row
    condition: str = ABSENT
    values: Mapping[str, Value] = field(default_factory=dict)
    on_condition_failed: OnConditionFailed = decide_again


@dataclass(frozen=True)
class Update:
    """Set and remove attributes of a row. `set` takes values, `expressions` further SET clauses."""

    pk: str
    sk: str
    set: Mapping[str, Value | None] = field(default_factory=dict)
    expressions: tuple[str, ...] = ()
    condition: str = PRESENT
    values: Mapping[str, Value] = field(default_factory=dict)
    on_condition_failed: OnConditionFailed = decide_again


@dataclass(frozen=True)
class Delete:
    """Remove a row."""

    pk: str
    sk: str
    condition: str = PRESENT
    values: Mapping[str, Value] = field(default_factory=dict)
    on_condition_failed: OnConditionFailed = decide_again


@dataclass(frozen=True)
class Check:
    """Hold a condition on a row that is not written."""

    pk: str
    sk: str
    condition: str = PRESENT
    values: Mapping[str, Value] = field(default_factory=dict)
    on_condition_failed: OnConditionFailed = decide_again


def versioned(row: Row, seen: int) -> Put:
    """Write a row whole with the next version `v`, unless another came since version `seen` (0: there was none)."""
    condition, values = (ABSENT, {}) if seen == 0 else ("v = :seen", {":seen": seen})
    return Put(row | {"v": seen + 1}, condition=condition, values=values)


Operation = Put | Update | Delete | Check
_TRANSACTED = {Check: "ConditionCheck"}
_OLD_ON_FAILURE = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}


class ConditionFailed(Exception):
    """The condition of `op` failed; `old` is the row that it met, None if there is none."""

    def __init__(self, op: Operation, old: Row | None) -> None:
        super().__init__(type(op).__name__)
        self.op = op
        self.old = old


class Contended(Exception):
    """`op` met other transactions on its row, three times in a row."""

    def __init__(self, op: Operation) -> None:
        super().__init__(type(op).__name__)
        self.op = op


def get(pk: str, sk: str) -> Row | None:
    """The row as it is now; None if there is none or its time is over."""
    answer = _call("get_item", Key=_key(pk, sk), ConsistentRead=True)
    row = decoded(answer["Item"]) if "Item" in answer else None
    return None if row is None or expired(row) else row


def expired(row: Row) -> bool:
    """Whether the row is over, though the table has not deleted it yet."""
    return "expires_at" in row and row["expires_at"] <= clock.now() // clock.SECOND


def get_many(keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Row]:
    """The rows with these keys that exist and have not expired, by key. One call for each 100 keys."""
    rows: dict[tuple[str, str], Row] = {}
    unique = list(dict.fromkeys(keys))
    for start in range(0, len(unique), _KEYS_IN_A_CALL):
        for item in _batch_get([_key(*key) for key in unique[start : start + _KEYS_IN_A_CALL]]):
            row = decoded(item)
            if not expired(row):
                rows[row["pk"], row["sk"]] = row
    return rows


def _batch_get(pending: list[dict[str, Any]]) -> Iterator[Any]:
    """The items with these keys that exist; what DynamoDB leaves unprocessed is asked for again."""
    name = os.environ["TABLE_NAME"]
    for tries in itertools.count(1):
        answer = _call("batch_get_item", RequestItems={name: {"Keys": pending, "ConsistentRead": True}})
        yield from answer["Responses"].get(name, ())
        pending = answer.get("UnprocessedKeys", {}).get(name, {}).get("Keys", [])
        if not pending:
            return
        if tries > _BATCH_TRIES:
            raise Unavailable("BatchGetItem left keys unprocessed")
        clock.sleep(random.uniform(0, 0.05 * 2**tries))


def query(
    pk: str,
    *,
    index: str | None = None,
    at_least: str | None = None,
    at_most: str | None = None,
    limit: int,
    then: int | None = None,
    forward: bool = False,
) -> Iterator[list[Row]]:
    """Pages of a partition's rows between two sort keys, both inclusive; newest first unless `forward`.

    `index` is the partition attribute of an index, or `due`; its rows have only their keys, and it may lag
    by about a second. The first page has at most `limit` rows, the others `then`, all at most 1 MB.
    Nothing is read before the first is asked for.
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
        "KeyConditionExpression": condition,
        "ExpressionAttributeValues": _item(values),
        "ScanIndexForward": forward,
        "Limit": limit,
    }
    options |= {"IndexName": f"by_{index}"} if index else {"ConsistentRead": True}
    while True:
        answer = _call("query", **options)
        yield [decoded(item) for item in answer["Items"]]
        if "LastEvaluatedKey" not in answer:
            return
        options |= {"ExclusiveStartKey": answer["LastEvaluatedKey"], "Limit": then or limit}


def write(ops: Sequence[Operation], request: str) -> None:
    """Carry out the operations, all or none, on behalf of the request with this id.

    Rows remember the request that last wrote them (`req`): a condition that fails because an earlier try
    of this very request took effect, its answer lost, counts as success.
    """
    if len(ops) == 1 and not isinstance(ops[0], Check):
        _write_one(ops[0], request)
    else:
        _write_all(ops, request)


def update(op: Update) -> Row:
    """Carry out one update and return the whole row after it. Raises ConditionFailed, Contended.

    It does not remember the request: a caller that must know whether an earlier try took effect compares the row.
    """
    for conflicts in range(CONFLICTS_IN_A_ROW):
        try:
            answer = _call(
                "update_item",
                **_parameters(op, None),
                ReturnValues="ALL_NEW",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != "TransactionConflictException":
                raise _condition_failed(op, error) from None
            _pause(conflicts)
        else:
            return decoded(answer["Attributes"])
    raise Contended(op)


def _write_one(op: Operation, request: str) -> None:
    method = {Put: "put_item", Update: "update_item", Delete: "delete_item"}[type(op)]
    for conflicts in range(CONFLICTS_IN_A_ROW):
        try:
            _call(method, **_parameters(op, request), **_OLD_ON_FAILURE)
            return
        except ClientError as error:
            if error.response["Error"]["Code"] == "TransactionConflictException":
                _pause(conflicts)
                continue
            failed = _condition_failed(op, error)
            if failed.old is not None and failed.old.get("req") == request:
                return
            raise failed from None
    raise Contended(op)


def _write_all(ops: Sequence[Operation], request: str) -> None:
    items = [
        {type(op).__name__ if not isinstance(op, Check) else "ConditionCheck": _in_transaction(op, request)}
        for op in ops
    ]
    # One token for all tries: one that took effect, its response lost, is not carried out again.
    token = uuid.uuid4().hex
    contended = Contended(ops[-1])
    for conflicts in range(CONFLICTS_IN_A_ROW):
        try:
            _call("transact_write_items", TransactItems=items, ClientRequestToken=token)
            return
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code == "TransactionInProgressException":
                _pause(conflicts)
                continue
            if code != "TransactionCanceledException":
                raise
            failed = _cancelled(ops, error.response.get("CancellationReasons", []), request)
            if isinstance(failed, ConditionFailed):
                raise failed from None
            if failed is None:
                return
            contended = failed
            _pause(conflicts)
    raise contended


def _cancelled(ops: Sequence[Operation], reasons: Sequence[Any], request: str) -> ConditionFailed | Contended | None:
    """Why a transaction was cancelled; None if because an earlier try of it took effect."""
    failed, contended = [], []
    for op, reason in zip(ops, reasons, strict=True):
        if reason["Code"] == "ConditionalCheckFailed":
            old = decoded(reason["Item"]) if reason.get("Item") else None
            if old is not None and old.get("req") == request and not isinstance(op, Check):
                return None
            failed.append(ConditionFailed(op, old))
        elif reason["Code"] == "TransactionConflict":
            contended.append(Contended(op))
        elif reason["Code"] in ("ThrottlingError", "ProvisionedThroughputExceeded"):
            raise Unavailable(reason["Code"])
        elif reason["Code"] != "None":
            raise RuntimeError(f"transaction cancelled: {reason['Code']}")
    # The idempotency record is the last operation, and where it and another condition fail, it decides.
    return failed[-1] if failed else contended[-1]


def _pause(conflicts: int) -> None:
    clock.sleep(random.uniform(0.01, 0.04) * 2**conflicts)


def _condition_failed(op: Operation, error: ClientError) -> ConditionFailed:
    if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
        raise error
    old: Any = error.response.get("Item")
    return ConditionFailed(op, decoded(old) if old else None)


def _in_transaction(op: Operation, request: str) -> dict[str, Any]:
    return _parameters(op, request) | {"TableName": os.environ["TABLE_NAME"]} | _OLD_ON_FAILURE


def _parameters(op: Operation, request: str | None) -> dict[str, Any]:
    if isinstance(op, Put):
        row = op.row if request is None else op.row | {"req": request}
        return {"Item": _item(row)} | _condition(op.condition, op.values)
    if isinstance(op, Delete | Check):
        return {"Key": _key(op.pk, op.sk)} | _condition(op.condition, op.values)
    attributes = dict(op.set) if request is None else {**op.set, "req": request}
    sets = [f"{name} = :s_{name}" for name, value in attributes.items() if value is not None] + list(op.expressions)
    removes = [name for name, value in attributes.items() if value is None]
    expression = " ".join(
        f"{verb} {', '.join(clauses)}" for verb, clauses in (("SET", sets), ("REMOVE", removes)) if clauses
    )
    values = {f":s_{name}": value for name, value in attributes.items() if value is not None} | dict(op.values)
    return {"Key": _key(op.pk, op.sk), "UpdateExpression": expression} | _condition(op.condition, values)


def _condition(condition: str, values: Mapping[str, Value]) -> dict[str, Any]:
    found: dict[str, Any] = {"ConditionExpression": condition} if condition else {}
    return found | ({"ExpressionAttributeValues": _item(values)} if values else {})


def _call(method: str, **parameters: Any) -> Any:
    """One call of the client."""
    if method not in ("batch_get_item", "transact_write_items"):
        parameters["TableName"] = os.environ["TABLE_NAME"]
    return aws.answered(getattr(aws.dynamodb(), method), **parameters)


def _index_keys(index: str | None) -> tuple[str, str]:
    if index is None:
        return "pk", "sk"
    if index == "due":
        return "due_shard", "due"
    return index, "sk" if index.startswith("f") else "sort_time"


def _key(pk: str, sk: str) -> dict[str, Any]:
    return {"pk": {"S": pk}, "sk": {"S": sk}}


def _item(row: Mapping[str, Value | None]) -> dict[str, Any]:
    return {name: _encoded(value) for name, value in row.items() if value is not None}


def _encoded(value: Value) -> dict[str, Any]:
    if isinstance(value, str):
        return {"S": value}
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, int):
        return {"N": str(value)}
    if isinstance(value, bytes):
        return {"B": value}
    return {"M": {name: {"N": str(number)} for name, number in value.items()}}


def decoded(item: Mapping[str, Any]) -> Row:
    """A row from DynamoDB's typed JSON, as in the stream's images."""
    return {name: _decoded(typed) for name, typed in item.items()}


def _decoded(typed: Mapping[str, Any]) -> Any:
    ((tag, value),) = typed.items()
    if tag == "N":
        return int(value)
    if tag == "M":
        return {name: _decoded(inner) for name, inner in value.items()}
    return value
