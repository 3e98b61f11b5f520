from __future__ import annotations

from typing import Any

from infra.local.queues import Batch, Line, failed_items, sqs_record


def message(group: str | None = None, **more: Any) -> Any:
    attributes = {"SentTimestamp": "1", "ApproximateReceiveCount": "1"} | ({"MessageGroupId": group} if group else {})
    return {
        "MessageId": "m",
        "ReceiptHandle": "r",
        "Body": "{}",
        "MD5OfBody": "5",
        "Attributes": attributes,
    } | more


def batch(group: str | None = None) -> Batch:
    return Batch([message(group)], invisible_until=0)


def test_batches_start_in_order_while_there_are_workers() -> None:
    first, second, third = batch(), batch(), batch()
    line = Line(workers=2, per_group=4, waiting=[first, second, third])
    assert [line.next(), line.next(), line.next()] == [first, second, None]
    line.done(first)
    assert line.next() is third


def test_a_group_that_hangs_leaves_workers_to_the_others() -> None:
    hanging, other = [batch("hanging") for _ in range(6)], batch("other")
    line = Line(workers=10, per_group=4, waiting=[*hanging, other])
    assert [line.next() for _ in range(6)] == [*hanging[:4], other, None]
    line.done(hanging[0])
    assert line.next() is hanging[4]
    assert line.next() is None


def test_a_message_becomes_a_record_of_lambdas_form() -> None:
    sent = message("g", MessageAttributes={"a": {"StringValue": "1", "DataType": "Number"}})
    assert sqs_record(sent, "arn:aws:sqs:us-east-1:123456789012:retries") == {
        "messageId": "m",
        "receiptHandle": "r",
        "body": "{}",
        "attributes": {"SentTimestamp": "1", "ApproximateReceiveCount": "1", "MessageGroupId": "g"},
        "messageAttributes": {
            "a": {"stringValue": "1", "stringListValues": [], "binaryListValues": [], "dataType": "Number"}
        },
        "md5OfBody": "5",
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:retries",
        "awsRegion": "us-east-1",
    }


def test_no_list_of_failures_means_that_all_went_well() -> None:
    assert failed_items(None) == set()
    assert failed_items({"batchItemFailures": []}) == set()
    assert failed_items({"batchItemFailures": [{"itemIdentifier": "m"}]}) == {"m"}
