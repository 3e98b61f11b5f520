"""The table. Every request to DynamoDB goes through this module.

Rows are flat dicts whose values are str, int, bool, bytes or a dict of ints. Reads of the base table are strongly
consistent; reads of an index are not. `write` executes one operation, or several as one transaction.

Long documents are stored compressed, because each KB or part of a KB of a row costs a write unit, and two in a
transaction. A condition must therefore not compare a document.

    ConditionFailed(op, old)    the condition of an operation failed; nothing was written
    Contended(op)               transaction conflicts on the row of an operation; nothing was written
    Unavailable                 DynamoDB throttled the request or did not respond; if `uncertain`, it may have written

The client sends a write again if a response is lost. DynamoDB recognizes a transaction by its token. A single write is
recognized in the row that fails its condition: a row with a version `v` stores who wrote each of its last versions, so
that a later write does not hide an earlier one.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import itertools
import os
import random
import threading
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from shared.aws import services
from shared.aws.client import BegunCall
from shared.aws.error_codes import THROTTLED_WRITES, CancellationReason, ErrorCode
from shared.aws.services import AwsError, Unavailable
from shared.core import clock, trace

Value = str | int | bool | bytes | dict[str, int]
Row = dict[str, Any]
OnConditionFailed = Callable[[Row | None], Exception | None]
"""From the row that failed an operation's condition (None if it is absent) to the error for the client.

None means that the caller reads again and retries.
"""

ABSENT = "attribute_not_exists(pk)"
PRESENT = "attribute_exists(pk)"
MAX_CONFLICTS = 3
"""The number of consecutive transaction conflicts after which a write raises Contended."""
WRITERS = 8
"""The number of latest versions of a row whose writers are stored, that of version `v` in the attribute `w{v % 8}`.

