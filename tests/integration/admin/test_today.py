"""The page of a day: what it shows of the appointments, and in how many reads."""

from __future__ import annotations

import pytest

from shared.admin import members
from shared.core import clock
from shared.store.keys import Scope
from tests.support import simulated_calls
from tests.support.admin_client import Browser, Whole, database_calls, signed_in
from tests.support.clocks import Clock
from tests.support.resources import create_resource
from tests.support.stage import Stage


@pytest.fixture
def member(stage: Stage, whole: Whole) -> Browser:
    return signed_in(stage, "today@example.com", {whole.story.project.id: members.MEMBER})


def plan_appointment(stage: Stage, name: str, at: str, **fields: object) -> str:
    """The id of an appointment of a new customer."""
    customer = create_resource(stage, "/v1/customers", phone="+15005550006", name=name)["id"]
    return str(create_resource(stage, "/v1/appointments", customer_id=customer, appointment_at=at, **fields)["id"])


def settings(stage: Stage, **fields: object) -> None:
    assert stage.call("PATCH", "/v1/agent_settings", fields).status == 200


def test_a_day_has_its_appointments_in_order_with_overlaps_and_free_time(
    stage: Stage, whole: Whole, member: Browser
) -> None:
    settings(stage, timezone="Europe/Berlin")
    settings(stage, opening_hours=[{"days": ["monday"], "from": "09:00", "to": "12:00"}])
    plan_appointment(stage, "Grace", "2031-05-05T08:00:00Z", duration_minutes=60, title="Long")
    plan_appointment(stage, "Mary", "2031-05-05T08:30:00Z")
    cancelled = plan_appointment(stage, "Jean", "2031-05-05T07:00:00Z", title="Gone")
    assert stage.call("PATCH", f"/v1/appointments/{cancelled}", {"status": "cancelled"}).status == 200
    plan_appointment(stage, "Tomorrow", "2031-05-05T22:00:00Z")
    text = member.get(f"{whole.story.path}?date=2031-05-05").page.text
    day = text[text.index("Latest call") :]
    shown = ("09:00 - 09:30 Jean", "09:00 - 10:00 1 h free", "10:00 - 11:00 Grace", "10:30 - 11:00 Mary")
    places = [day.index(one) for one in (*shown, "11:00 - 12:00 1 h free")]
    assert sorted(places[2:]) == places[2:], "in order of time"
    assert day.count("Overlaps") == 2, "each of the two names the other"
    assert "Tomorrow" not in text, "the day is that of the zone"
    assert "Tomorrow" in member.get(f"{whole.story.path}?date=2031-05-06").page.text


def test_of_today_only_the_time_ahead_is_free(stage: Stage, whole: Whole, stopped_clock: Clock) -> None:
    settings(stage, opening_hours=[{"days": ["monday", "tuesday"], "from": "08:00", "to": "12:00"}])
    stopped_clock.now = clock.parse("2031-05-05T10:00:30Z") / clock.SECOND
    member = signed_in(stage, "free@example.com", {whole.story.project.id: members.MEMBER})
    plan_appointment(stage, "Grace", "2031-05-05T11:00:00Z")
    day = member.get(whole.story.path).page.text
    assert "08:00" not in day
    assert "10:01 - 11:00 59 min free" in day
    assert "11:30 - 12:00 30 min free" in day
    assert "08:00 - 12:00 4 h free" in member.get(f"{whole.story.path}?date=2031-05-06").page.text


def test_today_marks_who_comes_next(stage: Stage, whole: Whole, stopped_clock: Clock) -> None:
    stopped_clock.now = clock.parse("2031-05-05T10:00:00Z") / clock.SECOND
    member = signed_in(stage, "next@example.com", {whole.story.project.id: members.MEMBER})
    plan_appointment(stage, "Early", "2031-05-05T09:59:00Z")
    gone = plan_appointment(stage, "Gone", "2031-05-05T10:30:00Z")
    assert stage.call("PATCH", f"/v1/appointments/{gone}", {"status": "cancelled"}).status == 200
    plan_appointment(stage, "Soon", "2031-05-05T11:00:00Z")
    plan_appointment(stage, "Later", "2031-05-05T12:00:00Z")
    plan_appointment(stage, "Tomorrow", "2031-05-06T09:00:00Z")
    for view in ("", "?view=week"):
        text = member.get(f"{whole.story.path}{view}").page.text
        assert text.count(" Next ") == text.count(" Next day ") + text.count(" Next week ") + 1
        assert text.index("Gone") < text.index(" Next Soon")
    text = member.get(f"{whole.story.path}?date=2031-05-06").page.text
    assert " Next Tomorrow" not in text, "only today has it"


