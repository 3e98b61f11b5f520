"""The canary over HTTP: it passes where a change arrives as a signed webhook, and fails where anything is missing."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from shared.canary import receipts, runs
from shared.core import clock, metrics
from shared.projects import api_keys, projects
from shared.store import table
from tests.support.clocks import Clock
from tests.support.http_gateway import Served, delivering, serving
from tests.support.keys import new_key
from tests.support.log_lines import ids, lines
from tests.support.stage import Stage


@pytest.fixture
def served_stage(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """The stage's API, whose address the canary knows."""
    with serving(stage) as found:
        monkeypatch.setenv("BASE_URL", found.base_url)
        yield found


@pytest.fixture
def base_url(served_stage: Served) -> str:
    """Where the stage's API is served."""
    return served_stage.base_url


def run(stage: Stage) -> bool:
    passed: bool = stage.invoke("canary", {"detail-type": "Scheduled Event"})["passed"]
    return passed


def rows(*parts: str) -> list[table.Row]:
    """What the canary's project has in a partition."""
    return [row for page in table.query(runs.SCOPE.pk(*parts), limit=100) for row in page]


def expected_rows() -> list[table.Row]:
    return [row for page in table.query("CANARY", limit=100) for row in page]


def assert_nothing_is_left() -> None:
    assert [row for kind in ("customer", "deleted_customer", "webhook_endpoint") for row in rows(kind)] == []
    assert len(expected_rows()) <= 1, "the rows of earlier runs are left"
    assert api_keys.of_project(runs.PROJECT_ID) == []


def results(printed: pytest.CaptureFixture[str]) -> dict[str, float]:
    """The canary's metrics since the last look."""
    found = [json.loads(line) for line in printed.readouterr().out.splitlines() if line.startswith('{"_aws"')]
    mine = [line for line in found if line["service"] == metrics.CANARY]
    return {
        name: line[name][0] for line in mine for name in (metrics.CANARY_PASSED, metrics.CANARY_WEBHOOK) if name in line
    }


def post(url: str, body: bytes = b"{}", method: str = "POST", signature: str = "") -> tuple[int, Any]:
    """Status and error of a request."""
    request = urllib.request.Request(url, data=body, method=method, headers={"Service-Signature": signature})
    try:
        with urllib.request.urlopen(request, timeout=20) as response:
            return response.status, None
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())["error"]


