"""Limits that texts for clients state: errors, the API description, `/docs`. Code that enforces one uses it, too.

Rate limits and the retry schedule are in `facts.py`, because the infrastructure states them, too. Retention times are
beside what is kept; `LIMITS` in `shared/docs/tables.py` collects what the pages state.
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
RECEIVER_SECONDS = 15
"""Seconds in which a receiver must respond: DNS lookup, connect, TLS, request, head and body (promises 9)."""
WEBHOOK_ENDPOINTS = 16
"""The most endpoints of a project and mode."""
