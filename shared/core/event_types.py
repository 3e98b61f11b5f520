"""The types of events, and the kinds of rows whose changes become events. The infrastructure imports it, too."""

EVENT_DESCRIPTIONS = {
    "appointment.created": "An appointment was created.",
    "appointment.confirmed": "An appointment was confirmed.",
    "appointment.rescheduled": "An appointment has a new time. The status is `rescheduled`, or `confirmed` if the "
    "same change confirmed it.",
    "appointment.cancelled": "An appointment was cancelled. If it was also deleted, `deleted_at` is set.",
    "appointment.failed": "An appointment failed.",
    "appointment.updated": "Other fields of an appointment were changed, but neither its status nor its time. The "
    "deletion of a cancelled appointment is such a change.",
    "customer.created": "A customer was created. A conversation can create one, too.",
    "customer.updated": "A customer was changed.",
    "customer.deleted": "A customer was deleted.",
    "conversation.created": "A conversation began.",
    "conversation.handed_off": "The agent handed a conversation to a person, for whom the customer waits.",
    "conversation.resumed": "The agent replies in a conversation again. Somebody gave it back, or the agent, which had "
    "failed, has replied.",
    "conversation.ended": "A conversation has ended.",
    "conversation.message_added": "A person of the business wrote a message. The object is that message.",
    "session.created": "A call was requested. It waits to be dialed, or for the customer's consent.",
    "session.dialing": "A call is being dialed.",
    "session.completed": "A call was answered and has ended.",
    "session.no_answer": "A call was not answered. Nobody answered, the line was busy, or a machine answered.",
    "session.failed": "A call failed. It was not possible, or the customer's consent is missing; `ended_reason` says "
    "why.",
    "session.invalid_number": "A call could not be dialed, because the number is not valid.",
    "session.call_later": "A customer asked to be called at another time.",
    "session.transcript_ready": "The transcript of a call is available.",
    "session.recording_ready": "The recording of a call is available.",
}
"""By event type: what happened (promises 5, 6 and 7). The first sentence is a summary."""
EVENT_TYPES = tuple(EVENT_DESCRIPTIONS)
WILDCARDS = tuple(dict.fromkeys(f"{type.partition('.')[0]}.*" for type in EVENT_TYPES))
"""One for each kind of resource, such as `appointment.*`."""
STREAM_KINDS = (
    "customer",
    "appointment",
    "session",
    "conversation",
    "staff_message",
    "deleted_customer",
    "deleted_appointment",
    "opt_out",
)
"""The values of a row's `kind` whose changes become events or, those of opt-outs, entries of the ledger. The stream's
event filter passes only these."""
