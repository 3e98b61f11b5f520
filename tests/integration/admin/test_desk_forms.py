"""Appointments that are made, moved and canceled from the day, and what the forms warn of."""

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
    # The button of the day begins with the first free time.
    new, _ = [
        link.removeprefix("/dev") for link in links if link.endswith(f"appointments/new?day={DAY}&at={DAY}T07%3A39")
    ]
    assert "Whose appointment is it, on Mon 6 May 2030, 07:39?" in member.get(new).page.text
    form = member.get(f"{new}&customer=%2B1+212+555+0131").location
    assert form == f"{path}/customers/{person}/new_appointment?day={DAY}&at={DAY}T07%3A39"
    assert f'value="{DAY}T07:39"' in member.get(form).text
    there = member.submit(form, form).location
    [made] = [one for one in list_resources(stage, "/v1/appointments") if one["customer_id"] == person]
    assert made["appointment_at"] == f"{DAY}T07:39:00.000Z"
    text = member.get(there).page.text
    assert "The appointment of Grace was created: Mon 6 May 2030, 07:39." in text
    assert "07:39 - 08:09 New Grace" in text


def test_an_appointment_of_another_day_is_shown_on_that_day_which_leads_back(
    stage: Stage, whole: Whole, member: Browser
) -> None:
    path = whole.story.path
    form = f"{path}/customers/{whole.ids['customers']}/new_appointment?day={DAY}&at={DAY}T09%3A00"
    there = member.submit(form, form, at="2030-05-08T09:00").location
    text = member.get(there).page.text
    assert "The appointment of Ada was created: Wed 8 May 2030, 09:00." in text
    assert "Back to Mon 6 May 2030" in text


def test_from_the_customers_page_a_new_appointment_leads_to_the_customer(
    stage: Stage, whole: Whole, member: Browser
) -> None:
    customer = f"{whole.story.path}/customers/{whole.ids['customers']}"
    form = f"{customer}/new_appointment?day={DAY}"
    assert f'href="/dev{form}"' in member.get(f"{customer}?day={DAY}").text
    there = member.submit(form, form, at="2030-05-08T09:00").location
    assert there == f"{customer}?day={DAY}&notice=appointment"
    assert "Back to Mon 6 May 2030" in member.get(there).page.text


def test_a_customer_who_is_new_gets_the_chosen_time(stage: Stage, whole: Whole, member: Browser) -> None:
    path, query = whole.story.path, f"?day={DAY}&at={DAY}T09%3A00"
    form = f"{path}/customers/new{query}"
    links = [attributes.get("href") for _, attributes in member.get(f"{path}/appointments/new{query}").page.tags]
    assert f"/dev{form}" in links
    location = member.submit(form, f"{path}/customers{query}", phone="+12125550134", name="New").location
    assert location.endswith(f"/new_appointment{query}")
    assert f'value="{DAY}T09:00"' in member.get(location).text


def test_what_is_opened_from_a_day_leads_back_to_it(stage: Stage, whole: Whole, member: Browser) -> None:
    path, ids = whole.story.path, whole.ids
    pages = (
        f"appointments/{ids['appointments']}",
        f"appointments/{ids['appointments']}/move",
        f"appointments/{ids['appointments']}/edit",
        f"appointments/{ids['appointments']}/cancel",
        f"customers/{ids['customers']}",
        f"customers/{ids['customers']}/call",
    )
    for page in pages:
        shown = member.get(f"{path}/{page}?day={DAY}")
        assert "Back to Mon 6 May 2030" in shown.page.text, page
        assert f'href="/dev{path}?date={DAY}"' in shown.text
        for day in ("", "2030-02-30"):
            assert "Back to" not in member.get(f"{path}/{page}?day={day}").page.text
    for done, page in (("confirmed", "confirm"), ("saved", "edit")):
        appointment = f"{path}/appointments/{ids['appointments']}"
        form = f"{appointment}/{page}?day={DAY}"
        assert member.submit(f"{appointment}?day={DAY}" if page == "confirm" else form, form).location == (
            f"{appointment}?day={DAY}&notice={done}"
        )


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
    assert "If you mean it, press “Create appointment anyway”." in warned.page.text
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


