"""Links: which operations take the id of what a request has created."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from infra.openapi.operations import Described
from infra.openapi.schemas import Schema, id_prefix


def add(operations: Iterable[Described], named: Mapping[str, Schema]) -> None:
    """Add links to the responses of the operations that create something."""
    operations = [*operations]
    needed = {
        each.operation.name: {
            parameter["name"]: id_prefix(parameter["schema"])
            for parameter in each.document["parameters"]
            if parameter.get("in") == "path"
        }
        for each in operations
    }
    for source in operations:
        for status in {201, 202}.intersection(source.operation.status):
            response = source.document["responses"][str(status)]
            response["links"] = _links(response["content"]["application/json"]["schema"], needed, named)


def _links(
    schema: Schema, needed: Mapping[str, Mapping[str, str | None]], named: Mapping[str, Schema]
) -> dict[str, Schema]:
    """The operations that take the first id of the body, or that of a parent in the same path."""
    ids = _ids(schema, named, "$response.body#")
    created = next(prefix for prefix in ids if any(prefix in one.values() for one in needed.values()))
    taken = {prefix for one in needed.values() if created in one.values() for prefix in one.values()}
    return {
        name: {"operationId": name, "parameters": {parameter: ids[prefix] for parameter, prefix in one.items()}}
        for name, one in needed.items()
        if one and taken.issuperset(one.values())
    }


def _ids(schema: Schema, named: Mapping[str, Schema], place: str) -> dict[str | None, str]:
    """Where the body of a response has an id, by the id's prefix. A message is followed by its conversation."""
    found: dict[str | None, str] = {}
    for name, value in named[schema["$ref"].rpartition("/")[2]]["properties"].items():
        if prefix := id_prefix(value):
            found.setdefault(prefix, f"{place}/{name}")
        elif name == "conversation":
            found |= _ids(value, named, f"{place}/{name}")
    return found
