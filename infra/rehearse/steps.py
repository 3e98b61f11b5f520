"""The steps of the rehearsal, in order: what each does and costs, and what must be seen."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from infra import topology
from infra.rehearse.rehearsal import FIRST_PING, HOUR, MINUTE, SECOND_PING, Rehearsal
from infra.rehearse.traffic import Traffic
from infra.stack_names import ADMIN_OUTPUT, API_OUTPUT, TABLE_OUTPUT, construct_id

MOST_FAILED, LONGEST_S = 0.01, 10
"""While a good release is deployed: the share of requests that may fail, and the seconds without a response."""
SHIFT_S = 4 * MINUTE
"""Seconds during which both releases must answer. The shortest `traffic_shift` takes five minutes."""
ROLLBACK_S = 60
"""Seconds within which `make rollback` must move all requests."""
ATTEMPTS = 3
"""The attempts to the failing endpoint that are waited for: at once, after 5 s and after 30 s."""
LEAVES_S = 5
"""Seconds between what a restore must bring back and what it must not. A restore is to a whole second."""


@dataclass(frozen=True)
class Step:
    """A step. `act` returns what it saw; `skipped` returns why the stage or the options do not allow the step.

    `dollars` is what it costs at most, besides the stage itself. `sees` says what must be seen.
    """

    name: str
    does: str
    sees: str
    minutes: int
    act: Callable[[Rehearsal], str]
    dollars: float = 0
    skipped: Callable[[Rehearsal], str] = lambda _: ""


def preflight(it: Rehearsal) -> str:
    """Check the account, as `make deploy` does."""
    it.run(sys.executable, "-m", "infra.preflight", it.name)
    bootstrapped = it.aws("cloudformation").describe_stacks(StackName="CDKToolkit")["Stacks"]
    return f"the account can have the stage; the CDK's stack is {bootstrapped[0]['StackStatus']}"


def first_release(it: Rehearsal) -> str:
    """Deploy the stage for the first time."""
    it.deploy("first")
    it.state["buckets"] = it.resources("AWS::S3::Bucket")
    it.save()
    it.must(it.release() == FIRST_PING, f"a ping got {it.release()}")
    return f"{it.outputs()[API_OUTPUT]} responds, with {len(topology.FUNCTIONS)} functions"


def canary(it: Rehearsal) -> str:
    """Start the canary, and wait for its alarm."""
    it.canary()
    if not it.stage.canary:
        return "it passed; the stage does not run it by itself"
    name = f"{it.stack}-canary-CanaryFailed"
    watch = it.aws("cloudwatch")

    def is_ok() -> bool:
        found = watch.describe_alarms(AlarmNames=[name])["MetricAlarms"]
        return [each["StateValue"] for each in found] == ["OK"]

    took = it.wait(f"the alarm {name} is OK", is_ok, within_s=20 * MINUTE, every_s=15)
    return f"it passed, and its alarm is OK after {took:.0f} s"


def sign_in(it: Rehearsal) -> str:
    """Invite the person, who signs in to the admin pages with a browser."""
    address = str(it.email)

    def listed() -> str:
        """The person's line in the list of members, which may have the address in another case."""
        lines = it.manage("members", "list", it.project()).splitlines()
        return next((line for line in lines if line.casefold().endswith(f"\t{address.casefold()}")), "")

    if not listed():
        it.manage("members", "add", it.project(), address, "--role", "owner")
    print(f"    Sign in at {it.outputs()[ADMIN_OUTPUT]} with the password that was sent to {address}.", flush=True)
    took = it.wait(
        f"{address} has signed in", lambda: bool(re.search(r"\tjoined \d", listed())), within_s=HOUR, every_s=10
    )
    return f"{address} has signed in, {took:.0f} s after the invitation"


