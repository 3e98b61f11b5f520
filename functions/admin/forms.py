"""The fields of forms as values for the API's models."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from functions.admin.visits import InProject
from shared.api.requests import parse_json
from shared.core import clock
from shared.core.errors import ApiError, Code
from shared.resources import documents


def texts(visit: InProject, names: Iterable[str]) -> dict[str, Any]:
    """The texts of these fields without surrounding spaces; None for empty ones."""
    # Browsers send line breaks as CR LF.
    return {name: visit.form.get(name, "").strip().replace("\r\n", "\n") or None for name in names}


def integer(visit: InProject, name: str, label: str) -> int | None:
    """The integer of the field with this label; None if it is empty. Raises `parameter_invalid_integer`."""
    text = visit.form.get(name, "").strip()
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise ApiError(Code.PARAMETER_INVALID_INTEGER, f"“{label}” must be a whole number, such as 30.", param=name)
    return int(text)


def day(name: str, text: str) -> int:
    """The start of a day (UTC) in milliseconds. Raises `datetime_invalid`."""
    try:
        return clock.parse(f"{text}T00:00:00Z")
    except ValueError:
        raise ApiError(Code.DATETIME_INVALID, "Days have the form 2027-03-04.", param=name) from None


def metadata(visit: InProject) -> dict[str, Any]:
    """The metadata of the form, a JSON object; `{}` if the field is empty. Raises `invalid_json`."""
    text = visit.form.get("metadata", "").strip()
    try:
        return dict(parse_json(text.encode())) if text else {}
    except ApiError as error:
        raise ApiError(error.code, "Metadata must be one JSON object, or empty.", param="metadata") from None


def metadata_text(value: Mapping[str, Any]) -> str:
    """Metadata as the text of a field."""
    return json.dumps(value, indent=2, ensure_ascii=False) if value else ""


def metadata_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The merge patch that replaces metadata: keys that are gone become null."""
    return {**dict.fromkeys(before), **after}


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The names of the fields that differ, without the time of the change."""
    return [name for name in after if name != "updated_at" and not documents.same(before.get(name), after[name])]
