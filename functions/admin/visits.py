"""Requests of the admin pages: who asks, in which project and mode, and whether they may.

A page declares the role that each of its views needs. The order of checks: method, the form's type, size and encoding,
session, project and mode, role, the form's token, the view. A project of which the person is not a member does not
exist for them.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import secrets
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Send
from starlette.types import Scope as ASGIScope

from functions.admin import rendering, times
from shared.admin import audit, members, sign_in_sessions
from shared.admin.members import MEMBER, MemberRole, Membership, Person
from shared.admin.sign_in_sessions import SignInSession
from shared.agent_settings import resource as agent_settings
from shared.agent_settings.resource import AgentSettings
from shared.api.responses import RequestContext
from shared.core import clock, errors, settings
from shared.pages import SECURITY
from shared.store import table, transactions
from shared.store.keys import Scope
from shared.store.transactions import Change, Command
from shared.webhooks.endpoints import resource as endpoints
from shared.webhooks.endpoints.resource import EndpointSnapshot

D = TypeVar("D")
PROJECT = "/admin/projects/{project}/{mode}"
MOST_FORM_BYTES = 64 * 1024
FORM_REMEMBERED_MS = clock.DAY
MODES = {"test": False, "live": True}
_HIDDEN = ("once", "rendered")
"""The fields of forms that nobody types."""
_LISTS_ENDPOINTS = ("attention", "webhook_endpoints")
"""The sections whose pages show the health of endpoints themselves."""
_PROJECT_ID = re.compile(r"[1-9][0-9]{0,9}")
_RETURN_TO = re.compile(r"/admin(/[A-Za-z0-9_-]+)*")
_QUERY = re.compile(r"[A-Za-z0-9_.~%=&+*:@-]{0,1000}")


class Refused(Exception):
    """A page that cannot be shown: its status, what happened, and what to do."""

    def __init__(self, status: int, title: str, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(title)
        self.status = status
        self.title = title
        self.text = text
        self.headers = dict(headers or {})


class SentBefore(Exception):
    """The browser has sent the same form before."""


@dataclass(frozen=True)
class Visit:
    """A request to an admin page. `form` has the fields of a POST; several values of one name are lines of a text."""

    request: Request
    context: RequestContext
    params: Mapping[str, str]
    form: Mapping[str, str] = field(repr=False)

    @property
    def query(self) -> Mapping[str, str]:
        """The query parameters; the last one of a name."""
        return self.request.query_params

    @property
    def ip(self) -> str | None:
        """The address of the person's browser, as the gateway knows it."""
        event = self.request.scope.get("aws.event", {})
        ip: str | None = event.get("requestContext", {}).get("identity", {}).get("sourceIp")
        return ip

    @property
    def is_fragment(self) -> bool:
        """Whether htmx asks for a part of the page."""
        return self.request.headers.get("HX-Request") == "true"

    def url(self, path: str) -> str:
        """The URL of a path: it includes the gateway's stage, if URLs have one."""
        return self.context.prefix + path

    def redirect(self, path: str) -> Response:
        """Send the browser to another page of ours."""
        return RedirectResponse(self.url(path), 303, SECURITY)

    def render(self, template: str, status: int = 200, **values: Any) -> Response:
        """The response with a template."""
        return rendering.render(template, status, visit=self, url=self.url, **values)


@dataclass(frozen=True)
class SignedIn(Visit):
    """A request with a session."""

    session: SignInSession
    person: Person

    @property
    def actor(self) -> audit.Actor:
        """Who makes the changes of this request."""
        return audit.Actor(self.session.email, self.ip, self.context.request_id)


