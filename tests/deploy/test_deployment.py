"""A real `cdk bootstrap`, `deploy`, second `deploy` and `destroy` of the very app, and requests to it in between.

The rehearsal (`infra/rehearse`) makes both deploys, as on AWS, and each of its other steps that LocalStack has.

Real: the CDK's command line, the template, the bundle but for its platform, AWS's runtime client that runs it, and
DynamoDB Local; LocalStack does API Gateway, event source mappings with filters, SQS, Step Functions, KMS and the
schedule as the template says. Variables are set at each function's start, outside the stack, because receivers here
are on loopback, nobody is to be called and a day is long: ALLOW_LOOPBACK_RECEIVERS, SIMULATE_LIVE and SPEED.

The requests are those of tests/conformance: of the tests that are not of the local runner, and of their cases, as many
as SAMPLE says. Tests here look inside.

What LocalStack cannot do, and what covers it instead:

| not here | covered by |
|---|---|
| IAM: every call is allowed | tests/infra: each role may do what the topology says |
| the gateway's own errors: templates and headers are stored, not applied | stored ones are compared here; tests/infra |
| arm64 wheels, TLS, the API's own host name | tests/infra/test_bundle.py for the wheels; only AWS for the rest |
| throttling, the access log, functions' logs in CloudWatch | tests/infra for the settings |
| metrics: alarms exist and never ring; neither a dashboard nor a filter of the access log is made | tests/infra |
| many things at once: a queue is served one message at a time | `make test`, with what is marked `parallel` |
| waits long enough to act in, at SPEED 50 | `make test`, with a runner of its own |
| gradual releases, backups, budgets, pinned accounts, reservations: stages other than dev have them | tests/infra |
| limits on concurrency, a stream's on-failure bucket | tests/integration for what the functions do |
| TTL, transaction conflicts (DynamoDB Local) | expiry is checked in code: tests/unit, tests/integration |
| Cognito | tests/infra for the pool; tests/integration/admin signs in at another OpenID Connect provider |
| Amazon Connect, WhatsApp, Bedrock | tests/unit, with requests held against AWS's service models |
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from infra import topology
from infra.gateway_responses import GATEWAY_RESPONSES
from infra.local import processes
from infra.stack_names import API_OUTPUT, FAILURES_OUTPUT, FAN_OUT_OUTPUT, TABLE_OUTPUT
from shared.core.metrics import HANGING_ENDPOINTS
from shared.webhooks.endpoints.resource import HANGING_FROM
from tests.deploy.cloud import ROOT, SPEED, Cloud, report
from tests.deploy.conftest import Rehearse
from tests.deploy.deployed import STACK, Deployed, client_of, make_keys, outputs_of
from tests.deploy.inventory import KINDS, executions, inventory, list_all, statuses
from tests.support.client import Client, wait_for
from tests.support.client_actions import (
    create_appointment,
    create_customer,
    events_about,
)
from tests.support.receivers import hang_after_request
from tests.support.signed_receiver import Receiver, service_signature_is_valid

PATIENCE = 60
"""Seconds; functions start cold, and queues are looked into once a second."""

QUEUE_WAITS = 3
"""Waits of 5 s, 30 s and 5 min go through the delay queue; the next, of 30 min, through the state machine."""

SLOWNESS = 4
"""How much longer than the local runner's may waits take that the conformance suite gives up on."""

WORKERS = 3
"""Of the conformance suite: while some wait, another asks."""

SAMPLE = "4,16"
"""Every fourth test of a file, and every 16th case of it, of two thousand in all: LocalStack answers some ten requests
a second."""

PRETENDED = {
    "AWS::CloudWatch::Dashboard",
    "AWS::Cognito::UserPool",
    "AWS::Cognito::UserPoolClient",
    "AWS::Cognito::UserPoolDomain",
    "AWS::Logs::MetricFilter",
}
"""Resource types that LocalStack says it has made and has not."""


