"""Who may see and do what: every view of every page, for every role, for strangers and for nobody."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable

import pytest

from functions.admin import PAGES
from functions.admin.visits import AdminPage
from shared.admin import audit, members, sign_in_sessions
from shared.core import clock
from shared.store import transactions
from shared.store.keys import Scope
from shared.webhooks.deliveries import resource as deliveries
from shared.webhooks.endpoints import resource as endpoints
from tests.support.admin_client import SESSION, Browser, Shown, Story, Whole, as_test, keys_of, signed_in, trail
from tests.support.clocks import Clock
from tests.support.deliveries import disable
from tests.support.project_of_pages import hand_off, hand_off_and_take, replaying, retrying
from tests.support.stage import Stage

VIEWS = [(page, method) for page in PAGES for method in page.views if method != "HEAD"]
IN_PROJECT = [(page, method) for page, method in VIEWS if page.views[method].role is not None]


PREPARED: dict[str, Callable[[Stage, Whole], object]] = {
    "enable": lambda stage, whole: disable(stage, f"/v1/webhook_endpoints/{whole.ids['webhook_endpoints']}"),
    "stop": lambda stage, whole: replaying(whole),
    "send_now": lambda stage, whole: retrying(stage, whole),
    "opt_in": lambda stage, whole: stage.call(
        "PATCH", f"/v1/customers/{whole.ids['customers']}", {"do_not_call": True}
    ),
    "give_back": lambda stage, whole: hand_off(stage, whole),
    "take": lambda stage, whole: hand_off(stage, whole),
    "release": lambda stage, whole: hand_off_and_take(stage, whole),
}
"""By the end of a path: what must be the case before its form changes anything."""


def path_of(page: AdminPage, whole: Whole, project: int | None = None) -> str:
    """The page's path with the ids of the story, in its own project or another."""
    found = page.path.replace("{project}", str(project or whole.story.project.id)).replace("{mode}", "test")
    section = page.path.split("/")[5] if "{id}" in page.path else ""
    return found.replace("{delivery}", whole.story.delivery).replace("{id}", whole.ids.get(section, ""))


def ask(browser: Browser, method: str, path: str, whole: Whole) -> Shown:
    """The request that the page's own form or link would send, with a valid token."""
    if method == "GET":
        return browser.get(path)
    with as_test():
        session = sign_in_sessions.find(browser.cookies.get(SESSION, ""))
    return browser.post(path, form_of(whole, path) | {"csrf": session.csrf if session else ""})


def form_of(whole: Whole, path: str) -> dict[str, str]:
    """What the form of a path takes."""
    if path.endswith("/deliveries/replay"):
        return FORM | {"delivery": f"{whole.story.event}/{whole.story.delivery}"}
    return FORM | ({"endpoint": whole.ids["webhook_endpoints"]} if path.endswith("/stop") else {})


FORM = {
    "label": "mine",
    "mode": "test",
    "access": "write",
    "valid_for": "day",
    "type": "customer.created",
    "once": "1",
    "email": "new@example.com",
    "role": "viewer",
    "url": "https://example.com/hook",
    "phone": "+15005550007",
    "content": "I ask the doctor.",
    "at": "2030-05-07T09:08",
    "at_once": "3",
    "per_day": "4",
    "business_name": "Blue Clinic",
}
"""What every form takes."""


def text_without_id(shown: Shown) -> str:
    return re.sub(r"req_\w+", "req_…", shown.text)


def state(whole: Whole) -> object:
    """What the forms change: each change has an entry in the trail, and a few are looked at themselves."""
    story = whole.story
    with as_test():
        found = deliveries.of_event(Scope(story.project.id, False), story.event)
        people = members.of_project(story.project.id)
    return people, len(found), [(key.id, key.revoked_at) for key in keys_of(story.project.id)], trail(story.project.id)


def test_every_page_outside_of_projects_is_one_of_these() -> None:
    """A new one needs a test of its own about who may see it."""
    outside = {page.path for page, method in VIEWS if page.views[method].role is None}
    assert {page.path for page in PAGES if page.public} < outside
    assert outside == {
        "/admin",
        "/admin/",
        "/admin/account",
        "/admin/sign-in",
        "/admin/sign-in/start",
        "/admin/sign-in/callback",
        "/admin/sign-in/link",
        "/admin/sign-out",
    }


