"""The names by which a deployed stage is found: of its stack, outputs, constructs and aliases.

This module imports nothing, so that the operator's commands need neither the CDK nor Node.
"""

SERVICE = "appointments"
RUNNER = "local"
"""The name of the local runner in `infra.manage`. No stage can have it."""

LIVE = "live"
"""The alias of every function."""
KEPT = 2
"""The previous releases whose versions are kept, so that `infra.rollback` can go back to them."""
HELD, EMERGENCY = "held", "emergency"
"""The CDK's context values that `infra.deploy` sets: versions at which aliases stay, and whether they move at once."""

PRIMARY_KEY = "PrimaryKeyArn"
"""The parameter of the stack of the copies: the signing key, which exists only once the stage is deployed."""

ADMIN_OUTPUT = "AdminUrl"
API_OUTPUT = "ApiUrl"
DOMAIN_TARGET_OUTPUT = "DomainTarget"
TABLE_OUTPUT = "TableName"
DUE_SHARDS_OUTPUT = "DueShards"
FAILURES_OUTPUT = "FailedBatchesBucket"
RECORDINGS_OUTPUT = "RecordingsBucket"
ERASURES_OUTPUT = "ErasuresBucket"
RESTORE_ROLE_OUTPUT = "RestoreRoleArn"
SIGNING_KEY_OUTPUT = "SigningKeyArn"
FAN_OUT_OUTPUT = "FanOutFunction"
FIRST_KEY_OUTPUT = "FirstKey"
USER_POOL_OUTPUT = "UserPoolId"


def stack_name(stage: str) -> str:
    """The name of the stack of a stage: `appointments-dev`."""
    return f"{SERVICE}-{stage}"


def copies_name(stage: str) -> str:
    """The name of the vault of copied backups, and of its stack. AWS Backup allows 50 characters."""
    return f"{stack_name(stage)}-copy"


def ledger_copy_name(stage: str, region: str, account: str) -> str:
    """The name of the bucket of the copied ledger. It is unique among all buckets, and has at most 63 characters."""
    return f"{stack_name(stage).lower()}-{region}-{account}"


def construct_id(name: str) -> str:
    """The construct id of a name in the topology: `slow_deliveries` becomes `SlowDeliveries`."""
    return "".join(word.capitalize() for word in name.split("_"))