def test_today_is_the_day_of_the_projects_zone(
    stage: Stage, whole: Whole, member: Browser, stopped_clock: Clock
) -> None:
    now = clock.now()
    settings(stage, timezone="Pacific/Kiritimati")
    name = "Early bird"
    plan_appointment(stage, name, clock.iso(now))
    assert name in member.get(whole.story.path).page.text


def test_a_day_says_what_came_of_the_latest_call(stage: Stage, whole: Whole, member: Browser) -> None:
    ids = whole.ids
    create_resource(stage, f"/v1/customers/{ids['customers']}/call", appointment_id=ids["appointments"])
    text = member.get(f"{whole.story.path}?date=2030-05-06").page.text
    assert "Call to +15005550006 Queued" in text


def test_a_day_leads_to_all_calls_about_an_appointment(
    stage: Stage, whole: Whole, member: Browser, stopped_clock: Clock
) -> None:
    ids, path = whole.ids, f"{whole.story.path}?date=2030-05-06"
    calls = []
    for number in (1, 2):
        placed = create_resource(stage, f"/v1/customers/{ids['customers']}/call", appointment_id=ids["appointments"])
        calls.append(placed["session_id"])
        simulated_calls.dial(stage, stopped_clock, Scope(whole.story.project.id, False), calls[-1])
        assert ("All 2 calls" in member.get(path).page.text) == (number == 2)
    link = f"{whole.story.path}/sessions?appointment_id={ids['appointments']}"
    assert f'href="/dev{link}"' in member.get(f"{whole.story.path}/appointments/{ids['appointments']}").text
    from_day = link.replace("?", "?day=2030-05-06&amp;")
    assert f'href="/dev{from_day}"' in member.get(path).text
    shown = member.get(link)
    assert "About Check-up" in shown.page.text
    assert [id in shown.text for id in (*calls, ids["sessions"])] == [True, True, False]


def test_a_week_begins_on_monday_and_has_every_day(stage: Stage, whole: Whole, member: Browser) -> None:
    page = member.get(f"{whole.story.path}?date=2030-05-08&view=week").page
    assert "Week of Mon 6 May 2030" in page.text
    assert "07:08 Ada +15005550006 Pending" in page.text
    assert "Sun 12 May 2030" in page.text
    links = [attributes["href"] for _, attributes in page.tags if attributes.get("rel") in ("prev", "next")]
    assert [link.rpartition("date=")[2] for link in links if link] == ["2030-04-29&view=week", "2030-05-13&view=week"]


@pytest.mark.parametrize("view", ["day", "week"])
def test_the_ends_of_the_calendar_lead_no_further(stage: Stage, whole: Whole, member: Browser, view: str) -> None:
    for zone in ("Pacific/Kiritimati", "Pacific/Pago_Pago"):
        settings(stage, timezone=zone)
        for day, missing in (("0001-01-01", "prev"), ("9999-12-31", "next")):
            shown = member.get(f"{whole.story.path}?date={day}&view={view}")
            assert shown.status == 200
            assert missing not in [attributes.get("rel") for _, attributes in shown.page.tags]


def test_the_reads_of_a_day_do_not_grow_with_the_table(stage: Stage, whole: Whole, member: Browser) -> None:
    path = f"{whole.story.path}?date=2030-05-06"

    few = database_calls(member, path)
    for number in range(8):
        plan_appointment(stage, f"Same day {number}", "2030-05-06T09:00:00Z")
        plan_appointment(stage, f"Another day {number}", "2030-05-07T09:00:00Z")
    assert database_calls(member, path) == few