def failing_endpoint(it: Rehearsal) -> str:
    """Let the webhooks of one endpoint fail, and see its retries and other deliveries."""
    # The API accepts no POST without a key.
    url = it.failing_url or f"{it.base_url}/v1/ping"
    endpoint = it.api("POST", "/v1/webhook_endpoints", {"url": url, "event_filters": ["customer.created"]})
    customer = it.create_customer()
    deliveries: list[Any] = []

    def failed() -> bool:
        for event in it.api("GET", f"/v1/events?object_id={customer['id']}")["data"]:
            deliveries[:] = it.api("GET", f"/v1/events/{event['id']}/deliveries")["data"]
        return not it.dry and bool(deliveries) and deliveries[0]["attempt_count"] >= ATTEMPTS

    took = it.wait(f"{ATTEMPTS} attempts have failed", failed, within_s=5 * MINUTE)
    last = deliveries[0]["attempts"][-1] if not it.dry else {}
    seen = last.get("response_status_code") or last.get("error_code")
    if it.stage.canary:
        it.canary()
    it.api("DELETE", f"/v1/webhook_endpoints/{endpoint['id']}")
    it.api("DELETE", f"/v1/customers/{customer['id']}")
    others = "; meanwhile the canary's webhook arrived" if it.stage.canary else ""
    return f"{ATTEMPTS} attempts in {took:.0f} s, the last one with {seen}{others}"


def _begin_at(it: Rehearsal, release: str) -> None:
    """Go back to this release, if an interrupted run of the step has deployed a later one."""
    if not it.dry and it.release() != release:
        it.run(sys.executable, "-m", "infra.rollback", it.name)
        it.wait("the release before it answers", lambda: it.release() == release, within_s=ROLLBACK_S)


def second_release(it: Rehearsal) -> str:
    """Deploy changed code while requests go on."""
    _begin_at(it, FIRST_PING)
    with it.traffic() as traffic:
        it.deploy("second")
        it.wait("the second release answers", lambda: it.release() == SECOND_PING, within_s=MINUTE)
    it.must(traffic.sent > 0, "no request was sent")
    it.must(len(traffic.failures) <= MOST_FAILED * traffic.sent, f"{_failures(traffic)}")
    it.must(traffic.longest_s <= LONGEST_S, f"{traffic.longest_s:.0f} s passed without a response")
    for customer in traffic.customers[-10:]:
        it.api("GET", f"/v1/customers/{customer}")
    overlap = traffic.overlap_s(FIRST_PING, SECOND_PING)
    it.must(not it.stage.traffic_shift or overlap >= SHIFT_S, f"both releases answered for {overlap:.0f} s only")
    pause = f"the longest time without a response was {traffic.longest_s:.1f} s"
    return f"{_failures(traffic)}; {pause}; both releases answered side by side for {overlap:.0f} s"


def rollback(it: Rehearsal) -> str:
    """Go back by `make rollback`, and forward by another deploy."""
    command = (sys.executable, "-m", "infra.rollback", it.name)

    def is_back() -> bool:
        return it.release() == FIRST_PING

    it.run(*command)
    took = it.wait("the first release answers", is_back, within_s=ROLLBACK_S, every_s=1)
    said = it.deploy("second")
    it.must("was moved to version" in said, "the deploy did not say that aliases were moved")
    it.wait("the second release answers", lambda: it.release() == SECOND_PING, within_s=MINUTE)
    return f"the first release answered {took:.0f} s after the command, and the second one after a deploy"


def bad_release(it: Rehearsal) -> str:
    """Deploy a release whose pings fail. Its alarm stops CodeDeploy, and CloudFormation rolls back."""
    _begin_at(it, SECOND_PING)
    with it.traffic() as traffic:
        it.deploy("bad", fails=True)
    status = it.stack_status()
    it.must(status == "UPDATE_ROLLBACK_COMPLETE", f"the stack is {status}")
    it.must(it.release() == SECOND_PING, f"a ping got {it.release()}")
    it.must(bool(traffic.failures), "no request reached the bad release")
    lasted = traffic.failed_at[-1] - traffic.failed_at[0] if traffic.failed_at else 0
    return f"{_failures(traffic)}, during {lasted:.0f} s; then the deploy failed and the stack was {status}"


def live_call(it: Rehearsal) -> str:
    """Call the person by Amazon Connect."""
    phone = str(it.phone)
    it.manage("calls", "limit", it.project(), "--prefix", phone, "--at-once", "1", "--per-day", "3")
    customer = it.api("POST", "/v1/customers", {"phone": phone, "name": "Rehearsal"}, live=True)
    requested = it.api("POST", f"/v1/customers/{customer['id']}/call", {}, live=True)
    found: dict[str, Any] = {}

    def ended() -> bool:
        found.update(it.api("GET", f"/v1/sessions/{requested['session_id']}", live=True))
        return found.get("ended_at") is not None

    print(f"    {phone} is called: answer, and talk to the assistant.")
    it.wait("the call has ended", ended, within_s=20 * MINUTE)
    seen = {name: found.get(name) for name in ("call_status", "outcome", "duration_seconds", "summary")}
    it.must(seen["call_status"] == "completed", f"the session has {json.dumps(seen)}")
    return json.dumps(seen)