def run(command: list[str], settings: Mapping[str, str]) -> None:
    """Run a command in the checkout, its output here."""
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | settings, preexec_fn=processes.die_with_parent(), check=False
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}"


# 1. Bootstrap and deploy


def test_localstack_listens_on_loopback_alone(cloud: Cloud) -> None:
    # Who listens on all interfaces answers here too.
    with pytest.raises(OSError, match=r"refused|unreachable|assign"):
        socket.create_connection(("127.0.0.2", cloud.port), timeout=5)


def test_bootstrap_completes(bootstrapped: Cloud) -> None:
    found = statuses(bootstrapped, "CDKToolkit")
    assert found
    assert {*found.values()} == {"CREATE_COMPLETE"}, found


def test_deploy_completes_every_resource(bootstrapped: Cloud, deployed: Deployed) -> None:
    found = statuses(bootstrapped, STACK)
    assert len(found) > len(topology.FUNCTIONS)
    assert {*found.values()} == {"CREATE_COMPLETE"}, found
    assert bootstrapped.pretended() <= PRETENDED


def test_deploy_tells_where_everything_is(deployed: Deployed) -> None:
    for name in (API_OUTPUT, TABLE_OUTPUT, FAILURES_OUTPUT, FAN_OUT_OUTPUT):
        assert deployed.outputs[name], name
    assert deployed.api_url.endswith("/dev")


def test_every_function_of_the_topology_is_there(cloud: Cloud, deployed: Deployed) -> None:
    made = list_all(cloud, "lambda", "list_functions", "Functions")
    ours = [each for each in made if each["Handler"] == topology.ENTRY_POINT]
    names = {each["Environment"]["Variables"]["SERVICE_NAME"] for each in ours}
    assert names == {function.name for function in topology.FUNCTIONS}


# 2. Requests


def test_retries_come_through_the_delay_queue_and_then_the_state_machine(
    cloud: Cloud, client: Client, receiver: Receiver
) -> None:
    report("requests")
    hook = receiver.hook(*[500] * (QUEUE_WAITS + 1), 200)
    endpoint = client.post("/v1/webhook_endpoints", {"url": hook.url, "event_filters": ["customer.*"]}).ok(201)
    customer = create_customer(client)
    hook.wait_about(customer["id"], count=QUEUE_WAITS + 1, timeout=PATIENCE)
    assert wait_for(lambda: executions(cloud, "delayed_delivery") == ["RUNNING"])
    hook.wait_about(customer["id"], count=QUEUE_WAITS + 2, timeout=PATIENCE)
    assert wait_for(lambda: executions(cloud, "delayed_delivery") == ["SUCCEEDED"], PATIENCE)
    (event,) = events_about(client, customer["id"])

    def succeeded_delivery() -> Any:
        (delivery,) = client.get(f"/v1/events/{event['id']}/deliveries").ok()["data"]
        return delivery["status"] == "succeeded" and delivery

    assert wait_for(succeeded_delivery, PATIENCE)["attempt_count"] == QUEUE_WAITS + 2
    assert len(hook.about(customer["id"])) == QUEUE_WAITS + 2
    client.delete(f"/v1/webhook_endpoints/{endpoint['id']}").ok()


@pytest.fixture(scope="module")
def hanging_endpoint(client: Client, receiver: Receiver) -> str:
    """The path of an endpoint that always hangs, and so many events that its attempts belong to a queue of their own.

    Each attempt takes 15 seconds, so they are made while other tests run.
    """
    # Attempts overlap, so that a response to the next one could come before all of these time out.
    hook = receiver.hook(hang_after_request)
    endpoint = client.post("/v1/webhook_endpoints", {"url": hook.url, "event_filters": ["customer.*"]}).ok(201)
    for _ in range(HANGING_FROM):
        create_customer(client)
    return f"/v1/webhook_endpoints/{endpoint['id']}"


