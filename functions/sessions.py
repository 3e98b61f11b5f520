"""/v1/sessions and the call action: place calls; list and retrieve sessions, transcripts and recordings."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from shared.api import http
from shared.api.http import Answer, Call, Decision
from shared.calls import placing, recordings, sessions, transcripts
from shared.calls.sessions import LISTED
from shared.core import clock
from shared.core.errors import ApiError
from shared.resources import fields, lists, records
from shared.resources.records import Found


class CallIn(fields.Input):
    """A call to a customer; everything is optional (contract 7)."""

    appointment_id: str | None = None
    channel: Literal["phone", "whatsapp"] | None = None
    instructions: Annotated[str, fields.text(2000)] | None = None
    metadata: fields.Metadata | None = None


def call_customer(call: Call) -> Answer:
    order = placing.Order(**call.body(CallIn).model_dump())
    placed: placing.Placed | None = None

    def decide() -> Decision:
        nonlocal placed
        placed = placing.place(call.scope, call.params["id"], order)
        answer = placing.answer(placed.session)
        if answer["status"] == "consent_pending":
            return placed.writes, Answer(202, fields.compact(answer))
        location = f"/v1/sessions/{answer['session_id']}"
        return placed.writes, Answer(201, fields.compact(answer), location)

    answer = call.commit(decide)
    assert placed is not None
    placing.tell(call.scope, placed)
    return answer


def list_sessions(call: Call) -> Answer:
    query = lists.read(LISTED, call.query)
    page = lists.page(call.scope, LISTED, query, seconds_left=call.seconds_left)
    return Answer(200, page.envelope(call.path))


def retrieve(call: Call) -> Answer:
    return Answer(200, _found(call).row["doc"])


def transcript(call: Call) -> Answer:
    session = _found(call)
    status = _status(session, "transcript")
    row = transcripts.find(call.scope, session.doc["id"])
    lines = transcripts.lines(row) if row and status == sessions.AVAILABLE else []
    shown = {"object": "transcript", "session_id": session.doc["id"], "status": status, "data": lines}
    return Answer(200, fields.compact(shown))


def recording(call: Call) -> Answer:
    session = _found(call)
    status = _status(session, "recording")
    shown: dict[str, Any] = {
        "object": "recording",
        "session_id": session.doc["id"],
        "status": status,
        "url": None,
        "url_expires_at": None,
        "content_type": recordings.CONTENT_TYPE,
        "duration_seconds": None,
    }
    if status == sessions.AVAILABLE:
        link = recordings.link(session.row["recording_key"])
        shown |= {"url": link.url, "url_expires_at": clock.iso(link.expires_at)}
        shown["duration_seconds"] = session.row.get("recording_seconds", session.doc["duration_seconds"])
    return Answer(200, fields.compact(shown))


def _found(call: Call) -> Found:
    return records.find(LISTED, call.scope, call.params["id"])


def _status(session: Found, part: str) -> str:
    """What there is of a part of the session. Raises `resource_not_found`."""
    status = str(session.doc[f"{part}_status"])
    if status == sessions.NONE:
        raise ApiError("resource_not_found", f"The session {session.doc['id']} has no {part}.")
    return status


app = http.service(
    http.Resource("/v1/customers/{id}/call", post=call_customer, action=True),
    http.Resource("/v1/sessions", get=list_sessions, query=LISTED.parameters),
    http.Resource("/v1/sessions/{id}", get=retrieve),
    http.Resource("/v1/sessions/{id}/transcript", get=transcript),
    http.Resource("/v1/sessions/{id}/recording", get=recording),
)
handler = http.lambda_handler(app)
