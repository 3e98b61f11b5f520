"""The in-memory table of the simulation is held against DynamoDB Local: the same operations have the same results.

Where DynamoDB Local differs from DynamoDB, the simulation follows DynamoDB or injects a fault:

- An index of DynamoDB Local shows each change at once. The simulated one lags (`Table.lag`).
- DynamoDB Local cancels no transaction because of another one, and throttles nothing. The simulation injects both.
- DynamoDB Local puts records of all items into one shard. The simulation splits the stream by partition key.
- DynamoDB refuses an update that would give an index key a value of another type. Whether it does so before the
  condition fails is not compared: the service has no such update.
- A transaction that has an item twice is invalid. DynamoDB Local may name the conditions that failed instead.
- What is invalid in itself, DynamoDB Local sometimes reports as the reason of a cancelled transaction. Both are taken
  as the same.
- DynamoDB Local does not delete expired items within the time of a test. The simulation deletes them hours late.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.aws import services
from shared.core.event_types import STREAM_KINDS
from tests.simulation.expressions import Unsupported
from tests.simulation.table import Refused, Table
from tests.support import privileges
from tests.support.properties import fixed_examples
from tests.support.stage import Stage

PARTITIONS, SORTS = ("a", "b"), ("1", "2", "3")
NUMBERS = st.integers(-3, 3)
_examples = itertools.count()

keys = st.builds(
    lambda pk, sk: {"pk": {"S": f"PREFIX{pk}"}, "sk": {"S": sk}}, st.sampled_from(PARTITIONS), st.sampled_from(SORTS)
)
number = NUMBERS.map(lambda value: {"N": str(value)})
text = st.sampled_from(("", "x", "y", "é", "\U0001f600")).map(lambda value: {"S": value})
value = st.one_of(
    number,
    text,
    st.booleans().map(lambda flag: {"BOOL": flag}),
    st.sampled_from(("", "AA==", "/w==")).map(lambda data: {"B": data}),
    st.dictionaries(st.sampled_from(("k", "l")), number).map(lambda entries: {"M": entries}),
)
index_part = st.sampled_from(("PREFIXp", "PREFIXq")).map(lambda name: {"S": name})
attributes = st.fixed_dictionaries(
    {"kind": st.just({"S": "customer"})},
    optional={
        "n": number,
        "s": text,
        "m": st.dictionaries(st.sampled_from(("k", "l")), number).map(lambda entries: {"M": entries}),
        "v": value,
        "f1": index_part,
        "f2": st.one_of(index_part, st.just({"N": "1"}), st.just({"S": ""})),
    },
)
paths = st.sampled_from(("n", "s", "m", "v", "m.k", "m.l", "n.k"))
tests = st.one_of(
    st.builds("attribute_exists({})".format, st.one_of(paths, st.just("pk"))),
    st.builds("attribute_not_exists({})".format, paths),
    st.builds("{} {} {}".format, paths, st.sampled_from(("=", "<>")), st.sampled_from((":one", ":x", ":v"))),
    st.builds(
        "{} {} {}".format, paths, st.sampled_from(("<", "<=", ">", ">=")), st.sampled_from((":one", ":zero", ":x"))
    ),
)
conditions = st.recursive(
    tests,
    lambda inner: st.one_of(
        st.builds("{} AND {}".format, inner, inner),
        st.builds("{} OR {}".format, inner, inner),
        st.builds("({})".format, inner),
    ),
    max_leaves=4,
)
sets = st.one_of(
    st.builds("{} = {}".format, paths, st.sampled_from((":one", ":x", ":v", "n", "s"))),
    st.builds("{} = {} {} :one".format, paths, paths, st.sampled_from("+-")),
    st.builds("{0} = if_not_exists({0}, :zero) + :one".format, paths),
    st.just("f1 = :p"),
)
updates = st.tuples(st.lists(sets, max_size=2), st.lists(st.one_of(paths, st.just("f1")), max_size=2)).map(
    lambda parts: " ".join(
        f"{verb} {', '.join(clauses)}" for verb, clauses in zip(("SET", "REMOVE"), parts, strict=True) if clauses
    )
)


@st.composite
def writes(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A write, as the code makes them."""
    kind = draw(st.sampled_from(("PutItem", "UpdateItem", "UpdateItem", "DeleteItem")))
    parameters: dict[str, Any] = {}
    if kind == "PutItem":
        parameters["Item"] = draw(keys) | draw(attributes)
    else:
        parameters["Key"] = draw(keys)
    if kind == "UpdateItem":
        parameters["UpdateExpression"] = draw(updates.filter(bool))
    if draw(st.booleans()):
        parameters["ConditionExpression"] = draw(conditions)
    return kind, _with_values(draw, parameters)


