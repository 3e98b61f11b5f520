from __future__ import annotations

import asyncio
import contextlib
import re
from typing import Any

import httpx
import pytest
from starlette.routing import Route as StarletteRoute

from shared.api.routes import Service
from shared.aws.services import Unavailable
from shared.core import errors
from shared.core.errors import ERRORS, NEVER_SAVED, RETRYABLE, ApiError, Code
from shared.store import table
from shared.webhooks.events import FAMILIES

PROMISED = """
| 400 | invalid_request_error | `parameter_missing`, `parameter_unknown`, `parameter_invalid`, `parameter_invalid_integer`, `parameter_invalid_empty`, `parameters_exclusive`, `phone_invalid_format`, `email_invalid`, `url_invalid`, `datetime_invalid`, `metadata_invalid`, `cursor_invalid`, `event_filter_invalid`, `api_version_invalid`, `invalid_json`, `idempotency_key_invalid` |
| 400 | idempotency_error | `idempotency_key_reused` |
| 401 | authentication_error | `api_key_missing`, `api_key_invalid`, `api_key_revoked`, `api_key_expired` |
| 403 | permission_error | `permission_denied` |
| 404 | invalid_request_error | `resource_not_found`, `route_not_found` |
| 405 | invalid_request_error | `method_not_allowed` |
| 409 | conflict_error | `invalid_status_transition`, `customer_deleted`, `customer_phone_missing`, `customer_opted_out`, `appointment_deleted`, `call_in_progress`, `appointment_cancelled`, `consent_request_limited`, `session_not_cancelable`, `conversation_ended`, `conversation_exists`, `conversation_busy`, `delivery_in_progress`, `webhook_endpoint_disabled`, `webhook_endpoint_limit`, `conflict` |
| 409 | idempotency_error | `idempotency_key_in_use` |
| 413 | invalid_request_error | `request_too_large` |
| 415 | invalid_request_error | `unsupported_media_type` |
| 429 | rate_limit_error | `rate_limit_exceeded` |
| 500 | api_error | `internal_error` |
| 503 | api_error | `service_unavailable` |
| 504 | api_error | `agent_timeout` |
"""  # noqa: E501 (a table)
"""The table of promises 2; `resource_not_found` is also 400 for an id named in the body."""


def rows() -> dict[str, tuple[int, str]]:
    found: dict[str, tuple[int, str]] = {}
    for line in PROMISED.strip().splitlines():
        status, type, codes = (cell.strip() for cell in line.strip("|").split("|"))
        found |= {code: (int(status), type) for code in re.findall(r"`(\w+)`", codes)}
    return found


def test_the_table_is_as_promised_and_has_one_of_our_own() -> None:
    ours = {"call_limit_reached": (409, "conflict_error")}
    assert {code: (kind.status, kind.type) for code, kind in ERRORS.items()} == rows() | ours


def test_every_error_has_words_for_a_person() -> None:
    for kind in ERRORS.values():
        assert re.fullmatch(r"[A-Z`].*[.)]", kind.meaning)
        assert re.fullmatch(r"[A-Z].*\.", kind.remedy)
        assert kind.meaning not in kind.remedy


def test_conflicts_that_pass_are_those_of_promises_4() -> None:
    assert sorted(NEVER_SAVED) == [
        "call_in_progress",
        "call_limit_reached",
        "conflict",
        "consent_request_limited",
        "conversation_busy",
        "delivery_in_progress",
        "idempotency_key_in_use",
        "webhook_endpoint_limit",
    ]
    assert {ERRORS[code].status for code in NEVER_SAVED} == {409}


def test_the_refusals_that_clients_should_retry_are_those_that_promises_1_name() -> None:
    limited = {code for code, kind in ERRORS.items() if kind.status == 429}

    assert limited | {"idempotency_key_in_use", "conversation_busy", "conflict"} == RETRYABLE


def test_an_error_takes_status_type_and_words_from_the_table() -> None:
    error = ApiError(Code.API_KEY_MISSING)

    assert (error.status, error.type, error.param, error.headers) == (401, "authentication_error", None, {})
    assert error.message == f"{ERRORS[error.code].meaning} {ERRORS[error.code].remedy}"


def test_an_id_that_names_nothing_is_404_in_a_path_and_400_in_a_body() -> None:
    in_path, in_body = errors.not_found("customer", "x" * 500), errors.not_found_in_body("customer", "x", "customer_id")

    assert (in_path.status, in_path.code) == (404, "resource_not_found")
    assert len(in_path.message) < 120
    assert (in_body.status, in_body.code, in_body.param) == (400, "resource_not_found", "customer_id")
    assert in_body.type == "invalid_request_error"


def test_every_code_is_in_the_table() -> None:
    assert [*ERRORS] == [*Code]


def test_the_error_of_an_event_filter_names_every_wildcard() -> None:
    assert re.findall(r"`(\w+\.\*)`", ERRORS[Code.EVENT_FILTER_INVALID].remedy) == [*FAMILIES]


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (Unavailable("throttled"), 503),
        (table.Contended(table.Delete("pk", "sk")), 503),
        (table.ConditionFailed(table.Delete("pk", "sk"), None), 503),
        (ValueError("a fault of ours"), 500),
    ],
)
def test_what_another_attempt_may_mend_is_a_503(failure: Exception, status: int) -> None:
    async def fail(_: Any) -> Any:
        raise failure

    async def get() -> int:
        app = Service(StarletteRoute("/v1/failing", fail))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="https://api.test") as client:
            return (await client.get("/v1/failing")).status_code

    # Not `asyncio.run`, which drops the loop of the thread without closing it.
    with contextlib.closing(asyncio.new_event_loop()) as loop:
        assert loop.run_until_complete(get()) == status