@pytest.mark.parametrize("role", members.ROLES)
def test_a_member_sees_what_the_role_allows_and_changes_nothing_else(stage: Stage, whole: Whole, role: str) -> None:
    browser = signed_in(stage, f"{role}@example.com", {whole.story.project.id: role})
    before = state(whole)
    for page, method in IN_PROJECT:
        needed, path = page.views[method].role, path_of(page, whole)
        assert needed is not None
        if members.ROLES.index(role) < members.ROLES.index(needed):
            shown = ask(browser, method, path, whole)
            assert shown.status == 403, (method, path)
            assert "You may not do this" in shown.text
        elif method == "GET":
            shown = ask(browser, method, path, whole)
            # The call has no recording.
            assert shown.status in ((404,) if "/recording" in path else (200, 303)), (path, shown.text)
    assert state(whole) == before


@pytest.mark.parametrize("page", [page for page, method in IN_PROJECT if method == "POST"], ids=lambda page: page.path)
def test_who_has_just_the_role_that_a_form_needs_can_use_it(stage: Stage, whole: Whole, page: AdminPage) -> None:
    needed = page.views["POST"].role
    assert needed is not None
    if (last := page.path.rpartition("/")[2]) in PREPARED:
        PREPARED[last](stage, whole)
    browser = signed_in(stage, f"{needed}@example.com", {whole.story.project.id: needed})
    before = state(whole)
    shown = ask(browser, "POST", path_of(page, whole), whole)
    # The response to an export is its file.
    assert shown.status in ((200,) if last == "export" else (201, 303)), shown.text
    assert state(whole) != before


def test_a_project_does_not_exist_for_others(stage: Stage, whole: Whole) -> None:
    other = stage.project("Red Clinic")
    browser = signed_in(stage, "stranger@example.com", {other.id: members.OWNER})
    before = state(whole)
    for page, method in IN_PROJECT:
        foreign = ask(browser, method, path_of(page, whole), whole)
        unknown = ask(browser, method, path_of(page, whole, 999_999_999), whole)
        assert foreign.status == unknown.status == 404, page.path
        assert text_without_id(foreign) == text_without_id(unknown)
        assert "Blue Clinic" not in foreign.text
    assert state(whole) == before


def test_an_id_of_another_project_does_not_exist_in_ones_own(stage: Stage, whole: Whole) -> None:
    other = stage.project("Red Clinic")
    browser = signed_in(stage, "owner@example.com", {other.id: members.OWNER})
    before = state(whole)
    for page, method in IN_PROJECT:
        if "{id}" not in page.path:
            continue
        path = path_of(page, whole, other.id)
        shown = ask(browser, method, path, whole)
        for headers in ({}, {"HX_Request": "true"}) if method == "GET" else ({},):
            shown = browser.get(path, **headers) if headers else ask(browser, method, path, whole)
            assert shown.status == 404, (method, path, headers)
            assert whole.story.delivery not in shown.text
    with as_test():
        [endpoint] = endpoints.of_project(Scope(whole.story.project.id, False))
    for form in ("replay", "stop"):
        path = f"/admin/projects/{other.id}/test/failed_deliveries/{form}"
        csrf = browser.get("/admin/account").field("csrf")
        assert browser.post(path, {"csrf": csrf, "endpoint": endpoint.doc["id"]}).status == 404
    assert browser.get(f"/admin/projects/{other.id}/test/failed_deliveries?endpoint={endpoint.doc['id']}").status == 400
    assert state(whole) == before


def test_nobody_sees_anything_before_signing_in(stage: Stage, whole: Whole) -> None:
    before = state(whole)
    for page, method in IN_PROJECT:
        for cookies in ({}, {SESSION: "made-up"}, {SESSION: ""}):
            shown = ask(Browser(stage, dict(cookies)), method, path_of(page, whole), whole)
            assert shown.status == 303, page.path
            assert shown.location.startswith("/admin/sign-in")
            assert shown.body == b""
    assert state(whole) == before


@pytest.mark.parametrize("path", ["/admin", "/admin/account"])
def test_the_pages_of_a_person_need_a_session(stage: Stage, path: str) -> None:
    assert Browser(stage).get(path).location.startswith("/admin/sign-in")
    assert Browser(stage).post("/admin/sign-out", {}).location == "/admin/sign-in"


def test_a_form_without_the_sessions_token_changes_nothing(stage: Stage, whole: Whole) -> None:
    story = whole.story
    browser = signed_in(stage, "owner@example.com", {story.project.id: members.OWNER})
    other = signed_in(stage, "other@example.com", {story.project.id: members.OWNER})
    token = other.get(f"{story.path}/api_keys").field("csrf")
    own = browser.get(f"{story.path}/api_keys").field("csrf")
    before = state(whole)
    for page in (page for page, method in VIEWS if method == "POST"):
        path = path_of(page, whole)
        form = form_of(whole, path)
        for refused in (
            browser.post(path, form),
            browser.post(path, form | {"csrf": token}),
            browser.post(path, form | {"csrf": own + "0"}),
            browser.post(path, form | {"csrf": own}, Sec_Fetch_Site="cross-site"),
            browser.post(path, form | {"csrf": own}, Sec_Fetch_Site="same-site"),
        ):
            assert refused.status == 403, path
            assert "out of date" in refused.text
    assert state(whole) == before
    assert browser.get(f"{story.path}/events").status == 200, "the session goes on"


