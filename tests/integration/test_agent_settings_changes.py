"""Changes of the agent's settings at once, and under Idempotency-Keys (promises 11)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.support.concurrency import run_at_once
from tests.support.resources import idempotency_header
from tests.support.stage import Answer, Stage

pytestmark = pytest.mark.usefixtures("project")
PATH = "/v1/agent_settings"


def patch(stage: Stage, key: str | None = None, **changes: Any) -> Answer:
    return stage.call("PATCH", PATH, changes, headers=idempotency_header(key))


def test_changes_of_different_settings_at_once_all_take_effect(stage: Stage) -> None:
    changes: list[dict[str, Any]] = [
        {"business_name": "Blue Clinic"},
        {"timezone": "Europe/Berlin"},
        {"minimum_notice_minutes": 60},
        {"change_policy": "ask_staff"},
        {"facts": [{"question": "Do you have parking?", "answer": "Yes."}]},
    ]
    answers = run_at_once([partial(patch, stage, **change) for change in changes])
    assert [answer.status for answer in answers] == [200] * len(changes)
    settings = stage.call("GET", PATH).json
    for change in changes:
        assert settings | change == settings


def test_changes_at_once_with_one_key_are_one(stage: Stage) -> None:
    answers = run_at_once([partial(patch, stage, "k", business_name="Blue Clinic")] * 8)
    assert {answer.code for answer in answers if answer.status != 200} <= {"idempotency_key_in_use"}
    assert len({answer.body for answer in answers if answer.status == 200}) == 1
    assert patch(stage, "k", business_name="Blue Clinic").headers["idempotent-replayed"] == "true"


def test_a_refused_change_leaves_its_key_free(stage: Stage) -> None:
    assert patch(stage, "k", timezone="Berlin").code == "parameter_invalid"
    assert patch(stage, "k", timezone="Europe/Berlin").status == 200
    assert patch(stage, "k", timezone="Berlin").code == "idempotency_key_reused"
