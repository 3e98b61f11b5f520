"""Calls that a desk places for a chosen time: where they are seen, until when they are canceled, and how often made."""

from __future__ import annotations

import pytest

from shared.admin import members
from shared.core import clock
from shared.store.keys import Scope
from tests.support import simulated_calls
from tests.support.admin_client import Shown, Whole, signed_in
from tests.support.client_actions import simulated_phone
from tests.support.clocks import Clock
from tests.support.resources import create_resource, get_resource, list_resources
from tests.support.stage import Stage

MORNING = "2029-03-05T07:00:00Z"
"""A Monday, 08:00 in Berlin."""
LATER = "2029-03-05T09:30"
"""The time of the call in Berlin."""
SHOWN = "Mon 5 Mar 2029, 09:30"


class Desk:
    """A member who calls Ada about her appointment."""

    def __init__(self, stage: Stage, whole: Whole) -> None:
        self._stage, self._path = stage, whole.story.path
        self.browser = signed_in(stage, "later@example.com", {whole.story.project.id: members.MEMBER})
        self.scope = Scope(whole.story.project.id, False)
        self.customer = f"{self._path}/customers/{whole.ids['customers']}"
        self.appointment = f"{self._path}/appointments/{whole.ids['appointments']}"
        self.form = f"{self.customer}/call"

    def filled(self, at: str) -> dict[str, str]:
        """The form of a call about the appointment, with a time."""
        opened = self.browser.get(f"{self.form}?appointment_id={self.appointment.rpartition('/')[2]}")
        return opened.form(self.form) | {"not_before": at}

    def place(self, at: str = LATER) -> Shown:
        return self.browser.post(self.form, self.filled(at))

    def calls(self) -> list[str]:
        """The ids of Ada's calls."""
        id = self.customer.rpartition("/")[2]
        return [one["id"] for one in list_resources(self._stage, "/v1/sessions") if one["customer_id"] == id]

    def text(self, page: str) -> str:
        return self.browser.get(page).page.text


@pytest.fixture
def desk(stage: Stage, whole: Whole, stopped_clock: Clock) -> Desk:
    stopped_clock.now = clock.parse(MORNING) / clock.SECOND
    assert stage.call("PATCH", "/v1/agent_settings", {"timezone": "Europe/Berlin"}).status == 200
    return Desk(stage, whole)


def test_a_call_for_later_is_seen_and_canceled_where_the_desk_is(
    stage: Stage, desk: Desk, stopped_clock: Clock
) -> None:
    placed = desk.place().location
    assert "The call waits for its time. Until then, it can be canceled here." in desk.text(placed)
    assert f"Will be dialed {SHOWN}" in desk.text(placed)
    assert f"A call to this customer waits for {SHOWN} ." in desk.text(desk.customer)
    assert f"Latest call Call to +15005550006 Queued for {SHOWN}" in desk.text(desk.appointment)
    assert f"A call to this customer waits for {SHOWN} ." in desk.text(desk.form)
    assert "Call the customer" not in desk.text(desk.form), "one call at a time"
    [id] = desk.calls()
    cancel = placed.partition("?")[0] + "/cancel"
    assert desk.browser.submit(desk.customer, cancel).status == 303
    assert "waits for" not in desk.text(desk.customer)
    assert "Call the customer" in desk.text(desk.form)
    stopped_clock.now = clock.parse("2029-03-06T00:00:00Z") / clock.SECOND
    simulated_calls.dial(stage, stopped_clock, desk.scope, id)
    session = simulated_calls.session_of(stage, id)
    assert (session["ended_reason"], session["dialed_at"]) == ("canceled", None)


def test_calls_that_failed_need_somebody_and_those_that_were_canceled_do_not(
    stage: Stage, desk: Desk, stopped_clock: Clock
) -> None:
    placed = desk.place().location.partition("?")[0]
    assert desk.browser.submit(placed, f"{placed}/cancel").status == 303
    assert '<span class="badge off">Canceled</span>' in desk.browser.get(placed).text
    needs = f"{desk.customer.partition('/customers/')[0]}/attention"
    assert "Calls that failed" not in desk.text(needs)
    blocked = create_resource(stage, "/v1/customers", phone=simulated_phone("04"), name="Grace")["id"]
    simulated_calls.dial(
        stage, stopped_clock, desk.scope, create_resource(stage, f"/v1/customers/{blocked}/call")["session_id"]
    )
    text = desk.text(needs)
    assert "Calls that failed in the last 7 days Grace" in text
    assert "The call was blocked" in text


