"""`sweep` and a backlog: shares of the shards, order, speed and time, on an AWS whose calls take a stated time."""

from __future__ import annotations

import bisect
import threading
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from functions import sweep
from infra import topology
from shared.aws import services
from shared.core import clock
from shared.core.limits import MAX_DUE_SHARDS
from tests.support.virtual_aws import START, Invocation, Throttled, VirtualAws, virtual_aws

LATENCY = 0.010
"""Seconds of a call: more than DynamoDB and SQS usually take."""
BACKLOG = 20_000
WORK = 1.5
SECONDS = services.LONGEST_CALL_S + WORK
"""Seconds that the function has, of which it works for `WORK`."""


class Backlog:
    """Overdue deliveries in shards of the index, the oldest first; the last is one millisecond overdue."""

    def __init__(self, rows: Mapping[str, int]) -> None:
        self.index = {
            shard: [(_due(START * 1000 - count + number), f"{shard}#{number:05d}") for number in range(count)]
            for shard, count in rows.items()
        }
        self.due = {sk: due for entries in self.index.values() for due, sk in entries}
        self.changed: dict[str, dict[str, Any]] = defaultdict(dict)
        """Attributes that a test has set, by row."""
        self.woken: list[str] = []
        self.postponed: list[str] = []
        self._lock = threading.Lock()

    def answers(self, operation: str, sent: Any) -> Mapping[str, Any]:
        match operation:
            case "Query":
                return self._query(sent)
            case "BatchGetItem":
                return {
                    "Responses": {
                        "table": [self._item(key["sk"]["S"]) for key in sent["RequestItems"]["table"]["Keys"]]
                    }
                }
            case "GetItem":
                return {"Item": self._item(sent["Key"]["sk"]["S"])}
            case "UpdateItem":
                return {"Attributes": self._postpone(sent)}
            case "SendMessageBatch":
                return self._send(sent)
        raise AssertionError(operation)

    def of(self, shard: str, rows: list[str]) -> list[str]:
        """The rows of a shard among these, in order."""
        return [row for row in rows if row.startswith(f"{shard}#")]

    def _query(self, sent: Any) -> Mapping[str, Any]:
        entries = self.index.get(sent["ExpressionAttributeValues"][":pk"]["S"], [])
        after = sent.get("ExclusiveStartKey")
        first = bisect.bisect_right(entries, (after["due"]["S"], after["sk"]["S"])) if after else 0
        page = entries[first : first + sent["Limit"]]
        assert page == [] or page[-1][0] <= sent["ExpressionAttributeValues"][":most"]["S"]
        items = [self._key(sk) | {"due": {"S": due}} for due, sk in page]
        return {"Items": items} | ({"LastEvaluatedKey": items[-1]} if len(page) == sent["Limit"] else {})

    def _key(self, sk: str) -> dict[str, Any]:
        return {"pk": {"S": f"P#1#test#event#{sk}"}, "sk": {"S": sk}, "due_shard": {"S": sk.rpartition("#")[0]}}

    def _item(self, sk: str) -> Mapping[str, Any]:
        row = {
            "kind": {"S": "delivery"},
            "endpoint": {"S": "whk_1"},
            "due": {"S": self.due[sk]},
            "due_at": {"N": str(int(self.due[sk]))},
            "doc": {"S": "x" * 800},
        }
        return self._key(sk) | row | self.changed[sk]

    def _postpone(self, sent: Any) -> Mapping[str, Any]:
        sk = sent["Key"]["sk"]["S"]
        with self._lock:
            assert sent["ExpressionAttributeValues"][":is_due"]["S"] == self.due[sk]
            self.due[sk] = sent["ExpressionAttributeValues"][":s_due"]["S"]
            self.postponed.append(sk)
        return self._item(sk)

    def _send(self, sent: Any) -> Mapping[str, Any]:
        rows = [entry["MessageBody"].split('"sk": "')[1].rstrip('"}') for entry in sent["Entries"]]
        with self._lock:
            self.woken += rows
        return {
            "Successful": [{"Id": entry["Id"], "MessageId": "m", "MD5OfMessageBody": "x"} for entry in sent["Entries"]]
        }


def _due(milliseconds: float) -> str:
    return f"{int(milliseconds):015d}"


def swept(backlog: Backlog, latency: float = LATENCY, seconds: float = SECONDS) -> tuple[VirtualAws, int]:
    """One run, and how many rows it says it has woken."""
    with virtual_aws(backlog.answers, latency) as aws:
        found = sweep.handler({}, Invocation(aws, seconds))["woken"]
    return aws, found


SHARDS = [f"due#{number}" for number in range(8)]