def erase(it: Rehearsal) -> str:
    """Erase a customer. What the restore must bring back, and what not, is created around it."""
    kept, forgotten = it.create_customer(), it.create_customer()
    created = dt.datetime.fromisoformat(forgotten["created_at"])
    it.state["instant"] = (created.replace(microsecond=0) + dt.timedelta(seconds=2)).isoformat()
    it.pause(LEAVES_S)
    it.manage("customers", "erase", it.project(), forgotten["id"], "--mode", "test")
    it.must(it.gone(forgotten["id"]), "the customer is still there")
    lost = it.create_customer()
    it.state |= {"kept": kept["id"], "forgotten": forgotten["id"], "lost": lost["id"]}
    it.save()
    return f"{forgotten['id']} is gone"


def restore(it: Rehearsal) -> str:
    """Restore the table to the instant before the erasure, and let the stage use it: the runbook's steps 1 to 6.

    What a restore does not copy: DynamoDB API reference, "RestoreTableToPointInTime"
    (docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_RestoreTableToPointInTime.html).
    """
    new = it.restored_table
    old = it.state.setdefault("old_table", it.outputs()[TABLE_OUTPUT])
    it.state["new_table"] = new
    instant = dt.datetime.fromisoformat(it.state["instant"])
    dynamodb = it.aws("dynamodb")

    def can_be_restored() -> bool:
        found = dynamodb.describe_continuous_backups(TableName=old)["ContinuousBackupsDescription"]
        latest = found["PointInTimeRecoveryDescription"].get("LatestRestorableDateTime")
        return latest is not None and bool(latest >= instant)

    def is_active() -> bool:
        return bool(dynamodb.describe_table(TableName=new)["Table"]["TableStatus"] == "ACTIVE")

    def begin() -> None:
        it.wait("the table can be restored to that instant", can_be_restored, within_s=20 * MINUTE, every_s=15)
        dynamodb.restore_table_to_point_in_time(SourceTableName=old, TargetTableName=new, RestoreDateTime=instant)

    it.once("stop", lambda: _stop(it))
    it.once("restore", begin)
    took = it.wait(f"{new} is active", is_active, within_s=3 * HOUR, every_s=30)
    it.once("stream", lambda: _add_stream(dynamodb, new))
    it.wait(f"{new} is active again", is_active, within_s=10 * MINUTE)
    it.once("settings", lambda: _add_settings(it, dynamodb, new))
    it.once("import", lambda: _import(it, new))
    it.deploy("restored")
    it.must(it.outputs()[TABLE_OUTPUT] == new, f"the stage still uses {it.outputs()[TABLE_OUTPUT]}")
    return f"{new} has the state of {instant.isoformat()} after {took / MINUTE:.0f} min, and the stage uses it"


def _stop(it: Rehearsal) -> None:
    """Close the API and stop all workers."""
    _limit(it, dict.fromkeys(_limits(it), (0, 0)))
    _schedules(it, "disable_rule")
    _mappings(it, enabled=False)
    voice_turn = it.resource("AWS::Lambda::Function", "VoiceTurn")
    it.aws("lambda").put_function_concurrency(FunctionName=voice_turn, ReservedConcurrentExecutions=0)
    it.wait("the API is closed", lambda: it.release() == "429", within_s=5 * MINUTE)


def _start(it: Rehearsal) -> None:
    """Start the workers, and open the API."""
    it.forget_keys()
    _mappings(it, enabled=True)
    voice_turn = it.resource("AWS::Lambda::Function", "VoiceTurn")
    if reserved := it.stage.reserved_concurrency.get("voice_turn"):
        it.aws("lambda").put_function_concurrency(FunctionName=voice_turn, ReservedConcurrentExecutions=reserved)
    else:
        it.aws("lambda").delete_function_concurrency(FunctionName=voice_turn)
    _schedules(it, "enable_rule")
    _limit(it, _limits(it))
    it.wait("the API is open", lambda: it.release() == SECOND_PING, within_s=5 * MINUTE)


