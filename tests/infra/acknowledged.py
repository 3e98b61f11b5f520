"""What cdk-nag's AwsSolutions rules have against the stack and why it stays, on the resources it is found on.

`test_nag.py` fails on a finding that no line here explains and on a line that explains none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from aws_cdk import Acknowledgment, Stack, Validations
from cdk_nag import AwsSolutionsChecks
from constructs import IConstruct

from infra import topology
from infra.stack_names import construct_id


@dataclass(frozen=True)
class Finding:
    """What a rule has against a resource: the rule's id, with the detail in brackets if it has one, and the path."""

    rule: str
    path: str


@dataclass(frozen=True)
class Acknowledged:
    """Why findings stay: regular expressions that their whole rule and whole path below the stack match."""

    rule: str
    path: str
    reason: str

    def covers(self, finding: Finding) -> bool:
        below = finding.path.partition("/")[2]
        return bool(re.fullmatch(self.rule, finding.rule) and re.fullmatch(self.path, below))


ACKNOWLEDGED = (
    # The API
    Acknowledged(
        "AwsSolutions-APIG2",
        "Api/Resource",
        "Each function validates its requests itself, with pydantic models, so that every refusal names the parameter "
        "in the API's own error envelope; the gateway's validator could not.",
    ),
    Acknowledged(
        "AwsSolutions-APIG3",
        r"Api/DeploymentStage\.[^/]+/Resource",
        "AWS WAF costs money by the month and by the request, so a stage has it when cdk.json gives it a `firewall`; "
        "without one the throttling of the gateway and the rate limits of each API key remain.",
    ),
    Acknowledged(
        "AwsSolutions-APIG4",
        r"Api/Default/(.+/)?(ANY|POST)/Resource",
        "A function checks the API key in the same table write that counts its rate windows; an authorizer would cost "
        "another invocation, and its cache would let a revoked key in. Unknown paths and the page of errors are "
        "answered by a function that may do nothing but log.",
    ),
    Acknowledged(
        "AwsSolutions-COG4",
        r"Api/Default/(.+/)?(ANY|POST)/Resource",
        "The callers of the API are other companies' servers, which have API keys; the admin pages have sessions of "
        "their own, which end at once when a person signs out or loses a role, as an authorizer's tokens do not.",
    ),
    Acknowledged(
        "AwsSolutions-COG8",
        "People/Resource",
        "The Plus plan adds threat protection at a price for each person; here nobody can register, everybody needs a "
        "second factor, and a stage whose owner wants more names a provider of its own in cdk.json.",
    ),
    Acknowledged(
        "AwsSolutions-APIG6",
        r"Api/DeploymentStage\.[^/]+/Resource",
        "The access log has a line for every request, with the kind of the gateway's own errors, and the functions log "
        "theirs; execution logs would repeat them in a log group that the stack does not own and that keeps them "
        "for ever.",
    ),
    Acknowledged(
        re.escape(
            "AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/"
            "AmazonAPIGatewayPushToCloudWatchLogs]"
        ),
        "Api/CloudWatchRole/Resource",
        "API Gateway has one role for the logs of all APIs of an account and region, so it cannot be bound to this "
        "stack's log groups; the policy that AWS maintains for it is about logs alone.",
    ),
    # Functions
    Acknowledged(
        "AwsSolutions-L1",
        r"\w+/Resource",
        "The functions run on Python 3.13, which Lambda supports until June 2029; the bundle's wheels and bytecode are "
        "made for it, and the test that deploys runs them on it.",
    ),
    Acknowledged(
        r"AwsSolutions-IAM5\[Resource::<(Global)?Table\w+\.Arn>/index/\*\]",
        r"\w+Role/DefaultPolicy/Resource",
        "The wildcard covers the indexes of this one table and of no other; they hold keys alone, and the rows that a "
        "query finds there are read under the grant on the table.",
    ),
    Acknowledged(
        r"AwsSolutions-IAM5\[Resource::<Recordings\w+\.Arn>/\*\]",
        "(Admin|CallEvents|Dial|Sessions)Role/DefaultPolicy/Resource",
        "The bucket holds recordings and transcripts of calls and nothing else, under names that are made with each "
        "call; two functions read them, one writes them, and one reads and deletes what Amazon Connect stored.",
    ),
    Acknowledged(
        r"AwsSolutions-IAM5\[Resource::<FailedBatches\w+\.Arn>/\*\]",
        "FanOutRole/DefaultPolicy/Resource",
        "Lambda itself names the objects in which it puts stream batches that failed, and writes them with the "
        "function's role; the bucket holds nothing else.",
    ),
    Acknowledged(
        r"AwsSolutions-IAM5\[Resource::arn:<AWS::Partition>:connect:[^:]+:[^:]+:"
        r"instance/[\w-]+/contact/\*\]",
        "(CallEvents|Dial)Role/DefaultPolicy/Resource",
        "Amazon Connect makes a contact's id when the call is placed, so a policy can only name the contacts of the "
        "stage's one instance.",
    ),
    Acknowledged(
        r"AwsSolutions-IAM5\[Resource::arn:<AWS::Partition>:bedrock:\*::foundation-model/[\w.:-]+\]",
        r"(Messages|Turn|VoiceTurn)Role/DefaultPolicy/Resource",
        "A cross-region inference profile picks the region of each request, and Bedrock asks for the right to the "
        "model in all of them; the wildcard is the region alone, the model is the stage's one.",
    ),
    Acknowledged(
        r"AwsSolutions-IAM5\[Resource::\*\]",
        "BotRole/DefaultPolicy/Resource",
        "Speaking is all that the bot may do, and polly:SynthesizeSpeech has no resource to be bound to where no "
        "lexicon is used.",
    ),
    Acknowledged(
        r"AwsSolutions-IAM5\[Resource::\*\]",
        f"({'|'.join(construct_id(function.name) for function in topology.FUNCTIONS)})Role/DefaultPolicy/Resource",
        "Lambda sends the function's traces with its role, and X-Ray's two actions for that know no resource; each "
        "role's whole list of rights is held against the topology by a test.",
    ),
    Acknowledged(
        r"AwsSolutions-IAM5\[Resource::<(Global)?Table\w+\.Arn>/stream/\*\]",
        "FanOutRole/DefaultPolicy/Resource",
        "Lambda looks for the table's streams by ListStreams before it reads the one of the mapping; the wildcard "
        "covers the streams of this one table.",
    ),
    Acknowledged(
        r"AwsSolutions-IAM5\[Resource::<Erasures\w+\.Arn>/opt_outs/\*\]",
        "FanOutRole/DefaultPolicy/Resource",
        "Each change of an opt-out is an object of its own below this prefix of the ledger, by hash and time; the "
        "function may only add to it, and nothing is overwritten, because the bucket has versions.",
    ),
    # Releases and backups
    Acknowledged(
        r"AwsSolutions-IAM5\[Resource::(<Erasures\w+\.Arn>|arn:<AWS::Partition>:s3:::appointments-[\w-]+)/\*\]",
        "ReplicationRole/DefaultPolicy/Resource",
        "S3 replicates every object of the ledger to its copy, whatever its name; the role is about these two buckets, "
        "and lets S3 neither delete nor read anything else.",
    ),
    Acknowledged(
        re.escape(
            "AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/"
            "AWSBackupServiceRolePolicyForRestores]"
        ),
        "RestoreRole/Resource",
        "AWS maintains this policy for its backup service, which alone can take the role; an operator who restores has "
        "to pass the role on, and a right that a policy of ours came to lack would show on the day of the disaster.",
    ),
    Acknowledged(
        r"AwsSolutions-IAM5\[Resource::\*\]",
        "ReleaseRole/DefaultPolicy/Resource",
        "CodeDeploy looks at the alarms of a release; its guide asks for cloudwatch:DescribeAlarms on everything, and "
        "the action only reads.",
    ),
    Acknowledged(
        re.escape(
            "AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/"
            "AWSBackupServiceRolePolicyForBackup]"
        ),
        "BackupRole/Resource",
        "AWS maintains this policy for its backup service, which alone can take the role and is told to back up one "
        "table; a right that a policy of ours came to lack would show only as missing backups.",
    ),
    # Workflows
    Acknowledged(
        r"AwsSolutions-IAM5\[Resource::\*\]",
        r"(CallConsent|DelayedDelivery)/Role/DefaultPolicy/Resource",
        "Step Functions sets up the delivery of its log and sends its traces with actions of CloudWatch Logs and X-Ray "
        "that know no resource; the only other thing the role allows is to send to its one queue.",
    ),
    # Buckets
    Acknowledged(
        "AwsSolutions-S1",
        "(Erasures|FailedBatches|Recordings)/Resource",
        "No policy of the stack lets anyone but its functions reach the objects; clients get URLs that last 15 "
        "minutes, and the request that hands one out is logged. Who wants each access on record turns on CloudTrail's "
        "data events.",
    ),
)


def findings(scope: IConstruct) -> list[Finding]:
    """What the rules have against the resources below a construct, without what is acknowledged on them."""
    return [
        Finding(violation.rule_name, resource.construct_path or "")
        for violation in AwsSolutionsChecks().validate_scope(scope).violations
        for resource in violation.violating_resources
    ]


def acknowledge(stack: Stack) -> None:
    """Put the reasons on the very resources that the findings are on, where plugins and `cdk synth` look for them."""
    for finding in findings(stack):
        for line in ACKNOWLEDGED:
            if line.covers(finding):
                construct = stack.node.root
                for name in finding.path.split("/"):
                    construct = construct.node.find_child(name)
                Validations.of(construct).acknowledge(Acknowledgment(id=finding.rule, reason=line.reason))
