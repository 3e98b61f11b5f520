"""/v1/sessions and /v1/customers/{id}/call: place calls; list and retrieve sessions, transcripts and recordings."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from shared.api import responses
from shared.api.collections import list_operation, retrieve_operation
from shared.api.requests import Decision, Request
from shared.api.responses import Response
from shared.api.routes import Operation, Route, lambda_handler, service
from shared.calls import placing, recordings, sessions, transcripts
from shared.calls.placing import Call
from shared.calls.sessions import SESSIONS, Session, SessionRecord
from shared.calls.transcripts import Line
from shared.core import clock
from shared.core.errors import ApiError
from shared.resources import fields


class CallCreate(fields.Input):
    """A call to a customer; every field is optional (contract 7)."""

    appointment_id: str | None = None
    channel: Literal["phone", "whatsapp"] | None = None
    instructions: Annotated[str, fields.text(2000)] | None = None
    metadata: fields.Metadata | None = None


class Transcript(TypedDict):
    """The transcript of a call (contract 7)."""

    object: str
    """`transcript`."""
    session_id: str
    status: str
    """`processing`, `available` or `failed`."""
    data: list[Line]
    """The lines in chronological order; `[]` unless the status is `available`."""


class Recording(TypedDict):
    """The recording of a call (contract 7)."""

    object: str
    """`recording`."""
    session_id: str
    status: str
    """`processing`, `available` or `failed`."""
    url: str | None
    """A link that is valid for 15 minutes. Null unless the status is `available`."""
    url_expires_at: str | None
    """When the link expires. Null without a link."""
    content_type: str
    """`audio/wav`."""
    duration_seconds: int | None
    """The recording's length. Null unless the status is `available`."""


def call_customer(request: Request[CallCreate]) -> Response:
    """Place one call to a customer and return it: 201 if it is queued, 202 if the customer's consent is pending.

    The session's `call_status` shows its progress. A call is never redialed (specification; contract 7). An unknown
    customer is 404 `resource_not_found`, an unknown appointment 400 `resource_not_found`. If the customer, the
    appointment or a limit does not allow the call, the response is a 409 with the reason.
    """
    order = placing.Order(**request.body.model_dump())

    def decide() -> Decision:
        placement = placing.place(request.scope, request.id, order)
        call = placing.call_of(placement.session)
        if call["status"] == "consent_pending":
            response = responses.accepted(call)
        else:
            response = responses.created(call, f"/v1/sessions/{call['session_id']}")
        return Decision(placement.writes, response, after=lambda: placing.send_hints(request.scope, placement))

    return request.commit(decide)


def transcript(request: Request[None]) -> Response:
    """Return the transcript of a call (contract 7). A session without a transcript is 404 `resource_not_found`."""
    session = SESSIONS.find(request.scope, request.id)
    status = _status(session, session.doc["transcript_status"], "transcript")
    row = transcripts.find(request.scope, session.doc["id"])
    lines = transcripts.lines(row) if row and status == sessions.AVAILABLE else []
    body: Transcript = {
        "object": "transcript",
        "session_id": session.doc["id"],
        "status": status,
        "data": lines,
    }
    return responses.ok(body)


def recording(request: Request[None]) -> Response:
    """Return a link to the recording of a call, which is valid for 15 minutes (contract 7).

    A session without a recording is 404 `resource_not_found`.
    """
    session = SESSIONS.find(request.scope, request.id)
    body: Recording = {
        "object": "recording",
        "session_id": session.doc["id"],
        "status": _status(session, session.doc["recording_status"], "recording"),
        "url": None,
        "url_expires_at": None,
        "content_type": recordings.CONTENT_TYPE,
        "duration_seconds": None,
    }
    if body["status"] == sessions.AVAILABLE:
        link = recordings.link(session.row["recording_key"])
        body["url"], body["url_expires_at"] = link.url, clock.iso(link.expires_at)
        body["duration_seconds"] = session.row.get("recording_seconds", session.doc["duration_seconds"])
    return responses.ok(body)


def _status(session: SessionRecord, status: str, part: str) -> str:
    """The status of the session's transcript or recording. Raises `resource_not_found` if there is none."""
    if status == sessions.NONE:
        raise ApiError("resource_not_found", f"The session {session.doc['id']} has no {part}.")
    return status


app = service(
    Route(
        "/v1/customers/{id}/call",
        post=Operation(
            call_customer,
            returns=Call,
            status=(201, 202),
            body=CallCreate,
            optional_body=True,
            errors=(
                "resource_not_found",
                "customer_deleted",
                "customer_phone_missing",
                "appointment_deleted",
                "appointment_cancelled",
                "call_in_progress",
                "call_limit_reached",
                "consent_request_limited",
            ),
        ),
    ),
    Route("/v1/sessions", get=list_operation(SESSIONS, Session)),
    Route("/v1/sessions/{id}", get=retrieve_operation(SESSIONS, Session)),
    Route(
        "/v1/sessions/{id}/transcript",
        get=Operation(transcript, returns=Transcript, errors=("resource_not_found",)),
    ),
    Route(
        "/v1/sessions/{id}/recording",
        get=Operation(recording, returns=Recording, errors=("resource_not_found",)),
    ),
)
handler = lambda_handler(app)
