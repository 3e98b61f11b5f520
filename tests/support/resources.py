"""Resources of a test's project over HTTP, and what the queues hold for it."""

from __future__ import annotations

import json
from typing import Any

from shared.store.keys import Scope, scope_of
from tests.support.stage import Stage


def create_resource(stage: Stage, path: str, **fields: Any) -> Any:
    response = stage.call("POST", path, fields)
    assert response.status == 201, response.body
    return response.json


def get_resource(stage: Stage, path: str) -> Any:
    response = stage.call("GET", path)
    assert response.status == 200, response.body
    return response.json


def list_resources(stage: Stage, path: str) -> list[Any]:
    data: list[Any] = get_resource(stage, f"{path}?limit=100")["data"]
    return data


def idempotency_header(key: str | None) -> dict[str, str] | None:
    return {"Idempotency-Key": key} if key else None


def woken(stage: Stage, scope: Scope, queue: str = "turns") -> list[dict[str, Any]]:
    """What a queue has for a project right now."""
    messages = [(scope_of(json.loads(each["body"])["pk"]), each) for each in stage.messages(queue)]
    return [each for owner, each in messages if owner.project_id == scope.project_id]


def create_and_get_path(stage: Stage, kind: str, **fields: Any) -> str:
    """The path of a new resource."""
    return f"/v1/{kind}/{create_resource(stage, f'/v1/{kind}', **fields)['id']}"
