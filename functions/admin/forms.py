"""The fields of forms as values for the API's models, and what a person has changed in the form of something stored.

A form contains a digest of each value with which it was rendered. A field whose value differs from its digest was
changed by the person, and only these fields are saved. If the stored value of one of them differs too, somebody else
has changed it meanwhile: nothing is saved, and the form is shown again with both values.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, tzinfo
from typing import Any

from functions.admin.visits import InProject, SentBefore
from shared.api.requests import parse_json
from shared.core.errors import ApiError, Code

_AREAS = ("description", "event_filters", "facts", "metadata", "notes", "prefixes")
"""The fields that have several lines."""


class ChangedMeanwhile(ApiError):
    """Somebody else has changed fields that the person has changed in a form.

    `now` has the texts of all fields now, `edited` the names of those that the person has changed, and `lost` the names
    of those whose change by somebody else would be lost.
    """

    def __init__(self, now: Mapping[str, str], edited: Collection[str], lost: Collection[str]) -> None:
        super().__init__(
            Code.CONFLICT,
            "Somebody else has changed the same fields since you opened this form, and nothing was saved. The labels "
            "of these fields say what they are now. To replace that with what you typed, save again.",
        )
        self.now = now
        self.edited = edited
        self.lost = lost


class Warned(ApiError):
    """The values of a form are unusual. The form is sent again by `button`, with `digest`, if that is meant."""

    def __init__(self, warnings: list[str], button: str, param: str) -> None:
        text = f"{' '.join(warnings)} If you mean it, press “{button} anyway”."
        super().__init__(Code.CONFLICT, text, param=param)
        self.digest = hashlib.sha256(" ".join(warnings).encode()).hexdigest()[:16]


def warn(visit: InProject, warnings: list[str], button: str, param: str) -> None:
    """Raises Warned if there are warnings, unless the form was sent again because of the same ones.

    Raises SentBefore if the form was sent before: what it created may be a reason to warn.
    """
    warned = Warned(warnings, button, param)
    if warnings and warned.digest != visit.form.get("warned"):
        if visit.was_sent():
            raise SentBefore
        raise warned


def warned(error: ApiError | None) -> str:
    """The digest that a form contains after its warnings; empty without any."""
    return error.digest if isinstance(error, Warned) else ""


def shown(values: Mapping[str, Any], names: Iterable[str]) -> dict[str, str]:
    """The texts of fields as a browser shows them; it removes line breaks from fields of one line."""
    texts = {name: "" if values[name] is None else str(values[name]) for name in names}
    return {name: text if name in _AREAS else " ".join(text.splitlines()) for name, text in texts.items()}


def edited(visit: InProject, now: Mapping[str, str], together: Collection[str] = ()) -> set[str]:
    """The names of the fields that the person has changed. `now` has the texts of the form's fields as they are stored.

    If one of the fields in `together` was changed, all of them count as changed. Fields that were not sent do not.
    Raises ChangedMeanwhile.
    """
    rendered = dict(part.partition(":")[::2] for part in visit.form.get("rendered", "").split())
    stored = {name: _digest(text) for name, text in now.items()}
    sent = {name: _digest(visit.form[name]) for name in now if name in visit.form}
    names = {name for name in sent if sent[name] != rendered.get(name, stored[name])}
    if names & {*together}:
        names |= sent.keys() & {*together}
    lost = [name for name in names if stored[name] not in (sent[name], rendered.get(name, stored[name]))]
    if lost:
        raise ChangedMeanwhile(now, names, lost)
    return names


def view(
    visit: InProject, now: Mapping[str, str], error: ApiError | None = None, *, is_kept: bool = False
) -> dict[str, Any]:
    """A form for its template: its fields with their texts `now`.

    If it was refused, or `is_kept` without being saved, the fields have what the person typed.
    """
    typed = {name: visit.form[name] for name in now if name in visit.form} if error or is_kept else {}
    rendered = visit.form.get("rendered") if error or is_kept else None
    lost: dict[str, str] = {}
    if isinstance(error, ChangedMeanwhile):
        now, typed, rendered = error.now, {name: typed[name] for name in error.edited}, None
        lost = {name: now[name] for name in error.lost}
    if rendered is None:
        rendered = " ".join(f"{name}:{_digest(text)}" for name, text in now.items())
    return {**now, **typed, "rendered": rendered, "lost": lost, "once": secrets.token_urlsafe(16)}


def _digest(text: str) -> str:
    """A digest of a text as a browser sends it back: without surrounding spaces, and with line breaks of one kind."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n").strip()
    return hashlib.sha256(plain.encode(errors="surrogatepass")).hexdigest()[:16]


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


def instant(visit: InProject, name: str, zone: tzinfo) -> str:
    """The time of a field, local in this zone, with its UTC offset. Raises `datetime_invalid`."""
    try:
        local = datetime.fromisoformat(visit.form.get(name, "").strip())
    except ValueError:
        raise ApiError(Code.DATETIME_INVALID, "Times have the form 2027-03-04T15:00.", param=name) from None
    return local.replace(tzinfo=zone).isoformat()


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


def part(document: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """These fields of a document."""
    return {name: document[name] for name in names}
