"""What an erasure needs outside the table: the ledger, the failed batches, and objects with versions."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from infra.manage.customers import _apply_opt_outs
from shared.aws import objects, services
from shared.core import clock
from shared.customers import opted_out_phones
from shared.erasure import erasing, ledger, runs, stored_batches
from shared.store import table
from shared.store.keys import Scope
from tests.support.client_actions import unique
from tests.support.clocks import Clock
from tests.support.erasures import Person, live, newcomer, none_stored, put_back, remaining_data, rows
from tests.support.erasures import objects as stored_in
from tests.support.resources import create_resource
from tests.support.stage import Stage, wake_up_record

pytestmark = pytest.mark.usefixtures("empty_storage")


@pytest.fixture
def bucket(stage: Stage) -> str:
    """A bucket of a test's own."""
    name = unique("bucket")
    services.s3().create_bucket(Bucket=name)
    return name


@pytest.fixture
def versioned_bucket(bucket: str) -> str:
    services.s3().put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    return bucket


@pytest.fixture(autouse=True)
def _ledger(stage: Stage) -> None:
    """An empty ledger, whatever other tests of the process wrote."""
    for item in list(objects.list_objects(_bucket())):
        objects.erase(_bucket(), item.key)


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
    stage: Stage, stopped_clock: Clock, versioned_bucket: str, as_text: bool
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
    objects.write(versioned_bucket, "mixed", batch_of(changes, as_text))
    objects.write(versioned_bucket, "own", batch_of([damaged], as_text))
    objects.write(versioned_bucket, "others", batch_of(of_other, as_text))
    before = dict(versions(versioned_bucket))

    stopped_clock.forward(60)
    erased = [stored_batches.erase(batch, scope, whom.id) for batch in stored_batches.in_bucket(versioned_bucket)]

    assert sum(erased) == len(changes) - len(of_other) + 1
    left = stored_in(versioned_bucket)
    assert {*left} == {"mixed", "others"}
    payload = json.loads(left["mixed"])["payload"]
    assert isinstance(payload, str) is as_text
    assert (json.loads(payload) if as_text else payload)["Records"] == of_other
    # No earlier version remains, and what has nothing of the person was not written again.
    assert len(versions(versioned_bucket)) == 2
    assert dict(versions(versioned_bucket))["others"] == before["others"]
    # The changes that remain become events once they are processed.
    assert stage.invoke("fan_out", {"Records": of_other}) == {"batchItemFailures": []}


def test_failed_batches_are_erased_before_the_customer(stage: Stage, stopped_clock: Clock, bucket: str) -> None:
    whom = newcomer(stage, live(stage, stage.project()), unique("quetzal"))
    objects.write(bucket, "batch", batch_of(stage.stream_records(), True))
    with pytest.raises(erasing.NotYet):
        list(erasing.erase(whom.scope, whom.id, none_stored))
    stopped_clock.forward(erasing.SETTLES_S)

    def unreadable() -> Iterator[stored_batches.StoredBatch]:
        raise OSError("no answer")

    with pytest.raises(OSError, match="no answer"):
        list(erasing.erase(whom.scope, whom.id, unreadable))
    lines = list(erasing.erase(whom.scope, whom.id, lambda: stored_batches.in_bucket(bucket)))
    assert lines == ["erased 2 changes in failed batches", "erased the customer"]
    assert stored_in(bucket) == {}
    assert list(remaining_data(whom)) == []


# Objects


def test_every_version_of_an_object_is_erased(versioned_bucket: str) -> None:
    for number in range(3):
        objects.write(versioned_bucket, "a/1.wav", f"{number}")
    services.s3().delete_object(Bucket=versioned_bucket, Key="a/1.wav")
    objects.write(versioned_bucket, "a/2.wav", "another")
    assert objects.erase(versioned_bucket, "a/1") == 1
    assert [key for key, _ in versions(versioned_bucket)] == ["a/2.wav"]
    assert objects.erase(versioned_bucket, "a/1") == 0


def test_an_object_without_versions_is_erased(bucket: str) -> None:
    objects.write(bucket, "a/1.wav", "1")
    assert objects.erase(bucket, "a/1") == 1
    assert stored_in(bucket) == {}


def test_a_bucket_is_read_to_its_end(bucket: str) -> None:
    for number in range(1001):
        services.s3().put_object(Bucket=bucket, Key=f"{number:04d}", Body=b"")
    assert [item.key for item in objects.list_objects(bucket)] == [f"{number:04d}" for number in range(1001)]


# The ledger


def run(entries: list[ledger.ErasureEntry]) -> tuple[list[str], list[str]]:
    """What a run says, and what must be done later."""
    said: list[str] = []
    later = runs.run(entries, none_stored, said.append)
    return said, later


def test_the_ledger_holds_ids_and_lets_everybody_be_erased_again(stage: Stage, stopped_clock: Clock) -> None:
    people = [newcomer(stage, live(stage, stage.project()), unique("quetzal")) for _ in range(2)]
    project = stage.project()
    stage._key = project.test_key
    tested = Person(Scope(project.id, False), unique("quetzal"), "+15005550006")
    tested.id = create_resource(stage, "/v1/customers", phone=tested.phone, name=tested.mark)["id"]
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
        assert list(remaining_data(whom)) == []
    ended = [entry.ended_at for entry in ledger.entries()]
    assert None not in ended
    [name, *_], texts = [*stored_in(_bucket())], b"".join(stored_in(_bucket()).values()).decode()
    assert name == f"{people[0].scope.project_id}/live/{people[0].id}.json"
    assert not any(whom.mark in texts or whom.phone in texts for whom in people)

    # After a restore to an instant before the erasure.
    for whom in people:
        table.write([table.Delete(whom.scope.pk("erasure"), whom.id)])
    put_back(before[key] for key in before.keys() - rows().keys())
    assert all(list(remaining_data(whom)) for whom in people)
    assert run(ledger.entries())[1] == []
    for whom in people:
        assert list(remaining_data(whom)) == []
    # Nothing is left to be done, and nothing is waited for.
    began = clock.now()
    assert run(ledger.entries())[0] == [f"{whom.id}: complete" for whom in people]
    assert clock.now() == began


