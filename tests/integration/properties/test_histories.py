"""Appointments against a model of promises 6."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from tests.support.hostile_values import STATUSES
from tests.support.properties import DAYS, canonical, fixed_examples, merge_patched
from tests.support.stage import Stage
from tests.support.world import World


@pytest.fixture(scope="module")
def quiet_world(_stage: Stage) -> World:
    """A project without endpoints."""
    return World(_stage, None)


ALLOWED = {
    "pending": {"confirmed", "rescheduled", "cancelled", "failed"},
    "confirmed": {"rescheduled", "cancelled", "failed"},
    "rescheduled": {"confirmed", "rescheduled", "cancelled", "failed"},
    "failed": {"confirmed", "rescheduled", "cancelled"},
    "cancelled": set(),
}
REASON = {"cancelled": "cancellation_reason", "failed": "failure_reason"}


def refusals(state: dict[str, Any], patch: dict[str, Any]) -> set[str]:
    """The codes that a patch may be refused with; empty for one that is to be carried out."""
    asked, now = patch.get("status"), state["status"]
    moved = patch.get("appointment_at", state["appointment_at"]) != state["appointment_at"]
    codes: set[str] = set()
    if state["deleted_at"] is not None:
        codes.add("appointment_deleted")
    if asked == "rescheduled" and not moved:
        codes |= {"parameter_missing", "parameter_invalid"}
    if moved and asked in ("cancelled", "failed"):
        codes.add("parameters_exclusive")
    target = asked or ("rescheduled" if moved else now)
    if moved and asked == now == "pending":
        target = "rescheduled"
    stays = target == now and (not moved or now == "confirmed")
    if not stays and target not in ALLOWED[now]:
        codes.add("invalid_status_transition")
    for status, reason in REASON.items():
        if patch.get(reason) is not None and target != status:
            codes.add("parameters_exclusive")
    return codes


def apply_patch(state: dict[str, Any], patch: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """The appointment after a patch that is not refused, and the type of its event."""
    after = {**state, **{name: value for name, value in patch.items() if name != "metadata"}}
    if "metadata" in patch:
        after["metadata"] = merge_patched(state, {"metadata": patch["metadata"]})["metadata"]
    moved = after["appointment_at"] != state["appointment_at"]
    if moved:
        after["status"] = "confirmed" if patch.get("status") == "confirmed" else "rescheduled"
    for status, reason in REASON.items():
        if after["status"] != status:
            after[reason] = None
    if moved:
        return after, "appointment.rescheduled"
    return after, f"appointment.{after['status']}" if after["status"] != state["status"] else None


PATCHED = st.fixed_dictionaries(
    {},
    optional={
        "status": st.sampled_from(STATUSES),
        "appointment_at": st.sampled_from(DAYS),
        "title": st.none() | st.sampled_from(["Visit", "Call"]),
        "metadata": st.none() | st.dictionaries(st.sampled_from("ab"), st.sampled_from([None, 1, 1.0, True, "x"])),
        "cancellation_reason": st.sampled_from([None, "ill"]),
        "failure_reason": st.sampled_from([None, "no show"]),
    },
)


class Appointments(RuleBasedStateMachine):
    """Writes to a few appointments; at the end the event log must tell exactly what the model did."""

    world: World

    def __init__(self) -> None:
        super().__init__()
        self.states: list[dict[str, Any]] = []
        self.events: list[list[tuple[str, dict[str, Any], dict[str, Any] | None]]] = []

    @precondition(lambda self: len(self.states) < 3)
    @rule(at=st.sampled_from(DAYS), status=st.sampled_from([None, "pending", "confirmed"]))
    def create(self, at: str, status: str | None) -> None:
        body = {"customer_id": self.world.ids["customer"], "appointment_at": at} | (
            {"status": status} if status else {}
        )
        made = self.world.call("POST", "/v1/appointments", body)
        assert made.status == 201, made.body
        assert made.json["status"] == (status or "pending")
        assert made.json["appointment_at"] == at
        self.states.append(made.json)
        self.events.append([("appointment.created", made.json, None)])

    @precondition(lambda self: bool(self.states))
    @rule(which=st.integers(0, 2), patch=PATCHED, twice=st.booleans())
    def patch(self, which: int, patch: dict[str, Any], twice: bool) -> None:
        number = which % len(self.states)
        before = self.states[number]
        path, key = f"/v1/appointments/{before['id']}", self.world.key()
        options: dict[str, Any] = {"key": key, "headers": {"Idempotency-Key": self.world.new()} if twice else {}}
        answer = self.world.call("PATCH", path, patch, **options)
        refused = refusals(before, patch)
        if refused:
            assert answer.status in (400, 409), (before, patch, answer.body)
            assert answer.code in refused, (before, patch, answer.body)
        else:
            assert answer.status == 200, (before, patch, answer.body)
            after, type = apply_patch(before, patch)
            self._moved_on(number, answer.json, after, type)
        if twice:
            again = self.world.call("PATCH", path, patch, **options)
            assert again.status == answer.status
            assert again.body == answer.body or refused

    @precondition(lambda self: bool(self.states))
    @rule(which=st.integers(0, 2))
    def delete(self, which: int) -> None:
        number = which % len(self.states)
        before = self.states[number]
        answer = self.world.call("DELETE", f"/v1/appointments/{before['id']}")
        assert answer.status == 200
        if before["deleted_at"] is not None:
            assert answer.json == before
            return
        after, type = apply_patch(before, {"status": "cancelled"})
        assert answer.json["deleted_at"] is not None
        self._moved_on(number, answer.json, after | {"deleted_at": answer.json["deleted_at"]}, type)

    @precondition(lambda self: bool(self.states))
    @rule()
    def look(self) -> None:
        listed = self.world.call("GET", "/v1/appointments?limit=100").json["data"]
        ids = [item["id"] for item in listed]
        for state in self.states:
            assert canonical(self.world.call("GET", f"/v1/appointments/{state['id']}").json) == canonical(state)
            assert (state["id"] in ids) == (state["deleted_at"] is None)

    def _moved_on(self, number: int, found: dict[str, Any], after: dict[str, Any], type: str | None) -> None:
        before = self.states[number]
        if canonical(after) == canonical(before):
            assert canonical(found) == canonical(before)
            return
        assert canonical(found | {"updated_at": ""}) == canonical(after | {"updated_at": ""})
        assert found["updated_at"] >= before["updated_at"]
        self.states[number] = found
        if type is not None:
            self.events[number].append((type, found, before))

    def teardown(self) -> None:
        self.world.stage.fan_out()
        for state, expected in zip(self.states, self.events, strict=True):
            log = self.world.call("GET", f"/v1/events?limit=100&object_id={state['id']}").json["data"]
            assert [one["type"] for one in reversed(log)] == [type for type, _, _ in expected]
            for one, (_, after, before) in zip(reversed(log), expected, strict=True):
                assert canonical(one["data"]["object"]) == canonical(after)
                previous = before and {
                    name: value
                    for name, value in before.items()
                    if name != "updated_at" and canonical(value) != canonical(after[name])
                }
                assert canonical(one["data"].get("previous_attributes")) == canonical(previous)


def test_appointments_and_their_events_are_as_promised_through_any_history(quiet_world: World) -> None:
    class Machine(Appointments):
        world = quiet_world

    run_state_machine_as_test(Machine, settings=fixed_examples(25, stateful_step_count=15))
