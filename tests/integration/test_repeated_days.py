"""Hours that name a day many times: the settings stay small, for the store and for the model's prompt."""

from __future__ import annotations

import json

from tests.support.simulated_calls import callee
from tests.support.stage import Stage


def test_days_that_are_repeated_do_not_outgrow_the_row(stage: Stage) -> None:
    callee(stage)
    entry = {"days": ["monday"] * 20_000, "from": "09:00", "to": "17:00"}
    for name in ("opening_hours", "calling_hours"):
        assert stage.call("PATCH", "/v1/agent_settings", {name: [entry]}).status == 200
    settings = stage.call("GET", "/v1/agent_settings").json
    assert len(json.dumps(settings)) < 20_000
    assert settings["opening_hours"] == [{"days": ["monday"], "from": "09:00", "to": "17:00"}]
