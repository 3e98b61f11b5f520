from __future__ import annotations

import re

import pytest

from infra.local import names


@pytest.mark.parametrize(
    ("made", "form"),
    [
        # The hashes are those of the CDK for these constructs.
        (names.table(), r"appointments-local-TableCD117FA1-[0-9A-Z]{13}"),
        (names.queue("deliveries", fifo=True), r"appointments-local-DeliveriesQueueA9D42004-[0-9A-Za-z]{12}\.fifo"),
        (names.queue("dials", fifo=False), r"appointments-local-DialsQueue[0-9A-F]{8}-[0-9A-Za-z]{12}"),
        (names.dead_letters("turns", fifo=False), r"appointments-local-TurnsDeadLetters[0-9A-F]{8}-[0-9A-Za-z]{12}"),
        (names.bucket("Recordings"), r"appointments-local-recordings[0-9a-f]{8}-[0-9a-z]{12}"),
        (names.state_machine("call_consent"), r"CallConsent[0-9A-F]{8}-[0-9A-Za-z]{12}"),
        (names.function("fan_out"), r"appointments-local-FanOut[0-9A-F]{8}-[0-9A-Za-z]{12}"),
        (names.schedule("sweep"), r"appointments-local-SweepSchedule[0-9A-F]{8}-[0-9A-Za-z]{12}"),
    ],
)  # fmt: skip
def test_names_have_the_form_of_generated_ones(made: str, form: str) -> None:
    assert re.fullmatch(form, made)


def test_a_name_is_the_same_at_each_start() -> None:
    assert names.queue("turns", fifo=False) == names.queue("turns", fifo=False) != names.queue("dials", fifo=False)


def test_an_arn_of_the_local_database_becomes_one_of_the_stage() -> None:
    there = "arn:aws:dynamodb:ddblocal:000000000000:table/t/stream/2026-01-01T00:00:00.000"
    assert names.in_region(there) == "arn:aws:dynamodb:us-east-1:123456789012:table/t/stream/2026-01-01T00:00:00.000"


def test_iam_has_no_region() -> None:
    assert names.arn("iam", "role/some") == "arn:aws:iam::123456789012:role/some"
