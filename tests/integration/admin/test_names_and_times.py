"""What the pages call people, and in which time zone they show and read times."""

from __future__ import annotations

import pytest

from shared.admin import members
from tests.support.admin_client import Browser, Whole, database_calls, signed_in
from tests.support.project_of_pages import hand_off
from tests.support.resources import create_resource, get_resource, list_resources
from tests.support.stage import Stage

PHONE = "+15005550006"


@pytest.fixture
def member(stage: Stage, whole: Whole) -> Browser:
    return signed_in(stage, "names@example.com", {whole.story.project.id: members.MEMBER})


def set_zone(stage: Stage, timezone: str) -> None:
    assert stage.call("PATCH", "/v1/agent_settings", {"timezone": timezone}).status == 200


def test_lists_and_pages_name_people_with_their_phone_and_hide_ids_behind_a_link(
    stage: Stage, whole: Whole, member: Browser
) -> None:
    story, ids = whole.story, whole.ids
    session = create_resource(stage, f"/v1/customers/{ids['customers']}/call", appointment_id=ids["appointments"])[
        "session_id"
    ]
    hand_off(stage, whole)
    for page in (
        "appointments",
        "sessions",
        "conversations",
        "conversations?status=waiting",
        f"appointments/{ids['appointments']}",
        f"sessions/{session}",
        f"conversations/{ids['conversations']}",
    ):
        text = member.get(f"{story.path}/{page}").page.text
        assert "Ada" in text, page
        assert PHONE in text, page
        assert ids["customers"] not in text, page
    call = member.get(f"{story.path}/sessions/{session}").page.text
    assert "Call to Ada" in call
    assert "Appointment Check-up , Mon 6 May 2030, 07:08" in call
    stage.fan_out()
    events = member.get(f"{story.path}/events").page.text
    assert "Check-up, Ada" in events
    assert "Conversation, Ada" in events


def test_the_names_of_a_page_are_one_read(stage: Stage, whole: Whole, member: Browser) -> None:
    path = f"{whole.story.path}/appointments"

    few = database_calls(member, path)
    for number in range(12):
        customer = create_resource(stage, "/v1/customers", phone=PHONE, name=f"Person {number}")["id"]
        create_resource(stage, "/v1/appointments", customer_id=customer, appointment_at="2030-05-07T07:00:00Z")
    assert database_calls(member, path) == few
    assert "Person 11" in member.get(path).page.text


def test_a_deleted_customer_keeps_the_name(stage: Stage, whole: Whole, member: Browser) -> None:
    assert stage.call("DELETE", f"/v1/customers/{whole.ids['customers']}").status == 200
    text = member.get(f"{whole.story.path}/appointments").page.text
    assert "Ada" in text


def test_times_are_in_the_projects_zone_which_the_page_names(stage: Stage, whole: Whole, member: Browser) -> None:
    story, appointment = whole.story, whole.ids["appointments"]
    set_zone(stage, "Asia/Kolkata")
    for page in ("appointments", f"appointments/{appointment}", f"customers/{whole.ids['customers']}"):
        text = member.get(f"{story.path}/{page}").page.text
        assert "Times are in Asia/Kolkata." in text, page
        assert "Mon 6 May 2030, 12:38" in text, page
    # The form shows and reads the same time.
    edit = f"{story.path}/appointments/{appointment}/edit"
    assert 'value="2030-05-06T12:38"' in member.get(edit).text
    assert member.submit(edit, edit, at="2030-05-06T13:00").status == 303
    assert get_resource(stage, f"/v1/appointments/{appointment}")["appointment_at"] == "2030-05-06T07:30:00.000Z"


def test_an_appointment_in_another_zone_shows_both_times(stage: Stage, whole: Whole, member: Browser) -> None:
    set_zone(stage, "Europe/Berlin")
    create_resource(
        stage,
        "/v1/appointments",
        customer_id=whole.ids["customers"],
        appointment_at="2030-07-01T08:30:00Z",
        timezone="America/New_York",
    )
    text = member.get(f"{whole.story.path}/appointments").page.text
    assert "Mon 1 Jul 2030, 10:30 (04:30 in America/New_York)" in text


def test_days_to_filter_by_are_those_of_the_zone(stage: Stage, whole: Whole, member: Browser) -> None:
    set_zone(stage, "Pacific/Auckland")
    late = "2030-07-01T20:00:00Z"
    customer = whole.ids["customers"]
    id = create_resource(stage, "/v1/appointments", customer_id=customer, appointment_at=late, title="Late")["id"]
    path = f"{whole.story.path}/appointments"
    assert id in member.get(f"{path}?since=2030-07-02&until=2030-07-02").text
    assert id not in member.get(f"{path}?until=2030-07-01").text
    assert len(list_resources(stage, "/v1/appointments")) == 2


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago", "America/Havana"])
def test_the_first_and_last_days_of_the_calendar_can_be_asked_for(
    stage: Stage, whole: Whole, member: Browser, zone: str
) -> None:
    set_zone(stage, zone)
    for day in ("0001-01-01", "9999-12-31", "9999-12-30", "2027-03-14"):
        for page in ("appointments?since={0}&until={0}", "events?since={0}&until={0}", "failed_deliveries?since={0}"):
            assert member.get(f"{whole.story.path}/{page.format(day)}").status == 200, (day, page)
