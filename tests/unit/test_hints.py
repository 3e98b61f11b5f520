"""What is said to SQS, which refuses what moto takes."""

from typing import Any

import pytest
from moto import mock_aws

from shared.core import aws
from shared.work import hints
from shared.work.hints import Hint


@pytest.mark.parametrize(("queue", "field"), [("first.fifo", "MessageDeduplicationId"), ("later", "DelaySeconds")])
def test_a_message_has_only_the_fields_that_its_kind_of_queue_takes(
    monkeypatch: pytest.MonkeyPatch, queue: str, field: str
) -> None:
    for name, value in {"ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "x", "DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    sent: list[dict[str, Any]] = []
    with mock_aws():
        aws.sqs.cache_clear()
        attributes = {"FifoQueue": "true"} if queue.endswith(".fifo") else {}
        url = aws.sqs().create_queue(QueueName=queue, Attributes=attributes)["QueueUrl"]  # type: ignore[arg-type]
        monkeypatch.setenv("QUEUE_SOME", url)
        aws.sqs().meta.events.register(
            "provide-client-params.sqs.SendMessageBatch", lambda params, **_: sent.extend(params["Entries"])
        )
        delay = 0 if attributes else 5
        hints.send("some", [Hint("P#1#test#event#evt_1", "whd_1", group="whk_1", delay=delay)])
    aws.sqs.cache_clear()
    assert [set(entry) for entry in sent] == [{"Id", "MessageBody", "MessageGroupId", field}]