def test_a_member_who_is_removed_loses_access_at_once(stage: Stage, story: Story) -> None:
    email = f"{uuid.uuid4().hex}@example.com"  # A member of nothing else: all tests of a process share the people.
    browser = signed_in(stage, email, {story.project.id: members.OWNER})
    assert browser.get(f"{story.path}/events").status == 200
    with as_test() as operator:
        transactions.commit(lambda: members.remove(story.project.id, email.upper(), operator, keep_an_owner=False))
    assert browser.get(f"{story.path}/events").status == 404
    assert "not a member of any project" in browser.get("/admin").text


def test_somebody_who_gets_the_address_of_a_member_is_not_the_member(stage: Stage, story: Story) -> None:
    signed_in(stage, "ada@example.com", {story.project.id: members.OWNER})
    successor = members.Identity("https://login.example.com", "another-subject", "ada@example.com")
    with as_test() as operator:
        members.join(successor.person, successor.email, operator)
        browser = Browser(stage, {SESSION: sign_in_sessions.begin(successor)})
    assert browser.get(f"{story.path}/events").status == 404


def test_a_member_who_is_bound_anew_is_whoever_signs_in_next_with_the_address(stage: Stage, story: Story) -> None:
    browser = signed_in(stage, "ada@example.com", {story.project.id: members.OWNER})
    assert browser.get(f"{story.path}/events").status == 200
    of_new_pool = members.Identity("https://new-pool.example.com", "another-subject", "ada@example.com")
    with as_test() as operator:
        rebound = transactions.commit(lambda: members.rebind(story.project.id, "ADA@example.com", operator))
        assert rebound.doc.joined_at is None
        assert members.is_invited("ada@example.com")
    assert browser.get(f"{story.path}/events").status == 404

    with as_test() as operator:
        members.join(of_new_pool.person, of_new_pool.email, operator)
        # The member has joined: to repeat the command is to bind the member once more.
        assert not members.is_invited("ada@example.com")
        anew = Browser(stage, {SESSION: sign_in_sessions.begin(of_new_pool)})
        (member,) = [one for one in members.of_project(story.project.id) if one.email == "ada@example.com"]
        entries, _ = audit.page(story.project.id)
    assert anew.get(f"{story.path}/events").status == 200
    assert browser.get(f"{story.path}/events").status == 404
    assert (member.role, bool(member.joined_at)) == (members.OWNER, True)
    assert [(one.action, one.target) for one in entries[:2]] == [
        ("member.joined", "ada@example.com"),
        ("member.rebound", "ada@example.com"),
    ]
    assert "Let a member sign in with a new identity" in anew.get(f"{story.path}/audit_trail").text


@pytest.mark.parametrize("mode", ["TEST", "other", "live%2F..%2Ftest"])
def test_there_are_two_modes(stage: Stage, story: Story, mode: str) -> None:
    browser = signed_in(stage, "owner@example.com", {story.project.id: members.OWNER})
    assert browser.get(f"/admin/projects/{story.project.id}/{mode}/events").status == 404


def test_a_method_that_a_page_does_not_have_is_refused(stage: Stage, story: Story) -> None:
    browser = signed_in(stage, "owner@example.com", {story.project.id: members.OWNER})
    for method in ("PUT", "DELETE", "POST", "PATCH"):
        refused = browser.send(method, f"{story.path}/events")
        assert refused.status == 405
        assert refused.headers["allow"] == ["GET, HEAD"]


def test_a_session_ends_when_it_is_idle_and_in_any_case_after_its_longest_time(
    stage: Stage, story: Story, stopped_clock: Clock
) -> None:
    browser = signed_in(stage, "owner@example.com", {story.project.id: members.OWNER})
    path = f"{story.path}/events"
    began = stopped_clock.now
    stopped_clock.forward(sign_in_sessions.IDLE_MS / clock.SECOND - 60)
    assert browser.get(path).status == 200
    stopped_clock.forward(sign_in_sessions.IDLE_MS / clock.SECOND - 60)
    assert browser.get(path).status == 200, "it was in use"
    # A page that only refreshes itself does not keep it alive.
    stopped_clock.forward(sign_in_sessions.IDLE_MS / clock.SECOND - 60)
    fragment = f"{story.path}/events/{story.event}/deliveries"
    assert browser.get(fragment, HX_Request="true").status == 200
    stopped_clock.forward(61)
    expired = browser.get(fragment, HX_Request="true")
    assert (expired.status, expired.headers["hx-refresh"]) == (401, ["true"])
    assert browser.get(path).status == 303

    again = signed_in(stage, "owner@example.com")
    began = stopped_clock.now
    while stopped_clock.now - began < (sign_in_sessions.ABSOLUTE_MS - sign_in_sessions.IDLE_MS) / clock.SECOND:
        stopped_clock.forward(3600)
        assert again.get(path).status == 200
    stopped_clock.forward(began + sign_in_sessions.ABSOLUTE_MS / clock.SECOND - stopped_clock.now + 1)
    assert again.get(path).status == 303


