"""What live calls and consent on WhatsApp have in the stack: the roads in, the grants, and the contact center."""

from __future__ import annotations

import json
from typing import Any

import pytest

from infra import topology
from infra.topology import Function
from shared.telephony import contact_lens
from tests.support.synth import ACCOUNT, CALLS, REGION, Resource, Synthesized
from tests.support.templates import allowed_pairs, arn, flatten, matches, refuses_plain_http

INSTANCE_ID = CALLS["connect"]["instance_id"]
INSTANCE = f"arn:${{AWS::Partition}}:connect:{REGION}:{ACCOUNT}:instance/{INSTANCE_ID}"
CONTACT_ID = "0b8a5c3e-6f50-4c55-a3a4-1d5b1f3a0c11"

each_function = pytest.mark.parametrize("function", topology.FUNCTIONS, ids=lambda function: function.name)
each_stage = pytest.mark.parametrize("stage", ["dev", "prod", "calls"])


@pytest.fixture
def calls(stages: dict[str, Synthesized]) -> Synthesized:
    return stages["calls"]


def only_resource(stage: Synthesized, kind: str) -> tuple[str, Resource]:
    ((name, made),) = stage.all(kind).items()
    return name, made


def replies(stage: Synthesized) -> str:
    """The topic of what customers answer on WhatsApp."""
    (topic,) = [name for name in stage.all("AWS::SNS::Topic") if name.startswith("Whatsapp")]
    return topic


def grants_to(stage: Synthesized, function: Function, service: str) -> set[tuple[str, str]]:
    statements = allowed_pairs(stage.statements(stage.role_of(function.name)))
    return {(action, flatten(json.loads(where))) for action, where in statements if action.startswith(f"{service}:")}


# Recordings


