"""What the reference shows of the OpenAPI document: operations with their fields and responses, objects, webhooks."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from markupsafe import Markup, escape

from shared.docs import contents, markdown, tables
from shared.docs.highlighting import highlight


@dataclass(frozen=True)
class Field:
    """A parameter, a header, or a field of a body or an object. `place` is that of a parameter: path, query, header."""

    name: str
    type: Markup
    about: Markup
    is_required: bool
    limits: str = ""
    place: str = ""


@dataclass(frozen=True)
class DescribedResponse:
    """A response of an operation: a success with its type and an example, or an error with its codes."""

    status: int
    about: Markup
    type: Markup
    codes: Sequence[str]
    example: Markup

    @property
    def phrase(self) -> str:
        """The status with its reason phrase."""
        return f"{self.status} {HTTPStatus(self.status).phrase}"


@dataclass(frozen=True)
class DescribedOperation:
    """An operation. `guides` are the pages about it: paths and titles."""

    name: str
    method: str
    path: str
    summary: str
    about: Markup
    guides: Sequence[tuple[str, str]]
    parameters: Sequence[Field]
    body: Sequence[Field]
    sample: str
    """The body of the example, as JSON."""
    request: Markup
    responses: Sequence[DescribedResponse]
    headers: Sequence[Field]


@dataclass(frozen=True)
class Object:
    """A type that operations take or return. `type` is that of one without fields: its values, or its alternatives."""

    name: str
    about: Markup
    fields: Sequence[Field]
    type: Markup


@dataclass
class Group:
    """The operations of a tag."""

    title: str
    about: Markup
    anchor: str
    operations: list[DescribedOperation] = field(default_factory=list)


@dataclass(frozen=True)
class Reference:
    """The whole reference."""

    groups: Sequence[Group]
    webhooks: Sequence[tuple[str, str]]
    """Each event type with its summary."""
    objects: Sequence[Object]


@functools.lru_cache(1)
def read(description: str) -> Reference:
    """The reference from the text of the OpenAPI document."""
    return _Reader(description).reference()


class _Reader:
    def __init__(self, description: str) -> None:
        self._description = description
        self._document = json.loads(description)
        self._linked: set[str] = set()
        """The names of the types that something refers to."""

    def reference(self) -> Reference:
        groups = {
            tag["name"]: Group(tag["name"], _text(tag.get("description", "")), tag["name"].lower().replace(" ", "-"))
            for tag in self._document["tags"]
        }
        for number, (request, operation) in enumerate(contents.operations(self._description)):
            groups[operation["tags"][0]].operations.append(self._operation(number, request, operation))
        webhooks = [(type, methods["post"]["summary"]) for type, methods in self._document["webhooks"].items()]
        return Reference([one for one in groups.values() if one.operations], webhooks, list(self._objects()))

    def _operation(self, number: int, request: str, operation: Mapping[str, Any]) -> DescribedOperation:
        method, _, path = request.partition(" ")
        media = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        sample = _json(media["example"]) if "example" in media else ""
        body = self._fields(self._resolved(media["schema"]), with_limits=True) if media else ()
        responses = {status: self._resolved(one) for status, one in operation["responses"].items()}
        headers = {name: one for response in responses.values() for name, one in response.get("headers", {}).items()}
        return DescribedOperation(
            operation["operationId"],
            method,
            path,
            operation["summary"],
            _text(operation.get("description", "")),
            [guide_link(guide) for guide in contents.guides(operation)],
            [self._parameter(self._resolved(one)) for one in operation["parameters"]],
            sorted(body, key=lambda one: not one.is_required),
            sample,
            _request(number, method, path, sample),
            [self._response(int(status), one) for status, one in responses.items()],
            [self._header(name, self._resolved(one)) for name, one in headers.items()],
        )

    def _parameter(self, described: Mapping[str, Any]) -> Field:
        limits = tables.limit(described["schema"])
        required = described.get("required", False)
        about = _text(described.get("description", ""))
        return Field(described["name"], self._type(described["schema"]), about, required, limits, described["in"])

    def _header(self, name: str, described: Mapping[str, Any]) -> Field:
        return Field(name, self._type(described["schema"]), _text(described["description"]), is_required=False)

    def _fields(self, schema: Mapping[str, Any], *, with_limits: bool = False) -> Iterator[Field]:
        for name, described in schema.get("properties", {}).items():
            about = described.get("description") or self._resolved(described).get("description", "")
            limits = tables.limit(described) if with_limits else ""
            required = with_limits and name in schema.get("required", ())
            yield Field(name, self._type(described), _text(about), required, limits)

    def _response(self, status: int, described: Mapping[str, Any]) -> DescribedResponse:
        media = described.get("content", {}).get("application/json", {})
        about = described["description"].partition("\n\n")[0]
        example = _code(media["example"]) if "example" in media else Markup("")
        type = self._type(media["schema"]) if media else Markup("")
        return DescribedResponse(status, _text(about), type, list(media.get("examples", ())), example)

    def _objects(self) -> Iterator[Object]:
        """Every type that something shown refers to."""
        shown: set[str] = set()
        while names := self._linked - shown:
            shown |= names
            for name in names:
                self._object(name)
        yield from map(self._object, sorted(shown))

    def _object(self, name: str) -> Object:
        schema = self._document["components"]["schemas"][name]
        fields = list(self._fields(schema))
        return Object(name, _text(schema.get("description", "")), fields, Markup("") if fields else self._type(schema))

    def _resolved(self, described: Mapping[str, Any]) -> Mapping[str, Any]:
        while reference := described.get("$ref"):
            _, _, kind, name = reference.split("/")
            described = self._document["components"][kind][name]
        return described

    def _type(self, schema: Mapping[str, Any]) -> Markup:
        """A type in words, with links to those that have a name."""
        values, *others = self._resolved(schema).get("anyOf", [None])
        if others == [{"type": "string"}]:
            # The known values of an enumeration. The page says that others may follow.
            return self._type(values)
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            self._linked.add(name)
            return Markup('<a href="#{0}">{0}</a>').format(name)
        for alternatives in ("anyOf", "oneOf"):
            if alternatives in schema:
                return Markup(" or ").join(dict.fromkeys(map(self._type, schema[alternatives])))
        if "const" in schema:
            return Markup("<code>{}</code>").format(schema["const"])
        if "enum" in schema:
            return Markup(", ").join(Markup("<code>{}</code>").format(value) for value in schema["enum"])
        kinds = schema.get("type", "any value")
        if kinds == "array":
            return Markup("list of {}").format(self._type(schema.get("items", {})))
        words = kinds if isinstance(kinds, str) else " or ".join(kinds)
        return escape(f"{words}, {schema['format']}" if "format" in schema else words)


def guide_link(guide: str) -> tuple[str, str]:
    """The path and the title of a page or of its section."""
    name, _, anchor = guide.partition("#")
    titles = [one.title for one in markdown.document(name).sections if anchor and one.anchor == anchor]
    return f"/docs/{guide}", ": ".join([contents.PAGES[name].title, *titles])


def _request(number: int, method: str, path: str, sample: str) -> Markup:
    """The request as an example of the pages, in three languages."""
    target = path.replace("{id}", "$ID").replace("{delivery_id}", "$DELIVERY")
    block = markdown.block("request", f"{method} {target}\n\n{sample}")
    return Markup(markdown.examples([block], number))  # noqa: S704  # the function escapes the request


@functools.cache
def _text(text: str) -> Markup:
    return Markup(markdown.html(text))  # noqa: S704  # the parser escapes HTML


def _code(value: Any) -> Markup:
    code = Markup(highlight(_json(value), "json"))  # noqa: S704  # the function escapes the code
    return Markup('<div class="code"><pre><code>{}</code></pre></div>').format(code)


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