A row without a version stores the writer of its last single write in `writer`.
"""
DOCUMENTS = frozenset({"doc", "before", "body"})
"""The attributes that are stored compressed if they are long: JSON texts."""
_LONG = 600
"""Bytes of a document from which its row may be larger than 1 KB: the other attributes take up to 400."""
_BATCH_KEYS = 100  # the limit of BatchGetItem
_BATCH_RETRIES = 6
_begun: ContextVar[dict[tuple[str, str], BegunCall]] = ContextVar("begun")


def decide_again(old: Row | None) -> None:
    """The row was modified concurrently: the caller reads it again and retries."""


@dataclass(frozen=True)
class Put:
    """Write a row, by default only if it does not exist. `commit` raises `on_contended` instead of Contended."""

    row: Row
    condition: str = ABSENT
    values: Mapping[str, Value] = field(default_factory=dict)
    on_condition_failed: OnConditionFailed = decide_again
    on_contended: Exception | None = None


@dataclass(frozen=True)
class Update:
    """Change attributes of a row: to the values in `set` (None removes one), and by further SET clauses."""

    pk: str
    sk: str
    set: Mapping[str, Value | None] = field(default_factory=dict)
    expressions: tuple[str, ...] = ()
    condition: str = PRESENT
    values: Mapping[str, Value] = field(default_factory=dict)
    on_condition_failed: OnConditionFailed = decide_again


@dataclass(frozen=True)
class Delete:
    """Delete a row."""

    pk: str
    sk: str
    condition: str = PRESENT
    values: Mapping[str, Value] = field(default_factory=dict)
    on_condition_failed: OnConditionFailed = decide_again


@dataclass(frozen=True)
class Check:
    """Require a condition on a row that the transaction does not write."""

    pk: str
    sk: str
    condition: str = PRESENT
    values: Mapping[str, Value] = field(default_factory=dict)
    on_condition_failed: OnConditionFailed = decide_again


def versioned(row: Row, version: int) -> Put:
    """The write that replaces a row of this version `v` (0 if the row does not exist yet) with the next version.

    The row loses the writers of its earlier versions.
    """
    condition, values = (ABSENT, {}) if version == 0 else ("v = :v", {":v": version})
    return Put(row | {"v": version + 1}, condition=condition, values=values)


Write = Put | Update | Delete | Check
"""One operation of a transaction. A check changes nothing; the transaction fails if its condition fails."""
_OLD_ON_FAILURE = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}


class ConditionFailed(Exception):
    """The condition of `op` failed. `old` is the row at that time, None if it does not exist.

    Only `update` raises it if it is `uncertain` whether an earlier attempt of the write took effect.
    """

    def __init__(self, op: Write, old: Row | None, *, uncertain: bool = False) -> None:
        super().__init__(type(op).__name__)
        self.op = op
        self.old = old
        self.uncertain = uncertain


class Contended(Exception):
    """Other transactions on the row of `op` cancelled the write `MAX_CONFLICTS` times in a row."""

    def __init__(self, op: Write) -> None:
        super().__init__(type(op).__name__)
        self.op = op


def get(pk: str, sk: str) -> Row | None:
    """The current row; None if it does not exist or has expired."""
    begun = _begun.get({}).pop((pk, sk), None)
    response = services.dynamodb().call("GetItem", _get_item(pk, sk)) if begun is None else begun.response()
    row = decode(response["Item"]) if "Item" in response else None
    return None if row is None or is_expired(row) else row


@contextlib.contextmanager
def reading_ahead(pk: str, sk: str) -> Iterator[None]:
    """Send the request that reads a row. The first `get` of the row in the block reads the response.

    The block must not write the row before that `get`.
    """
    begun = {(pk, sk): services.dynamodb().begin("GetItem", _get_item(pk, sk))}
    token = _begun.set(begun)
    try:
        yield
    finally:
        _begun.reset(token)
        for unread in begun.values():
            unread.end()


def _get_item(pk: str, sk: str) -> dict[str, Any]:
    return {"TableName": os.environ["TABLE_NAME"], "Key": _key(pk, sk), "ConsistentRead": True}


def is_expired(row: Row) -> bool:
    """Whether the row has expired. DynamoDB deletes expired rows later."""
    return "expires_at" in row and row["expires_at"] <= clock.now() // clock.SECOND


def get_many(keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Row]:
    """The rows with these keys that exist and have not expired, by key. One request for each 100 keys."""
    rows: dict[tuple[str, str], Row] = {}
    unique = list(dict.fromkeys(keys))
    for start in range(0, len(unique), _BATCH_KEYS):
        for item in _batch_get([_key(*key) for key in unique[start : start + _BATCH_KEYS]]):
            row = decode(item)
            if not is_expired(row):
                rows[row["pk"], row["sk"]] = row
    return rows


def rows_of(entries: Sequence[Row]) -> list[Row]:
    """The rows of index entries, in their order, without those that do not exist any more or have expired."""
    keys = [(entry["pk"], entry["sk"]) for entry in entries]
    rows = get_many(keys)
    return [rows[key] for key in keys if key in rows]


@dataclass(frozen=True)
class _SharedRead:
    """What one request of `SharedReads` reads, and its result."""

    keys: list[tuple[str, str]] = field(default_factory=list)
    rows: Future[dict[tuple[str, str], Row]] = field(default_factory=Future)


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

    def get_many(self, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Row]:
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
        rows = read.rows.result()
        return {key: rows[key] for key in wanted if key in rows}

    def _read(self, read: _SharedRead) -> None:
        with self._joining:
            self._next = _SharedRead()
        try:
            read.rows.set_result(get_many(read.keys))
        except BaseException as error:
            read.rows.set_exception(error)


def _batch_get(pending: list[dict[str, Any]]) -> Iterator[Any]:
    """The items with these keys that exist. Retries the keys that DynamoDB leaves unprocessed."""
    name = os.environ["TABLE_NAME"]
    for attempt in itertools.count(1):
        response = _call("BatchGetItem", RequestItems={name: {"Keys": pending, "ConsistentRead": True}})
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
        "KeyConditionExpression": condition,
        "ExpressionAttributeValues": encode(values),
        "ScanIndexForward": forward,
        "Limit": limit,
    }
    options |= {"IndexName": f"by_{index}"} if index else {"ConsistentRead": True}
    while True:
        response = _call("Query", **options)
        yield [decode(item) for item in response["Items"]]
        if "LastEvaluatedKey" not in response:
            return
        options |= {"ExclusiveStartKey": response["LastEvaluatedKey"], "Limit": next_limit or limit}


def write(ops: Sequence[Write], request: str) -> None:
    """Execute the writes, all or none, on behalf of the request with this id.

    A condition that fails because an earlier attempt of the same request took effect counts as success. Workers use a
    token of their own as the request. `cause` is the API request that caused the write; if it is unknown, the row keeps
    its previous one. Raises ConditionFailed, Contended or Unavailable.
    """
    # A single deletion with a condition is a transaction, too: no row would show that an earlier attempt took effect.
    if len(ops) == 1 and not (isinstance(ops[0], Check | Delete) and ops[0].condition):
        _write_one(ops[0], request)
    else:
        _write_all(ops, request)


def update(op: Update) -> Row:
    """Execute one update and return the whole row after it. Raises ConditionFailed, Contended or Unavailable.

    It does not store the request's id: a caller that must know whether an earlier attempt took effect compares the row.
    """
    return decode(_send(op, {}, ReturnValues="ALL_NEW")["Attributes"])


def _write_one(op: Write, request: str) -> None:
    try:
        _send(op, _author(op, request, single=True))
    except ConditionFailed as failed:
        if not _took_effect(failed, request):
            raise


def _took_effect(failed: ConditionFailed, request: str) -> bool:
    """Whether an earlier attempt of a single write took effect. Raises Unavailable if that is unknown."""
    old, version = failed.old, _version(failed.op)
    writer = (old or {}).get(_writer(version))
    if writer == _digest(request):
        return True
    surely_not = (
        old is not None
        and version is not None
        and (old["v"] < version or (writer is not None and old["v"] < version + WRITERS))
    )
    if failed.uncertain and not surely_not:
        raise Unavailable("a response was lost, and others have written the row since", uncertain=True)
    return False


def _send(op: Write, author: Mapping[str, Value], **options: str) -> Any:
    """Send a single write and return the response. Raises ConditionFailed, Contended or Unavailable."""
    operation = {Put: "PutItem", Update: "UpdateItem", Delete: "DeleteItem"}[type(op)]
    uncertain = False
    for conflicts in range(MAX_CONFLICTS):
        try:
            return _call(operation, **_parameters(op, author), **_OLD_ON_FAILURE, **options)
        except (AwsError, Unavailable) as error:
            uncertain = error.uncertain = uncertain or error.uncertain
            if isinstance(error, AwsError) and error.code == ErrorCode.CONDITION_FAILED:
                old = error.body.get("Item")
                raise ConditionFailed(op, decode(old) if old else None, uncertain=uncertain) from None
            if isinstance(error, Unavailable) or error.code != ErrorCode.TRANSACTION_CONFLICT:
                raise
        _pause(conflicts)
    raise Unavailable("conflicts", uncertain=True) if uncertain else Contended(op)


def _write_all(ops: Sequence[Write], request: str) -> None:
    items = [
        {type(op).__name__ if not isinstance(op, Check) else "ConditionCheck": _in_transaction(op, request)}
        for op in ops
    ]
    # One token for all attempts: a transaction that took effect, but whose response was lost, is not repeated.
    token = uuid.uuid4().hex
    failure: Contended | Unavailable = Contended(ops[-1])
    for conflicts in range(MAX_CONFLICTS):
        try:
            _call("TransactWriteItems", TransactItems=items, ClientRequestToken=token)
            return
        except AwsError as error:
            if error.code == ErrorCode.TRANSACTION_IN_PROGRESS:
                failure = Unavailable(error.code, uncertain=True)
            elif error.code == ErrorCode.TRANSACTION_CANCELED:
                failure = _cancelled(ops, error.body.get("CancellationReasons", []))
            else:
                raise
        except Unavailable as error:
            error.uncertain = error.uncertain or isinstance(failure, Unavailable)
            raise
        _pause(conflicts)
    raise failure


def _cancelled(ops: Sequence[Write], reasons: Sequence[Any]) -> Contended:
    """The conflict that cancelled a transaction. Raises ConditionFailed for another reason."""
    failed, contended = [], []
    for op, reason in zip(ops, reasons, strict=True):
        if reason["Code"] == CancellationReason.CONDITION_FAILED:
            failed.append(ConditionFailed(op, decode(reason["Item"]) if reason.get("Item") else None))
        elif reason["Code"] == CancellationReason.CONFLICT:
            contended.append(Contended(op))
        elif reason["Code"] != CancellationReason.NONE and reason["Code"] not in THROTTLED_WRITES:
            raise RuntimeError(f"transaction cancelled: {reason['Code']}")
    if failed:
        # The idempotency record is the last operation. It decides if another condition fails too.
        raise failed[-1] from None
    return contended[-1]


def _pause(conflicts: int) -> None:
    clock.sleep(random.uniform(0.01, 0.04) * 2**conflicts)


def _in_transaction(op: Write, request: str) -> dict[str, Any]:
    author = _author(op, request, single=False)
    return _parameters(op, author) | {"TableName": os.environ["TABLE_NAME"]} | _OLD_ON_FAILURE


def _parameters(op: Write, author: Mapping[str, Value]) -> dict[str, Any]:
    if isinstance(op, Put):
        return {"Item": encode({**op.row, **author})} | _condition(op.condition, op.values)
    if isinstance(op, Delete | Check):
        return {"Key": _key(op.pk, op.sk)} | _condition(op.condition, op.values)
    attributes = {**op.set, **author}
    sets = [f"{name} = :s_{name}" for name, value in attributes.items() if value is not None] + list(op.expressions)
    removes = [name for name, value in attributes.items() if value is None]
    expression = " ".join(
        f"{verb} {', '.join(clauses)}" for verb, clauses in (("SET", sets), ("REMOVE", removes)) if clauses
    )
    values = {f":s_{name}": _stored(name, value) for name, value in attributes.items() if value is not None}
    values |= op.values
    return {"Key": _key(op.pk, op.sk), "UpdateExpression": expression} | _condition(op.condition, values)


def _author(op: Write, request: str, *, single: bool) -> dict[str, Value]:
    """The attributes that say who wrote a row, and which API request caused it."""
    version = _version(op)
    cause = request if request.startswith("req_") else trace.request_id()
    # DynamoDB recognizes a transaction, but other requests must see that this version is not theirs.
    author: dict[str, Value] = {_writer(version): _digest(request)} if single or version is not None else {}
    return author if cause is None else author | {"cause": cause}


def _version(op: Write) -> int | None:
    """The version of the row that a write makes; None if it does not say."""
    row: Mapping[str, Any] = op.row if isinstance(op, Put) else op.set if isinstance(op, Update) else {}
    return row.get("v")


def _digest(request: str) -> str:
    """The text by which a row names a request that wrote it: short, because each KB of a row costs a unit."""
    return base64.b64encode(hashlib.sha256(request.encode()).digest())[:6].decode()


def _writer(version: int | None) -> str:
    """The attribute of the request that wrote this version of a row."""
    return "writer" if version is None else f"w{version % WRITERS}"


def _condition(condition: str, values: Mapping[str, Value]) -> dict[str, Any]:
    expression: dict[str, Any] = {"ConditionExpression": condition} if condition else {}
    return expression | ({"ExpressionAttributeValues": encode(values)} if values else {})


def _call(operation: str, **parameters: Any) -> Any:
    """Call an operation of DynamoDB and return its response. Raises AwsError or Unavailable."""
    if operation not in ("BatchGetItem", "TransactWriteItems"):
        parameters["TableName"] = os.environ["TABLE_NAME"]
    return services.dynamodb().call(operation, parameters)


def _index_keys(index: str | None) -> tuple[str, str]:
    if index is None:
        return "pk", "sk"
    if index == "due":
        return "due_shard", "due"
    return index, "sk" if index.startswith("f") else "sort_time"


def _key(pk: str, sk: str) -> dict[str, Any]:
    return {"pk": {"S": pk}, "sk": {"S": sk}}


def encode(row: Mapping[str, Value | None]) -> dict[str, Any]:
    """A row in DynamoDB's typed JSON."""
    return {name: _encode(_stored(name, value)) for name, value in row.items() if value is not None}


