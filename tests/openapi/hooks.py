"""What schemathesis must know beside the description, and the failures that are not the service's."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any
from zoneinfo import available_timezones

import schemathesis
from hypothesis import strategies as st

ZONES = sorted(available_timezones() - {"localtime", "Factory"})
WORD = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=12)
NUMBERS = itertools.count()

schemathesis.openapi.format("iana-timezone", st.sampled_from(ZONES))
schemathesis.openapi.format("email", st.builds("{}@{}.example.com".format, WORD, WORD))
# Nobody listens there. The local runner allows loopback, and no request leaves this machine.
schemathesis.openapi.format("uri", st.builds("https://127.0.0.1:9/{}".format, WORD))
schemathesis.openapi.format(
    "date-time",
    st.builds(
        "{}T{}{}".format,
        st.dates().filter(lambda date: 1 < date.year < 9999),
        st.times().map(lambda time: time.isoformat("milliseconds")),
        st.sampled_from(["Z", "+00:00", "-11:30", "+14:00"]),
    ),
)


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Give each request an Idempotency-Key of its own: the service refuses a key with another request (promises 4)."""
    key = (case.headers or {}).get("Idempotency-Key")
    if isinstance(key, str) and case.meta is not None and case.meta.generation.mode.is_positive:
        case.headers["Idempotency-Key"] = f"{key[:230]}-{next(NUMBERS)}"


@schemathesis.hook
def filter_failure(context: Any, failure: Any, case: Any, response: Any) -> bool:
    """Whether the failure is the service's."""
    return not any(
        type(failure).__name__ == kind and applies(case, error_of(response)) for kind, _, applies in EXCEPTIONS
    )


def error_of(response: Any) -> dict[str, str]:
    """The error in a response; `{}` for a success."""
    try:
        found: dict[str, str] = json.loads(response.content).get("error", {})
    except ValueError:
        return {}
    return found


def floats(value: Any) -> bool:
    """Whether there is a float in the value."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, float) or any(floats(part) for part in parts)


REJECTED, ACCEPTED = "RejectedPositiveData", "AcceptedNegativeData"
EXCEPTIONS: list[tuple[str, str, Callable[[Any, dict[str, str]], bool]]] = [
    (
        ACCEPTED,
        "A bound of `created` may have any size. Its format has clients use 64 bits; no event is so early or late.",
        lambda case, error: any(
            name.startswith("created[") and len(str(value)) > 18 for name, value in (case.query or {}).items()
        ),
    ),
    (
        REJECTED,
        "The id of an object in a body must exist, which a schema cannot say.",
        lambda case, error: error.get("code") == "resource_not_found",
    ),
    (
        REJECTED,
        "A cursor of appointments by time is the base64 of a time and an id, which a pattern cannot say.",
        lambda case, error: error.get("code") == "cursor_invalid" and case.operation.path == "/v1/appointments",
    ),
    (
        REJECTED,
        "A status and the other fields of a patch must fit together and to the appointment (promises 6).",
        lambda case, error: (
            case.method == "PATCH"
            and case.operation.path == "/v1/appointments/{id}"
            and error.get("code") in ("parameters_exclusive", "parameter_missing", "parameter_invalid")
            and error.get("param") in ("appointment_at", "cancellation_reason", "failure_reason")
        ),
    ),
    (
        REJECTED,
        "The length of a metadata value is that of its JSON text, and control characters are refused at any depth.",
        lambda case, error: (
            error.get("param", "").partition("[")[0] == "metadata"
            or error.get("param", "").startswith("customer[metadata]")
        ),
    ),
    (
        REJECTED,
        "Which hosts are public, which domains take mail and which zones exist, a pattern and a length cannot say.",
        lambda case, error: (
            error.get("code") in ("url_invalid", "email_invalid")
            or (error.get("code"), error.get("param")) == ("parameter_invalid", "timezone")
        ),
    ),
    (
        REJECTED,
        "That a time is at most a year ahead, a schema cannot say.",
        lambda case, error: (error.get("code"), error.get("param")) == ("parameter_invalid", "not_before"),
    ),
    (
        REJECTED,
        "That hours end after they begin, a schema cannot say.",
        lambda case, error: (
            case.operation.path == "/v1/agent_settings"
            and error.get("code") == "parameter_invalid"
            and error.get("param", "").endswith("[to]")
        ),
    ),
    (
        REJECTED,
        "JSON Schema takes 30.0 for an integer. The service does not.",
        lambda case, error: error.get("code") == "parameter_invalid_integer" and floats(case.body),
    ),
]
"""By the kind of the failure: why it is none of the service's, and whether this is such a case."""
