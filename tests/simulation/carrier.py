"""Live calls: a carrier that places them, and the people who are called.

The carrier has the API of Amazon Connect. A call rings, and is answered or not. Whoever answers says some sentences,
each of which invokes `voice_turn`. Events of the call go to `call_events`, as EventBridge sends them, and may be lost,
doubled or late. Recordings and transcripts are stored in S3 later, or never.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.simulation.faults import Fault, client_error

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
RECORDINGS = "recordings"
"""The bucket of the files."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""How Amazon Connect writes an unknown time."""
TOKEN_S = 60
"""Seconds for which a call is recognized by its token after it has ended."""


@dataclass
class Contact:
    """A call by its carrier. Times are Unix seconds."""

    id: str
    session: str
    attributes: dict[str, str]
    began: float
    reason_after_s: float
    """How long after its end its reason is known."""
    answered: float | None = None
    ended: float | None = None
    reason: str | None = None
    """Its `DisconnectReason`."""
    files: dict[str, float] = field(default_factory=dict)
    """When each file of it was stored, by key."""


class Carrier:
    """The carrier, with all calls of a history."""

    def __init__(self, seed: str, world: World) -> None:
        self.world = world
        self.contacts: list[Contact] = []
        self.at_once = 0
        """How many calls of the stage may be under way at once."""
        self._random = random.Random(f"{seed}/carrier")

    def of(self, host: Host) -> Any:
        """The carrier of a host."""
        connect = host.module("shared.telephony.amazon_connect").Connect
        return connect(_Connect(self), "instance", "flow", "queue")

    def place(self, session: str, attributes: dict[str, str]) -> Contact:
        """The call with this token: a new one, unless it is recognized."""
        now = self.world.now
        for contact in self.contacts:
            if contact.session == session and (contact.ended is None or now < contact.ended + TOKEN_S):
                return contact
        id = f"{len(self.contacts):08x}-0000-4000-8000-000000000000"
        contact = Contact(id, session, attributes, now, self._random.choice((0, 0, 10, 40)))
        self.contacts.append(contact)
        self.world.note("placed", contact.id, session)
        self.world.timers.add(contact.id)
        self.world.spawn_alone("contact", partial(self._run, contact))
        return contact

    def find(self, id: str) -> Contact:
        """The call with this id."""
        return next(contact for contact in self.contacts if contact.id == id)

    def end(self, contact: Contact, reason: str) -> None:
        """A call ends, unless it has."""
        if contact.ended is None:
            contact.ended, contact.reason = self.world.now, reason
            self.world.note("hung up", contact.id, reason)

    def failure(self) -> Exception:
        """What a request without a response raises."""
        from botocore.exceptions import EndpointConnectionError, ReadTimeoutError

        timeout, lost = ReadTimeoutError(endpoint_url=""), EndpointConnectionError(endpoint_url="")
        return self._random.choice((timeout, lost, client_error("InternalServiceException", 500, "")))

    def _run(self, contact: Contact) -> None:
        self._tell(contact, "INITIATED")
        self.world.scheduler.sleep(self._random.uniform(1, 30))
        outcome = self._random.choice(("human", "human", "human", "no_answer", "busy", "invalid_number"))
        if contact.ended is None and outcome == "human":
            contact.answered = self.world.now
            self._tell(contact, "CONNECTED_TO_SYSTEM")
            self._talk(contact)
        elif outcome == "invalid_number":
            self.end(contact, "TELECOM_NUMBER_INVALID")
        else:
            self.end(contact, "TELECOM_BUSY" if outcome == "busy" else "TELECOM_UNANSWERED")
        if contact.answered is not None:
            self._store_files(contact)
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
                self.end(contact, "CONTACT_FLOW_DISCONNECT")
                return
        self.end(contact, "CUSTOMER_DISCONNECT")

    def _store_files(self, contact: Contact) -> None:
        """Contact Lens and the recorder store their files, plain or redacted or both, minutes or hours later."""
        folder, at = "connect/Analysis/Voice/ivr/", "2027-01-15T08:00:00Z"
        day = datetime.fromtimestamp(contact.began, UTC).strftime("%Y/%m/%d")
        plain = f"{day}/{contact.id}"
        kinds = (
            (f"connect/CallRecordings/ivr/{plain}_20270115T08:00_UTC.wav", f"{plain}_call_recording_redacted_{at}.wav"),
            (f"{folder}{plain}_analysis_{at}.json", f"{plain}_analysis_redacted_{at}.json"),
        )
        for raw, redacted in kinds:
            keys = (raw, f"{folder}Redacted/{redacted}")
            for key in self._random.choice((keys, keys, keys[:1], keys[1:], ())):
                self.world.timers.add(key)
                after = self._random.choice((10, 60, 600, 10_000)) * self._random.random()
                self.world.spawn_alone("file", partial(self._store_file, contact, key, after))

    def _store_file(self, contact: Contact, key: str, after: float) -> None:
        self.world.scheduler.sleep(after)
        contact.files[key] = self.world.now
        said = {"ParticipantId": "CUSTOMER", "Content": "Hello", "BeginOffsetMillis": 0, "EndOffsetMillis": 900}
        analysis = {"Participants": [], "Transcript": self._random.choice(([], [said]))}
        self.world.objects[RECORDINGS, key] = json.dumps(analysis).encode()
        self.world.note("stored", key)
        detail = {"bucket": {"name": RECORDINGS}, "object": {"key": key}}
        event = json.dumps({"source": "aws.s3", "detail-type": "Object Created", "detail": detail})
        # EventBridge delivers such an event at least once.
        for _ in range(self._random.choice((1, 1, 2))):
            self.world.scheduler.sleep(self._random.choice((0, 1, 100)))
            self.world.send_surely("call_events", event)
        self.world.timers.discard(key)

    def _tell(self, contact: Contact, happened: str) -> None:
        detail = {"contactId": contact.id, "eventType": happened, "channel": "VOICE", "initiationMethod": "API"}
        event = {"source": "aws.connect", "detail-type": "Amazon Connect Contact Event", "detail": detail}
        self.world.send("call_events", json.dumps(event))


