"""The admin pages for who connects a system: keys, the audit trail, and deliveries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.support import receivers
from tests.support.page_checks import VIEWS, complain, duplicate_ids, overhang, violations
from tests.support.site import PATIENCE, Site


@pytest.fixture
def context(site: Site, chromium: Browser) -> Iterator[BrowserContext]:
    """The browser of an owner; axe is not one of ours, so the pages' policy is bypassed."""
    expect.set_options(timeout=PATIENCE)
    made = chromium.new_context(bypass_csp=True)
    site.sign_in(made)
    yield made
    made.close()


def look(page: Page, name: str, screenshots: Path) -> None:
    """The page as it is, at the width of a desk and of a phone, in the light and in the dark."""
    for view, options in VIEWS.items():
        # Without transitions: in the middle of one, the colors have too little contrast.
        page.emulate_media(color_scheme=options["color_scheme"], reduced_motion="reduce")
        page.set_viewport_size(options["viewport"])
        page.screenshot(path=screenshots / f"{name}-{view}.png", full_page=True)
        assert violations(page) == [], (name, view)
        assert overhang(page) == 0, f"{name} scrolls sideways"
        assert duplicate_ids(page) == [], name
    page.set_viewport_size(VIEWS["light"]["viewport"])


def test_a_key_is_created_with_terms_rotated_and_found_in_the_trail(
    site: Site, context: BrowserContext, screenshots: Path
) -> None:
    page = context.new_page()
    complain(page)
    page.goto(site.path("api_keys"))
    page.get_by_label("Label").fill("reports")
    page.get_by_label("Read-only").check()
    page.get_by_label("Expires at the end of").fill("2040-01-31")
    page.get_by_role("button", name="Create key").click()
    key = page.locator("#key").inner_text()
    assert site.service.client(key).get("/v1/ping").ok()["livemode"] is False
    assert site.service.client(key).post("/v1/customers", {"phone": "+15005550006"}).status == 403
    page.get_by_role("link", name="I have stored the key").click()
    row = page.get_by_role("row", name="reports")
    expect(row).to_contain_text("Read-only")
    expect(row).to_contain_text("Expires Wed 1 Feb 2040, 00:00")
    look(page, "keys", screenshots)
    row.get_by_role("link", name="Rotate").click()
    look(page, "key_rotate", screenshots)
    page.get_by_label("This key stays valid for").select_option("7 days")
    page.get_by_role("button", name="Rotate key").click()
    assert page.locator("#key").inner_text() != key
    expect(page.get_by_text("Last used:")).to_be_visible()
    look(page, "key_rotated", screenshots)
    page.goto(site.path("audit_trail"))
    page.get_by_label("What", exact=True).select_option("API key")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_role("rowheader", name="Rotated an API key").first).to_be_visible()
    look(page, "audit_trail_of_keys", screenshots)
    with page.expect_download() as download:
        page.get_by_role("button", name="Export as CSV").click()
    assert download.value.suggested_filename == "audit-trail.csv"
    page.get_by_role("link", name="reports").first.click()
    assert "/api_keys#key_" in page.url


def test_an_endpoint_gets_the_events_that_are_checked_and_sends_chosen_ones_again(
    site: Site, context: BrowserContext, screenshots: Path
) -> None:
    page = context.new_page()
    complain(page)
    with receivers.Receiver(receivers.answer(400), receivers.answer(200)) as receiver:
        page.goto(site.path("webhook_endpoints/new"))
        page.get_by_label("URL").fill(receiver.url)
        page.get_by_label("Label").fill("checked")
        page.get_by_label("customer.*").check()
        page.get_by_label("session.completed").check()
        look(page, "endpoint_boxes", screenshots)
        page.get_by_role("button", name="Create endpoint").click()
        # A click returns before the form is sent.
        expect(page.get_by_text("whsec_").first).to_be_visible()
        client = site.service.client(site.service.projects[0].test_key)
        [endpoint] = [one for one in client.get("/v1/webhook_endpoints").ok()["data"] if one["label"] == "checked"]
        assert endpoint["event_filters"] == ["customer.*", "session.completed"]
        for number in range(3):
            client.post("/v1/customers", {"phone": f"+1500555000{number}"}).ok(201)
        receiver.wait_for(3)
        page.goto(site.path(f"webhook_endpoints/{endpoint['id']}"))
        page.get_by_label("Type of the test event").select_option("session.no_answer")
        page.get_by_role("button", name="Send test event").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("session.no_answer")
        receiver.wait_for(4)
        page.goto(site.path(f"webhook_endpoints/{endpoint['id']}"))
        expect(page.get_by_role("img", name="Attempts, failures and duration")).to_be_visible()
        page.get_by_text("The numbers as a table").click()
        expect(page.get_by_role("columnheader", name="Median duration")).to_be_visible()
        look(page, "endpoint_chart", screenshots)
        page.get_by_role("link", name="All deliveries").click()
        page.get_by_label("Event type").select_option("customer.created")
        page.get_by_role("button", name="Filter").click()
        boxes = page.get_by_role("checkbox")
        expect(boxes).to_have_count(3)
        look(page, "delivery_log", screenshots)
        boxes.nth(0).check()
        boxes.nth(2).check()
        page.get_by_role("button", name="Replay the chosen ones").click()
        expect(page.get_by_role("status")).to_contain_text("are being sent again")
        receiver.wait_for(6)
        look(page, "delivery_log_replayed", screenshots)
    site.service.client(site.service.projects[0].test_key).delete(f"/v1/webhook_endpoints/{endpoint['id']}").ok()


