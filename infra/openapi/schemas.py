"""JSON Schema of the resource types and the input models.

A response's schema allows further fields and values, because a revision of the API may add some. A request's does not.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, NotRequired, Union, get_args, get_origin

from infra.openapi import examples, text
from shared.agent.actions import Action
from shared.conversations.resource import AddedMessage
from shared.core.event_types import EVENT_TYPES
from shared.resources import fields, queries, schema
from shared.resources.fields import Input
from shared.resources.schema import Keywords
from shared.webhooks.events import Event

Schema = dict[str, Any]

_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}
_NAMES = {"Appointment": "an appointment", "AddedMessage": "a conversation: a message of the business's staff"}
_ID = re.compile(r"\^([a-z]+_)\[")


def resource_of(event_type: str) -> str:
    """The name of the schema of the resource in events of this type."""
    return "AddedMessage" if event_type == "conversation.message_added" else event_type.split(".")[0].capitalize()


def ref(name: str) -> Schema:
    """A reference to a schema."""
    return {"$ref": f"#/components/schemas/{name}"}


def id_prefix(property_schema: Schema) -> str | None:
    """The prefix of the ids that a property has; None if it has none."""
    match = _ID.match(property_schema.get("pattern", ""))
    return None if match is None else match[1]


def nullable(found: Schema) -> Schema:
    """The schema, or null."""
    if "anyOf" in found:
        return {"anyOf": [*found["anyOf"], {"type": "null"}]}
    if {"$ref", "enum", "const"} & found.keys():
        return {"anyOf": [found, {"type": "null"}]}
    return {**found, "type": [found["type"], "null"]}


def opened(values: Schema) -> Schema:
    """The schema of one of these values, or any other string. It needs a name: Go's generator would take an enum's."""
    return {"description": "A known value, or one of a later revision.", "anyOf": [values, {"type": "string"}]}


class Schemas:
    """The named schemas of the document. They are added as operations refer to them."""

    def __init__(self) -> None:
        self.named: dict[str, Schema] = {}

    def of(self, annotation: Any) -> Schema:
        """The schema of a type annotation in a response. A named enumeration allows any other string, too."""
        found = self._closed(annotation)
        named = self.name(found)
        if not {"enum", schema.NAME} <= found.keys():
            return named
        self.named[f"{found[schema.NAME]}Value"] = opened(named)
        return ref(f"{found[schema.NAME]}Value")

    def _closed(self, annotation: Any) -> Schema:
        """The schema of a type annotation, with known values only."""
        origin, arguments = get_origin(annotation), get_args(annotation)
        if annotation == Action:
            return self._action()
        if origin is queries.Page:
            return self._page(arguments[0])
        if origin in (Annotated, NotRequired):
            keywords = [found.keywords for found in arguments[1:] if isinstance(found, Keywords)]
            merged = {name: value for each in keywords for name, value in each.items() if name != schema.CODE}
            found = self._closed(arguments[0]) | merged
            if schema.NAME in merged and "const" in found:
                found["enum"] = [found.pop("const")]  # the one known value
            return found
        if origin in (Union, types.UnionType):
            (inner,) = (argument for argument in arguments if argument is not type(None))
            return nullable(self.of(inner))
        if isinstance(annotation, type) and issubclass(annotation, StrEnum):
            described = text.listing(text.of(annotation), text.meanings(annotation))
            return {"type": "string", "enum": [*annotation], "description": described, schema.NAME: annotation.__name__}
        if origin is Literal:
            values = {"const": arguments[0]} if len(arguments) == 1 else {"enum": [*arguments]}
            return {"type": _TYPES[type(arguments[0])], **values}
        if origin is list:
            return {"type": "array", "items": self.of(arguments[0])}
        if origin is dict:
            return {"type": "object"}
        if annotation is Event:
            return self._event()
        if typing.is_typeddict(annotation):
            return self._typed_dict(annotation)
        return {"type": _TYPES[annotation]}

    def body(self, model: type[Input]) -> tuple[Schema, frozenset[str]]:
        """The schema of an input model, and the error codes of invalid values in it."""
        found = model.model_json_schema(ref_template="#/components/schemas/{model}")
        codes: set[str] = set()
        models = {model.__name__: model, **{cls.__name__: cls for cls in _models_in(model)}}
        for name, part in {model.__name__: found, **found.pop("$defs", {})}.items():
            codes |= {value for key, value in _pairs(part) if key == schema.CODE} | _codes_of_keywords(part)
            self.named.setdefault(name, self._input(models[name], part))
        return ref(model.__name__), frozenset(codes)

    def name(self, found: Schema) -> Schema:
        """The schema, or a reference to it if it has a name. Without one, it has that of the same values."""
        name = found.get(schema.NAME)
        if name is not None:
            self.named[name] = {key: value for key, value in found.items() if key != schema.NAME}
        elif "enum" in found:
            name = next((name for name, each in self.named.items() if each.get("enum") == found["enum"]), None)
        return found if name is None else ref(name)

    def _input(self, model: type[Input], found: Schema) -> Schema:
        tidy: Schema = _tidy(found, self.name)
        docs = text.of_fields(model)
        properties = {}
        for name, schema_ in tidy.get("properties", {}).items():
            properties[name] = schema_ | {"description": docs[name]} | examples.of(model.__name__, name, schema_)
        return tidy | {"description": text.of(model), "properties": properties}

    def _typed_dict(self, cls: Any) -> Schema:
        if cls.__name__ not in self.named:
            self.named[cls.__name__] = {}  # a type may contain itself
            docs, properties, required = text.of_fields(cls), {}, []
            annotations = typing.get_type_hints(cls, include_extras=True)
            first = [name for name in ("id", "object") if name in annotations]
            for name in dict.fromkeys((*first, *annotations)):
                found = self.of(annotations[name])
                description = docs.get(name) or found["description"]
                properties[name] = found | {"description": description} | examples.of(cls.__name__, name, found)
                if get_origin(annotations[name]) is not NotRequired:
                    required.append(name)
            self.named[cls.__name__] = {
                "type": "object",
                "description": text.of(cls),
                "required": required,
                "properties": properties,
            }
        return ref(cls.__name__)

    def _page(self, item: Any) -> Schema:
        name = f"{item.__name__}List"
        found = self.of(item)
        self.named[name] = {
            "type": "object",
            "description": f"A page of a list of `{item.__name__}`.",
            "required": ["object", "url", "data", "has_more", "next_cursor"],
            "properties": {
                "object": {"type": "string", "const": "list", "description": "The type of the object."},
                "url": {"type": "string", "description": "The path of the list."},
                "data": {"type": "array", "items": found, "description": "The items of the page."},
                "has_more": {"type": "boolean", "description": "Whether there are more pages."},
                "next_cursor": {
                    "type": ["string", "null"],
                    "description": "Send it as `starting_after` to get the next page. Null on the last page.",
                },
            },
        }
        return ref(name)

    def _action(self) -> Schema:
        """One schema for each kind of action, which differ in type and fields."""
        known = [self.of(cls) for cls in get_args(Action)]
        properties: Schema = {}
        for cls in get_args(Action):
            own = self.named[cls.__name__]["properties"]
            types_ = [*get_args(typing.get_type_hints(cls)["type"])]
            # Named, and no `const`: some generated clients check only the values of a named enumeration.
            self.named[f"{cls.__name__}Type"] = {"type": "string", "enum": types_}
            own["type"] = ref(f"{cls.__name__}Type") | {"description": own["type"]["description"]}
            properties |= own
        type_ = {"type": "string", "description": "A type that this description does not list."}
        self.named["UnknownAction"] = {
            "type": "object",
            "description": "An action of a type that a later revision of the API added. Ignore it.",
            "required": ["type"],
            "properties": {**properties, "type": type_},
        }
        # As for events, a discriminator would make generated clients refuse an unknown type.
        self.named["Action"] = {
            "description": "An action of a reply. `type` determines which other field is present.",
            "anyOf": [*known, ref("UnknownAction")],
        }
        return ref("Action")

    def _event(self) -> Schema:
        """One schema for each kind of resource, which differ in type and data."""
        if "Event" in self.named:
            return ref("Event")
        annotations = typing.get_type_hints(Event, include_extras=True)
        self.of(AddedMessage)
        resources = dict.fromkeys(map(resource_of, EVENT_TYPES))
        data = Event.__annotations__["data"].__forward_arg__
        docs = text.of_fields(Event)
        for resource in resources:
            own = [found for found in EVENT_TYPES if resource_of(found) == resource]
            self.named[f"{resource}{data}"] = self._event_data(resource, annotations["data"])
            properties = {}
            for name, annotation in annotations.items():
                found = ref(f"{resource}{data}") if name == "data" else self.of(annotation)
                if name == "type":
                    self.named[f"{resource}EventType"] = {"type": "string", "enum": own}
                    found = ref(f"{resource}EventType")
                properties[name] = {**found, "description": docs[name]} | examples.of(f"{resource}Event", name, found)
            self.named[f"{resource}Event"] = {
                "type": "object",
                "description": f"A change of {_NAMES.get(resource, f'a {resource.lower()}')}. {text.of(Event)}",
                "required": [*annotations],
                "properties": properties,
            }
        self.named["UnknownEvent"] = self._unknown_event(self.named[f"{resource}Event"]["properties"])
        # A discriminator has no default: generated clients would refuse an event whose type it does not map.
        known = [ref(f"{resource}Event") for resource in resources]
        self.named["Event"] = {"description": text.of(Event), "anyOf": [*known, ref("UnknownEvent")]}
        return ref("Event")

    def _unknown_event(self, properties: Mapping[str, Schema]) -> Schema:
        data = {
            "type": "object",
            "description": properties["data"]["description"],
            "required": ["object"],
            "properties": {
                "object": {"type": "object", "description": "The resource after the change."},
                "previous_attributes": {"type": "object", "description": "The changed fields with previous values."},
            },
        }
        type_ = {"type": "string", "description": "A type that this description does not list."}
        return {
            "type": "object",
            "description": "An event of a type that a later revision of the API added. Ignore it.",
            "required": [*properties],
            "properties": {**properties, "type": type_, "data": data},
        }

    def _event_data(self, resource: str, cls: Any) -> Schema:
        docs = text.of_fields(cls)
        properties = {name: found for name, found in self.named[resource]["properties"].items() if name != "updated_at"}
        self.named[f"Previous{resource}"] = {
            "type": "object",
            "description": f"The changed fields of a `{resource}` with their previous values.",
            "properties": properties,
        }
        return {
            "type": "object",
            "description": text.of(cls),
            "required": ["object"],
            "properties": {
                "object": ref(resource) | {"description": docs["object"]},
                "previous_attributes": ref(f"Previous{resource}") | {"description": docs["previous_attributes"]},
            },
        }


def _models_in(model: type[Input]) -> Iterator[type[Input]]:
    for info in model.model_fields.values():
        yield from fields.models_in(info.annotation)


def _pairs(value: Any) -> Iterator[tuple[str, Any]]:
    """Every key with its value, at any depth."""
    if isinstance(value, Mapping):
        yield from value.items()
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    for part in inner:
        yield from _pairs(part)


def _codes_of_keywords(found: Schema) -> set[str]:
    """The error codes of values with a wrong type, outside of their limits, or missing."""
    codes = {"parameter_invalid", "parameter_invalid_empty"} if found.get("properties") else set()
    codes |= {"parameter_missing"} if found.get("required") else set()
    codes |= {"parameter_invalid_integer"} if ("type", "integer") in _pairs(found) else set()
    return codes


def _tidy(value: Any, named: Callable[[Schema], Schema]) -> Any:
    """The schema of pydantic without titles, without null as a default, and with null written as a type."""
    if isinstance(value, list):
        return [_tidy(part, named) for part in value]
    if not isinstance(value, dict):
        return value
    found = {key: part for key, part in value.items() if key not in ("title", schema.CODE)}
    if found.get("default", 0) is None:
        del found["default"]
    if "properties" in found:
        # A property may be called "title".
        found["properties"] = {name: _tidy(part, named) for name, part in value["properties"].items()}
    found = {key: part if key == "properties" else _tidy(part, named) for key, part in found.items()}
    either = found.get("anyOf", [])
    if len(either) == 2 and either[1] == {"type": "null"}:
        del found["anyOf"]
        found = nullable(either[0]) | found
    return named(found)