def test_an_appointment_is_moved_from_its_day_to_another_one(stage: Stage, whole: Whole, member: Browser) -> None:
    path, id = whole.story.path, whole.ids["appointments"]
    form = f"{path}/appointments/{id}/move?day={DAY}"
    shown = member.get(form)
    assert "Check-up of Ada +15005550006 , now Mon 6 May 2030, 07:08 , 30 min (default)" in shown.page.text
    assert [name for name in shown.form(form) if name not in ("csrf", "once", "rendered")] == ["at"]
    there = member.submit(form, form, at="2030-05-07T10:00").location
    text = member.get(there).page.text
    assert "The appointment of Ada was moved: Tue 7 May 2030, 10:00." in text
    assert "10:00 - 10:30 Moved Ada" in text
    assert "Back to Mon 6 May 2030" in text
    moved = get_resource(stage, f"/v1/appointments/{id}")
    assert (moved["appointment_at"], moved["status"]) == ("2030-05-07T10:00:00.000Z", "rescheduled")
    # Without a day, to the page of the appointment.
    form = f"{path}/appointments/{id}/move"
    assert member.submit(form, form, at="2030-05-08T10:00").location == f"{path}/appointments/{id}?notice=moved"


def test_a_move_warns_and_keeps_what_others_change(stage: Stage, whole: Whole, member: Browser) -> None:
    path, id = whole.story.path, whole.ids["appointments"]
    form = f"{path}/appointments/{id}/move"
    warned = member.submit(form, form, at="2020-05-07T10:00")
    assert warned.status == 409
    assert "in the past" in warned.page.text
    assert "If you mean it, press “Move anyway”." in warned.page.text
    opened = member.get(form).form(form) | {"at": "2030-05-09T10:00"}
    theirs = "2030-05-08T09:00:00.000Z"
    assert stage.call("PATCH", f"/v1/appointments/{id}", {"appointment_at": theirs}).status == 200
    refused = member.post(form, opened)
    assert refused.status == 409
    assert "now: 2030-05-08T09:00" in refused.page.text
    assert get_resource(stage, f"/v1/appointments/{id}")["appointment_at"] == theirs


def test_the_form_of_a_move_has_the_free_times_of_the_day_that_was_typed(
    stage: Stage, whole: Whole, member: Browser
) -> None:
    days = ["monday", "tuesday"]
    week = [{"days": days, "from": "07:00", "to": "09:00"}]
    assert stage.call("PATCH", "/v1/agent_settings", {"opening_hours": week}).status == 200
    other_person = create_resource(stage, "/v1/customers", phone="+12125550134")["id"]
    create_resource(stage, "/v1/appointments", customer_id=other_person, appointment_at="2030-05-07T07:30:00Z")
    form = f"{whole.story.path}/appointments/{whole.ids['appointments']}/move"
    # Its own time is free for it.
    assert "Free on Mon 6 May 2030 Choose a time to fill it in above. 07:00-09:00 2 h" in member.get(form).page.text
    other = member.submit(form, form, at="2030-05-07T08:00", free_times="1")
    assert other.status == 200
    assert (
        "Free on Tue 7 May 2030 Choose a time to fill it in above. 07:00-07:30 30 min 08:00-09:00 1 h"
        in other.page.text
    )
    assert other.form(form)["at"] == "2030-05-07T08:00"
    closed = member.submit(form, form, at="2030-05-08T08:00", free_times="1")
    assert "Free on Wed 8 May 2030 No time within the opening hours" in closed.page.text
    assert "Free on" not in member.submit(form, form, at="soon", free_times="1").page.text
    assert get_resource(stage, f"/v1/appointments/{whole.ids['appointments']}")["status"] == "pending"
    # What was typed is what the person has changed.
    assert member.post(form, other.form(form)).status == 303
    moved = get_resource(stage, f"/v1/appointments/{whole.ids['appointments']}")
    assert moved["appointment_at"] == "2030-05-07T08:00:00.000Z"


def test_a_free_time_is_a_link_that_fills_the_form_in_the_time_zone_of_the_appointment(
    stage: Stage, whole: Whole, member: Browser
) -> None:
    path = f"/v1/appointments/{whole.ids['appointments']}"
    week = [{"days": ["monday"], "from": "07:00", "to": "09:00"}]
    assert stage.call("PATCH", "/v1/agent_settings", {"opening_hours": week}).status == 200
    assert stage.call("PATCH", path, {"timezone": "Europe/Berlin"}).status == 200
    form = f"{whole.story.path}/appointments/{whole.ids['appointments']}/move"
    page = f"{form}?day={DAY}"
    links = [str(one.get("href")).removeprefix("/dev") for tag, one in member.get(page).page.tags if tag == "a"]
    [link] = [one for one in links if one.startswith(f"{page}&")]
    shown = member.get(link)
    assert shown.form(page)["at"] == f"{DAY}T09:00", "07:00 of the project is 09:00 in Berlin"
    assert member.post(page, shown.form(page)).status == 303
    assert get_resource(stage, path)["appointment_at"] == f"{DAY}T07:00:00.000Z"


