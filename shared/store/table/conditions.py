"""Conditions: what must be true of a row when it is written.

`&` and `|` join two: `ABSENT | at_most("expires_at", now)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.store.table.encoding import Value


@dataclass(frozen=True)
class Condition:
    """A condition expression of DynamoDB, and the values that it names."""

    text: str
    values: Mapping[str, Value] = field(default_factory=dict)

    def __and__(self, other: Condition) -> Condition:
        """Both conditions."""
        if not self.text or not other.text:
            return self if self.text else other
        return Condition(f"{self.text} AND {other.text}", _together(self, other))

    def __or__(self, other: Condition) -> Condition:
        """At least one of the two, of which none is `ALWAYS`."""
        return Condition(f"({self.text} OR {other.text})", _together(self, other))


def equals(name: str, value: Value | None) -> Condition:
    """The row has this value of an attribute, or does not have the attribute if the value is None."""
    return Condition(f"attribute_not_exists({name})") if value is None else _compared(name, "=", "is", value)


def below(name: str, value: Value) -> Condition:
    """The row has a value of the attribute that is less than this one."""
    return _compared(name, "<", "below", value)


def at_most(name: str, value: Value) -> Condition:
    """The row has a value of the attribute that is less than this one or the same."""
    return _compared(name, "<=", "at_most", value)


def above(name: str, value: Value) -> Condition:
    """The row has a value of the attribute that is greater than this one."""
    return _compared(name, ">", "above", value)


def has(name: str) -> Condition:
    """The row has the attribute."""
    return Condition(f"attribute_exists({name})")


def unchanged(version: int) -> Condition:
    """The row has this version `v`, or does not exist if it is 0."""
    return equals("v", version) if version else ABSENT


ALWAYS = Condition("")
"""The row may be anything, or not exist."""
ABSENT = equals("pk", None)
"""The row does not exist."""
PRESENT = has("pk")
"""The row exists."""


def _compared(name: str, operator: str, word: str, value: Value) -> Condition:
    placeholder = f":{word}_{name.replace('.', '_')}"
    return Condition(f"{name} {operator} {placeholder}", {placeholder: value})


def _together(one: Condition, other: Condition) -> dict[str, Value]:
    values = {**one.values, **other.values}
    assert len(values) == len(one.values) + len(other.values), "a comparison occurs twice"
    return values
