"""The admin pages as people use them: with a mouse, a keyboard, a phone, in the dark, and without scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.support import receivers
from tests.support.page_checks import VIEWS, complain, duplicate_ids, overhang, violations
from tests.support.site import PATIENCE, Site

HOSTILE = "<img src=x onerror=alert(1)>\"'></bdi></code></script><script>alert(1)</script>{{7*7}}"
SMALLEST_TARGET = 24
"""The height in pixels that WCAG 2.2 asks of what is tapped."""
expect.set_options(timeout=PATIENCE)


@pytest.fixture
def owner(site: Site, chromium: Browser) -> Iterator[Page]:
    context = chromium.new_context(timezone_id="America/New_York", locale="en-US")
    site.sign_in(context)
    page = context.new_page()
    complain(page)
    yield page
    context.close()


def failed_event(site: Site, key: str, receiver: receivers.Receiver) -> str:
    """An event whose delivery the receiver refused for good; its id."""
    client = site.service.client(key)
    client.post("/v1/webhook_endpoints", {"url": receiver.url}).ok(201)
    customer = client.post(
        "/v1/customers", {"phone": "+15005550006", "name": HOSTILE, "metadata": {"<b>": HOSTILE}}
    ).ok(201)
    receiver.wait_for(1)
    (event,) = client.get(f"/v1/events?object_id={customer['id']}").ok()["data"]
    return str(event["id"])


def test_a_newcomer_creates_a_key_and_mends_a_receiver(site: Site, owner: Page) -> None:
    owner.goto(f"{site.service.base_url}/admin")
    owner.get_by_role("link", name="Demo", exact=True).click()
    expect(owner.get_by_role("heading", level=1)).to_contain_text("Today")
    owner.get_by_role("link", name="Problems").last.click()
    expect(owner.get_by_text("All is well")).to_be_visible()
    owner.get_by_role("link", name="Settings").click()
    owner.get_by_label("Label").fill("my backend")
    owner.get_by_role("button", name="Create key").click()
    key = owner.locator("#key").inner_text()
    assert re.fullmatch(r"sk_test_\w{32}", key)
    assert key in owner.locator("#curl").inner_text()
    owner.context.grant_permissions(["clipboard-read", "clipboard-write"])
    owner.get_by_role("button", name="Copy key").click()
    expect(owner.get_by_role("button", name="Copied")).to_be_visible()
    assert owner.evaluate("navigator.clipboard.readText()") == key
    assert site.service.client(key).get("/v1/ping").ok()["livemode"] is False

    refusing, taking = receivers.answer(400, HOSTILE.encode()), receivers.answer(200)
    with receivers.Receiver(refusing, taking) as receiver:
        event = failed_event(site, key, receiver)
        owner.get_by_role("link", name="Events").click()
        owner.get_by_role("link", name="customer.created").click()
        assert owner.url.endswith(event)
        expect(owner.locator(".badge.failed")).to_have_text("Failed")
        owner.get_by_text("Latest response body").click()
        expect(owner.locator("details pre")).to_have_text(HOSTILE)
        # From here on, the receiver works.
        owner.get_by_role("button", name="Replay").click()
        # The page looks again by itself, without being loaded again.
        expect(owner.locator(".badge.succeeded")).to_have_text("Delivered")
        assert len(receiver.requests) == 2

    mend_all(site, owner, key)
    owner.get_by_role("link", name="Settings").click()
    owner.locator("tr", has_text="my backend").get_by_role("link", name="Revoke").click()
    owner.get_by_role("button", name="Revoke key").click()
    expect(owner.get_by_role("status")).to_contain_text("was revoked")
    assert site.service.client(key).get("/v1/ping").status == 401
    owner.get_by_role("link", name="Audit trail").click()
    for said in ("Created an API key", "Replayed a delivery", "Started a replay", "Revoked an API key"):
        expect(owner.get_by_role("rowheader", name=said).first).to_be_visible()


def mend_all(site: Site, owner: Page, key: str) -> None:
    """Create an endpoint on the page, break its receiver, mend it, and replay all that has failed meanwhile."""
    behaviour = Changing(receivers.answer(400))
    with receivers.Receiver(behaviour) as receiver:
        owner.get_by_role("link", name="Webhooks").click()
        owner.get_by_role("link", name="Create endpoint").click()
        owner.get_by_label("URL").fill(receiver.url)
        owner.get_by_label("Label").fill("my receiver")
        owner.get_by_role("button", name="Create endpoint").click()
        assert owner.locator("#secret").inner_text().startswith("whsec_")
        owner.get_by_role("link", name="I have stored the secret").click()
        client = site.service.client(key)
        for _ in range(5):
            client.post("/v1/customers", {"phone": "+15005550006"}).ok(201)
        receiver.wait_for(5)
        owner.get_by_role("link", name="Problems").click()
        owner.get_by_role("link", name="to my receiver").click()
        expect(owner.locator("tbody tr")).to_have_count(5)
        behaviour.now = receivers.answer(200)
        owner.get_by_role("button", name="Replay all").click()
        # Another page in between: the replay goes on by itself.
        owner.get_by_role("link", name="Events", exact=True).click()
        owner.get_by_role("link", name="Failed deliveries").click()
        expect(owner.get_by_text("5 accepted, 0 failed again")).to_be_visible()
        # The list has gone with the progress, without the page being loaded again.
        expect(owner.get_by_role("heading", name="Failed for good")).to_have_count(0)
        receiver.wait_for(10)
        owner.get_by_role("link", name="Webhooks").click()
        owner.get_by_role("link", name="my receiver").click()
        owner.get_by_role("button", name="Send test event").click()
        expect(owner.locator(".badge.succeeded")).to_have_text("Delivered")


class Changing:
    """A receiver's behaviour that a test changes as it goes."""

    def __init__(self, now: receivers.Behaviour) -> None:
        self.now = now

    def __call__(self, exchange: receivers.Exchange) -> None:
        self.now(exchange)


