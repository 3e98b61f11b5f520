"""The tools of an agent: domain operations that the server binds to one customer (promises 8).

Tools are created for a turn's input, which has one customer. The agent's arguments cannot change that: the id of
another customer's appointment is an unknown id. A turn stages at most one change, which is committed with the reply. A
cancellation or a new time is first proposed. The next turn can stage exactly this proposal, and only if the user's
message agrees (`shared/agent/assent.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar
from zoneinfo import ZoneInfo

from shared.agent_settings import hours, policy
from shared.agent_settings.policy import ChangePolicy, Problem, TimePolicy
from shared.agent_settings.resource import DEFAULTS, Settings
from shared.appointments import commands as appointment_commands
from shared.appointments.resource import (
    APPOINTMENTS,
    Appointment,
    AppointmentPatch,
    AppointmentRecord,
    AppointmentStatus,
)
from shared.core import clock, limits
from shared.core.call_statuses import CallOutcome
from shared.core.errors import ApiError
from shared.customers.resource import must_exist
from shared.resources import fields
from shared.resources.schema import AppointmentId, CustomerId, SessionId
from shared.store import table
from shared.store.keys import Scope

if TYPE_CHECKING:
    from shared.agent.assent import ProposalKind

LATEST_CALL_MS = limits.LATEST_CALL_DAYS * clock.DAY
"""How far in the future a customer can request the next call (milliseconds)."""


class HandoffReason(StrEnum):
    """Why a person is needed (promises 11)."""

    PERSON_REQUESTED = "person_requested"
    """The customer asks for a person."""
    COMPLAINT = "complaint"
    """The customer complains."""
    OUTSIDE_SCOPE = "outside_scope"
    """It is about something that the agent does not do."""
    CANNOT_HELP = "cannot_help"
    """The agent does not know how to help."""
    CHANGE_REQUESTED = "change_requested"
    """A person must decide about a new time."""
    CUSTOMER_DELETED = "customer_deleted"
    """The customer is deleted."""
    AGENT_FAILED = "agent_failed"
    """The reply is an apology. In a conversation, the agent answers the next message again (promises 8)."""
    CONTENT_FILTERED = "content_filtered"
    """The model's provider filtered the message or the reply."""


class HandoffAction(TypedDict):
    """The conversation was handed to a person (promises 8)."""

    type: Literal["handoff"]
    """The type of the action."""
    reason: HandoffReason
    """Why a person is needed."""


AppointmentActionType = Literal["appointment_confirmed", "appointment_rescheduled", "appointment_cancelled"]


class AppointmentAction(TypedDict):
    """An appointment was changed (promises 8)."""

    type: AppointmentActionType
    """The type of the action: how the appointment was changed."""
    appointment_id: AppointmentId
    """The appointment that was changed."""


class CallRequestedAction(TypedDict):
    """A call to the customer was requested (promises 8)."""

    type: Literal["call_requested"]
    """The type of the action."""
    session_id: SessionId
    """The session of the call."""


class ConversationEndedAction(TypedDict):
    """The conversation was ended (promises 8)."""

    type: Literal["conversation_ended"]
    """The type of the action."""


class CustomerOptedOutAction(TypedDict):
    """The customer is not to be called or written to again (promises 11)."""

    type: Literal["customer_opted_out"]
    """The type of the action."""
    customer_id: CustomerId
    """The customer who opted out."""


Action = HandoffAction | AppointmentAction | CallRequestedAction | ConversationEndedAction | CustomerOptedOutAction
"""An action of a reply (promises 8)."""
ActionType = AppointmentActionType | Literal["handoff", "call_requested", "conversation_ended", "customer_opted_out"]


OFFERED_REASONS = (
    HandoffReason.PERSON_REQUESTED,
    HandoffReason.COMPLAINT,
    HandoffReason.OUTSIDE_SCOPE,
    HandoffReason.CANNOT_HELP,
    HandoffReason.CHANGE_REQUESTED,
)
"""The reasons that a model can give for a handoff. Free text could leak data from its input."""


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