def test_a_call_from_the_customers_page_is_about_the_next_appointment(
    stage: Stage, desk: Desk, stopped_clock: Clock
) -> None:
    appointment = desk.appointment.rpartition("/")[2]
    assert desk.browser.get(desk.form).form(desk.form)["appointment_id"] == appointment
    stopped_clock.now = clock.parse(get_resource(stage, f"/v1/appointments/{appointment}")["appointment_at"]) / 1000 + 1
    later = signed_in(stage, "next@example.com", {desk.scope.project_id: members.MEMBER}).get(desk.form)
    assert later.form(desk.form)["appointment_id"] == ""
    assert "its time is over" in later.page.text


def test_a_form_makes_one_call_however_often_it_is_sent(stage: Stage, desk: Desk, stopped_clock: Clock) -> None:
    form = desk.filled(LATER)
    assert "?notice=called" in desk.browser.post(desk.form, form).location
    again = f"{desk.customer}?notice=called"
    assert desk.browser.post(desk.form, form).location == again, "a double click"
    assert "requested one call" in desk.text(again)
    [id] = desk.calls()
    simulated_calls.work(stage, "dial", simulated_calls.wake_up(stage, desk.scope, id))
    assert simulated_calls.session_of(stage, id)["call_status"] == "queued", "its time has not come"
    simulated_calls.dial(stage, stopped_clock, desk.scope, id)
    session = simulated_calls.session_of(stage, id)
    assert session["call_status"] == "completed"
    assert session["dialed_at"] >= "2029-03-05T08:30:00"
    assert desk.browser.post(desk.form, form).location == again, "by the button of the browser that goes back"
    assert desk.calls() == [id]


def test_a_time_that_is_past_calls_nobody(stage: Stage, desk: Desk) -> None:
    refused = desk.place("2029-03-05T07:58")
    assert refused.status == 400
    assert "This time is in the past. Without a time, the customer is called at once." in refused.page.text
    assert refused.form(desk.form)["not_before"] == "2029-03-05T07:58"
    assert desk.calls() == []
    assert desk.place("2029-03-05T08:00").status == 303, "the present minute is now"


def test_a_call_for_later_warns_of_an_appointment_that_is_before_it(stage: Stage, desk: Desk) -> None:
    appointment = f"/v1/appointments/{desk.appointment.rpartition('/')[2]}"
    assert stage.call("PATCH", appointment, {"appointment_at": "2029-03-05T08:15:00Z"}).status == 200
    assert stage.call("PATCH", appointment, {"timezone": "Asia/Tokyo"}).status == 200
    assert desk.place("2029-03-05T09:15").status == 303, "at its beginning"
    [id] = desk.calls()
    path = f"{desk.customer.partition('/customers/')[0]}/sessions/{id}"
    assert desk.browser.submit(path, f"{path}/cancel").status == 303
    warned = desk.place()
    assert warned.status == 409
    assert "The appointment is before this call: Mon 5 Mar 2029, 09:15." in warned.page.text
    assert "press “Call the customer anyway”" in warned.page.text
    assert desk.calls() == [id]
    assert desk.browser.post(desk.form, warned.form(desk.form)).status == 303
    assert len(desk.calls()) == 2


def test_a_call_for_later_obeys_what_holds_at_its_time(stage: Stage, desk: Desk, stopped_clock: Clock) -> None:
    placed = desk.place().location
    hours = [{"days": ["monday"], "from": "10:30", "to": "17:00"}]
    assert stage.call("PATCH", "/v1/agent_settings", {"calling_hours": hours}).status == 200
    [id] = desk.calls()
    assert simulated_calls.forward_to_next_step(stopped_clock, desk.scope, id)
    simulated_calls.work(stage, "dial", simulated_calls.wake_up(stage, desk.scope, id))
    assert "Will be dialed Mon 5 Mar 2029, 10:30" in desk.text(placed)
    assert desk.browser.submit(desk.customer, f"{desk.customer}/opt_out").status == 303
    simulated_calls.dial(stage, stopped_clock, desk.scope, id)
    assert simulated_calls.session_of(stage, id)["dialed_at"] is None
    assert "The customer is not to be called" in desk.text(placed)
    assert desk.place("").status == 409


def test_a_simulated_call_has_no_duration_that_its_transcript_contradicts(
    stage: Stage, desk: Desk, stopped_clock: Clock
) -> None:
    placed = desk.place("").location.partition("?")[0]
    simulated_calls.dial(stage, stopped_clock, desk.scope, placed.rpartition("/")[2])
    session = simulated_calls.session_of(stage, placed.rpartition("/")[2])
    assert session["duration_seconds"] is not None
    text = desk.text(placed)
    assert "Customer, 0:" in text
    assert "lasted" not in text
