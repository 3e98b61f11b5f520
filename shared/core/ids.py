"""Public ids: a type prefix and a lower-case ULID, so that ids of one type sort by creation time (contract 1)."""

from __future__ import annotations

import hashlib
import re

from ulid import ULID

from shared.core import clock

AFTER_PREFIX = "[0-7][0-9a-hjkmnp-tv-z]{25}"
"""The pattern of an id after its prefix."""
_ULID = re.compile(AFTER_PREFIX)
_LAST_INSTANT = 2**48 - 1


def new(prefix: str, instant: int | None = None) -> str:
    """A new random id, created at `instant` (milliseconds; default now)."""
    random = bytes(ULID())[6:]
    return prefix + _text((clock.now() if instant is None else instant), random)


def derived(prefix: str, instant: int, *parts: object, order: int = 0) -> str:
    """The id that these arguments determine, for resources that must not be created twice.

    Of two ids with the same instant, the one with the greater `order` sorts later.
    """
    digest = hashlib.sha256("\n".join(map(str, parts)).encode()).digest()
    return prefix + _text(instant, min(order, 0xFFFF).to_bytes(2, "big") + digest[:8])


def is_id(prefix: str, value: str) -> bool:
    """Whether `value` is a well-formed id of the type with this prefix."""
    return value.startswith(prefix) and _ULID.fullmatch(value, len(prefix)) is not None


def instant(prefix: str, value: str) -> int:
    """When the id was created (milliseconds)."""
    return int.from_bytes(bytes(ULID.from_str(value[len(prefix) :].upper()))[:6], "big")


def first_of(prefix: str, instant: int) -> str:
    """The smallest id of an instant."""
    return prefix + _text(instant, bytes(10))


def before(prefix: str, value: str) -> str:
    """The greatest id below `value`, for an exclusive upper bound."""
    number = int.from_bytes(bytes(ULID.from_str(value[len(prefix) :].upper())), "big")
    return prefix + str(ULID.from_bytes(max(number - 1, 0).to_bytes(16, "big"))).lower()


def after(prefix: str, value: str) -> str:
    """The smallest id above `value`, for an exclusive lower bound."""
    number = int.from_bytes(bytes(ULID.from_str(value[len(prefix) :].upper())), "big")
    return prefix + str(ULID.from_bytes(min(number + 1, 2**128 - 1).to_bytes(16, "big"))).lower()


def _text(instant: int, tail: bytes) -> str:
    head = max(0, min(instant, _LAST_INSTANT)).to_bytes(6, "big")
    return str(ULID.from_bytes(head + tail)).lower()
