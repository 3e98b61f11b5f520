"""Serves the queues of `sqs` over HTTP on loopback, in the JSON protocol of AWS clients (`AWS_ENDPOINT_URL_SQS`)."""

from __future__ import annotations

import json
import logging
import re
import socketserver
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler
from typing import Any

from infra.local import sqs
from infra.local.sqs import Draft, Engine, Message, Queue, Received, SqsError, invalid, missing

Request = Mapping[str, Any]
Response = dict[str, Any]

_JSON = "application/x-amz-json-1.0"
_TARGET = "AmazonSQS."
_OF_SQS = "com.amazonaws.sqs#"
_ENTRY_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")
_PREFIXED = "AWS.SimpleQueueService."
_QUERY_CODES = {
    "QueueDoesNotExist": f"{_PREFIXED}NonExistentQueue",
    "QueueNameExists": "QueueAlreadyExists",
} | {
    name: f"{_PREFIXED}{name}"
    for name in (
        "BatchEntryIdsNotDistinct",
        "BatchRequestTooLong",
        "EmptyBatchRequest",
        "InvalidBatchEntryId",
        "MessageNotInflight",
        "PurgeQueueInProgress",
        "TooManyEntriesInBatchRequest",
    )
}
"""The error codes that differ in SQS's older query protocol, which responses contain as well."""
_TYPES = {
    "InvalidParameterValue": "com.amazon.coral.service#InvalidParameterValueException",
    "MissingParameter": "com.amazon.coral.service#MissingRequiredParameterException",
    "SerializationException": "com.amazon.coral.service#SerializationException",
    "UnknownOperationException": "com.amazon.coral.service#UnknownOperationException",
}
"""The types of errors that are not specific to SQS."""

log = logging.getLogger(__name__)


def serve(engine: Engine) -> str:
    """Serve the engine from threads of this process. Returns the URL."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.actions = Actions(engine)
    threading.Thread(target=server.serve_forever, name="sqs", daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}"


class Actions:
    """The actions of SQS. Each takes a request's parameters, returns the response's, and raises SqsError."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._by_name: dict[str, Callable[[Request], Response]] = {
            "ChangeMessageVisibility": self._change_visibility,
            "ChangeMessageVisibilityBatch": self._change_visibility_batch,
            "CreateQueue": self._create_queue,
            "DeleteMessage": self._delete,
            "DeleteMessageBatch": self._delete_batch,
            "GetQueueAttributes": self._get_queue_attributes,
            "GetQueueUrl": self._get_queue_url,
            "ListQueues": self._list_queues,
            "PurgeQueue": self._purge_queue,
            "ReceiveMessage": self._receive,
            "SendMessage": self._send,
            "SendMessageBatch": self._send_batch,
            "SetQueueAttributes": self._set_queue_attributes,
        }

    def carry_out(self, action: str, request: Request) -> Response:
        """Carry out an action and return its response."""
        if action not in self._by_name:
            raise SqsError("UnknownOperationException", f"The action {action or ''!r} is not supported.")
        return self._by_name[action](request)

    def _queue(self, request: Request) -> Queue:
        return self._engine.queue(str(_needed(request, "QueueUrl")).rpartition("/")[2])

    def _create_queue(self, request: Request) -> Response:
        return {"QueueUrl": self._engine.create(_needed(request, "QueueName"), request.get("Attributes") or {}).url}

    def _get_queue_url(self, request: Request) -> Response:
        return {"QueueUrl": self._engine.queue(_needed(request, "QueueName")).url}

    def _list_queues(self, request: Request) -> Response:
        prefix = request.get("QueueNamePrefix") or ""
        urls = [queue.url for queue in self._engine.all() if queue.name.startswith(prefix)]
        return {"QueueUrls": urls} if urls else {}

    def _get_queue_attributes(self, request: Request) -> Response:
        found = self._queue(request).attributes(request.get("AttributeNames") or ())
        return {"Attributes": found} if found else {}

    def _set_queue_attributes(self, request: Request) -> Response:
        self._queue(request).set_attributes(_needed(request, "Attributes"))
        return {}

    def _purge_queue(self, request: Request) -> Response:
        self._queue(request).purge()
        return {}

    def _send(self, request: Request) -> Response:
        draft = _draft(request)
        return _sent(draft, self._queue(request).send(draft))

    def _send_batch(self, request: Request) -> Response:
        queue, entries = self._queue(request), _entries(request)
        size = sum(_draft(entry).size for entry in entries)
        if size > sqs.MAX_SIZE:
            text = f"Batch requests cannot be longer than {sqs.MAX_SIZE} bytes. You have sent {size} bytes."
            raise SqsError("BatchRequestTooLong", text)

        def send(entry: Request) -> Response:
            draft = _draft(entry)
            return _sent(draft, queue.send(draft))

        return _each(entries, send)

    def _receive(self, request: Request) -> Response:
        queue = self._queue(request)
        most = _within(request, "MaxNumberOfMessages", 1, sqs.MAX_BATCH)
        messages = queue.receive(
            1 if most is None else most,
            _within(request, "VisibilityTimeout", 0, sqs.LONGEST_VISIBILITY_S),
            _within(request, "WaitTimeSeconds", 0, sqs.LONGEST_WAIT_S),
        )
        system = {*(request.get("AttributeNames") or ()), *(request.get("MessageSystemAttributeNames") or ())}
        own = request.get("MessageAttributeNames") or ()
        return {"Messages": [_asked_for(message, system, own) for message in messages]} if messages else {}

    def _delete(self, request: Request) -> Response:
        self._queue(request).delete(_needed(request, "ReceiptHandle"))
        return {}

    def _delete_batch(self, request: Request) -> Response:
        queue = self._queue(request)

        def delete(entry: Request) -> Response:
            queue.delete(_needed(entry, "ReceiptHandle"))
            return {}

        return _each(_entries(request), delete)

    def _change_visibility(self, request: Request) -> Response:
        seconds = int(_needed(request, "VisibilityTimeout"))
        self._queue(request).change_visibility(_needed(request, "ReceiptHandle"), seconds)
        return {}

    def _change_visibility_batch(self, request: Request) -> Response:
        queue = self._queue(request)

        def change(entry: Request) -> Response:
            queue.change_visibility(_needed(entry, "ReceiptHandle"), int(_needed(entry, "VisibilityTimeout")))
            return {}

        return _each(_entries(request), change)