def test_a_member_looks_after_a_customer(site: Site, owner: Page) -> None:
    owner.goto(site.path("customers"))
    owner.get_by_role("link", name="Create customer").click()
    owner.get_by_label("Phone", exact=True).fill("+15005550006")
    owner.get_by_label("Name", exact=True).fill(HOSTILE)
    owner.get_by_role("button", name="Create customer").click()
    expect(owner.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    owner.get_by_role("link", name="New appointment").click()
    owner.get_by_label("Time", exact=True).fill("2031-05-06T10:30")
    owner.get_by_label("Time zone").fill("Europe/Berlin")
    owner.get_by_label("Title").fill("Check-up")
    owner.get_by_role("button", name="Create appointment").click()
    owner.get_by_role("link", name="Check-up").first.click()
    owner.get_by_role("link", name="Call about it").click()
    owner.get_by_role("button", name="Call the customer").click()
    # The page looks again by itself, until it has the transcript and the recording.
    expect(owner.get_by_text("Completed")).to_be_visible()
    expect(owner.get_by_role("heading", name="Transcript")).to_be_visible()
    loaded = "new Promise((done, fail) => { one.onloadedmetadata = () => done(true); one.onerror = fail; one.load(); })"
    assert owner.locator("audio").evaluate(f"one => {loaded}"), "the player follows the link to the recording"
    call = owner.url.rpartition("/")[2].partition("?")[0]
    owner.get_by_label("Find a name, a phone number or an id").fill(call)
    owner.get_by_role("button", name="Find").click()
    expect(owner.get_by_role("heading", level=1)).to_have_text(f"Call to {HOSTILE}")


def test_a_receptionist_on_a_phone_looks_after_what_the_agent_does(
    site: Site, chromium: Browser, owner: Page, screenshots: Path
) -> None:
    owner.goto(site.path("members"))
    owner.get_by_label("E-mail address").fill("desk@example.com")
    owner.get_by_role("radio", name="Member").check()
    owner.get_by_role("button", name="Add member").click()
    client = site.service.client(site.service.projects[0].test_key)
    customer = client.post("/v1/customers", {"phone": "+12125550112", "name": "Ada Lovelace"}).ok(201)["id"]
    visit = {"customer_id": customer, "appointment_at": "2031-05-06T10:30:00Z", "title": "Check-up"}
    client.post("/v1/appointments", visit).ok(201)
    thread = {"external_conversation_id": "desk", "customer": {"id": customer}}
    client.post("/v1/messages", thread | {"content": "Let me talk to a human"}).ok(201)
    context = chromium.new_context(**VIEWS["phone"], has_touch=True)
    site.sign_in(context, "desk@example.com")
    page = context.new_page()
    complain(page)

    def assert_fits_phone(name: str) -> None:
        page.screenshot(path=screenshots / f"desk_{name}-phone.png", full_page=True)
        assert overhang(page) == 0, f"{name} scrolls sideways"

    # What the agent knows and may change.
    page.goto(site.path("").rstrip("/"))
    page.get_by_role("link", name="Settings").tap()
    page.get_by_role("link", name="Agent", exact=True).tap()
    page.get_by_label("Name of the business").fill("Blue Clinic")
    page.get_by_label("Phone of the business").fill("+4930123456")
    page.get_by_role("group", name="Opening hours").get_by_label("Monday").fill("09:00-12:30, 14:00-18:00")
    page.get_by_label("Questions and answers").fill("Do you have parking?\nYes, behind the house.")
    page.get_by_label("When a customer wants another time").select_option("within_hours")
    page.get_by_label("s question").fill("do you have parking?")
    page.get_by_role("button", name="Ask").tap()
    expect(page.get_by_role("status").get_by_text("Yes, behind the house.")).to_be_in_viewport()
    assert_fits_phone("preview")
    assert client.get("/v1/agent_settings").ok()["facts"] == []
    page.get_by_role("button", name="Save").tap()
    expect(page.get_by_role("status")).to_be_visible()
    assert_fits_phone("agent")
    told = client.get("/v1/agent_settings").ok()
    assert (told["business_name"], told["change_policy"]) == ("Blue Clinic", "within_hours")
    assert [entry["from"] for entry in told["opening_hours"]] == ["09:00", "14:00"]

    # Who waits for a person.
    page.get_by_role("link", name="Conversations", exact=True).tap()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Conversations")
    page.goto(site.path("conversations?status=waiting"))
    waiting = page.get_by_role("link", name="Ada Lovelace").or_(page.locator("tbody a")).first
    assert waiting.evaluate("link => link.getBoundingClientRect().height") >= SMALLEST_TARGET
    waiting.tap()
    expect(page.get_by_text("The customer waits for a person")).to_be_visible()
    assert_fits_phone("waits")
    page.get_by_label("Reply to the customer").fill("We call you at noon.")
    page.get_by_role("button", name="Send").tap()
    expect(page.get_by_text("We call you at noon.")).to_be_in_viewport()
    assert_fits_phone("conversation")
    page.get_by_role("button", name="Give back to the agent").tap()
    expect(page.get_by_text("The customer waits for a person")).to_have_count(0)

    # Whom a call reached, and who is not to be called.
    page.goto(site.path(f"customers/{customer}"))
    page.get_by_role("link", name="Call", exact=True).tap()
    page.get_by_role("button", name="Call the customer").tap()
    expect(page.get_by_text("Somebody else answered").first).to_be_visible()
    assert_fits_phone("call")
    page.goto(site.path(f"customers/{customer}"))
    page.get_by_role("button", name="Do not call again").tap()
    expect(page.get_by_text("the person does not want to be called")).to_be_visible()
    assert_fits_phone("opted_out")
    assert client.get(f"/v1/customers/{customer}").ok()["do_not_call"] is True
    page.get_by_role("button", name="May be called again").tap()
    expect(page.get_by_role("link", name="Call", exact=True)).to_be_visible()
    context.close()
    names = ("business_name", "business_phone", "opening_hours", "facts", "change_policy")
    client.patch("/v1/agent_settings", dict.fromkeys(names)).ok()


def test_an_owner_adds_a_viewer_who_can_change_nothing(site: Site, chromium: Browser, owner: Page) -> None:
    owner.goto(site.path("members"))
    owner.get_by_label("E-mail address").fill("viewer@example.com")
    owner.get_by_label("Viewer").check()
    owner.get_by_role("button", name="Add member").click()
    expect(owner.get_by_role("status")).to_contain_text("was added")
    context = chromium.new_context()
    site.sign_in(context, "viewer@example.com")
    page = context.new_page()
    page.goto(f"{site.service.base_url}/admin")
    assert page.url.endswith("/test"), "it is the person's only project"
    with receivers.Receiver(receivers.answer(400)) as receiver:
        event = failed_event(site, site.service.projects[0].test_key, receiver)
        sections = [path for path in TABS if path]
        for path in (*sections, f"events/{event}", *(f"{one}/{id}" for one, id in create_one_of_each(site).items())):
            page.goto(site.path(path))
            forms = page.locator("form[method=post]")
            assert [form.get_attribute("action") for form in forms.all()] == ["/admin/sign-out"], path
        expect(page.get_by_role("link", name="Revoke")).to_have_count(0)
    context.close()


TABS = (
    "",
    "attention",
    "waiting",
    "customers",
    "appointments",
    "sessions",
    "conversations",
    "events",
    "webhook_endpoints",
    "failed_deliveries",
    "api_keys",
    "members",
    "audit_trail",
    "usage",
    "call_limits",
    "agent_settings",
)
FORMS = {
    "customers": ("edit", "delete", "call", "new_appointment"),
    "appointments": ("move", "edit", "cancel"),
    "webhook_endpoints": ("edit", "rotate_secret", "delete"),
}


def create_one_of_each(site: Site) -> dict[str, str]:
    """A resource of every kind in the first project's test mode; their ids by the section of their pages."""
    client = site.service.client(site.service.projects[0].test_key)
    found = client.get("/v1/conversations?external_id=everything&status=active").ok()["data"]
    if found:
        customer = client.get(f"/v1/customers/{found[0]['customer_id']}").ok()
    else:
        person = {"phone": "+15005550006", "name": HOSTILE, "external_id": HOSTILE, "metadata": {"<b>": HOSTILE}}
        customer = client.post("/v1/customers", person).ok(201)
        visit = {"customer_id": customer["id"], "appointment_at": "2031-05-06T10:30:00Z", "title": HOSTILE}
        visit |= {"location": HOSTILE, "notes": HOSTILE, "timezone": "Europe/Berlin"}
        client.post("/v1/appointments", visit).ok(201)
        thread = {"external_conversation_id": "everything", "customer": {"id": customer["id"]}}
        client.post("/v1/messages", thread | {"content": HOSTILE}).ok(201)
        client.post("/v1/messages", thread | {"content": "[[sim:handoff]]"}).ok(201)
        client.post(f"/v1/customers/{customer['id']}/call", {"metadata": {"<b>": HOSTILE}}).ok(201)
        endpoint = {"url": "https://example.com/hook", "label": HOSTILE, "description": HOSTILE, "enabled": False}
        client.post("/v1/webhook_endpoints", endpoint).ok(201)
    mine = f"customer_id={customer['id']}"
    endpoints = client.get("/v1/webhook_endpoints").ok()["data"]
    return {
        "customers": customer["id"],
        "appointments": client.get(f"/v1/appointments?{mine}").ok()["data"][0]["id"],
        "sessions": client.get(f"/v1/sessions?{mine}").ok()["data"][0]["id"],
        "conversations": client.get(f"/v1/conversations?{mine}").ok()["data"][0]["id"],
        "webhook_endpoints": next(one["id"] for one in endpoints if one["label"] == HOSTILE),
    }


def pages_of(site: Site, page: Page) -> dict[str, str]:
    page.goto(site.path("api_keys"))
    key = page.locator("tbody tr").first.get_attribute("id")
    page.goto(site.path("events"))
    event = page.locator("tbody a").first.get_attribute("href")
    page.goto(site.path("members"))
    member = page.locator("tbody a").first.get_attribute("href")
    base = f"{site.service.base_url}/admin"
    ids = create_one_of_each(site)
    return {
        **{path or "today": site.path(path).rstrip("/") for path in TABS},
        **{f"one_of_{section}": site.path(f"{section}/{id}") for section, id in ids.items()},
        **{
            f"{section}_{form}": site.path(f"{section}/{ids[section]}/{form}")
            for section, forms in FORMS.items()
            for form in forms
        },
        "new_appointment": site.path("appointments/new?customer=%2B15005550006&at=2031-05-06T09:00"),
        "new_customer": site.path("customers/new"),
        "new_endpoint": site.path("webhook_endpoints/new"),
        "day": site.path("?date=2031-05-06").replace("/?", "?"),
        "week": site.path("?date=2031-05-06&view=week").replace("/?", "?"),
        "conversations_waiting": site.path("conversations?status=waiting"),
        "projects": base,
        "account": f"{base}/account",
        "revoke": site.path(f"api_keys/{key}/revoke"),
        "event": f"{site.service.base_url}{event}",
        "live": site.path("events", "live"),
        "live_today": site.path("", "live").rstrip("/"),
        "member": f"{site.service.base_url}{member}",
        "nothing": site.path("find?q=nothing"),
        "found": site.path("find?q=img"),
        "missing": f"{base}/missing",
        "sign_in": f"{base}/sign-in",
    }


@pytest.mark.parametrize("view", VIEWS)
def test_every_page_is_accessible_and_fits(
    site: Site, chromium: Browser, owner: Page, screenshots: Path, view: str
) -> None:
    with receivers.Receiver(receivers.answer(500, HOSTILE.encode())) as receiver:
        failed_event(site, site.service.projects[0].test_key, receiver)
        # axe is not one of ours, so the pages' policy would block it.
        context: BrowserContext = chromium.new_context(
            **VIEWS[view], storage_state=owner.context.storage_state(), bypass_csp=True
        )
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        complain(page)
        for name, url in pages_of(site, owner).items():
            page.goto(url)
            page.screenshot(path=screenshots / f"{name}-{view}.png", full_page=True)
            assert violations(page) == [], (name, view)
            assert overhang(page) == 0, f"{name} scrolls sideways"
            assert duplicate_ids(page) == [], name
        context.close()


def test_the_pages_work_without_scripts(site: Site, chromium: Browser) -> None:
    context = chromium.new_context(java_script_enabled=False)
    site.sign_in(context)
    page = context.new_page()
    page.goto(site.path("api_keys"))
    page.get_by_label("Label").fill("no scripts")
    page.get_by_role("button", name="Create key").click()
    assert page.locator("#key").inner_text().startswith("sk_test_")
    assert page.get_by_role("button", name="Copy").count() == 0
    page.get_by_role("link", name="I have stored the key").click()
    expect(page.get_by_role("rowheader", name="no scripts")).to_be_visible()
    expect(page.get_by_text("Times are in UTC.")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    assert page.url.endswith("/admin/sign-in")
    context.close()


@pytest.mark.parametrize("scripts", [True, False])
def test_a_phone_has_the_menu_in_one_line_with_the_tab_of_the_page(
    site: Site, chromium: Browser, owner: Page, scripts: bool
) -> None:
    context = chromium.new_context(
        java_script_enabled=scripts, storage_state=owner.context.storage_state(), **VIEWS["phone"]
    )
    page = context.new_page()
    height = VIEWS["phone"]["viewport"]["height"]
    for path in ("", "customers", "conversations", "failed_deliveries", "audit_trail"):
        page.goto(site.path(path).rstrip("/"))
        tabs = page.get_by_role("navigation", name="Pages")
        box = page.locator(".bar > .container").bounding_box()
        assert box
        assert box["height"] < height / 3
        # Whole, however many tabs are before it.
        expect(tabs.locator("a[aria-current]")).to_be_in_viewport(ratio=0.95)
        last = tabs.get_by_role("link", name="Settings")
        last.scroll_into_view_if_needed()
        expect(last).to_be_in_viewport(ratio=0.95)
    page.get_by_role("link", name="Waiting").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Conversations that wait")
    context.close()


def test_the_pages_work_by_keyboard(site: Site, owner: Page) -> None:
    owner.goto(site.path("api_keys"))
    owner.keyboard.press("Tab")
    assert owner.evaluate("document.activeElement.textContent") == "Skip to content"
    owner.keyboard.press("Enter")
    assert owner.evaluate("document.activeElement.tagName") == "MAIN"
    reached = set()
    for _ in range(40):
        owner.keyboard.press("Tab")
        reached.add(owner.evaluate("document.activeElement.id || document.activeElement.name"))
        if owner.evaluate("document.activeElement.textContent") == "Create key":
            break
    else:
        raise AssertionError("the button is not reached")
    assert {"label", "mode"} <= reached


def test_only_buttons_have_the_role_of_a_button(site: Site, owner: Page) -> None:
    for url in pages_of(site, owner).values():
        owner.goto(url)
        expect(owner.locator("a[role=button]")).to_have_count(0)


def test_after_a_refused_form_the_focus_is_on_what_is_wrong(site: Site, owner: Page) -> None:
    owner.goto(site.path("customers/new"))
    owner.get_by_label("Phone", exact=True).fill("0170 1234567")
    owner.get_by_role("button", name="Create customer").click()
    alert = owner.get_by_role("alert")
    expect(alert).to_contain_text("+49 170 1234567")
    expect(alert).to_be_focused()
    owner.keyboard.press("Tab")
    expect(owner.get_by_label("Phone", exact=True)).to_be_focused()


@pytest.mark.parametrize("scripts", [True, False])
def test_a_form_keeps_what_others_change_and_survives_the_end_of_the_session(
    site: Site, chromium: Browser, screenshots: Path, scripts: bool
) -> None:
    context = chromium.new_context(java_script_enabled=scripts, **VIEWS["phone"])
    site.sign_in(context)
    page, id = context.new_page(), create_one_of_each(site)["appointments"]
    client = site.service.client(site.service.projects[0].test_key)
    appointment = f"/v1/appointments/{id}"
    page.goto(site.path(f"appointments/{id}/edit"))
    # Nothing that nobody has touched counts as typed, whatever the browser does to it.
    before = client.get(appointment).ok()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status")).to_contain_text("was changed")
    assert client.get(appointment).ok() == before

    page.goto(site.path(f"appointments/{id}/edit"))
    client.patch(appointment, {"location": "Room 4", "notes": "theirs\nnow"}).ok()
    typed = f"mine, scripts: {scripts}"
    page.get_by_label("Notes").fill(typed)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("Somebody else has changed")
    page.screenshot(path=screenshots / f"changed_meanwhile-{scripts}.png", full_page=True)
    expect(page.get_by_text("now: theirs")).to_be_visible()
    assert client.get(appointment).ok()["notes"] == "theirs\nnow"

    context.clear_cookies()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Your session has ended")).to_be_visible()
    expect(page.get_by_text(typed, exact=True)).to_be_visible()
    page.screenshot(path=screenshots / f"session_ended-{scripts}.png", full_page=True)
    with context.expect_page() as tab:
        page.get_by_role("link", name="sign in").click()
    expect(tab.value.get_by_role("heading", level=1)).to_have_text("Sign in")
    site.sign_in(context)
    page.get_by_role("button", name="Send again").click()
    expect(page.get_by_text("You are signed in as")).to_be_visible()
    page.get_by_role("button", name="Send again").click()
    expect(page.get_by_role("status")).to_contain_text("was changed")
    saved = client.get(appointment).ok()
    assert (saved["notes"], saved["location"]) == (typed, "Room 4")
    context.close()


def test_what_fails_now_is_sent_at_once(site: Site, owner: Page, screenshots: Path) -> None:
    behaviour = Changing(receivers.answer(500))
    with receivers.Receiver(behaviour) as receiver:
        event = failed_event(site, site.service.projects[0].test_key, receiver)
        owner.set_viewport_size(VIEWS["phone"]["viewport"])
        # The waits before the first retries are short here.
        receiver.wait_for(3)
        owner.goto(site.path("failed_deliveries"))
        owner.screenshot(path=screenshots / "failing_now.png", full_page=True)
        expect(owner.get_by_text("All is well")).to_have_count(0)
        behaviour.now = receivers.answer(200)
        owner.locator("tr", has_text=event).filter(has_text=receiver.url).get_by_role("button", name="Send now").click()
        expect(owner.get_by_role("status")).to_contain_text("is being sent now")
        expect(owner.locator(".delivery", has_text=receiver.url).locator(".badge")).to_have_text("Delivered")


def test_paper_has_what_the_page_says_and_nothing_to_press(site: Site, owner: Page) -> None:
    with receivers.Receiver(receivers.answer(400, HOSTILE.encode())) as receiver:
        event = failed_event(site, site.service.projects[0].test_key, receiver)
    owner.goto(site.path(f"events/{event}"))
    owner.emulate_media(media="print")
    expect(owner.locator(".delivery").first).to_be_visible()
    for gone in ("button", ".bar > .container", "summary", "footer"):
        assert not [one for one in owner.locator(gone).all() if one.is_visible()], gone
    opened = "one => { one.open = true; return one.querySelector('pre').checkVisibility(); }"
    assert owner.locator("details").first.evaluate(opened), "what was opened is printed"


def test_the_focus_can_be_seen(site: Site, owner: Page) -> None:
    owner.goto(site.path("events"))
    owner.locator("#find").focus()
    owner.keyboard.press("Tab")
    ring = owner.evaluate(
        "() => { const one = getComputedStyle(document.activeElement);"
        " return [document.activeElement.textContent, one.outlineStyle, one.outlineWidth, one.outlineColor]; }"
    )
    # 5.2 to 1 on white.
    assert ring == ["Find", "solid", "2px", "rgb(1, 114, 173)"]


def test_times_are_in_the_projects_zone_with_utc_on_hover(site: Site, owner: Page) -> None:
    client = site.service.client(site.service.projects[0].test_key)
    client.patch("/v1/agent_settings", {"timezone": "Asia/Kolkata"}).ok()
    owner.goto(site.path("api_keys"))
    expect(owner.get_by_text("Times are in Asia/Kolkata.")).to_be_visible()
    time = owner.locator("time").first
    moment = datetime.fromisoformat(time.get_attribute("datetime") or "")
    local = moment.astimezone(ZoneInfo("Asia/Kolkata"))
    assert time.inner_text() == f"{local:%a} {local.day} {local:%b %Y, %H:%M}", "whatever the browser's zone is"
    assert time.get_attribute("title") == f"{moment:%Y-%m-%d %H:%M:%S} UTC"
    client.patch("/v1/agent_settings", {"timezone": None}).ok()


def test_the_day_of_a_desk_is_seen_left_and_printed(site: Site, owner: Page, screenshots: Path) -> None:
    client = site.service.client(site.service.projects[0].test_key)
    for name, at in (("Grace Hopper", "09:00"), ("Mary Jackson", "09:15"), ("Jean Bartik", "11:00")):
        customer = client.post("/v1/customers", {"phone": "+15005550006", "name": name}).ok(201)["id"]
        visit = {"customer_id": customer, "appointment_at": f"2032-03-03T{at}:00Z", "title": "Check-up"}
        client.post("/v1/appointments", visit).ok(201)
    owner.goto(site.path("").rstrip("/"))
    expect(owner.get_by_role("heading", level=1)).to_contain_text("Today")
    owner.get_by_label("Day to go to").fill("2032-03-03")
    owner.get_by_role("button", name="Go").click()
    expect(owner.get_by_role("heading", level=1)).to_have_text("Wed 3 Mar 2032 3 appointments")
    rows = owner.locator("tbody tr")
    expect(rows).to_have_count(4)
    expect(rows.nth(0)).to_contain_text("09:00-09:30")
    expect(rows.nth(0)).to_contain_text("Overlaps")
    expect(rows.nth(2)).to_contain_text("1 h 15 min")
    expect(rows.nth(3)).to_contain_text("Jean Bartik")
    owner.screenshot(path=screenshots / "desk_day.png", full_page=True)
    owner.get_by_role("link", name="Next day").click()
    expect(owner.get_by_role("heading", level=1)).to_have_text("Thu 4 Mar 2032")
    owner.get_by_role("link", name="Previous day").click()
    owner.get_by_role("link", name="Week").click()
    expect(owner.locator("section", has_text="Wed 3 Mar 2032").get_by_role("listitem")).to_have_count(3)
    owner.screenshot(path=screenshots / "desk_week.png", full_page=True)
    owner.set_viewport_size(VIEWS["phone"]["viewport"])
    owner.get_by_role("link", name="Wed 3 Mar 2032").click()
    assert overhang(owner) == 0
    owner.screenshot(path=screenshots / "desk_day-phone.png", full_page=True)
    owner.emulate_media(media="print")
    expect(owner.get_by_text("Times are in UTC.")).to_be_visible()
    expect(owner.get_by_text(re.compile(r"^Demo, printed \w{3} \d+ \w{3} \d{4}, \d\d:\d\d$"))).to_be_visible()
    expect(owner.get_by_role("link", name="Next day")).not_to_be_visible()
    owner.emulate_media(media="screen")
    owner.evaluate("window.print = () => { document.title = 'printed'; }")
    owner.get_by_role("button", name="Print").click()
    expect(owner).to_have_title("printed")
    owner.get_by_role("link", name="Today", exact=True).first.click()
    expect(owner.get_by_role("heading", level=1)).to_contain_text("Today")


def test_a_conversation_that_waits_appears_by_itself_and_is_taken_answered_and_given_back(
    site: Site, owner: Page, screenshots: Path
) -> None:
    client = site.service.client(site.service.projects[0].test_key)
    owner.goto(site.path("waiting"))
    customer = client.post("/v1/customers", {"phone": "+12125550113", "name": "Katherine Johnson"}).ok(201)["id"]
    thread = {"external_conversation_id": "katherine", "customer": {"id": customer}}
    client.post("/v1/messages", thread | {"content": "Let me talk to a human"}).ok(201)
    # The page looks again by itself, every ten seconds, and its title counts.
    row = owner.locator("tr", has_text="Katherine Johnson")
    expect(row).to_be_visible()
    expect(owner).to_have_title(re.compile(r"^\(\d+\) Waiting"))
    owner.screenshot(path=screenshots / "desk_queue.png", full_page=True)
    owner.set_viewport_size(VIEWS["phone"]["viewport"])
    assert overhang(owner) == 0
    owner.screenshot(path=screenshots / "desk_queue-phone.png", full_page=True)
    row.get_by_role("button", name="Take").click()
    expect(owner.get_by_role("status")).to_contain_text("You have taken")
    expect(owner.get_by_role("button", name="Let others take it")).to_be_visible()
    owner.get_by_label("Reply to the customer").fill("We call you at noon.")
    owner.get_by_role("button", name="Send").click()
    expect(owner.get_by_text("We call you at noon.")).to_be_visible()
    owner.screenshot(path=screenshots / "desk_taken-phone.png", full_page=True)
    owner.get_by_role("button", name="Give back to the agent").click()
    owner.get_by_role("link", name="Waiting").click()
    expect(owner.get_by_text("Katherine Johnson")).to_have_count(0)


def test_an_appointment_is_made_moved_and_canceled_from_the_day(site: Site, owner: Page, screenshots: Path) -> None:
    client = site.service.client(site.service.projects[0].test_key)
    client.post("/v1/customers", {"phone": "+12125550114", "name": "Dorothy Vaughan"}).ok(201)
    owner.set_viewport_size(VIEWS["phone"]["viewport"])
    owner.goto(site.path("?date=2033-03-03").replace("/?", "?"))
    owner.get_by_role("link", name="New appointment").click()
    owner.get_by_label("Phone, e-mail address or id in your system").fill("+1 212 555 0114")
    owner.get_by_role("main").get_by_role("button", name="Find").click()
    expect(owner.get_by_label("Time", exact=True)).to_have_value("2033-03-03T09:00")
    owner.get_by_label("Time", exact=True).fill("2020-03-03T09:00")
    owner.get_by_role("button", name="Create appointment").click()
    expect(owner.get_by_role("alert")).to_contain_text("in the past")
    owner.screenshot(path=screenshots / "desk_warned-phone.png", full_page=True)
    owner.get_by_label("Time", exact=True).fill("2033-03-03T09:00")
    owner.get_by_role("button", name="Create appointment").click()
    said = owner.get_by_role("status")
    expect(said).to_have_text("The appointment of Dorothy Vaughan was created: Thu 3 Mar 2033, 09:00.")
    owner.screenshot(path=screenshots / "desk_do-phone.png", full_page=True)
    assert overhang(owner) == 0
    owner.get_by_role("link", name="Move Dorothy Vaughan").click()
    owner.get_by_label("New date and time").fill("2033-03-04T09:00")
    owner.get_by_role("button", name="Show free times of this day").click()
    expect(owner.get_by_label("New date and time")).to_have_value("2033-03-04T09:00")
    owner.screenshot(path=screenshots / "desk_move-phone.png", full_page=True)
    # Enter in the field moves, too.
    owner.get_by_label("New date and time").press("Enter")
    expect(said).to_have_text("The appointment of Dorothy Vaughan was moved: Fri 4 Mar 2033, 09:00.")
    owner.get_by_role("link", name="Dorothy Vaughan").first.click()
    owner.get_by_role("link", name="Back to Fri 4 Mar 2033").click()
    owner.get_by_role("link", name="Cancel Dorothy Vaughan").click()
    expect(owner.get_by_text("Dorothy Vaughan")).to_be_visible()
    owner.get_by_role("button", name="Cancel appointment").click()
    expect(said).to_have_text("The appointment of Dorothy Vaughan was canceled: Fri 4 Mar 2033, 09:00.")
