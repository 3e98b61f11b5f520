"""Live calls: a carrier that places them, and the people who are called.

A call rings, and is answered or not. Whoever answers says some sentences, each of which invokes `voice_turn`. Events of
the call go to `call_events`, as EventBridge sends them, and may be lost, doubled or late.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from shared.core import clock
from tests.simulation.faults import Fault

if TYPE_CHECKING:
    from tests.simulation.hosts import Host
    from tests.simulation.world import World

SENTENCES = (
    "Yes, speaking.",
    "Please confirm my appointment.",
    "Could you cancel it, please?",
    "Yes, please.",
    "Please call me again tomorrow at 10:00.",
    "Please do not call me again.",
    "No, you have the wrong number.",
    "",
)
"""What people say. An empty text is silence."""
TOKEN_S = 60
"""Seconds for which a call is recognized by its token after it has ended."""


@dataclass
class Contact:
    """A call by its carrier. Times are Unix seconds."""

    id: str
    session: str
    owner: tuple[int, bool]
    began: float
    answered: float | None = None
    ended: float | None = None
    ending: tuple[str, str] | None = None
    """The session's status and the reason of its end."""


class Carrier:
    """The carrier, with all calls of a history."""

    def __init__(self, seed: str, world: World) -> None:
        self.world = world
        self.contacts: list[Contact] = []
        self.at_once = 0
        """How many calls of the stage may be under way at once."""
        self._random = random.Random(f"{seed}/carrier")

    def connect(self, host: Host) -> None:
        """Let a host place calls."""
        host.module("shared.telephony.adapters").use(carrier=_Client(self, host))

    def place(self, to: str, session: str, owner: tuple[int, bool]) -> Contact:
        """The call with this token: a new one, unless it is recognized."""
        now = self.world.now
        for contact in self.contacts:
            if contact.session == session and (contact.ended is None or now < contact.ended + TOKEN_S):
                return contact
        contact = Contact(f"contact-{len(self.contacts)}", session, owner, now)
        self.contacts.append(contact)
        self.world.note("placed", contact.id, session)
        self.world.timers.add(contact.id)
        self.world.spawn_alone("contact", partial(self._run, contact))
        return contact

    def find(self, id: str) -> Contact:
        """The call with this id."""
        return next(contact for contact in self.contacts if contact.id == id)

    def end(self, contact: Contact, status: str, reason: str) -> None:
        """A call ends, unless it has."""
        if contact.ended is None:
            contact.ended, contact.ending = self.world.now, (status, reason)
            self.world.note("hung up", contact.id, status, reason)

    def _run(self, contact: Contact) -> None:
        self._tell(contact, "INITIATED")
        self.world.scheduler.sleep(self._random.uniform(1, 30))
        outcome = self._random.choice(("human", "human", "human", "no_answer", "busy", "invalid_number"))
        if contact.ended is None and outcome == "human":
            contact.answered = self.world.now
            self._tell(contact, "CONNECTED_TO_SYSTEM")
            self._talk(contact)
        elif outcome == "invalid_number":
            self.end(contact, "invalid_number", "invalid_number")
        else:
            self.end(contact, "no_answer", outcome)
        self._tell(contact, "DISCONNECTED")
        self.world.timers.discard(contact.id)

    def _talk(self, contact: Contact) -> None:
        for _ in range(self._random.randint(0, 4)):
            self.world.scheduler.sleep(self._random.uniform(1, 10))
            if contact.ended is not None:
                return
            ended = self.world.invoke("voice_turn", _lex_event(contact, self._random.choice(SENTENCES)))
            attributes = ended.result["sessionState"]["sessionAttributes"] if ended.succeeded else {}
            if not ended.succeeded or attributes.get("call_ended") == "true":
                self.end(contact, "completed", "agent_hangup")
                return
        self.end(contact, "completed", "customer_hangup")

    def _tell(self, contact: Contact, happened: str) -> None:
        detail = {"contactId": contact.id, "eventType": happened, "channel": "VOICE", "initiationMethod": "API"}
        event = {"source": "aws.connect", "detail-type": "Amazon Connect Contact Event", "detail": detail}
        self.world.send("call_events", json.dumps(event))


class _Client:
    """The carrier of a host (`shared.telephony.Carrier`)."""

    def __init__(self, carrier: Carrier, host: Host) -> None:
        self._carrier, self._world = carrier, carrier.world
        self._telephony, self._statuses = host.module("shared.telephony"), host.module("shared.calls.statuses")

    def start(self, to: str, session_id: str, project_id: int, livemode: bool, opening: str) -> str:
        """Place a call."""
        self._exchange()
        if self._world.strikes(Fault.CARRIER_FULL):
            self._world.note("the carrier has no capacity", session_id)
            raise self._telephony.NoCapacity("no capacity")
        contact = self._carrier.place(to, session_id, (project_id, livemode))
        self._exchange()
        return contact.id

    def describe(self, contact_id: str) -> Any:
        """The state of a call."""
        self._exchange()
        contact = self._carrier.find(contact_id)
        ending = None
        if contact.ending is not None:
            status, reason = contact.ending
            names = self._statuses
            ending = names.Ending(names.SessionCallStatus(status), names.EndedReason(reason))
        self._world.note("describe", contact_id, contact.ending)
        return self._telephony.ContactState(_instant(contact.answered), _instant(contact.ended), ending)

    def stop(self, contact_id: str) -> None:
        """End a call."""
        self._exchange()
        self._carrier.end(self._carrier.find(contact_id), "completed", "agent_hangup")

    def owner(self, contact_id: str) -> Any:
        """Whose call it is."""
        self._exchange()
        contact = self._carrier.find(contact_id)
        return self._telephony.ContactOwner(*contact.owner, contact.session)

    def _exchange(self) -> None:
        """Half of a request to the carrier."""
        self._world.kill_if_over()
        if self._world.strikes(Fault.KILLED):
            self._world.kill()
        self._world.scheduler.sleep(0.05)
        if self._world.strikes(Fault.CARRIER_BUSY):
            self._world.note("the carrier does not respond")
            self._world.scheduler.sleep(3)
            raise self._telephony.Busy("no response")


def _instant(seconds: float | None) -> clock.Instant | None:
    return None if seconds is None else clock.Instant(round(seconds * 1000))


def _lex_event(contact: Contact, text: str) -> dict[str, Any]:
    project, livemode = contact.owner
    attributes = {
        "session_id": contact.session,
        "project_id": str(project),
        "livemode": "true" if livemode else "false",
    }
    intent = {"name": "FallbackIntent", "slots": {}, "state": "ReadyForFulfillment"}
    state = {"sessionAttributes": attributes, "intent": intent}
    return {"sessionId": contact.id, "inputTranscript": text, "sessionState": state}