def _with_values(draw: st.DrawFn, parameters: dict[str, Any]) -> dict[str, Any]:
    """The write with the values that its expressions name, now and then with one too many or too few."""
    used = " ".join(parameters.get(name, "") for name in ("UpdateExpression", "ConditionExpression"))
    known = {":one": {"N": "1"}, ":zero": {"N": "0"}, ":x": {"S": "x"}, ":v": draw(value), ":p": draw(index_part)}
    wanted = {name: each for name, each in known.items() if name in used}
    if draw(st.integers(0, 19)) == 0:
        wanted[":spare"] = {"N": "9"}
    if wanted and draw(st.integers(0, 19)) == 0:
        wanted.popitem()
    if wanted:
        parameters["ExpressionAttributeValues"] = wanted
    if draw(st.booleans()):
        parameters["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    return parameters


@st.composite
def transactions(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A transaction, sometimes with the token of another."""
    names = {"PutItem": "Put", "UpdateItem": "Update", "DeleteItem": "Delete"}
    items = [{names[kind]: parameters} for kind, parameters in draw(st.lists(writes(), min_size=1, max_size=3))]
    if draw(st.booleans()):
        check = {"Key": draw(keys), "ConditionExpression": draw(conditions)}
        items.append({"ConditionCheck": _with_values(draw, check)})
    token = draw(st.sampled_from(("t1", "t2", "t3", "t4", "t5")))
    return "TransactWriteItems", {"TransactItems": items, "ClientRequestToken": f"PREFIX{token}"}


@st.composite
def reads(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A read, as the code makes them."""
    kind = draw(st.sampled_from(("GetItem", "BatchGetItem", "Query", "Query")))
    if kind == "GetItem":
        return kind, {"Key": draw(keys), "ConsistentRead": True}
    if kind == "BatchGetItem":
        wanted = draw(st.lists(keys, min_size=1, max_size=4))
        return kind, {"RequestItems": {"TABLE": {"Keys": wanted, "ConsistentRead": True}}}
    index = draw(st.sampled_from((None, "f1")))
    hash_key, partition = ("pk", f"PREFIX{draw(st.sampled_from(PARTITIONS))}") if index is None else (index, "PREFIXp")
    condition, values = f"{hash_key} = :pk", {":pk": {"S": partition}}
    for clause, names in draw(
        st.sampled_from(
            (
                (),
                ((" AND sk >= :least", [":least"]),),
                ((" AND sk <= :most", [":most"]),),
                ((_BETWEEN, [":least", ":most"]),),
            )
        )
    ):
        condition += clause
        values |= {name: {"S": draw(st.sampled_from(SORTS))} for name in names}
    options: dict[str, Any] = {
        "KeyConditionExpression": condition,
        "ExpressionAttributeValues": values,
        "ScanIndexForward": draw(st.booleans()),
        "Limit": draw(st.integers(1, 4)),
    }
    return kind, options | ({"IndexName": f"by_{index}"} if index else {"ConsistentRead": True})


_BETWEEN = " AND sk BETWEEN :least AND :most"
operations = st.lists(st.one_of(writes(), writes(), transactions(), reads()), min_size=1, max_size=12)


@fixed_examples(60)
@given(operations=operations)
def test_the_same_operations_have_the_same_results(stage: Stage, operations: list[tuple[str, dict[str, Any]]]) -> None:
    name, prefix = os.environ["TABLE_NAME"], f"simulated-{time.time_ns()}-{next(_examples)}-"
    simulated = Table(name, time.time)
    stage.stream_records()
    for operation, parameters in operations:
        given_parameters = _fill_in(operation, parameters, name, prefix)
        ours, real = _result(simulated.call, operation, given_parameters), _real(operation, given_parameters)
        if _repeats_an_item(given_parameters) and not isinstance(real, dict):
            real = "invalid"
        assert ours == real, (operation, given_parameters)
    # The stage applies the filter of Lambda's event source mapping.
    of_kind = [record for record in simulated.stream if _kind(record) in STREAM_KINDS]
    assert _changes(of_kind) == _changes(stage.stream_records())


def _repeats_an_item(parameters: dict[str, Any]) -> bool:
    keys = [
        json.dumps(details.get("Key") or {name: details["Item"][name] for name in ("pk", "sk")})
        for item in parameters.get("TransactItems", ())
        for details in item.values()
    ]
    return len(set(keys)) < len(keys)


def _fill_in(operation: str, parameters: dict[str, Any], table: str, prefix: str) -> dict[str, Any]:
    """The parameters with the table's name, and keys of this example alone."""
    filled: dict[str, Any] = json.loads(json.dumps(parameters).replace("PREFIX", prefix).replace("TABLE", table))
    if operation == "TransactWriteItems":
        for item in filled["TransactItems"]:
            for details in item.values():
                details["TableName"] = table
    elif operation != "BatchGetItem":
        filled["TableName"] = table
    if operation == "UpdateItem":
        filled["ReturnValues"] = "ALL_NEW"
    return filled


def _real(operation: str, parameters: dict[str, Any]) -> Any:
    with privileges.running(None):
        return _result(services.dynamodb().call, operation, parameters)


def _result(call: Any, operation: str, parameters: dict[str, Any]) -> Any:
    """The response, or the error's code with what the code reads of it."""
    try:
        response = call(operation, parameters)
    except Refused as refused:
        return _error(refused.code, refused.more)
    except services.AwsError as error:
        return _error(error.code, error.body)
    if operation == "BatchGetItem":
        ((_, items),) = response["Responses"].items()
        return sorted(map(json.dumps, items))
    return {name: each for name, each in response.items() if name not in ("UnprocessedKeys", "ConsumedCapacity")}


def _error(code: str, body: Any) -> Any:
    if code == "ValidationException" or any(
        each["Code"] == "ValidationError" for each in body.get("CancellationReasons", ())
    ):
        return "invalid"
    reasons = [(reason["Code"], reason.get("Item")) for reason in body.get("CancellationReasons", ())]
    return code, body.get("Item"), reasons


def _image(image: Any) -> Any:
    """The image, with DynamoDB's notation of an empty map. DynamoDB Local has `{}` in its stream."""
    return image and {name: value or {"M": {}} for name, value in image.items()}


def _kind(record: Any) -> Any:
    images = record["dynamodb"]
    return (images.get("NewImage") or images["OldImage"]).get("kind", {}).get("S")


def _changes(records: Any) -> dict[str, list[Any]]:
    """The changes of each item, in their order."""
    found = defaultdict(list)
    for record in records:
        images = record["dynamodb"]
        found[json.dumps(images["Keys"], sort_keys=True)].append(
            (record["eventName"], _image(images.get("OldImage")), _image(images.get("NewImage")))
        )
    return dict(found)


@pytest.mark.parametrize(
    ("operation", "parameters"),
    [
        ("Scan", {"TableName": "t"}),
        ("GetItem", {"TableName": "t", "Key": {"pk": {"S": "a"}, "sk": {"S": "b"}}, "ProjectionExpression": "n"}),
        ("GetItem", {"TableName": "t", "Key": {"pk": {"S": "a"}, "sk": {"S": "b"}}, "ConsistentRead": False}),
        (
            "DeleteItem",
            {"TableName": "t", "Key": {"pk": {"S": "a"}, "sk": {"S": "b"}}, "ConditionExpression": "size(n) > :one"},
        ),
        (
            "UpdateItem",
            {"TableName": "t", "Key": {"pk": {"S": "a"}, "sk": {"S": "b"}}, "UpdateExpression": "ADD n :one"},
        ),
    ],
)
def test_what_the_service_does_not_use_is_refused(operation: str, parameters: dict[str, Any]) -> None:
    with pytest.raises((Unsupported, Refused)):
        Table("t", time.time).call(operation, parameters)
