"""The query parameters of a list, and its filters: from a text to a field and its accepted values (promises 3)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic_core import PydanticCustomError

from shared.resources import fields, schema


@dataclass(frozen=True)
class Exact:
    """A filter by the exact value of a field, in which every text is valid.

    Like every filter, it returns a field and its accepted values, at least one. A row matches if it has one of them.
    `keywords` is the JSON Schema of the query parameter.
    """

    field: str
    keywords: ClassVar[Mapping[str, Any]] = {}

    def __call__(self, text: str) -> tuple[str, ...]:
        """The field and the value."""
        return self.field, text


@dataclass(frozen=True)
class Phone:
    """A filter by a phone number. It raises `phone_invalid_format` as a PydanticCustomError."""

    field: str
    keywords: ClassVar[Mapping[str, Any]] = {
        "pattern": schema.PHONE_PATTERN,
        schema.CODE: "phone_invalid_format",
    }

    def __call__(self, text: str) -> tuple[str, ...]:
        """The field, and the number in E.164 format."""
        # A client may send an unescaped "+" in the query, which is decoded as a space.
        unescaped = text.startswith(" ") and not text.lstrip().startswith("+")
        return self.field, fields.phone("+" + text[1:] if unescaped else text)


@dataclass(frozen=True)
class Enumerated:
    """A filter by a field whose values are enumerated. It raises `parameter_invalid` as a PydanticCustomError.

    `wildcards` are further values of the query parameter, each with the field's values that it stands for.
    """

    field: str
    known: Sequence[str]
    wildcards: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)

    @property
    def keywords(self) -> Mapping[str, Any]:
        """The JSON Schema of the query parameter."""
        return {"enum": [*self.known, *self.wildcards]}

    def __call__(self, text: str) -> tuple[str, ...]:
        """The field and the values."""
        if text in self.known:
            return self.field, text
        if text in self.wildcards:
            return self.field, *self.wildcards[text]
        known = ", ".join((*self.known, *self.wildcards))
        raise PydanticCustomError("parameter_invalid", "The value must be one of {known}.", {"known": known})


Filter = Exact | Phone | Enumerated


@dataclass(frozen=True)
class ListParameters:
    """The query parameters that a list has beside those of all lists."""

    filters: Mapping[str, Filter] = dataclasses.field(default_factory=dict)
    """By query parameter."""
    repeatable: frozenset[str] = frozenset()
    """The query parameters that may occur more than once; a row matches if it has any of the values."""
    takes_order: bool = False
    """Whether the list takes `order`. Such a list is in ascending order by default."""
    created: str | None = "created_at"
    """The name of the creation time in the range parameters; None if the list has none."""
