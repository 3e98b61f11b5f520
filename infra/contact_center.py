"""What live calls need in an instance of Amazon Connect, made on request: the flow, its bot, and where it records.

The flow (`contact_flow.json`, in the Amazon Connect Flow language) says the call's opening and then hands what the
customer says to the bot, whose every answer is its code hook's, until the hook has set `call_ended`.
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
"""What the flow's definition has in place of the alias's ARN."""
LOCALE = "en_US"
RECORDINGS_PREFIX = "connect/CallRecordings"
"""Contact Lens has its own, `Analysis`, beside it."""

_HOOK = {"enabled": True}
INTENTS: list[dict[str, Any]] = [
    # A bot is commonly expected to have an utterance of its own, so a greeting is one; the hook treats all alike.
    {"name": "Talk", "sampleUtterances": [{"utterance": "hello"}], "fulfillmentCodeHook": _HOOK},
    {
        "name": "FallbackIntent",
        "parentIntentSignature": "AMAZON.FallbackIntent",
        "fulfillmentCodeHook": _HOOK,
    },
]


def instance_arn(stack: Stack, instance_id: str) -> str:
    """The ARN of an instance of the stack's account and region."""
    return stack.format_arn(service="connect", resource=f"instance/{instance_id}")


def contact_flow(stack: Stack, instance: str, hook: lambda_.Alias) -> str:
    """Make the flow, and its bot whose answers are `hook`'s, in an instance, given by its ARN; the flow's id."""
    alias = _bot(stack, hook)
    association = connect.CfnIntegrationAssociation(
        stack, "BotInInstance", instance_id=instance, integration_type="LEX_BOT", integration_arn=alias.attr_arn
    )
    flow = connect.CfnContactFlow(
        stack,
        "ContactFlow",
        instance_arn=instance,
        name=stack.stack_name,
        type="CONTACT_FLOW",
        content=CONTACT_FLOW.read_text(encoding="utf-8").replace(BOT_ALIAS, alias.attr_arn),
    )
    # Connect refuses a flow with a bot that its instance does not know.
    flow.add_dependency(association)
    # arn:…:instance/INSTANCE/contact-flow/FLOW
    return Fn.select(3, Fn.split("/", flow.attr_contact_flow_arn))


def keep_recordings(stack: Stack, instance: str, bucket: s3.Bucket) -> None:
    """Let an instance put its recordings into the bucket; an instance has one such place."""
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
    # A version is a snapshot and never changes: another definition needs another version, so its id has the digest.
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
    """What a bot may do: speak. Polly's action has no resource to be bound to."""
    role = iam.Role(
        stack,
        "BotRole",
        assumed_by=iam.ServicePrincipal(
            "lexv2.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": stack.account}}
        ),
        description="What the bot of live calls may do",
    )
    role.add_to_policy(iam.PolicyStatement(actions=["polly:SynthesizeSpeech"], resources=["*"]))
    return role