def _stored(name: str, value: Value) -> Value:
    """The value of this attribute as it is stored: compressed if it is a long document."""
    if name not in DOCUMENTS or not isinstance(value, str) or len(text := value.encode()) < _LONG:
        return value
    # A small window and little memory: preparing the default of 256 KB takes longer than compressing a document.
    packer = zlib.compressobj(wbits=-12, memLevel=5)
    return packer.compress(text) + packer.flush()


def _encode(value: Value) -> dict[str, Any]:
    if isinstance(value, str):
        return {"S": value}
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, int):
        return {"N": str(value)}
    if isinstance(value, bytes):
        return {"B": base64.b64encode(value).decode()}
    return {"M": {name: {"N": str(number)} for name, number in value.items()}}


def decode(item: Mapping[str, Any]) -> Row:
    """A row from DynamoDB's typed JSON, the format of responses and of stream images."""
    return {name: _decode(name, typed) for name, typed in item.items()}


def _decode(name: str, typed: Mapping[str, Any]) -> Any:
    ((tag, value),) = typed.items()
    if tag == "N":
        return int(value)
    if tag == "M":
        return {key: int(inner["N"]) for key, inner in value.items()}
    if tag == "B":
        data = base64.b64decode(value)
        return zlib.decompress(data, wbits=-zlib.MAX_WBITS).decode() if name in DOCUMENTS else data
    return value