@dataclass(frozen=True)
class Proposal:
    """A change that the agent proposed, to be staged exactly if the user agrees.

    `present_at` is the appointment's time at the proposal, `at` the new time; both RFC 3339 in UTC.
    """

    kind: ProposalKind
    appointment_id: str
    present_at: str
    at: str | None = None

    @classmethod
    def from_json(cls, text: str | None) -> Proposal | None:
        """The proposal in an attribute of a row; None without the attribute."""
        return cls(**json.loads(text)) if text else None

    def to_json(self) -> str:
        """The attribute of a row that stores it."""
        return fields.to_json(vars(self))


OPT_OUT = Proposal("opt_out", "", "")
"""The question whether the person opts out. Agents do not see it: `shared/agent/opt_out_wishes.py` reads the answer."""


@dataclass(frozen=True)
class ToolResult:
    """The result of a tool: whether it succeeded, and a sentence for the agent."""

    ok: bool
    message: str


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
    in_call: bool = False
    """Whether this is a turn of a call."""
    instructions: str | None = None
    """In a call: the instructions of the business."""
    timezone: str | None = None
    """In a call: the zone of its appointment, for the time of the next call."""
    changed_before: bool = False
    """In a call: whether an earlier turn changed an appointment."""

    @property
    def can_request_call(self) -> bool:
        """Whether the customer can be called by phone because they ask for it."""
        return self.can_call and not self.in_call

    @property
    def calls_at(self) -> clock.Instant | None:
        """When a call that is requested now is made; None if calls are made at this hour."""
        at = hours.next_open(self.settings["calling_hours"], ZoneInfo(self.settings["timezone"]), clock.now())
        return at if at > clock.now() else None


def handoff(reason: HandoffReason) -> Action:
    """The action that hands over to a person."""
    return {"type": "handoff", "reason": reason}


@dataclass(frozen=True)
class StagedChange:
    """A change of an appointment that is to be committed with the reply."""

    record: AppointmentRecord
    """The appointment as it was read."""
    doc: Appointment
    """The appointment as it must be written."""

    def writes(self, scope: Scope) -> list[table.Write]:
        """The writes of the change, and the check that its customer is not deleted."""
        customer_exists = must_exist(scope, self.doc["customer_id"], "customer")
        return [*APPOINTMENTS.replace(scope, self.record, self.doc), customer_exists]


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
    call_later_at: clock.Instant | None = None
    """The time of the next call that was requested, if one was named."""
    ends_for_later: bool = False
    """Whether this call ends because another one was requested."""

    def has(self, *types: ActionType) -> bool:
        """Whether one of the actions has one of these types."""
        return any(action["type"] in types for action in self.actions)

    @property
    def ends_call(self) -> bool:
        """Whether a call ends with the reply of this turn."""
        return self.has("conversation_ended", "handoff", "customer_opted_out") or self.ends_for_later


Method = TypeVar("Method", bound=Callable[..., "ToolResult | list[AppointmentView]"])


@dataclass(frozen=True)
class Tool:
    """A method of `Tools` as a model sees it: its description and arguments, each a required string."""

    description: str
    arguments: Mapping[str, Mapping[str, Any]]
    is_available: Callable[[TurnInput], bool]
    """Whether the model sees it in this turn."""
    run: Callable[..., ToolResult | list[AppointmentView]]

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the tool's input."""
        required = {"required": list(self.arguments)} if self.arguments else {}
        return {"type": "object", "properties": dict(self.arguments), "additionalProperties": False} | required

    def accepts(self, arguments: Any) -> bool:
        """Whether the arguments of the model match the schema."""
        return (
            isinstance(arguments, dict)
            and arguments.keys() == self.arguments.keys()
            and all(_fits(arguments[name], schema) for name, schema in self.arguments.items())
        )


TOOLS: dict[str, Tool] = {}
"""The tools by name: the methods of `Tools` with `@tool`."""


def tool(
    description: str, *, when: Callable[[TurnInput], bool] = lambda turn_input: True, **arguments: Mapping[str, Any]
) -> Callable[[Method], Method]:
    """Make a method of `Tools` a tool of the model. `arguments` are the JSON schemas of its arguments."""

    def register(method: Method) -> Method:
        TOOLS[method.__name__] = Tool(description, arguments, when, method)
        return method

    return register


