"""What an API call needs of a role, and that what is lacking or useless is found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from threading import Thread
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from botocore.stub import Stubber

from infra import topology
from infra.topology import Function
from tests.support.privileges import (
    UNKNOWN,
    Audit,
    Need,
    Places,
    Recorder,
    Use,
    grants_of,
    needs,
    running,
    unused_grants,
)

QUEUE = "https://sqs.eu-central-1.amazonaws.com/123456789012/dials"
MACHINE = "arn:aws:states:eu-central-1:123456789012:stateMachine:call_consent"
PLACES = Places("table", {QUEUE: "dials"}, {MACHINE: "call_consent"}, "key", "recordings", "failed", "erasures")
KEY = {"TableName": "table", "Key": {}}
QUERY = {"TableName": "table", "KeyConditionExpression": "pk = :pk"}
WRITES = [{"Put": {"TableName": "table", "Item": {}}}, {"Update": KEY}, {"Delete": KEY}, {"ConditionCheck": KEY}]


@pytest.mark.parametrize(
    ("service", "operation", "params", "expected"),
    [
        ("dynamodb", "GetItem", KEY, ["dynamodb:GetItem on table"]),
        ("dynamodb", "PutItem", KEY, ["dynamodb:PutItem on table"]),
        ("dynamodb", "Query", QUERY, ["dynamodb:Query on table"]),
        ("dynamodb", "Query", QUERY | {"IndexName": "by_due"}, ["dynamodb:Query on indexes"]),
        ("dynamodb", "GetItem", KEY | {"TableName": "another"}, ["dynamodb:GetItem on table another"]),
        ("dynamodb", "BatchGetItem", {"RequestItems": {"table": {}}}, ["dynamodb:BatchGetItem on table"]),
        (
            "dynamodb",
            "TransactWriteItems",
            {"TransactItems": WRITES},
            [f"dynamodb:{action}Item on table" for action in ("Put", "Update", "Delete", "ConditionCheck")],
        ),
        ("dynamodb", "TransactGetItems", {"TransactItems": [{"Get": KEY}]}, ["dynamodb:GetItem on table"]),
        ("sqs", "SendMessage", {"QueueUrl": QUEUE}, ["sqs:SendMessage on queue dials"]),
        ("sqs", "SendMessageBatch", {"QueueUrl": QUEUE}, ["sqs:SendMessage on queue dials"]),
        ("sqs", "DeleteMessageBatch", {"QueueUrl": QUEUE}, ["sqs:DeleteMessage on queue dials"]),
        ("sqs", "ChangeMessageVisibilityBatch", {"QueueUrl": QUEUE}, ["sqs:ChangeMessageVisibility on queue dials"]),
        ("sqs", "SendMessage", {"QueueUrl": "elsewhere"}, ["sqs:SendMessage on queue elsewhere"]),
        (
            "stepfunctions",
            "StartExecution",
            {"stateMachineArn": MACHINE},
            ["states:StartExecution on state_machine call_consent"],
        ),
        ("kms", "Encrypt", {"KeyId": "key"}, ["kms:Encrypt on signing_key"]),
        ("kms", "Encrypt", {"KeyId": "other"}, ["kms:Encrypt on signing_key other"]),
        ("kms", "Decrypt", {"CiphertextBlob": b""}, ["kms:Decrypt on signing_key"]),
        ("sns", "Publish", {"TopicArn": "arn", "Message": "m"}, ["sns:Publish on notices_topic"]),
        ("s3", "PutObject", {"Bucket": "recordings"}, ["s3:PutObject on recordings"]),
        ("s3", "PutObject", {"Bucket": "erasures", "Key": "opt_outs/1/live/0/1"}, ["s3:PutObject on opt_outs"]),
        ("s3", "PutObject", {"Bucket": "erasures", "Key": "1/live/1"}, ["s3:PutObject on recordings erasures"]),
        ("s3", "GetObject", {"Bucket": "failures"}, ["s3:GetObject on recordings failures"]),
        ("bedrock-runtime", "Converse", {}, ["bedrock:InvokeModel on model"]),
        ("bedrock-runtime", "ConverseStream", {}, ["bedrock:InvokeModelWithResponseStream on model"]),
        (
            "bedrock-runtime",
            "Converse",
            {"guardrailConfig": {}},
            ["bedrock:InvokeModel on model", "bedrock:ApplyGuardrail on guardrail"],
        ),
        ("connect", "StopContact", {}, ["connect:StopContact on contacts"]),
        (
            "socialmessaging",
            "GetWhatsAppCallPermission",
            {},
            ["social-messaging:GetWhatsAppCallPermission on whatsapp"],
        ),
        ("sqs", "PurgeQueue", {"QueueUrl": QUEUE}, [f"sqs:PurgeQueue on {UNKNOWN}"]),
        ("ec2", "RunInstances", {}, [f"ec2:RunInstances on {UNKNOWN}"]),
    ],
)
def test_a_call_needs_these_actions(
    service: str, operation: str, params: Mapping[str, Any], expected: list[str]
) -> None:
    assert [str(need) for need in needs(service, operation, params, PLACES)] == expected


def test_a_task_is_of_the_machine_whose_tasks_the_function_answers() -> None:
    given: Any = {"taskToken": "token", "output": "{}"}
    expected = Need("states:SendTaskSuccess", "state_machine", "call_consent")
    assert needs("stepfunctions", "SendTaskSuccess", given, PLACES, ("call_consent",)) == [expected]
    [of_nobody] = needs("stepfunctions", "SendTaskSuccess", given, PLACES)
    assert Use("consent", of_nobody) not in grants_of()


def test_every_grant_of_the_topology_is_said_to_be_where_it_is() -> None:
    arguments = {field.name for field in fields(Function)}
    for use in grants_of():
        assert use.line.startswith(f'infra/topology.py, Function("{use.function}", …, ')
        assert use.line.rpartition(" ")[2].removesuffix("=…)") in arguments


SENT = Need("sqs:SendMessage", "queue", "dials")
MAY, MAY_NOT = "sessions", "ping"
"""A function that may send to `dials`, and one that may not."""


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def session(recorder: Recorder) -> Iterator[boto3.Session]:
    """A session whose clients are watched."""
    session = boto3.Session(aws_access_key_id="none", aws_secret_access_key="none", region_name="eu-central-1")
    with recorder.watching(session.events, PLACES):
        yield session


def send(session: boto3.Session, code: str | None = None) -> None:
    sqs = session.client("sqs")
    with Stubber(sqs) as stubber:
        if code:
            stubber.add_client_error("send_message", code)
        else:
            stubber.add_response("send_message", {"MessageId": "m"})
        sqs.send_message(QueueUrl=QUEUE, MessageBody="{}")


def test_what_a_function_does_is_used_and_what_it_may_not_do_is_lacking_once(
    session: boto3.Session, recorder: Recorder
) -> None:
    with running(MAY):
        send(session)
    assert recorder.used == {Use(MAY, SENT)}
    assert recorder.take_lacking() == []
    with running(MAY_NOT):
        send(session)
    assert recorder.take_lacking() == [Use(MAY_NOT, SENT)]
    assert recorder.take_lacking() == []


def test_a_call_whose_failure_is_swallowed_is_lacking_all_the_same(session: boto3.Session, recorder: Recorder) -> None:
    with running(MAY_NOT), pytest.raises(ClientError):
        send(session, "AccessDenied")
    assert recorder.take_lacking() == [Use(MAY_NOT, SENT)]


def test_what_a_test_does_or_another_thread_is_nobodys(session: boto3.Session, recorder: Recorder) -> None:
    send(session)
    with running(MAY_NOT):
        with running(None):
            send(session)
        thread = Thread(target=send, args=(session,))
        thread.start()
        thread.join()
    assert recorder.used == set()


def test_a_function_that_is_called_within_another_is_itself(session: boto3.Session, recorder: Recorder) -> None:
    with running(MAY_NOT):
        with running(MAY):
            send(session)
        assert recorder.take_lacking() == []
        send(session)
    assert recorder.take_lacking() == [Use(MAY_NOT, SENT)]


def test_who_signs_a_link_uses_what_it_gives(session: boto3.Session, recorder: Recorder) -> None:
    s3 = session.client("s3", config=Config(signature_version="s3v4"))
    with running(MAY_NOT):
        s3.generate_presigned_url("get_object", Params={"Bucket": "recordings", "Key": "k"})
    assert recorder.take_lacking() == [Use(MAY_NOT, Need("s3:GetObject", "recordings"))]


def test_after_the_watch_nothing_is_recorded(session: boto3.Session) -> None:
    recorder = Recorder()
    with recorder.watching(session.events, PLACES):
        pass
    with running(MAY):
        send(session)
    assert recorder.used == set()


def test_a_grant_that_nobody_used_is_told() -> None:
    used = grants_of()
    assert unused_grants(used) == []
    ping = next(function for function in topology.FUNCTIONS if function.name == "ping")
    wider = replace(ping, table=(*ping.table, "dynamodb:Scan"), sends=("turns",))
    found = unused_grants(used, (wider, *(each for each in topology.FUNCTIONS if each is not ping)))
    assert [str(use) for use in found] == [
        "ping: dynamodb:Scan on table",
        "ping: sqs:SendMessage on queue turns",
    ]


# When all tests ran

FOLDER = Path(__file__).parents[1] / "integration"
FILES = sorted(FOLDER.rglob("test_*.py"))
ALL = [(path, f"{path.name}::test") for path in FILES]
ELSEWHERE = FOLDER.parent / "unit" / "test_ids.py"


def audit(tests: list[tuple[Path, str]], passed: slice = slice(None)) -> Audit:
    """Of a run in which these tests were collected, and these of them ran and passed."""
    found = Audit(FOLDER)
    found.collected([*tests, (ELSEWHERE, "elsewhere")], ["tests"])
    for _, id in tests[passed]:
        found.passed(id)
    return found


def merge_audits(*audits: Audit) -> Audit:
    """What these workers saw, together."""
    found = Audit(FOLDER)
    for each in audits:
        found.add(each.told())
    return found


def test_a_grant_is_useless_only_if_all_tests_ran_and_passed() -> None:
    assert set(audit(ALL).unused()) == grants_of()
    assert 'granted in infra/topology.py, Function("ping", …, table=…)' in audit(ALL).summary()
    one_failed, one_file_less, some_deselected = audit(ALL, slice(1, None)), audit(ALL[1:]), audit(ALL)
    some_deselected.deselected(FILES[0])
    some_named = audit(ALL)
    some_named.collected(ALL, ["tests/integration/test_turns.py::test_one", "tests"])
    for partial in (one_failed, one_file_less, some_deselected, some_named, Audit(FOLDER)):
        assert partial.unused() == []
        assert partial.summary().endswith("is told when all integration tests run and pass.")


def test_a_test_elsewhere_that_is_deselected_does_not_count() -> None:
    found = audit(ALL)
    found.deselected(ELSEWHERE)
    assert found.complete


def test_workers_are_complete_together() -> None:
    half, rest = audit(ALL, slice(3)), audit(ALL, slice(3, None))
    first = min(grants_of())
    half.recorder.used.add(first)
    assert set(merge_audits(half, rest).unused()) == grants_of() - {first}
    assert not merge_audits(half).complete
    deselected = audit(ALL)
    deselected.deselected(FILES[0])
    assert not merge_audits(half, rest, deselected).complete
    died = merge_audits(half)
    died.add(None)
    assert not died.complete