@each_stage
def test_recordings_outlive_every_stack(stages: dict[str, Synthesized], stage: str) -> None:
    made = stages[stage].template["Resources"][stages[stage].recordings]
    assert (made["DeletionPolicy"], made["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")


@each_stage
def test_the_bucket_tells_eventbridge_by_its_own_property(stages: dict[str, Synthesized], stage: str) -> None:
    found = stages[stage]
    told = found[found.recordings]["NotificationConfiguration"]
    assert told == {"EventBridgeConfiguration": {"EventBridgeEnabled": True}}
    assert found.all("AWS::Lambda::Function").keys() == {*found.functions.values()}, "a function that is none of ours"
    assert not [kind for kind in found.kinds if kind.startswith("Custom::")]


def test_recordings_are_kept_for_a_year(prod: Synthesized) -> None:
    (rule,) = prod[prod.recordings]["LifecycleConfiguration"]["Rules"]
    assert (rule["Status"], rule["ExpirationInDays"]) == ("Enabled", 365)


# Roads in


def event(source: str, detail_type: str, detail: Any = None) -> dict[str, Any]:
    return {"source": source, "detail-type": detail_type, "detail": detail or {}}


def patterns(stage: Synthesized) -> list[Any]:
    return [rule["EventPattern"] for rule in stage.all("AWS::Events::Rule").values() if "EventPattern" in rule]


def test_events_of_the_stages_instance_and_new_recordings_go_into_call_events_and_nothing_else(
    calls: Synthesized,
) -> None:
    rules = [rule for rule in calls.all("AWS::Events::Rule").values() if "EventPattern" in rule]
    dead_letters = calls[calls.queues["call_events"]]["RedrivePolicy"]["deadLetterTargetArn"]
    for rule in rules:
        (target,) = rule["Targets"]
        assert json.dumps(target["Arn"]) == arn(calls.queues["call_events"])
        assert target["DeadLetterConfig"]["Arn"] == dead_letters, "what cannot be handed over is lost"
        assert rule["State"] == "ENABLED"

    def is_taken(happened: dict[str, Any]) -> bool:
        return any(matches(pattern, happened) for pattern in map(spell, patterns(calls)))

    mine = {"bucket": {"name": f"${{{calls.recordings}}}"}}
    other = {"bucket": {"name": f"${{{calls.bucket}}}"}}
    instance, another = {"instanceArn": INSTANCE}, {"instanceArn": f"{INSTANCE[:-1]}0"}
    assert is_taken(event("aws.connect", "Amazon Connect Contact Event", instance))
    assert is_taken(event("aws.connect", "Contact Event", instance))
    assert not is_taken(event("aws.connect", "Amazon Connect Contact Event", another))
    assert not is_taken(event("aws.connect", "Amazon Connect Contact Event"))
    assert is_taken(event("aws.s3", "Object Created", mine))
    assert not is_taken(event("aws.s3", "Object Created", other))
    assert not is_taken(event("aws.s3", "Object Deleted", mine))
    assert not is_taken(event("aws.connect", "Contact Lens Post Call Rules Matched", instance))
    assert not is_taken(event("aws.s3", "Contact Event", mine))


def spell(pattern: Any) -> Any:
    """The pattern with its references as text."""
    if isinstance(pattern, dict) and not {"Ref", "Fn::Join"} & pattern.keys():
        return {key: spell(part) for key, part in pattern.items()}
    return [flatten(value) for value in pattern] if isinstance(pattern, list) else pattern


def test_a_stage_without_an_instance_takes_nobodys_events_of_connect(prod: Synthesized) -> None:
    assert "aws.connect" not in {source for pattern in patterns(prod) for source in pattern["source"]}


def test_what_customers_write_waits_encrypted_with_a_key_that_whatsapp_may_use(prod: Synthesized) -> None:
    key = prod[replies(prod)]["KmsMasterKeyId"]["Fn::GetAtt"][0]
    statements = prod[key]["KeyPolicy"]["Statement"]
    (admitted,) = [one for one in statements if one["Principal"] == {"Service": "social-messaging.amazonaws.com"}]
    assert {*admitted["Action"]} == {"kms:GenerateDataKey", "kms:Decrypt"}
    assert admitted["Condition"] == {"StringEquals": {"aws:SourceAccount": ACCOUNT}}


def senders(stage: Synthesized, queue: str) -> set[tuple[str, str]]:
    """The services that a queue's policy admits, each with the resource in whose name it comes."""
    name = stage.queues[queue]
    policies = [policy for policy in stage.all("AWS::SQS::QueuePolicy").values() if {"Ref": name} in policy["Queues"]]
    statements = [one for policy in policies for one in policy["PolicyDocument"]["Statement"]]
    found = set()
    for statement in statements:
        if statement["Effect"] == "Allow":
            (compared,) = statement["Condition"].values()
            found.add((statement["Principal"]["Service"], flatten(compared["aws:SourceArn"])))
    return found


def test_a_queue_takes_from_other_services_only_what_its_rules_and_topic_send(prod: Synthesized) -> None:
    rules = {name for name, rule in prod.all("AWS::Events::Rule").items() if "EventPattern" in rule}
    topic = replies(prod)
    for queue in topology.QUEUES:
        expected = {("events.amazonaws.com", f"${{{rule}.Arn}}") for rule in rules if queue.rules}
        expected |= {("sns.amazonaws.com", f"${{{topic}}}")} if queue.topic else set()
        assert senders(prod, queue.name) == expected, queue.name


def test_only_whatsapp_of_this_account_publishes_to_the_topic(prod: Synthesized) -> None:
    topic = replies(prod)
    (policy,) = [one for one in prod.all("AWS::SNS::TopicPolicy").values() if one["Topics"] == [{"Ref": topic}]]
    (admitted,) = [one for one in policy["PolicyDocument"]["Statement"] if one["Effect"] == "Allow"]
    assert admitted["Action"] == "sns:Publish"
    assert admitted["Principal"] == {"Service": "social-messaging.amazonaws.com"}
    assert admitted["Condition"] == {"StringEquals": {"aws:SourceAccount": ACCOUNT}}
    assert refuses_plain_http(policy)
    assert prod.template["Outputs"]["WhatsappTopicArn"]["Value"] == {"Ref": topic}


def test_what_whatsapp_publishes_arrives_as_it_is(prod: Synthesized) -> None:
    topic = replies(prod)
    (subscription,) = [one for one in prod.all("AWS::SNS::Subscription").values() if one["TopicArn"] == {"Ref": topic}]
    (queue,) = [queue.name for queue in topology.QUEUES if queue.topic]
    assert subscription["Protocol"] == "sqs"
    assert json.dumps(subscription["Endpoint"]) == arn(prod.queues[queue])
    assert subscription["RawMessageDelivery"] is True


@each_function
def test_only_lex_of_this_account_invokes_a_code_hook(prod: Synthesized, function: Function) -> None:
    target = prod.live(function.name)
    permissions = [p for p in prod.all("AWS::Lambda::Permission").values() if p["FunctionName"] == target]
    from_lex = [p for p in permissions if p["Principal"] == "lexv2.amazonaws.com"]
    assert len(from_lex) == (1 if function.bot else 0)
    for permission in from_lex:
        assert permissions == [permission]
        assert permission["Action"] == "lambda:InvokeFunction"
        assert permission["SourceAccount"] == ACCOUNT
        where = f"arn:${{AWS::Partition}}:lex:{REGION}:{ACCOUNT}:bot-alias/*"
        assert flatten(permission["SourceArn"]) == where


# Grants of stages with live calls


@each_function
def test_without_settings_nobody_may_call_or_write(prod: Synthesized, function: Function) -> None:
    assert grants_to(prod, function, "connect") == grants_to(prod, function, "social-messaging") == set()
    variables = prod[prod.functions[function.name]]["Environment"]["Variables"]
    assert not [name for name in variables if name.startswith(("CONNECT_", "WHATSAPP_"))]


@each_function
def test_calls_are_placed_and_ended_in_the_stages_instance_alone(calls: Synthesized, function: Function) -> None:
    expected = {(action, f"{INSTANCE}/contact/*") for action in function.carrier}
    assert grants_to(calls, function, "connect") == expected


@each_function
def test_only_the_messenger_writes_and_from_the_stages_number_alone(calls: Synthesized, function: Function) -> None:
    number = CALLS["whatsapp"]["phone_number_id"].removeprefix("phone-number-id-")
    where = f"arn:${{AWS::Partition}}:social-messaging:{REGION}:{ACCOUNT}:phone-number-id/{number}"
    actions = ("SendWhatsAppMessage", "GetWhatsAppCallPermission") if function.messenger else ()
    assert grants_to(calls, function, "social-messaging") == {
        (f"social-messaging:{action}", where) for action in actions
    }


# The contact center


@pytest.mark.parametrize("stage", ["dev", "prod"])
def test_nothing_is_made_in_connect_unasked(stages: dict[str, Synthesized], stage: str) -> None:
    assert not [kind for kind in stages[stage].kinds if kind.startswith(("AWS::Connect::", "AWS::Lex::"))]


def test_every_utterance_goes_to_the_code_hook(calls: Synthesized) -> None:
    bot_name, bot = only_resource(calls, "AWS::Lex::Bot")
    version_name, version = only_resource(calls, "AWS::Lex::BotVersion")
    _, alias = only_resource(calls, "AWS::Lex::BotAlias")
    (locale,) = bot["BotLocales"]
    assert bot["AutoBuildBotLocales"] is True
    assert all(intent["FulfillmentCodeHook"]["Enabled"] for intent in locale["Intents"])
    assert "AMAZON.FallbackIntent" in {intent.get("ParentIntentSignature") for intent in locale["Intents"]}
    (versioned,) = version["BotVersionLocaleSpecification"]
    (setting,) = alias["BotAliasLocaleSettings"]
    assert locale["LocaleId"] == versioned["LocaleId"] == setting["LocaleId"] == "en_US"
    assert {flatten(version["BotId"]), flatten(alias["BotId"])} == {f"${{{bot_name}.Id}}"}
    assert flatten(alias["BotVersion"]) == f"${{{version_name}.BotVersion}}"
    hook = setting["BotAliasLocaleSetting"]["CodeHookSpecification"]["LambdaCodeHook"]
    assert hook["LambdaArn"] == calls.live("voice_turn")
    assert setting["BotAliasLocaleSetting"]["Enabled"] is True


def test_the_bot_may_only_speak(calls: Synthesized) -> None:
    _, bot = only_resource(calls, "AWS::Lex::Bot")
    role = bot["RoleArn"]["Fn::GetAtt"][0]
    assert {action for action, _ in allowed_pairs(calls.statements(role))} == {"polly:SynthesizeSpeech"}
    (trusted,) = calls[role]["AssumeRolePolicyDocument"]["Statement"]
    assert trusted["Principal"] == {"Service": "lexv2.amazonaws.com"}
    assert trusted["Condition"] == {"StringEquals": {"aws:SourceAccount": ACCOUNT}}


def test_the_flow_talks_with_the_bot_that_its_instance_knows(calls: Synthesized) -> None:
    alias, _ = only_resource(calls, "AWS::Lex::BotAlias")
    association_name, association = only_resource(calls, "AWS::Connect::IntegrationAssociation")
    assert "AWS::Lex::ResourcePolicy" not in calls.kinds, "the association writes it"
    flow_name, flow = only_resource(calls, "AWS::Connect::ContactFlow")
    assert flatten(association["InstanceId"]) == flatten(flow["InstanceArn"]) == INSTANCE
    assert association["IntegrationType"] == "LEX_BOT"
    assert flatten(association["IntegrationArn"]) == f"${{{alias}.Arn}}"
    assert association_name in calls.template["Resources"][flow_name]["DependsOn"]
    assert flow["Type"] == "CONTACT_FLOW"
    bots = [one for one in json.loads(flatten(flow["Content"]))["Actions"] if "LexV2Bot" in one["Parameters"]]
    assert [one["Parameters"]["LexV2Bot"]["AliasArn"] for one in bots] == [f"${{{alias}.Arn}}"]


def test_calls_run_the_flow_that_was_made(calls: Synthesized) -> None:
    flow, _ = only_resource(calls, "AWS::Connect::ContactFlow")
    for function in topology.FUNCTIONS:
        variables = calls[calls.functions[function.name]]["Environment"]["Variables"]
        expected = {"Fn::Select": [3, {"Fn::Split": ["/", {"Fn::GetAtt": [flow, "ContactFlowArn"]}]}]}
        assert variables.get("CONNECT_CONTACT_FLOW_ID") == (expected if function.carrier else None)
        assert not {"CONNECT_CREATE_FLOW", "CONNECT_STORE_RECORDINGS"} & variables.keys()


def test_recordings_go_where_the_service_looks_for_them(calls: Synthesized) -> None:
    _, storage = only_resource(calls, "AWS::Connect::InstanceStorageConfig")
    assert flatten(storage["InstanceArn"]) == INSTANCE
    assert (storage["ResourceType"], storage["StorageType"]) == ("CALL_RECORDINGS", "S3")
    assert storage["S3Config"]["BucketName"] == {"Ref": calls.recordings}
    key = f"{storage['S3Config']['BucketPrefix']}/ivr/2026/11/21/{CONTACT_ID}_20261121T06:30_UTC.wav"
    assert contact_lens.file_of(key) == contact_lens.File("recording", CONTACT_ID, redacted=False)