@dataclass(frozen=True)
class InProject(SignedIn):
    """A request to a page of a project and mode."""

    membership: Membership
    scope: Scope
    day: date | None
    """The day from whose page the person came, to which the pages of its customers and appointments lead back."""

    @property
    def mode(self) -> str:
        """`test` or `live`."""
        return "live" if self.scope.livemode else "test"

    @property
    def may_change(self) -> bool:
        """Whether the person may change what is neither a key, a member nor a limit."""
        return self.membership.may(MEMBER)

    @cached_property
    def settings(self) -> AgentSettings:
        """The agent's settings, which have the time zone and the opening hours. They were read with the person."""
        return agent_settings.of_rows(self.scope, self.person.others).settings

    @cached_property
    def zone(self) -> ZoneInfo:
        """The project's time zone, in which the page shows and reads every time."""
        return ZoneInfo(self.settings["timezone"])

    @cached_property
    def endpoints(self) -> dict[str, EndpointSnapshot]:
        """The webhook endpoints of the mode by id, newest first, as they were when the page first needed them."""
        return {one.doc["id"]: one for one in endpoints.of_project(self.scope)}

    def endpoint(self) -> EndpointSnapshot:
        """The webhook endpoint that the path names. Raises `resource_not_found`."""
        id = self.params["id"]
        if id not in self.endpoints:
            raise errors.not_found("webhook endpoint", id)
        return self.endpoints[id]

    def render(self, template: str, status: int = 200, **values: Any) -> Response:
        """The response with a template. Whole pages, which have a `section`, say which webhook endpoints fail."""
        values |= {"zone": self.zone, "now": clock.iso(clock.now())}
        if "section" in values and values["section"] not in _LISTS_ENDPOINTS:
            values["announced"] = [one for one in self.endpoints.values() if one.is_announced]
        return super().render(template, status, **values)

    def path(self, *parts: str) -> str:
        """The path of a page of this project and mode."""
        return "/".join((f"/admin/projects/{self.scope.project_id}/{self.mode}", *parts))

    def to(self, *parts: str, **query: object) -> str:
        """As `path`, with the query parameters that have a value. The page leads back to the same day as this one."""
        parameters = {name: str(value) for name, value in {"day": self.day, **query}.items() if value}
        return self.path(*parts) + ("?" + urllib.parse.urlencode(parameters) if parameters else "")

    def page_parameters(self, limit: int) -> dict[str, list[str]]:
        """The API's query parameters of the requested page of a list."""
        starting_after = self.query.get("starting_after")
        return {"limit": [str(limit)]} | ({"starting_after": [starting_after]} if starting_after else {})

    def commit(self, command: Command[D], *others: Callable[[D], table.Put]) -> D:
        """Commit the change of a command. Returns the document afterwards. Raises ApiError or SentBefore.

        `command` reads the rows it needs, and runs again if they are modified concurrently. If it changes anything,
        the writes of `others`, which get the document, are part of its transaction. Every change has an entry in the
        audit trail, which is a write of the command (`Change.with_writes`) or of `others`.
        """

        def decide() -> Change[D]:
            change = command()
            return change.with_writes(*(write(change.doc) for write in others))

        return transactions.commit(decide).doc

    def once(self) -> table.Put:
        """The record of the form, which has a field `once`. It is refused by SentBefore if the form was sent before."""
        pk, sk = self._form_key()
        row = {"pk": pk, "sk": sk, "kind": "form"} | {"expires_at": table.expiry(clock.now() + FORM_REMEMBERED_MS)}
        return table.Put(row, refusal=table.Refusal(lambda _: SentBefore(), goes_first=True))

    def was_sent(self) -> bool:
        """Whether the form, which has a field `once`, was sent before."""
        return table.get(*self._form_key()) is not None

    def _form_key(self) -> tuple[str, str]:
        token = f"{self.session.digest} {self.form.get('once', '')}"
        return f"P#{self.scope.project_id}#form#{hashlib.sha256(token.encode()).hexdigest()}", "form"

    def entry(self, action: str, target: str, **facts: Any) -> table.Put:
        """The write of an entry in the audit trail about a change in this mode."""
        livemode = facts.pop("livemode", self.scope.livemode)
        return audit.entry(self.scope.project_id, self.actor, action, target, livemode=livemode, **facts)


@dataclass(frozen=True)
class View:
    """What a method of a page does. `role` is the least role that may; None for pages outside of projects."""

    handle: Callable[[Any], Response]
    role: MemberRole | None = None


class AdminPage(Route):
    """A path and its views. Everybody may see a `public` page; the others need a session."""

    def __init__(self, path: str, *, get: View | None = None, post: View | None = None, public: bool = False) -> None:
        self.views = {method: view for method, view in (("GET", get), ("HEAD", get), ("POST", post)) if view}
        self.public = public
        super().__init__(path, _Dispatch(self))


