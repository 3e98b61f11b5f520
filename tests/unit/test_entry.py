"""Lambda's entry point: importing it loads one function and builds what its first request needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from infra import topology
from tests.bench import canned_dynamodb, subjects
from tests.support.canned_aws import answer_always, endpoint
from tests.support.receivers import Receiver


def run(code: str, function: str, server: Receiver | None = None) -> Any:
    """What the code prints as JSON, in a new process whose AWS is the server."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment |= {
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_DEFAULT_REGION": "us-east-1",
        "TABLE_NAME": "table",
        "SERVICE_NAME": function,
        "LOG_LEVEL": "CRITICAL",
    }
    environment |= {"AWS_ENDPOINT_URL": server.url.removesuffix("/hook")} if server else {}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


UNWANTED = ("aws_lambda_powertools", "boto3", "botocore", "certifi", "requests", "ulid", "urllib3")
"""Packages that cost a cold start much. What a function needs of them, it loads when it does."""
NEEDED = {"admin": ["certifi"], "consent": ["botocore"], "call_events": ["botocore"]}
"""The exceptions of boto3's clients of Connect and WhatsApp, and the certificates of sign-in providers."""


@pytest.mark.parametrize("function", topology.FUNCTIONS, ids=lambda function: function.name)
def test_the_entry_point_is_the_functions_handler_and_loads_no_package_that_only_some_calls_need(
    function: topology.Function,
) -> None:
    code = f"""
import json, sys
from functions.entry import handler
from shared.aws import services
same = handler.__wrapped__ is sys.modules[{function.module!r}].handler
unwanted = [each for each in {UNWANTED!r} if each in sys.modules]
print(json.dumps([same, services.dynamodb.cache_info().currsize, unwanted]))
"""
    assert run(code, function.name) == [True, 1, NEEDED.get(function.name, [])]


@pytest.mark.parametrize("function", ["customers", "appointments", "sessions", "events", "webhook_endpoints", "ping"])
def test_functions_that_run_no_agent_load_none(function: str) -> None:
    code = "import json, sys, functions.entry; print(json.dumps([name for name in sys.modules if '.agent.' in name]))"
    assert run(code, function) == []


@pytest.mark.parametrize("task", subjects.TASKS)
def test_a_first_request_imports_nothing(task: str) -> None:
    code = f"""
import asyncio, json, sys
asyncio.set_event_loop(asyncio.new_event_loop())
from functions.entry import handler
loaded = {{*sys.modules}}
class Context:
    def get_remaining_time_in_millis(self):
        return 29_000
found = handler(json.loads({json.dumps(json.dumps(subjects.event(*subjects.TASKS[task][:4])))}), Context())
print(json.dumps([found["statusCode"], sorted({{*sys.modules}} - loaded)]))
"""
    with endpoint(answer_always(canned_dynamodb.answer)) as server:
        status, imported = run(code, "customers", server)
    # Only a body with an e-mail address needs these.
    others = [name for name in imported if name.partition(".")[0] not in ("email_validator", "idna")]
    assert (status, others) == (subjects.TASKS[task][-1], [])


@pytest.mark.parametrize(
    ("response", "counted"),
    [
        ({"statusCode": 200, "body": "{}"}, False),
        ({"statusCode": 429, "body": "{}"}, False),
        ({"statusCode": 500, "body": "{}"}, True),
        ({"statusCode": 503, "body": "{}"}, True),
        ({"statusCode": 504, "body": "{}"}, False),
        ({"batchItemFailures": []}, False),
        ({"batchItemFailures": [{"itemIdentifier": "1"}]}, True),
        (3, False),
        (None, False),
    ],
)
def test_failures_that_a_response_reports_are_counted_by_version(response: Any, counted: bool) -> None:
    code = f"""
import contextlib, io, json
from functions.entry import counting_failures
class Context:
    function_version = "7"
printed = io.StringIO()
with contextlib.redirect_stdout(printed):
    returned = counting_failures(lambda event, context: {response!r})({{}}, Context())
assert returned == {response!r}
print(json.dumps([json.loads(line) for line in printed.getvalue().splitlines()]))
"""
    lines = run(code, "ping")
    assert [(line["version"], line["service"], line["FailedInvocations"]) for line in lines] == (
        [("7", "ping", [1.0])] if counted else []
    )
