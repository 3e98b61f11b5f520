"""The pages of customers, appointments, calls, conversations, usage and limits, as people use them."""

from __future__ import annotations

import json
import re
import urllib.parse
from datetime import UTC

import pytest

from functions.admin import words
from shared.admin import members
from shared.agent.actions import HandoffReason
from shared.calls import project_limits
from shared.core import clock
from shared.projects import usage
from shared.store import table
from shared.store.keys import Scope
from tests.support.admin_client import Browser, Story, Whole, as_test, signed_in, trail
from tests.support.clocks import Clock
from tests.support.project_of_pages import hand_off
from tests.support.resources import create_resource, get_resource, list_resources
from tests.support.simulated_calls import dial
from tests.support.stage import Stage


@pytest.fixture
def owner(stage: Stage, story: Story) -> Browser:
    return signed_in(stage, "owner@example.com", {story.project.id: members.OWNER})


def id_of(location: str) -> str:
    """The id at the end of a path."""
    return location.partition("?")[0].rpartition("/")[2]


def test_a_customer_is_created_changed_and_deleted(stage: Stage, story: Story, owner: Browser) -> None:
    new, path = f"{story.path}/customers/new", f"{story.path}/customers"
    form = {"phone": "+1 500 555 0006", "name": "Ada", "email": "", "external_id": "p-1", "metadata": '{"k": [1]}'}
    location = owner.submit(new, path, **form, once="1").location
    customer = get_resource(stage, f"/v1/customers/{id_of(location)}")
    assert (customer["phone"], customer["name"], customer["email"]) == ("+15005550006", "Ada", None)
    assert customer["metadata"] == {"k": [1]}
    assert "was created" in owner.get(location).text
    again = owner.submit(new, path, **form, once="1")
    assert again.location == f"{path}?notice=sent"
    assert len(list_resources(stage, "/v1/customers")) == 2, "the story has one"

    page = f"{path}/{customer['id']}"
    assert owner.submit(f"{page}/edit", f"{page}/edit", **form | {"name": "Eve", "metadata": '{"n": 2}'}).status == 303
    changed = get_resource(stage, f"/v1/customers/{customer['id']}")
    assert (changed["name"], changed["metadata"], changed["external_id"]) == ("Eve", {"n": 2}, "p-1")
    assert owner.submit(f"{page}/edit", f"{page}/edit", **form | {"name": "Eve", "metadata": '{"n": 2}'}).status == 303
    assert get_resource(stage, f"/v1/customers/{customer['id']}") == changed, "nothing was changed"

    assert owner.submit(f"{page}/delete", f"{page}/delete").location == f"{page}?notice=deleted"
    assert get_resource(stage, f"/v1/customers/{customer['id']}")["deleted_at"] is not None
    assert f"{page}/edit" not in owner.get(page).text
    actions = [entry.action for entry in trail(story.project.id)]
    assert actions == ["customer.deleted", "customer.changed", "customer.created"]
    written = json.dumps([[dict(entry.before), dict(entry.after)] for entry in trail(story.project.id)])
    assert "Ada" not in written, "the trail has no personal data"
    assert "Eve" not in written
    assert '"name, metadata"' in written


@pytest.mark.parametrize(
    ("field", "text", "says"),
    [
        ("phone", "0170 1234567", "+49 170 1234567 instead of 0170 1234567"),
        ("phone", "", "null"),
        ("email", "ada", "email"),
        ("name", "x" * 201, "At most 200"),
        ("metadata", "{", "JSON object"),
        ("metadata", "[1]", "JSON object"),
        ("metadata", '{"a": 1, "a": 2}', "JSON object"),
        ("metadata", json.dumps({"x" * 41: 1}), "40"),
    ],
)
def test_a_customer_form_says_what_is_wrong_and_keeps_what_was_typed(
    stage: Stage, story: Story, owner: Browser, field: str, text: str, says: str
) -> None:
    form = {"phone": "+15005550006", "name": "typed before"} | {field: text}
    shown = owner.submit(f"{story.path}/customers/new", f"{story.path}/customers", **form, once="1")
    assert shown.status == 400
    [alert] = [attributes for _, attributes in shown.page.tags if attributes.get("role") == "alert"]
    assert "autofocus" in alert, "the focus is on what is wrong"
    assert says in shown.page.text or says == "null"
    assert field == "name" or "typed before" in shown.text
    assert len(list_resources(stage, "/v1/customers")) == 1


