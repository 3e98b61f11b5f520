"""What is retried, how often and after which pauses, compared with botocore's standard mode on the same answers."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import botocore.session
import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.parsers import create_parser
from botocore.retries import quota, standard

from shared.aws import client as aws_client
from shared.aws import error_codes
from shared.aws.client import (
    ATTEMPTS,
    DYNAMODB,
    KMS,
    SQS,
    STEP_FUNCTIONS,
    AwsCall,
    AwsClient,
    AwsError,
    AwsService,
    Hook,
    Unavailable,
    hooked,
)
from shared.aws.connections import ConnectionFailed, HttpResponse
from shared.aws.credentials import Source
from tests.support.canned_aws import client, endpoint, error, response, serving
from tests.support.clocks import Clock
from tests.support.receivers import Exchange

SERVICES = (DYNAMODB, SQS, STEP_FUNCTIONS, KMS)
BEFORE = "com.amazonaws.dynamodb.v20120810#"
SESSION: Any = botocore.session.get_session()
MODELS = {service.name: SESSION.get_service_model(service.name) for service in SERVICES}
OPERATION = {DYNAMODB.name: "PutItem", SQS.name: "SendMessageBatch", KMS.name: "Decrypt"}
CODES = sorted(
    {
        shape.name
        for model in MODELS.values()
        for name in model.operation_names
        for shape in model.operation_model(name).error_shapes
    }
    | error_codes.THROTTLED
    | error_codes.TRANSIENT
    | {"AccessDeniedException", "ValidationException", "SerializationException", "InternalFailure", "Nonsense"}
)
STATUSES = (400, 403, 404, 413, 500, 501, 502, 503, 504)


def reply(status: int, body: bytes, **headers: str) -> HttpResponse:
    return HttpResponse(status, {name.replace("_", "-"): value for name, value in headers.items()}, body)


class Botocore:
    """How botocore's standard mode judges the answer to an attempt."""

    def __init__(self, service: AwsService, found: HttpResponse, attempt: int = 1) -> None:
        model = MODELS[service.name].operation_model(OPERATION.get(service.name, "StartExecution"))
        parsed = create_parser("json").parse(
            {"body": found.body, "headers": found.headers, "status_code": found.status}, model.output_shape
        )
        raw: Any = SimpleNamespace(stream=lambda **_: iter([found.body]))
        http = AWSResponse("", found.status, HTTPHeaders.from_dict(found.headers), raw)
        self.context = standard.RetryContext(attempt, model, parsed, http)
        self.detector = standard.ThrottlingErrorDetector(standard.RetryEventAdapter())
        self.code = parsed.get("Error", {}).get("Code")
        self.retryable = standard.StandardRetryConditions(ATTEMPTS).is_retryable(self.context)
        self.throttled = self.detector.is_throttling_error_from_context(self.context)


