"""AWS clients, made at first use and kept for the life of the process, and what becomes of their failures."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

if TYPE_CHECKING:
    from botocore.config import Config
    from mypy_boto3_dynamodb.client import DynamoDBClient
    from mypy_boto3_kms.client import KMSClient
    from mypy_boto3_s3.client import S3Client
    from mypy_boto3_sqs.client import SQSClient
    from mypy_boto3_stepfunctions.client import SFNClient


@functools.cache
def dynamodb() -> DynamoDBClient:
    """The table's client. Our own items need no check against the service model on every call."""
    import boto3

    return boto3.client("dynamodb", config=_config(parameter_validation=False))


@functools.cache
def sqs() -> SQSClient:
    """Queues."""
    import boto3

    return boto3.client("sqs", config=_config())


@functools.cache
def stepfunctions() -> SFNClient:
    """State machines."""
    import boto3

    return boto3.client("stepfunctions", config=_config())


@functools.cache
def kms() -> KMSClient:
    """The key that signing secrets are kept under."""
    import boto3

    return boto3.client("kms", config=_config())


@functools.cache
def s3() -> S3Client:
    """Recordings; links name the bucket's own region, elsewhere their signatures would not hold."""
    import boto3

    return boto3.client("s3", config=_config(signature_version="s3v4", s3={"addressing_style": "virtual"}))


def queue_url(name: str) -> str:
    """The URL of a queue of `infra/topology.py`."""
    return os.environ[f"QUEUE_{name.upper()}"]


def queue_name(name: str) -> str:
    """The generated name of a queue of `infra/topology.py`."""
    return queue_url(name).rpartition("/")[2]


def state_machine_arn(name: str) -> str:
    """The ARN of a state machine of `infra/topology.py`."""
    return os.environ[f"STATE_MACHINE_{name.upper()}"]


class Unavailable(Exception):
    """A service throttled or did not answer in time; whether a write took effect is not known."""


def answered(call: Callable[..., Any], **parameters: Any) -> Any:
    """The answer of a client's call. Throttling, silence and trouble on AWS's side raise Unavailable."""
    try:
        return call(**parameters)
    except ClientError as error:
        if error.response["Error"]["Code"] in _PASSING:
            raise Unavailable(error.response["Error"]["Code"]) from error
        raise
    except BotoCoreError as error:
        raise Unavailable(type(error).__name__) from error


_PASSING = frozenset(
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

    # Short time-outs, so that a lost answer is tried again while the caller still waits.
    return Config(
        connect_timeout=2,
        read_timeout=6,
        retries={"mode": "standard", "total_max_attempts": 4},
        max_pool_connections=128,
        **settings,
    )
