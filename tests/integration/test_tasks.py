"""Tasks (`shared/tasks/tasks.py`): claims, leases, dead workers, races and wake-ups, on the real engine."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from shared.aws import client as aws_client
from shared.aws.connections import HttpResponse
from shared.core import clock, ids
from shared.store import table, transactions
from shared.store.keys import due, due_shard
from shared.tasks import tasks
from shared.tasks.tasks import Claim, NotDue
from tests.support.clocks import Clock
from tests.support.concurrency import just_before, run_at_once
from tests.support.stage import Stage

LEASE = 30 * clock.SECOND


@dataclasses.dataclass
class Job:
    """A row of its own with a scheduled step."""

    pk: str = dataclasses.field(default_factory=lambda: ids.new("job_"))
    sk: str = "job"

    def schedule(self, at: clock.Instant | None = None, **attributes: Any) -> Job:
        """Write the row, due at this instant or now."""
        row = {"pk": self.pk, "sk": self.sk, "kind": "job", "done": 0} | attributes
        due_at = clock.now() if at is None else at
        table.write([table.Put(row | tasks.due_attributes(self.sk, due_at), table.ALWAYS)])
        return self

    def claim(self, lease: int = LEASE) -> Claim[table.Row] | NotDue | None:
        return tasks.claim_row(self.pk, self.sk, lease)

    def claimed(self) -> Claim[table.Row]:
        found = self.claim()
        assert isinstance(found, Claim)
        return found

    def overdue(self, entry: str | None = None) -> table.Row | None:
        """The row for `sweep` that found this due time in the index, by default its own."""
        found = tasks.overdue([{"pk": self.pk, "sk": self.sk, "due": entry or self.row["due"]}])
        return found[0] if found else None

    @property
    def row(self) -> table.Row:
        found = table.get(self.pk, self.sk)
        assert found is not None
        return found

    def done(self, number: int, at: clock.Instant | None = None) -> table.Update:
        """The write of a step: no step is left, or one `at` an instant."""
        following = tasks.NO_WORK if at is None else tasks.due_attributes(self.sk, at)
        return table.Update(self.pk, self.sk, set={"done": number, **following})


@pytest.fixture
def job(stage: Stage, stopped_clock: Clock) -> Job:
    return Job().schedule()


def record(claim: Claim[table.Row], write: table.Update, *, keep: bool = False) -> None:
    tasks.save_step(claim, [write], keep=keep)


def test_a_row_may_be_inserted_with_a_claim(stage: Stage, stopped_clock: Clock) -> None:
    job = Job()
    row = {"pk": job.pk, "sk": job.sk, "kind": "job", "done": 0, **tasks.due_attributes(job.sk, clock.now())}
    claim = tasks.new_claim(row, LEASE)
    table.write([table.Put(claim.row)])
    assert not tasks.is_free(job.row)
    assert job.claim() is None
    stopped_clock.forward(LEASE / clock.SECOND)
    assert tasks.is_free(job.row)
    # Whoever inserted it did not come back.
    assert job.claimed().lost_workers == 1
    with pytest.raises(table.ConditionFailed):
        tasks.save_step(claim, [job.done(1)])


def test_a_wake_up_that_is_a_little_early_waits_until_the_work_is_due(job: Job, stopped_clock: Clock) -> None:
    def claim_soon() -> Claim[table.Row] | None:
        return tasks.claim_soon(job.pk, job.sk, lambda: LEASE)

    job.schedule(at=clock.now() + tasks.EARLY_MS + 1)
    assert not tasks.is_free(job.row)
    assert claim_soon() is None
    stopped_clock.forward(0.001)
    before = stopped_clock.now
    claim = claim_soon()
    assert claim is not None
    assert stopped_clock.now - before == pytest.approx(tasks.EARLY_MS / clock.SECOND, abs=0.01)
    # The lease is counted from the claim, not from the wake-up.
    assert claim.seconds_left == pytest.approx(LEASE / clock.SECOND, abs=0.01)
    assert claim_soon() is None


def test_the_commit_of_a_worker_that_lost_its_claim_after_another_commit_fails(job: Job, stopped_clock: Clock) -> None:
    claim = job.claimed()
    tasks.save_step(claim, [job.done(1, at=clock.now())], keep=True)
    stopped_clock.forward(LEASE / clock.SECOND)
    job.claimed()
    with pytest.raises(table.ConditionFailed):
        tasks.save_step(claim, [job.done(2)])
    assert job.row["done"] == 1


def test_one_worker_at_a_time_has_a_row(job: Job) -> None:
    claim = job.claimed()
    assert job.claim() is None
    record(claim, job.done(1))
    assert {"lease", "lease_until", "due_at", "due", "due_shard"}.isdisjoint(job.row)
    assert job.claim() is None
    assert job.row["done"] == 1


def test_of_many_workers_one_gets_the_row(stage: Stage) -> None:
    job = Job().schedule()
    assert sum(isinstance(claim, Claim) for claim in run_at_once([job.claim] * 8)) == 1


def test_work_that_is_not_due_is_not_claimed(job: Job) -> None:
    job.schedule(clock.now() + 1500)
    assert job.claim() == NotDue(1500)
    assert "lease" not in job.row


def test_a_row_that_owes_nothing_or_does_not_exist_is_not_claimed(job: Job) -> None:
    record(job.claimed(), job.done(1))
    assert job.claim() is None
    assert Job().claim() is None


def test_a_dead_workers_row_is_taken_over_and_counted(job: Job, stopped_clock: Clock) -> None:
    for died in range(3):
        assert job.claimed().lost_workers == died
        assert job.claim() is None
        stopped_clock.forward(LEASE / clock.SECOND)
    last = job.claimed()
    assert last.lost_workers == 3
    record(last, job.done(1, clock.now()))
    assert job.claimed().lost_workers == 0


def test_of_many_workers_one_takes_a_dead_workers_row_over(stage: Stage) -> None:
    job = Job().schedule()
    assert isinstance(job.claim(lease=0), Claim)
    found = [claim for claim in run_at_once([job.claim] * 8) if isinstance(claim, Claim)]
    assert [claim.lost_workers for claim in found] == [1]


def test_a_late_worker_changes_nothing(job: Job, stopped_clock: Clock) -> None:
    late = job.claimed()
    stopped_clock.forward(LEASE / clock.SECOND)
    present = job.claimed()
    with pytest.raises(table.ConditionFailed):
        record(late, job.done(7))
    tasks.release(late)
    record(present, job.done(1))
    with pytest.raises(table.ConditionFailed):
        record(late, job.done(7))
    assert job.row["done"] == 1


@pytest.mark.parametrize("by", [-3600, 3600])
def test_a_clock_that_steps_loses_no_work(job: Job, stopped_clock: Clock, by: int) -> None:
    held = job.claimed()
    stopped_clock.forward(by)
    if by < 0:
        # The work was due by the clock as it was; it is claimed again when that time has come.
        assert job.claim() == NotDue(-by * clock.SECOND)
        stopped_clock.forward(-by + LEASE / clock.SECOND)
    found = job.claimed()
    assert found.lost_workers == 1
    with pytest.raises(table.ConditionFailed):
        record(held, job.done(7))
    record(found, job.done(1))


def test_a_lease_of_a_clock_that_ran_ahead_holds_nothing_up(job: Job, stopped_clock: Clock) -> None:
    stopped_clock.forward(24 * 3600)
    job.schedule()
    ahead = job.claimed()
    stopped_clock.forward(-24 * 3600)
    job.schedule(lease=ahead.token, lease_until=ahead.row["lease_until"])
    assert job.overdue() is not None
    assert job.claimed().lost_workers == 1


def test_a_released_row_is_free_and_still_due(job: Job) -> None:
    tasks.release(job.claimed())
    again = job.claimed()
    assert again.lost_workers == 0


def test_a_released_row_keeps_the_count_of_its_dead_workers(job: Job, stopped_clock: Clock) -> None:
    job.claimed()
    stopped_clock.forward(LEASE / clock.SECOND)
    tasks.release(job.claimed())
    assert job.claimed().lost_workers == 1


def test_a_claim_does_not_move_the_row_in_the_index(job: Job) -> None:
    before = job.row["due"]
    job.claimed()
    assert job.row["due"] == before


def test_a_kept_claim_holds_for_the_next_write(job: Job) -> None:
    claim = job.claimed()
    record(claim, job.done(1, clock.now()), keep=True)
    assert job.claim() is None
    record(claim, job.done(2))
    assert job.row["done"] == 2


def test_a_step_without_a_write_of_the_claimed_row_writes_nothing(job: Job) -> None:
    claim, other = job.claimed(), Job().schedule()
    with pytest.raises(AssertionError, match="claimed row"):
        tasks.save_step(claim, [other.done(1)])
    assert other.row["done"] == 0


def test_a_late_worker_commits_none_of_its_writes(job: Job, stopped_clock: Clock) -> None:
    late, other = job.claimed(), Job().schedule()
    tasks.save_step(late, [job.done(1, clock.now()), other.done(1)], keep=True)
    stopped_clock.forward(LEASE / clock.SECOND)
    present = job.claimed()
    with pytest.raises(table.ConditionFailed):
        tasks.save_step(late, [job.done(2), other.done(2)])
    with pytest.raises(table.ConditionFailed):
        tasks.save_step(late, [job.done(2)])
    tasks.save_step(present, [job.done(3), other.done(3)])
    assert (job.row["done"], other.row["done"]) == (3, 3)
    assert "lease" not in job.row


def test_a_claim_whose_response_was_lost_holds(job: Job) -> None:
    """The client sends the same write again, and its condition meets the lease that it made itself."""

    class SentTwice(aws_client.Hook):
        did = False

        def attempt(self, call: aws_client.AwsCall, proceed: Callable[[], HttpResponse]) -> HttpResponse:
            if call.operation == "UpdateItem" and not self.did:
                self.did = True
                proceed()
            return proceed()

    sent = SentTwice()
    with aws_client.hooked(sent):
        claim = job.claimed()
    assert sent.did
    assert claim.row["lease"] == claim.token
    record(claim, job.done(1))


def test_all_steps_that_are_due_are_taken(job: Job) -> None:
    def step(claim: Claim[table.Row]) -> None:
        number = claim.row["done"] + 1
        record(claim, job.done(number, clock.now() if number < 3 else clock.now() + 5000))

    at = clock.now() + 5000
    assert tasks.run_due_steps(job.pk, job.sk, LEASE, step) == at
    assert job.row["done"] == 3
    # The next step has its wake-up: a second message asks for none.
    assert tasks.run_due_steps(job.pk, job.sk, LEASE, step) is None


def test_a_wake_up_that_comes_early_is_waited_for(job: Job) -> None:
    def step(claim: Claim[table.Row]) -> None:
        record(claim, job.done(1))

    job.schedule(clock.now() + 900)
    assert tasks.run_due_steps(job.pk, job.sk, LEASE, step) is None
    assert job.row["done"] == 1


def test_a_step_that_loses_a_race_is_taken_again_on_the_row_as_it_is(job: Job) -> None:
    job.schedule(v=1)
    seen: list[int] = []

    def step(claim: Claim[table.Row]) -> None:
        seen.append(claim.row["v"])
        if len(seen) == 1:
            table.write([table.Update(job.pk, job.sk, set={"v": 2})])
        write = dataclasses.replace(job.done(1), condition=table.unchanged(claim.row["v"]))
        record(claim, write)

    assert tasks.run_due_steps(job.pk, job.sk, LEASE, step) is None
    assert seen == [1, 2]
    assert job.row["done"] == 1


def test_a_step_that_fails_gives_the_row_back(job: Job) -> None:
    def step(claim: Claim[table.Row]) -> None:
        raise ValueError("the provider's response makes no sense")

    tasks.count_wake_up(job.row)
    with pytest.raises(ValueError, match="no sense"):
        tasks.run_due_steps(job.pk, job.sk, LEASE, step)
    assert job.row["wake_ups"] == 1, "sweep goes on to wake-up less and less often"
    assert job.claimed().lost_workers == 1


class Died(BaseException):
    """The process is gone."""


@contextlib.contextmanager
def before_each_write(work: Callable[[], None]) -> Iterator[None]:
    """The work is done before each write is sent."""

    class Before(aws_client.Hook):
        def call(self, call: aws_client.AwsCall, proceed: Callable[[aws_client.AwsCall], Any]) -> Any:
            if call.operation in ("UpdateItem", "PutItem", "TransactWriteItems"):
                work()
            return proceed(call)

    with aws_client.hooked(Before()):
        yield


@pytest.mark.parametrize("number", range(6))
def test_a_worker_that_dies_at_any_write_loses_nothing(job: Job, stopped_clock: Clock, number: int) -> None:
    """Three steps in a row; the worker dies just before its write number `number`."""
    left = [number]

    def step(claim: Claim[table.Row]) -> None:
        following = claim.row["done"] + 1
        record(claim, job.done(following, clock.now() if following < 3 else None))

    def die() -> None:
        # A dead worker writes nothing more, its release included.
        if left[0] == 0:
            raise Died
        left[0] -= 1

    with before_each_write(die), pytest.raises(Died):
        tasks.run_due_steps(job.pk, job.sk, LEASE, step)
    stopped_clock.forward(LEASE / clock.SECOND)
    assert tasks.run_due_steps(job.pk, job.sk, LEASE, step) is None
    assert job.row["done"] == 3


def test_conflicts_are_tried_again_until_the_write_succeeds(job: Job) -> None:
    def attempt() -> int:
        done = job.row["done"]
        if done < 3:
            table.write([table.Update(job.pk, job.sk, set={"done": done + 1})])
        write = dataclasses.replace(job.done(10), condition=table.equals("done", done))
        table.write([write])
        return int(done)

    assert transactions.retry_on_conflict(attempt) == 3


def test_conflicts_without_end_are_given_up(job: Job) -> None:
    tries: list[int] = []

    def attempt() -> None:
        tries.append(clock.now())
        table.write([dataclasses.replace(job.done(1), condition=table.equals("done", -1))])

    with pytest.raises(table.ConditionFailed):
        transactions.retry_on_conflict(attempt)
    assert 20 < len(tries) <= transactions.MAX_TRIES
    assert tries[-1] - tries[0] <= (transactions.CONFLICT_S + 1) * clock.SECOND


def test_an_overdue_row_is_woken_unless_a_worker_has_it(job: Job, stopped_clock: Clock) -> None:
    claim = job.claimed()
    assert job.overdue() is None
    tasks.release(claim)
    assert job.overdue() == job.row
    job.claimed()
    stopped_clock.forward(LEASE / clock.SECOND)
    assert job.overdue() == job.row, "the worker is dead"


def test_overdue_rows_keep_the_order_of_the_index(stage: Stage, stopped_clock: Clock) -> None:
    jobs = [Job().schedule() for _ in range(5)]
    entries = [{"pk": job.pk, "sk": job.sk, "due": job.row["due"]} for job in jobs]
    assert tasks.overdue(entries) == [job.row for job in jobs]
    assert tasks.overdue(entries[::-1]) == [job.row for job in jobs][::-1]


def test_the_interval_between_wake_ups_doubles_until_a_step_is_recorded(job: Job, stopped_clock: Clock) -> None:
    first = job.row["due"]
    for wake_ups, wait in enumerate((60, 120, 240, 480, 960, 1920, 3600, 3600), 1):
        tasks.count_wake_up(job.row)
        row = job.row
        assert (row["wake_ups"], row["due"]) == (wake_ups, due(clock.now() + wait * clock.SECOND))
    assert job.overdue(first) is None, "the row has moved on"
    record(job.claimed(), job.done(1, clock.now()))
    assert "wake_ups" not in job.row


def test_a_wake_up_whose_row_has_another_step_since_postpones_nothing(job: Job, stopped_clock: Clock) -> None:
    seen = job.row
    stopped_clock.forward(1)
    record(job.claimed(), job.done(1, clock.now()))
    after = job.row
    tasks.count_wake_up(seen)
    assert job.row == after
    record(job.claimed(), job.done(2))
    after = job.row
    tasks.count_wake_up(seen)
    assert job.row == after


def test_a_wake_up_counts_although_its_worker_has_the_row_already_and_fails(job: Job, stopped_clock: Clock) -> None:
    """Otherwise a row whose worker always fails would get a wake-up each minute."""
    seen = job.row
    claim = job.claimed()
    tasks.count_wake_up(seen)
    tasks.release(claim, failed=True)
    assert job.row["wake_ups"] == 1
    assert job.claimed().lost_workers == 1


def test_a_postponed_row_moves_to_its_shard_of_the_present_setting(
    job: Job, stopped_clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUE_SHARDS", "64")
    rows = [Job(sk=f"job_{number}").schedule() for number in range(20)]
    assert any(row.row["due_shard"] not in {f"due#{n}" for n in range(8)} for row in rows)
    monkeypatch.setenv("DUE_SHARDS", "8")
    for each in rows:
        tasks.count_wake_up(each.row)
        assert each.row["due_shard"] == due_shard(each.sk)


def test_a_claim_that_meets_a_write_of_somebody_else_is_decided_on_the_row_as_it_is_then(job: Job) -> None:
    def finish() -> None:
        table.write([table.Update(job.pk, job.sk, set=dict(tasks.NO_WORK))])

    with just_before("UpdateItem", finish):
        assert job.claim() is None
