"""GET /openapi.json: the API description."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.client import Client, assert_error

GOLDEN = Path(__file__).parents[1] / "openapi.json"


def test_the_committed_description_is_served_with_the_address_of_the_service(anonymous: Client) -> None:
    response = anonymous.get("/openapi.json")
    committed = GOLDEN.read_text(encoding="utf-8").replace("https://api.example.com", anonymous.base_url)

    assert response.ok() == json.loads(committed)
    assert response.json["servers"] == [{"url": anonymous.base_url}]


def test_it_supports_head_and_no_other_method(anonymous: Client) -> None:
    head = anonymous.request("HEAD", "/openapi.json")
    assert (head.status, head.body) == (200, b"")

    refused = anonymous.post("/openapi.json", {})
    assert_error(refused, 405, "method_not_allowed")
    assert refused.headers["Allow"] == "GET, HEAD"
