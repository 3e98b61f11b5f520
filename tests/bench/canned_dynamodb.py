"""DynamoDB over TLS, with canned answers: one key, one customer, and a page of twenty.

    python -m tests.bench.canned_dynamodb FOLDER MILLISECONDS

writes its certificate to FOLDER/ca.pem, prints its port, and answers each request after so many milliseconds, until its
standard input ends.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.bench.subjects import CUSTOMER
from tests.support.canned_aws import answer_always, response
from tests.support.receivers import Certificate, Receiver, Request

PROJECT = 1
WHEN = "2026-01-01T00:00:00.000Z"


def customer(id: str) -> dict[str, Any]:
    """A customer's document."""
    return {
        "id": id,
        "object": "customer",
        "livemode": False,
        "created_at": WHEN,
        "updated_at": WHEN,
        "phone": "+15005550006",
        "email": "ada@example.com",
        "name": "Ada Lovelace",
        "external_id": "4711",
        "do_not_call": False,
        "metadata": {"floor": 2},
        "deleted_at": None,
    }


def _item(id: str) -> dict[str, Any]:
    return {
        "pk": {"S": f"P#{PROJECT}#test#customer"},
        "sk": {"S": id},
        "kind": {"S": "customer"},
        "v": {"N": "1"},
        "w1": {"S": "000000"},
        "doc": {"S": json.dumps(customer(id), separators=(",", ":"))},
        **{f"f{number}": {"S": f"P#1#test#customer#{number}#{'0' * 22}"} for number in (1, 2, 3)},
    }


def _key_row(values: Mapping[str, Any]) -> dict[str, Any]:
    """The key's row after a request was counted, in the minute that the request names, with a busy minute's counts."""
    minute = next((values[name] for name in (":s_m", ":m") if name in values), {"N": "0"})
    counts = {f"s{second}": {"N": "1"} for second in range(60)}
    return {
        "pk": {"S": "KEY#0"},
        "sk": {"S": "key"},
        "kind": {"S": "api_key"},
        "key_id": {"S": "key_01k0000000000000000000000a"},
        "project_id": {"N": str(PROJECT)},
        "project_name": {"S": "Blue Clinic"},
        "livemode": {"BOOL": False},
        "label": {"S": "backend"},
        "m": minute,
        "w": {"M": counts | {"n": {"N": "60"}}},
    }


def answer(request: Request) -> bytes:
    """What DynamoDB would answer."""
    operation = request.headers["x-amz-target"].partition(".")[2]
    sent = json.loads(request.body)
    if operation == "UpdateItem":
        of_key = sent["Key"]["pk"]["S"].startswith("KEY#")
        return response(200, {"Attributes": _key_row(sent["ExpressionAttributeValues"])} if of_key else {})
    if operation == "GetItem":
        return response(200, {"Item": _item(CUSTOMER)})
    if operation == "Query":
        ids = (f"cust_01k00000000000000000000{number:03d}" for number in itertools.count())
        return response(200, {"Items": [_item(id) for id in itertools.islice(ids, min(sent["Limit"], 21))]})
    return response(200, {})


def main(folder: str, milliseconds: str) -> None:
    """Serve until the standard input ends."""
    certificate = Certificate("localhost")
    (Path(folder) / "ca.pem").write_bytes(certificate.public)
    wait = float(milliseconds) / 1000

    def answer_later(request: Request) -> bytes:
        found = answer(request)
        if wait:
            time.sleep(wait)
        return found

    with Receiver(answer_always(answer_later), tls=certificate) as server:
        print(server.port, flush=True)
        sys.stdin.read()
        # Without waiting for the connections of clients that are already gone.
        os._exit(0)


if __name__ == "__main__":
    threading.stack_size(256 * 1024)
    main(*sys.argv[1:])