def test_an_appointment_is_made_moved_confirmed_and_cancelled(stage: Stage, whole: Whole) -> None:
    story, customer = whole.story, whole.ids["customers"]
    browser = signed_in(stage, "member@example.com", {story.project.id: members.MEMBER})
    path = f"{story.path}/customers/{customer}/new_appointment"
    form = {"at": "2030-07-01T10:30", "timezone": "Europe/Berlin", "duration_minutes": "30", "title": "First"}
    assert browser.submit(path, path, **form, once="1").status == 303
    appointment = next(one for one in list_resources(stage, "/v1/appointments") if one["title"] == "First")
    assert appointment["appointment_at"] == "2030-07-01T08:30:00.000Z"
    assert appointment["duration_minutes"] == 30
    page = f"{story.path}/appointments/{appointment['id']}"
    assert "Mon 1 Jul 2030, 08:30 (10:30 in Europe/Berlin)" in browser.get(page).page.text
    assert f"{page}" in browser.get(f"{story.path}/customers/{customer}").text

    # The time is not sent again as a new one: only the title changes.
    assert browser.submit(f"{page}/edit", f"{page}/edit", **form | {"title": "Check"}).status == 303
    api = f"/v1/appointments/{appointment['id']}"
    assert (get_resource(stage, api)["status"], get_resource(stage, api)["title"]) == ("pending", "Check")
    assert browser.submit(page, f"{page}/confirm").status == 303
    assert get_resource(stage, api)["status"] == "confirmed"
    assert browser.submit(f"{page}/edit", f"{page}/edit", **form | {"at": "2030-07-01T11:00"}).status == 303
    assert get_resource(stage, api)["status"] == "rescheduled"
    assert get_resource(stage, api)["appointment_at"] == "2030-07-01T09:00:00.000Z"
    assert browser.submit(f"{page}/cancel", f"{page}/cancel", cancellation_reason="moved away").status == 303
    assert get_resource(stage, api)["cancellation_reason"] == "moved away"
    refused = browser.submit(f"{page}/edit", f"{page}/edit", **form)
    assert refused.status == 409
    assert "cannot change from cancelled" in refused.text
    actions = [entry.action for entry in trail(story.project.id)]
    assert actions[:2] == ["appointment.cancelled", "appointment.changed"]
    assert actions[-1] == "appointment.created"
    assert "moved away" not in repr(trail(story.project.id))


def test_the_list_of_appointments_states_its_order(stage: Stage, whole: Whole) -> None:
    browser = signed_in(stage, "order@example.com", {whole.story.project.id: members.VIEWER})
    for title, day in (("Created first", "02"), ("Created last", "01")):
        fields = {"customer_id": whole.ids["customers"], "title": title, "appointment_at": f"2031-02-{day}T09:00:00Z"}
        create_resource(stage, "/v1/appointments", **fields)
    for query, says, first, last in (
        ("", "the last created first", "Created last", "Created first"),
        ("?since=2031-02-01&until=2031-02-02", "latest time first", "Created first", "Created last"),
    ):
        text = browser.get(f"{whole.story.path}/appointments{query}").page.text
        assert f"Appointments, {says}" in text
        assert text.index(first) < text.index(last)


@pytest.mark.parametrize(
    ("field", "text"),
    [("at", "soon"), ("at", ""), ("timezone", "Mars/Base"), ("duration_minutes", "half"), ("duration_minutes", "0")],
)
def test_an_appointment_form_says_what_is_wrong(stage: Stage, whole: Whole, field: str, text: str) -> None:
    browser = signed_in(stage, "member@example.com", {whole.story.project.id: members.MEMBER})
    path = f"{whole.story.path}/customers/{whole.ids['customers']}/new_appointment"
    before = list_resources(stage, "/v1/appointments")
    shown = browser.submit(path, path, **{"at": "2030-07-01T10:30", "title": "typed"} | {field: text})
    assert shown.status == 400
    assert 'role="alert"' in shown.text
    assert 'value="typed"' in shown.text
    assert text != "half" or "“Duration in minutes” must be a whole number" in shown.page.text
    assert list_resources(stage, "/v1/appointments") == before


