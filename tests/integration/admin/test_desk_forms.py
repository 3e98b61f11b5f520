"""Appointments that are made, moved and cancelled from the day, and what the forms warn of."""

from __future__ import annotations

import pytest

from shared.admin import members
from tests.support.admin_client import Browser, Whole, signed_in
from tests.support.resources import create_resource, get_resource, list_resources
from tests.support.stage import Stage

DAY = "2030-05-06"


@pytest.fixture
def member(stage: Stage, whole: Whole) -> Browser:
    return signed_in(stage, "forms@example.com", {whole.story.project.id: members.MEMBER})


def test_an_appointment_is_created_from_the_free_time_of_a_day(stage: Stage, whole: Whole, member: Browser) -> None:
    path = whole.story.path
    week = [{"days": ["monday"], "from": "07:08", "to": "09:00"}]
    assert stage.call("PATCH", "/v1/agent_settings", {"opening_hours": week}).status == 200
    person = create_resource(stage, "/v1/customers", phone="+12125550131", name="Grace")["id"]
    day = member.get(f"{path}?date={DAY}").page
    links = [attributes.get("href") or "" for _, attributes in day.tags]
    # The appointment ends nine seconds after 07:38.
    [new] = [link.removeprefix("/dev") for link in links if link.endswith(f"appointments/new?at={DAY}T07%3A39")]
    assert f"Whose appointment is it, on {DAY}, 07:39?" in member.get(new).page.text
    form = member.get(f"{new}&customer=%2B1+212+555+0131").location
    assert form == f"{path}/customers/{person}/new_appointment?at={DAY}T07%3A39"
    assert f'value="{DAY}T07:39"' in member.get(form).text
    create = form.partition("?")[0]
    assert member.post(create, member.get(form).form(create)).status == 303
    [made] = [one for one in list_resources(stage, "/v1/appointments") if one["customer_id"] == person]
    assert made["appointment_at"] == f"{DAY}T07:39:00.000Z"


def test_customers_with_the_same_phone_are_offered(stage: Stage, whole: Whole, member: Browser) -> None:
    people = [create_resource(stage, "/v1/customers", phone="+12125550132", name=name)["id"] for name in ("Eve", "Bob")]
    shown = member.get(f"{whole.story.path}/appointments/new?customer=%2B12125550132&at={DAY}T09:00")
    for id, name in zip(people, ("Eve", "Bob"), strict=True):
        assert name in shown.page.text
        assert f"customers/{id}/new_appointment" in shown.text
    assert (
        "No customer has this name, phone"
        in member.get(f"{whole.story.path}/appointments/new?customer=nobody").page.text
    )


@pytest.mark.parametrize(
    ("at", "says"),
    [
        ("2020-05-05T10:00", "in the past"),
        ("2030-05-07T06:00", "outside the opening hours"),
        (f"{DAY}T07:30", "overlaps with Ada, Mon 6 May 2030, 07:08."),
    ],
)
def test_a_form_warns_and_is_not_refused(stage: Stage, whole: Whole, member: Browser, at: str, says: str) -> None:
    days = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
    week = [{"days": days, "from": "07:00", "to": "19:00"}]
    assert stage.call("PATCH", "/v1/agent_settings", {"opening_hours": week}).status == 200
    person = create_resource(stage, "/v1/customers", phone="+12125550133", name="Grace")["id"]
    path = f"{whole.story.path}/customers/{person}/new_appointment"
    before = len(list_resources(stage, "/v1/appointments"))
    warned = member.submit(path, path, at=at, title="typed")
    assert warned.status == 409
    assert says in warned.page.text
    assert 'value="typed"' in warned.text
    assert "Create appointment anyway" in warned.page.text
    assert len(list_resources(stage, "/v1/appointments")) == before
    assert member.post(path, warned.form(path)).status == 303
    assert len(list_resources(stage, "/v1/appointments")) == before + 1


def test_an_exact_duplicate_is_warned_of_and_a_form_that_is_sent_twice_is_not(
    stage: Stage, whole: Whole, member: Browser
) -> None:
    path = f"{whole.story.path}/customers/{whole.ids['customers']}/new_appointment"
    sent = member.get(path).form(path) | {"at": "2030-08-01T10:00", "title": "Twice"}
    assert member.post(path, sent).status == 303
    assert member.post(path, sent).status == 303, "the same form, by a double click"
    assert [one["title"] for one in list_resources(stage, "/v1/appointments")].count("Twice") == 1
    again = member.submit(path, path, at="2030-08-01T10:00")
    assert "already has an appointment at this time" in again.page.text


def test_moving_warns_of_the_new_time_only(stage: Stage, whole: Whole, member: Browser) -> None:
    id = whole.ids["appointments"]
    assert stage.call("PATCH", f"/v1/appointments/{id}", {"appointment_at": "2020-01-01T10:00:00Z"}).status == 200
    edit = f"{whole.story.path}/appointments/{id}/edit"
    assert member.submit(edit, edit, title="Other").status == 303, "the time is as it was"
    warned = member.submit(edit, edit, at="2020-01-02T10:00")
    assert "in the past" in warned.page.text
    # The warning is about the time that was sent: another one is warned of again.
    assert member.post(edit, warned.form(edit) | {"at": "2030-01-02T10:00"}).status == 303
    assert get_resource(stage, f"/v1/appointments/{id}")["appointment_at"] == "2030-01-02T10:00:00.000Z"


def test_what_asks_for_confirmation_names_the_person(stage: Stage, whole: Whole, member: Browser) -> None:
    customer, appointment = whole.ids["customers"], whole.ids["appointments"]
    day = member.get(f"{whole.story.path}?date={DAY}").text
    pages = {
        f"appointments/{appointment}/cancel": "Check-up of Ada",
        f"appointments/{appointment}/edit": "For Ada",
        f"customers/{customer}/call?appointment_id={appointment}": "Call Ada",
    }
    for page, says in pages.items():
        assert f'href="/dev{whole.story.path}/{page}"' in day
        assert says in member.get(f"{whole.story.path}/{page}").page.text
    viewer = signed_in(stage, "viewer@example.com", {whole.story.project.id: members.VIEWER})
    assert f"{appointment}/cancel" not in viewer.get(f"{whole.story.path}?date={DAY}").text
