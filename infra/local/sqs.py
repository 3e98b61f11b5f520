"""SQS in memory, by AWS's rules, with the features that the service, Step Functions and Lambda's pollers use.

`sqs_endpoint` serves it to AWS clients over HTTP. The pollers (`queues`) call it directly. Messages are lost when the
process ends, which is acceptable: they are wake-ups, and `sweep` finds scheduled steps at the next start.

    group       in a FIFO queue: its messages are received in order, one batch at a time
                in a standard queue: groups with the fewest messages in flight come first, which is fair
    in flight   received, and neither deleted nor visible again
"""

from __future__ import annotations

import base64
import hashlib
import heapq
import itertools
import json
import math
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from infra.local import names
from shared.core.limits import LONGEST_QUEUE_DELAY_S

LONGEST_VISIBILITY_S = 43_200
LONGEST_WAIT_S = 20
DEDUPLICATED_FOR_S = 300
PURGE_EVERY_S = 60
"""All of these are seconds."""
MAX_BATCH = 10
MAX_SIZE = 1_048_576
"""Bytes of a message with its attributes, or of a batch."""

_FIRST_NUMBER = 18_870_000_000_000_000_000
_BETWEEN_NUMBERS = 256
_SENDER = f"AROALOCALSTAGE0000001:{names.STACK}"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")
_FIFO_NAME = re.compile(r"[A-Za-z0-9_-]{1,75}\.fifo")
_TOKEN = re.compile(r"[!-~]{1,128}")
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_VALID_CONTENT = (
    "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | "
    "#x10000 to #x10FFFF"
)
_MAX_ATTRIBUTES = 10
_VALUE_OF = {"String": "StringValue", "Number": "StringValue", "Binary": "BinaryValue"}
"""The field of the value, by the first part of an attribute's type. A dot and a label may follow that part."""

_NUMBERS = {
    "DelaySeconds": (0, LONGEST_QUEUE_DELAY_S, 0),
    "MaximumMessageSize": (1024, MAX_SIZE, MAX_SIZE),
    "MessageRetentionPeriod": (60, 1_209_600, 345_600),
    "ReceiveMessageWaitTimeSeconds": (0, LONGEST_WAIT_S, 0),
    "VisibilityTimeout": (0, LONGEST_VISIBILITY_S, 30),
}
"""Minimum, maximum, default."""
_FLAGS = ("FifoQueue", "ContentBasedDeduplication", "SqsManagedSseEnabled")
_OTHERS = ("RedrivePolicy", "RedriveAllowPolicy", "Policy", "KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds")
_OF_FIFO = {
    "DeduplicationScope": ("queue", "messageGroup"),
    "FifoThroughputLimit": ("perQueue", "perMessageGroupId"),
}

Received = dict[str, Any]
"""A message in the format of ReceiveMessage, with all its attributes."""


class SqsError(Exception):
    """SQS rejects the request. `code` is the error's name in the JSON protocol."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message = code, message


def invalid(parameter: str, value: object, reason: str) -> SqsError:
    """The error for an invalid parameter."""
    text = f"Value {value} for parameter {parameter} is invalid. Reason: {reason}"
    return SqsError("InvalidParameterValue", text)


def missing(parameter: str) -> SqsError:
    """The error for a missing parameter."""
    return SqsError("MissingParameter", f"The request must contain the parameter {parameter}.")


@dataclass(frozen=True)
class Draft:
    """A message to send. Binary values of `attributes` are in base64, as in the protocol."""

    body: str
    delay: int | None = None
    group: str | None = None
    deduplication_id: str | None = None
    attributes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    system_attributes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The bytes that count towards the size limit."""
        parts = [self.body]
        for name, value in self.attributes.items():
            parts += [name, *value.values()]
        return sum(len(part.encode()) for part in parts)