def test_a_request_is_found_by_its_id_with_its_error(site: Site, context: BrowserContext, screenshots: Path) -> None:
    page = context.new_page()
    complain(page)
    client = site.service.client(site.service.projects[0].test_key)
    client.get("/v1/ping").ok()
    refused = client.post("/v1/customers", {"no_such_field": "private"})
    assert refused.status == 400
    # The line of a request becomes a row after the response.
    for _ in range(PATIENCE // 500):
        page.goto(site.path(f"find?q={refused.request_id}"))
        if "requests" in page.url:
            break
        page.wait_for_timeout(500)
    expect(page.get_by_role("rowheader", name="POST /v1/customers")).to_be_visible()
    expect(page.get_by_role("link", name="parameter_unknown")).to_be_visible()
    page.get_by_role("link", name="Clear").click()
    page.get_by_label("Status").select_option("2xx")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_role("rowheader", name="GET /v1/ping").first).to_be_visible()
    expect(page.get_by_role("link", name="parameter_unknown")).to_have_count(0)
    page.get_by_label("Status").select_option("")
    page.get_by_role("button", name="Filter").click()
    look(page, "requests", screenshots)
    assert "private" not in page.content()


def test_who_connects_a_system_needs_no_scripts(site: Site, chromium: Browser) -> None:
    expect.set_options(timeout=PATIENCE)
    context = chromium.new_context(java_script_enabled=False)
    site.sign_in(context)
    page = context.new_page()
    client = site.service.client(site.service.projects[0].test_key)
    with receivers.Receiver(receivers.answer(200)) as receiver:
        body = {"url": receiver.url, "label": "no scripts", "event_filters": ["customer.*"]}
        endpoint = client.post("/v1/webhook_endpoints", body).ok(201)
        created = client.post("/v1/customers", {"phone": "+15005550001"})
        assert created.status == 201
        receiver.wait_for(1)
        page.goto(site.path(f"webhook_endpoints/{endpoint['id']}"))
        expect(page.get_by_role("img", name="Attempts, failures and duration")).to_be_visible()
        page.get_by_role("link", name="All deliveries").click()
        page.get_by_label("Status").select_option("Delivered")
        page.get_by_role("button", name="Filter").click()
        page.get_by_role("checkbox").first.check()
        page.get_by_role("button", name="Replay the chosen ones").click()
        expect(page.get_by_role("status")).to_contain_text("are being sent again")
        receiver.wait_for(2)
        page.get_by_role("link", name="customer.created").last.click()
        # The line of a request becomes a row after the response.
        link = page.get_by_role("link", name="POST /v1/customers, 201")
        for _ in range(PATIENCE // 500):
            if link.count():
                break
            page.wait_for_timeout(500)
            page.reload()
        link.first.click()
        expect(page.get_by_text(created.request_id)).to_be_visible()
    client.delete(f"/v1/webhook_endpoints/{endpoint['id']}").ok()
    page.goto(site.path("audit_trail"))
    page.get_by_label("What", exact=True).select_option("Delivery")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_role("rowheader", name="Replayed a delivery").first).to_be_visible()
    context.close()