def assert_same_judgement(service: AwsService, found: HttpResponse) -> None:
    """The answer is judged as by botocore."""
    ours, theirs = aws_client.outcome_of(service, found), Botocore(service, found)
    if isinstance(ours, aws_client.Failure):
        assert (ours.retryable, ours.throttled) == (theirs.retryable, theirs.throttled), found
        if isinstance(ours.error, AwsError):
            assert ours.error.code == theirs.code, found
    else:
        assert not theirs.retryable, found


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
@pytest.mark.parametrize("status", STATUSES)
def test_every_error_code_is_retried_as_by_botocore(service: AwsService, status: int) -> None:
    assert len(CODES) > 100
    # Only writes of DynamoDB have this one.
    for code in CODES if service is DYNAMODB else {*CODES} - {"ReplicatedWriteConflictException"}:
        for kind in (code, BEFORE + code, f"{code}:http://internal.amazon.com/coral/"):
            assert_same_judgement(service, reply(status, json.dumps({"__type": kind, "message": "because"}).encode()))


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
@pytest.mark.parametrize("status", [*STATUSES, 429])
@pytest.mark.parametrize("body", [b"", b"{}", b"<html>502 Bad Gateway</html>", b'{"Message":"m"}', b'{"__type":""}'])
def test_an_answer_without_a_code_is_retried_as_by_botocore(service: AwsService, status: int, body: bytes) -> None:
    if body == b'{"__type":""}':
        judged = aws_client.outcome_of(service, reply(status, body))
        assert isinstance(judged, aws_client.Failure)
        assert str(judged.error).partition(":")[0] == str(status)
    else:
        assert_same_judgement(service, reply(status, body))


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize("offset", [0, 1, -1])
def test_an_answer_of_dynamodb_with_a_wrong_checksum_is_retried_as_by_botocore(status: int, offset: int) -> None:
    body = b'{"__type":"ValidationException"}'
    found = reply(status, body, x_amz_crc32=str(crc32(body) + offset))
    assert_same_judgement(DYNAMODB, found)
    judged = aws_client.outcome_of(DYNAMODB, found)
    assert isinstance(judged, aws_client.Failure) == bool(offset or status == 400)
    assert isinstance(aws_client.outcome_of(SQS, found), aws_client.Failure) == (status == 400)


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
@pytest.mark.parametrize("code", ["ThrottlingException", "InternalServerError"])
@pytest.mark.parametrize("attempt", range(1, 12))
def test_the_pauses_are_botocores(service: AwsService, code: str, attempt: int) -> None:
    status = 500 if code.startswith("Internal") else 400
    found = reply(status, json.dumps({"__type": code}).encode())
    theirs = Botocore(service, found, attempt)
    name = MODELS[service.name].service_id.hyphenize()
    backoff = standard.ExponentialBackoff(service_name=name, throttling_detector=theirs.detector)
    random.seed(attempt)
    expected = backoff.delay_amount(theirs.context)
    random.seed(attempt)
    assert aws_client.pause_s(service, attempt, theirs.throttled) == pytest.approx(expected)


def test_one_call_takes_no_longer_than_is_stated() -> None:
    """`sweep` begins a call only if there is time for it."""
    random.seed(1)
    pauses = max(sum(aws_client.pause_s(SQS, attempt, True) for attempt in range(1, ATTEMPTS)) for _ in range(1000))
    assert 6 < pauses < 7
    assert ATTEMPTS * (2 + 6) + 7 <= aws_client.LONGEST_CALL_S == 40


class Scripted(Hook):
    """Answers attempts in turn, the last answer for ever, and keeps the pauses."""

    def __init__(self, *answers: bytes | HttpResponse | Exception) -> None:
        self.answers = answers
        self.attempts = 0
        self.pauses = 0

    def attempt(self, call: AwsCall, proceed: Callable[[], HttpResponse]) -> HttpResponse:
        found = self.answers[min(self.attempts, len(self.answers) - 1)]
        self.attempts += 1
        if isinstance(found, Exception):
            raise found
        assert isinstance(found, HttpResponse)
        return found

    def pause(self, call: AwsCall, proceed: Callable[[], None]) -> None:
        self.pauses += 1
        proceed()


@pytest.fixture
def ours(time: Clock) -> Iterator[AwsClient]:
    with client(DYNAMODB) as found:
        yield found


THROTTLED = reply(400, b'{"__type":"ThrottlingException"}')
BROKEN = reply(500, b'{"__type":"InternalServerError"}')
REFUSED = reply(400, b'{"__type":"ValidationException","message":"because"}')
FINE = reply(200, b'{"Item":{}}')
LOST = ConnectionFailed("connection_closed")


@pytest.mark.parametrize("trouble", [THROTTLED, BROKEN, LOST], ids=["throttled", "broken", "lost"])
@pytest.mark.parametrize("times", range(6))
def test_a_call_succeeds_if_one_of_its_attempts_does(ours: AwsClient, trouble: Any, times: int) -> None:
    hook = Scripted(*[trouble] * times, FINE)
    with hooked(hook):
        if times < ATTEMPTS:
            assert ours.call("GetItem", {}) == {"Item": {}}
        else:
            with pytest.raises(Unavailable):
                ours.call("GetItem", {})
    assert hook.attempts == min(times + 1, ATTEMPTS)
    assert hook.pauses == hook.attempts - 1


