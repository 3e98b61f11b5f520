"""A desk's morning in a browser: people are found while somebody types, and by Enter without scripts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.given import unique
from tests.support.looking import VIEWS, complain, doubled_ids, overhang, violations
from tests.support.site import PATIENCE, Site

expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def people(site: Site) -> dict[str, str]:
    """The ids of three customers by their names, whose last word is the test's own; one has an appointment."""
    client, mark = site.service.client(site.service.projects[0].test_key), unique("Quist")
    names = (f"Zoë Ångström {mark}", f"Maria {mark}", f"Mark {mark}")
    found = {
        name: str(client.post("/v1/customers", {"phone": "+12125550166", "name": name}).ok(201)["id"]) for name in names
    }
    visit = {"customer_id": found[names[0]], "appointment_at": "2031-05-06T10:30:00Z", "title": f"Fitting {mark}"}
    client.post("/v1/appointments", visit).ok(201)
    return found


@pytest.fixture(params=VIEWS)
def desk(site: Site, chromium: Browser, request: pytest.FixtureRequest) -> Iterator[tuple[Page, str]]:
    # axe is not one of ours, so the pages' policy would block it.
    context = chromium.new_context(**VIEWS[request.param], bypass_csp=True)
    site.sign_in(context)
    page = context.new_page()
    complain(page)
    yield page, request.param
    context.close()


def looks_well(page: Page, screenshot: Path) -> None:
    page.screenshot(path=screenshot, full_page=True)
    assert violations(page) == []
    assert overhang(page) == 0
    assert doubled_ids(page) == []


def test_people_are_found_while_somebody_types(
    site: Site, desk: tuple[Page, str], people: dict[str, str], screenshots: Path
) -> None:
    page, view = desk
    name = next(iter(people))
    mark = name.split()[-1]
    page.goto(site.path("customers"))
    box = page.get_by_role("searchbox")
    box.press_sequentially(f"{mark[:-1].upper()} m")
    found = page.locator("#found")
    expect(found.get_by_text("2 found")).to_be_visible()
    box.fill(mark)
    expect(found.get_by_text("4 found")).to_be_visible()
    looks_well(page, screenshots / f"finding-{view}.png")
    box.fill("")
    expect(found.get_by_role("link")).to_have_count(0)
    box.fill(f"angs {mark} zoe")
    expect(found.get_by_text("1 found")).to_be_visible()
    # The result follows the box and its button.
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    box.fill(mark)
    box.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Found for {mark}")
    looks_well(page, screenshots / f"found-{view}.png")


def test_people_are_found_by_enter_without_scripts(site: Site, chromium: Browser, people: dict[str, str]) -> None:
    context = chromium.new_context(java_script_enabled=False)
    site.sign_in(context)
    page = context.new_page()
    name = next(iter(people))
    page.goto(site.path("").rstrip("/"))
    page.get_by_role("searchbox").fill(f"ang {name.split()[-1]}")
    page.get_by_role("searchbox").press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    context.close()
