"""Writes of rows: one operation, or several as one transaction.

The client sends a write again if a response is lost. DynamoDB recognizes a transaction by its token. A single write is
recognized in the row that fails its condition: a row with a version `v` stores who wrote each of its last versions, so
that a later write does not hide an earlier one.

A transaction has at most 100 writes (DynamoDB's limit). Commands have a few; an erasure splits its own.
"""

from __future__ import annotations

import base64
import random
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shared.aws import services
from shared.aws.error_codes import THROTTLED_WRITES, CancellationReason, ErrorCode
from shared.aws.services import AwsError, Unavailable
from shared.core import clock, settings, trace
from shared.store.table.conditions import ABSENT, ALWAYS, PRESENT, Condition, unchanged
from shared.store.table.encoding import Row, Value, decode, encode, key, stored

MAX_CONFLICTS = 3
"""The number of consecutive transaction conflicts after which a write raises Contended."""
WRITERS = 8
"""The number of latest versions of a row whose writers are stored, that of version `v` in the attribute `w{v % 8}`.

A row without a version stores the writer of its last single write in `writer`.
"""


@dataclass(frozen=True)
class Refusal:
    """A write whose condition fails is refused: it is not decided again, as it is if its row was modified meanwhile."""

    error: Callable[[Row], Exception]
    """Makes the error, from the row at that time; `{}` if there is none."""
    goes_first: bool = False
    """Whether it decides if several writes of a transaction are refused."""
    contended: Callable[[], Exception] | None = None
    """Makes the error if other transactions write the row, instead of Contended."""


@dataclass(frozen=True)
class Put:
    """Write a row, by default only if it does not exist."""

    row: Row
    condition: Condition = ABSENT
    refusal: Refusal | None = None


@dataclass(frozen=True)
class Update:
    """Change attributes of a row."""

    pk: str
    sk: str
    set: Mapping[str, Value | None] = field(default_factory=dict)
    """The attributes with their new values. None removes one."""
    add: Mapping[str, int] = field(default_factory=dict)
    """What is added to attributes with numbers. An absent one counts as 0. A name with a dot is one in a map."""
    condition: Condition = PRESENT
    refusal: Refusal | None = None


@dataclass(frozen=True)
class Delete:
    """Delete a row."""

    pk: str
    sk: str
    condition: Condition = PRESENT
    refusal: Refusal | None = None


@dataclass(frozen=True)
class Check:
    """Require a condition on a row that the transaction does not write."""

    pk: str
    sk: str
    condition: Condition = PRESENT
    refusal: Refusal | None = None


def versioned_write(row: Row, version: int) -> Put:
    """The write that replaces a row of this version `v` (0 if the row does not exist yet) with the next version.

    The row loses the writers of its earlier versions.
    """
    return Put(row | {"v": version + 1}, condition=unchanged(version))


Write = Put | Update | Delete | Check
"""One operation of a transaction. A check changes nothing; the transaction fails if its condition fails."""