def test_a_call_is_placed_and_shown_with_transcript_and_recording(
    stage: Stage, whole: Whole, stopped_clock: Clock
) -> None:
    story, customer = whole.story, whole.ids["customers"]
    browser = signed_in(stage, "member@example.com", {story.project.id: members.MEMBER})
    path = f"{story.path}/customers/{customer}/call"
    sent = {"appointment_id": whole.ids["appointments"], "instructions": "Be kind."}
    location = browser.submit(path, path, **sent).location
    session = id_of(location)
    waiting = browser.get(location)
    assert "was requested" in waiting.text
    assert 'hx-trigger="every ' in waiting.text
    again = browser.submit(path, path, **sent)
    assert again.status == 409
    assert "call that is queued or in progress" in again.text
    assert "Be kind." in again.text, "what was typed is kept"

    dial(stage, stopped_clock, Scope(story.project.id, False), session)
    page = f"{story.path}/sessions/{session}"
    shown = browser.get(page)
    assert "Completed" in shown.text
    assert 'hx-trigger="every ' not in shown.text
    policy = shown.headers["content-security-policy"][0]
    assert re.search(r"; media-src 'self' https?://[^/; ]+$", policy)
    played = browser.get(f"{page}/recording")
    assert played.status == 303
    assert urllib.parse.urlsplit(played.location).netloc in policy
    downloaded = browser.get(f"{page}/recording/download")
    assert downloaded.status == 303
    asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(downloaded.location).query))
    assert asked["response-content-disposition"] == f'attachment; filename="{session}.wav"'
    assert f"{page}/recording/download" in shown.text
    assert "Signature" not in shown.text, "the link itself is not in the page"
    transcript = get_resource(stage, f"/v1/sessions/{session}/transcript")["data"]
    for line in transcript:
        assert " ".join(line["content"].split()) in shown.page.text
    fragment = browser.get(f"{page}/progress", HX_Request="true")
    assert fragment.headers["hx-refresh"] == ["true"]
    assert browser.get(f"{page}/progress").location == page
    assert trail(story.project.id)[0].action == "customer.called"
    assert session in browser.get(f"{story.path}/sessions?call_status=completed").text
    assert session not in browser.get(f"{story.path}/sessions?call_status=failed").text
    assert session in browser.get(f"{story.path}/sessions?outcome=confirmed").text
    assert session not in browser.get(f"{story.path}/sessions?outcome=handed_off").text


def test_a_call_is_placed_for_a_time_in_the_zone_of_the_settings(stage: Stage, whole: Whole) -> None:
    story, customer = whole.story, whole.ids["customers"]
    assert stage.call("PATCH", "/v1/agent_settings", {"timezone": "Europe/Berlin"}).status == 200
    browser = signed_in(stage, "member@example.com", {story.project.id: members.MEMBER})
    path = f"{story.path}/customers/{customer}/call"
    assert "Europe/Berlin" in browser.get(path).page.text
    for wrong in ("soon", "2400-01-01T09:00"):
        refused = browser.submit(path, path, not_before=wrong)
        assert refused.status == 400
        assert f'value="{wrong}"' in refused.text, "what was typed is kept"
    at = clock.local(clock.now() + 10 * clock.DAY, UTC)[:10]
    session = id_of(browser.submit(path, path, not_before=f"{at}T09:30").location)
    assert get_resource(stage, f"/v1/sessions/{session}")["dial_at"][:16] in (f"{at}T08:30", f"{at}T07:30")


