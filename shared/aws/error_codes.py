"""AWS's error codes by which code decides, and those that are retried. Other codes are in their service's module."""

from enum import StrEnum


class ErrorCode(StrEnum):
    """The code of an error."""

    CONDITION_FAILED = "ConditionalCheckFailedException"
    EXECUTION_EXISTS = "ExecutionAlreadyExists"
    THROTTLED = "ThrottlingException"
    TRANSACTION_CANCELED = "TransactionCanceledException"
    TRANSACTION_CONFLICT = "TransactionConflictException"
    TRANSACTION_IN_PROGRESS = "TransactionInProgressException"
    """Retried as throttling, but the caller must know: an earlier attempt of its transaction still runs."""
    USER_EXISTS = "UsernameExistsException"
    USER_NOT_CONFIRMED = "UserNotConfirmedException"
    USER_NOT_FOUND = "UserNotFoundException"
    USER_STATE = "UnsupportedUserStateException"
    VALIDATION = "ValidationException"


class CancellationReason(StrEnum):
    """Why an operation of a transaction was not made."""

    NONE = "None"
    CONDITION_FAILED = "ConditionalCheckFailed"
    CONFLICT = "TransactionConflict"
    THROTTLED = "ThrottlingError"
    THROUGHPUT_EXCEEDED = "ProvisionedThroughputExceeded"


THROTTLED = frozenset(
    {
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
        "LimitExceededException",
        "PriorRequestNotComplete",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        ErrorCode.THROTTLED,
        "TooManyRequestsException",
        ErrorCode.TRANSACTION_IN_PROGRESS,
    }
)
"""The same as botocore's."""
THROTTLED_WRITES = frozenset({CancellationReason.THROTTLED, CancellationReason.THROUGHPUT_EXCEEDED})
"""The reasons of a transaction that throttling cancels (DynamoDB API reference, "TransactWriteItems")."""
TRANSIENT = frozenset({"ReplicatedWriteConflictException", "RequestTimeout", "RequestTimeoutException"})
TRANSIENT_MODEL_ERRORS = frozenset(
    {
        "InternalServerException",
        "ModelNotReadyException",
        "ModelTimeoutException",
        "ServiceUnavailableException",
        ErrorCode.THROTTLED,
    }
)
"""Errors of Bedrock that pass. They do not concern the id of the model or access to it."""
TOO_MANY_REQUESTS = 429
TRANSIENT_STATUSES = frozenset({500, 502, 503, 504})


def is_throttled(code: str, status: int) -> bool:
    """Whether AWS has refused a request because of its rate."""
    return code in THROTTLED or status == TOO_MANY_REQUESTS


def is_transient(code: str, status: int) -> bool:
    """Whether a request failed for a reason that passes."""
    return code in TRANSIENT or status in TRANSIENT_STATUSES
