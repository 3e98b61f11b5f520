from __future__ import annotations

import pytest

from shared.core import aws
from tests.support.racing import at_once


def test_threads_that_need_a_client_at_the_same_time_get_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    aws.sqs.cache_clear()
    try:
        assert len({id(client) for client in at_once([aws.sqs] * 8)}) == 1
    finally:
        aws.sqs.cache_clear()
