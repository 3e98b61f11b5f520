"""Calls: the outcome and its reason in words, the transcript, the recording and the consent."""

from __future__ import annotations

import urllib.parse
from typing import Any

from starlette.responses import RedirectResponse, Response

from functions.admin import exports, lists, names
from functions.admin.visits import PROJECT, AdminPage, InProject, View, not_found
from shared.admin.members import MEMBER, OWNER, VIEWER
from shared.calls import endings, recordings, sessions, transcripts
from shared.calls.sessions import SESSIONS, Session, SessionRecord
from shared.core import clock
from shared.core.call_statuses import CallOutcome, Channel, FileStatus, SessionCallStatus
from shared.core.errors import ApiError
from shared.pages import SECURITY

SECTION = "sessions"
LOOK_AGAIN_S = 2
"""Seconds after which the page looks again while a call is under way."""
FAR_MS = 60 * clock.SECOND
"""The page looks less often while the call waits for longer than this."""
_FILTERS = ("call_status", "outcome", "channel", "customer_id", "appointment_id")
NOTICES = {
    "called": "The call was requested.",
    "planned": "The call waits for its time. Until then, it can be canceled here.",
    "canceled": "The call was canceled. Nobody is called.",
}


def show_all(visit: InProject) -> Response:
    """List the calls, newest first, by the filters of the API."""
    wanted = lists.wanted(visit, *_FILTERS)
    return lists.show(
        visit,
        SECTION,
        wanted,
        lambda: lists.read(visit, SESSIONS, lists.parameters(visit, wanted)),
        statuses=[*SessionCallStatus],
        outcomes=[*CallOutcome],
        channels=[*Channel],
        most=exports.MOST,
    )


def export(visit: InProject) -> Response:
    """The listed calls as CSV."""
    wanted = {name: visit.form.get(name, "").strip() for name in _FILTERS}
    return exports.of_list(visit, SESSIONS, Session.__annotations__, wanted, lists.parameters(visit, wanted))


def show(visit: InProject) -> Response:
    """Show a call."""
    record = _find(visit)
    parts, name = _parts(visit, record), visit.query.get("notice", "")
    notice = NOTICES.get("planned" if name == "called" and parts["waits_long"] else name)
    response = visit.render("session.html", section=SECTION, notice=notice, **parts)
    if record.doc["recording_status"] == FileStatus.AVAILABLE:
        # The player follows our redirect to the bucket.
        origin = "{0.scheme}://{0.netloc}".format(urllib.parse.urlsplit(_link(record)))
        response.headers["Content-Security-Policy"] += f"; media-src 'self' {origin}"
    return response


def show_progress(visit: InProject) -> Response:
    """The parts of a call's page that change, which the page loads again while the call is under way."""
    record = _find(visit)
    if not visit.is_fragment:
        return visit.redirect(visit.path(SECTION, record.doc["id"]))
    parts = _parts(visit, record)
    response = visit.render("_session.html", **parts)
    if parts["look_again"] is None:
        # The whole page again, which has the player.
        response.headers["HX-Refresh"] = "true"
    return response


def cancel(visit: InProject) -> Response:
    """Cancel a call that waits to be dialed, or for consent."""
    id = visit.params["id"]
    try:
        visit.commit(lambda: endings.cancel(visit.scope, id), lambda _: visit.entry("call.canceled", id))
    except ApiError as error:
        record = _find(visit)
        parts = _parts(visit, record)
        return visit.render("session.html", error.status, section=SECTION, notice=None, error=error, **parts)
    return visit.redirect(visit.to(SECTION, id, notice="canceled"))


def play(visit: InProject) -> Response:
    """Go to the recording in the bucket, by a link that is valid for 15 minutes."""
    return _to_recording(visit)


def download(visit: InProject) -> Response:
    """Save the recording as a file, by a link like that of `play`."""
    return _to_recording(visit, f"{visit.params['id']}.wav")


def _find(visit: InProject) -> SessionRecord:
    return SESSIONS.find(visit.scope, visit.params["id"])


def _to_recording(visit: InProject, file_name: str | None = None) -> Response:
    record = _find(visit)
    if record.doc["recording_status"] != FileStatus.AVAILABLE:
        raise not_found()
    return RedirectResponse(_link(record, file_name), 303, SECURITY)


def _link(record: SessionRecord, file_name: str | None = None) -> str:
    return recordings.link(record.row["recording_key"], file_name).url


def _parts(visit: InProject, record: SessionRecord) -> dict[str, Any]:
    """The call as the template shows it, and after how many seconds to look again (None: never)."""
    session = record.doc
    has_lines = session["transcript_status"] == FileStatus.AVAILABLE
    row = transcripts.find(visit.scope, session["id"]) if has_lines else None
    working = FileStatus.PROCESSING in (session["transcript_status"], session["recording_status"])
    under_way = session["call_status"] in (SessionCallStatus.QUEUED, SessionCallStatus.DIALING)
    dial_at = session["dial_at"]
    waits_long = dial_at is not None and clock.parse(dial_at) > clock.now() + FAR_MS
    look_again = LOOK_AGAIN_S if under_way or working else None
    if waits_long or sessions.awaits_consent(session):
        look_again = 60
    lines = transcripts.lines(row) if row else []
    is_queued = session["call_status"] == SessionCallStatus.QUEUED
    named = names.of(visit, (session["customer_id"], session["appointment_id"]))
    parts = {"session": session, "named": named, "lines": lines, "look_again": look_again}
    later = session["call_later_at"]
    again_at = later if later and clock.parse(later) > clock.now() else None
    return parts | {"is_queued": is_queued, "waits_long": waits_long, "again_at": again_at}


PAGES = (
    AdminPage(f"{PROJECT}/{SECTION}", get=View(show_all, VIEWER)),
    AdminPage(f"{PROJECT}/{SECTION}/export", post=View(export, OWNER)),
    AdminPage(f"{PROJECT}/{SECTION}/{{id}}", get=View(show, VIEWER)),
    AdminPage(f"{PROJECT}/{SECTION}/{{id}}/cancel", post=View(cancel, MEMBER)),
    AdminPage(f"{PROJECT}/{SECTION}/{{id}}/progress", get=View(show_progress, VIEWER)),
    AdminPage(f"{PROJECT}/{SECTION}/{{id}}/recording", get=View(play, VIEWER)),
    AdminPage(f"{PROJECT}/{SECTION}/{{id}}/recording/download", get=View(download, VIEWER)),
)