@dataclass(frozen=True)
class Run:
    """A run on 20,000 overdue rows in each shard."""

    backlog: Backlog
    aws: VirtualAws
    found: int


@pytest.fixture(scope="module")
def run() -> Run:
    backlog = Backlog(dict.fromkeys(SHARDS, BACKLOG))
    return Run(backlog, *swept(backlog))


def test_every_shard_gets_its_share_and_its_oldest_rows_come_first(run: Run) -> None:
    backlog = run.backlog
    assert run.found == len(backlog.postponed)
    shares = []
    for shard in SHARDS:
        rows = backlog.of(shard, backlog.postponed)
        assert rows == [sk for _, sk in backlog.index[shard]][: len(rows)]
        shares.append(len(rows))
    assert min(shares) > 0
    assert max(shares) - min(shares) <= sweep.GROUP
    assert run.aws.ended <= WORK + 2 * LATENCY


def test_500_rows_a_second_are_woken(run: Run) -> None:
    assert run.found / run.aws.ended >= 500
    # A row is one write. What else it takes is shared: a send by 10 rows, a query and a read by 100.
    per_row = {operation: count / run.found for operation, count in run.aws.calls.items()}
    assert per_row["UpdateItem"] == 1
    assert per_row["SendMessageBatch"] <= 0.11
    assert per_row["BatchGetItem"] <= 0.02
    assert sum(per_row.values()) <= 1.15


def test_the_wake_ups_of_rows_go_out_before_the_rows_are_postponed() -> None:
    backlog = Backlog(dict.fromkeys(SHARDS, 35))
    answers = backlog.answers

    def checked(operation: str, sent: Any) -> Mapping[str, Any]:
        if operation == "UpdateItem":
            assert sent["Key"]["sk"]["S"] in backlog.woken
        return answers(operation, sent)

    backlog.answers = checked  # type: ignore[method-assign]
    _, found = swept(backlog)
    assert found == len(backlog.woken) == len(backlog.postponed) == 8 * 35


@pytest.mark.parametrize("latency", [2, 8, 39])
def test_it_stops_in_time_however_long_calls_take(latency: float) -> None:
    backlog = Backlog(dict.fromkeys(SHARDS, BACKLOG))
    [function] = [function for function in topology.FUNCTIONS if function.name == "sweep"]
    run, _ = swept(backlog, latency, seconds=function.timeout_s)
    assert run.ended <= function.timeout_s
    assert backlog.woken or latency > 30
    # What was not postponed is woken again by the next run.
    assert {*backlog.postponed} <= {*backlog.woken}


def test_rows_that_a_worker_has_claimed_are_skipped() -> None:
    backlog = Backlog({"due#3": 30})
    for number in range(10):
        until = int(START * 1000) + clock.MINUTE
        backlog.changed[f"due#3#{number:05d}"] = {"lease": {"S": "token"}, "lease_until": {"N": str(until)}}
    _, found = swept(backlog)
    assert found == 20
    assert backlog.woken == backlog.postponed == [f"due#3#{number:05d}" for number in range(10, 30)]


def test_a_row_of_a_kind_of_a_later_release_holds_nothing_up() -> None:
    backlog = Backlog({"due#3": 30})
    backlog.changed["due#3#00000"] = {"kind": {"S": "parcel"}}
    swept(backlog)
    assert backlog.woken == [f"due#3#{number:05d}" for number in range(1, 30)]
    assert len(backlog.postponed) == 30


def test_a_shard_in_trouble_holds_no_other_up() -> None:
    backlog = Backlog(dict.fromkeys(SHARDS, 30))
    answers = backlog.answers

    def throttling(operation: str, sent: Any) -> Mapping[str, Any]:
        if operation == "Query" and sent["ExpressionAttributeValues"][":pk"]["S"] == "due#3":
            raise Throttled
        return answers(operation, sent)

    backlog.answers = throttling  # type: ignore[method-assign]
    with pytest.raises(services.Unavailable):
        swept(backlog)
    assert {row.rpartition("#")[0] for row in backlog.woken} == {*SHARDS} - {"due#3"}
    assert len(backlog.postponed) == 7 * 30


def test_rows_of_a_higher_setting_are_found_within_an_hour() -> None:
    former = [f"due#{number}" for number in range(len(SHARDS), MAX_DUE_SHARDS)]
    backlog = Backlog(dict.fromkeys(former, 1))
    with virtual_aws(backlog.answers, LATENCY) as aws:
        for _ in range(60):
            aws.time.forward(60 - aws.time.elapsed % 60)
            sweep.handler({}, Invocation(aws, aws.time.elapsed + SECONDS))
    assert {*backlog.postponed} == {*backlog.due}
