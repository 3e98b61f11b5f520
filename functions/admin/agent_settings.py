"""Settings, the agent: what it knows of the business, and which new times it may agree to."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from functions.admin import forms
from functions.admin.visits import PROJECT, AdminPage, InProject, View
from shared.admin import audited
from shared.admin.members import MEMBER, VIEWER
from shared.agent_settings import commands as agent_settings_commands
from shared.agent_settings import resource as agent_settings
from shared.agent_settings.hours import DAYS, Hours
from shared.agent_settings.resource import AgentSettings, AgentSettingsPatch, Fact
from shared.conversations import replies
from shared.conversations.resource import StaffMessageCreate
from shared.core.errors import ApiError, Code
from shared.resources import fields
from shared.store.transactions import Change

NOTICES = {"saved": "The settings were changed. The agent uses them from now on."}
_TEXTS = ("business_name", "business_phone", "timezone", "change_policy")
_WEEKS = {"opening_hours": "Opening hours", "calling_hours": "Calling hours"}
"""The fields with weekly hours, which the form shows as one line of text for each day."""
_CLOCK = r"([01]?[0-9]|2[0-4])(?:[:.]([0-5][0-9]))?"
_SPAN = re.compile(rf"{_CLOCK}\s*(?:-|\u2013|to)\s*{_CLOCK}")


def show(visit: InProject) -> Response:
    """Show the settings."""
    return _form(visit)


def change(visit: InProject) -> Response:
    """Change the settings of this mode, or ask the agent a question with those of the form."""
    if "ask" in visit.form:
        return _preview(visit)

    def command() -> Change[AgentSettings]:
        return audited.change_agent_settings(visit.scope, *_edited(visit), visit.actor)

    try:
        visit.commit(command)
    except ApiError as error:
        return _form(visit, error)
    return visit.redirect(visit.path("agent_settings?notice=saved"))


def _preview(visit: InProject) -> Response:
    """Show what the agent says with the settings of the form. Nothing is stored."""
    try:
        stored, patch = _edited(visit)
        edited = agent_settings_commands.update(visit.scope, stored, patch).doc
        question = fields.validate(StaffMessageCreate, {"content": visit.form.get("content", "")}).content
        answer = replies.preview(visit.scope, dataclasses.replace(stored, settings=edited), question)
    except ApiError as error:
        return _form(visit, error)
    return _form(visit, answer=answer)


def _edited(visit: InProject) -> tuple[agent_settings.StoredSettings, AgentSettingsPatch]:
    """The settings as they are stored, and the patch that makes them those of the form. Raises ApiError."""
    stored = agent_settings.read(visit.scope)
    edited = forms.edited(visit, _shown(stored.settings), _day_fields())
    return stored, fields.validate(AgentSettingsPatch, _sent(visit, edited))


def _sent(visit: InProject, edited: set[str]) -> dict[str, Any]:
    """The fields that the person has changed, as the API takes them. Raises ApiError."""
    sent: dict[str, Any] = {name: value for name, value in forms.texts(visit, _TEXTS).items() if name in edited}
    if "minimum_notice_minutes" in edited:
        sent["minimum_notice_minutes"] = forms.integer(visit, "minimum_notice_minutes", "Notice")
    if "facts" in edited:
        sent["facts"] = _facts(visit.form.get("facts", ""))
    for name in _WEEKS:
        if edited & set(_day_fields(name)):
            sent[name] = _week({day: visit.form.get(f"{name}_{day}", "") for day in DAYS}, name)
    return sent


def _week(texts: Mapping[str, str], field: str) -> list[dict[str, Any]]:
    """The hours of a week, from a text such as `9:00-12:30, 14-18` for each day. Raises `parameter_invalid`."""
    days: dict[tuple[str, str], list[str]] = {}
    for day, text in texts.items():
        for part in filter(None, (part.strip() for part in re.split(r"[,;]", text))):
            span = _SPAN.fullmatch(part)
            if span is None:
                message = f"{day.capitalize()}: write hours as 09:00-17:00, or 09:00-12:30, 14:00-18:00 with a break."
                raise ApiError(Code.PARAMETER_INVALID, message, param=f"{field}_{day}")
            begin, end = (f"{int(hour):02}:{minute or '00'}" for hour, minute in (span.group(1, 2), span.group(3, 4)))
            if not begin < end <= "24:00":
                message = f"{day.capitalize()}: {end} is not after {begin}. Write a night as two: to 24:00, from 00:00."
                raise ApiError(Code.PARAMETER_INVALID, message, param=f"{field}_{day}")
            days.setdefault((begin, end), []).append(day)
    return [{"days": named, "from": begin, "to": end} for (begin, end), named in days.items()]


def _facts(text: str) -> list[dict[str, str]]:
    """The facts of a text in which each is a line with a question, and lines with its answer. Raises ApiError."""
    facts = []
    for part in re.split(r"\n\s*\n", text.replace("\r\n", "\n").strip()):
        question, _, answer = part.strip().partition("\n")
        if question and not answer.strip():
            message = f"“{question[:80]}” has no answer. Write the answer on the line below the question."
            raise ApiError(Code.PARAMETER_INVALID, message, param="facts")
        if question:
            facts.append({"question": question.strip(), "answer": answer.strip()})
    return facts


def _shown(settings: AgentSettings) -> dict[str, str]:
    """The texts of the form's fields."""
    shown = forms.shown(settings, (*_TEXTS, "minimum_notice_minutes"))
    shown["facts"] = "\n\n".join(f"{_line(fact['question'])}\n{_paragraph(fact)}" for fact in settings["facts"])
    for name, week in forms.part(settings, _WEEKS).items():
        shown |= {f"{name}_{day}": _day(week, day) for day in DAYS}
    return shown


def _day(week: Sequence[Hours], day: str) -> str:
    spans = sorted((entry["from"], entry["to"]) for entry in week if day in entry["days"])
    return ", ".join(f"{begin}-{end}" for begin, end in dict.fromkeys(spans))


def _line(text: str) -> str:
    return " ".join(text.split())


def _paragraph(fact: Fact) -> str:
    return "\n".join(line for line in fact["answer"].splitlines() if line.strip())


def _day_fields(*names: str) -> list[str]:
    return [f"{name}_{day}" for name in names or _WEEKS for day in DAYS]


def _form(visit: InProject, error: ApiError | None = None, answer: str = "") -> Response:
    settings = agent_settings.read(visit.scope).settings
    shown = forms.view(visit, _shown(settings), error, is_kept=bool(answer))
    return visit.render(
        "agent_settings.html",
        error.status if error else 200,
        section="agent_settings",
        weeks=_WEEKS,
        days=DAYS,
        form=shown,
        question=visit.form.get("content", ""),
        answer=answer,
        error=error,
        notice=NOTICES.get(visit.query.get("notice", "")),
    )


PAGES = (AdminPage(f"{PROJECT}/agent_settings", get=View(show, VIEWER), post=View(change, MEMBER)),)
