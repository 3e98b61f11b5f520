"""The types of request fields, and the conversion of validation errors to API errors (promises 2 and 3)."""

from __future__ import annotations

import difflib
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic_core import PydanticCustomError, core_schema

from shared.core import clock, limits
from shared.core.errors import ERRORS, ApiError, Code
from shared.resources import schema
from shared.resources.schema import Keywords

# Separators are allowed only between digits (promises 0).
_PHONE = re.compile(r"\+[0-9](?:[ \-.()]*[0-9])*")
_E164 = re.compile(r"\+[1-9][0-9]{6,14}")


class Input(BaseModel):
    """A request body: JSON types are not converted, and unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)


OMITTED: Any = None
"""The default of a field in a merge patch that must not be null. Only the fields of the request are read."""


class Nothing(Input):
    """The body of an action without parameters."""


M = TypeVar("M", bound=Input)


def validate(model: type[M], data: Mapping[str, Any]) -> M:
    """Validate `data` as `model`. Raises the ApiError of the first problem; unknown fields come before all others."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problems = error.errors(include_url=False)
    problem = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
    raise _api_error(model, problem)


def param_name(path: tuple[int | str, ...]) -> str:
    """The value of `param` for a path into the body, such as `customer[phone]` or `event_filters[0]` (promises 2)."""
    return str(path[0]) + "".join(f"[{part}]" for part in path[1:])


def to_json(value: Any) -> str:
    """Compact JSON text, as stored and sent."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def canonical(value: Any) -> str:
    """JSON text with sorted keys, which is the same for equal values."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, sort_keys=True)


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same. True differs from 1, and 1.0 differs from 1."""
    return canonical(one) == canonical(other)


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The names of a document's fields that differ, without the time of the change."""
    return [name for name in after if name != "updated_at" and not same(before.get(name), after[name])]


def phone(value: str) -> str:
    """The phone number in E.164 format (promises 0). Raises `phone_invalid_format` as a PydanticCustomError."""
    trimmed = value.strip()
    number = "+" + re.sub(r"[^0-9]", "", trimmed) if _PHONE.fullmatch(trimmed) else ""
    if not _E164.fullmatch(number):
        raise PydanticCustomError(
            "phone_invalid_format", "Phone numbers must be in E.164 format, for example +15005550006."
        )
    return number


def instant(value: str) -> clock.Instant:
    """The instant of a date-time. Raises `datetime_invalid` as a PydanticCustomError."""
    try:
        return clock.parse(value)
    except ValueError as error:
        raise PydanticCustomError(
            "datetime_invalid",
            "Date-times must be RFC 3339 with a UTC offset, for example 2027-03-04T15:00:00Z.",
        ) from error


