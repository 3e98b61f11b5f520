"""What there is in an account."""

from __future__ import annotations

from typing import Any

from infra.stack_names import construct_id
from tests.deploy.cloud import Cloud

LISTINGS = (
    ("apigateway", "get_rest_apis", "items", "id"),
    ("cloudwatch", "describe_alarms", "MetricAlarms", "AlarmName"),
    ("dynamodb", "list_tables", "TableNames", None),
    ("events", "list_rules", "Rules", "Name"),
    ("iam", "list_roles", "Roles", "RoleName"),
    ("lambda", "list_event_source_mappings", "EventSourceMappings", "UUID"),
    ("lambda", "list_functions", "Functions", "FunctionName"),
    ("logs", "describe_log_groups", "logGroups", "logGroupName"),
    ("s3", "list_buckets", "Buckets", "Name"),
    ("sns", "list_topics", "Topics", "TopicArn"),
    ("sqs", "list_queues", "QueueUrls", None),
    ("stepfunctions", "list_state_machines", "stateMachines", "name"),
)
"""Service, operation, the answer's list, and the field that names an item."""

KINDS = {
    "AWS::DynamoDB::Table": "dynamodb",
    "AWS::IAM::Role": "iam",
    "AWS::KMS::Key": "kms",
    "AWS::Logs::LogGroup": "logs",
    "AWS::S3::Bucket": "s3",
}
"""What may be kept: CloudFormation's type, and the inventory's word for it."""


def list_all(cloud: Cloud, service: str, operation: str, found: str) -> list[Any]:
    """Every item of a paged answer."""
    pages = cloud.client(service).get_paginator(operation).paginate()
    return [item for page in pages for item in page.get(found, [])]


def inventory(cloud: Cloud) -> set[str]:
    """The names of all that a stack could have left in this account."""
    found = {
        f"{service}: {item if name is None else item[name]}"
        for service, operation, items, name in LISTINGS
        for item in list_all(cloud, service, operation, items)
    }
    kms = cloud.client("kms")
    for key in list_all(cloud, "kms", "list_keys", "Keys"):
        if kms.describe_key(KeyId=key["KeyId"])["KeyMetadata"]["KeyState"] != "PendingDeletion":
            found.add(f"kms: {key['KeyId']}")
    return found


def statuses(cloud: Cloud, stack: str) -> dict[str, str]:
    pages = cloud.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=stack)
    # Previous versions of functions are no longer in the template. They are kept for a rollback.
    kept = ("AWS::Lambda::Version", "DELETE_SKIPPED")
    return {
        summary["LogicalResourceId"]: summary["ResourceStatus"]
        for page in pages
        for summary in page["StackResourceSummaries"]
        if (summary["ResourceType"], summary["ResourceStatus"]) != kept
    }


def executions(cloud: Cloud, machine: str) -> list[str]:
    """The status of each execution of a state machine of the topology."""
    found = list_all(cloud, "stepfunctions", "list_state_machines", "stateMachines")
    (arn,) = (item["stateMachineArn"] for item in found if construct_id(machine) in item["name"])
    pages = cloud.client("stepfunctions").get_paginator("list_executions").paginate(stateMachineArn=arn)
    return [execution["status"] for page in pages for execution in page["executions"]]
