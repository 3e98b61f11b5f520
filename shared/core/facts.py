"""Constants that the service and its infrastructure share.

This module imports nothing. It is the only module of `shared` that all of `infra` may import.
"""

REVISIONS = ("2026-06-01", "2026-08-03", "2026-08-22", "2026-12-01")
"""The dated revisions of API v1 (promise 1.2). All are additive so far and render the same."""
NEWEST_REVISION = REVISIONS[-1]

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

RETRY_SCHEDULE_S = (0, 5, 30, 5 * 60, 30 * 60, 2 * 3600, 5 * 3600, 10 * 3600, 24 * 3600)
"""The retry schedule of deliveries: seconds before each attempt, from the end of the previous one (the table of
promise 0.6)."""

REQUESTS_PER_SECOND, REQUESTS_PER_MINUTE = 100, 5000
"""The rate limits of one API key (promise 1.5)."""

METRIC_NAMESPACE = "Appointments"
"""The CloudWatch namespace of the service's own metrics."""
DELIVERY_LATENESS = "DeliveryLateness"
"""Milliseconds from an attempt's due time to its start, by `queue_class`. For a hanging endpoint, from its wake-up."""
LOST_DELIVERY = "LostDelivery"
"""Deliveries that failed with `worker_lost`: too many workers died during one attempt."""
PUT_ASIDE = "PutAside"
"""Changes that failed for themselves, which `fan_out` wrote to the bucket of failed batches."""
FAILED_INVOCATIONS = "FailedInvocations"
"""Invocations that ended with a response of 500 or above, except 504, or with failed messages, by `version`."""
FAILED_TURNS = "FailedTurns"
"""1 for a live turn that ended with an apology because the agent failed, 0 for every other one."""
HANDOFFS = "Handoffs"
"""1 for a live turn that handed its conversation to a person for another reason, 0 for every other one."""
FAILED_CALLS = "FailedCalls"
"""1 for a live call that ended because of the carrier or the service, 0 for every other one."""
AGENT, CALLS = "agent", "calls"
"""The `service` of these metrics, which several functions record."""
CANARY_PASSED = "CanaryPassed"
"""1 for a run of the canary that found everything in order, 0 for one that failed."""
CANARY_WEBHOOK = "CanaryWebhook"
"""Milliseconds from the creation of the canary's customer to the arrival of the webhook."""
CANARY = "canary"
"""The `service` of the canary's metrics, and the name of its function."""
FIRST_ATTEMPTS, LATER_ATTEMPTS, SLOW_ENDPOINTS, HANGING_ENDPOINTS = QUEUE_CLASSES = (
    "first_attempts",
    "later_attempts",
    "slow_endpoints",
    "hanging_endpoints",
)
"""The values of the metric's `queue_class`, which are no queues. Slow and hanging endpoints have their own, because
they cause their lateness themselves."""

MAX_DUE_SHARDS = 64
"""The most partitions that rows with scheduled steps may be spread over in the index `by_due`."""

LONGEST_QUEUE_DELAY_S = 900
"""The longest delay of an SQS message, in seconds. Longer waits use a state machine."""

CONNECT_ACTIVE_CALLS, CONNECT_STARTS_PER_SECOND = 10, 2
"""Amazon Connect's default quotas: active calls in an instance, and calls that an account starts in a second."""
TRANSIENT_MODEL_ERRORS = frozenset(
    {
        "InternalServerException",
        "ModelNotReadyException",
        "ModelTimeoutException",
        "ServiceUnavailableException",
        "ThrottlingException",
    }
)
"""Errors of Bedrock that pass. They do not concern the id of the model or access to it."""
DESCRIBED_SERVER = "https://api.example.com"
"""The server in the API description. The function that serves the description replaces it by its own address."""
API_DESCRIPTION = "openapi.json"
"""The file of the API description, in the folder of the functions in the bundle. It is generated with the bundle."""
VENDORED = {
    "@picocss/pico/css/pico.min.css": (
        "2.1.1",
        "MIT",
        "fbc9a63fc9fc9f72d12fd7fc9806e11fa9f77ae4f9cad146b27003a1119ba3db",
    ),
    "htmx.org/dist/htmx.min.js": (
        "2.0.11",
        "0BSD",
        "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717",
    ),
    "swagger-ui-dist/swagger-ui-bundle.js": (
        "5.35.0",
        "Apache-2.0",
        "e6a898692f2d768e807c3ba4626068a69a2c5dd960dd6c76f3e4d3a3de180af2",
    ),
    "swagger-ui-dist/swagger-ui.css": (
        "5.35.0",
        "Apache-2.0",
        "5ed08757e53da3e026d6cbecc61fe5d43585c9560b302d534ad56692519a273d",
    ),
}
"""Files of npm packages that pages load, by their path below `node_modules`: version, licence and SHA-256. The Lambda
bundle contains copies."""