class _Dispatch:
    """The ASGI app of one page."""

    def __init__(self, page: AdminPage) -> None:
        self._page = page

    async def __call__(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        scope["context"].route = self._page.path
        response = self._respond(request, await request.body())
        await response(scope, receive, send)

    def _respond(self, request: Request, body: bytes) -> Response:
        page, method = self._page, request.method
        view = page.views.get(method)
        if view is None:
            allowed = ", ".join(page.views)
            raise Refused(405, "This page cannot do that", f"It takes {allowed}.", {"Allow": allowed})
        form = _form(request, body) if method == "POST" else {}
        visit = Visit(request, request.scope["context"], request.path_params, form)
        if page.public:
            return view.handle(visit)
        signed_in = signed_in_of(visit)
        if signed_in is None:
            return _to_sign_in(visit)
        if view.role is not None:
            signed_in = _in_project(signed_in)
            if not signed_in.membership.may(view.role):
                text = f"You are a {signed_in.membership.role} of this project. This needs the role {view.role}."
                raise Refused(403, "You may not do this", text)
        if method == "POST" and not _has_token(signed_in):
            return _refuse_form(signed_in)
        if not visit.is_fragment:
            # A page that refreshes itself does not keep a session alive.
            sign_in_sessions.touch(signed_in.session)
        return view.handle(signed_in)


def current_session(visit: Visit) -> SignInSession | None:
    """The session of the request's cookie; None without one."""
    token = visit.request.cookies.get(cookie_name("session"))
    return sign_in_sessions.find(token) if token else None


def signed_in_of(visit: Visit) -> SignedIn | None:
    """The visit of a person whose session has not ended; None without one."""
    session = current_session(visit)
    if session is None:
        return None
    scope = _scope(visit)
    person = members.person(session.person, agent_settings.keys(scope) if scope else ())
    if session.began_at < person.signed_out_at:
        return None
    return SignedIn(visit.request, visit.context, visit.params, visit.form, session, person)


def cookie_name(name: str) -> str:
    """The full name of a cookie. On the local runner, which has no TLS, browsers accept no `__Host-` cookies."""
    return f"admin_{name}" if settings.has_sign_in_links() else f"__Host-admin_{name}"


def set_cookie(response: Response, name: str, value: str, seconds: int) -> None:
    """Set a cookie that scripts cannot read, and that other sites cannot send with a form."""
    secure = not settings.has_sign_in_links()
    response.set_cookie(cookie_name(name), value, seconds, path="/", secure=secure, httponly=True, samesite="lax")


def delete_cookie(response: Response, name: str) -> None:
    """Remove a cookie from the browser."""
    set_cookie(response, name, "", 0)


def return_path(text: str) -> str:
    """The path of an admin page, with its query, to which a sign-in returns; the start page for any other text."""
    path, _, query = text.partition("?")
    if not _RETURN_TO.fullmatch(path) or "/sign-" in path:
        return "/admin"
    return text if _QUERY.fullmatch(query) else path


def _to_sign_in(visit: Visit) -> Response:
    if visit.is_fragment:
        # htmx loads the whole page again, which leads to the sign-in.
        return Response(status_code=401, headers=SECURITY | {"HX-Refresh": "true"})
    path = visit.request.url.path
    if visit.request.method == "POST" and path != "/admin/sign-out" and _is_from_our_page(visit):
        return _send_again(visit, 401)
    page = f"{path}?{visit.request.url.query}".rstrip("?")
    query = urllib.parse.urlencode({"return_to": page}) if visit.request.method == "GET" and page != "/admin" else ""
    return visit.redirect(f"/admin/sign-in{'?' if query else ''}{query}")


def _scope(visit: Visit) -> Scope | None:
    """The project and mode that the path names, whoever may see them; None if it names none."""
    project, mode = visit.params.get("project", ""), visit.params.get("mode")
    return Scope(int(project), MODES[mode]) if _PROJECT_ID.fullmatch(project) and mode in MODES else None


def _in_project(visit: SignedIn) -> InProject:
    scope = _scope(visit)
    membership = visit.person.in_project(scope.project_id) if scope else None
    if scope is None or membership is None:
        raise not_found()
    day = None
    with contextlib.suppress(ValueError):
        day = times.parse_day(visit.query.get("day", ""))
    return InProject(
        visit.request, visit.context, visit.params, visit.form, visit.session, visit.person, membership, scope, day
    )


def not_found() -> Refused:
    """The page for a path, project or id that does not exist, or not for this person."""
    return Refused(404, "Page not found", "There is nothing at this address, or you may not see it.")


def _has_token(visit: SignedIn) -> bool:
    sent = visit.form.get("csrf", "").encode()
    return _is_from_our_page(visit) is not False and secrets.compare_digest(sent, visit.session.csrf.encode())


def _is_from_our_page(visit: Visit) -> bool | None:
    """Whether a page of this origin sent the form; None if the browser does not say."""
    base, headers = urllib.parse.urlsplit(visit.context.base_url), visit.request.headers
    ours = {"Sec-Fetch-Site": "same-origin", "Origin": f"{base.scheme}://{base.netloc}"}
    said = [headers[name] == value for name, value in ours.items() if name in headers]
    return all(said) if said else None


def _refuse_form(visit: SignedIn) -> Response:
    if _is_from_our_page(visit):
        return _send_again(visit, 403)
    raise Refused(403, "The form is out of date", "Nothing was changed. Go back, reload the page and try again.")


def _send_again(visit: Visit, status: int) -> Response:
    """The page that keeps a form of ours whose session has ended, so that the person can sign in and send it again.

    It has a token only for a person who is signed in. Forms of other sites are never kept: the person could send what
    somebody else has typed.
    """
    kept = {name: value for name, value in visit.form.items() if name != "csrf"}
    return visit.render("send_again.html", status, kept=kept, hidden=_HIDDEN)


def _form(request: Request, body: bytes) -> dict[str, str]:
    media_type = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if media_type != "application/x-www-form-urlencoded" and body:
        raise Refused(415, "This is not a form", "Send the form of the page.")
    if len(body) > MOST_FORM_BYTES:
        raise Refused(413, "The form is too large", f"A form may have {MOST_FORM_BYTES} bytes.")
    try:
        pairs = urllib.parse.parse_qsl(body.decode("utf-8"), keep_blank_values=True, errors="strict")
    except (ValueError, UnicodeError):
        raise Refused(400, "The form cannot be read", "Send the form of the page.") from None
    found: dict[str, str] = {}
    for name, value in pairs:
        found[name] = f"{found[name]}\n{value}" if name in found else value
    return found