@pytest.mark.usefixtures("hanging_endpoint")
def test_the_conformance_suite_passes(cloud: Cloud, stage: dict[str, str]) -> None:
    report("the conformance suite\n")
    settings = stage | {"SPEED": str(SPEED), "PATIENCE": str(SLOWNESS), "SAMPLE": str(SAMPLE)}
    for prefix in ("", "OTHER_"):
        made = [make_keys(cloud, f"{prefix}{worker}") for worker in range(WORKERS)]
        settings |= {prefix + name: " ".join(keys[name] for keys in made) for name in made[0]}
    spread = ["-n", str(WORKERS), "--dist", "loadfile"]
    run([sys.executable, "-m", "pytest", *spread, "-m", "not runner and not parallel", "tests/conformance"], settings)


def test_make_smoke_passes_and_leaves_nothing_behind(cloud: Cloud, deployed: Deployed, stage: dict[str, str]) -> None:
    report("make smoke\n")
    key = make_keys(cloud, "Green Salon")["TEST_KEY"]
    settings = {"CONNECT_TO": stage["CONNECT_TO"], "PATIENCE": str(SLOWNESS)}
    run(["make", "smoke", f"URL={stage['BASE_URL']}", f"KEY={key}"], settings)
    client = client_of(cloud, deployed, key)
    for path in ("customers", "appointments", "webhook_endpoints"):
        assert client.get(f"/v1/{path}").ok()["data"] == [], path
    assert client.get("/v1/sessions").ok()["data"], "nobody was called"
    assert {one["status"] for one in client.get("/v1/conversations").ok()["data"]} == {"ended"}


def test_a_receiver_that_hangs_gets_a_retry_from_the_queue_of_hanging_endpoints(
    cloud: Cloud, client: Client, hanging_endpoint: str
) -> None:
    wait_for(lambda: any(f'"queue_class":"{HANGING_ENDPOINTS}"' in line for _, line in cloud.logs()), 2 * PATIENCE)
    client.delete(hanging_endpoint).ok()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ([], "URL=https://… (the ApiUrl that make deploy prints) and KEY=sk_test_…"),
        (["URL=https://example.com"], "KEY=sk_test_…"),
        (["URL=https://example.com", "KEY=sk_live_1"], "must be a test key"),
    ],
)
def test_make_smoke_refuses_what_it_must_not_use(settings: list[str], words: str) -> None:
    # Without what `make test-deploy` hands down, which is a make too.
    inherited = {"KEY", "URL", "MAKEFLAGS", "MAKELEVEL", "MFLAGS"}
    environment = {name: value for name, value in os.environ.items() if name not in inherited}
    refused = subprocess.run(
        ["make", "smoke", *settings], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert refused.returncode
    assert refused.stdout == ""
    told, *_ = refused.stderr.splitlines()
    assert words in told
    assert "sk_live_1" not in told


def test_the_gateways_own_errors_are_set_to_our_envelope(cloud: Cloud, deployed: Deployed) -> None:
    answer = cloud.client("apigateway").get_gateway_responses(restApiId=deployed.api_id, limit=500)
    stored = {item["responseType"]: item for item in answer["items"]}
    for response in GATEWAY_RESPONSES:
        found = stored[response.kind]
        headers = {name.rpartition(".")[2]: value for name, value in found["responseParameters"].items()}
        assert headers == response.header_mappings()
        assert found["responseTemplates"] == {"application/json": response.body()}
        assert found.get("statusCode") == (str(response.status) if response.status else None)


def test_nothing_went_wrong_unseen(cloud: Cloud, client: Client) -> None:
    assert not client.promises.new, "\n".join(client.promises.new)
    for machine in topology.STATE_MACHINES:
        assert {*executions(cloud, machine.name)} <= {"RUNNING", "SUCCEEDED"}, machine.name
    sqs = cloud.client("sqs")
    for url in list_all(cloud, "sqs", "list_queues", "QueueUrls"):
        if "DeadLetters" in url:
            found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])
            assert found["Attributes"] == {"ApproximateNumberOfMessages": "0"}, url
    signs = ('"level":"ERROR"', "Traceback")
    errors = [f"{name}: {line[:600]}" for name, line in cloud.logs() if any(sign in line for sign in signs)]
    assert not errors, "\n".join(errors)