# The ledger of opt-outs


def are_opted_out(stage: Stage, *phones: str) -> list[bool]:
    """Whether a new call to each phone is refused, because its owner does not want to be called."""
    found = []
    for phone in phones:
        customer = create_resource(stage, "/v1/customers", phone=phone)["id"]
        placed = stage.call("POST", f"/v1/customers/{customer}/call", {"channel": "phone"})
        found.append(placed.status == 409 and placed.json["error"]["code"] == "customer_opted_out")
        assert found[-1] or placed.status == 201, placed.body
    return found


def say(stage: Stage, customer: str, text: str) -> None:
    conversation = create_resource(stage, "/v1/conversations", customer={"id": customer})["id"]
    create_resource(stage, f"/v1/conversations/{conversation}/messages", content=text)


def lift(stage: Stage, customer: str) -> None:
    assert stage.call("POST", f"/v1/customers/{customer}/opt_in").status == 200


def apply(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What the operator's command says that brings a restored table's opt-outs up to date."""
    _apply_opt_outs(None)
    return capsys.readouterr().out.splitlines()


def forget_opt_outs(scope: Scope) -> None:
    """Bring the table back to an instant before the first opt-out of the project."""
    for key, row in rows().items():
        if row["kind"] in ("opt_out", "opt_out_key") and key[0].startswith(scope.pk("")):
            table.write([table.Delete(*key)])


def test_a_restored_table_has_the_opt_outs_and_liftings_of_the_ledger(
    stage: Stage, stopped_clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    project = stage.project()
    scope = Scope(project.id, livemode=False)
    phones = ["+15005550006", "+15005550007", "+15005550008"]
    gone, lifted, again = (create_resource(stage, "/v1/customers", phone=phone)["id"] for phone in phones)
    for customer in (gone, lifted, again):
        say(stage, customer, "Stop calling me")
    lift(stage, lifted)
    lift(stage, again)
    say(stage, again, "Stop calling me")
    records = stage.fan_out()
    # As Lambda may pass a batch on again, or an operator redrives it late.
    stage.fan_out(records)
    texts = b"".join(stored_in(_bucket()).values()).decode()
    assert not any(phone in texts or phone[1:] in texts for phone in phones)
    assert ledger.entries() == []

    # To an instant before the first opt-out, of which only the project's row is left.
    forget_opt_outs(scope)
    assert are_opted_out(stage, *phones) == [False, False, False]
    assert apply(capsys) == ["phones opted out again: 2, opt-outs lifted again: 0"]
    assert are_opted_out(stage, *phones) == [True, False, True]

    # To an instant before the lifting.
    key = table.get("PROJECTS", f"{project.id:010d}")
    assert key is not None
    table.write(
        opted_out_phones.restore_writes(scope, opted_out_phones.hash_of(key["opt_out_key"], phones[1]), opted_out=True)
    )
    assert apply(capsys) == ["phones opted out again: 0, opt-outs lifted again: 1"]
    assert are_opted_out(stage, *phones) == [True, False, True]
    assert apply(capsys) == ["phones opted out again: 0, opt-outs lifted again: 0"]

    # To an instant before the project.
    forget_opt_outs(scope)
    table.write([table.Delete("PROJECTS", f"{project.id:010d}")])
    assert apply(capsys)[1:] == [
        f"phones left out: 3, because project {project.id} is not in the table, or older than opt-outs"
    ]


def test_an_opt_out_that_the_ledger_does_not_take_is_tried_again(stage: Stage, stopped_clock: Clock) -> None:
    project = stage.project()
    say(stage, create_resource(stage, "/v1/customers", phone="+15005550006")["id"], "Stop calling me")
    records = [record for record in stage.stream_records() if _is_opt_out(record)]
    assert len(records) == 1
    bucket = _bucket()
    services.s3().delete_bucket(Bucket=bucket)
    failed = stage.invoke("fan_out", {"Records": records})["batchItemFailures"]
    assert failed == [{"itemIdentifier": records[0]["dynamodb"]["SequenceNumber"]}]
    services.s3().create_bucket(Bucket=bucket)
    stage.fan_out(records)
    assert [change.scope.project_id for change in ledger.opt_outs()] == [project.id]


def test_a_failed_batch_with_an_opt_out_can_be_searched_for_a_person(
    stage: Stage, stopped_clock: Clock, bucket: str
) -> None:
    project = stage.project()
    customer = create_resource(stage, "/v1/customers", phone="+15005550006")["id"]
    say(stage, customer, "Stop calling me")
    records = stage.stream_records()
    objects.write(bucket, "batch", batch_of(records, True))
    [batch] = stored_batches.in_bucket(bucket)
    assert stored_batches.erase(batch, Scope(project.id, False), customer) > 0
    [left] = stored_in(bucket).values()
    assert [_is_opt_out(record) for record in json.loads(json.loads(left)["payload"])["Records"]].count(True) == 1


def _is_opt_out(record: dict[str, Any]) -> bool:
    return bool(record["dynamodb"].get("NewImage", {}).get("kind") == {"S": "opt_out"})


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
    assert list(remaining_data(other)) == []
    assert {entry.customer_id: entry.ended_at is None for entry in ledger.entries()} == {
        calling.id: True,
        other.id: False,
    }


def _bucket() -> str:
    return os.environ["ERASURES_BUCKET"]
