"""Limits, the retry schedule and quotas of AWS that several packages need, or a package and the infrastructure.

A number that one module enforces is in that module. Most of them are about:

    the items of a page                 `shared/resources/queries.py`
    the length of a text                `shared/resources/fields.py`, or the input of its resource
    appointments that an agent gets     `shared/conversations/replies.py`
    the time for a reply                `shared/conversations/turns.py`
    calls of a project, and of a stage  `shared/calls/project_limits.py`, `shared/calls/capacity.py`
    requests for consent                `shared/calls/consent/consents.py`
    slow and hanging endpoints          `shared/webhooks/health.py`, `shared/webhooks/queues.py`
    a receiver's response               `shared/webhooks/http_client.py`
    a worker's lease                    `LEASE_MS` of whatever claims the task, such as `functions/deliver.py`
    lost workers                        `shared/tasks/tasks.py`
    how long something is kept          what is kept: events in `shared/webhooks/events.py`, saved responses in
                                        `shared/api/idempotency.py`, the audit trail in `shared/admin/audit.py`

`LIMITS` in `shared/docs/tables.py` collects the numbers that pages state.
"""

BODY_BYTES = 256 * 1024
"""The largest body of a request (promises 2)."""
JSON_LEVELS = 64
"""The deepest nesting of a body. The body itself is level 1 (promises 3)."""
IDEMPOTENCY_KEY_CHARACTERS = 255
METADATA_KEYS = 50
METADATA_KEY_CHARACTERS = 40
METADATA_VALUE_CHARACTERS = 500
METADATA_BYTES = 16 * 1024
RECEIVER_S = 15
"""Seconds in which a receiver must respond: DNS lookup, connect, TLS, request, head and body (promises 9)."""
WEBHOOK_ENDPOINTS = 16
"""The most endpoints of a project and mode."""
REQUESTS_PER_SECOND, REQUESTS_PER_MINUTE = 100, 5000
"""The rate limits of one API key (promise 1.5)."""
LATEST_CALL_DAYS = 366
"""How many days ahead a call may be asked for (promise 11.3)."""
LONGEST_CALL_MINUTES = 15
"""How long a live call may take, from dialing on."""
RECORDINGS_KEPT_DAYS = 365
"""How long the bucket keeps the recordings of calls."""
TURNS_PER_PROJECT = 50
"""The live messages of one project that may be under way at once, unless a stage sets another number."""

RETRY_SCHEDULE_S = (0, 5, 30, 5 * 60, 30 * 60, 2 * 3600, 5 * 3600, 10 * 3600, 24 * 3600)
"""The retry schedule of deliveries: seconds before each attempt, from the end of the previous one (the table of
promise 0.6)."""

MAX_DUE_SHARDS = 64
"""The most partitions that rows with scheduled steps may be spread over in the index `by_due`."""
LONGEST_QUEUE_DELAY_S = 900
"""The longest delay of an SQS message, in seconds. Longer waits use a state machine."""
CONNECT_ACTIVE_CALLS, CONNECT_STARTS_PER_SECOND = 10, 2
"""Amazon Connect's default quotas: active calls in an instance, and calls that an account starts in a second."""
