"""Webhook endpoints: create, edit, test, rotate the secret, disable, enable and delete, and their health."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from starlette.responses import Response

from functions.admin import chart, forms
from functions.admin.events import FILTERS
from functions.admin.visits import PROJECT, AdminPage, InProject, SentBefore, View
from shared.admin.members import MEMBER, VIEWER
from shared.core import threads
from shared.core.errors import ApiError, Code
from shared.core.event_types import EVENT_TYPES
from shared.resources import fields
from shared.store.transactions import Change
from shared.webhooks import failures, replays, statistics
from shared.webhooks.deliveries import commands as delivery_commands
from shared.webhooks.endpoints import commands as endpoint_commands
from shared.webhooks.endpoints import resource as endpoints
from shared.webhooks.endpoints.resource import (
    WEBHOOK_ENDPOINTS,
    DeletedWebhookEndpoint,
    SecretRotation,
    WebhookEndpoint,
    WebhookEndpointCreate,
    WebhookEndpointPatch,
    WebhookEndpointRecord,
    WebhookEndpointWithSecret,
)
from shared.webhooks.events import FAMILIES

SECTION = "webhook_endpoints"
MOST_COUNTED = 100
"""Failed deliveries are counted up to this number."""
NOTICES = {
    "saved": "The endpoint was changed.",
    "disabled": "The endpoint was disabled. Nothing is sent to it any more.",
    "enabled": "The endpoint was enabled. It gets new events from now on.",
    "deleted": "The endpoint was deleted.",
    "created": "This form was sent before and created one endpoint. Rotate its secret if you have not stored it.",
    "rotated": "This form was sent before and rotated the secret once. Rotate it again if you have not stored it.",
}
_FORM = ("url", "label", "description", "event_filters")
_AUDITED = (*_FORM, "enabled")
"""The fields whose values the audit trail contains."""


def show_all(visit: InProject) -> Response:
    """List the endpoints of the mode, newest first."""
    failed = {id: failures.count(visit.scope, id, MOST_COUNTED) for id in visit.endpoints}
    notice = NOTICES.get(visit.query.get("notice", ""))
    return visit.render(
        "webhook_endpoints.html",
        section=SECTION,
        endpoints=visit.endpoints.values(),
        failed=failed,
        most=MOST_COUNTED,
        limit=endpoints.LIMIT,
        notice=notice,
    )


def ask_to_create(visit: InProject) -> Response:
    """Show the form of a new endpoint."""
    return _form(visit, None)


def create(visit: InProject) -> Response:
    """Create an endpoint, and show its signing secret in this response and never again."""
    try:
        endpoint_input = fields.validate(WebhookEndpointCreate, _sent(visit))
        endpoint = visit.commit(
            lambda: endpoint_commands.create(visit.scope, endpoint_input),
            lambda new: visit.entry("webhook_endpoint.created", new["id"], after=forms.part(new, _AUDITED)),
            lambda _: visit.once(),
        )
    except ApiError as error:
        return _form(visit, None, error)
    except SentBefore:
        return visit.redirect(visit.path(f"{SECTION}?notice=created"))
    return _show_secret(visit, endpoint, is_new=True)


def show(visit: InProject) -> Response:
    """Show an endpoint with its health and the outcomes of the latest attempts."""
    endpoint, id = visit.endpoint(), visit.params["id"]
    reads: list[Callable[[], Any]] = [
        lambda: statistics.latest(visit.scope, id),
        lambda: failures.count(visit.scope, id, MOST_COUNTED),
        lambda: failures.count_retrying(visit.scope, endpoint, MOST_COUNTED),
        lambda: replays.find(visit.scope, [id]).get(id),
    ]
    latest, failed, retrying, replay = threads.run_all(lambda read: read(), reads, len(reads))
    return visit.render(
        "webhook_endpoint.html",
        section=SECTION,
        endpoint=endpoint,
        latest=latest,
        chart=chart.of(latest.hours),
        types=EVENT_TYPES,
        failed=failed,
        retrying=retrying,
        most=MOST_COUNTED,
        replay=replay,
        notice=NOTICES.get(visit.query.get("notice", "")),
    )


def ask_to_edit(visit: InProject) -> Response:
    """Show the form that changes an endpoint."""
    return _form(visit, _find(visit).doc)


def edit(visit: InProject) -> Response:
    """Change an endpoint's URL, label, description and filters."""

    def patch(endpoint: WebhookEndpoint) -> WebhookEndpointPatch:
        edited = forms.edited(visit, _shown(endpoint))
        sent = {name: value for name, value in _sent(visit).items() if name in edited}
        return fields.validate(WebhookEndpointPatch, sent)

    try:
        _change(visit, patch, "webhook_endpoint.changed")
    except ApiError as error:
        return _form(visit, _find(visit).doc, error)
    return _back(visit, "saved")


