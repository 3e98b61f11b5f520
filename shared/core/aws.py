"""AWS clients, created at first use and reused for the life of the process, and the errors of their calls."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

if TYPE_CHECKING:
    from botocore.config import Config
    from mypy_boto3_cognito_idp.client import CognitoIdentityProviderClient
    from mypy_boto3_dynamodb.client import DynamoDBClient
    from mypy_boto3_kms.client import KMSClient
    from mypy_boto3_s3.client import S3Client
    from mypy_boto3_secretsmanager.client import SecretsManagerClient
    from mypy_boto3_sqs.client import SQSClient
    from mypy_boto3_stepfunctions.client import SFNClient


@functools.cache
def dynamodb() -> DynamoDBClient:
    """The DynamoDB client. Parameter validation is off: it costs time on every call, and `table` builds valid ones."""
    import boto3

    return boto3.client("dynamodb", config=_config(parameter_validation=False))


@functools.cache
def sqs() -> SQSClient:
    """The SQS client."""
    import boto3

    return boto3.client("sqs", config=_config())


@functools.cache
def stepfunctions() -> SFNClient:
    """The Step Functions client."""
    import boto3

    return boto3.client("stepfunctions", config=_config())


@functools.cache
def kms() -> KMSClient:
    """The KMS client, for the key that encrypts signing secrets."""
    import boto3

    return boto3.client("kms", config=_config())


@functools.cache
def s3() -> S3Client:
    """The S3 client, for recordings. Presigned URLs name the bucket's region; their signatures are valid only there."""
    import boto3

    return boto3.client("s3", config=_config(signature_version="s3v4", s3={"addressing_style": "virtual"}))


@functools.cache
def cognito() -> CognitoIdentityProviderClient:
    """The Cognito client, for the stack's user pool."""
    import boto3

    return boto3.client("cognito-idp", config=_config())


@functools.cache
def secretsmanager() -> SecretsManagerClient:
    """The Secrets Manager client, for the secret of the sign-in provider's client."""
    import boto3

    return boto3.client("secretsmanager", config=_config())


def queue_url(name: str) -> str:
    """The URL of a queue, by its name in `infra/topology.py`."""
    return os.environ[f"QUEUE_{name.upper()}"]


def queue_name(name: str) -> str:
    """The generated name of a queue, by its name in `infra/topology.py`."""
    return queue_url(name).rpartition("/")[2]


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


def _config(**settings: Any) -> Config:
    from botocore.config import Config

    # Short timeouts, so that a lost response is retried while the caller still waits.
    return Config(
        connect_timeout=2,
        read_timeout=6,
        retries={"mode": "standard", "total_max_attempts": 4},
        max_pool_connections=128,
        **settings,
    )
