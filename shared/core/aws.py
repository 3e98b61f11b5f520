"""AWS clients, created at first use and reused for the life of the process, and the errors of their calls.

Threads share the clients. Clients are thread-safe, but creating one is not (boto3, "Multithreading or multiprocessing
with clients").
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

if TYPE_CHECKING:
    from mypy_boto3_cognito_idp.client import CognitoIdentityProviderClient
    from mypy_boto3_dynamodb.client import DynamoDBClient
    from mypy_boto3_kms.client import KMSClient
    from mypy_boto3_s3.client import S3Client
    from mypy_boto3_secretsmanager.client import SecretsManagerClient
    from mypy_boto3_sqs.client import SQSClient
    from mypy_boto3_stepfunctions.client import SFNClient

T = TypeVar("T")
_creating = threading.Lock()
_QUEUE = "QUEUE_"
"""The prefix of the environment variables with the URLs of queues."""


class _Once(Generic[T]):
    """A function without parameters that is executed only once, even if many threads call it."""

    def __init__(self, create: Callable[[], T]) -> None:
        self._cached = functools.cache(create)
        self.cache_clear = self._cached.cache_clear

    def __call__(self) -> T:
        with _creating:
            return self._cached()


@_Once
def dynamodb() -> DynamoDBClient:
    """The DynamoDB client. Parameter validation is off: it costs time on every call, and `table` builds valid ones."""
    client: DynamoDBClient = _client("dynamodb", parameter_validation=False)
    return client


@_Once
def sqs() -> SQSClient:
    """The SQS client."""
    client: SQSClient = _client("sqs")
    return client


@_Once
def stepfunctions() -> SFNClient:
    """The Step Functions client."""
    client: SFNClient = _client("stepfunctions")
    return client


@_Once
def kms() -> KMSClient:
    """The KMS client, for the key that encrypts signing secrets."""
    client: KMSClient = _client("kms")
    return client


@_Once
def s3() -> S3Client:
    """The S3 client, for recordings. Presigned URLs name the bucket's region; their signatures are valid only there."""
    client: S3Client = _client("s3", signature_version="s3v4", s3={"addressing_style": "virtual"})
    return client


_CONNECT_TIMEOUT, _READ_TIMEOUT, _ATTEMPTS = 2, 6, 4
LONGEST_CALL = 40
"""Seconds that one call takes at most: four attempts that time out, and the pauses of up to 1, 2 and 4 s in between."""


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


def queue_url(name: str) -> str:
    """The URL of a queue, by its name in `infra/topology.py`."""
    return os.environ[f"{_QUEUE}{name.upper()}"]


def queue_of(arn: str) -> str | None:
    """The name in `infra/topology.py` of a queue that this function uses, by its ARN; None for another queue."""
    generated = arn.rpartition(":")[2]
    for name in os.environ:
        if name.startswith(_QUEUE) and os.environ[name].rpartition("/")[2] == generated:
            return name.removeprefix(_QUEUE).lower()
    return None


def state_machine_arn(name: str) -> str:
    """The ARN of a state machine, by its name in `infra/topology.py`."""
    return os.environ[f"STATE_MACHINE_{name.upper()}"]


class Unavailable(Exception):
    """A service throttled a request or did not respond in time. A write may have taken effect."""


def call(operation: Callable[..., Any], **parameters: Any) -> Any:
    """Call an operation of a client and return its response.

    Raises Unavailable for throttling, timeouts and faults of the service, and ClientError for every other error.
    """
    try:
        return operation(**parameters)
    except ClientError as error:
        if error.response["Error"]["Code"] in _TRANSIENT:
            raise Unavailable(error.response["Error"]["Code"]) from error
        raise
    except BotoCoreError as error:
        raise Unavailable(type(error).__name__) from error


_TRANSIENT = frozenset(
    {
        "DependencyTimeoutException",
        "InternalFailure",
        "InternalServerError",
        "KMSInternalException",
        "LimitExceededException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "ServiceUnavailable",
        "ServiceUnavailableException",
        "ThrottlingError",
        "ThrottlingException",
    }
)


def _client(service: Any, **settings: Any) -> Any:
    import boto3
    from botocore.config import Config

    # Short timeouts, so that a lost response is retried while the caller still waits.
    config = Config(
        connect_timeout=_CONNECT_TIMEOUT,
        read_timeout=_READ_TIMEOUT,
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        max_pool_connections=128,
        **settings,
    )
    return boto3.client(service, config=config)
