from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from shared.aws import services
from shared.aws.services import AwsError, Unavailable
from tests.support.racing import at_once


def test_threads_that_need_a_client_at_the_same_time_get_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    services.sqs.cache_clear()
    try:
        assert len({id(client) for client in at_once([services.sqs] * 8)}) == 1
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
