"""Optional resources of live calls in an Amazon Connect instance: the flow, its bot, and the storage of recordings.

The flow (`contact_flow.json`, in the Amazon Connect Flow language) plays the call's opening, which says that the call
is recorded, begins to record, and passes what the customer says to the bot. The bot's code hook gives every answer,
until it sets `call_ended`.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from aws_cdk import Fn, Stack
from aws_cdk import aws_connect as connect
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lex as lex
from aws_cdk import aws_s3 as s3

CONTACT_FLOW = Path(__file__).parent / "contact_flow.json"
BOT_ALIAS = "${bot_alias}"
"""The placeholder of the alias's ARN in the flow's definition."""
LOCALE = "en_US"
RECORDINGS_PREFIX = "connect/CallRecordings"
"""Contact Lens uses its own prefix, `Analysis`, beside it."""

_HOOK = {"enabled": True}
INTENTS: list[dict[str, Any]] = [
    # A bot usually needs an intent with an utterance, so this one has a greeting. The hook treats all intents alike.
    {"name": "Talk", "sampleUtterances": [{"utterance": "hello"}], "fulfillmentCodeHook": _HOOK},
    {
        "name": "FallbackIntent",
        "parentIntentSignature": "AMAZON.FallbackIntent",
        "fulfillmentCodeHook": _HOOK,
    },
]


def instance_arn(stack: Stack, instance_id: str) -> str:
    """The ARN of a Connect instance in the stack's account and region."""
    return stack.format_arn(service="connect", resource=f"instance/{instance_id}")


def definition(bot_alias: str, *, records: bool) -> str:
    """The flow in the Amazon Connect Flow language. If it `records`, that begins after the opening has said so."""
    flow = json.loads(CONTACT_FLOW.read_text(encoding="utf-8").replace(BOT_ALIAS, bot_alias))
    if not records:
        actions = {action["Identifier"]: action for action in flow["Actions"]}
        record = actions.pop("record")
        actions["opening"]["Transitions"]["NextAction"] = record["Transitions"]["NextAction"]
        flow["Actions"] = [*actions.values()]
    return json.dumps(flow)


def contact_flow(stack: Stack, instance: str, hook: lambda_.Alias, *, records: bool) -> str:
    """Create the flow, and its bot with the code hook `hook`, in the instance with this ARN. Returns the flow's id."""
    alias = _bot(stack, hook)
    # It also writes the alias's resource policy, by which Connect may talk to the bot: its handler has the permissions
    # lex:CreateResourcePolicy, UpdateResourcePolicy and CreateResourcePolicyStatement for that (registry schema of
    # AWS::Connect::IntegrationAssociation, "handlers"). A policy of ours would be a second writer of the same resource.
    association = connect.CfnIntegrationAssociation(
        stack, "BotInInstance", instance_id=instance, integration_type="LEX_BOT", integration_arn=alias.attr_arn
    )
    flow = connect.CfnContactFlow(
        stack,
        "ContactFlow",
        instance_arn=instance,
        name=stack.stack_name,
        type="CONTACT_FLOW",
        content=definition(alias.attr_arn, records=records),
    )
    # Connect rejects a flow whose bot is not associated with the instance.
    flow.add_dependency(association)
    # arn:…:instance/INSTANCE/contact-flow/FLOW
    return Fn.select(3, Fn.split("/", flow.attr_contact_flow_arn))


def keep_recordings(stack: Stack, instance: str, bucket: s3.Bucket) -> None:
    """Store the instance's recordings in the bucket. An instance has one such storage location."""
    connect.CfnInstanceStorageConfig(
        stack,
        "CallRecordings",
        instance_arn=instance,
        resource_type="CALL_RECORDINGS",
        storage_type="S3",
        s3_config=connect.CfnInstanceStorageConfig.S3ConfigProperty(
            bucket_name=bucket.bucket_name, bucket_prefix=RECORDINGS_PREFIX
        ),
    )


def _bot(stack: Stack, hook: lambda_.Alias) -> lex.CfnBotAlias:
    locale = {"localeId": LOCALE, "nluConfidenceThreshold": 0.4, "intents": INTENTS}
    bot = lex.CfnBot(
        stack,
        "Bot",
        name=stack.stack_name,
        role_arn=_role(stack).role_arn,
        data_privacy={"ChildDirected": False},
        idle_session_ttl_in_seconds=300,
        auto_build_bot_locales=True,
        bot_locales=[locale],
    )
    # A version is an immutable snapshot. A changed definition needs a new version, so the id contains the digest.
    digest = hashlib.sha256(json.dumps(locale, sort_keys=True).encode()).hexdigest()[:8]
    version = lex.CfnBotVersion(
        stack,
        f"BotVersion{digest}",
        bot_id=bot.attr_id,
        bot_version_locale_specification=[
            {"localeId": LOCALE, "botVersionLocaleDetails": {"sourceBotVersion": "DRAFT"}}
        ],
    )
    code_hook = {"codeHookInterfaceVersion": "1.0", "lambdaArn": hook.function_arn}
    return lex.CfnBotAlias(
        stack,
        "BotAlias",
        bot_id=bot.attr_id,
        bot_alias_name="live",
        bot_version=version.attr_bot_version,
        bot_alias_locale_settings=[
            {
                "localeId": LOCALE,
                "botAliasLocaleSetting": {"enabled": True, "codeHookSpecification": {"lambdaCodeHook": code_hook}},
            }
        ],
    )


def _role(stack: Stack) -> iam.Role:
    """The bot's role: it may synthesize speech. Polly's action does not support resource-level permissions."""
    role = iam.Role(
        stack,
        "BotRole",
        assumed_by=iam.ServicePrincipal(
            "lexv2.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": stack.account}}
        ),
        description="Permissions of the bot of live calls",
    )
    role.add_to_policy(iam.PolicyStatement(actions=["polly:SynthesizeSpeech"], resources=["*"]))
    return role