def enable(visit: InProject) -> Response:
    """Enable an endpoint."""
    _change(visit, lambda _: WebhookEndpointPatch(enabled=True), "webhook_endpoint.enabled")
    return _back(visit, "enabled")


def disable(visit: InProject) -> Response:
    """Disable an endpoint. Its waiting deliveries are canceled."""
    _change(visit, lambda _: WebhookEndpointPatch(enabled=False), "webhook_endpoint.disabled")
    return _back(visit, "disabled")


def test(visit: InProject) -> Response:
    """Send a test event of any type, and go to it, where the result appears."""
    endpoint_id = visit.params["id"]
    type = visit.form.get("type", EVENT_TYPES[0])
    if type not in EVENT_TYPES:
        raise ApiError(Code.PARAMETER_INVALID, "There is no such event type.", param="type")
    # Imported here, because no other page needs the documentation.
    from shared.docs import samples

    sample = samples.event(type)["data"]
    changed = {**sample["object"], **({"livemode": visit.scope.livemode} if "livemode" in sample["object"] else {})}
    before = {**changed, **sample["previous_attributes"]} if "previous_attributes" in sample else None
    delivery = visit.commit(
        lambda: delivery_commands.send_sample(visit.scope, endpoint_id, type, changed, before),
        lambda new: visit.entry("webhook_endpoint.tested", endpoint_id, after={"type": type, "delivery": new["id"]}),
    )
    return visit.redirect(visit.path("events", f"{delivery['event_id']}?notice=tested"))


def ask_to_rotate(visit: InProject) -> Response:
    """Ask for confirmation, and how long the previous secret stays valid."""
    form = {"once": secrets.token_urlsafe(16)}
    return visit.render("webhook_endpoint_rotate.html", section=SECTION, endpoint=_find(visit).doc, form=form)


def rotate(visit: InProject) -> Response:
    """Replace the signing secret, and show the new one in this response and never again."""
    valid_s = forms.integer(visit, "previous_secret_valid_seconds", "The current secret expires")
    options = fields.validate(SecretRotation, {"previous_secret_valid_seconds": valid_s})
    try:
        endpoint = visit.commit(
            lambda: endpoint_commands.rotate_secret(visit.scope, visit.params["id"], options),
            lambda rotated: visit.entry(
                "webhook_endpoint.secret_rotated",
                rotated["id"],
                after={"previous_secret_expires_at": rotated["previous_secret_expires_at"]},
            ),
            lambda _: visit.once(),
        )
    except SentBefore:
        return _back(visit, "rotated")
    return _show_secret(visit, endpoint, is_new=False)


def ask_to_delete(visit: InProject) -> Response:
    """Ask for confirmation, because an endpoint is deleted permanently."""
    return visit.render("webhook_endpoint_delete.html", section=SECTION, endpoint=_find(visit).doc)