def _limits(it: Rehearsal) -> dict[str, tuple[int, int]]:
    """Rate and burst by method. Methods with limits of their own are not among `*/*`.

    API Gateway API reference, "Stage", `methodSettings`: docs.aws.amazon.com/apigateway/latest/api/API_Stage.html
    """
    posts = [route.replace("/", "~1") for function in topology.FUNCTIONS for route in function.posts]
    messages = (it.stage.messages_per_second, it.stage.messages_burst)
    return {"*/*": (it.stage.requests_per_second, it.stage.burst)} | {f"{post}/POST": messages for post in posts}


def _limit(it: Rehearsal, limits: Mapping[str, tuple[int, int]]) -> None:
    """Set rate and burst of the API's methods."""
    operations = [
        {"op": "replace", "path": f"/{method}/throttling/{name}", "value": str(value)}
        for method, values in limits.items()
        for name, value in zip(("rateLimit", "burstLimit"), values, strict=True)
    ]
    api = it.resource("AWS::ApiGateway::RestApi", "Api")
    it.aws("apigateway").update_stage(restApiId=api, stageName=it.name, patchOperations=operations)


def _schedules(it: Rehearsal, operation: str) -> None:
    for function in topology.FUNCTIONS:
        if it.stage.runs(function):
            rule = it.resource("AWS::Events::Rule", f"{construct_id(function.name)}Schedule")
            getattr(it.aws("events"), operation)(Name=rule)


def _mappings(it: Rehearsal, *, enabled: bool) -> None:
    for mapping in it.resources("AWS::Lambda::EventSourceMapping"):
        it.aws("lambda").update_event_source_mapping(UUID=mapping, Enabled=enabled)


def _add_stream(dynamodb: Any, table: str) -> None:
    view = {"StreamEnabled": True, "StreamViewType": topology.TABLE.stream}
    dynamodb.update_table(TableName=table, StreamSpecification=view)


def _add_settings(it: Rehearsal, dynamodb: Any, table: str) -> None:
    expiry = {"Enabled": True, "AttributeName": topology.TABLE.ttl}
    dynamodb.update_time_to_live(TableName=table, TimeToLiveSpecification=expiry)
    recovery = {"PointInTimeRecoveryEnabled": True}
    dynamodb.update_continuous_backups(TableName=table, PointInTimeRecoverySpecification=recovery)
    arn = dynamodb.describe_table(TableName=table)["Table"]["TableArn"]
    tags = [{"Key": "service", "Value": "appointments"}, {"Key": "stage", "Value": it.name}]
    dynamodb.tag_resource(ResourceArn=arn, Tags=tags)


def _import(it: Rehearsal, table: str) -> None:
    """Import the table into the stack, under another id."""
    folder = it.checkout("restored")
    it.cdk("synth", "--quiet", folder=folder)
    template = folder / "cdk.out" / f"{it.stack}.template.json"
    resources = ["RestoredTable"] if it.dry else json.loads(template.read_text(encoding="utf-8"))["Resources"]
    (logical_id,) = (each for each in resources if re.fullmatch(r"RestoredTable([0-9A-F]{8})?", each))
    mapping = json.dumps({logical_id: {"TableName": table}})
    it.cdk("import", it.stack, "--force", "--resource-mapping-inline", mapping, folder=folder)


def erase_from_ledger(it: Rehearsal) -> str:
    """Apply the ledger: opt-outs and erasures. After a restore, then start the stage: the runbook's steps 7 to 9."""
    it.manage("opt-outs", "apply")
    said = it.manage("customers", "erase", "--from-ledger")
    complete = re.search(r"^([1-9]\d*) of \1 erasures are complete", said, re.MULTILINE)
    it.must(complete is not None, f"not all erasures are complete: {said}")
    restored = "new_table" in it.state
    if restored:
        it.once("start", lambda: _start(it))
        it.api("GET", f"/v1/customers/{it.state['kept']}")
        it.must(it.gone(it.state["lost"]), "a customer who was created after the instant is there")
    it.must(it.gone(it.state["forgotten"]), "the restore brought the erased customer back")
    if restored and it.stage.canary:
        it.canary()
    seen = "; what was created before the instant is there, and what was created after it is not" if restored else ""
    return f"{complete[0] if complete else ''}{seen}"


