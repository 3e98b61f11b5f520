"""Links: which operations take the ids in a response."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from infra.openapi.operations import Described
from infra.openapi.schemas import Schema, id_prefix


def add(operations: Iterable[Described], named: Mapping[str, Schema]) -> None:
    """Add links to the successful responses of the operations."""
    operations = [*operations]
    for source in operations:
        for status in source.operation.status:
            response = source.document["responses"][str(status)]
            found = _links(source, response["content"]["application/json"]["schema"], operations, named)
            if found:
                response["links"] = found


def _links(source: Described, schema: Schema, targets: list[Described], named: Mapping[str, Schema]) -> Schema:
    ids = _ids(schema, named, "$response.body#")
    if not ids:
        return {}
    own = {
        prefix: f"$request.path.{parameter['name']}"
        for parameter in source.document["parameters"]
        if parameter.get("in") == "path" and (prefix := id_prefix(parameter["schema"]))
    }
    found = {}
    for target in targets:
        parameters = [each for each in target.document["parameters"] if each.get("in") == "path"]
        needed = {each["name"]: id_prefix(each["schema"]) for each in parameters}
        values = {name: ids.get(prefix) or own.get(prefix) for name, prefix in needed.items() if prefix}
        new = any(prefix in ids for prefix in needed.values())
        if new and all(values.values()) and target.operation.name != source.operation.name:
            found[target.operation.name] = {"operationId": target.operation.name, "parameters": values}
    return found


def _ids(schema: Schema, named: Mapping[str, Schema], place: str) -> dict[str, str]:
    """Where the body of a response has an id, by the id's prefix; the object's own id before those it refers to."""
    if "$ref" in schema:
        return _ids(named[schema["$ref"].rpartition("/")[2]], named, place)
    if "oneOf" in schema:
        return _ids(schema["oneOf"][0], named, place)
    properties: Mapping[str, Any] = schema.get("properties", {})
    if properties.get("object", {}).get("const") == "list":
        return _ids(properties["data"]["items"], named, f"{place}/data/0")
    found: dict[str, str] = {}
    for name, value in properties.items():
        prefix = id_prefix(value)
        if prefix:
            found.setdefault(prefix, f"{place}/{name}")
        elif "$ref" in value and name == "conversation":
            for inner, where in _ids(value, named, f"{place}/{name}").items():
                found.setdefault(inner, where)
    return found
