"""The actions of a reply: what the agent did in a turn, as clients see it (promises 8)."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypedDict

from shared.resources.schema import AppointmentId, CustomerId, SessionId


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


def handoff(reason: HandoffReason) -> Action:
    """The action that hands over to a person."""
    return {"type": "handoff", "reason": reason}
