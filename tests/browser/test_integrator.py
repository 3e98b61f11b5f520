"""The admin pages for who connects a system: keys and the audit trail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.support.looking import VIEWS, complain, doubled_ids, overhang, violations
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
        page.emulate_media(color_scheme=options["color_scheme"])
        page.set_viewport_size(options["viewport"])
        page.screenshot(path=screenshots / f"{name}-{view}.png", full_page=True)
        assert violations(page) == [], (name, view)
        assert overhang(page) == 0, f"{name} scrolls sideways"
        assert doubled_ids(page) == [], name
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
