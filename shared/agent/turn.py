"""A turn of the agent: what it gets (`TurnInput`), and what it did (`TurnResult`)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal
from zoneinfo import ZoneInfo

from shared.agent.actions import Action, ActionType
from shared.agent_settings import hours
from shared.agent_settings.policy import Problem
from shared.agent_settings.resource import DEFAULTS, Settings
from shared.appointments.resource import APPOINTMENTS, Appointment, AppointmentRecord, AppointmentStatus
from shared.core import clock
from shared.core.call_statuses import CallOutcome
from shared.customers.resource import exists_check
from shared.resources import fields
from shared.store import table
from shared.store.keys import Scope


@dataclass(frozen=True)
class AppointmentView:
    """An appointment of the customer as an agent sees it. `local` is the time in `timezone`.

    An appointment without a zone of its own has that of the agent's settings.
    """

    id: str
    status: AppointmentStatus
    at: str
    timezone: str
    local: str
    title: str | None
    location: str | None
    duration_minutes: int | None


def to_view(doc: Appointment, timezone: str) -> AppointmentView:
    """The appointment as an agent sees it, in `timezone` if it has no zone of its own."""
    zone = doc["timezone"] or timezone
    local = clock.local(clock.parse(doc["appointment_at"]), ZoneInfo(zone))
    return AppointmentView(
        id=doc["id"],
        status=doc["status"],
        at=doc["appointment_at"],
        timezone=zone,
        local=local,
        title=doc["title"],
        location=doc["location"],
        duration_minutes=doc["duration_minutes"],
    )


@dataclass(frozen=True)
class AppointmentProposal:
    """A change of an appointment that the agent proposed, to be staged exactly if the user agrees.

    `present_at` is the appointment's time at the proposal, `at` the new time; both RFC 3339 in UTC.
    """

    kind: Literal["cancel", "reschedule"]
    appointment_id: str
    present_at: str
    at: str | None = None

    def to_json(self) -> str:
        """The attribute of a row that stores it."""
        return fields.to_json(vars(self))


@dataclass(frozen=True)
class OptOutQuestion:
    """The question whether the person opts out. Agents do not see it: `opt_out_messages.py` reads the answer."""

    def to_json(self) -> str:
        """The attribute of a row that stores it. Version 0.2.0 reads the fields of any proposal from it."""
        return fields.to_json({"kind": "opt_out", "appointment_id": "", "present_at": "", "at": None})


Proposal = AppointmentProposal | OptOutQuestion
"""What the agent asked in its reply, and does if the user's next message agrees."""


def read_proposal(text: str | None) -> Proposal | None:
    """The proposal in an attribute of a row; None without the attribute."""
    if not text:
        return None
    stored = json.loads(text)
    return OptOutQuestion() if stored["kind"] == "opt_out" else AppointmentProposal(**stored)


@dataclass(frozen=True)
class CallContext:
    """What the agent gets for a turn of a call only."""

    instructions: str | None = None
    """The instructions of the business."""
    timezone: str | None = None
    """The zone of the call's appointment, for the time of the next call."""
    changed_before: bool = False
    """Whether an earlier turn changed an appointment."""


@dataclass(frozen=True)
class TurnInput:
    """What the agent gets for one turn of a conversation or call."""

    appointments: Sequence[AppointmentRecord]
    """The customer's next appointments, soonest first (`replies.MAX_APPOINTMENTS`); in a call, only its own."""
    message: str
    """The user's message of this turn."""
    settings: Settings = field(default_factory=lambda: DEFAULTS)
    """What the agent knows of the business, and what it may change."""
    proposal: Proposal | None = None
    """The proposal of the previous turn."""
    customer_id: str | None = None
    """The customer, deleted or not. None if a conversation has none."""
    can_call: bool = False
    """Whether the customer can be called by phone."""
    call: CallContext | None = None
    """None if this is a turn of a conversation."""

    @property
    def can_request_call(self) -> bool:
        """Whether the customer can be called by phone because they ask for it: not in a call."""
        return self.can_call and self.call is None

    @property
    def calls_at(self) -> clock.Instant | None:
        """When a call that is requested now is made; None if calls are made at this hour."""
        at = hours.next_open(self.settings["calling_hours"], ZoneInfo(self.settings["timezone"]), clock.now())
        return at if at > clock.now() else None


@dataclass(frozen=True)
class StagedChange:
    """A change of an appointment that is to be committed with the reply."""

    record: AppointmentRecord
    """The appointment as it was read."""
    doc: Appointment
    """The appointment as it must be written."""

    def writes(self, scope: Scope) -> list[table.Write]:
        """The writes of the change, and the check that its customer is not deleted."""
        customer_exists = exists_check(scope, self.doc["customer_id"], "customer")
        return [*APPOINTMENTS.replace_writes(scope, self.record, self.doc), customer_exists]


@dataclass(frozen=True)
class CallLater:
    """In a call: somebody wants the customer to be called at another time, which ends the call."""

    at: clock.Instant | None
    """None if no time was named."""


@dataclass
class TurnResult:
    """What the agent did in one turn, to be committed with its reply."""

    actions: list[Action] = field(default_factory=list)
    """The `actions` of the reply."""
    outcome: CallOutcome | None = None
    """What came of the turn: of an appointment, also if it was so before, or that another person has answered."""
    staged: StagedChange | None = None
    """The change of an appointment, if there is one."""
    proposed: Proposal | None = None
    """The proposal for the next turn."""
    problem: Problem | None = None
    """Why the wished time is not possible. `proposed` is then the next possible one."""
    wants_call: bool = False
    """Whether the customer requested a call."""
    call_later: CallLater | None = None
    """Why this call ends for another one, if it does."""

    def has(self, *types: ActionType) -> bool:
        """Whether one of the actions has one of these types."""
        return any(action["type"] in types for action in self.actions)

    @property
    def ends_call(self) -> bool:
        """Whether a call ends with the reply of this turn."""
        return self.has("conversation_ended", "handoff", "customer_opted_out") or self.call_later is not None
