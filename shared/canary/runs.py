"""Runs of the canary: ping, create a customer, receive the signed webhook of its event, delete everything again."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from shared.canary import receipts
from shared.core import clock, trace
from shared.projects import api_keys, projects
from shared.store import table, transactions
from shared.store.keys import Scope

PROJECT_ID, PROJECT_NAME = 0, "Canary"
"""The canary's own project. Other projects are numbered from 1."""
SCOPE = Scope(PROJECT_ID, livemode=False)
PHONE = "+15005550006"
PATH = "/canary/"
"""The path of the receiver's route, before the token."""
RESPONSE_S = 10
"""Seconds in which the API must respond."""
ARRIVES_WITHIN_MS = 20 * clock.SECOND
"""Milliseconds in which the webhook must arrive: longer than a first attempt takes while every function starts cold."""
TOLERANCE_MS = 300 * clock.SECOND
"""The greatest age of a signature (promise 9.6)."""


class Failed(Exception):
    """The service does not do what the run expects. The message says which step failed, and how."""


def run(base_url: str) -> int:
    """Test the stage at this URL once. Returns the milliseconds from the customer's creation to its webhook.

    Raises Failed. What the run created is deleted in any case, also what an earlier run left.
    """
    projects.ensure(PROJECT_ID, PROJECT_NAME)
    for left in api_keys.of_project(PROJECT_ID):
        api_keys.delete(PROJECT_ID, left.id)
    new = transactions.commit(lambda: api_keys.create(PROJECT_ID, livemode=False, label="canary")).doc
    with _in_the_end(lambda: api_keys.delete(PROJECT_ID, new.key.id)):
        api = _Api(base_url, new.plaintext)
        ping = api.call("GET", "/v1/ping", 200)
        _expect(ping["project_id"] == PROJECT_ID and ping["livemode"] is False, "ping names another project")
        _clear(api)
        return _deliver(api, receipts.expect())


def _clear(api: _Api) -> None:
    """Delete what earlier runs left that died."""
    for kind in ("webhook_endpoints", "customers"):
        for left in api.call("GET", f"/v1/{kind}?limit=100", 200)["data"]:
            api.call("DELETE", f"/v1/{kind}/{left['id']}", 200)
    for page in table.query(SCOPE.pk("deleted_customer"), limit=100):
        for row in page:
            _delete_row(row["sk"])
    receipts.clear()


def _deliver(api: _Api, token: str) -> int:
    """Have the event of a new customer delivered under this token. Returns the milliseconds that it took."""
    endpoint = {"url": f"{api.base_url}{PATH}{token}", "event_filters": ["customer.created"], "label": "canary"}
    created = api.call("POST", "/v1/webhook_endpoints", 201, endpoint)
    with _in_the_end(lambda: api.call("DELETE", f"/v1/webhook_endpoints/{created['id']}", 200)):
        customer = api.call("POST", "/v1/customers", 201, {"phone": PHONE, "name": "Canary"})["id"]
        started = clock.now()
        with _in_the_end(lambda: _delete(api, customer)):
            webhook = _await(token, started + ARRIVES_WITHIN_MS)
            took_ms = clock.now() - started
            genuine = _is_signed(created["secret"], webhook)
            receipts.save_verdict(token, genuine=genuine)
            _expect(genuine, "the webhook has no valid signature")
            event = json.loads(webhook.body)
            _expect(event["type"] == "customer.created", f"the webhook is of an event {event['type']}")
            _expect(event["data"]["object"]["id"] == customer, "the webhook is of another customer")
    return took_ms


def _delete(api: _Api, customer: str) -> None:
    """Delete the customer through the API, and then the row that remains of it."""
    deleted = api.call("DELETE", f"/v1/customers/{customer}", 200)
    _expect(deleted["deleted_at"] is not None, "the customer is not deleted")
    _delete_row(customer)


def _delete_row(customer: str) -> None:
    table.write([table.Delete(SCOPE.pk("deleted_customer"), customer, table.ALWAYS)])


def _await(token: str, until: clock.Instant) -> receipts.Received:
    while clock.now() < until:
        webhook = receipts.find(token)
        if webhook is not None:
            return webhook
        clock.sleep(receipts.POLL_S)
    raise Failed(f"no webhook arrived within {ARRIVES_WITHIN_MS // clock.SECOND} seconds")


def _is_signed(secret: str, webhook: receipts.Received) -> bool:
    """Whether the signature is valid, as a client checks it (promise 9.6)."""
    parts = dict(part.partition("=")[::2] for part in webhook.signature.split(","))
    t, v1 = parts.get("t", ""), parts.get("v1", "")
    digest = hmac.new(secret.encode(), t.encode() + b"." + webhook.body, hashlib.sha256).hexdigest()
    fresh = t.isdecimal() and abs(clock.now() - int(t) * clock.SECOND) <= TOLERANCE_MS
    return fresh and hmac.compare_digest(digest.encode(), v1.encode())


@contextlib.contextmanager
def _in_the_end(end: Callable[[], object]) -> Iterator[None]:
    """Call `end` after the block. If the block failed, that failure is raised, whatever happens to `end`."""
    try:
        yield
    except Exception:
        with contextlib.suppress(Exception):
            end()
        raise
    end()


def _expect(fulfilled: bool, problem: str) -> None:
    if not fulfilled:
        raise Failed(problem)


@dataclass(frozen=True)
class _Api:
    """A client of the stage's API."""

    base_url: str
    key: str

    def call(self, method: str, path: str, status: int, body: Any = None) -> Any:
        """The JSON of the response, which must have this status. Raises Failed."""
        step = f"{method} {path.partition('?')[0]}"
        request = urllib.request.Request(
            self.base_url + path,
            method=method,
            headers={"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"},
            data=None if body is None else json.dumps(body).encode(),
        )
        try:
            with urllib.request.urlopen(request, timeout=RESPONSE_S) as response:
                found, headers, content = response.status, response.headers, response.read()
        except urllib.error.HTTPError as error:
            with error:
                found, headers, content = error.code, error.headers, error.read()
        except OSError as error:
            raise Failed(f"{step}: {type(error).__name__}: {error}") from error
        # Log lines of a failure name the request that failed.
        trace.name(request_id=headers.get("Service-Request-Id", ""))
        _expect(found == status, f"{step}: {found} instead of {status}: {content[:300].decode(errors='replace')}")
        return json.loads(content)
