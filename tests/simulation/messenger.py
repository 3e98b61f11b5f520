"""WhatsApp: requests for consent to calls, and the people's answers.

The requests come to boto3's client of AWS End User Messaging Social. Some never reach their phone, which a `failed`
status says later. People accept, refuse, change their mind, or never answer. What Meta tells comes to the queue of
consents, as SNS delivers it: at least once, in any order.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.simulation.faults import Fault, client_error

if TYPE_CHECKING:
    from tests.simulation.hosts import Host
    from tests.simulation.world import World

BY_PHONE = 0.7
"""The share of histories whose stage calls by phone those who agree on WhatsApp. The others have no media bridge."""
BUTTONS = {True: "phone_call_accepted", False: "phone_call_refused"}
DAY_S = 86_400


@dataclass
class Asked:
    """A request that WhatsApp got: when, for which phone, and whether it told later that it did not deliver it."""

    at: float
    phone: str
    reference: str
    failed: bool = False


@dataclass
class Decision:
    """What a person decided: when, in whole Unix seconds, and until when it holds.

    `told` is when the last notification of it was in the queue.
    """

    phone: str
    accepts: bool
    at: int
    until: float = float("inf")
    told: float = float("inf")


class Messenger:
    """WhatsApp, with all people of a history."""

    def __init__(self, seed: str, world: World) -> None:
        self.world = world
        self.asked: list[Asked] = []
        self.decisions: list[Decision] = []
        self._random = random.Random(f"{seed}/messenger")
        self.by_phone = self._random.random() < BY_PHONE

    def of(self, host: Host) -> Any:
        """The messenger of a host."""
        whatsapp = host.module("shared.telephony.whatsapp").WhatsApp
        template = ("call_permission", "en_US") if self.by_phone or self._random.random() < 0.5 else None
        return whatsapp(_SocialMessaging(self), "phone-number-id-1", template, by_phone=self.by_phone)

    def ask(self, phone: str, reference: str) -> str:
        """WhatsApp accepts a request, and tries to deliver it."""
        asked = Asked(self.world.now, phone, reference)
        self.asked.append(asked)
        self.world.note("asked for consent", phone, reference)
        id = f"wamid.{len(self.asked)}"
        self._begin(f"answer {id}", partial(self._answer, asked, id))
        # The id of AWS is another one than that of Meta.
        return f"message-{len(self.asked)}"

    def permission(self, phone: str) -> str:
        """The state of a phone's permission, as WhatsApp knows it."""
        mine = [each for each in self.decisions if each.phone == phone]
        latest = max(mine, key=lambda each: (each.at, not each.accepts), default=None)
        if latest is None or not latest.accepts or latest.until <= self.world.now:
            return "no_permission"
        return "temporary" if latest.until < float("inf") else "permanent"

    def withdraw_perhaps(self, phone: str) -> None:
        """Let a person withdraw a permission within a second, who may have been asked for it long ago."""
        if self._random.random() < 0.3:
            number = len(self.decisions)
            self._begin(f"withdrawal {number}", partial(self._withdraw, phone, f"wamid.withdrawal{number}"))

    def failure(self, *, may_be_done: bool) -> Exception:
        """What a request without a response raises, or one that is refused."""
        from botocore.exceptions import EndpointConnectionError, ReadTimeoutError

        if self._random.random() < 0.5:
            return self._random.choice((ReadTimeoutError, EndpointConnectionError))(endpoint_url="")
        refusals = (("ThrottlingException", 429), ("ValidationException", 400))
        code, status = self._random.choice((("InternalServiceException", 500), *(() if may_be_done else refusals)))
        return client_error(code, status, "SendWhatsAppMessage")

    def _answer(self, asked: Asked, id: str) -> None:
        chosen = self._random.choice(("failed", "silent", "accepts", "accepts", "accepts", "refuses", "both"))
        if chosen == "silent":
            return
        if chosen == "failed":
            self.world.scheduler.sleep(self._random.uniform(0, 60))
            asked.failed = True
            self._tell(self._status(asked, id))
            return
        # Nobody answers sooner than after a second, and some after the request has expired.
        seconds = self._random.choice((5, 60, 3600, 8 * DAY_S if self._random.random() < 0.1 else DAY_S))
        self.world.scheduler.sleep(1 + seconds * self._random.random())
        self._decide(asked.phone, id, accepts=chosen != "refuses")
        if chosen == "both":
            self.world.scheduler.sleep(self._random.choice((0, 1, 100, DAY_S)) * self._random.random())
            self._decide(asked.phone, id, accepts=False)

    def _withdraw(self, phone: str, id: str) -> None:
        self.world.scheduler.sleep(self._random.random())
        self._decide(phone, id, accepts=False)

    def _decide(self, phone: str, id: str, *, accepts: bool) -> None:
        decision = Decision(phone, accepts, int(self.world.now))
        ends = not self.by_phone and accepts and self._random.random() < 0.5
        if ends:
            decision.until = decision.at + 7 * DAY_S
        self.decisions.append(decision)
        self.world.note("decides", phone, accepts)
        message: dict[str, Any] = {"from": phone.removeprefix("+"), "timestamp": str(decision.at)}
        message |= {"id": f"{id}.{len(self.decisions)}"} | (
            {"context": {"id": id}} if self._random.random() < 0.8 else {}
        )
        if self.by_phone:
            message |= {"type": "button", "button": {"payload": BUTTONS[accepts]}}
        else:
            permission: dict[str, Any] = {"response": "accept" if accepts else "reject", "is_permanent": not ends}
            permission |= {"expiration_timestamp": decision.until} if ends else {}
            kind = "call_permission_reply"
            message |= {"type": "interactive", "interactive": {"type": kind, kind: permission}}
        self._tell({"messages": [message]}, decision)

    def _status(self, asked: Asked, id: str) -> dict[str, Any]:
        status = {
            "id": id,
            "status": "failed",
            "biz_opaque_callback_data": asked.reference,
            "errors": [{"code": 131026}],
        }
        return {"statuses": [status]}

    def _tell(self, value: dict[str, Any], decision: Decision | None = None) -> None:
        """SNS delivers a notification once or twice, perhaps late."""
        entry = {"id": "1", "changes": [{"field": "messages", "value": value}]}
        body = json.dumps({"context": {}, "whatsAppWebhookEntry": json.dumps(entry)})
        after = [
            self._random.choice((0, 0, 1, 100)) * self._random.random() for _ in range(self._random.choice((1, 1, 2)))
        ]
        if decision is not None:
            decision.told = self.world.now + max(after)
        for seconds in after:
            self._begin(f"notification {self._random.random()}", partial(self._send, body, seconds))

    def _send(self, body: str, after: float) -> None:
        self.world.scheduler.sleep(after)
        self.world.send_surely("consents", body)

    def _begin(self, name: str, work: Any) -> None:
        """Start a task. All is not quiet before it has ended."""

        def run() -> None:
            work()
            self.world.timers.discard(name)

        self.world.timers.add(name)
        self.world.spawn_alone("whatsapp", run)


class _SocialMessaging:
    """In place of boto3's client of `socialmessaging`."""

    def __init__(self, messenger: Messenger) -> None:
        self._messenger, self._world = messenger, messenger.world

    def send_whatsapp_message(self, **request: Any) -> dict[str, Any]:
        """Accept a request."""
        self._exchange()
        message = json.loads(request["message"])
        id = self._messenger.ask(message["to"], message["biz_opaque_callback_data"])
        self._exchange(may_be_done=True)
        return {"messageId": id}

    def get_whatsapp_call_permission(self, **request: Any) -> dict[str, Any]:
        """Whether a phone may be called. Some people withdraw that at this moment."""
        self._exchange()
        status = self._messenger.permission(request["destinationPhoneNumber"])
        if status != "no_permission":
            self._messenger.withdraw_perhaps(request["destinationPhoneNumber"])
        return {"permission": {"status": status}}

    def _exchange(self, *, may_be_done: bool = False) -> None:
        """Half of a request."""
        self._world.begin_call()
        self._world.scheduler.sleep(0.05)
        if self._world.strikes(Fault.MESSENGER_FAILED):
            self._world.note("the messenger fails")
            raise self._messenger.failure(may_be_done=may_be_done)
