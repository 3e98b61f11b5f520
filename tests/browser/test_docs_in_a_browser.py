"""The documentation as people read it: by mouse and keyboard, on a phone, in the dark, on paper, without scripts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from shared.docs.contents import PAGES
from tests.support.page_checks import VIEWS, complain, overhang, violations
from tests.support.site import PATIENCE, Site

expect.set_options(timeout=PATIENCE)
BROKEN = """() => [...document.querySelectorAll("td, th")].flatMap(cell => {
  const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  const broken = [];
  while (texts.nextNode()) {
    const words = texts.currentNode.parentElement.matches("code") ? /[^]+/g : /[^\\s/-]+/g;
    for (const word of texts.currentNode.data.matchAll(words)) {
      const range = document.createRange();
      range.setStart(texts.currentNode, word.index);
      range.setEnd(texts.currentNode, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map(one => one.top)).size > 1) broken.push(word[0]);
    }
  }
  return broken;
})"""
"""The words, and the code, of tables that are broken into lines."""
OTHERS = {"home": "/docs", "search": "/docs/search?q=consent", "missing": "/docs/nothing", "api": "/docs/api"}


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
        assert page.evaluate(BROKEN) == [], (name, view)
    page.goto(f"{site.service.base_url}/docs/api")
    unfold(page.locator("details"))
    assert violations(page) == [], view
    assert overhang(page) == 0, "the unfolded reference scrolls sideways"
    context.close()


def unfold(details: Locator) -> None:
    details.evaluate_all("found => found.forEach(one => { one.open = true; })")


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
    page.goto(f"{site.service.base_url}/docs/api#create_customer")
    operation = page.get_by_role("article", name="Create a customer")
    expect(operation.get_by_text("phone_invalid_format")).to_be_hidden()
    operation.get_by_text("Responses", exact=True).click()
    expect(operation.get_by_text("phone_invalid_format")).to_be_visible()
    expect(operation.get_by_text("Idempotent-Replayed")).to_be_hidden()
    operation.get_by_text("Headers of the responses").click()
    expect(operation.get_by_text("Idempotent-Replayed")).to_be_visible()
    expect(page.get_by_label("Filter", exact=True)).to_be_hidden()
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


def test_a_filter_of_the_reference_hides_headings_and_entries_of_the_menu(site: Site, reader: Page) -> None:
    reader.goto(f"{site.service.base_url}/docs/api")
    menu = reader.get_by_role("navigation", name="On this page")
    expect(menu.get_by_role("link", name="Call a customer")).to_be_visible()
    reader.get_by_label("Filter", exact=True).fill("customers create")
    expect(reader.get_by_role("article")).to_have_count(1)
    expect(reader.get_by_role("heading", level=2)).to_have_text("Customers")
    expect(menu.get_by_role("link")).to_have_text(["Customers", "Create a customer"])
    reader.get_by_label("Filter", exact=True).fill("zebra")
    expect(reader.get_by_text("Nothing here has all of these words.")).to_be_visible()
    expect(menu.get_by_role("link")).to_have_count(0)
    reader.get_by_label("Filter", exact=True).fill("")
    expect(menu.get_by_role("link", name="Call a customer")).to_be_visible()
    # The menu of the pages stays as it is.
    expect(reader.locator("#menu").get_by_role("link", name="Receivers")).to_be_visible()


def test_the_reference_sends_a_request(site: Site, reader: Page) -> None:
    # An address of the reference as it was before.
    reader.goto(f"{site.service.base_url}/docs/api#/Customers/create_customer")
    expect(reader).to_have_url(f"{site.service.base_url}/docs/api#create_customer")
    operation = reader.get_by_role("article", name="Create a customer")
    operation.get_by_text("Example", exact=True).click()
    operation.get_by_role("button", name="Send this request").click()
    operation.get_by_label("API key").fill(site.service.projects[0].test_key)
    operation.get_by_label("Body", exact=True).fill(json.dumps({"phone": "+15005550006", "name": "From the reference"}))
    operation.get_by_role("button", name="Send", exact=True).click()
    expect(operation.get_by_role("status")).to_contain_text("201 req_")
    id = re.findall(r"cust_\w{26}", operation.get_by_role("status").inner_text())[0]
    operation = reader.get_by_role("article", name="Retrieve a customer")
    operation.get_by_text("Example", exact=True).click()
    operation.get_by_role("button", name="Send this request").click()
    operation.get_by_label("id", exact=True).fill(id)
    operation.get_by_role("button", name="Send", exact=True).click()
    expect(operation.get_by_role("status")).to_contain_text("From the reference")
