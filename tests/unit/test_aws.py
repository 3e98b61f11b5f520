from __future__ import annotations

import pytest

from shared.aws import services
from tests.support.racing import at_once


def test_threads_that_need_a_client_at_the_same_time_get_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    services.sqs.cache_clear()
    try:
        assert len({id(client) for client in at_once([services.sqs] * 8)}) == 1
    finally:
        services.sqs.cache_clear()