class ConditionFailed(Exception):
    """The condition of `op` failed. `old` is the row at that time, None if there is none.

    `uncertain`: the response of an earlier attempt was lost. `write` raises it only if it knows from the row that the
    attempt had no effect; callers of `write_and_get` look for themselves.
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


def write(ops: Sequence[Write]) -> None:
    """Execute the writes, all or none.

    A condition that fails because an earlier attempt of the same call took effect counts as success. A row's `cause` is
    the API request that caused the write (`trace.request_id`). If it is unknown, or the write sets `cause` itself, an
    update keeps the previous one. Raises ConditionFailed, Contended, Unavailable or AwsError.
    """
    writer = _random_id()
    # A single deletion with a condition is a transaction, too: no row would show that an earlier attempt took effect.
    if len(ops) == 1 and not (isinstance(ops[0], Check | Delete) and ops[0].condition != ALWAYS):
        _write_one(ops[0], writer)
    else:
        _write_all(ops, writer)


def write_and_get(op: Update) -> Row:
    """Execute one update and return the row after it. Raises ConditionFailed, Contended, Unavailable or AwsError.

    It does not store who wrote it: a caller that must know whether an earlier attempt took effect compares the row.
    """
    return decode(_send(op, {}, ReturnValues="ALL_NEW")["Attributes"])


def _write_one(op: Write, writer: str) -> None:
    try:
        _send(op, _author(op, writer, single=True))
    except ConditionFailed as failed:
        if not _took_effect(failed, writer):
            raise


def _took_effect(failed: ConditionFailed, writer: str) -> bool:
    """Whether an earlier attempt of a single write took effect. Raises Unavailable if that is unknown."""
    old, version = failed.old, _version(failed.op)
    stored_writer = (old or {}).get(_writer(version))
    if stored_writer == writer:
        return True
    surely_not = (
        old is not None
        and version is not None
        and (old["v"] < version or (stored_writer is not None and old["v"] < version + WRITERS))
    )
    if failed.uncertain and not surely_not:
        raise Unavailable("a response was lost, and others have written the row since", uncertain=True)
    return False


def _send(op: Write, author: Mapping[str, Value], **options: str) -> Any:
    """Send a single write and return the response. Raises ConditionFailed, Contended, Unavailable or AwsError."""
    operation = {Put: "PutItem", Update: "UpdateItem", Delete: "DeleteItem"}[type(op)]
    uncertain = False
    for conflicts in range(MAX_CONFLICTS):
        if conflicts:
            _pause(conflicts)
        try:
            return services.dynamodb().call(operation, _parameters(op, author) | options)
        except (AwsError, Unavailable) as error:
            uncertain = error.uncertain = uncertain or error.uncertain
            if isinstance(error, AwsError) and error.code == ErrorCode.CONDITION_FAILED:
                old = error.body.get("Item")
                raise ConditionFailed(op, decode(old) if old else None, uncertain=uncertain) from None
            if isinstance(error, Unavailable) or error.code != ErrorCode.TRANSACTION_CONFLICT:
                raise
    raise Unavailable("conflicts", uncertain=True) if uncertain else Contended(op)


def _write_all(ops: Sequence[Write], writer: str) -> None:
    names = {Put: "Put", Update: "Update", Delete: "Delete", Check: "ConditionCheck"}
    items = [{names[type(op)]: _parameters(op, _author(op, writer, single=False))} for op in ops]
    # One token for all attempts: a transaction that took effect, but whose response was lost, is not repeated.
    token = uuid.uuid4().hex
    failure: Contended | Unavailable = Contended(ops[-1])
    for conflicts in range(MAX_CONFLICTS):
        if conflicts:
            _pause(conflicts)
        try:
            services.dynamodb().call("TransactWriteItems", {"TransactItems": items, "ClientRequestToken": token})
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
        raise max(failed, key=_precedence) from None
    return max(contended, key=_precedence)


def _precedence(failure: ConditionFailed | Contended) -> int:
    """Of several failures of a transaction, the one with the highest number is raised."""
    refusal = failure.op.refusal
    return 0 if refusal is None else 2 if refusal.goes_first else 1


def _pause(conflicts: int) -> None:
    """Wait a random time before the next attempt; the more `conflicts` the write had, the longer."""
    clock.sleep(random.uniform(0.005, 0.02) * 2**conflicts)


def _parameters(op: Write, author: Mapping[str, Value]) -> dict[str, Any]:
    """The parameters of the operation, as a call of its own or in a transaction."""
    parameters: dict[str, Any] = {
        "TableName": settings.table_name(),
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    values: Mapping[str, Value] = {}
    if isinstance(op, Put):
        parameters["Item"] = encode({**op.row, **author})
    else:
        parameters["Key"] = key(op.pk, op.sk)
    if isinstance(op, Update):
        attributes = {**op.set, **author}
        parameters["UpdateExpression"] = _update_expression(attributes, op.add)
        sets = {f":s_{name}": stored(name, value) for name, value in attributes.items() if value is not None}
        added = {_added(name): amount for name, amount in op.add.items()}
        values = sets | added | ({":zero": 0} if added else {})
    if op.condition != ALWAYS:
        parameters["ConditionExpression"] = op.condition.text
    if values := {**values, **op.condition.values}:
        parameters["ExpressionAttributeValues"] = encode(values)
    return parameters


def _update_expression(attributes: Mapping[str, Value | None], add: Mapping[str, int]) -> str:
    """The update expression that sets these attributes (None removes one), and adds to these."""
    sets = [f"{name} = :s_{name}" for name, value in attributes.items() if value is not None]
    sets += [f"{name} = if_not_exists({name}, :zero) + {_added(name)}" for name in add]
    removes = [name for name, value in attributes.items() if value is None]
    return " ".join(f"{verb} {', '.join(clauses)}" for verb, clauses in (("SET", sets), ("REMOVE", removes)) if clauses)


def _added(name: str) -> str:
    """The placeholder of what is added to an attribute."""
    return f":add_{name.replace('.', '_')}"


def _author(op: Write, writer: str, *, single: bool) -> dict[str, Value]:
    """The attributes that say who wrote a row, and which API request caused it, unless the write itself says that."""
    row, cause = _attributes(op), trace.request_id()
    version = row.get("v")
    # DynamoDB recognizes a transaction, but other writers must see that this version is not theirs.
    author: dict[str, Value] = {_writer(version): writer} if single or version is not None else {}
    return author if cause is None or "cause" in row else author | {"cause": cause}


def _version(op: Write) -> int | None:
    """The version of the row that a write makes; None if it does not say."""
    return _attributes(op).get("v")


def _attributes(op: Write) -> Mapping[str, Any]:
    """The attributes that a write sets."""
    return op.row if isinstance(op, Put) else op.set if isinstance(op, Update) else {}


def _random_id() -> str:
    """The text by which a row names the call of `write` that wrote it: short, because each KB of a row costs a unit."""
    return base64.b64encode(uuid.uuid4().bytes)[:6].decode()


def _writer(version: int | None) -> str:
    """The attribute with the writer of this version of a row."""
    return "writer" if version is None else f"w{version % WRITERS}"
