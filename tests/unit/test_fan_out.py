"""`fan_out` and a full batch: what it asks of AWS, at once or in order, on an AWS that is answered from memory."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from functions import fan_out
from infra import topology
from shared.store import table
from shared.store.keys import Scope
from shared.tasks import batches
from shared.webhooks.endpoints import commands as endpoint_commands
from shared.webhooks.endpoints.resource import WEBHOOK_ENDPOINTS, WebhookEndpointCreate
from tests.support import rows
from tests.support.log_lines import ids, lines
from tests.support.virtual_aws import RowExists, Throttled, VirtualAws, virtual_aws

[SOURCE] = [function.stream for function in topology.FUNCTIONS if function.stream]
CALL = 0.010
"""Seconds of a call: more than SQS and DynamoDB usually take."""


class Project:
    """A project with endpoints, whose customers change."""

    def __init__(self, number: int, endpoint_count: int) -> None:
        self.scope = Scope(number, livemode=False)
        self.endpoints = [self._endpoint() for _ in range(endpoint_count)]
        self._rows: dict[str, table.Row] = {}

    def change(self, name: str) -> dict[str, Any]:
        """The stream record of a change of the customer with this name, who is created by the first."""
        old = self._rows.get(name)
        new = (old or rows.customer(self.scope, name=name)) | {"v": old["v"] + 1 if old else 1}
        if old:
            new["doc"] = json.dumps(json.loads(new["doc"]) | {"metadata": {"version": str(new["v"])}})
        self._rows[name] = new
        images = {"NewImage": table.encode(new)} | ({"OldImage": table.encode(old)} if old else {})
        return {"Keys": {"pk": {"S": new["pk"]}, "sk": {"S": new["sk"]}}, **images}

    def _endpoint(self) -> Any:
        endpoint = endpoint_commands.new(
            self.scope, WebhookEndpointCreate(url="https://example.com/"), "whsec_" + "a" * 40
        )
        insert, *_ = WEBHOOK_ENDPOINTS.insert_writes(self.scope, endpoint, {"secret": b"ciphertext", "generation": 0})
        return table.encode(insert.row)


class Stage:
    """Projects, what `fan_out` writes of their changes, and what it sends."""

    def __init__(self) -> None:
        self.projects: list[Project] = []
        self.written: list[str] = []
        """The changes whose events were written, such as `ada 2`, in order."""
        self.woken: dict[str, list[str]] = {}
        """By endpoint: the changes whose deliveries were woken, in order."""
        self.before_write: Callable[[str], None] = lambda change: None
        self._items: dict[str, Any] = {}
        """By event or delivery: its item."""
        self._changes: dict[str, str] = {}
        """By event: its change."""
        self._deliveries: dict[str, tuple[str, str]] = {}
        self._lock = threading.Lock()

    def answers(self, operation: str, sent: Any) -> Mapping[str, Any]:
        match operation:
            case "Query":
                partition = sent["ExpressionAttributeValues"][":pk"]["S"]
                [found] = [each for each in self.projects if each.scope.pk("webhook_endpoint") == partition]
                return {"Items": found.endpoints}
            case "PutItem":
                self._write(sent["Item"])
                return {}
            case "SendMessageBatch":
                for entry in sent["Entries"]:
                    endpoint, change = self._deliveries[json.loads(entry["MessageBody"])["sk"]]
                    self.woken.setdefault(endpoint, []).append(change)
                return {"Successful": [{"Id": entry["Id"], "MessageId": "m"} for entry in sent["Entries"]]}
            case "GetItem":
                # No customer is erased.
                return {}
        raise AssertionError(operation)

    def _write(self, item: Any) -> None:
        row = table.decode(item)
        doc = json.loads(row["doc"])
        if row["kind"] == "delivery":
            with self._lock:
                self._insert(row["sk"], item)
                self._deliveries[row["sk"]] = (row["endpoint"], self._changes[doc["event_id"]])
            return
        customer = doc["data"]["object"]
        change = f"{customer['name']} {(customer['metadata'] or {}).get('version', 1)}"
        self.before_write(change)
        with self._lock:
            self._insert(row["sk"], item)
            self.written.append(change)
            self._changes[row["sk"]] = change

    def _insert(self, id: str, item: Any) -> None:
        if id in self._items:
            raise RowExists(self._items[id])
        self._items[id] = item


def _ignore(result: object) -> None:
    pass


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def aws(stage: Stage) -> Iterator[VirtualAws]:
    with virtual_aws(stage.answers, CALL) as found:
        yield found


def batch(*changes: dict[str, Any]) -> dict[str, Any]:
    """Stream records of these changes, in order."""
    return {
        "Records": [
            {"eventID": f"e{number}", "dynamodb": {"SequenceNumber": str(number), **change}}
            for number, change in enumerate(changes)
        ]
    }


def test_changes_of_different_resources_are_written_concurrently(stage: Stage, aws: VirtualAws) -> None:
    [project] = stage.projects = [Project(1, 1)]
    barrier = threading.Barrier(batches.RECORDS_AT_ONCE, timeout=20)
    stage.before_write = lambda change: _ignore(barrier.wait())
    full = batch(*[project.change(f"customer{number}") for number in range(SOURCE.batch_size)])
    assert fan_out.handler(full, None) == {"batchItemFailures": []}
    assert len(stage.written) == SOURCE.batch_size


@pytest.mark.parametrize(("projects", "endpoint_count"), [(1, 1), (5, 1), (1, 3)])
def test_waiting_for_aws_allows_1600_events_a_second_in_a_shard(
    stage: Stage, aws: VirtualAws, projects: int, endpoint_count: int
) -> None:
    """What the CPU allows is less; functions/DECISIONS.md states it."""
    stage.projects = [Project(number, endpoint_count) for number in range(1, projects + 1)]
    changes = [stage.projects[number % projects].change(f"customer{number}") for number in range(SOURCE.batch_size)]
    assert fan_out.handler(batch(*changes), None) == {"batchItemFailures": []}
    assert aws.calls == {
        # Once for each project, however many records ask at the same time.
        "Query": projects,
        # Once for each customer.
        "GetItem": SOURCE.batch_size,
        # The event and its deliveries.
        "PutItem": SOURCE.batch_size * (1 + endpoint_count),
        "SendMessageBatch": endpoint_count * SOURCE.batch_size / 10,
    }
    in_turn = aws.calls["Query"] + aws.calls["SendMessageBatch"]
    # A record waits for the customer, the event, and the deliveries, which are written concurrently.
    seconds = in_turn * CALL + SOURCE.batch_size / batches.RECORDS_AT_ONCE * 3 * CALL
    assert SOURCE.parallel * SOURCE.batch_size / seconds >= 1600


def test_wake_ups_for_each_endpoint_have_the_order_of_the_batch(stage: Stage, aws: VirtualAws) -> None:
    stage.projects = [Project(1, 2), Project(2, 1)]
    names = [f"customer{number % 15}" for number in range(60)]
    changes = [(stage.projects[number % 2], name) for number, name in enumerate(names)]
    made = [(project, name, project.change(name)) for project, name in changes]
    fan_out.handler(batch(*[change for _, _, change in made]), None)
    for project in stage.projects:
        versions: dict[str, int] = {}
        expected = []
        for owner, name, _ in made:
            if owner is project:
                versions[name] = versions.get(name, 0) + 1
                expected.append(f"{name} {versions[name]}")
        for endpoint in project.endpoints:
            assert stage.woken[endpoint["sk"]["S"]] == expected


def test_events_of_one_resource_are_written_in_order(stage: Stage, aws: VirtualAws) -> None:
    [project] = stage.projects = [Project(1, 1)]
    others = threading.Semaphore(0)

    def let_others_pass(change: str) -> None:
        if change.startswith("ada"):
            others.acquire(timeout=20)
        else:
            others.release()

    stage.before_write = let_others_pass
    changes = [project.change(name) for number in range(10) for name in ("ada", f"other{number}")]
    fan_out.handler(batch(*changes), None)
    assert [change for change in stage.written if change.startswith("ada")] == [f"ada {n}" for n in range(1, 11)]


def test_a_change_that_fails_holds_up_only_its_own_resource(stage: Stage, aws: VirtualAws) -> None:
    [project] = stage.projects = [Project(1, 1)]
    failing = True

    def throttle(change: str) -> None:
        if failing and change == "ada 2":
            raise Throttled

    stage.before_write = throttle
    names = ["bob", "ada", "cleo", "ada", "dora", "ada"]
    full = batch(*[project.change(name) for name in names])
    assert fan_out.handler(full, None) == {"batchItemFailures": [{"itemIdentifier": "3"}]}
    [woken] = stage.woken.values()
    assert woken == ["bob 1", "ada 1", "cleo 1", "dora 1"]

    # Lambda passes on again what begins with the record that was named.
    failing = False
    again = {"Records": full["Records"][3:]}
    assert fan_out.handler(again, None) == {"batchItemFailures": []}
    assert woken[4:] == ["ada 2", "dora 1", "ada 3"]


OUTAGE = 20 * 60


def test_an_outage_of_twenty_minutes_loses_no_event_and_keeps_each_objects_in_order(
    stage: Stage, aws: VirtualAws
) -> None:
    [project] = stage.projects = [Project(1, 1)]

    def fail_for_twenty_minutes(change: str) -> None:
        # The outage begins in the middle of a batch.
        if len(stage.written) >= 30 and aws.time.elapsed < OUTAGE:
            raise Throttled

    stage.before_write = fail_for_twenty_minutes
    names = [f"customer{number % 17}" for number in range(250)]
    records = batch(*[project.change(name) for name in names])["Records"]
    with lines() as logged:
        while records:
            answer = fan_out.handler({"Records": records[: SOURCE.batch_size]}, None)
            failed = [each["itemIdentifier"] for each in answer["batchItemFailures"]]
            numbers = [record["dynamodb"]["SequenceNumber"] for record in records]
            records = records[numbers.index(failed[0]) if failed else SOURCE.batch_size :]
            # Lambda retries until a record is too old; with growing waits, here of half a minute.
            aws.time.forward(30 if failed else 0)
    assert OUTAGE <= aws.time.elapsed < OUTAGE + 120 < SOURCE.max_age_s
    [woken] = stage.woken.values()
    expected = {name: [f"{name} {number + 1}" for number in range(names.count(name))] for name in names}
    # A second wake-up has no effect.
    for once in (stage.written, list(dict.fromkeys(woken))):
        assert len(once) == len(names)
        for name, changes in expected.items():
            assert [change for change in once if change.startswith(f"{name} ")] == changes
    assert len(ids(logged, "event", "event_id")) == len(names)
    assert not aws.calls["PutObject"]
