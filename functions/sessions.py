"""/v1/sessions and /v1/customers/{id}/call: request calls; list and retrieve sessions, transcripts and recordings."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from shared.api import responses
from shared.api.collection_operations import list_operation, retrieve_operation
from shared.api.requests import Request
from shared.api.responses import Response
from shared.api.routes import Operation, Route, Service, lambda_handler
from shared.calls import commands as call_commands
from shared.calls import endings, recordings, transcripts
from shared.calls.commands import Call, CallCreate
from shared.calls.sessions import SESSIONS, Session, SessionRecord
from shared.calls.transcripts import Line
from shared.core import clock
from shared.core.call_statuses import FileStatus
from shared.core.errors import ApiError, Code
from shared.resources import fields
from shared.resources.schema import Count, Keywords, SessionId, Time


class Transcript(TypedDict):
    """The transcript of a call (promises 7)."""

    object: Literal["transcript"]
    """The type of the object."""
    session_id: SessionId
    """The session of the call."""
    status: FileStatus
    """`available` and `failed` are final."""
    data: list[Line]
    """The lines in chronological order; `[]` unless the status is `available`."""


class Recording(TypedDict):
    """The recording of a call (promises 7)."""

    object: Literal["recording"]
    """The type of the object."""
    session_id: SessionId
    """The session of the call."""
    status: FileStatus
    """`available` and `failed` are final."""
    url: Annotated[str, Keywords(format="uri")] | None
    """A link that is valid for 15 minutes. Null unless the status is `available`."""
    url_expires_at: Time | None
    """When the link expires. Null without a link."""
    content_type: Annotated[Literal["audio/wav"], Keywords(name="RecordingContentType")]
    """The media type of the recording."""
    duration_seconds: Count | None
    """The recording's length in whole seconds. Null unless the status is `available`."""


def call_customer(request: Request[CallCreate]) -> Response[Call]:
    """Call a customer.

    Requests one outbound call. The response is 201 if the call is queued, and 202 if the customer is first asked for
    consent; the call is then dialed as soon as the customer accepts. The session's `call_status` shows the progress. A
    call is never redialed (promises 7).
    """
    return request.commit(lambda: call_commands.request_call(request.scope, request.id, request.body), _call_response)


def _call_response(session: Session) -> Response[Call]:
    call = call_commands.to_call(session)
    if call["status"] == "consent_pending":
        return responses.accepted(call)
    return responses.created(call, f"/v1/sessions/{call['session_id']}")


def cancel(request: Request[fields.Nothing]) -> Response[Session]:
    """Cancel a queued call.

    The session ends as `failed` with the reason `canceled`, also while it waits for consent. A repeated request returns
    the same session. A call that is under way cannot be canceled (promises 7).
    """
    return request.commit(lambda: endings.cancel(request.scope, request.id))


def transcript(request: Request[None]) -> Response[Transcript]:
    """Retrieve the transcript of a call.

    A session without a transcript is a 404 (promises 7).
    """
    session = SESSIONS.find(request.scope, request.id)
    status = _status(session, session.doc["transcript_status"], "transcript")
    row = transcripts.find(request.scope, session.doc["id"])
    lines = transcripts.lines(row) if row and status == FileStatus.AVAILABLE else []
    body: Transcript = {
        "object": "transcript",
        "session_id": session.doc["id"],
        "status": status,
        "data": lines,
    }
    return responses.ok(body)


def recording(request: Request[None]) -> Response[Recording]:
    """Retrieve the recording of a call.

    Returns a link to a WAV file that is valid for 15 minutes. A session without a recording is a 404 (promises 7).
    """
    session = SESSIONS.find(request.scope, request.id)
    body: Recording = {
        "object": "recording",
        "session_id": session.doc["id"],
        "status": _status(session, session.doc["recording_status"], "recording"),
        "url": None,
        "url_expires_at": None,
        "content_type": "audio/wav",
        "duration_seconds": None,
    }
    if body["status"] == FileStatus.AVAILABLE:
        link = recordings.link(session.row["recording_key"])
        body["url"], body["url_expires_at"] = link.url, clock.iso(link.expires_at)
        body["duration_seconds"] = session.row.get("recording_seconds", session.doc["duration_seconds"])
    return responses.ok(body)


def _status(session: SessionRecord, status: FileStatus, part: str) -> FileStatus:
    """The status of the session's transcript or recording. Raises `resource_not_found` if there is none."""
    if status == FileStatus.NONE:
        raise ApiError(Code.RESOURCE_NOT_FOUND, f"The session {session.doc['id']} has no {part}.")
    return status


app = Service(
    Route(
        "/v1/customers/{id}/call",
        post=Operation(
            call_customer,
            name="call_customer",
            status=(201, 202),
            optional_body=True,
            errors=(
                Code.RESOURCE_NOT_FOUND,
                Code.CUSTOMER_DELETED,
                Code.CUSTOMER_PHONE_MISSING,
                Code.CUSTOMER_OPTED_OUT,
                Code.APPOINTMENT_DELETED,
                Code.APPOINTMENT_CANCELLED,
                Code.CALL_IN_PROGRESS,
                Code.CALL_LIMIT_REACHED,
                Code.CONSENT_REQUEST_LIMITED,
            ),
        ),
    ),
    Route("/v1/sessions", get=list_operation(SESSIONS)),
    Route("/v1/sessions/{id}", get=retrieve_operation(SESSIONS)),
    Route(
        "/v1/sessions/{id}/cancel",
        post=Operation(
            cancel,
            name="cancel_session",
            optional_body=True,
            errors=(Code.RESOURCE_NOT_FOUND, Code.SESSION_NOT_CANCELABLE),
        ),
    ),
    Route(
        "/v1/sessions/{id}/transcript",
        get=Operation(transcript, name="retrieve_transcript", errors=(Code.RESOURCE_NOT_FOUND,)),
    ),
    Route(
        "/v1/sessions/{id}/recording",
        get=Operation(recording, name="retrieve_recording", errors=(Code.RESOURCE_NOT_FOUND,)),
    ),
)
handler = lambda_handler(app)