def clean_up(it: Rehearsal) -> str:
    """Delete the stage with everything that `make destroy` leaves."""
    if it.stack_status() is not None:
        it.state["buckets"] = it.resources("AWS::S3::Bucket") or it.state.get("buckets", [])
        it.save()
        for bucket in it.state["buckets"]:
            _empty(it, bucket)
        it.cdk("destroy", "--all", "--force")
        it.must(it.stack_status() is None, f"the stack is {it.stack_status()}")
    # What was delivered meanwhile is deleted, too. A bucket must be empty before it is deleted (S3 user guide,
    # "Deleting a general purpose bucket": docs.aws.amazon.com/AmazonS3/latest/userguide/delete-bucket.html).
    for bucket in it.state.get("buckets", []):
        if _empty(it, bucket):
            it.aws("s3").delete_bucket(Bucket=bucket)
    if table := it.state.get("new_table"):
        dynamodb = it.aws("dynamodb")
        # Once the stage uses it, it is deleted with the stack.
        with contextlib.suppress(dynamodb.exceptions.ResourceNotFoundException):
            dynamodb.delete_table(TableName=table)
    return f"deleted the stack {it.stack} and {len(it.state.get('buckets', []))} buckets"


def _empty(it: Rehearsal, bucket: str) -> bool:
    """Delete every version of every object. Returns whether the bucket exists."""
    s3 = it.aws("s3")
    try:
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
            found = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
            objects = [{"Key": each["Key"], "VersionId": each["VersionId"]} for each in found]
            if objects:
                s3.delete_objects(Bucket=bucket, Delete={"Objects": objects, "Quiet": True})
    except ClientError as error:
        if error.response["Error"]["Code"] == "NoSuchBucket":
            return False
        raise
    return True


def _failures(traffic: Traffic) -> str:
    first = f" (first: {traffic.failures[0]})" if traffic.failures else ""
    return f"{len(traffic.failures)} of {traffic.sent} requests failed{first}"


STEPS = (
    Step(
        "preflight",
        "checks the account's quota, model and CDK bootstrap",
        "no problem, and the stack CDKToolkit",
        1,
        preflight,
        dollars=0.01,
    ),
    Step("first_release", "deploys the stage", "the API responds at its address", 15, first_release),
    Step(
        "canary",
        "starts the canary",
        "it passes, and its alarm is OK: logs, metrics and alarms work",
        10,
        canary,
    ),
    Step(
        "sign_in",
        "invites you by e-mail, and waits until you have signed in to the admin pages",
        "you are a member who has joined",
        10,
        sign_in,
        skipped=lambda it: "" if it.email else "without --email nobody is invited",
    ),
    Step(
        "failing_endpoint",
        "lets the webhooks of one endpoint fail",
        f"{ATTEMPTS} attempts, and meanwhile the canary's webhook",
        3,
        failing_endpoint,
    ),
    Step(
        "second_release",
        "deploys changed code with the gradual shift, while requests go on",
        f"at most {MOST_FAILED:.0%} of the requests fail; both releases answer for at least {SHIFT_S // MINUTE} min",
        20,
        second_release,
        dollars=0.10,
    ),
    Step(
        "rollback",
        "runs `make rollback`, and then deploys again",
        f"the previous release answers within {ROLLBACK_S} s; the deploy finds the moved aliases and puts them right",
        25,
        rollback,
    ),
    Step(
        "bad_release",
        "deploys a release whose pings fail, while requests go on",
        "the deploy fails, the stack is UPDATE_ROLLBACK_COMPLETE, and the previous release answers",
        25,
        bad_release,
        dollars=0.10,
        skipped=lambda it: "" if it.stage.traffic_shift else "the stage has no traffic_shift, so nothing rolls back",
    ),
    Step(
        "live_call",
        "calls your phone",
        "the call is completed after you answered",
        10,
        live_call,
        dollars=1,
        skipped=lambda it: "" if it.phone and it.stage.connect else "it needs `connect` in cdk.json, and --phone",
    ),
    Step("erase", "erases a customer", "the customer is gone", 4, erase),
    Step(
        "restore",
        "stops the stage, restores its table to the instant before the erasure into a new table, and switches to it",
        "the stage uses the new table",
        90,
        restore,
        dollars=0.20,
        skipped=lambda it: "" if "instant" in it.state else "nothing was erased before it",
    ),
    Step(
        "erase_from_ledger",
        "applies the ledger, which erases everyone in it again, and starts the stage",
        "the erased customer is gone, what was created before the instant is there, what came later is not",
        5,
        erase_from_ledger,
        skipped=lambda it: "" if "instant" in it.state else "nothing was erased before it",
    ),
)
CLEAN_UP = Step(
    "clean_up", "deletes the stage with its data and buckets", "the stack and its buckets are gone", 10, clean_up
)
