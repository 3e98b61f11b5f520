"""Public ids: a type prefix and a lower-case ULID, so that ids of one type sort by creation time (promises 1)."""

from __future__ import annotations

import hashlib
import os
import re

from shared.core import clock

AFTER_PREFIX = "[0-7][0-9a-hjkmnp-tv-z]{25}"
"""The pattern of an id after its prefix."""
_ULID = re.compile(AFTER_PREFIX)
_LAST_INSTANT = 2**48 - 1
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_TO_PYTHON = str.maketrans(_DIGITS, "0123456789abcdefghijklmnopqrstuv")


def new(prefix: str, instant: clock.Instant | None = None) -> str:
    """A new random id, created at `instant` (milliseconds; default now)."""
    return prefix + _text((clock.now() if instant is None else instant), os.urandom(10))


def deterministic(prefix: str, instant: clock.Instant, *parts: object, order: int = 0) -> str:
    """The id that these arguments determine, for resources that must not be created twice.

    Of two ids with the same instant, the one with the greater `order` sorts later.
    """
    digest = hashlib.sha256("\n".join(map(str, parts)).encode()).digest()
    return prefix + _text(instant, min(order, 0xFFFF).to_bytes(2, "big") + digest[:8])


def is_id(prefix: str, value: str) -> bool:
    """Whether `value` is a well-formed id of the type with this prefix."""
    return value.startswith(prefix) and _ULID.fullmatch(value, len(prefix)) is not None


def created_at(prefix: str, value: str) -> clock.Instant:
    """When the id was created."""
    return clock.Instant(_number(value[len(prefix) :]) >> 80)


def first_of(prefix: str, instant: clock.Instant) -> str:
    """The smallest id of an instant."""
    return prefix + _text(instant, bytes(10))


def before(prefix: str, value: str) -> str:
    """The greatest id below `value`, for an exclusive upper bound."""
    return prefix + _ulid(max(_number(value[len(prefix) :]) - 1, 0))


def after(prefix: str, value: str) -> str:
    """The smallest id above `value`, for an exclusive lower bound."""
    return prefix + _ulid(min(_number(value[len(prefix) :]) + 1, 2**128 - 1))


def _text(instant: clock.Instant, tail: bytes) -> str:
    return _ulid(max(0, min(instant, _LAST_INSTANT)) << 80 | int.from_bytes(tail, "big"))


def _ulid(number: int) -> str:
    """128 bits in Crockford's base 32."""
    return "".join([_DIGITS[number >> shift & 31] for shift in range(125, -1, -5)])


def _number(ulid: str) -> int:
    # Python's digits of base 32 are 0-9 and a-v, in the same order.
    return int(ulid.translate(_TO_PYTHON), 32)
