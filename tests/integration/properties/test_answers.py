"""Whatever is sent, every answer keeps the contract (sections 1 and 2)."""

from __future__ import annotations

import re

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from shared.core.errors import ERRORS, RETRYABLE
from tests.support.client import RATE_LIMIT_POLICY, REVISIONS, ULID
from tests.support.hostile_requests import ROUTES, Route, Sent, bodies, requests
from tests.support.properties import fixed
from tests.support.shapes import assert_page, assert_shape
from tests.support.stage import Answer
from tests.support.world import World


def check(sent: Sent, answer: Answer) -> None:
    """Contract sections 1 and 2, for any answer."""
    headers = answer.headers
    assert answer.status < 500, answer.body
    assert re.fullmatch(f"req_{ULID}", headers["service-request-id"])
    assert headers["service-version"] in REVISIONS
    assert headers["cache-control"] == "no-store"
    if sent.method == "HEAD":
        assert answer.body == b""
        return
    if headers["content-type"].startswith("text/html"):
        assert answer.status == 200
        assert sent.path.partition("?")[0] in ("/docs", "/docs/errors", "/docs/search")
        return
    assert headers["content-type"] == "application/json"
    code = check_error(answer) if answer.status >= 400 else ""
    if answer.status != 401 and code not in ("route_not_found", "method_not_allowed"):
        assert headers["ratelimit-policy"] == RATE_LIMIT_POLICY
        assert re.fullmatch(r'"(second|minute)";r=\d+;t=[1-9]\d*', headers["ratelimit"])
    if answer.status < 400:
        assert "service-should-retry" not in headers
        check_success(sent, answer)


def check_error(answer: Answer) -> str:
    assert set(answer.json) == {"error"}
    error = answer.json["error"]
    assert set(error) - {"param"} == {"type", "code", "message", "request_id", "doc_url"}
    code, kind = error["code"], ERRORS[error["code"]]
    assert error["type"] == kind.type
    assert answer.status == kind.status or (code, answer.status) == ("resource_not_found", 400)
    assert isinstance(error["message"], str)
    assert error["message"].strip()
    assert isinstance(error.get("param", ""), str)
    assert error["request_id"] == answer.headers["service-request-id"]
    assert error["doc_url"].endswith(f"/docs/errors#{code}")
    assert answer.headers["service-should-retry"] == ("true" if code in RETRYABLE else "false")
    if answer.status == 401:
        assert answer.headers["www-authenticate"] == "Bearer"
    if answer.status == 405:
        assert answer.headers["allow"]
    assert answer.status != 429, "the tests must not run into the rate limit"
    return str(code)


def check_success(sent: Sent, answer: Answer) -> None:
    assert answer.status in (200, 201, 202)
    found, path = answer.json, sent.path.partition("?")[0]
    kind = found["object"]
    if kind == "list":
        item = "webhook_delivery" if path.endswith("/deliveries") else path.rsplit("/", 1)[1].removesuffix("s")
        assert_page(found, found["url"], item)
        assert found["url"].startswith("/v1/")
    elif kind == "ping":
        assert set(found) == {"object", "project_id", "project_name", "livemode", "request_id"}
        assert found["request_id"] == answer.headers["service-request-id"]
    elif found.get("deleted") is True:
        assert set(found) == {"id", "object", "deleted"}
    else:
        secret = path.endswith("/rotate_secret") or (answer.status == 201 and kind == "webhook_endpoint")
        assert_shape(found, kind, secret=secret)
    if answer.status == 201:
        assert answer.headers["location"].endswith(f"{path}/{found['id']}")


@pytest.mark.parametrize(
    ("group", "examples"),
    [
        ("ping", 40),
        ("customers", 140),
        ("appointments", 140),
        ("webhook_endpoints", 120),
        ("events", 80),
        ("fallback", 50),
    ],
)
def test_whatever_is_sent_the_answer_keeps_the_contract(world: World, group: str, examples: int) -> None:
    @fixed(examples)
    @given(requests(group))
    def property_(sent: Sent) -> None:
        answer = world.send(sent)
        event(f"{sent.method} {answer.status}")
        check(sent, answer)
        world.tidy(sent, answer)

    property_()


@pytest.mark.parametrize("group", ["customers", "appointments", "webhook_endpoints"])
def test_the_same_request_under_the_same_key_has_the_same_outcome(world: World, group: str) -> None:
    routes = [route for route in ROUTES[group] if route.method in ("POST", "PATCH")]

    @fixed(60)
    @given(st.sampled_from(routes).flatmap(lambda route: st.tuples(st.just(route), bodies(route))))
    def property_(chosen: tuple[Route, str | bytes | None]) -> None:
        route, raw = chosen
        path, key = world.filled(route.path), world.key()
        raw = world.filled(raw) if isinstance(raw, str) else raw
        headers = {"Idempotency-Key": world.new()}
        first, second = (world.stage.call(route.method, path, raw=raw, key=key, headers=headers) for _ in range(2))
        event(f"{route.method} {first.status}")
        one, other = (answer.headers["service-request-id"].encode() for answer in (first, second))
        assert second.status == first.status
        assert second.body.replace(other, one) == first.body
        replayed = first.status < 300 or first.status == 409
        assert second.headers.get("idempotent-replayed") == ("true" if replayed else None)
        assert second.headers.get("original-request") == (one.decode() if replayed else None)
        if first.status < 300:
            assert second.body == first.body
            assert second.headers.get("location") == first.headers.get("location")
        world.tidy(Sent(route.method, route.path, raw, {}), first)

    property_()