def test_signing_out_ends_the_session_itself_not_only_the_cookie(stage: Stage, story: Story) -> None:
    browser = signed_in(stage, "owner@example.com", {story.project.id: members.OWNER})
    stolen = Browser(stage, dict(browser.cookies))
    assert browser.submit("/admin/account", "/admin/sign-out").location == "/admin/sign-in"
    assert SESSION not in browser.cookies
    assert stolen.get(f"{story.path}/events").status == 303


def test_signing_out_everywhere_ends_all_sessions_of_the_person_and_of_nobody_else(stage: Stage, story: Story) -> None:
    first = signed_in(stage, "owner@example.com", {story.project.id: members.OWNER})
    second = signed_in(stage, "owner@example.com")
    other = signed_in(stage, "other@example.com", {story.project.id: members.VIEWER})
    time.sleep(0.002)  # sessions that begin in the same millisecond go on
    first.submit("/admin/account", "/admin/sign-out", everywhere="1")
    assert second.get(f"{story.path}/events").status == 303
    assert other.get(f"{story.path}/events").status == 200
    assert signed_in(stage, "owner@example.com").get(f"{story.path}/events").status == 200


OURS = {"Origin": "https://api.example.test", "Sec_Fetch_Site": "same-origin"}
"""What a browser says of a form of ours."""


@pytest.mark.parametrize(
    "says",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://api.example.test"},
        {"Origin": "https://api.example.test.evil.example"},
        OURS | {"Origin": "https://evil.example"},
        OURS | {"Sec_Fetch_Site": "cross-site"},
    ],
)
def test_a_form_of_another_origin_is_refused_and_not_kept(stage: Stage, whole: Whole, says: dict[str, str]) -> None:
    browser = signed_in(stage, "owner@example.com", {whole.story.project.id: members.OWNER})
    before, path = state(whole), f"{whole.story.path}/customers"
    form = {"csrf": browser.get(path + "/new").field("csrf"), "phone": "+15005550006", "name": "typed elsewhere"}
    refused = browser.post(path, form, **says)
    assert refused.status == 403
    signed_out = Browser(stage).post(path, form, **says)
    assert signed_out.location == "/admin/sign-in"
    assert "typed elsewhere" not in refused.text + signed_out.text
    assert state(whole) == before
    assert browser.post(path, form, **OURS).status == 303


def test_a_form_whose_session_has_ended_is_kept_until_it_is_sent_again(stage: Stage, whole: Whole) -> None:
    page = f"{whole.story.path}/customers/{whole.ids['customers']}"
    browser = signed_in(stage, "owner@example.com", {whole.story.project.id: members.OWNER})
    form = browser.get(f"{page}/edit").form(f"{page}/edit") | {"name": "Ada <b>\r\nLovelace"}
    browser.submit("/admin/account", "/admin/sign-out", everywhere="1")

    kept = browser.post(f"{page}/edit", form, **OURS)
    assert kept.status == 401
    assert "Ada <b> Lovelace" in kept.page.text
    assert "/dev/admin/sign-in" in [attributes.get("href") for _, attributes in kept.page.tags]
    assert "csrf" not in kept.form(f"{page}/edit")
    assert form["csrf"] not in kept.text
    again = browser.post(f"{page}/edit", kept.form(f"{page}/edit"), **OURS)
    assert (again.status, again.form(f"{page}/edit")) == (401, kept.form(f"{page}/edit")), "still nobody is signed in"

    browser = signed_in(stage, "owner@example.com")
    asked = browser.post(f"{page}/edit", kept.form(f"{page}/edit"), **OURS)
    assert asked.status == 403
    assert "owner@example.com" in asked.page.text
    assert browser.get(page).text.count("Lovelace") == 0
    assert browser.post(f"{page}/edit", asked.form(f"{page}/edit"), **OURS).status == 303
    assert "Ada <b> Lovelace" in browser.get(page).page.text


def test_a_person_who_signs_out_twice_is_asked_nothing(stage: Stage) -> None:
    assert Browser(stage).post("/admin/sign-out", {"csrf": "1"}, **OURS).location == "/admin/sign-in"
