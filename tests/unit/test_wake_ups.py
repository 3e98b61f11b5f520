"""What is said to SQS, which refuses what moto takes."""

from collections.abc import Callable
from typing import Any

import pytest

from shared.aws import client as aws_client
from shared.aws import services
from shared.aws.connections import HttpResponse
from shared.tasks import wake_ups
from shared.tasks.wake_ups import WakeUp
from tests.support.wire import answer


@pytest.mark.parametrize(("queue", "field"), [("first.fifo", "MessageDeduplicationId"), ("later", "DelaySeconds")])
def test_a_message_has_only_the_fields_that_its_kind_of_queue_takes(
    monkeypatch: pytest.MonkeyPatch, queue: str, field: str
) -> None:
    for name, value in {"ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "x", "DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("QUEUE_DIALS", f"https://sqs.us-east-1.amazonaws.com/1/{queue}")
    sent: list[dict[str, Any]] = []

    class Sqs(aws_client.Hook):
        def attempt(self, call: aws_client.AwsCall, proceed: Callable[[], HttpResponse]) -> HttpResponse:
            sent.extend(call.parameters["Entries"])
            return answer(200, {"Successful": []})

    services.sqs.cache_clear()
    delay = 0 if queue.endswith(".fifo") else 5
    with aws_client.hooked(Sqs()):
        wake_ups.send([WakeUp("dials", "P#1#test#event#evt_1", "whd_1", group="whk_1", delay_s=delay)])
    services.sqs.cache_clear()
    assert [set(entry) for entry in sent] == [{"Id", "MessageBody", "MessageGroupId", field}]