def test_a_conversation_that_waits_for_a_person_is_found_and_given_back(stage: Stage, whole: Whole) -> None:
    story, id = whole.story, whole.ids["conversations"]
    browser = signed_in(stage, "member@example.com", {story.project.id: members.MEMBER})
    page, waiting = f"{story.path}/conversations/{id}", f"{story.path}/conversations?status=waiting"
    assert id not in browser.get(waiting).text
    hand_off(stage, whole)
    assert id in browser.get(waiting).text
    assert "1 waits for a person" in browser.get(story.path).page.text
    for listing in (waiting, f"{story.path}/conversations", f"{story.path}/customers/{whole.ids['customers']}"):
        assert '<span class="badge waiting">Waits for a person</span>' in browser.get(listing).text
        assert "badge active" not in browser.get(listing).text
    shown = browser.get(page)
    assert "Waits for a person" in shown.text
    assert "Handed to a person" in shown.text
    assert "[[sim:handoff]]" in shown.page.text
    assert browser.submit(page, f"{page}/give_back").status == 303
    assert id not in browser.get(waiting).text
    assert "Give back" not in browser.get(page).text
    reply = create_resource(stage, f"/v1/conversations/{id}/messages", content="Hello")["reply"]
    assert not [one for one in reply["actions"] if one["type"] == "handoff"]

    hand_off(stage, whole)
    assert browser.submit(page, f"{page}/end").status == 303
    assert get_resource(stage, f"/v1/conversations/{id}")["status"] == "ended"
    assert id not in browser.get(waiting).text
    assert browser.submit(f"{story.path}/api_keys", f"{page}/end").status == 303
    actions = [entry.action for entry in trail(story.project.id)]
    assert actions == ["conversation.ended", "conversation.given_back"]


def test_the_reason_of_a_handoff_is_said_in_words(stage: Stage, whole: Whole) -> None:
    browser = signed_in(stage, "member@example.com", {whole.story.project.id: members.MEMBER})
    id = whole.ids["conversations"]
    create_resource(stage, f"/v1/conversations/{id}/messages", content="I want to speak to a person")
    shown = browser.get(f"{whole.story.path}/conversations/{id}").page.text
    assert "The customer asked for a person" in shown
    assert "person_requested" not in shown
    assert words.HANDOFF.keys() == {*HandoffReason}


def test_a_conversation_that_is_ended_by_the_api_waits_for_nobody(stage: Stage, whole: Whole) -> None:
    browser = signed_in(stage, "viewer@example.com", {whole.story.project.id: members.VIEWER})
    hand_off(stage, whole)
    id = whole.ids["conversations"]
    assert stage.call("POST", f"/v1/conversations/{id}/end").status == 200
    assert id not in browser.get(f"{whole.story.path}/conversations?status=waiting").text


def test_a_page_shows_what_needs_a_person_and_otherwise_that_all_is_well(
    stage: Stage, whole: Whole, stopped_clock: Clock
) -> None:
    story = whole.story
    browser = signed_in(stage, "member@example.com", {story.project.id: members.MEMBER})
    live = browser.get(f"{story.path}/attention".replace("/test", "/live"))
    assert "All is well" in live.text
    assert "No key of live mode has been used yet" in live.page.text
    assert "/dev/docs/getting-started" in live.text
    home = browser.get(f"{story.path}/attention")
    assert "All is well" not in home.text
    endpoint = whole.ids["webhook_endpoints"]
    assert f"failed_deliveries?endpoint={endpoint}" in home.text
    stopped_clock.forward(clock.DAY / clock.SECOND + 1)
    browser = signed_in(stage, "member@example.com")
    assert "Keys that were never used" in browser.get(f"{story.path}/attention".replace("/test", "/live")).text


def test_usage_is_shown_by_month(stage: Stage, story: Story, owner: Browser) -> None:
    scope = Scope(story.project.id, True)
    with as_test():
        row = usage.row(scope, "sess_1", clock.parse("2026-02-03T00:00:00Z"), calls=1, call_seconds=1234567)
        table.write([table.Put(row)])
    shown = owner.get(f"{story.path}/usage?month=2026-02")
    assert "1,234,567" in shown.text
    assert "Usage in February 2026 (UTC)" in shown.page.text
    links = {attributes.get("rel"): attributes["href"] for tag, attributes in shown.page.tags if tag == "a"}
    assert (links["prev"], links["next"]) == ("?month=2026-01", "?month=2026-03")
    assert "January 2026" in shown.page.text
    assert "March 2026" in shown.page.text
    assert "time" not in {tag for tag, _ in shown.page.tags}, "a script shows times in the viewer's zone"
    assert "1,234,567" not in owner.get(f"{story.path}/usage").text
    for wrong in ("2026-13", "now", "2026-1"):
        assert owner.get(f"{story.path}/usage?month={wrong}").status == 404


