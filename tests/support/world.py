"""A project whose things are made anew when a request has used them up."""

from __future__ import annotations

import itertools
import re
from typing import Any

from tests.support.hostile_requests import Sent
from tests.support.hostile_values import MOMENTS
from tests.support.keys import new_key
from tests.support.receivers import Receiver
from tests.support.stage import Answer, Stage

KEYS = 8
"""Keys of one project and mode that take turns, as each may make 100 requests a second only."""


class World:
    """A project with one of each thing, made anew when a request has used it up."""

    def __init__(self, stage: Stage, receiver: Receiver | None) -> None:
        self.stage = stage
        self.project = stage.project("Properties")
        more = [new_key(self.project.id) for _ in range(KEYS)]
        self._keys = itertools.cycle(more)
        self._numbers = itertools.count()
        self._receiver = receiver
        self.ids = {"unknown": "cust_" + "1" * 26}
        self.renew("customer")
        if receiver is None:
            # Nobody hears of what happens here, which saves the deliveries.
            return
        self.renew("appointment")
        self.renew("endpoint")
        self._deliver_an_event()
        gone = self.call("POST", "/v1/customers", {"phone": "+15005550006"}).json["id"]
        self.call("DELETE", f"/v1/customers/{gone}")
        self.ids["deleted_customer"] = gone

    def key(self) -> str:
        """The key whose turn it is."""
        return next(self._keys)

    def call(self, method: str, path: str, body: Any = None, **options: Any) -> Answer:
        options.setdefault("key", self.key())
        return self.stage.call(method, path, body, **options)

    def new(self) -> str:
        """A value that was not used before."""
        return f"new-{next(self._numbers)}"

    def renew(self, kind: str) -> None:
        given = {
            "customer": ("/v1/customers", {"phone": "+15005550006"}),
            "appointment": (
                "/v1/appointments",
                {"customer_id": self.ids.get("customer"), "appointment_at": MOMENTS[0]},
            ),
            "endpoint": ("/v1/webhook_endpoints", {"url": self._receiver and self._receiver.url}),
        }
        path, body = given[kind]
        answer = self.call("POST", path, body)
        assert answer.status == 201, answer.body
        self.ids[kind] = answer.json["id"]
        self.ids["CUSTOMER"] = self.ids["customer"].upper()

    def filled(self, text: str) -> str:
        return re.sub(r"{(\w+)}", lambda place: self.ids.get(place[1], place[0]), text)

    def send(self, sent: Sent) -> Answer:
        key = self.key()
        new = self.new()
        headers = {
            name: value.replace("{key}", key).replace("{new}", new)
            for name, value in ({"Authorization": f"Bearer {key}"} | dict(sent.headers)).items()
        }
        raw = self.filled(sent.raw) if isinstance(sent.raw, str) else sent.raw
        return self.stage.call(sent.method, self.filled(sent.path), raw=raw, key="", headers=headers)

    def tidy(self, sent: Sent, answer: Answer) -> None:
        """Put back what the request took away, and away what it made."""
        if answer.status >= 300:
            return
        if sent.method == "DELETE":
            self.renew(next(kind for kind in ("customer", "appointment", "endpoint") if f"{{{kind}}}" in sent.path))
        elif sent.method == "PATCH" and "{appointment}" in sent.path:
            self.renew("appointment")
        elif sent.method == "POST" and sent.path.startswith("/v1/webhook_endpoints") and answer.status == 201:
            self.call("DELETE", f"/v1/webhook_endpoints/{answer.json['id']}")
        elif sent.path.endswith("/retry"):
            self.stage.deliver("retries")

    def _deliver_an_event(self) -> None:
        self.stage.settle()
        made = self.call("POST", "/v1/customers", {"phone": "+15005550006"}).json["id"]
        self.stage.settle()
        (found,) = self.call("GET", f"/v1/events?object_id={made}").json["data"]
        (delivery,) = self.call("GET", f"/v1/events/{found['id']}/deliveries").json["data"]
        assert delivery["status"] == "succeeded", delivery
        self.ids |= {"event": found["id"], "delivery": delivery["id"]}