def _needed(request: Request, name: str) -> Any:
    if request.get(name) is None:
        raise missing(name)
    return request[name]


def _within(request: Request, name: str, least: int, most: int) -> int | None:
    value = request.get(name)
    if value is not None and not least <= int(value) <= most:
        raise invalid(name, value, f"Must be >= {least} and <= {most}, if provided.")
    return None if value is None else int(value)


def _draft(request: Request) -> Draft:
    return Draft(
        body=request.get("MessageBody") or "",
        delay=request.get("DelaySeconds"),
        group=request.get("MessageGroupId"),
        deduplication_id=request.get("MessageDeduplicationId"),
        attributes=request.get("MessageAttributes") or {},
        system_attributes=request.get("MessageSystemAttributes") or {},
    )


def _sent(draft: Draft, message: Message) -> Response:
    found = {"MessageId": message.id, "MD5OfMessageBody": sqs.md5(draft.body.encode())}
    if draft.attributes:
        found["MD5OfMessageAttributes"] = sqs.md5_of_attributes(draft.attributes)
    if draft.system_attributes:
        found["MD5OfMessageSystemAttributes"] = sqs.md5_of_attributes(draft.system_attributes)
    if message.sequence_number:
        found["SequenceNumber"] = message.sequence_number
    return found


def _asked_for(message: Received, system: set[str], own: Sequence[str]) -> Response:
    """The message with the attributes that the receiver requests. The name of a message attribute may end in `.*`."""
    found = {name: value for name, value in message.items() if not name.endswith("Attributes")}
    attributes = {k: v for k, v in message["Attributes"].items() if system & {"All", k}}
    chosen = {k: v for k, v in message.get("MessageAttributes", {}).items() if any(_matches(k, name) for name in own)}
    if attributes:
        found["Attributes"] = attributes
    if chosen:
        found |= {"MessageAttributes": chosen, "MD5OfMessageAttributes": sqs.md5_of_attributes(chosen)}
    return found


def _matches(name: str, wanted: str) -> bool:
    return wanted in ("All", name) or (wanted.endswith(".*") and name.startswith(wanted[:-2]))


def _entries(request: Request) -> Sequence[Request]:
    entries = request.get("Entries") or []
    if not entries:
        raise SqsError("EmptyBatchRequest", "There should be at least one entry in the request.")
    if len(entries) > sqs.MAX_BATCH:
        text = f"Maximum number of entries per request are {sqs.MAX_BATCH}. You have sent {len(entries)}."
        raise SqsError("TooManyEntriesInBatchRequest", text)
    seen: set[str] = set()
    for entry in entries:
        id = str(entry.get("Id") or "")
        if not _ENTRY_ID.fullmatch(id):
            text = "A batch entry id can only contain alphanumeric characters, hyphens and underscores. "
            raise SqsError("InvalidBatchEntryId", text + "It can be at most 80 letters long.")
        if id in seen:
            raise SqsError("BatchEntryIdsNotDistinct", f"Id {id} repeated.")
        seen.add(id)
    return list(entries)


def _each(entries: Sequence[Request], act: Callable[[Request], Response]) -> Response:
    """The result of each entry of a batch. A rejected entry does not affect the others."""
    done, failed = [], []
    for entry in entries:
        try:
            done.append({"Id": entry["Id"], **act(entry)})
        except SqsError as error:
            code = _QUERY_CODES.get(error.code, error.code)
            failed.append({"Id": entry["Id"], "SenderFault": True, "Code": code, "Message": error.message})
    return ({"Successful": done} if done else {}) | ({"Failed": failed} if failed else {})


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 128
    actions: Actions


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    # A response is sent at once and in one piece.
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_POST(self) -> None:
        """Handle one request."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            action = (self.headers.get("X-Amz-Target") or "").removeprefix(_TARGET)
            answer = self.server.actions.carry_out(action, _parsed(body))
        except SqsError as error:
            kind = _TYPES.get(error.code, _OF_SQS + error.code)
            code = _QUERY_CODES.get(error.code, error.code)
            self._respond(400, {"__type": kind, "message": error.message}, {"x-amzn-query-error": f"{code};Sender"})
        except Exception:
            log.exception("a request to the queues failed")
            self._respond(500, {"__type": "com.amazon.coral.service#InternalFailure"}, {})
        else:
            self._respond(200, answer, {})

    def _respond(self, status: int, answer: Response, more: Mapping[str, str]) -> None:
        content = json.dumps(answer).encode()
        self.send_response(status)
        headers = {"Content-Type": _JSON, "Content-Length": str(len(content)), "x-amzn-RequestId": str(uuid.uuid4())}
        for name, value in {**headers, **more}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Do nothing: requests are not logged."""


def _parsed(body: bytes) -> Request:
    try:
        request = json.loads(body or b"{}")
    except ValueError:
        request = None
    if not isinstance(request, dict):
        raise SqsError("SerializationException", "The request is not a JSON object.")
    return request