def test_what_aws_refuses_is_not_retried(ours: AwsClient, time: Clock) -> None:
    hook, before = Scripted(REFUSED), time.now
    with hooked(hook), pytest.raises(AwsError, match="ValidationException: because") as refused:
        ours.call("GetItem", {})
    assert (refused.value.code, refused.value.status, hook.attempts, time.now) == (
        "ValidationException",
        400,
        1,
        before,
    )


def test_the_reasons_of_a_cancelled_transaction_can_be_read(ours: AwsClient) -> None:
    reasons = [{"Code": "None"}, {"Code": "ConditionalCheckFailed", "Item": {"pk": {"S": "a"}}}]
    body = {"__type": f"{BEFORE}TransactionCanceledException", "Message": "m", "CancellationReasons": reasons}
    with hooked(Scripted(reply(400, json.dumps(body).encode()))), pytest.raises(AwsError) as cancelled:
        ours.call("TransactWriteItems", {})
    assert cancelled.value.code == "TransactionCanceledException"
    assert cancelled.value.body["CancellationReasons"] == reasons


def cancelled_reply(*codes: str) -> HttpResponse:
    """A cancelled transaction, with the codes of its reasons."""
    reasons = [{"Code": code} for code in codes]
    body = {"__type": f"{BEFORE}TransactionCanceledException", "Message": "m", "CancellationReasons": reasons}
    return reply(400, json.dumps(body).encode())


@pytest.mark.parametrize("reason", ["ThrottlingError", "ProvisionedThroughputExceeded"])
@pytest.mark.parametrize("other", ["None", "TransactionConflict"])
@pytest.mark.parametrize("times", [1, ATTEMPTS - 1, ATTEMPTS])
def test_a_transaction_that_throttling_cancels_is_retried_with_pauses_as_any_throttled_call(
    ours: AwsClient, time: Clock, reason: str, other: str, times: int
) -> None:
    hook, before = Scripted(*[cancelled_reply("None", reason, other)] * times, FINE), time.now
    with hooked(hook):
        if times < ATTEMPTS:
            ours.call("TransactWriteItems", {})
        else:
            with pytest.raises(Unavailable) as failed:
                ours.call("TransactWriteItems", {})
            assert not failed.value.uncertain
    assert hook.attempts == min(times + 1, ATTEMPTS)
    assert 0 < time.now - before <= 2**hook.pauses - 1


@pytest.mark.parametrize("other", ["ConditionalCheckFailed", "ValidationError"])
def test_a_transaction_that_would_fail_again_is_not_retried(ours: AwsClient, other: str) -> None:
    hook = Scripted(cancelled_reply("ThrottlingError", other))
    with hooked(hook), pytest.raises(AwsError, match="TransactionCanceledException"):
        ours.call("TransactWriteItems", {})
    assert hook.attempts == 1


def test_a_transaction_in_progress_is_retried_and_told(ours: AwsClient) -> None:
    hook = Scripted(reply(400, b'{"__type":"TransactionInProgressException"}'))
    with hooked(hook), pytest.raises(AwsError, match="TransactionInProgressException"):
        ours.call("TransactWriteItems", {})
    assert hook.attempts == ATTEMPTS


UNCONNECTED = ConnectionFailed("connect_timeout")
IN_PROGRESS = reply(400, b'{"__type":"TransactionInProgressException"}')


