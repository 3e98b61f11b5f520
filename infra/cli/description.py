"""The API description of the service in use, cached for a day, and the commands that follow from it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

import click

from .command import COMMAND

FRESH_S = 86_400
_METHODS = ("get", "post", "patch", "delete")
_VERBS = {"list": "list", "retrieve": "get", "create": "create", "update": "update", "delete": "delete"}

Operation = dict[str, Any]
Operations = dict[str, dict[str, Operation]]
"""Resource → command → operation: its method, path, texts, and fields of query and body."""


def operations(url: str, *, refresh: bool = False) -> Operations:
    """The operations of the service at this address. One that cannot be reached leaves what is cached."""
    cached = _cached(url)
    if cached and not refresh and time.time() - cached.stat().st_mtime < FRESH_S:
        return _read(cached)
    import httpx

    try:
        response = httpx.get(f"{url}/openapi.json", timeout=10, follow_redirects=True)
        response.raise_for_status()
        found = derive(response.json())
    except (httpx.HTTPError, ValueError) as error:
        if cached:
            return _read(cached)
        raise click.ClickException(f"The API description cannot be read from {url}/openapi.json: {error}") from None
    from .profiles import write_private

    write_private(_file(url), json.dumps(found))
    return found


def cached_operations(url: str) -> Operations:
    """What is cached, however old: help and completion send no requests."""
    cached = _cached(url)
    return _read(cached) if cached else {}


def _file(url: str) -> Path:
    import platformdirs

    return platformdirs.user_cache_path(COMMAND) / f"operations-1-{hashlib.sha256(url.encode()).hexdigest()[:16]}.json"


def _cached(url: str) -> Path | None:
    file = _file(url)
    return file if file.exists() else None


def _read(file: Path) -> Operations:
    with contextlib.suppress(ValueError):
        found: Operations = json.loads(file.read_text(encoding="utf-8"))
        return found
    return {}


def derive(document: dict[str, Any]) -> Operations:
    """The operations of an OpenAPI document, by resource and command."""
    found: Operations = {}
    described = [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if method in _METHODS
    ]
    names = Counter(_plain_name(path, operation) for path, _, operation in described)
    for path, method, operation in described:
        resource, name = _plain_name(path, operation)
        if names[resource, name] > 1 and method != "get":
            name = _dashed(operation["operationId"])
        body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        found.setdefault(resource, {})[name] = {
            "method": method.upper(),
            "path": path,
            "summary": operation["summary"],
            "description": operation.get("description", ""),
            "arguments": re.findall(r"{(\w+)}", path),
            "query": [
                _field(document, one["name"], one["schema"], one.get("description", ""), required=False)
                for one in (_resolve(document, parameter) for parameter in operation.get("parameters", ()))
                if one["in"] == "query"
            ],
            "body": _body(document, body.get("schema", {})),
            "example": body.get("example"),
        }
    return {resource: commands for resource, commands in sorted(found.items()) if list(commands) != ["ping"]}


def _plain_name(path: str, operation: dict[str, Any]) -> tuple[str, str]:
    """Resource and command: `customers create`, `customers call`, `events get-delivery`."""
    _, _, resource, *rest = path.split("/")
    verb, _, _ = operation["operationId"].partition("_")
    below = [part for part in rest if not part.startswith("{")]
    if not below:
        return _dashed(resource), _VERBS.get(verb, "create" if verb == "send" else _dashed(operation["operationId"]))
    if rest[-1].startswith("{"):
        return _dashed(resource), _dashed(operation["operationId"].replace(verb, _VERBS.get(verb, verb), 1))
    return _dashed(resource), _dashed(below[-1])


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _resolve(document: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in value:
        found: Any = document
        for part in value["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        value = found
    return value


def _body(document: dict[str, Any], schema: dict[str, Any]) -> list[dict[str, Any]]:
    schema = _resolve(document, schema)
    required = schema.get("required", ())
    return [
        _field(document, name, field, _resolve(document, field).get("description", ""), required=name in required)
        for name, field in schema.get("properties", {}).items()
    ]


def _field(document: dict[str, Any], name: str, schema: dict[str, Any], text: str, *, required: bool) -> dict[str, Any]:
    """A field as an option needs it: its type, its values, whether it may be repeated."""
    options = [_resolve(document, one) for one in _resolve(document, schema).get("anyOf", [schema])]
    options = [_resolve(document, one) for one in options if one.get("type") != "null"] or [{}]
    kind = options[0].get("type", "string")
    kind = next((one for one in kind if one != "null"), "string") if isinstance(kind, list) else kind
    items = _resolve(document, options[0].get("items", {}))
    return {
        "name": name,
        "help": text,
        "type": kind,
        "items": items.get("type", "string"),
        "values": [one for one in options[0].get("enum", items.get("enum", ())) if one],
        "required": required,
    }
