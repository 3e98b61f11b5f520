"""What the API description says of every response and webhook, and what in one contradicts it.

The description allows further fields, values and types of events in responses, as revisions add some; here, one that it
does not have is a breach, too.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import jsonschema_rs

DESCRIPTION = Path(__file__).parents[1] / "openapi.json"
CARRIER_HEADERS = re.compile(
    # What HTTP, its servers and API Gateway add to every response.
    r"content-type|content-length|date|server|connection|keep-alive|transfer-encoding|via|x-amz.*|x-localstack",
    re.IGNORECASE,
)
OPEN = ({"type": "string"}, {"$ref": "#/components/schemas/UnknownEvent"})
"""What the description allows beside known values and known events."""
SENT_NOW = {("Delivery", "max_attempts"): {"const": 9}, ("Delivery", "attempt_count"): {"maximum": 9}}
"""What the service sends where the description allows any number."""
SENT_IN_HEADERS = {
    "ratelimit": {"pattern": '^"(second|minute)";r=[0-9]+;t=[0-9]+$'},
    "ratelimit-policy": {"const": '"second";q=100;w=1, "minute";q=5000;w=60'},
    "service-rate-limited-reason": {"enum": ["second", "minute", "messages"]},
}
"""What it sends in headers where the description allows any string."""
TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$"
"""How it writes each time of a body."""


@dataclass(frozen=True)
class Operation:
    name: str
    path: re.Pattern[str]
    responses: Mapping[str, Any]


class Description:
    """The committed description, in which every object of a response is closed."""

    def __init__(self, document: Any) -> None:
        self._components = document["components"]
        self._schemas = {name: close_schema(schema) for name, schema in self._components["schemas"].items()}
        for (name, field), keywords in SENT_NOW.items():
            self._schemas[name]["properties"][field] |= keywords
        self._webhooks = document["webhooks"]
        self._operations: dict[str, list[Operation]] = {}
        self._validators: dict[str, jsonschema_rs.Draft202012Validator] = {}
        for path, methods in document["paths"].items():
            pattern = re.compile(re.sub(r"{\w+}", "[^/]+", path))
            for method, described in methods.items():
                operation = Operation(described["operationId"], pattern, described["responses"])
                self._operations.setdefault(method.upper(), []).append(operation)

    def breaches(self, method: str, path: str, status: int, headers: Message, body: bytes) -> Iterator[str]:
        """What in this response is not as described; `path` is that of the request, without the stage's."""
        path = path.partition("?")[0]
        operation = self._operation("GET" if method == "HEAD" else method, path)
        if operation is None:
            if path.startswith("/v1/") and status < 400:
                yield f"described, {method} {path}: no such operation"
            if status >= 400 and method != "HEAD":
                yield from self._of_schema("error", {"$ref": "#/components/schemas/Error"}, json.loads(body))
            return
        found = operation.responses.get(str(status))
        if found is None:
            yield f"described, {operation.name}: status {status}"
            return
        found = self._resolved(found)
        yield from self._of_headers(f"{operation.name} {status}", found["headers"], headers)
        if method == "HEAD":
            return
        media_type, _, _ = headers.get("Content-Type", "").partition(";")
        if media_type not in found["content"]:
            yield f"described, {operation.name} {status}: content type {media_type}"
            return
        content, document = found["content"][media_type], json.loads(body)
        yield from self._of_schema(f"{operation.name} {status}", content["schema"], document)
        if status >= 400:
            type_, code = document["error"]["type"], document["error"]["code"]
            example = content["examples"].get(code)
            if example is None or self._resolved(example)["value"]["error"]["type"] != type_:
                yield f"described, {operation.name} {status}: {type_} {code}"

    def webhook_breaches(self, headers: Message, body: bytes) -> Iterator[str]:
        """What in this webhook is not as described."""
        event = json.loads(body)
        webhook = self._webhooks.get(event["type"])
        if webhook is None:
            yield f"described, webhook: type {event['type']}"
            return
        for parameter in webhook["post"]["parameters"]:
            value = headers.get(parameter["name"])
            if value is None or not self._validator(parameter["schema"]).is_valid(value):
                yield f"described, webhook {parameter['name']}: {value!r}"
        schema = webhook["post"]["requestBody"]["content"]["application/json"]["schema"]
        yield from self._of_schema(f"webhook {event['type']}", schema, event)

    def _operation(self, method: str, path: str) -> Operation | None:
        found, decoded = self._operations.get(method, ()), unquote(path)
        return next((operation for operation in found if operation.path.fullmatch(decoded)), None)

    def _resolved(self, part: Mapping[str, Any]) -> Any:
        if "$ref" not in part:
            return part
        _, _, kind, name = part["$ref"].split("/")
        return self._components[kind][name]

    def _of_headers(self, where: str, described: Mapping[str, Any], headers: Message) -> Iterator[str]:
        known = {name.lower(): self._resolved(header) for name, header in described.items()}
        for name, header in known.items():
            if header.get("required") and name not in headers:
                yield f"described, {where}: no header {name}"
        for name, text in headers.items():
            header = known.get(name.lower())
            if header is None:
                if not CARRIER_HEADERS.fullmatch(name):
                    yield f"described, {where}: header {name}"
                continue
            value = int(text) if header["schema"].get("type") == "integer" and text.isdecimal() else text
            sent = header["schema"] | SENT_IN_HEADERS.get(name.lower(), {})
            if not self._validator(close_schema(sent)).is_valid(value):
                yield f"described, {where} header {name}: {text!r}"

    def _of_schema(self, where: str, schema: Mapping[str, Any], value: Any) -> Iterator[str]:
        error = next(iter(self._validator(schema).iter_errors(value)), None)
        if error is not None:
            place = "/".join("*" if isinstance(part, int) else part for part in error.instance_path)
            # The message may quote the whole document.
            yield f"described, {where} /{place}: {error.message[:300]}"

    def _validator(self, schema: Mapping[str, Any]) -> jsonschema_rs.Draft202012Validator:
        key = json.dumps(schema, sort_keys=True)
        if key not in self._validators:
            whole = {**schema, "components": {"schemas": self._schemas}}
            self._validators[key] = jsonschema_rs.Draft202012Validator(whole)
        return self._validators[key]


@functools.cache
def description() -> Description:
    return Description(json.loads(DESCRIPTION.read_text(encoding="utf-8")))


def close_schema(schema: Any) -> Any:
    """The schema, in which nothing has fields, values or types that are not described."""
    if isinstance(schema, list):
        return [close_schema(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: close_schema(part) for name, part in schema.items()}
    if "anyOf" in found:
        found["anyOf"] = [part for part in found["anyOf"] if part not in OPEN]
    if found.get("format") == "date-time":
        found["pattern"] = TIME
    if "object" in types(schema) and isinstance(schema.get("properties"), dict):
        found.setdefault("additionalProperties", False)
    return found


def types(schema: Mapping[str, Any]) -> Iterable[str]:
    found = schema.get("type", ())
    return (found,) if isinstance(found, str) else found if isinstance(found, list) else ()
