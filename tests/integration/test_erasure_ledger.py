"""What an erasure needs outside the table: the ledger, the failed batches, and objects with versions."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from shared.aws import objects, services
from shared.core import clock
from shared.erasure import batches, erasing, ledger, runs
from shared.store import table
from shared.store.keys import Scope
from tests.support.clocks import Clock
from tests.support.erasing import Person, live, newcomer, none_stored, put_back, remains, rows
from tests.support.erasing import objects as stored_in
from tests.support.given import unique
from tests.support.resources import created
from tests.support.stage import Stage, wake_up_record

pytestmark = pytest.mark.usefixtures("empty_storage")


@pytest.fixture
def bucket(stage: Stage) -> str:
    """A bucket of a test's own."""
    name = unique("bucket")
    services.s3().create_bucket(Bucket=name)
    return name


@pytest.fixture
def versioned(bucket: str) -> str:
    services.s3().put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    return bucket


@pytest.fixture(autouse=True)
def _ledger(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    name = unique("erasures")
    services.s3().create_bucket(Bucket=name)
    monkeypatch.setenv("ERASURES_BUCKET", name)


def versions(bucket: str) -> list[tuple[str, str]]:
    page = services.s3().list_object_versions(Bucket=bucket)
    return [(each["Key"], each["VersionId"]) for each in (*page.get("Versions", []), *page.get("DeleteMarkers", []))]


def batch_of(records: list[dict[str, Any]], as_text: bool) -> str:
    """A failed batch, as Lambda stores it."""
    payload = {"Records": records}
    return json.dumps({"version": "1.0", "payload": json.dumps(payload) if as_text else payload})


# Failed batches


@pytest.mark.parametrize("as_text", [True, False])
def test_the_changes_of_an_erased_person_are_removed_from_failed_batches_and_no_others(
    stage: Stage, stopped_clock: Clock, versioned: str, as_text: bool
) -> None:
    scope = live(stage, stage.project())
    whom, other = newcomer(stage, scope, unique("quetzal")), newcomer(stage, scope, unique("heron"))
    assert stage.call("DELETE", f"/v1/appointments/{whom.appointments[0]}").status == 200
    assert stage.call("DELETE", f"/v1/customers/{whom.id}").status == 200
    # The other customer's metadata names the id: that does not make it one of the person's changes.
    noted = {"metadata": {"friend": whom.id}}
    assert stage.call("PATCH", f"/v1/customers/{other.id}", noted).status == 200
    changes = stage.stream_records()
    own = [change for change in changes if whom.mark in json.dumps(change) or whom.id in json.dumps(change["dynamodb"])]
    of_other = [change for change in changes if other.mark in json.dumps(change) or change not in own]
    damaged = json.loads(json.dumps(own[0]))
    damaged["dynamodb"]["NewImage"] |= {"sk": {"S": whom.appointments[0]}, "doc": {"S": f'{{"{whom.id}'}}
    objects.write(versioned, "mixed", batch_of(changes, as_text))
    objects.write(versioned, "own", batch_of([damaged], as_text))
    objects.write(versioned, "others", batch_of(of_other, as_text))
    before = dict(versions(versioned))

    stopped_clock.forward(60)
    erased = [batches.erase(batch, scope, whom.id) for batch in batches.in_bucket(versioned)]

    assert sum(erased) == len(changes) - len(of_other) + 1
    left = stored_in(versioned)
    assert {*left} == {"mixed", "others"}
    payload = json.loads(left["mixed"])["payload"]
    assert isinstance(payload, str) is as_text
    assert (json.loads(payload) if as_text else payload)["Records"] == of_other
    # No earlier version remains, and what has nothing of the person was not written again.
    assert len(versions(versioned)) == 2
    assert dict(versions(versioned))["others"] == before["others"]
    # The changes that remain become events once they are processed.
    assert stage.invoke("fan_out", {"Records": of_other}) == {"batchItemFailures": []}


def test_failed_batches_are_erased_before_the_customer(stage: Stage, stopped_clock: Clock, bucket: str) -> None:
    whom = newcomer(stage, live(stage, stage.project()), unique("quetzal"))
    objects.write(bucket, "batch", batch_of(stage.stream_records(), True))
    with pytest.raises(erasing.NotYet):
        list(erasing.erase(whom.scope, whom.id, none_stored))
    stopped_clock.forward(erasing.SETTLES_S)

    def unreadable() -> Iterator[batches.StoredBatch]:
        raise OSError("no answer")

    with pytest.raises(OSError, match="no answer"):
        list(erasing.erase(whom.scope, whom.id, unreadable))
    lines = list(erasing.erase(whom.scope, whom.id, lambda: batches.in_bucket(bucket)))
    assert lines == ["erased 2 changes in failed batches", "erased the customer"]
    assert stored_in(bucket) == {}
    assert list(remains(whom)) == []


# Objects


def test_every_version_of_an_object_is_erased(versioned: str) -> None:
    for number in range(3):
        objects.write(versioned, "a/1.wav", f"{number}")
    services.s3().delete_object(Bucket=versioned, Key="a/1.wav")
    objects.write(versioned, "a/2.wav", "another")
    assert objects.erase(versioned, "a/1") == 1
    assert [key for key, _ in versions(versioned)] == ["a/2.wav"]
    assert objects.erase(versioned, "a/1") == 0


def test_an_object_without_versions_is_erased(bucket: str) -> None:
    objects.write(bucket, "a/1.wav", "1")
    assert objects.erase(bucket, "a/1") == 1
    assert stored_in(bucket) == {}


def test_a_bucket_is_read_to_its_end(bucket: str) -> None:
    for number in range(1001):
        services.s3().put_object(Bucket=bucket, Key=f"{number:04d}", Body=b"")
    assert [item.key for item in objects.find(bucket)] == [f"{number:04d}" for number in range(1001)]


# The ledger


def run(entries: list[ledger.Entry]) -> tuple[list[str], list[str]]:
    """What a run says, and what must be done later."""
    said: list[str] = []
    later = runs.run(entries, none_stored, said.append)
    return said, later


def test_the_ledger_holds_ids_and_lets_everybody_be_erased_again(stage: Stage, stopped_clock: Clock) -> None:
    people = [newcomer(stage, live(stage, stage.project()), unique("quetzal")) for _ in range(2)]
    project = stage.project()
    stage._key = project.test_key
    tested = Person(Scope(project.id, False), unique("quetzal"), "+15005550006")
    tested.id = created(stage, "/v1/customers", phone=tested.phone, name=tested.mark)["id"]
    people.append(tested)
    before = rows()
    entries = [ledger.begin(whom.scope, whom.id) for whom in people]
    assert ledger.entries() == entries
    began = clock.now()

    said, later = run(entries)

    assert later == []
    # One wait is enough for all.
    assert erasing.SETTLES_S <= (clock.now() - began) / clock.SECOND < 2 * erasing.SETTLES_S
    # Customers who were created in the same millisecond have no order.
    assert {line for line in said if line.endswith(": complete")} == {f"{whom.id}: complete" for whom in people}
    for whom in people:
        assert list(remains(whom)) == []
    ended = [entry.ended_at for entry in ledger.entries()]
    assert None not in ended
    [name, *_], texts = [*stored_in(_bucket())], b"".join(stored_in(_bucket()).values()).decode()
    assert name == f"{people[0].scope.project_id}/live/{people[0].id}.json"
    assert not any(whom.mark in texts or whom.phone in texts for whom in people)

    # After a restore to an instant before the erasure.
    for whom in people:
        table.write([table.Delete(whom.scope.pk("erasure"), whom.id)], "restore")
    put_back(before[key] for key in before.keys() - rows().keys())
    assert all(list(remains(whom)) for whom in people)
    assert run(ledger.entries())[1] == []
    for whom in people:
        assert list(remains(whom)) == []
    # Nothing is left to be done, and nothing is waited for.
    began = clock.now()
    assert run(ledger.entries())[0] == [f"{whom.id}: complete" for whom in people]
    assert clock.now() == began


def test_what_cannot_end_within_minutes_is_left_for_later_and_named(
    stage: Stage, stopped_clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMULATE_LIVE", "1")
    scope = live(stage, stage.project())
    calling, other = newcomer(stage, scope, unique("quetzal")), newcomer(stage, scope, unique("heron"))
    placed = stage.call("POST", f"/v1/customers/{calling.id}/call", {"channel": "phone"})
    assert placed.status == 201, placed.body
    session = placed.json["session_id"]
    stopped_clock.forward(2)
    wake_up = wake_up_record(stage, "dials", scope.pk("session"), session)
    assert stage.invoke("dial", {"Records": [wake_up]}) == {"batchItemFailures": []}
    began = clock.now()
    said, later = run([ledger.begin(scope, whom.id) for whom in (calling, other)])
    assert f"waiting: the call {session} is under way" in said
    assert clock.now() - began <= runs.PATIENCE_MS + clock.MINUTE
    [reason] = later
    assert reason.startswith(f"{calling.id}: the call {session} is under way. Run this again after ")
    assert list(remains(other)) == []
    assert {entry.customer_id: entry.ended_at is None for entry in ledger.entries()} == {
        calling.id: True,
        other.id: False,
    }


def _bucket() -> str:
    return os.environ["ERASURES_BUCKET"]