def delete(visit: InProject) -> Response:
    """Delete an endpoint permanently. Its waiting deliveries are canceled."""

    def command() -> Change[DeletedWebhookEndpoint]:
        record = _find(visit)
        entry = visit.entry("webhook_endpoint.deleted", record.doc["id"], before=forms.part(record.doc, _AUDITED))
        return endpoint_commands.delete(visit.scope, record).with_writes(entry)

    visit.commit(command)
    return visit.redirect(visit.path(f"{SECTION}?notice=deleted"))


def _find(visit: InProject) -> WebhookEndpointRecord:
    return WEBHOOK_ENDPOINTS.find(visit.scope, visit.params["id"])


def _back(visit: InProject, notice: str) -> Response:
    return visit.redirect(visit.path(SECTION, f"{visit.params['id']}?notice={notice}"))


def _change(visit: InProject, patch_of: Callable[[WebhookEndpoint], WebhookEndpointPatch], action: str) -> None:
    def command() -> Change[WebhookEndpoint]:
        record = _find(visit)
        change = endpoint_commands.update(visit.scope, record, patch_of(record.doc))
        endpoint = change.doc
        before, after = forms.part(record.doc, _AUDITED), forms.part(endpoint, _AUDITED)
        changed = [name for name in _AUDITED if before[name] != after[name]]
        entry = visit.entry(
            action,
            endpoint["id"],
            before={name: before[name] for name in changed},
            after={name: after[name] for name in changed},
        )
        return change.with_writes(entry)

    visit.commit(command)


def _sent(visit: InProject) -> dict[str, Any]:
    """The fields of the form. Empty ones are unset, except the URL."""
    texts = forms.texts(visit, ("label", "description"))
    filters = visit.form.get("event_filters", "").replace(",", " ").split()
    return {**texts, "url": visit.form.get("url", "").strip(), "event_filters": filters}


def _shown(endpoint: WebhookEndpoint) -> dict[str, str]:
    texts = forms.shown(endpoint, ("url", "label", "description"))
    # In the order of the form's boxes, in which a browser sends them.
    return texts | {"event_filters": "\n".join(one for one in FILTERS if one in endpoint["event_filters"])}


def _show_secret(visit: InProject, endpoint: WebhookEndpointWithSecret, *, is_new: bool) -> Response:
    secret = endpoint["secret"]
    return visit.render(
        "webhook_endpoint_secret.html", 201, section=SECTION, endpoint=endpoint, secret=secret, is_new=is_new
    )


def _form(visit: InProject, endpoint: WebhookEndpoint | None, error: ApiError | None = None) -> Response:
    return visit.render(
        "webhook_endpoint_form.html",
        error.status if error else 200,
        section=SECTION,
        endpoint=endpoint,
        form=forms.view(visit, _shown(endpoint) if endpoint else dict.fromkeys(_FORM, ""), error),
        error=error,
        families=FAMILIES,
    )


_ONE = f"{PROJECT}/{SECTION}/{{id}}"
PAGES = (
    AdminPage(f"{PROJECT}/{SECTION}", get=View(show_all, VIEWER), post=View(create, MEMBER)),
    AdminPage(f"{PROJECT}/{SECTION}/new", get=View(ask_to_create, MEMBER)),
    AdminPage(_ONE, get=View(show, VIEWER)),
    AdminPage(f"{_ONE}/edit", get=View(ask_to_edit, MEMBER), post=View(edit, MEMBER)),
    AdminPage(f"{_ONE}/enable", post=View(enable, MEMBER)),
    AdminPage(f"{_ONE}/disable", post=View(disable, MEMBER)),
    AdminPage(f"{_ONE}/test", post=View(test, MEMBER)),
    AdminPage(f"{_ONE}/rotate_secret", get=View(ask_to_rotate, MEMBER), post=View(rotate, MEMBER)),
    AdminPage(f"{_ONE}/delete", get=View(ask_to_delete, MEMBER), post=View(delete, MEMBER)),
)
