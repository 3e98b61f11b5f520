"""Constants that the service and its infrastructure share.

This module imports nothing. It is the only module of `shared` that all of `infra` may import.
"""

REVISIONS = ("2026-06-01", "2026-08-03", "2026-08-22", "2026-12-01")
"""The dated revisions of API v1 (promise 1.2). All are additive so far and render the same."""
NEWEST_REVISION = REVISIONS[-1]

EVENT_TYPES = (
    "appointment.created",
    "appointment.confirmed",
    "appointment.rescheduled",
    "appointment.cancelled",
    "appointment.failed",
    "customer.created",
    "customer.updated",
    "customer.deleted",
    "session.created",
    "session.dialing",
    "session.completed",
    "session.no_answer",
    "session.failed",
    "session.invalid_number",
    "session.call_later",
    "session.transcript_ready",
    "session.recording_ready",
)
"""All event types (promises 5, 6 and 7)."""
STREAM_KINDS = ("customer", "appointment", "session", "deleted_customer", "deleted_appointment")
"""The values of a row's `kind` whose changes become events. The stream's event filter passes only these."""

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

LONGEST_QUEUE_DELAY = 900
"""The longest delay of an SQS message, in seconds. Longer waits use a state machine."""

CONNECT_ACTIVE_CALLS, CONNECT_STARTS_PER_SECOND = 10, 2
"""Amazon Connect's default quotas: active calls in an instance, and calls that an account starts in a second."""
DESCRIBED_SERVER = "https://api.example.com"
"""The server in the API description. The function that serves the description replaces it by its own address."""
API_DESCRIPTION = "openapi.json"
"""The file of the API description, in the folder of the functions in the bundle. It is generated with the bundle."""
VENDORED = (
    "@picocss/pico/css/pico.min.css",
    "htmx.org/dist/htmx.min.js",
    "swagger-ui-dist/swagger-ui-bundle.js",
    "swagger-ui-dist/swagger-ui.css",
)
"""Files of npm packages that pages load, below `node_modules`. The Lambda bundle contains copies."""
