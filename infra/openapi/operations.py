"""An operation of the document from its route."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra.openapi import errors, examples, headers, text
from infra.openapi.schemas import Schema, Schemas, ref
from shared.api.idempotency import KEY_PATTERN, SAVED_MS
from shared.api.routes import Operation
from shared.core import clock, ids, limits
from shared.resources import fields, queries, schema
from shared.resources.collections import Collection

_SUCCESSES = {
    200: "The request succeeded.",
    201: "The resource was created.",
    202: "The request was accepted, and its work is queued.",
}
_BOUNDS = {"gt": "after", "gte": "at or after", "lt": "before", "lte": "at or before"}

PARAMETERS: dict[str, Schema] = {
    "Service-Version": {
        "name": "Service-Version",
        "in": "header",
        "description": "The API revision to use. The newest by default.",
        "schema": ref("ApiVersion"),
    },
    "Idempotency-Key": {
        "name": "Idempotency-Key",
        "in": "header",
        "description": f"Makes the request safe to retry: for {SAVED_MS // clock.HOUR} hours, a request with the same"
        " key and the same body has one effect, and each retry gets the same response.",
        "schema": {
            "type": "string",
            "minLength": 1,
            "maxLength": limits.IDEMPOTENCY_KEY_CHARACTERS,
            "pattern": KEY_PATTERN,
        },
    },
    "limit": {
        "name": "limit",
        "in": "query",
        "description": f"The number of items on a page. Any integer; it is clamped to 1 to {queries.MAX_LIMIT}.",
        "schema": {"type": "integer", "default": queries.DEFAULT_LIMIT},
    },
}
"""The parameters that operations share."""


@dataclass(frozen=True)
class Described:
    """An operation of the document, and its error codes by status."""

    method: str
    path: str
    operation: Operation
    document: Schema
    codes: Mapping[int, list[str]]


def describe(
    schemas: Schemas, tag: str, method: str, path: str, operation: Operation, id_types: Mapping[str, Any]
) -> Described:
    """The operation of a route. `id_types` are the types of the resources that the ids in the path name, by path."""
    summary, description = text.summary_and_description(operation.handle)
    # First, because fields of requests and parameters refer to the enumerations of responses.
    returns = schemas.of(operation.returns)
    found: Schema = {
        "operationId": operation.name,
        "summary": summary,
        **({"description": description} if description else {}),
        "tags": [tag],
        "parameters": [*_path_parameters(schemas, path, id_types), *_query_parameters(schemas, operation)],
    }
    found["parameters"].append({"$ref": "#/components/parameters/Service-Version"})
    in_body: frozenset[str] = frozenset()
    if method in ("POST", "PATCH"):
        found["parameters"].append({"$ref": "#/components/parameters/Idempotency-Key"})
    if operation.body is not fields.Nothing:
        body, in_body = schemas.body(operation.body)
        media = {"schema": body, "example": examples.BODIES[operation.body.__name__]}
        found["requestBody"] = {"required": not operation.optional_body, "content": {"application/json": media}}
    codes = errors.of(method, path, operation, in_body)
    found["responses"] = {
        str(status): {
            "description": _SUCCESSES[status],
            "headers": headers.of_success(status, method),
            "content": {"application/json": {"schema": returns}},
        }
        for status in operation.status
    } | errors.responses(codes, method)
    return Described(method, path, operation, found, codes)


def _path_parameters(schemas: Schemas, path: str, id_types: Mapping[str, Any]) -> list[Schema]:
    found = []
    for name in re.findall(r"{(\w+)}", path):
        cls = id_types[path[: path.index(f"{{{name}}}") + len(name) + 2]]
        schemas.of(cls)
        (pattern, example) = _id_of(schemas, cls)
        found.append(
            {
                "name": name,
                "in": "path",
                "required": True,
                "description": f"The id of the {_noun(cls)}.",
                "schema": {"type": "string", "pattern": pattern},
                "example": example,
            }
        )
    return found


def _id_of(schemas: Schemas, cls: Any) -> tuple[str, str]:
    named = schemas.named[cls.__name__]
    named = schemas.named[named["anyOf"][0]["$ref"].rpartition("/")[2]] if "anyOf" in named else named
    return named["properties"]["id"]["pattern"], named["properties"]["id"]["examples"][0]


def _noun(cls: Any) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", " ", cls.__name__).lower()


def _query_parameters(schemas: Schemas, operation: Operation) -> list[Schema]:
    collection = operation.lists
    if collection is None:
        return []
    found: list[Schema] = [{"$ref": "#/components/parameters/limit"}, _cursor(collection)]
    if collection.parameters.takes_order:
        found.append(
            {
                "name": "order",
                "in": "query",
                "description": "By time, ascending or descending.",
                "schema": {"type": "string", "enum": [*queries.ORDERS], "default": queries.ORDERS[0]},
            }
        )
    nouns = collection.kind.replace("_", " ") + "s"
    for name, filter_ in collection.parameters.filters.items():
        value = {"type": "string"} | {key: part for key, part in filter_.keywords.items() if key != schema.CODE}
        description = f"Only {nouns} with this `{name}`."
        value = schemas.name(value)
        if name in collection.parameters.repeatable:
            value = {"type": "array", "items": value}
            description = f"Only {nouns} with one of these values of `{name}`."
        example = examples.of("", name, value).get("examples")
        found.append(
            {
                "name": name,
                "in": "query",
                "description": description,
                "schema": value,
                **({"example": example[0]} if example else {}),
            }
        )
    for time in (collection.parameters.created, collection.indexes.time_field):
        if time:
            found += [_range(nouns, time, comparison) for comparison in queries.COMPARISONS]
    return found


def _cursor(collection: Collection[Any, Any]) -> Schema:
    by_id = f"{collection.prefix}{ids.AFTER_PREFIX}"
    # A cursor of a list by time is the base64 of a time and an id.
    by_time = "[A-Za-z0-9_-]{75}"
    pattern = f"^({by_id}|{by_time})$" if collection.indexes.time_field else f"^{by_id}$"
    return {
        "name": "starting_after",
        "in": "query",
        "description": "The `next_cursor` of the previous page, which is the id of its last item."
        if not collection.indexes.time_field
        else "The `next_cursor` of the previous page, or the id of its last item.",
        "schema": {"type": "string", "pattern": pattern},
    }


def _range(nouns: str, time: str, comparison: str) -> Schema:
    value = {"type": "integer", "format": "int64"} if time == "created" else {"type": "string", "format": "date-time"}
    unit = " (Unix seconds)" if time == "created" else ", a date-time with a UTC offset"
    return {
        "name": f"{time}[{comparison}]",
        "in": "query",
        "description": f"Only {nouns} whose `{time}` is {_BOUNDS[comparison]} this time{unit}.",
        "schema": value,
        "example": 1795339800 if time == "created" else "2026-11-22T09:30:00Z",
    }
