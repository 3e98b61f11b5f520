"""The pace of a replay."""

from __future__ import annotations

from shared.webhooks.replays import FIRST, LONGEST_WAIT_S, MAX_REFUSALS, MOST_AT_ONCE, Batch, RetryStatus, next_batch


def batches_after(outcome: RetryStatus, times: int) -> list[Batch]:
    """The batches of a replay whose every batch has this outcome."""
    found = [FIRST]
    while len(found) < times and (batch := next_batch(found[-1], outcome)) is not None:
        found.append(batch)
    return found


def test_it_doubles_while_the_endpoint_accepts() -> None:
    batches = batches_after(RetryStatus.ACCEPTED, 8)
    assert [batch.size for batch in batches] == [1, 2, 4, 8, 16, MOST_AT_ONCE, MOST_AT_ONCE, MOST_AT_ONCE]
    assert {batch.wait_s for batch in batches} == {1}


def test_it_sends_one_at_growing_intervals_while_the_endpoint_refuses_and_then_gives_up() -> None:
    batches = batches_after(RetryStatus.REFUSED, 100)
    assert {batch.size for batch in batches} == {1}
    assert [batch.wait_s for batch in batches] == [1, 2, 4, 8, 16, 32, LONGEST_WAIT_S, LONGEST_WAIT_S]
    assert next_batch(Batch(MOST_AT_ONCE, 0), RetryStatus.REFUSED) == Batch(1, 1)
    assert next_batch(Batch(1, MAX_REFUSALS - 1), RetryStatus.REFUSED) is None


def test_one_acceptance_forgets_the_refusals() -> None:
    assert next_batch(Batch(1, MAX_REFUSALS - 1), RetryStatus.ACCEPTED) == Batch(2, 0)