@dataclass(eq=False)
class Message:
    """A message in a queue. It is `ready`, or becomes visible at `visible_at`."""

    id: str
    draft: Draft
    number: int
    visible_at: float
    attributes: dict[str, str]
    """The system attributes."""
    receipt: str | None = None
    received: int = 0
    ready: bool = False
    in_flight: bool = False
    gone: bool = False

    @property
    def group(self) -> str:
        """The message group. A message without a group forms its own."""
        return self.draft.group or self.id

    @property
    def sequence_number(self) -> str | None:
        """The sequence number of a message in a FIFO queue."""
        return self.attributes.get("SequenceNumber")

    def as_received(self) -> Received:
        """The message in the format of ReceiveMessage."""
        found: Received = {
            "MessageId": self.id,
            "ReceiptHandle": self.receipt,
            "MD5OfBody": md5(self.draft.body.encode()),
            "Body": self.draft.body,
            "Attributes": dict(self.attributes),
        }
        if self.draft.attributes:
            found["MD5OfMessageAttributes"] = md5_of_attributes(self.draft.attributes)
            found["MessageAttributes"] = dict(self.draft.attributes)
        return found


@dataclass(eq=False)
class _Group:
    """The messages of one group. `ready` is a heap by age."""

    ready: list[tuple[int, Message]] = field(default_factory=list)
    in_flight: int = 0
    count: int = 0

    def head(self) -> Message | None:
        """The oldest message that is ready."""
        while self.ready and self.ready[0][1].gone:
            heapq.heappop(self.ready)
        return self.ready[0][1] if self.ready else None


def _check_attributes(draft: Draft) -> None:
    """Check the message attributes by the rules of SQS. Raises SqsError."""
    if len(draft.attributes) > _MAX_ATTRIBUTES:
        count = len(draft.attributes)
        text = f"Number of message attributes [{count}] exceeds the allowed maximum [{_MAX_ATTRIBUTES}]."
        raise SqsError("InvalidParameterValue", text)
    for name, attribute in draft.attributes.items():
        if not attribute.get(_VALUE_OF.get(attribute.get("DataType", "").partition(".")[0], "")):
            text = f"The message attribute '{name}' must have a type and a value of that type."
            raise SqsError("InvalidParameterValue", text)


