"""AWS's own client against the queues."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from infra.local import sqs_endpoint
from infra.local.sqs import Engine
from tests.support.clocks import Clock

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient

FIFO: Any = {"FifoQueue": "true"}


@pytest.fixture
def clock() -> Clock:
    return Clock(1_790_000_000)


@pytest.fixture
def sqs(clock: Clock) -> Iterator[SQSClient]:
    client = boto3.client(
        "sqs",
        endpoint_url=sqs_endpoint.serve(Engine(lambda: clock.now)),
        region_name="us-east-1",
        aws_access_key_id="x",
        aws_secret_access_key="x",
        config=Config(retries={"total_max_attempts": 1}),
    )
    yield client
    client.close()


@pytest.fixture
def url(sqs: SQSClient) -> str:
    return sqs.create_queue(QueueName="plain")["QueueUrl"]


@pytest.fixture
def fifo_queue_url(sqs: SQSClient) -> str:
    return sqs.create_queue(QueueName="ordered.fifo", Attributes=FIFO)["QueueUrl"]


def error_code_of(call: Callable[[], object]) -> str:
    with pytest.raises(ClientError) as raised:
        call()
    return str(raised.value.response["Error"]["Code"])


def test_a_message_comes_as_it_was_sent(sqs: SQSClient, url: str) -> None:
    attributes: Any = {
        "word": {"DataType": "String", "StringValue": "wörd"},
        "raw": {"DataType": "Binary", "BinaryValue": b"\xff"},
    }
    sent = sqs.send_message(QueueUrl=url, MessageBody="bödy", MessageGroupId="g", MessageAttributes=attributes)
    assert sent["MD5OfMessageBody"] == hashlib.md5("bödy".encode()).hexdigest()
    [message] = sqs.receive_message(
        QueueUrl=url, MessageSystemAttributeNames=["All"], MessageAttributeNames=["All"]
    )["Messages"]  # fmt: skip
    assert (message["MessageId"], message["Body"]) == (sent["MessageId"], "bödy")
    assert message["MD5OfBody"] == sent["MD5OfMessageBody"]
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    assert message["MessageAttributes"] == attributes
    assert {*message["Attributes"]} == {
        "ApproximateFirstReceiveTimestamp",
        "ApproximateReceiveCount",
        "MessageGroupId",
        "SenderId",
        "SentTimestamp",
    }
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert "Messages" not in sqs.receive_message(QueueUrl=url, VisibilityTimeout=0)


def test_the_digest_of_attributes_is_the_documented_one(sqs: SQSClient, url: str) -> None:
    attributes: Any = {"n": {"DataType": "Number", "StringValue": "1"}}
    sent = sqs.send_message(QueueUrl=url, MessageBody="a", MessageAttributes=attributes)
    encoded = b"\0\0\0\1n" + b"\0\0\0\6Number" + b"\1" + b"\0\0\0\0011"
    assert sent["MD5OfMessageAttributes"] == hashlib.md5(encoded).hexdigest()


def test_attributes_come_when_asked_for(sqs: SQSClient, url: str) -> None:
    attributes: Any = {name: {"DataType": "String", "StringValue": "x"} for name in ("a.one", "a.two", "b")}
    sqs.send_message(QueueUrl=url, MessageBody="a", MessageAttributes=attributes)
    ask: Any = {"QueueUrl": url, "VisibilityTimeout": 0}
    [message] = sqs.receive_message(**ask)["Messages"]
    assert not {"Attributes", "MessageAttributes"} & {*message}
    [message] = sqs.receive_message(
        **ask, AttributeNames=["SentTimestamp"], MessageAttributeNames=["a.*"]
    )["Messages"]  # fmt: skip
    assert ({*message["Attributes"]}, {*message["MessageAttributes"]}) == ({"SentTimestamp"}, {"a.one", "a.two"})


def test_a_batch_says_what_became_of_each(sqs: SQSClient, url: str) -> None:
    entries: Any = [
        {"Id": "fine", "MessageBody": "a"},
        {"Id": "late", "MessageBody": "b", "DelaySeconds": 901},
        {"Id": "more", "MessageBody": "c"},
    ]
    answer = sqs.send_message_batch(QueueUrl=url, Entries=entries)
    assert [entry["Id"] for entry in answer["Successful"]] == ["fine", "more"]
    [failed] = answer["Failed"]
    assert (failed["Id"], failed["Code"], failed["SenderFault"]) == ("late", "InvalidParameterValue", True)
    messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    done: Any = [{"Id": str(n), "ReceiptHandle": message["ReceiptHandle"]} for n, message in enumerate(messages)]
    done.append({"Id": "x", "ReceiptHandle": "nonsense"})
    deleted = sqs.delete_message_batch(QueueUrl=url, Entries=done)
    assert [entry["Id"] for entry in deleted["Successful"]] == ["0", "1"]
    assert [entry["Code"] for entry in deleted["Failed"]] == ["ReceiptHandleIsInvalid"]


@pytest.mark.parametrize(
    ("ids", "code"),
    [
        ([], "EmptyBatchRequest"),
        ([str(n) for n in range(11)], "TooManyEntriesInBatchRequest"),
        (["a", "a"], "BatchEntryIdsNotDistinct"),
        (["a b"], "InvalidBatchEntryId"),
    ],
)
def test_a_batch_that_sqs_would_not_take_is_refused(sqs: SQSClient, url: str, ids: list[str], code: str) -> None:
    entries: Any = [{"Id": id, "MessageBody": "a"} for id in ids]
    assert (
        error_code_of(lambda: sqs.send_message_batch(QueueUrl=url, Entries=entries)) == f"AWS.SimpleQueueService.{code}"
    )


def test_a_batch_may_be_too_large_as_a_whole(sqs: SQSClient, url: str) -> None:
    entries: Any = [{"Id": id, "MessageBody": "x" * 600_000} for id in "ab"]
    code = error_code_of(lambda: sqs.send_message_batch(QueueUrl=url, Entries=entries))
    assert code == "AWS.SimpleQueueService.BatchRequestTooLong"


def test_a_delayed_message_comes_later(sqs: SQSClient, url: str, clock: Clock) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="a", DelaySeconds=60)
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
    clock.now += 60
    assert sqs.receive_message(QueueUrl=url)["Messages"][0]["Body"] == "a"


def test_a_fifo_queue_keeps_order_and_tells_numbers(sqs: SQSClient, fifo_queue_url: str) -> None:
    def send(body: str) -> Any:
        return sqs.send_message(
            QueueUrl=fifo_queue_url, MessageBody=body, MessageGroupId="g", MessageDeduplicationId=body
        )

    first, second, again = send("1"), send("2"), send("1")
    assert first["SequenceNumber"] < second["SequenceNumber"]
    assert (again["MessageId"], again["SequenceNumber"]) == (first["MessageId"], first["SequenceNumber"])
    [message] = sqs.receive_message(QueueUrl=fifo_queue_url, MessageSystemAttributeNames=["All"])["Messages"]
    assert message["Body"] == "1"
    assert message["Attributes"]["SequenceNumber"] == first["SequenceNumber"]
    assert message["Attributes"]["MessageDeduplicationId"] == "1"
    assert "Messages" not in sqs.receive_message(QueueUrl=fifo_queue_url)
    sqs.delete_message(QueueUrl=fifo_queue_url, ReceiptHandle=message["ReceiptHandle"])
    assert sqs.receive_message(QueueUrl=fifo_queue_url)["Messages"][0]["Body"] == "2"


def test_what_fails_too_often_goes_to_the_dead_letter_queue(sqs: SQSClient, clock: Clock) -> None:
    dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    assert arn == "arn:aws:sqs:us-east-1:123456789012:dead"
    redrive = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    url = sqs.create_queue(QueueName="queue", Attributes={"RedrivePolicy": redrive})["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="bad")
    assert sqs.receive_message(QueueUrl=url)["Messages"]
    clock.now += 30
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
    assert sqs.receive_message(QueueUrl=dead)["Messages"][0]["Body"] == "bad"


def test_visibility_is_changed_singly_and_in_batches(sqs: SQSClient, url: str) -> None:
    for body in "ab":
        sqs.send_message(QueueUrl=url, MessageBody=body)
    one, two = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=2)["Messages"]
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"], VisibilityTimeout=0)
    entries: Any = [{"Id": "x", "ReceiptHandle": two["ReceiptHandle"], "VisibilityTimeout": 0}]
    assert sqs.change_message_visibility_batch(QueueUrl=url, Entries=entries)["Successful"] == [{"Id": "x"}]
    assert len(sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=2)["Messages"]) == 2


def test_queues_are_found_changed_and_emptied(sqs: SQSClient, url: str, fifo_queue_url: str) -> None:
    assert url == "https://sqs.us-east-1.amazonaws.com/123456789012/plain"
    assert sqs.get_queue_url(QueueName="plain")["QueueUrl"] == url
    assert sqs.list_queues()["QueueUrls"] == [fifo_queue_url, url]
    assert sqs.list_queues(QueueNamePrefix="pl")["QueueUrls"] == [url]
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix="none")
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "77"})
    asked: Any = ["VisibilityTimeout", "ApproximateNumberOfMessages"]
    sqs.send_message(QueueUrl=url, MessageBody="a")
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=asked)["Attributes"]
    assert found == {"VisibilityTimeout": "77", "ApproximateNumberOfMessages": "1"}
    sqs.purge_queue(QueueUrl=url)
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
    assert error_code_of(lambda: sqs.purge_queue(QueueUrl=url)) == "AWS.SimpleQueueService.PurgeQueueInProgress"


def test_errors_have_the_codes_and_classes_of_sqs(sqs: SQSClient, url: str, fifo_queue_url: str) -> None:
    missing = url.replace("plain", "missing")
    with pytest.raises(sqs.exceptions.QueueDoesNotExist) as raised:
        sqs.send_message(QueueUrl=missing, MessageBody="a")
    assert raised.value.response["Error"]["Code"] == "AWS.SimpleQueueService.NonExistentQueue"
    assert raised.value.response["Error"]["Message"] == "The specified queue does not exist."
    assert raised.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
    with pytest.raises(sqs.exceptions.ReceiptHandleIsInvalid):
        sqs.delete_message(QueueUrl=url, ReceiptHandle="nonsense")
    with pytest.raises(sqs.exceptions.QueueNameExists):
        sqs.create_queue(QueueName="plain", Attributes={"DelaySeconds": "1"})
    assert error_code_of(lambda: sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=11)) == "InvalidParameterValue"
    assert error_code_of(lambda: sqs.receive_message(QueueUrl=url, WaitTimeSeconds=21)) == "InvalidParameterValue"
    assert error_code_of(lambda: sqs.send_message(QueueUrl=fifo_queue_url, MessageBody="a")) == "MissingParameter"
    delayed: Any = {"MessageGroupId": "g", "MessageDeduplicationId": "1", "DelaySeconds": 1}
    assert (
        error_code_of(lambda: sqs.send_message(QueueUrl=fifo_queue_url, MessageBody="a", **delayed))
        == "InvalidParameterValue"
    )
    assert error_code_of(lambda: sqs.delete_queue(QueueUrl=url)) == "UnknownOperationException"


def test_a_long_poll_ends_with_the_first_message(sqs: SQSClient, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="a")
    assert sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20, MaxNumberOfMessages=10)["Messages"]
