"""The tools of an agent: domain operations that the server binds to one customer (promises 8).

Tools are created for a turn's input, which has one customer. The agent's arguments cannot change that: the id of
another customer's appointment is an unknown id. A turn stages at most one change, which is committed with the reply. A
cancellation or a new time is first proposed. The next turn can stage exactly this proposal, and only if the user's
message agrees (`shared/agent/assent.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from shared.agent.actions import AppointmentActionType, HandoffReason, handoff
from shared.agent.turn import (
    AppointmentProposal,
    AppointmentView,
    CallLater,
    OptOutQuestion,
    StagedChange,
    TurnInput,
    TurnResult,
    to_view,
)
from shared.agent_settings import policy
from shared.agent_settings.policy import ChangePolicy, Problem, TimePolicy
from shared.appointments import commands as appointment_commands
from shared.appointments.resource import AppointmentPatch, AppointmentRecord, AppointmentStatus
from shared.core import clock, limits
from shared.core.call_statuses import CallOutcome
from shared.core.errors import ApiError

LATEST_CALL_MS = limits.LATEST_CALL_DAYS * clock.DAY
"""How far in the future a customer can request the next call (milliseconds)."""
OFFERED_REASONS = (
    HandoffReason.PERSON_REQUESTED,
    HandoffReason.COMPLAINT,
    HandoffReason.OUTSIDE_SCOPE,
    HandoffReason.CANNOT_HELP,
    HandoffReason.CHANGE_REQUESTED,
)
"""The reasons that a model can give for a handoff. Free text could leak data from its input."""


@dataclass(frozen=True)
class ToolResult:
    """The result of a tool: whether it succeeded, and a sentence for the agent."""

    ok: bool
    message: str


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
        self.proposal = turn_input.proposal if isinstance(turn_input.proposal, AppointmentProposal) else None

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
        return self._propose(AppointmentProposal("cancel", appointment_id, record.doc["appointment_at"]))

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
        when=lambda turn_input: turn_input.call is not None,
        at=_AT,
    )
    def call_later(self, at: str) -> ToolResult:
        """End the call because the customer wants the next call at this time, RFC 3339 with an offset."""
        if self.turn_input.call is None:
            return ToolResult(False, "This is not a phone call.")
        if self.turn_input.call.changed_before:
            return ToolResult(False, "An appointment was already changed in this call; another call is not needed.")
        if refusal := self._refusal():
            return refusal
        try:
            instant = clock.parse(at)
        except ValueError:
            return ToolResult(False, "The time must be RFC 3339 with a UTC offset.")
        if not clock.now() < instant < clock.now() + LATEST_CALL_MS:
            return ToolResult(False, "The time of the next call must be in the future, and within a year.")
        self.result.call_later = CallLater(instant)
        return ToolResult(True, "Saved. The call ends with your reply.")

    @tool("Ask whether the customer wants no more calls and messages, when they seem to wish so.")
    def ask_about_opt_out(self) -> ToolResult:
        """Ask whether the person does not want to be called or written to again; the next message may say so."""
        if refusal := self._refusal():
            return refusal
        self.result.proposed = OptOutQuestion()
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
        present_at = record.doc["appointment_at"]
        return self._propose(AppointmentProposal("reschedule", record.doc["id"], present_at, clock.iso(at)))

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

    def _propose(self, proposal: AppointmentProposal) -> ToolResult:
        if refusal := self._refusal():
            return refusal
        self.result.proposed = proposal
        return ToolResult(True, "Proposed, but not done yet. Describe the change and ask whether the user agrees.")

    def _refusal(self) -> ToolResult | None:
        """The reason why this turn can make no further change; None if it can."""
        if self.result.has("handoff"):
            return ToolResult(False, "The conversation was handed to a person; nothing more can be changed.")
        if self.result.call_later is not None:
            return ToolResult(False, "The customer wants to be called again; nothing more can be done in this call.")
        changed = any(action["type"].startswith("appointment_") for action in self.result.actions)
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
