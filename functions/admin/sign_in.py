"""Signing in and out, and the start page."""

from __future__ import annotations

import dataclasses

from starlette.responses import Response

from functions.admin.visits import (
    AdminPage,
    SignedIn,
    View,
    Visit,
    cookie_name,
    current_session,
    delete_cookie,
    not_found,
    return_path,
    set_cookie,
    signed_in_of,
)
from shared.admin import audit, members, oidc, sign_in, sign_in_sessions
from shared.admin.members import Identity
from shared.core import clock, log, settings

_SIGN_IN = "/admin/sign-in"
_CALLBACK = f"{_SIGN_IN}/callback"


def start(visit: SignedIn) -> Response:
    """Show the person's projects, or the project if there is only one."""
    if members.is_invited(visit.session.email):
        # They were added to a project after the sign-in.
        members.join(visit.session.person, visit.session.email, visit.actor)
        visit = dataclasses.replace(visit, person=members.person(visit.session.person))
    memberships = visit.person.memberships
    if len(memberships) == 1:
        return visit.redirect(f"/admin/projects/{memberships[0].project_id}/test")
    return visit.render("projects.html")


def without_slash(visit: Visit) -> Response:
    """Send a person who typed a slash at the end to the start page."""
    return visit.redirect("/admin")


def account(visit: SignedIn) -> Response:
    """Show who is signed in, with their projects and roles."""
    return visit.render("account.html")


def ask(visit: Visit) -> Response:
    """Show how to sign in."""
    return_to = return_path(visit.query.get("return_to", "/admin"))
    return visit.render(
        "sign_in.html", provider=oidc.provider(), links=settings.has_sign_in_links(), return_to=return_to, refused=None
    )


def begin(visit: Visit) -> Response:
    """Send the browser to the sign-in provider."""
    attempt = sign_in.begin(return_path(visit.query.get("return_to", "/admin")))
    try:
        url = _provider().authorization_url(attempt, _redirect_uri(visit))
    except oidc.SignInRefused as refused:
        return _refuse(visit, str(refused))
    response = Response(status_code=303, headers={"Location": url, "Referrer-Policy": "no-referrer"})
    set_cookie(response, "attempt", attempt.browser, sign_in.ATTEMPT_MS // clock.SECOND)
    return response


def complete(visit: Visit) -> Response:
    """Take the provider's response, and begin a session."""
    provider, browser = _provider(), visit.request.cookies.get(cookie_name("attempt"), "")
    attempt = sign_in.take_attempt(visit.query.get("state", ""), browser)
    if attempt is None:
        return _refuse(visit, "the sign-in has expired, or began in another browser")
    code = visit.query.get("code")
    # RFC 9207: a provider that names itself in the response must be the one that was asked.
    if not code or visit.query.get("iss", provider.issuer) != provider.issuer:
        return _refuse(visit, "the provider did not confirm the sign-in")
    try:
        identity = provider.identify(attempt, code, _redirect_uri(visit))
    except oidc.SignInRefused as refused:
        return _refuse(visit, str(refused))
    response = _begin_session(visit, identity, attempt.return_to)
    delete_cookie(response, "attempt")
    return response


def use_link(visit: Visit) -> Response:
    """Take a one-time link of the local runner, and begin a session."""
    if not settings.has_sign_in_links():
        raise not_found()
    identity = sign_in.take_link(visit.query.get("token", "")) if visit.request.method == "GET" else None
    if identity is None:
        return _refuse(visit, "the link has been used or has expired")
    return _begin_session(visit, identity, "/admin")


def sign_out(visit: SignedIn) -> Response:
    """End this session, or all sessions of the person. The browser then ends its session at the provider."""
    sign_in_sessions.end(visit.session)
    if visit.form.get("everywhere"):
        members.end_sessions(visit.session.person)
    url = _sign_out_url(visit)
    response = visit.render("signed_out.html", provider_url=url) if url else visit.redirect(_SIGN_IN)
    delete_cookie(response, "session")
    return response


def _sign_out_url(visit: Visit) -> str | None:
    """Where the provider ends its own session; None without a provider, or if it has no such place."""
    provider = oidc.provider()
    if provider is None:
        return None
    try:
        return provider.sign_out_url(visit.context.base_url + _SIGN_IN)
    except oidc.SignInRefused as refused:
        log.logger().warning("not signed out at the provider", extra={"reason": str(refused)})
        return None


def _begin_session(visit: Visit, identity: Identity, path: str) -> Response:
    if members.is_invited(identity.email):
        members.join(identity.person, identity.email, audit.Actor(identity.email, visit.ip, visit.context.request_id))
    earlier = current_session(visit)
    if earlier is not None:
        sign_in_sessions.end(earlier)
    response = visit.redirect(path)
    set_cookie(response, "session", sign_in_sessions.begin(identity), sign_in_sessions.ABSOLUTE_MS // clock.SECOND)
    return response


def _provider() -> oidc.Provider:
    provider = oidc.provider()
    if provider is None:
        raise not_found()
    return provider


def _redirect_uri(visit: Visit) -> str:
    return visit.context.base_url + _CALLBACK


def _refuse(visit: Visit, why: str) -> Response:
    log.logger().warning("sign-in refused", extra={"reason": why, "request_id": visit.context.request_id})
    signed_in = signed_in_of(visit)
    if signed_in is not None:
        return signed_in.render("signed_in.html", 403, refused=why)
    provider, links = oidc.provider(), settings.has_sign_in_links()
    return visit.render("sign_in.html", 403, provider=provider, links=links, return_to="/admin", refused=why)


PAGES = (
    AdminPage("/admin", get=View(start)),
    AdminPage("/admin/", get=View(without_slash), public=True),
    AdminPage("/admin/account", get=View(account)),
    AdminPage(_SIGN_IN, get=View(ask), public=True),
    AdminPage("/admin/sign-in/start", get=View(begin), public=True),
    AdminPage(_CALLBACK, get=View(complete), public=True),
    AdminPage("/admin/sign-in/link", get=View(use_link), public=True),
    AdminPage("/admin/sign-out", post=View(sign_out)),
)