class Queue:
    """One queue. Its methods may be called from any thread."""

    def __init__(self, name: str, attributes: Mapping[str, str], engine: Engine) -> None:
        self.name = name
        self.arn = names.arn("sqs", name)
        self.url = names.queue_url(name)
        self.fifo = name.endswith(".fifo")
        self._engine, self._now = engine, engine.now
        self._changed = threading.Condition(engine.lock)
        self._purged = -math.inf
        self._messages: dict[str, Message] = {}
        self._groups: dict[str, _Group] = {}
        # Entries of these heaps can be outdated, which is checked when they are popped.
        self._order: list[tuple[int, int, str]] = []
        self._sleeping: list[tuple[float, int, Message]] = []
        self._deduplicated: dict[tuple[str, str], tuple[float, Message]] = {}
        self._created = self._modified = int(self._now())
        self._attributes = self._checked(attributes)

    # Attributes

    def attributes(self, wanted: Sequence[str] = ("All",)) -> dict[str, str]:
        """The queue's attributes with these names. Raises SqsError."""
        with self._engine.lock:
            self._wake()
            messages = self._messages.values()
            in_flight = sum(message.in_flight for message in messages)
            ready = sum(message.ready for message in messages)
            found = {name: str(default) for name, (_, _, default) in _NUMBERS.items()}
            found |= {"SqsManagedSseEnabled": "true", "QueueArn": self.arn}
            found |= {"CreatedTimestamp": str(self._created), "LastModifiedTimestamp": str(self._modified)}
            found |= {
                "ApproximateNumberOfMessages": str(ready),
                "ApproximateNumberOfMessagesDelayed": str(len(messages) - ready - in_flight),
                "ApproximateNumberOfMessagesNotVisible": str(in_flight),
            }
            if self.fifo:
                found |= {name: values[0] for name, values in _OF_FIFO.items()}
                found |= {"FifoQueue": "true", "ContentBasedDeduplication": "false"}
            found |= self._attributes
        known = {*_NUMBERS, *_FLAGS, *_OTHERS, *_OF_FIFO, *found, "All"}
        for name in wanted:
            if name not in known:
                raise SqsError("InvalidAttributeName", f"Unknown Attribute {name}.")
        return found if "All" in wanted else {name: found[name] for name in wanted if name in found}

    def set_attributes(self, attributes: Mapping[str, str]) -> None:
        """Change these attributes. Raises SqsError."""
        with self._engine.lock:
            if "FifoQueue" in attributes and not self.fifo:
                raise SqsError("InvalidAttributeValue", "Invalid value for the parameter FifoQueue.")
            self._attributes |= self._checked(attributes)
            self._modified = int(self._now())

    def _checked(self, attributes: Mapping[str, str]) -> dict[str, str]:
        for name, value in attributes.items():
            if name in _NUMBERS:
                least, most, _ = _NUMBERS[name]
                fine = value.isascii() and value.isdigit() and least <= int(value) <= most
            elif name in _FLAGS:
                fine = value in ("true", "false")
            elif name in _OF_FIFO and self.fifo:
                fine = value in _OF_FIFO[name]
            elif name in _OTHERS:
                fine = True
            else:
                raise SqsError("InvalidAttributeName", f"Unknown Attribute {name}.")
            if not fine:
                raise SqsError("InvalidAttributeValue", f"Invalid value for the parameter {name}.")
        if policy := attributes.get("RedrivePolicy"):
            self._check_redrive(policy)
        return dict(attributes)

    def _check_redrive(self, policy: str) -> None:
        try:
            given = json.loads(policy)
            arn, most = given["deadLetterTargetArn"], int(given["maxReceiveCount"])
        except (ValueError, KeyError, TypeError):
            raise invalid("RedrivePolicy", policy, "Redrive policy is not a valid JSON map.") from None
        if not 1 <= most <= 1000:
            reason = "Invalid value for maxReceiveCount: must be between 1 and 1000."
            raise invalid("RedrivePolicy", policy, reason)
        target = self._engine.by_arn(arn)
        if target is None:
            raise invalid("RedrivePolicy", policy, "Dead letter target does not exist.")
        if target.fifo != self.fifo:
            raise invalid("RedrivePolicy", policy, "Dead-letter queue must be same type of queue as the source.")

    def _number(self, name: str) -> int:
        return int(self._attributes.get(name, _NUMBERS[name][2]))

    # Sending

    def send(self, draft: Draft) -> Message:
        """Add a message. If it is a duplicate, return the first message instead. Raises SqsError."""
        with self._engine.lock:
            self._check(draft)
            now = self._now()
            key = self._deduplication_key(draft)
            if key and (sent := self._sent_already(key, now)):
                return sent
            delay = self._number("DelaySeconds") if draft.delay is None or self.fifo else draft.delay
            number = next(self._engine.numbers)
            message = Message(
                str(uuid.uuid4()), draft, number, now + delay, self._system_attributes(draft, number, now)
            )
            if key:
                message.attributes["MessageDeduplicationId"] = key[1]
                self._deduplicated[key] = (now + DEDUPLICATED_FOR_S, message)
            self._add(message)
            return message

    def _check(self, draft: Draft) -> None:
        """Check a message by the rules of SQS. Raises SqsError."""
        if not draft.body:
            raise missing("MessageBody")
        if draft.size > self._number("MaximumMessageSize"):
            most = self._number("MaximumMessageSize")
            text = f"One or more parameters are invalid. Reason: Message must be shorter than {most} bytes."
            raise SqsError("InvalidParameterValue", text)
        if _NOT_XML.search(draft.body):
            raise SqsError("InvalidMessageContents", _VALID_CONTENT)
        other_type = "The request include parameter that is not valid for this queue type"
        _check_attributes(draft)
        if draft.delay is not None:
            if not 0 <= draft.delay <= LONGEST_QUEUE_DELAY_S:
                raise invalid("DelaySeconds", draft.delay, f"DelaySeconds must be >= 0 and <= {LONGEST_QUEUE_DELAY_S}.")
            if self.fifo and draft.delay:
                raise invalid("DelaySeconds", draft.delay, other_type)
        for name, value in (("MessageGroupId", draft.group), ("MessageDeduplicationId", draft.deduplication_id)):
            if value is not None and not _TOKEN.fullmatch(value):
                reason = f"{name} can only include alphanumeric and punctuation characters. 1 to 128 in length."
                raise invalid(name, value, reason)
        if self.fifo and draft.group is None:
            raise missing("MessageGroupId")
        if not self.fifo and draft.deduplication_id is not None:
            raise invalid("MessageDeduplicationId", draft.deduplication_id, other_type)

    def _deduplication_key(self, draft: Draft) -> tuple[str, str] | None:
        if not self.fifo:
            return None
        id = draft.deduplication_id
        if id is None:
            if self._attributes.get("ContentBasedDeduplication") != "true":
                text = (
                    "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId "
                    "provided explicitly"
                )
                raise SqsError("InvalidParameterValue", text)
            id = hashlib.sha256(draft.body.encode()).hexdigest()
        by_group = self._attributes.get("DeduplicationScope") == "messageGroup"
        return (str(draft.group) if by_group else "", id)

    def _sent_already(self, key: tuple[str, str], now: float) -> Message | None:
        # Entries are in the order in which they expire.
        while self._deduplicated:
            oldest = next(iter(self._deduplicated))
            if self._deduplicated[oldest][0] > now:
                break
            del self._deduplicated[oldest]
        found = self._deduplicated.get(key)
        return found[1] if found else None

    def _system_attributes(self, draft: Draft, number: int, now: float) -> dict[str, str]:
        found = {"SenderId": _SENDER, "SentTimestamp": _milliseconds(now)}
        if self.fifo:
            found["SequenceNumber"] = str(_FIRST_NUMBER + number * _BETWEEN_NUMBERS)
        if draft.group is not None:
            found["MessageGroupId"] = draft.group
        if trace := draft.system_attributes.get("AWSTraceHeader"):
            found["AWSTraceHeader"] = trace["StringValue"]
        return found

    # Receiving

    def receive(self, most: int = 1, visibility: int | None = None, wait: float | None = None) -> list[Received]:
        """Receive up to `most` messages. If there are none, wait up to `wait` seconds for the first.

        The messages are invisible for `visibility` seconds; the default is the queue's visibility timeout. After the
        engine is closed, the result is empty.
        """
        for_seconds = self._number("VisibilityTimeout") if visibility is None else visibility
        deadline = self._now() + (self._number("ReceiveMessageWaitTimeSeconds") if wait is None else wait)
        with self._changed:
            while True:
                now = self._now()
                taken = self._take(most, for_seconds, now)
                if taken or now >= deadline or self._engine.closed:
                    return [message.as_received() for message in taken]
                soonest = min(deadline, self._sleeping[0][0] if self._sleeping else math.inf)
                self._changed.wait(min(soonest - now, threading.TIMEOUT_MAX))

    def delete(self, receipt: str) -> None:
        """Delete the message with this receipt handle, if it still exists. Raises SqsError."""
        with self._engine.lock:
            message = self._of(receipt)
            if message is None or message.receipt != receipt:
                return
            self._wake()
            if self.fifo and not message.in_flight:
                raise invalid("ReceiptHandle", receipt, "The receipt handle has expired.")
            self._remove(message)

    def change_visibility(self, receipt: str, seconds: int) -> None:
        """Make a message in flight visible again in `seconds` seconds. Raises SqsError."""
        if not 0 <= seconds <= LONGEST_VISIBILITY_S:
            reason = f"VisibilityTimeout must be >= 0 and <= {LONGEST_VISIBILITY_S}."
            raise invalid("VisibilityTimeout", seconds, reason)
        with self._engine.lock:
            message = self._of(receipt)
            self._wake()
            if message is None or message.receipt != receipt or not message.in_flight:
                text = "Message does not exist or is not available for visibility timeout change."
                raise SqsError("MessageNotInflight", text)
            self._sleep(message, self._now() + seconds)

    def purge(self) -> None:
        """Delete all messages. Raises SqsError."""
        with self._engine.lock:
            now = self._now()
            if now - self._purged < PURGE_EVERY_S:
                text = f"Only one PurgeQueue operation on {self.name} is allowed every {PURGE_EVERY_S} seconds."
                raise SqsError("PurgeQueueInProgress", text)
            self._purged = now
            for message in list(self._messages.values()):
                self._remove(message)

    def wake_receivers(self) -> None:
        """Wake all receivers that wait for a message."""
        with self._changed:
            self._changed.notify_all()

    def _take(self, most: int, visibility: int, now: float) -> list[Message]:
        self._wake()
        redrive = json.loads(self._attributes.get("RedrivePolicy", "{}"))
        dead_letters = self._engine.by_arn(redrive["deadLetterTargetArn"]) if redrive else None
        taken: list[Message] = []
        while len(taken) < most and (name := self._next_group()):
            group = self._groups[name]
            # Take all messages of a FIFO group at once, because the group is locked afterwards.
            for _ in range(most - len(taken) if self.fifo else 1):
                message = group.head()
                if message is None:
                    break
                if dead_letters and message.received >= int(redrive["maxReceiveCount"]):
                    self._remove(message)
                    dead_letters.take_over(message, self.arn)
                    continue
                heapq.heappop(group.ready)
                self._hand_out(message, group, visibility, now)
                taken.append(message)
            self._rank(name)
        return taken

    def take_over(self, message: Message, source_arn: str) -> None:
        """Add a message that another queue has moved to its dead-letter queue. It keeps its id."""
        with self._engine.lock:
            number = next(self._engine.numbers)
            attributes = message.attributes | {"DeadLetterQueueSourceArn": source_arn}
            self._add(Message(message.id, message.draft, number, self._now(), attributes, received=message.received))

    def _hand_out(self, message: Message, group: _Group, visibility: int, now: float) -> None:
        message.ready, message.in_flight = False, True
        group.in_flight += 1
        message.received += 1
        message.attributes["ApproximateReceiveCount"] = str(message.received)
        message.attributes.setdefault("ApproximateFirstReceiveTimestamp", _milliseconds(now))
        handle = f"{message.id} {self.arn} {uuid.uuid4()}"
        message.receipt = base64.b64encode(handle.encode()).decode()
        self._sleep(message, now + visibility)

    def _of(self, receipt: str) -> Message | None:
        try:
            id, arn, _ = base64.b64decode(receipt, validate=True).decode().split(" ")
        except ValueError:
            arn = ""
        if arn != self.arn:
            raise SqsError(
                "ReceiptHandleIsInvalid", f'The input receipt handle "{receipt}" is not a valid receipt handle.'
            )
        return self._messages.get(id)

    # Internal state

    def _add(self, message: Message) -> None:
        self._messages[message.id] = message
        self._groups.setdefault(message.group, _Group()).count += 1
        if message.visible_at > self._now():
            self._sleep(message, message.visible_at)
        else:
            self._make_ready(message)
        self._changed.notify_all()

    def _remove(self, message: Message) -> None:
        del self._messages[message.id]
        group = self._groups[message.group]
        group.count -= 1
        group.in_flight -= message.in_flight
        message.gone, message.ready, message.in_flight = True, False, False
        if group.count:
            self._rank(message.group)
        else:
            del self._groups[message.group]
        self._changed.notify_all()

    def _sleep(self, message: Message, until: float) -> None:
        message.visible_at = until
        heapq.heappush(self._sleeping, (until, next(self._engine.numbers), message))
        self._changed.notify_all()

    def _make_ready(self, message: Message) -> None:
        group = self._groups[message.group]
        group.in_flight -= message.in_flight
        message.ready, message.in_flight = True, False
        heapq.heappush(group.ready, (message.number, message))
        self._rank(message.group)

    def _wake(self) -> None:
        """Make messages ready whose `visible_at` has passed."""
        now = self._now()
        while self._sleeping:
            until, _, message = self._sleeping[0]
            holds = not message.gone and not message.ready and message.visible_at == until
            if holds and until > now:
                return
            heapq.heappop(self._sleeping)
            if holds:
                self._make_ready(message)

    def _place(self, name: str) -> tuple[int, int, str] | None:
        """A group's place in the order, or None if it has no message that may be received."""
        group = self._groups.get(name)
        head = group.head() if group else None
        if group is None or head is None or (self.fifo and group.in_flight):
            return None
        return group.in_flight, head.number, name

    def _rank(self, name: str) -> None:
        if place := self._place(name):
            heapq.heappush(self._order, place)

    def _next_group(self) -> str | None:
        while self._order:
            place = heapq.heappop(self._order)
            if place == self._place(place[2]):
                return place[2]
        return None