# 3. A second deploy


def test_a_second_deploy_keeps_data_and_goes_unnoticed(
    cloud: Cloud, deployed: Deployed, client: Client, rehearse: Rehearse
) -> None:
    kept = create_appointment(client)
    report("rehearsal: cdk deploy of changed code, under requests")
    said = rehearse("--only", "second_release")
    report(said.splitlines()[-2])
    assert "second_release: ok" in said
    assert {*statuses(cloud, STACK).values()} == {"CREATE_COMPLETE", "UPDATE_COMPLETE"}
    assert outputs_of(cloud) == deployed
    assert client.get(f"/v1/appointments/{kept['id']}").ok() == kept


def test_events_still_reach_a_receiver_after_it(client: Client, receiver: Receiver) -> None:
    hook = receiver.hook()
    endpoint = client.post("/v1/webhook_endpoints", {"url": hook.url}).ok(201)
    customer = create_customer(client)
    (received,) = hook.wait_about(customer["id"], timeout=PATIENCE)
    assert service_signature_is_valid(received, endpoint["secret"])


def test_the_steps_of_the_rehearsal_that_need_no_more_than_localstack_see_what_they_must(
    cloud: Cloud, client: Client, receiver: Receiver, rehearse: Rehearse
) -> None:
    report("rehearsal: rollback, and deploy of what is deployed; a failing endpoint; erasures")
    steps = ("failing_endpoint", "rollback", "erase", "erase_from_ledger")
    said = rehearse("--failing-url", receiver.hook(500).url, "--only", *steps)
    assert re.findall(r"^(\w+): ok", said, re.MULTILINE) == [*steps], said
    assert client.get("/v1/ping").ok()["object"] == "second ping"
    assert {*statuses(cloud, STACK).values()} == {"CREATE_COMPLETE", "UPDATE_COMPLETE"}


# 4. Destroy


def test_destroy_leaves_only_what_is_kept_on_purpose(cloud: Cloud, before_deploy: set[str], deployed: Deployed) -> None:
    report("cdk destroy")
    made = inventory(cloud) - before_deploy
    assert {name.partition(":")[0] for name in made} >= {"apigateway", "dynamodb", "iam", "kms", "lambda", "s3", "sqs"}
    formation = cloud.client("cloudformation")
    template = formation.get_template(StackName=STACK)["TemplateBody"]["Resources"]
    names = {
        resource["LogicalResourceId"]: resource["PhysicalResourceId"]
        for resource in formation.describe_stack_resources(StackName=STACK)["StackResources"]
    }
    retained = {name for name, resource in template.items() if resource.get("DeletionPolicy") == "RetainExceptOnCreate"}
    kept = {f"{KINDS[kind]}: {names[name]}" for name in retained if (kind := template[name]["Type"]) in KINDS}
    assert kept <= made
    for name in template.keys() - retained:
        if template[name]["Type"] == "AWS::S3::Bucket":
            # LocalStack would empty it, AWS refuses to delete it.
            assert not cloud.client("s3").list_objects_v2(Bucket=names[name])["KeyCount"], f"{name} is not empty"

    cloud.cdk("destroy", "--all", "--force")
    assert inventory(cloud) - before_deploy == kept


def test_the_rehearsal_deletes_what_a_destroy_leaves(cloud: Cloud, before_deploy: set[str], rehearse: Rehearse) -> None:
    assert "clean_up: ok" in rehearse("--clean-up")
    assert not [name for name in inventory(cloud) - before_deploy if name.startswith("s3:")]
