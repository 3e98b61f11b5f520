"""The documentation as people read it: by mouse and keyboard, on a phone, in the dark, on paper, without scripts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from shared.docs.contents import PAGES
from tests.support.looking import VIEWS, complain, overhang, violations
from tests.support.site import PATIENCE, Site

expect.set_options(timeout=PATIENCE)
OTHERS = {"home": "/docs", "search": "/docs/search?q=consent", "missing": "/docs/nothing"}


@pytest.fixture
def reader(chromium: Browser) -> Iterator[Page]:
    context = chromium.new_context()
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    complain(page)
    yield page
    context.close()


@pytest.mark.parametrize("view", VIEWS)
def test_every_page_is_accessible_and_fits(site: Site, chromium: Browser, screenshots: Path, view: str) -> None:
    # axe is not one of ours, so the pages' policy would block it.
    context = chromium.new_context(**VIEWS[view], bypass_csp=True)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    complain(page)
    for name, path in (OTHERS | {name: page.path for name, page in PAGES.items()}).items():
        page.goto(site.service.base_url + path)
        page.screenshot(path=screenshots / f"docs-{name}-{view}.png", full_page=True)
        assert violations(page) == [], (name, view)
        assert overhang(page) == 0, f"{name} scrolls sideways"
    page.goto(f"{site.service.base_url}/docs/api")
    expect(page.locator(".opblock").first).to_be_visible()
    page.screenshot(path=screenshots / f"docs-api-{view}.png")
    # Swagger UI has a main landmark of its own, beside that of the page.
    assert [one for one in violations(page, outside="#reference") if one[0] != "landmark-no-duplicate-main"] == []
    assert overhang(page) == 0, "the reference scrolls sideways"
    context.close()


def test_one_choice_of_language_is_for_all_pages_and_copied_as_it_is_shown(site: Site, reader: Page) -> None:
    reader.context.grant_permissions(["clipboard-read", "clipboard-write"])
    reader.goto(f"{site.service.base_url}/docs/getting-started")
    assert reader.locator(".panel.curl:visible").count() > 3
    reader.locator("label", has_text="Python").first.click()
    assert reader.locator(".panel.curl:visible").count() == 0
    reader.goto(f"{site.service.base_url}/docs/calls")
    first = reader.locator(".panel.python:visible").first
    first.get_by_role("button", name="Copy").click()
    expect(first.get_by_role("button", name="Copied")).to_be_visible()
    assert reader.evaluate("navigator.clipboard.readText()") == first.locator("pre").inner_text()
    # An example without Python shows what it has.
    assert reader.locator(".panel.js:visible").count() == 0


def test_a_page_is_copied_as_markdown(site: Site, reader: Page) -> None:
    reader.context.grant_permissions(["clipboard-read", "clipboard-write"])
    reader.goto(f"{site.service.base_url}/docs/webhooks")
    reader.get_by_role("button", name="Copy as Markdown").click()
    expect(reader.get_by_role("button", name="Copied")).to_be_visible()
    assert reader.evaluate("navigator.clipboard.readText()").startswith("# Receive webhooks\n")


def test_the_pages_work_without_scripts(site: Site, chromium: Browser) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{site.service.base_url}/docs")
    page.get_by_role("link", name="Get started").click()
    group = page.locator("fieldset.tabs").first
    expect(group.locator(".panel.curl")).to_be_visible()
    group.get_by_text("JavaScript").click()
    expect(group.locator(".panel.js")).to_be_visible()
    expect(group.locator(".panel.curl")).to_be_hidden()
    assert page.get_by_role("button", name="Copy").count() == 0
    page.get_by_role("searchbox").fill("consent pending")
    page.get_by_role("button", name="Search").click()
    page.locator("ol.results a").first.click()
    assert "/docs/calls" in page.url
    page.goto(f"{site.service.base_url}/docs/api")
    expect(page.get_by_text("This page needs JavaScript")).to_be_visible()
    context.close()


def test_the_pages_work_by_keyboard(site: Site, reader: Page) -> None:
    reader.goto(f"{site.service.base_url}/docs/idempotency")
    reader.keyboard.press("Tab")
    assert reader.evaluate("document.activeElement.textContent") == "Skip to content"
    reader.keyboard.press("Enter")
    assert reader.evaluate("document.activeElement.id") == "content"
    for _ in range(30):
        reader.keyboard.press("Tab")
        if reader.evaluate("document.activeElement.value") == "curl":
            break
    else:
        raise AssertionError("the languages are not reached")
    reader.keyboard.press("ArrowRight")
    assert reader.evaluate("document.activeElement.value") == "python"
    expect(reader.locator("fieldset.tabs").first.locator(".panel.python")).to_be_visible()


def test_a_slash_leads_to_the_search_unless_the_reader_writes(site: Site, reader: Page) -> None:
    reader.goto(f"{site.service.base_url}/docs/webhooks")
    reader.keyboard.press("/")
    reader.keyboard.type("a/b")
    expect(reader.get_by_role("searchbox")).to_have_value("a/b")
    reader.get_by_role("searchbox").fill("human handof")
    reader.keyboard.press("Enter")
    reader.locator("ol.results a").first.click()
    expect(reader).to_have_url(f"{site.service.base_url}/docs/conversations#handoff")


def test_the_menu_is_below_the_text_on_a_phone(site: Site, chromium: Browser) -> None:
    context = chromium.new_context(**VIEWS["phone"])
    page = context.new_page()
    page.goto(f"{site.service.base_url}/docs/errors")
    page.get_by_role("link", name="Menu").click()
    expect(page.get_by_role("link", name="Rate limits").last).to_be_in_viewport()
    # In one step, because the page is still scrolling.
    overlap = page.evaluate(
        "document.querySelector('main').getBoundingClientRect().bottom"
        " - document.querySelector('#menu').getBoundingClientRect().top"
    )
    assert overlap <= 0
    context.close()


def test_paper_has_every_language_and_no_menu(site: Site, reader: Page) -> None:
    reader.goto(f"{site.service.base_url}/docs/webhooks")
    reader.emulate_media(media="print")
    group = reader.locator("fieldset.tabs").first
    for language in ("curl", "python", "js"):
        expect(group.locator(f".panel.{language}")).to_be_visible()
    expect(reader.locator("#menu")).to_be_hidden()


def test_the_reference_finds_an_operation_and_sends_it(site: Site, reader: Page) -> None:
    reader.goto(f"{site.service.base_url}/docs/api")
    reader.get_by_placeholder("Filter").fill("create a customer")
    # Webhooks are not filtered, because nobody can send them.
    operation = reader.locator(".opblock-tag-section .opblock-post")
    expect(operation).to_have_count(1)
    reader.get_by_role("button", name="Authorize").click()
    reader.locator(".auth-container input").fill(site.service.projects[0].test_key)
    reader.locator(".auth-btn-wrapper button[type=submit]").click()
    reader.locator(".btn-done").click()
    operation.locator(".opblock-summary-control").click()
    operation.get_by_role("button", name="Try it out").click()
    operation.locator("textarea.body-param__text").fill(
        json.dumps({"phone": "+15005550006", "name": "From the reference"})
    )
    operation.get_by_role("button", name="Execute").click()
    expect(operation.locator(".live-responses-table .response-col_status").last).to_contain_text("201")
    customers = site.service.client(site.service.projects[0].test_key).get("/v1/customers?limit=1").ok()["data"]
    assert customers[0]["name"] == "From the reference"
