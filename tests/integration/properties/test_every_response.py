"""Whatever is sent, every answer keeps promises 1 and 2."""

from __future__ import annotations

from http.client import HTTPMessage

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from tests.support.client import Response, breaches
from tests.support.described import description
from tests.support.hostile_requests import ROUTES, Route, Sent, bodies, requests
from tests.support.properties import fixed_examples
from tests.support.stage import Answer
from tests.support.world import World


def check(method: str, target: str, answer: Answer) -> None:
    """Promises 1 to 3, and the API description, for any answer."""
    headers = HTTPMessage()
    for name, value in answer.headers.items():
        headers[name] = value
    found = Response(answer.status, headers, answer.body)
    # The request names the host.
    base_url = (
        answer.json["error"]["doc_url"].partition("/docs/errors#")[0] if answer.status >= 400 and answer.body else ""
    )
    assert not [*breaches(method, target, found, base_url, with_key=True, repeatable=False)], found
    assert answer.status < 500, found
    assert answer.status != 429, "the tests must not run into the rate limit"
    path = target.partition("?")[0]
    if headers["Content-Type"].startswith("text/html"):
        assert answer.status == 200
        assert path in ("/docs", "/docs/errors", "/docs/search")
        return
    assert not [*description().breaches(method, target, answer.status, headers, answer.body)], found
    if answer.status == 401:
        assert headers["WWW-Authenticate"] == "Bearer"
    if answer.status == 405:
        assert headers["Allow"]
    if answer.status == 201:
        assert headers["Location"].endswith(f"{path}/{answer.json['id']}")


@pytest.mark.parametrize(
    ("group", "examples"),
    [
        ("ping", 40),
        ("agent_settings", 60),
        ("customers", 140),
        ("appointments", 140),
        ("webhook_endpoints", 120),
        ("events", 80),
        ("fallback", 50),
    ],
)
def test_whatever_is_sent_the_answer_keeps_the_promises(world: World, group: str, examples: int) -> None:
    @fixed_examples(examples)
    @given(requests(group))
    def property_(sent: Sent) -> None:
        target, answer = world.filled(sent.path), world.send(sent)
        event(f"{sent.method} {answer.status}")
        check(sent.method, target, answer)
        world.tidy(sent, answer)

    property_()


@pytest.mark.parametrize("group", ["customers", "appointments", "webhook_endpoints"])
def test_the_same_request_under_the_same_key_has_the_same_outcome(world: World, group: str) -> None:
    routes = [route for route in ROUTES[group] if route.method in ("POST", "PATCH")]

    @fixed_examples(60)
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
