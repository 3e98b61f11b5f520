"""What is measured, in a process of its own. A line of the standard input is a task, a line of the output a result.

    python -m tests.bench.subjects ours

`GET 200` does 200 of them. The first task also imports the subject, and the CPU time of the interpreter's start counts
as its own. A result has the CPU time and the elapsed time in milliseconds, and the process's peak memory in MB.
"""

from __future__ import annotations

import asyncio
import importlib
import io
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

# This module imports nothing that weighs: it is part of what is measured.

KEY = "sk_test_0123456789abcdefghijklmnop"
CUSTOMER = "cust_01k0000000000000000000000a"

BODY = {"phone": "+15005550006", "name": "Ada Lovelace", "email": "ada@example.com", "external_id": "4711"}
TASKS: dict[str, tuple[str, str, dict[str, str] | None, str | None, int]] = {
    "GET": ("GET", f"/v1/customers/{CUSTOMER}", None, None, 200),
    "create with key": ("POST", "/v1/customers", BODY, "an-idempotency-key", 201),
    "PATCH": ("PATCH", f"/v1/customers/{CUSTOMER}", {"name": "Ada King"}, None, 200),
    "list of 20": ("GET", "/v1/customers", None, None, 200),
}
HANDLERS = {"ours": ("functions.entry", "handler"), "usual": ("tests.bench.usual", "handler")}


class Context:
    """The context of an invocation."""

    function_name = "customers"
    memory_limit_in_mb = "512"
    invoked_function_arn = "arn:aws:lambda:us-east-1:123456789012:function:customers"
    aws_request_id = "c6af9ac6-7b61-11e6-9a41-93e8deadbeef"

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until the timeout."""
        return 29_000


def event(method: str, path: str, body: Any, key: str | None) -> dict[str, Any]:
    """A request as API Gateway passes it on."""
    headers = {"Host": "api.example.com", "X-Forwarded-Proto": "https", "Authorization": f"Bearer {KEY}"}
    headers |= {"Content-Type": "application/json"} if body else {}
    headers |= {"Idempotency-Key": key} if key else {}
    return {
        "resource": "/{proxy+}",
        "path": path,
        "httpMethod": method,
        "headers": headers,
        "multiValueHeaders": {name: [value] for name, value in headers.items()},
        "queryStringParameters": None,
        "multiValueQueryStringParameters": None,
        "requestContext": {"path": path, "stage": "dev", "identity": {"sourceIp": "10.0.0.1"}, "requestId": "r"},
        "body": json.dumps(body) if body else None,
        "isBase64Encoded": False,
    }


def bare() -> Callable[[str], None]:
    """A GetItem of boto3's client, whatever the task."""
    import boto3

    client: Any = boto3.client("dynamodb")
    key = {"pk": {"S": "P#1#test#customer"}, "sk": {"S": CUSTOMER}}

    def get(task: str) -> None:
        assert "Item" in client.get_item(TableName=os.environ["TABLE_NAME"], Key=key, ConsistentRead=True)

    return get


def api(name: str) -> Callable[[str], None]:
    """A Lambda handler."""
    module, attribute = HANDLERS[name]
    handler = getattr(importlib.import_module(module), attribute)
    events = {
        task: (event(method, path, body, key), status) for task, (method, path, body, key, status) in TASKS.items()
    }

    def serve(task: str) -> None:
        sent, status = events[task]
        found = handler(sent, Context())
        assert found["statusCode"] == status, found

    return serve


def peak_memory() -> float:
    """The most memory of this process in MB. The kernel's `ru_maxrss` includes what the parent had when it forked."""
    from pathlib import Path  # only now: it is no part of what is measured

    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def run(prepare: Callable[[], Callable[[str, int], None]]) -> None:
    """Do the task of each line of the standard input so many times, and write what it took. The first one prepares."""
    results, sys.stdout = sys.stdout, io.StringIO()
    do: Callable[[str, int], None] | None = None
    for line in sys.stdin:
        task, _, times = line.strip().rpartition(" ")
        cpu, elapsed = time.process_time(), time.perf_counter()
        if do is None:
            # The interpreter's own start is part of a cold start.
            cpu, elapsed = 0.0, time.perf_counter()
            do = prepare()
        do(task, int(times))
        used = (time.process_time() - cpu) * 1000, (time.perf_counter() - elapsed) * 1000
        sys.stdout = io.StringIO()
        print(json.dumps([*used, peak_memory()]), file=results, flush=True)


def main(name: str) -> None:
    """Do the tasks, and say what each took."""
    asyncio.set_event_loop(asyncio.new_event_loop())

    def prepare() -> Callable[[str, int], None]:
        serve = bare() if name == "bare" else api(name)

        def repeat(task: str, times: int) -> None:
            for _ in range(times):
                serve(task)

        return repeat

    run(prepare)


if __name__ == "__main__":
    main(sys.argv[1])
