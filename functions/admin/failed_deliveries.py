"""Failed deliveries since a time, of the project or one endpoint, and the replay of all of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from starlette.responses import Response

from functions.admin import times
from functions.admin.visits import PROJECT, AdminPage, InProject, Refused, View
from shared.admin.members import MEMBER, VIEWER
from shared.core import clock
from shared.core.errors import ApiError, Code
from shared.webhooks import failures, replays
from shared.webhooks.endpoints import resource as endpoints
from shared.webhooks.events import RETENTION_MS

SECTION = "failed_deliveries"
PAGE = 50
LOOK_AGAIN_S = 2
"""Seconds after which the page looks again while a replay is running."""
NOTICES = {
    "stopped": "The replay was stopped. Deliveries that it has sent already go on.",
}


def show(visit: InProject) -> Response:
    """List the deliveries that are failing or have failed and were not replayed, and the progress of replays."""
    parts = _parts(visit)
    notice = NOTICES.get(visit.query.get("notice", ""))
    status = 400 if parts["error"] else 200
    return visit.render("failed_deliveries.html", status, section=SECTION, notice=notice, **parts)


def show_progress(visit: InProject) -> Response:
    """The lists and the replays, which the page loads again while a replay is running."""
    if not visit.is_fragment:
        return visit.redirect(visit.path(SECTION))
    return visit.render("_failed_deliveries.html", **_parts(visit))


def start(visit: InProject) -> Response:
    """Start a replay for the chosen endpoint, or for each that has failed deliveries and can get them."""
    known = visit.endpoints
    wanted, since = visit.form.get("endpoint", ""), _since(visit, visit.form.get("since", "").strip())
    asked = _chosen(known, wanted)
    running = _running(replays.find(visit.scope, asked).values())
    chosen = [
        id
        for id in asked
        if id not in running and (wanted or (known[id].doc["enabled"] and failures.count(visit.scope, id, 1, since)))
    ]
    if not chosen and running:
        raise Refused(
            409, "A replay is already running", "Wait until it has ended, or stop it, then start another one."
        )
    if not chosen:
        raise Refused(409, "There is nothing to replay", "No enabled endpoint has failed deliveries since this time.")
    for endpoint_id in chosen:
        _start(visit, endpoint_id, since)
    return visit.redirect(visit.path(SECTION))


def stop(visit: InProject) -> Response:
    """Stop a running replay."""
    endpoint_id = visit.form.get("endpoint", "")
    visit.commit(lambda: replays.stop(visit.scope, endpoint_id), lambda _: visit.entry("replay.stopped", endpoint_id))
    return visit.redirect(visit.path(f"{SECTION}?notice=stopped"))


def _start(visit: InProject, endpoint_id: str, since: clock.Instant) -> None:
    visit.commit(
        lambda: replays.start(visit.scope, endpoint_id, since, visit.actor.who),
        lambda _: visit.entry("replay.started", endpoint_id, after={"since": clock.iso(since)}),
    )


def _chosen(known: dict[str, endpoints.EndpointSnapshot], wanted: str) -> list[str]:
    """The ids of the wanted endpoint, or of all. Raises `resource_not_found`."""
    if wanted and wanted not in known:
        raise ApiError(Code.RESOURCE_NOT_FOUND, "There is no such endpoint.", param="endpoint")
    return [wanted] if wanted else [*known]


def _running(found: Iterable[replays.Replay]) -> set[str]:
    """The ids of the endpoints whose replay is running."""
    return {one.endpoint_id for one in found if one.ended_as is None}


def _parts(visit: InProject) -> dict[str, Any]:
    """What the templates show, and after how many seconds to look again (None: never). The lists are newest first."""
    wanted = {name: visit.query.get(name, "").strip() for name in ("endpoint", "since")}
    starting_after = visit.query.get("starting_after", "")
    known = visit.endpoints
    # Before the lists, so that these have what a replay did until its end.
    latest_replays = sorted(replays.find(visit.scope, [*known]).values(), key=lambda one: one.started_at, reverse=True)
    error, chosen, failed, retrying = (
        None,
        list[str](),
        failures.DeliveryPage([], None),
        failures.DeliveryPage([], None),
    )
    try:
        chosen, since = _chosen(known, wanted["endpoint"]), _since(visit, wanted["since"])
        failed = failures.page(visit.scope, chosen, PAGE, since, starting_after)
        if not starting_after:
            retrying = failures.page(visit.scope, chosen, PAGE, since, retrying=True)
    except ApiError as refused:
        error = refused
    running = _running(latest_replays)
    return {
        "endpoints": known,
        "wanted": wanted,
        "starting_after": starting_after,
        "error": error,
        "failed": failed,
        "retrying": retrying,
        "replays": latest_replays,
        "look_again": LOOK_AGAIN_S if running else None,
        "can_replay": visit.may_change and bool({*chosen} - running),
    }


def _since(visit: InProject, text: str) -> clock.Instant:
    """The instant of a local time of a form; without one, the time since which deliveries are stored."""
    if not text:
        return clock.now() - RETENTION_MS
    try:
        return times.instant(text, visit.zone)
    except ValueError:
        raise ApiError(Code.DATETIME_INVALID, "Times have the form 2027-03-04T15:00.", param="since") from None


PAGES = (
    AdminPage(f"{PROJECT}/{SECTION}", get=View(show, VIEWER)),
    AdminPage(f"{PROJECT}/{SECTION}/progress", get=View(show_progress, VIEWER)),
    AdminPage(f"{PROJECT}/{SECTION}/replay", post=View(start, MEMBER)),
    AdminPage(f"{PROJECT}/{SECTION}/stop", post=View(stop, MEMBER)),
)
