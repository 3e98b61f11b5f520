from __future__ import annotations

import time

import boto3
import pytest
from botocore.exceptions import ClientError, ParamValidationError

from shared.aws import services
from shared.aws.services import AwsError, Unavailable
from shared.core import clock
from tests.support.canned_aws import endpoint, response, serving
from tests.support.clocks import Clock
from tests.support.concurrency import run_at_once


def test_threads_that_need_a_client_at_the_same_time_get_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    services.sqs.cache_clear()
    try:
        assert len({id(client) for client in run_at_once([services.sqs] * 8)}) == 1
    finally:
        services.sqs.cache_clear()


@pytest.mark.parametrize(
    ("code", "status", "expected"),
    [
        ("TooManyRequestsException", 400, Unavailable),
        ("InternalErrorException", 500, Unavailable),
        ("SlowDown", 503, Unavailable),
        ("UsernameExistsException", 400, AwsError),
    ],
)
def test_an_error_of_a_boto3_client_says_whether_it_passes(code: str, status: int, expected: type[Exception]) -> None:
    def operation() -> None:
        details = {"Error": {"Code": code, "Message": ""}, "ResponseMetadata": {"HTTPStatusCode": status}}
        raise ClientError(details, "Operation")  # type: ignore[arg-type]

    with pytest.raises(expected, match=code):
        services.call(operation)


def test_a_call_of_a_boto3_client_with_wrong_parameters_is_no_passing_error() -> None:
    client = boto3.client("sns", region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test")
    with pytest.raises(ParamValidationError, match="Subjekt"):
        services.call(client.publish, Subjekt="Typing error")


@pytest.mark.parametrize(("idle", "connections"), [(59, 1), (61, 2)])
def test_a_boto3_client_opens_a_new_connection_after_a_minute_without_requests(
    idle: float, connections: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = response(body={"SecretString": "s"})
    now = Clock(1_800_000_000)
    clock.use(lambda: now.now, now.forward)
    try:
        with endpoint(serving(*[secret] * 3)) as server:
            client = boto3.client(
                "secretsmanager",
                region_name="us-east-1",
                endpoint_url=server.url.removesuffix("/hook"),
                aws_access_key_id="test",
                aws_secret_access_key="test",
            )
            services.closing_idle(client)
            for _ in range(2):
                client.get_secret_value(SecretId="a")
            now.forward(idle)
            client.get_secret_value(SecretId="a")
            assert server.connections == connections
    finally:
        clock.use(time.time, time.sleep)
