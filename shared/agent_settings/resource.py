"""The agent's settings: one object for each project and mode, always there (promises 11)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict, cast

from pydantic import AfterValidator, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from shared.agent_settings.hours import Hours
from shared.agent_settings.policy import ChangePolicy
from shared.projects import projects
from shared.resources import fields
from shared.resources.schema import E164, Keywords, Time, at_most
from shared.store import table
from shared.store.keys import Scope

KIND = "agent_settings"
"""The kind of the row."""
MAX_HOURS = 21
MAX_FACTS = 50
MAX_FACTS_BYTES = 16 * 1024
MAX_NOTICE_MINUTES = 43_200

_TIME = "([01][0-9]|2[0-3]):[0-5][0-9]"
Day = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]


class Fact(TypedDict):
    """Something that the agent knows about the business."""

    question: Annotated[str, at_most(200)]
    """What people ask."""
    answer: Annotated[str, at_most(1000)]
    """What the agent answers."""


class Settings(TypedDict):
    """The agent's settings: what it knows of the business, what it may change, and when it may call (promises 11)."""

    business_name: Annotated[str, at_most(200)] | None
    """What the agent calls the business. Null when unset: then it says the project's name."""
    business_phone: E164 | None
    """Where people reach the business, as the agent tells who asks for it. Null when unset."""
    timezone: Annotated[str, Keywords(format="iana-timezone")]
    """The IANA time zone of the hours, and of appointments without a zone of their own."""
    language: Annotated[Literal["en"], Keywords(name="Language")]
    """The language that the agent speaks."""
    opening_hours: list[Hours]
    """When the business is open. Empty: at any time."""
    facts: list[Fact]
    """What the agent knows about the business."""
    change_policy: ChangePolicy
    """Which new times of an appointment the agent may agree to by itself."""
    minimum_notice_minutes: Annotated[int, Keywords(minimum=0, maximum=MAX_NOTICE_MINUTES)]
    """How many minutes from now a new time must be at least."""
    calling_hours: list[Hours]
    """When calls are made. Empty: at any time."""


class AgentSettings(Settings):
    """The settings of a project and mode, with which its agent answers and calls (promises 11)."""

    object: Literal["agent_settings"]
    """The type of the object."""
    livemode: bool
    """False for the settings of test mode."""
    created_at: Time
    """When the project was created."""
    updated_at: Time
    """When a setting was last changed. Until then, when the project was created."""


DEFAULTS: Settings = {
    "business_name": None,
    "business_phone": None,
    "timezone": "UTC",
    "language": "en",
    "opening_hours": [],
    "facts": [],
    "change_policy": ChangePolicy.AUTO,
    "minimum_notice_minutes": 0,
    "calling_hours": [],
}
"""The value of each setting before it is set, and after null."""


def _not_empty(value: list[Any]) -> list[Any]:
    if not value:
        raise PydanticCustomError("parameter_invalid_empty", "The value must not be empty.")
    return value


def _each_once(value: list[Day]) -> list[Day]:
    """A day that is repeated says nothing new, and repeated days would make the settings as large as a request."""
    return list(dict.fromkeys(value))


def _facts_size(value: list[Any]) -> list[Any]:
    size = len(fields.to_json([fact.model_dump() for fact in value]).encode())
    if size > MAX_FACTS_BYTES:
        message = "All facts together can have at most {most} bytes as JSON; they have {size}."
        raise PydanticCustomError("parameter_invalid", message, {"most": MAX_FACTS_BYTES, "size": size})
    return value


class HoursInput(fields.Input):
    """The same hours on some days of every week, in the local time of `timezone`."""

    days: Annotated[list[Day], AfterValidator(_not_empty), AfterValidator(_each_once), Keywords(minItems=1)]
    """The days of the week."""
    from_: Annotated[str, Field(pattern=f"^{_TIME}$")] = Field(alias="from")
    """The local time `HH:MM` of the beginning."""
    to: Annotated[str, Field(pattern=f"^({_TIME}|24:00)$")]
    """The local time `HH:MM` of the end, which is not included, after `from`. `24:00` is the end of the day."""

    @field_validator("to")
    @classmethod
    def _is_after_from(cls, to: str, info: ValidationInfo) -> str:
        if to <= info.data.get("from_", ""):
            raise PydanticCustomError("parameter_invalid", "The end must be after the beginning.")
        return to


class FactInput(fields.Input):
    """Something that the agent knows about the business."""

    question: Annotated[str, fields.text(200, least=1)]
    """What people ask."""
    answer: Annotated[str, fields.text(1000, least=1)]
    """What the agent answers."""


HoursList = Annotated[list[HoursInput], Field(max_length=MAX_HOURS)]


class AgentSettingsPatch(fields.Input):
    """A merge patch: an absent field keeps its value, and null brings its default back. Lists are replaced whole."""

    business_name: fields.Name | None = None
    """What the agent calls the business. By default the project's name."""
    business_phone: fields.Phone | None = None
    """Where people reach the business, as the agent tells who asks for it."""
    timezone: fields.Timezone | None = None
    """The IANA time zone of the hours, and of appointments without a zone of their own. UTC by default."""
    language: Literal["en"] | None = None
    """The language that the agent speaks: English, for now."""
    opening_hours: HoursList | None = None
    """When the business is open. Empty: at any time."""
    facts: Annotated[list[FactInput], Field(max_length=MAX_FACTS), AfterValidator(_facts_size)] | None = None
    """What the agent knows about the business. It answers questions from nothing else."""
    change_policy: Literal["auto", "within_hours", "ask_staff"] | None = None
    """Which new times of an appointment the agent may agree to by itself."""
    minimum_notice_minutes: Annotated[int, Field(ge=0, le=MAX_NOTICE_MINUTES)] | None = None
    """How many minutes from now a new time must be at least."""
    calling_hours: HoursList | None = None
    """When calls are made. Empty: at any time."""


@dataclass(frozen=True)
class StoredSettings:
    """The settings as read, and the name of the project. `version` is 0 until the first change."""

    settings: AgentSettings
    version: int
    project_name: str

    @property
    def business(self) -> str:
        """What the agent calls the business: a name that can be said."""
        name = self.settings["business_name"] or ""
        return name if any(map(str.isalnum, name)) else self.project_name

    @property
    def for_agent(self) -> AgentSettings:
        """The settings as the agent of messages and live calls gets them: always with a name of the business."""
        return {**self.settings, "business_name": self.business}


def keys(scope: Scope) -> list[table.Key]:
    """The keys of the rows from which `of_rows` reads the settings."""
    return [(scope.pk(KIND), KIND), projects.row_key(scope.project_id)]


def read(scope: Scope) -> StoredSettings:
    """The settings of a project and mode, in one read with the project. Raises LookupError for an unknown project."""
    return of_rows(scope, table.get_many(keys(scope)))


def of_rows(scope: Scope, rows: table.Rows) -> StoredSettings:
    """The settings in these rows. Raises LookupError if the project is not among them."""
    own, of_project = keys(scope)
    if of_project not in rows:
        raise LookupError(f"there is no project {scope.project_id}")
    project, row = rows[of_project], rows.get(own, {})
    defaults: AgentSettings = {
        "object": "agent_settings",
        "livemode": scope.livemode,
        "created_at": project["created_at"],
        "updated_at": project["created_at"],
        **DEFAULTS,
    }
    settings = cast("AgentSettings", defaults | json.loads(row.get("doc", "{}")))
    return StoredSettings(settings, row.get("v", 0), project["name"])