def _fits(value: Any, schema: Mapping[str, Any]) -> bool:
    if not isinstance(value, str) or len(value) > schema.get("maxLength", len(value)):
        return False
    return value in schema.get("enum", (value,))


_ID = {"type": "string", "maxLength": 64, "description": "The id of an appointment, from list_appointments."}
_AT = {"type": "string", "maxLength": 64, "description": "The new time: RFC 3339 with an offset, 2027-03-04T15:00:00Z."}
_REASON = {"type": "string", "enum": list(OFFERED_REASONS)}


class Tools:
    """The tools of one turn. What the agent does with them is in `result`."""

    def __init__(self, turn_input: TurnInput) -> None:
        self.turn_input, self.result = turn_input, TurnResult()
        # The answer to the question whether the person opts out is not the agent's to give.
        self.proposal = None if turn_input.proposal == OPT_OUT else turn_input.proposal

    @tool("The customer's coming appointments, soonest first.")
    def list_appointments(self) -> list[AppointmentView]:
        """The appointments as the agent sees them."""
        return [to_view(record.doc, self.turn_input.settings["timezone"]) for record in self.turn_input.appointments]

    @tool("Confirm an appointment, at once.", appointment_id=_ID)
    def confirm(self, appointment_id: str) -> ToolResult:
        """Confirm an appointment in this turn, unless the message may mean the proposal."""
        if (doubt := self._doubt()) is not None:
            return doubt
        return self._change(appointment_id, AppointmentPatch(status="confirmed"), CallOutcome.CONFIRMED)

    @tool("Propose to cancel an appointment.", appointment_id=_ID)
    def propose_cancellation(self, appointment_id: str) -> ToolResult:
        """Propose to cancel an appointment. It is cancelled only if the user's next message agrees."""
        record = self._appointment(appointment_id)
        if record is None:
            return _UNKNOWN
        if record.doc["status"] == AppointmentStatus.CANCELLED:
            return ToolResult(False, "The appointment is already cancelled.")
        return self._propose(Proposal("cancel", appointment_id, record.doc["appointment_at"]))

    @tool("Propose another time for an appointment.", appointment_id=_ID, at=_AT)
    def propose_reschedule(self, appointment_id: str, at: str) -> ToolResult:
        """Propose a new time, RFC 3339 with an offset. The appointment moves only if the user's next message agrees.

        If the settings do not allow the time, the next possible one is proposed. If there is none, or the settings
        leave new times to a person, the conversation is handed over.
        """
        record = self._appointment(appointment_id)
        if record is None:
            return _UNKNOWN
        try:
            instant = clock.parse(at)
        except ValueError:
            return ToolResult(False, "The time must be RFC 3339 with a UTC offset.")
        if instant <= clock.now():
            return ToolResult(False, "The new time must be in the future.")
        if record.doc["status"] == AppointmentStatus.CANCELLED:
            return ToolResult(False, "A cancelled appointment cannot be moved.")
        if clock.iso(instant) == record.doc["appointment_at"]:
            return ToolResult(False, "The appointment is already at that time.")
        if refusal := self._refusal():
            return refusal
        return self._propose_time(record, instant)

    @tool("Do what you proposed in your previous turn, now that the customer agrees.")
    def accept_proposal(self) -> ToolResult:
        """Stage the proposal of the previous turn, if the user's message agrees to it."""
        if self.proposal is None:
            return ToolResult(False, "Nothing was proposed in the previous turn.")
        if (doubt := self._doubt()) is not None:
            return doubt
        # Its patterns take as long as all other imports of a function, most of which use only the types of this module.
        from shared.agent import assent

        if not assent.agrees(self.turn_input.message, self.proposal.kind):
            return ToolResult(False, "The user's message does not agree; the proposal is dropped.")
        record = self._appointment(self.proposal.appointment_id)
        if record is None or record.doc["appointment_at"] != self.proposal.present_at:
            return ToolResult(
                False, "The appointment has changed since the proposal; list the appointments and propose again."
            )
        if self.proposal.kind == "cancel":
            patch = AppointmentPatch(status="cancelled")
            return self._change(self.proposal.appointment_id, patch, CallOutcome.CANCELLED)
        if self.proposal.at is None or clock.parse(self.proposal.at) <= clock.now():
            return ToolResult(False, "The proposed time has passed; ask for another time.")
        # The settings may have changed since. An offer stands even if the notice has become too short.
        rules = self._rules(notice=0)
        if rules is None:
            return self._leave_to_staff()
        if rules.problem(clock.parse(self.proposal.at), _duration_ms(record)) is not None:
            return ToolResult(False, "The proposed time is not possible any more; propose another time.")
        patch = AppointmentPatch(appointment_at=self.proposal.at)
        return self._change(self.proposal.appointment_id, patch, CallOutcome.RESCHEDULED)

    @tool(
        "Have the customer called by phone, now, when they ask for it.",
        when=lambda turn_input: turn_input.can_request_call,
    )
    def request_call(self) -> ToolResult:
        """Request a phone call to the customer now."""
        if not self.turn_input.can_request_call:
            return ToolResult(False, "This customer cannot be called; offer to hand off to a person.")
        if refusal := self._refusal():
            return refusal
        self.result.wants_call = True
        if (at := self.turn_input.calls_at) is None:
            return ToolResult(True, "The customer will be called.")
        local = clock.local(at, ZoneInfo(self.turn_input.settings["timezone"]))
        return ToolResult(True, f"No calls are made at this hour. The customer will be called at {local}: say so.")

    @tool(
        "End this call: the customer wants to be called again at another time.",
        when=lambda turn_input: turn_input.in_call,
        at=_AT,
    )
    def call_later(self, at: str) -> ToolResult:
        """End the call because the customer wants the next call at this time, RFC 3339 with an offset."""
        if not self.turn_input.in_call:
            return ToolResult(False, "This is not a phone call.")
        if self.turn_input.changed_before:
            return ToolResult(False, "An appointment was already changed in this call; another call is not needed.")
        if refusal := self._refusal():
            return refusal
        try:
            instant = clock.parse(at)
        except ValueError:
            return ToolResult(False, "The time must be RFC 3339 with a UTC offset.")
        if not clock.now() < instant < clock.now() + LATEST_CALL_MS:
            return ToolResult(False, "The time of the next call must be in the future, and within a year.")
        self.result.call_later_at, self.result.ends_for_later = instant, True
        return ToolResult(True, "Saved. The call ends with your reply.")

    @tool("Ask whether the customer wants no more calls and messages, when they seem to wish so.")
    def ask_about_opt_out(self) -> ToolResult:
        """Ask whether the person does not want to be called or written to again; the next message may say so."""
        if refusal := self._refusal():
            return refusal
        self.result.proposed = OPT_OUT
        return ToolResult(True, "The reply asks whether the customer wants no more calls and messages.")

    @tool("Hand the conversation to a person.", reason=_REASON)
    def hand_off(self, reason: HandoffReason) -> ToolResult:
        """Hand the conversation to a person. The agent can change nothing afterwards."""
        if not self.result.has("handoff"):
            self.result.actions.append(handoff(reason))
        return ToolResult(True, "A person will take over.")

    @tool("End the conversation with this reply, when the customer is done.")
    def end_conversation(self) -> ToolResult:
        """End the conversation with this reply."""
        if not self.result.has("conversation_ended"):
            self.result.actions.append({"type": "conversation_ended"})
        return ToolResult(True, "The conversation ends with your reply.")

    def _propose_time(self, record: AppointmentRecord, wished: clock.Instant) -> ToolResult:
        """Propose the wished time, or the next possible one. Hands over if there is none."""
        rules = self._rules(self.turn_input.settings["minimum_notice_minutes"])
        if rules is None:
            return self._leave_to_staff()
        duration_ms = _duration_ms(record)
        self.result.problem = rules.problem(wished, duration_ms)
        at = wished if self.result.problem is None else rules.next_possible(wished, duration_ms)
        if at is None:
            return self._leave_to_staff()
        return self._propose(Proposal("reschedule", record.doc["id"], record.doc["appointment_at"], clock.iso(at)))

    def _rules(self, notice: int) -> TimePolicy | None:
        """The rules for new times at least `notice` minutes from now; None if a person decides about them."""
        if self.turn_input.settings["change_policy"] == ChangePolicy.ASK_STAFF:
            return None
        is_bound = self.turn_input.settings["change_policy"] == ChangePolicy.WITHIN_HOURS
        week = self.turn_input.settings["opening_hours"] if is_bound else []
        return TimePolicy(ZoneInfo(self.turn_input.settings["timezone"]), clock.now() + notice * clock.MINUTE, week)

    def _leave_to_staff(self) -> ToolResult:
        self.hand_off(HandoffReason.CHANGE_REQUESTED)
        problem = self.result.problem
        why = "" if problem is None else f"{_NOT_POSSIBLE[problem]} No other time within 14 days is. "
        message = f"{why}A person decides about this change, and was asked to. Say so, and that they will be in touch."
        return ToolResult(False, message)

    def _doubt(self) -> ToolResult | None:
        """Repeat the proposal if "confirm" can mean the proposal or the appointment; the user is asked again."""
        from shared.agent import assent

        proposal = self.proposal
        if proposal is None or not assent.is_doubtful(self.turn_input.message, proposal.kind):
            return None
        record = self._appointment(proposal.appointment_id)
        if record is None or record.doc["appointment_at"] != proposal.present_at:
            return None
        result = self._propose(proposal)
        message = (
            "The message can mean the proposal or the appointment. The proposal was repeated; ask for a yes or a no."
        )
        return ToolResult(False, message) if result.ok else result

    def _change(self, appointment_id: str, patch: AppointmentPatch, outcome: CallOutcome) -> ToolResult:
        record = self._appointment(appointment_id)
        if record is None:
            return _UNKNOWN
        if refusal := self._refusal():
            return refusal
        try:
            after = appointment_commands.apply(record.doc, patch)
        except ApiError as error:
            return ToolResult(False, error.message)
        self.result.outcome = outcome
        if after is record.doc:
            return ToolResult(True, "No change was necessary.")
        self.result.staged = StagedChange(record, after)
        self.result.actions.append({"type": _ACTIONS[outcome], "appointment_id": appointment_id})
        return ToolResult(True, "Done.")

    def _propose(self, proposal: Proposal) -> ToolResult:
        if refusal := self._refusal():
            return refusal
        self.result.proposed = proposal
        return ToolResult(True, "Proposed, but not done yet. Describe the change and ask whether the user agrees.")

    def _refusal(self) -> ToolResult | None:
        """The reason why this turn can make no further change; None if it can."""
        if self.result.has("handoff"):
            return ToolResult(False, "The conversation was handed to a person; nothing more can be changed.")
        changed = any(action["type"].startswith("appointment_") for action in self.result.actions)
        if self.result.ends_for_later:
            return ToolResult(False, "The customer wants to be called again; nothing more can be done in this call.")
        return _ONE_CHANGE if changed or self.result.wants_call or self.result.proposed else None

    def _appointment(self, id: str) -> AppointmentRecord | None:
        return next((record for record in self.turn_input.appointments if record.doc["id"] == id), None)


_ACTIONS: Mapping[CallOutcome, AppointmentActionType] = {
    CallOutcome.CONFIRMED: "appointment_confirmed",
    CallOutcome.RESCHEDULED: "appointment_rescheduled",
    CallOutcome.CANCELLED: "appointment_cancelled",
}
_NOT_POSSIBLE = {
    Problem.TOO_SOON: "The time is not possible: it is too short notice.",
    Problem.OUTSIDE_HOURS: "The time is not possible: it is outside of the opening hours.",
}
_UNKNOWN = ToolResult(False, "This customer has no such appointment.")
_ONE_CHANGE = ToolResult(False, "Only one change or proposal can be made in a turn; do the rest in later turns.")


def _duration_ms(record: AppointmentRecord) -> int:
    """How long an appointment takes."""
    minutes = record.doc["duration_minutes"]
    return policy.DURATION_MS if minutes is None else minutes * clock.MINUTE


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