class _Connect:
    """In place of boto3's client of Amazon Connect."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier, self._world = carrier, carrier.world

    def start_outbound_voice_contact(self, **request: Any) -> dict[str, Any]:
        """Place a call."""
        self._exchange()
        if self._world.strikes(Fault.CARRIER_FULL):
            self._world.note("the carrier has no capacity", request["ClientToken"])
            raise client_error("LimitExceededException", 429, "StartOutboundVoiceContact")
        contact = self._carrier.place(request["ClientToken"], request["Attributes"])
        self._exchange()
        return {"ContactId": contact.id}

    def describe_contact(self, **request: Any) -> dict[str, Any]:
        """The state of a call."""
        self._exchange()
        contact = self._carrier.find(request["ContactId"])
        self._world.note("describe", contact.id, contact.reason)
        found: dict[str, Any] = {"Id": contact.id, "ConnectedToSystemTimestamp": _EPOCH}
        if contact.answered is not None:
            found["ConnectedToSystemTimestamp"] = datetime.fromtimestamp(contact.answered, UTC)
        if contact.ended is not None:
            found["DisconnectTimestamp"] = datetime.fromtimestamp(contact.ended, UTC)
            if self._world.now >= contact.ended + contact.reason_after_s:
                found["DisconnectReason"] = contact.reason
        return {"Contact": found}

    def stop_contact(self, **request: Any) -> dict[str, Any]:
        """End a call."""
        self._exchange()
        self._carrier.end(self._carrier.find(request["ContactId"]), "API")
        return {}

    def get_contact_attributes(self, **request: Any) -> dict[str, Any]:
        """What the request that started the call gave it."""
        self._exchange()
        return {"Attributes": dict(self._carrier.find(request["InitialContactId"]).attributes)}

    def _exchange(self) -> None:
        """Half of a request to the carrier."""
        self._world.begin_call()
        self._world.scheduler.sleep(0.05)
        if self._world.strikes(Fault.CARRIER_BUSY):
            self._world.note("the carrier does not respond")
            self._world.scheduler.sleep(3)
            raise self._carrier.failure()


def _lex_event(contact: Contact, text: str) -> dict[str, Any]:
    attributes = {name: contact.attributes[name] for name in ("session_id", "project_id", "livemode")}
    intent = {"name": "FallbackIntent", "slots": {}, "state": "ReadyForFulfillment"}
    state = {"sessionAttributes": attributes, "intent": intent}
    return {"sessionId": contact.id, "inputTranscript": text, "sessionState": state}