@pytest.mark.parametrize(
    ("answers", "uncertain"),
    [
        ([REFUSED], False),
        ([THROTTLED], False),
        ([UNCONNECTED], False),
        ([UNCONNECTED, THROTTLED, REFUSED], False),
        ([BROKEN], True),
        ([LOST], True),
        ([IN_PROGRESS], True),
        ([IN_PROGRESS, THROTTLED], True),
        ([reply(200, b"{}", x_amz_crc32="1")], True),
        ([LOST, THROTTLED], True),
        ([THROTTLED, LOST, UNCONNECTED], True),
        ([LOST, REFUSED], True),
        ([BROKEN, REFUSED], True),
    ],
)
def test_a_call_that_fails_says_whether_it_may_have_taken_effect(
    ours: AwsClient, answers: list[Any], uncertain: bool
) -> None:
    with hooked(Scripted(*answers)), pytest.raises((AwsError, Unavailable)) as failed:
        ours.call("PutItem", {})
    assert isinstance(failed.value, AwsError | Unavailable)
    assert failed.value.uncertain == uncertain


def test_a_call_may_have_taken_effect_on_a_kept_connection_that_broke(
    time: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(exchange: Exchange) -> None:
        exchange.read_request()
        exchange.send(response())
        exchange.read_request()

    with endpoint(breaks, serving(error("ValidationException"))) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        with client(DYNAMODB) as ours:
            assert ours.call("PutItem", {}) == {}
            with pytest.raises(AwsError) as failed:
                ours.call("PutItem", {})
    assert failed.value.uncertain


def storm(ours: AwsClient, calls: int) -> int:
    """The attempts of so many calls that AWS throttles."""
    hook = Scripted(THROTTLED)
    with hooked(hook):
        for _ in range(calls):
            with pytest.raises(Unavailable):
                ours.call("GetItem", {})
    return hook.attempts


def retries_of_botocore(calls: int, successes: int = 0) -> int:
    """The retries that botocore's quota allows for so many throttled calls, after a storm and then successes."""
    detector = Botocore(DYNAMODB, THROTTLED).detector
    checker: Any = standard.RetryQuotaChecker(quota.RetryQuota(), detector)
    found = 0
    for burst in (calls, *([calls] if successes else [])):
        found = 0
        for _ in range(burst):
            context = Botocore(DYNAMODB, THROTTLED).context
            for _ in range(ATTEMPTS - 1):
                if not checker.acquire_retry_quota(context):
                    break
                found += 1
        for _ in range(successes):
            checker.release_retry_quota({}, SimpleNamespace(status_code=200))
    return found


def test_in_a_storm_of_throttling_the_retries_end_as_botocores_do(ours: AwsClient) -> None:
    assert storm(ours, 300) == 300 + retries_of_botocore(300) == 400


def test_after_a_storm_each_success_earns_a_part_of_a_retry(ours: AwsClient) -> None:
    storm(ours, 300)
    assert storm(ours, 20) == 20
    with hooked(Scripted(FINE)):
        for _ in range(50):
            ours.call("GetItem", {})
    assert storm(ours, 20) == 20 + retries_of_botocore(300, successes=50) == 30


def test_a_retry_that_succeeds_gives_back_what_it_cost(ours: AwsClient) -> None:
    for _ in range(500):
        with hooked(Scripted(THROTTLED, FINE)):
            ours.call("GetItem", {})
    assert storm(ours, 1) == ATTEMPTS


def test_without_credentials_nothing_is_sent(time: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nowhere")
    hook = Scripted(FINE)
    with hooked(hook), pytest.raises(Unavailable, match="no credentials"):
        AwsClient(DYNAMODB, Source()).call("GetItem", {})
    assert hook.attempts == 0


def test_the_trace_of_a_lambda_is_passed_on(time: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1;Lineage=a:0"
    with endpoint(serving(response(), response())) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        monkeypatch.setenv("_X_AMZN_TRACE_ID", f"{trace} \r\nx: y")
        with client(SQS) as ours:
            ours.call("SendMessageBatch", {})
            monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "deliver")
            ours.call("SendMessageBatch", {})
    before, after = (request.headers.get("x-amzn-trace-id") for request in server.requests)
    assert (before, after) == (None, f"{trace}%20%0D%0Ax:%20y")
