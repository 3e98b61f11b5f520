"""Facts that the service and its infrastructure share, as plain data: each stands here once.

This module imports nothing. It is the only one of `shared` that all of `infra` may import.
"""

REVISIONS = ("2026-06-01", "2026-08-03", "2026-08-22")
"""The dated revisions of API v1 (specification, "Versioning"). All so far are additive and render alike."""
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
"""Every type of event (contract 5, 6 and 7)."""
STREAM_KINDS = ("customer", "appointment", "session", "deleted_customer", "deleted_appointment")
"""Values of a row's `kind` whose changes become events; the stream's filter lets only these through."""

METRIC_NAMESPACE = "Appointments"
"""The CloudWatch namespace of the service's own metrics."""
DELIVERY_LATENESS = "DeliveryLateness"
"""Milliseconds from the time that an attempt was due to its start, by `lane`."""
LOST_DELIVERY = "LostDelivery"
"""Deliveries that were given up because worker after worker died over them."""
FIRST_ATTEMPTS, LATER_ATTEMPTS, SLOW_ENDPOINTS = LANES = ("first_attempts", "later_attempts", "slow_endpoints")
"""The lanes that lateness is counted by: an endpoint that is known to be slow makes its own wait."""

LONGEST_QUEUE_DELAY = 900
"""Seconds that SQS can delay a message. Longer waits take a state machine."""
