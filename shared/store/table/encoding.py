"""Rows in DynamoDB's typed JSON. A row is a flat dict whose values are str, int, bool, bytes or a dict of ints.

Long documents are stored compressed, because each KB or part of a KB of a row costs a write unit, and two in a
transaction. A condition must therefore not compare a document.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Any

Value = str | int | bool | bytes | dict[str, int]
Row = dict[str, Any]
Key = tuple[str, str]
"""The key of a row: its partition, and its place in it."""
Attributes = Mapping[str, Value | None]
"""Attributes of a row to be set, or removed if they are None."""
DOCUMENTS = frozenset({"doc", "before", "body"})
"""The attributes that are stored compressed if they are long: JSON texts."""
_LONG = 600
"""Bytes of a document from which its row may be larger than 1 KB: the other attributes take up to 400."""


def key(pk: str, sk: str) -> dict[str, Any]:
    """The key of a row."""
    return {"pk": {"S": pk}, "sk": {"S": sk}}


def encode(row: Mapping[str, Value | None]) -> dict[str, Any]:
    """A row in DynamoDB's typed JSON."""
    return {name: _encode(stored(name, value)) for name, value in row.items() if value is not None}


def stored(name: str, value: Value) -> Value:
    """The value of this attribute as it is stored: compressed if it is a long document."""
    if name not in DOCUMENTS or not isinstance(value, str) or len(text := value.encode()) < _LONG:
        return value
    # A small window and little memory: preparing the default of 256 KB takes longer than compressing a document.
    packer = zlib.compressobj(wbits=-12, memLevel=5)
    return packer.compress(text) + packer.flush()


def _encode(value: Value) -> dict[str, Any]:
    if isinstance(value, str):
        return {"S": value}
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, int):
        return {"N": str(value)}
    if isinstance(value, bytes):
        return {"B": base64.b64encode(value).decode()}
    return {"M": {name: {"N": str(number)} for name, number in value.items()}}


def decode(item: Mapping[str, Any]) -> Row:
    """A row from DynamoDB's typed JSON, the format of responses and of stream images."""
    return {name: _decode(name, typed) for name, typed in item.items()}


def _decode(name: str, typed: Mapping[str, Any]) -> Any:
    ((tag, value),) = typed.items()
    if tag == "N":
        return int(value)
    if tag == "M":
        return {key: int(inner["N"]) for key, inner in value.items()}
    if tag == "B":
        data = base64.b64decode(value)
        return zlib.decompress(data, wbits=-zlib.MAX_WBITS).decode() if name in DOCUMENTS else data
    return value
