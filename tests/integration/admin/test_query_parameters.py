"""Every query parameter of every page, with values that nobody types."""

from __future__ import annotations

import urllib.parse

import pytest

from functions.admin import PAGES
from shared.admin import members
from tests.support.admin_client import Browser, Whole, signed_in
from tests.support.stage import Stage

LIST = ("starting_after", "notice")
OF_PROJECT: dict[str, tuple[str, ...]] = {
    "": ("date", "view", "day", "appointment", "done"),
    "attention": (),
    "waiting": ("starting_after",),
    "waiting/again": ("seen", "starting_after"),
    "events": ("type", "object_id", "since", "until", *LIST),
    "events/{id}": ("notice",),
    "events/{id}/deliveries": (),
    "failed_deliveries": ("endpoint", "since", *LIST),
    "failed_deliveries/progress": ("endpoint", "since", "starting_after"),
    "webhook_endpoints": ("notice",),
    "webhook_endpoints/new": (),
    "webhook_endpoints/{id}": ("notice",),
    "webhook_endpoints/{id}/deliveries": ("status", "type", "since", "until", *LIST),
    "webhook_endpoints/{id}/edit": (),
    "webhook_endpoints/{id}/rotate_secret": (),
    "webhook_endpoints/{id}/delete": (),
    "sessions": ("call_status", "outcome", "channel", "customer", "customer_id", "appointment_id", *LIST),
    "sessions/{id}": ("notice", "day"),
    "sessions/{id}/progress": (),
    "sessions/{id}/recording": (),
    "sessions/{id}/recording/download": (),
    "conversations": ("status", "external_id", "customer", "customer_id", *LIST),
    "conversations/{id}": LIST,
    "customers": ("phone", "email", "external_id", *LIST),
    "customers/new": ("at", "day"),
    "customers/{id}": ("notice", "before", "day"),
    "customers/{id}/edit": (),
    "customers/{id}/delete": (),
    "customers/{id}/call": ("appointment_id", "not_before", "day"),
    "customers/{id}/new_appointment": ("at", "day"),
    "appointments": ("status", "customer", "customer_id", "since", "until", *LIST),
    "appointments/new": ("customer", "at", "day"),
    "appointments/{id}": ("notice", "day"),
    "appointments/{id}/move": ("at", "day"),
    "appointments/{id}/edit": ("day",),
    "appointments/{id}/cancel": ("day",),
    "api_keys": ("notice",),
    "api_keys/{id}/rotate": (),
    "api_keys/{id}/revoke": (),
    "requests": ("id", "status", "key", "route", "since", "until", "starting_after"),
    "usage": ("month",),
    "agent_settings": ("notice",),
    "call_limits": ("notice",),
    "members": ("notice",),
    "members/{id}": (),
    "audit_trail": ("who", "kind", "since", "until", "starting_after"),
    "find": ("q",),
}
OUTSIDE = {
    "/admin/sign-in": ("return_to",),
    "/admin/sign-in/start": ("return_to",),
    "/admin/sign-in/callback": ("state", "code", "iss"),
    "/admin/sign-in/link": ("token",),
}
PREFIXES = ("cust_", "appt_", "sess_", "conv_", "msg_", "evt_", "whd_", "whk_", "aud_", "key_", "req_")
ARABIC = {ord("0") + digit: 0x660 + digit for digit in range(10)}
DAYS = ("0000-01-01", "0001-01-01", "9999-12-31", "2026-02-30", "2026-01-01".translate(ARABIC), "10000-01-01")
VALUES = (
    *DAYS,
    *(f"{day}T23:59" for day in DAYS),
    *(day[:7] for day in DAYS),
    *(prefix + digit * 26 for prefix in PREFIXES for digit in "07z"),
    "9" * 40,
    "-1",
    "x" * 4000,
    "+" * 20,
    "@",
    "\0",
    "\n",
    "💩",
    "\ufffe",
    "[]",
    "//example.com",
)
RAW = ("%ED%A0%80", "%FF", "%", "%zz")


def test_every_page_is_listed_here() -> None:
    project = "/admin/projects/{project}/{mode}"
    known = {f"{project}/{path}".rstrip("/") for path in OF_PROJECT} | {*OUTSIDE, "/admin", "/admin/", "/admin/account"}
    assert {page.path for page in PAGES if "GET" in page.views} == known


@pytest.mark.parametrize("path", [path for path, names in OF_PROJECT.items() if names])
def test_no_value_of_a_parameter_is_a_failure(stage: Stage, whole: Whole, path: str) -> None:
    browser = signed_in(stage, "owner@example.com", {whole.story.project.id: members.OWNER})
    page = f"{whole.story.path}/{path.replace('{id}', whole.ids.get(path.partition('/')[0], ''))}"
    assert failures(browser, page, OF_PROJECT[path]) == []


@pytest.mark.parametrize("path", OUTSIDE)
def test_no_value_of_a_parameter_of_the_sign_in_is_a_failure(stage: Stage, path: str) -> None:
    assert failures(Browser(stage), path, OUTSIDE[path]) == []


def failures(browser: Browser, page: str, names: tuple[str, ...]) -> list[tuple[str, str, int]]:
    """The name and value of each parameter that the page does not bear."""
    texts = [urllib.parse.quote(value) for value in VALUES] + [*RAW]
    answers = ((name, text, browser.get(f"{page}?{name}={text}").status) for name in names for text in texts)
    return [(name, text[:40], status) for name, text, status in answers if status not in (200, 303, 400, 403, 404)]