def test_another_appointment_of_the_customer_on_the_same_day_is_warned_of(
    stage: Stage, whole: Whole, member: Browser
) -> None:
    path = f"{whole.story.path}/customers/{whole.ids['customers']}/new_appointment"
    text = "The customer has another appointment on this day: Check-up, Mon 6 May 2030, 07:08."
    warned = member.submit(path, path, at=f"{DAY}T15:00", title="Second")
    assert warned.status == 409
    assert text in warned.page.text
    assert "overlaps" not in warned.page.text
    assert member.post(path, warned.form(path)).status == 303
    [second] = [one["id"] for one in list_resources(stage, "/v1/appointments") if one["title"] == "Second"]
    move = f"{whole.story.path}/appointments/{second}/move"
    assert text in member.submit(move, move, at=f"{DAY}T16:00").page.text
    assert member.submit(move, move, at="2030-05-07T15:00").status == 303, "another day"
    canceled = {"status": "cancelled", "cancellation_reason": "ill"}
    assert stage.call("PATCH", f"/v1/appointments/{whole.ids['appointments']}", canceled).status == 200
    assert member.submit(move, move, at=f"{DAY}T17:00").status == 303, "a canceled one does not take place"


def test_the_form_of_a_new_appointment_has_the_phone_and_that_of_a_cancellation_says_who_is_told(
    whole: Whole, member: Browser
) -> None:
    path = whole.story.path
    assert "For Ada +15005550006" in member.get(f"{path}/customers/{whole.ids['customers']}/new_appointment").page.text
    cancel = member.get(f"{path}/appointments/{whole.ids['appointments']}/cancel").page.text
    assert "The customer is not told." in cancel


def test_what_was_canceled_from_a_day_is_marked_there(stage: Stage, whole: Whole, member: Browser) -> None:
    form = f"{whole.story.path}/appointments/{whole.ids['appointments']}/cancel?day={DAY}"
    there = member.submit(form, form, cancellation_reason="ill").location
    shown = member.get(there)
    assert "The appointment of Ada was canceled: Mon 6 May 2030, 07:08." in shown.page.text
    assert "given-up marked" in shown.text


def test_what_asks_for_confirmation_names_the_person(stage: Stage, whole: Whole, member: Browser) -> None:
    customer, appointment = whole.ids["customers"], whole.ids["appointments"]
    day = member.get(f"{whole.story.path}?date={DAY}").text
    pages = {
        f"appointments/{appointment}/cancel?day={DAY}": "Check-up of Ada",
        f"appointments/{appointment}/move?day={DAY}": "Check-up of Ada",
        f"customers/{customer}/call?day={DAY}&amp;appointment_id={appointment}": "Call Ada",
    }
    for page, says in pages.items():
        assert f'href="/dev{whole.story.path}/{page}"' in day
        assert says in member.get(f"{whole.story.path}/{page}").page.text
    viewer = signed_in(stage, "viewer@example.com", {whole.story.project.id: members.VIEWER})
    assert f"{appointment}/cancel" not in viewer.get(f"{whole.story.path}?date={DAY}").text


def test_the_last_hours_of_the_calendar_are_refused_by_the_form(stage: Stage, whole: Whole, member: Browser) -> None:
    path = f"/v1/appointments/{whole.ids['appointments']}"
    assert stage.call("PATCH", path, {"timezone": "America/New_York"}).status == 200
    form = f"{whole.story.path}/appointments/{whole.ids['appointments']}/move"
    assert member.get(f"{form}?at=9999-12-31T23:59").status == 200
    assert member.submit(form, form, at="9999-12-31T23:59", free_times="1").status == 200
    assert member.submit(form, form, at="9999-12-31T23:59").status == 400


def test_a_day_says_only_what_may_be_so_and_a_move_to_the_same_time_says_nothing(
    stage: Stage, whole: Whole, member: Browser
) -> None:
    path, id = whole.story.path, whole.ids["appointments"]
    link = f"{path}?date={DAY}&appointment={id}&done="
    assert "was moved" in member.get(f"{link}moved").page.text
    assert "was canceled" not in member.get(f"{link}canceled").page.text
    form = f"{path}/appointments/{id}/move"
    assert member.submit(form, form).location == f"{path}/appointments/{id}"


def test_a_warning_to_a_form_whose_token_was_used_before_is_no_error(
    stage: Stage, whole: Whole, member: Browser
) -> None:
    path, id = whole.story.path, whole.ids["appointments"]
    new = f"{path}/customers/{whole.ids['customers']}/new_appointment"
    sent = member.get(new).form(new) | {"at": "2030-05-10T10:00"}
    assert member.post(new, sent).status == 303
    for action in ("move", "edit"):
        form = f"{path}/appointments/{id}/{action}"
        again = member.get(form).form(form) | {"at": "2020-05-10T10:00", "once": sent["once"]}
        assert member.post(form, again).location == f"{path}/appointments/{id}"