@dataclass(frozen=True)
class Text:
    """A string of `least` to `most` characters. The only control characters it may have are tab and newlines."""

    most: int
    least: int = 0

    def check(self, value: str) -> str:
        """The value. Raises `parameter_invalid` or `parameter_invalid_empty` as a PydanticCustomError."""
        if len(value) < self.least:
            raise PydanticCustomError("parameter_invalid_empty", "The value must not be empty.")
        if len(value) > self.most:
            raise PydanticCustomError(
                "parameter_invalid", "At most {most} characters are allowed.", {"most": self.most}
            )
        return _reject_control_characters(value)

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Validate a field with `check`."""
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> Any:
        """The same limits as JSON Schema."""
        least = {"minLength": self.least} if self.least else {}
        return handler(core) | {**least, "maxLength": self.most, "pattern": schema.TEXT}


def text(most: int, least: int = 0) -> Any:
    """The annotation of a string of `least` to `most` characters, see `Text`."""
    return Text(most, least)


def merge_metadata(before: Mapping[str, Any], patch: Mapping[str, Any] | None) -> dict[str, Any]:
    """Merge a patch into metadata by key (promises 3). A null value removes its key; a null patch removes all keys.

    Raises `metadata_invalid` or `parameter_invalid`.
    """
    if patch is None:
        return {}
    merged = {key: value for key, value in {**before, **patch}.items() if key not in patch or value is not None}
    problem = _metadata_problem(merged)
    if problem is not None:
        raise ApiError(problem.code, problem.text, param=_within_metadata("metadata", problem.key))
    return merged


def _without_nulls(metadata: dict[str, Any]) -> dict[str, Any]:
    """New metadata without the keys whose value is null (promises 3)."""
    return {key: value for key, value in metadata.items() if value is not None}


def _reject_control_characters(value: str) -> str:
    control = _control_character(value)
    if control is not None:
        raise PydanticCustomError("parameter_invalid", "Control characters are not allowed: {code}.", {"code": control})
    return value


def _control_character(value: str) -> str | None:
    """The first control character other than tab and newlines, for example `U+0007`; None if there is none."""
    control = next(filter(is_control, value), None)
    return None if control is None else f"U+{ord(control):04X}"


def is_control(character: str) -> bool:
    """Whether it is a control character that no text may have: one other than tab and newlines."""
    return unicodedata.category(character) == "Cc" and character not in "\t\n\r"


def email(value: str) -> str:
    """The e-mail address. Raises `email_invalid` as a PydanticCustomError."""
    from email_validator import EmailNotValidError, validate_email

    try:
        validate_email(value, check_deliverability=False, allow_quoted_local=True, globally_deliverable=False)
    except EmailNotValidError as error:
        raise PydanticCustomError(
            "email_invalid", "The value must be an email address, for example ada@example.com."
        ) from error
    return value


def _timezone(value: str) -> str:
    try:
        # Names in a system's database that are not IANA zones: its own setting, and variants with leap seconds.
        if value in ("localtime", "posixrules", "Factory") or value.startswith(("posix/", "right/")):
            raise ValueError(value)
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise PydanticCustomError(
            "parameter_invalid", "The value must be an IANA time zone, for example Europe/Berlin."
        ) from error
    return value


@dataclass(frozen=True)
class _Problem:
    """A problem of metadata, and the key that has it."""

    code: Code
    text: str
    key: str | None = None


def _metadata(value: Any) -> Any:
    if value is None:
        return None
    problem = (
        _metadata_problem(value)
        if isinstance(value, dict)
        else _Problem(Code.METADATA_INVALID, "Metadata must be an object.")
    )
    if problem is not None:
        raise PydanticCustomError(problem.code, "{text}", {"text": problem.text, "key": problem.key})
    return value


def _metadata_problem(value: Mapping[str, Any]) -> _Problem | None:
    if len(value) > limits.METADATA_KEYS:
        return _Problem(
            Code.METADATA_INVALID, f"Metadata can have at most {limits.METADATA_KEYS} keys; it has {len(value)}."
        )
    for key, inner in value.items():
        if not 1 <= len(key) <= limits.METADATA_KEY_CHARACTERS:
            text = f"Metadata keys must have 1 to {limits.METADATA_KEY_CHARACTERS} characters; one has {len(key)}."
            return _Problem(Code.METADATA_INVALID, text, key)
        if len(to_json(inner)) > limits.METADATA_VALUE_CHARACTERS:
            text = f"Metadata values can have at most {limits.METADATA_VALUE_CHARACTERS} characters as JSON."
            return _Problem(Code.METADATA_INVALID, text, key)
        for part in _strings(key, inner):
            control = _control_character(part)
            if control is not None:
                return _Problem(Code.PARAMETER_INVALID, f"Control characters are not allowed: {control}.", key)
    if len(to_json(value).encode()) > limits.METADATA_BYTES:
        return _Problem(Code.METADATA_INVALID, f"Metadata can have at most {limits.METADATA_BYTES} bytes as JSON.")
    return None


def _strings(key: str, value: Any) -> Iterator[str]:
    """The key and every string in its value."""
    pending = [key, value]
    while pending:
        part = pending.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict):
            pending += [*part.keys(), *part.values()]
        elif isinstance(part, list):
            pending += part


def _api_error(model: type[Input], problem: Any) -> ApiError:
    path, kind, sent = problem["loc"], problem["type"], problem.get("input")
    param = param_name(path)
    if kind == "missing":
        return ApiError(Code.PARAMETER_MISSING, f"Missing required parameter: {param}.", param=param)
    if kind == "extra_forbidden":
        return unknown(param, path[-1], _siblings(model, path[:-1]))
    if kind in ERRORS:
        return ApiError(kind, problem["msg"], param=_within_metadata(param, problem.get("ctx", {}).get("key")))
    if sent is None:
        return ApiError(Code.PARAMETER_INVALID_EMPTY, f"{param} cannot be null.", param=param)
    if kind.startswith("int_"):
        return ApiError(Code.PARAMETER_INVALID_INTEGER, f"{param} must be an integer.", param=param)
    return ApiError(Code.PARAMETER_INVALID, f"{param}: {problem['msg']}.", param=param)


def _within_metadata(param: str, key: str | None) -> str:
    return param if key is None else f"{param}[{key[: limits.METADATA_KEY_CHARACTERS]}]"


def unknown(param: str, name: str, known: list[str]) -> ApiError:
    """The `parameter_unknown` error. Its message suggests the closest of the `known` names, if one is close."""
    near = difflib.get_close_matches(name, known, n=1)
    suggestion = f" Did you mean '{near[0]}'?" if near else ""
    return ApiError(Code.PARAMETER_UNKNOWN, f"Unknown parameter: {param[:100]}.{suggestion}", param=param[:100])


def _siblings(model: type[Input], path: tuple[int | str, ...]) -> list[str]:
    for name in path:
        if isinstance(name, str):
            model = next(models_in(model.model_fields[name].annotation))
    return [info.alias or name for name, info in model.model_fields.items()]


def models_in(annotation: Any) -> Iterator[type[Input]]:
    """The input models in the annotation of a field, such as that of `list[Hours] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, Input):
        yield annotation
    for part in get_args(annotation):
        yield from models_in(part)


Phone = Annotated[
    str,
    AfterValidator(phone),
    Keywords(code="phone_invalid_format", pattern=schema.PHONE_PATTERN),
]
Email = Annotated[str, text(255), AfterValidator(email), Keywords(code="email_invalid", format="email")]
DateTime = Annotated[
    str,
    AfterValidator(instant),
    AfterValidator(clock.iso),
    Keywords(code="datetime_invalid", format="date-time"),
]
Timezone = Annotated[str, text(64), AfterValidator(_timezone), Keywords(format="iana-timezone")]
Name = Annotated[str, text(200)]
ExternalId = Annotated[str, text(255, least=1)]
MetadataPatch = Annotated[
    dict[str, Any],
    BeforeValidator(_metadata),
    Keywords(
        code="metadata_invalid",
        name="MetadataInput",
        maxProperties=limits.METADATA_KEYS,
        propertyNames={"minLength": 1, "maxLength": limits.METADATA_KEY_CHARACTERS, "pattern": schema.TEXT},
        # Any type; the keywords are for strings. Of a string's JSON text, two characters are quotes.
        additionalProperties={"maxLength": limits.METADATA_VALUE_CHARACTERS - 2, "pattern": schema.TEXT},
    ),
]
MetadataCreate = Annotated[MetadataPatch, AfterValidator(_without_nulls)]
