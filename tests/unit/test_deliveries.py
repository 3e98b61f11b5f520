from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.deliver import status_after
from shared.core import limits
from shared.webhooks.deliveries import resource as deliveries
from shared.webhooks.deliveries.resource import DeliveryError, DeliveryStatus, Phase
from shared.webhooks.endpoints import resource as endpoints
from shared.webhooks.http_client import AttemptOutcome
from tests.support.snapshots import snapshot

ATTEMPTS = range(1, 10)
TERMINAL = [status for status in range(400, 500) if status not in (408, 429)]
RETRIED = [408, 429, *range(500, 600), *range(300, 400), 100, 199, 600, 999]
NO_ANSWER = ["timeout", "connection_refused", "dns_error", "tls_error", "http_error", "url_blocked"]


def outcome(status: int | None, error: str | None) -> AttemptOutcome:
    return AttemptOutcome(status=status, error=DeliveryError(error) if error else None, body=None, duration_ms=1)


def unless_last(number: int) -> DeliveryStatus:
    return DeliveryStatus.ATTEMPTING if number < 9 else DeliveryStatus.FAILED


@pytest.mark.parametrize("number", ATTEMPTS)
def test_any_2xx_is_a_success(number: int) -> None:
    for status in range(200, 300):
        assert status_after(number, outcome(status, None)) == DeliveryStatus.SUCCEEDED


@pytest.mark.parametrize("number", ATTEMPTS)
def test_any_other_4xx_is_terminal_at_once(number: int) -> None:
    for status in TERMINAL:
        assert status_after(number, outcome(status, "http_error")) == DeliveryStatus.FAILED


@pytest.mark.parametrize("number", ATTEMPTS)
def test_an_answer_that_may_pass_is_retried_until_the_ninth_attempt(number: int) -> None:
    for status in RETRIED:
        error = "redirect" if 300 <= status < 400 else "http_error"
        assert status_after(number, outcome(status, error)) == unless_last(number)


@pytest.mark.parametrize("error", NO_ANSWER)
@pytest.mark.parametrize("number", ATTEMPTS)
def test_no_answer_is_retried_until_the_ninth_attempt(number: int, error: str) -> None:
    assert status_after(number, outcome(None, error)) == unless_last(number)


@pytest.mark.parametrize("number", ATTEMPTS)
def test_a_2xx_that_never_came_to_its_end_is_no_success(number: int) -> None:
    assert status_after(number, outcome(200, "timeout")) == unless_last(number)


@pytest.mark.parametrize("number", ATTEMPTS)
def test_an_attempt_whose_endpoint_was_closed_meanwhile_succeeds_or_is_canceled(number: int) -> None:
    assert status_after(number, outcome(204, None), closed=True) == DeliveryStatus.SUCCEEDED
    for status in (*TERMINAL, *RETRIED):
        assert status_after(number, outcome(status, "http_error"), closed=True) == DeliveryStatus.CANCELED
    for error in NO_ANSWER:
        assert status_after(number, outcome(None, error), closed=True) == DeliveryStatus.CANCELED


OPEN, REOPENED, DELETED = snapshot(generation=2), snapshot(generation=3), snapshot(generation=3, deleted=True)
ENDED: Any = {"generation": 2}
SCHEDULED: Any = ENDED | {"due_at": 1}
LEASED = SCHEDULED | {"lease": "mine", "lease_until": 0}


@pytest.mark.parametrize("state", [OPEN, REOPENED, DELETED, None])
def test_neither_what_has_ended_nor_what_a_worker_has_depends_on_the_endpoint(
    state: endpoints.EndpointSnapshot | None,
) -> None:
    for token in (None, "other"):
        assert deliveries.phase(ENDED, state, token) is Phase.ENDED
        assert deliveries.phase(LEASED, state, token) is Phase.UNDER_WAY


@pytest.mark.parametrize(("row", "token"), [(SCHEDULED, None), (LEASED, "mine")])
def test_what_waits_or_is_ones_own_is_closed_with_the_endpoint_it_was_made_for(row: Any, token: str | None) -> None:
    assert deliveries.phase(row, OPEN, token) is Phase.WAITING
    # The delivery was made after the endpoint was read.
    assert deliveries.phase(row, snapshot(generation=1), token) is Phase.WAITING
    for state in (REOPENED, DELETED, None):
        assert deliveries.phase(row, state, token) is Phase.CLOSED


@given(st.lists(st.sampled_from([408, 429, 500, 503, 301, None]), min_size=9, max_size=9))
def test_a_receiver_that_never_succeeds_gets_nine_attempts_in_41_hours_and_36_minutes(
    statuses: list[int | None],
) -> None:
    waited, made = 0, 0
    for number, status in enumerate(statuses, start=1):
        made = number
        after = status_after(number, outcome(status, "http_error" if status else "timeout"))
        if after != DeliveryStatus.ATTEMPTING:
            assert after == DeliveryStatus.FAILED
            break
        waited += limits.RETRY_SCHEDULE_S[number]

    assert made == 9
    assert round(waited / 60) == 41 * 60 + 36
    # Promise 0.6: the wait before each attempt; there is no tenth.
    assert limits.RETRY_SCHEDULE_S == (0, 5, 30, 300, 1800, 7200, 18000, 36000, 86400)
