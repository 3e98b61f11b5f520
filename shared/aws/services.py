"""AWS clients, created at first use and reused for the life of the process, and the errors of their calls.

Our own client (`client.py`) calls the services on the path of requests and workers: DynamoDB, SQS, Step Functions and
KMS. boto3 calls the others, and is imported only when one of its clients is created. Threads share the clients, but
only one at a time creates one (boto3, "Multithreading or multiprocessing with clients").
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from shared.aws import client as aws_client
from shared.aws.client import LONGEST_CALL_S, AwsClient, AwsError, Unavailable
from shared.aws.connections import CONNECT_S, KEPT_MS, RESPONSE_S
from shared.aws.credentials import Source
from shared.aws.error_codes import is_throttled, is_transient
from shared.core import clock

if TYPE_CHECKING:
    from mypy_boto3_cognito_idp.client import CognitoIdentityProviderClient
    from mypy_boto3_s3.client import S3Client
    from mypy_boto3_secretsmanager.client import SecretsManagerClient

__all__ = ["LONGEST_CALL_S", "AwsError", "Unavailable"]

T = TypeVar("T")
_creating = threading.RLock()


class _Once(Generic[T]):
    """A function without parameters that is executed only once, even if many threads call it."""

    def __init__(self, create: Callable[[], T]) -> None:
        self._cached = functools.cache(create)
        self.cache_clear = self._cached.cache_clear
        self.cache_info = self._cached.cache_info

    def __call__(self) -> T:
        with _creating:
            return self._cached()


_credentials = _Once(Source)


@_Once
def dynamodb() -> AwsClient:
    """The DynamoDB client. Only `shared/store/table` makes calls with it."""
    return AwsClient(aws_client.DYNAMODB, _credentials())


@_Once
def sqs() -> AwsClient:
    """The SQS client."""
    return AwsClient(aws_client.SQS, _credentials())


def call_sqs_batch(operation: str, queue_url: str, entries: Sequence[Mapping[str, Any]]) -> str:
    """Call a batch operation of SQS. Returns its first error, or that of an entry; empty if every entry succeeded."""
    try:
        response = sqs().call(operation, {"QueueUrl": queue_url, "Entries": entries})
    except (AwsError, Unavailable) as error:
        return type(error).__name__
    return str(response["Failed"][0]["Code"]) if response.get("Failed") else ""


@_Once
def stepfunctions() -> AwsClient:
    """The Step Functions client."""
    return AwsClient(aws_client.STEP_FUNCTIONS, _credentials())


@_Once
def kms() -> AwsClient:
    """The KMS client, for the key that encrypts signing secrets."""
    return AwsClient(aws_client.KMS, _credentials())


@_Once
def s3() -> S3Client:
    """The S3 client, for recordings and what belongs to them.

    Presigned URLs name the bucket's region; their signatures are valid only there.
    """
    client: S3Client = _client("s3", signature_version="s3v4", s3={"addressing_style": "virtual"})
    return client


@_Once
def cognito() -> CognitoIdentityProviderClient:
    """The Cognito client, for the stack's user pool."""
    client: CognitoIdentityProviderClient = _client("cognito-idp")
    return client


@_Once
def secretsmanager() -> SecretsManagerClient:
    """The Secrets Manager client, for the secret of the sign-in provider's client."""
    client: SecretsManagerClient = _client("secretsmanager")
    return client


@_Once
def sns() -> Any:
    """The SNS client, for notices to the stage's operators."""
    return _client("sns")


def call(operation: Callable[..., Any], **parameters: Any) -> Any:
    """Call an operation of a boto3 client and return its response.

    Raises Unavailable for throttling, timeouts and faults of the service, AwsError for every other error of the
    service, and ParamValidationError for parameters that the operation does not have: a fault of the caller.
    """
    from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError

    try:
        return operation(**parameters)
    except ClientError as error:
        code, message = error.response["Error"]["Code"], error.response["Error"]["Message"]
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        if is_throttled(code, status) or is_transient(code, status):
            raise Unavailable(code) from error
        raise AwsError(code, message, status, error.response) from error
    except ParamValidationError:
        raise
    except BotoCoreError as error:
        raise Unavailable(type(error).__name__) from error


def closing_idle(client: Any) -> Any:
    """The boto3 client, which from now on opens new connections after it was idle for `KEPT_MS`, as our own does."""
    checking, used_at = threading.Lock(), clock.now()

    def check(**_: Any) -> None:
        nonlocal used_at
        with checking:
            now = clock.now()
            if not 0 <= now - used_at < KEPT_MS:
                # Closes those that are not in use. The client opens others.
                client.close()
            used_at = now

    client.meta.events.register("before-send", check)
    return client


def _client(service: Any, **settings: Any) -> Any:
    import boto3
    from botocore.config import Config

    # Short timeouts, so that a lost response is retried while the caller still waits.
    config = Config(
        connect_timeout=CONNECT_S,
        read_timeout=RESPONSE_S,
        retries={"mode": "standard", "total_max_attempts": aws_client.ATTEMPTS},
        max_pool_connections=128,
        **settings,
    )
    return closing_idle(boto3.client(service, config=config))
