"""What `make deploy` asks of the account first, against an account on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from infra import preflight
from infra.app import context
from infra.stage import parse
from tests.support.synth import ACCOUNT, OWNED, REGION

OTHER_ACCOUNT = "111122223333"
NEEDED = sum(context()["stages"]["prod"]["reserved_concurrency"].values()) + 100

Account = Callable[[str, int], None]


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    """Says whose the credentials are, and how many executions the account may have at once."""
    limits: dict[str, str] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert f"/{REGION}/lambda/" in self.headers["Authorization"]
            allowed = int(limits["allowed"])
            self._answer(json.dumps({"AccountLimit": {"ConcurrentExecutions": allowed}}))

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            result = f"<GetCallerIdentityResult><Account>{limits['account']}</Account></GetCallerIdentityResult>"
            self._answer(f"<GetCallerIdentityResponse>{result}</GetCallerIdentityResponse>")

        def _answer(self, body: str) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_address[1]}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_REGION", REGION)
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    yield lambda account, allowed: limits.update(account=account, allowed=str(allowed))
    server.shutdown()
    server.server_close()


PROD = parse("prod", context()["stages"]["prod"] | OWNED)


def test_an_account_with_room_takes_the_stage(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    account(ACCOUNT, NEEDED)
    assert [*preflight.refusals(PROD)] == []
    assert capsys.readouterr() == ("", "")


def test_another_account_is_refused_in_one_line(account: Account) -> None:
    account(OTHER_ACCOUNT, 10_000)
    (line,) = preflight.refusals(PROD)
    assert line == f"stage prod belongs to account {ACCOUNT}; these credentials are of account {OTHER_ACCOUNT}"


def test_too_small_an_account_is_refused_with_what_to_request(account: Account) -> None:
    account(ACCOUNT, NEEDED - 1)
    (line,) = preflight.refusals(PROD)
    assert f"needs {NEEDED} concurrent executions" in line
    assert "aws service-quotas request-service-quota-increase --service-code lambda" in line


def test_a_stage_that_lacks_what_its_owner_knows_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert preflight.main(["prod"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("infra.preflight: stage prod: it keeps data and lacks ")


def test_a_stage_that_reserves_nothing_is_deployed_to_a_new_account_with_a_word_of_advice(
    account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    account(OTHER_ACCOUNT, 10)
    assert preflight.main(["dev"]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    assert "the account has 10" in told.out


def test_a_stage_that_nobody_described_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert preflight.main(["live"]) == 1
    assert "no stage 'live'" in capsys.readouterr().err