def test_the_canary_passes_and_leaves_nothing(stage: Stage, base_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with lines() as logged:
        for _ in range(2):
            # The receiver reads the verdict after the run has passed, so the delivery ends before the next run.
            with delivering(stage):
                assert run(stage) is True
    measured = results(capsys)
    assert measured[metrics.CANARY_PASSED] == 1
    assert 0 < measured[metrics.CANARY_WEBHOOK] < 20_000
    assert ids(logged, "attempt", "status") == [(204,), (204,)]
    assert_nothing_is_left()


def test_its_project_takes_no_number_from_others(stage: Stage, base_url: str) -> None:
    projects.ensure(runs.PROJECT_ID, runs.PROJECT_NAME)
    created = projects.create("Next")
    assert created.id == max(project.id for project in projects.list_all()) > 0
    assert projects.name_of(runs.PROJECT_ID) == "Canary"


def test_a_webhook_that_does_not_arrive_fails_the_run_and_says_so(
    stage: Stage, base_url: str, stopped_clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with lines() as logged:
        assert run(stage) is False
    assert results(capsys) == {metrics.CANARY_PASSED: 0}
    assert ids(logged, "canary failed", "reason") == [("no webhook arrived within 20 seconds",)]
    assert_nothing_is_left()


def test_a_forged_webhook_is_refused_and_fails_the_run(
    stage: Stage, base_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    answered: list[tuple[int, Any]] = []
    done = threading.Event()

    def forge() -> None:
        while not done.wait(0.05):
            for row in rows("webhook_endpoint"):
                answered.append(post(json.loads(row["doc"])["url"], signature="t=1,v1=00"))
                return

    forger = threading.Thread(target=forge, daemon=True)
    forger.start()
    with lines() as logged:
        assert run(stage) is False
    done.set()
    forger.join()
    assert ids(logged, "canary failed", "reason") == [("the webhook has no valid signature",)]
    [(status, error)] = answered
    assert (status, error["code"]) == (404, "route_not_found")
    assert results(capsys) == {metrics.CANARY_PASSED: 0}
    assert_nothing_is_left()


def test_an_api_that_does_not_respond_fails_the_run(
    stage: Stage, base_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BASE_URL", "http://127.0.0.1:1")
    with lines() as logged:
        assert run(stage) is False
    [(reason,)] = ids(logged, "canary failed", "reason")
    assert reason.startswith("GET /v1/ping: ")
    assert results(capsys) == {metrics.CANARY_PASSED: 0}
    assert api_keys.of_project(runs.PROJECT_ID) == []


def test_a_wrong_response_is_reported_with_its_request(
    stage: Stage, base_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BASE_URL", f"{base_url}/elsewhere")
    with lines() as logged:
        assert run(stage) is False
    [(reason, request_id)] = ids(logged, "canary failed", "reason", "request_id")
    assert reason.startswith("GET /v1/ping: 404 instead of 200: ")
    assert request_id.startswith("req_")


def test_a_run_deletes_what_a_run_that_died_left(stage: Stage, base_url: str) -> None:
    projects.ensure(runs.PROJECT_ID, runs.PROJECT_NAME)
    plaintext = new_key(runs.PROJECT_ID)
    api = runs._Api(base_url, plaintext)
    api.call("POST", "/v1/webhook_endpoints", 201, {"url": f"{base_url}/canary/{'x' * 43}"})
    for _ in range(2):
        customer = api.call("POST", "/v1/customers", 201, {"phone": runs.PHONE})["id"]
    api.call("DELETE", f"/v1/customers/{customer}", 200)
    with delivering(stage):
        assert run(stage) is True
    assert_nothing_is_left()


@pytest.mark.parametrize("path", ["/canary", "/canary/", "/canary/guess", f"/canary/{'x' * 43}", "/canary/a/b"])
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_the_receiver_is_a_route_that_nobody_knows(stage: Stage, base_url: str, path: str, method: str) -> None:
    status, error = post(f"{base_url}{path}", method=method)
    assert (status, error["code"], error["message"]) == (
        404,
        "route_not_found",
        f"No operation has the path {path}.",
    )


def test_a_token_is_good_for_one_webhook_of_a_bounded_size_and_nothing_else(
    stage: Stage, base_url: str, stopped_clock: Clock
) -> None:
    token = receipts.expect()
    url = f"{base_url}/canary/{token}"
    assert post(url, method="PUT")[0] == 404
    assert post(url, b" " * (receipts.MAX_BODY + 1))[0] == 404
    assert receipts.find(token) is None
    # A webhook that no run judges is not accepted either.
    assert post(url, b"{}")[0] == 404
    assert receipts.find(token) is not None
    receipts.save_verdict(token, genuine=True)
    assert post(url, b"{}")[0] == 204
    assert post(url, b"[]")[0] == 404
    stopped_clock.forward(receipts.LIFETIME_MS / 1000 + 1)
    assert post(url, b"{}")[0] == 404
    receipts.clear()
    assert expected_rows() == []


def test_nothing_that_could_sign_or_call_is_stored_while_a_run_waits(
    stage: Stage, served_stage: Served, stopped_clock: Clock
) -> None:
    stored: list[str] = []

    def look(seconds: float) -> None:
        stored.extend(str(row) for row in [*expected_rows(), *rows("webhook_endpoint"), *rows("customer")])
        stopped_clock.forward(seconds)

    clock.use(lambda: stopped_clock.now, look)
    assert run(stage) is False
    used = {request["Authorization"].removeprefix("Bearer ") for request in served_stage.sent}
    used |= {found["secret"] for found in map(json.loads, served_stage.answered) if "secret" in found}
    assert len(used) == 2
    assert any("whk_" in row for row in stored)
    assert [secret for secret in used if any(secret in row for row in stored)] == []