def test_the_months_of_usage_have_an_end(stage: Stage, story: Story, owner: Browser) -> None:
    page = owner.get(f"{story.path}/usage").page
    assert [attributes for _, attributes in page.tags if attributes.get("rel") in ("prev", "next")] == []


def test_an_owner_sets_the_limits_of_live_calls(stage: Stage, story: Story, owner: Browser) -> None:
    path = f"{story.path}/call_limits"
    form = {"at_once": "3", "per_day": "40", "prefixes": "+1\r\n+4930, +1"}
    assert owner.submit(path, path, **form).status == 303
    with as_test():
        allowed, _ = project_limits.of_project(Scope(story.project.id, True))
    assert allowed == project_limits.Limits(("+1", "+4930"), 3, 40)
    assert owner.submit(path, path, **form).status == 303
    [entry] = trail(story.project.id)
    assert (entry.action, entry.after) == (
        "call_limits.changed",
        {"prefixes": "+1, +4930", "at_once": 3, "per_day": 40},
    )
    for wrong in ({"at_once": "-1"}, {"per_day": ""}, {"prefixes": "1"}, {"prefixes": "+0"}, {"at_once": "many"}):
        refused = owner.submit(path, path, **form | wrong)
        assert refused.status == 400, wrong
        assert 'role="alert"' in refused.text
    with as_test():
        assert project_limits.of_project(Scope(story.project.id, True))[0] == allowed


@pytest.mark.parametrize(
    "wrong",
    [
        "customers?phone=1",
        "customers?starting_after=x",
        "appointments?status=nothing",
        "appointments?since=never",
        "sessions?call_status=nothing",
        "conversations?status=nothing",
        "failed_deliveries?since=never",
    ],
)
def test_a_filter_that_cannot_be_used_is_said(story: Story, owner: Browser, wrong: str) -> None:
    shown = owner.get(f"{story.path}/{wrong}")
    assert shown.status == 400
    assert 'role="alert"' in shown.text


@pytest.mark.parametrize("section", ["customers", "appointments", "conversations"])
def test_lists_have_the_pages_of_the_api(stage: Stage, story: Story, owner: Browser, section: str) -> None:
    if section == "appointments":
        customer = create_resource(stage, "/v1/customers", phone="+15005550006")["id"]
    for _ in range(51):
        fields = {
            "customers": {"phone": "+15005550006"},
            "conversations": {},
            "appointments": {"customer_id": customer, "appointment_at": "2030-01-01T00:00:00Z"}
            if section == "appointments"
            else {},
        }
        create_resource(stage, f"/v1/{section}", **fields[section])
    first = owner.get(f"{story.path}/{section}")
    [older] = [attributes["href"] for _, attributes in first.page.tags if attributes.get("rel") == "next"]
    second = owner.get(f"{story.path}/{section}{older}")
    ids = [set(re.findall(rf"/{section}/(\w+_\w{{26}})", shown.text)) for shown in (first, second)]
    assert len(ids[0]) == 50
    assert len(ids[0] | ids[1]) == len(list_resources(stage, f"/v1/{section}"))


def test_appointments_are_found_by_day(stage: Stage, whole: Whole) -> None:
    browser = signed_in(stage, "viewer@example.com", {whole.story.project.id: members.VIEWER})
    page, id = f"{whole.story.path}/appointments", whole.ids["appointments"]
    assert id in browser.get(f"{page}?since=2030-05-06&until=2030-05-06").text
    assert id not in browser.get(f"{page}?since=2030-05-07").text


def test_a_call_on_whatsapp_asks_the_customer_first(stage: Stage, story: Story) -> None:
    browser = signed_in(stage, "member@example.com", {story.project.id: members.MEMBER})
    customer = create_resource(stage, "/v1/customers", phone="+15005550020")["id"]
    path = f"{story.path}/customers/{customer}/call"
    location = browser.submit(path, path, channel="whatsapp").location
    shown = browser.get(location)
    assert "was asked for consent and has not answered" in shown.text
    assert get_resource(stage, f"/v1/sessions/{id_of(location)}")["consent"]["status"] == "pending"
    again = browser.submit(path, path, channel="whatsapp")
    assert id_of(again.location) == id_of(location), "the customer is asked nothing new"
    assert [entry.action for entry in trail(story.project.id)] == ["customer.called"]