class Engine:
    """All queues. `now` returns the time in Unix seconds."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self.now = now
        self.lock = threading.RLock()
        self.numbers = itertools.count(1)
        self.closed = False
        self._queues: dict[str, Queue] = {}

    def create(self, name: str, attributes: Mapping[str, str]) -> Queue:
        """Create a queue, or return the existing one if its attributes are the same. Raises SqsError."""
        fifo = attributes.get("FifoQueue") == "true"
        if fifo and not _FIFO_NAME.fullmatch(name):
            text = (
                "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, "
                "must end with .fifo suffix and be 1 to 80 in length."
            )
            raise SqsError("InvalidParameterValue", text)
        if not fifo and not _NAME.fullmatch(name):
            text = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
            raise SqsError("InvalidParameterValue", text)
        with self.lock:
            if found := self._queues.get(name):
                present = found.attributes()
                different = [key for key, value in attributes.items() if present.get(key) != value]
                if different:
                    text = (
                        f"A queue already exists with the same name and a different value for attribute {different[0]}"
                    )
                    raise SqsError("QueueNameExists", text)
                return found
            self._queues[name] = Queue(name, attributes, self)
            return self._queues[name]

    def queue(self, name: str) -> Queue:
        """The queue of this name. Raises SqsError."""
        with self.lock:
            if found := self._queues.get(name):
                return found
        raise SqsError("QueueDoesNotExist", "The specified queue does not exist.")

    def by_arn(self, arn: str) -> Queue | None:
        """The queue with this ARN, or None."""
        name = arn.rpartition(":")[2]
        found = self._queues.get(name)
        return found if found and found.arn == arn else None

    def all(self) -> Iterable[Queue]:
        """All queues, sorted by name."""
        with self.lock:
            return [self._queues[name] for name in sorted(self._queues)]

    def close(self) -> None:
        """End all waits for messages."""
        self.closed = True
        for queue in self.all():
            queue.wake_receivers()


def md5(content: bytes) -> str:
    """The MD5 digest of a message, which clients check."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def md5_of_attributes(attributes: Mapping[str, Mapping[str, str]]) -> str:
    """The MD5 digest of message attributes: of the names, types and values, each with its length."""

    def counted(part: bytes) -> bytes:
        return len(part).to_bytes(4, "big") + part

    content = b""
    for name, value in sorted(attributes.items()):
        content += counted(name.encode()) + counted(value["DataType"].encode())
        if "BinaryValue" in value:
            content += b"\2" + counted(base64.b64decode(value["BinaryValue"]))
        else:
            content += b"\1" + counted(value["StringValue"].encode())
    return md5(content)


def _milliseconds(at: float) -> str:
    return str(int(at * 1000))
