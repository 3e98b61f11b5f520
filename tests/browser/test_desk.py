"""A desk's morning in a browser: people are found, what happened with them is shown and exported; they are called."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from functions.admin import lists, timeline
from tests.support.client_actions import unique
from tests.support.page_checks import VIEWS, complain, duplicate_ids, overhang, violations
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


def assert_looks_well(page: Page, screenshot: Path) -> None:
    page.screenshot(path=screenshot, full_page=True)
    assert violations(page) == []
    assert overhang(page) == 0
    assert duplicate_ids(page) == []


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
    assert_looks_well(page, screenshots / f"finding-{view}.png")
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
    assert_looks_well(page, screenshots / f"found-{view}.png")


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


def test_what_happened_with_a_customer_is_read_and_exported(
    site: Site, desk: tuple[Page, str], screenshots: Path
) -> None:
    page, view = desk
    client = site.service.client(site.service.projects[0].test_key)
    name = unique("Timeline")
    customer = client.post("/v1/customers", {"phone": "+15005550006", "name": name}).ok(201)["id"]
    visit = {"customer_id": customer, "appointment_at": "2031-05-06T10:30:00Z", "title": "=Fitting"}
    appointment = client.post("/v1/appointments", visit).ok(201)["id"]
    thread = {"external_conversation_id": name, "customer": {"id": customer}}
    client.post("/v1/messages", thread | {"content": "When do I come?"}).ok(201)
    client.post(f"/v1/customers/{customer}/call", {"appointment_id": appointment}).ok(201)
    for number in range(timeline.SHOWN):
        client.post("/v1/appointments", visit | {"title": f"Visit {number}"}).ok(201)
    page.goto(site.path(f"customers/{customer}"))
    entries = page.get_by_role("list", name="Timeline, newest first").get_by_role("listitem")
    expect(entries.first).to_contain_text(f"Visit {timeline.SHOWN - 1}")
    assert_looks_well(page, screenshots / f"timeline-{view}.png")
    page.get_by_role("link", name="Earlier").click()
    for text in ("Call to +15005550006", "When do I come?", "=Fitting", "Customer created"):
        expect(entries.filter(has_text=text).first).to_be_visible()
    assert_looks_well(page, screenshots / f"timeline-earlier-{view}.png")
    with page.expect_download() as download:
        page.get_by_role("button", name="Export all that is kept").click()
    assert download.value.suggested_filename == f"{customer}.json"
    kept = json.loads(download.value.path().read_text())
    assert [one["name"] for one in kept["customers"]] == [name]
    page.get_by_role("main").get_by_role("link", name="appointments", exact=True).click()
    assert_looks_well(page, screenshots / f"export-{view}.png")
    with page.expect_download() as download:
        page.get_by_role("button", name="Export as CSV").click()
    assert download.value.suggested_filename == "appointments.csv"
    rows = [*csv.DictReader(io.StringIO(download.value.path().read_text("utf-8-sig")))]
    assert len(rows) == timeline.SHOWN + 1
    assert (rows[-1]["title"], rows[-1]["customer_name"]) == ("'=Fitting", name)


def test_somebody_is_called_later_and_the_call_is_canceled(
    site: Site, desk: tuple[Page, str], people: dict[str, str], screenshots: Path
) -> None:
    page, view = desk
    name = next(iter(people))
    later = datetime.now(UTC) + timedelta(days=2)
    page.goto(site.path(f"customers/{people[name]}"))
    page.get_by_role("link", name="Call", exact=True).click()
    page.get_by_label("Appointment").select_option(index=1)
    page.get_by_label("Time of the call").fill("2020-01-01T10:00")
    assert_looks_well(page, screenshots / f"call-{view}.png")
    page.get_by_role("button", name="Call the customer").click()
    expect(page.get_by_role("alert")).to_contain_text("This time is in the past")
    page.get_by_label("Time of the call").fill(f"{later:%Y-%m-%dT%H:%M}")
    page.get_by_role("button", name="Call the customer").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Call to {name}")
    expect(page.get_by_role("status")).to_contain_text("The call waits for its time")
    assert_looks_well(page, screenshots / f"call-waits-{view}.png")
    page.get_by_role("main").get_by_role("link", name=name).click()
    expect(page.get_by_text("A call to this customer waits for")).to_be_visible()
    assert_looks_well(page, screenshots / f"customer-call-waits-{view}.png")
    page.get_by_role("button", name="Cancel this call").click()
    expect(page.get_by_role("status")).to_contain_text("Nobody is called")


def test_a_list_is_filtered_by_a_name(
    site: Site, desk: tuple[Page, str], people: dict[str, str], screenshots: Path
) -> None:
    page, view = desk
    name = next(iter(people))
    page.goto(site.path("appointments"))
    page.get_by_label("Customer").fill(name.split()[-1])
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_role("status")).to_contain_text("Choose the customer")
    assert_looks_well(page, screenshots / f"filter-choice-{view}.png")
    page.get_by_role("main").get_by_role("link", name=name).click()
    expect(page.get_by_label("Customer")).to_have_value(name)
    expect(page.get_by_role("rowheader", name="Fitting")).to_have_count(1)
    assert_looks_well(page, screenshots / f"filter-chosen-{view}.png")


def test_a_queue_of_several_pages_is_read(site: Site, desk: tuple[Page, str], screenshots: Path) -> None:
    page, view = desk
    client, mark = site.service.client(site.service.projects[0].test_key), unique("Queue")
    waiting = []
    for number in range(lists.PAGE + 1):
        thread = {"external_conversation_id": f"{mark}.{number:02}", "content": "[[sim:handoff]]"}
        waiting.append(client.post("/v1/messages", thread).ok(201)["conversation"]["id"])
    page.goto(site.path("waiting"))
    expect(page).to_have_title(re.compile(rf"^\({lists.PAGE}\+\) Waiting"))
    assert_looks_well(page, screenshots / f"queue-{view}.png")
    page.get_by_role("link", name="Those that wait less long").click()
    expect(page.get_by_role("rowheader", name=f"{mark}.{lists.PAGE:02}")).to_be_visible()
    assert_looks_well(page, screenshots / f"queue-next-{view}.png")
    page.get_by_role("link", name="Those that wait longest").click()
    expect(page.get_by_role("rowheader", name=f"{mark}.{lists.PAGE:02}")).to_have_count(0)
    for id in waiting:
        client.post(f"/v1/conversations/{id}/end").ok()
