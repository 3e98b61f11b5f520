"""What a deployed stage is found by: the stack's name and those of its outputs, for the stack and `infra.manage`."""

SERVICE = "appointments"

API_OUTPUT = "ApiUrl"
DOMAIN_TARGET_OUTPUT = "DomainTarget"
TABLE_OUTPUT = "TableName"
FAILURES_OUTPUT = "FailedBatchesBucket"
FAN_OUT_OUTPUT = "FanOutFunction"
FIRST_KEY_OUTPUT = "FirstKey"


def stack_name(stage: str) -> str:
    """The name of the stack of a stage: `appointments-dev`."""
    return f"{SERVICE}-{stage}"
