"""What an owner takes out of the pages: lists as CSV, a person as JSON; and what happened with a customer."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import UTC

import pytest

from functions.admin import exports, timeline, times
from shared.admin import members
from shared.store.keys import Scope
from tests.support import erasures, simulated_calls
from tests.support.admin_client import Browser, Shown, Whole, as_test, signed_in, trail
from tests.support.client_actions import simulated_phone, unique
from tests.support.clocks import Clock
from tests.support.resources import create_resource
from tests.support.stage import Stage

WHEN = "2031-05-06T07:08:09Z"
SHOWN = {
    *("customer", "appointment", "deleted_appointment", "session", "transcript", "conversation", "message"),
    *("event", "delivery"),
}
"""The kinds of rows that a person's file has."""
NOT_SHOWN = {"search", "thread", "usage", "idempotency", "audit_entry"}
"""Those that it does not need: copies of what it has, numbers, and changes without values."""


@pytest.fixture
def owner(stage: Stage, whole: Whole) -> Browser:
    return signed_in(stage, f"{unique('owner')}@example.com", {whole.story.project.id: members.OWNER})


def rows_of(shown: Shown) -> list[dict[str, str]]:
    assert shown.status == 200
    assert shown.text.startswith("\ufeff"), "a spreadsheet reads it as UTF-8"
    return [*csv.DictReader(io.StringIO(shown.text[1:]))]


def test_lists_are_exported_with_the_filters_in_force(stage: Stage, whole: Whole, owner: Browser) -> None:
    path = whole.story.path
    create_resource(
        stage, "/v1/customers", phone="+12125550141", name="=1+1", email="zoe@example.com", metadata={"k": "ü"}
    )
    create_resource(stage, "/v1/customers", phone="+12125550142", name="  @SUM(A1)", external_id="-2+3")
    [row] = rows_of(owner.submit(f"{path}/customers?email=zoe@example.com", f"{path}/customers/export"))
    assert (row["name"], row["phone"], row["metadata"]) == ("'=1+1", "+12125550141", '{"k":"ü"}')
    rows = rows_of(owner.submit(f"{path}/customers", f"{path}/customers/export"))
    assert [(one["name"], one["external_id"]) for one in rows[:1]] == [("'  @SUM(A1)", "'-2+3")]
    appointment = whole.ids["appointments"]
    assert stage.call("PATCH", f"/v1/appointments/{appointment}", {"status": "confirmed"}).status == 200
    create_resource(stage, "/v1/appointments", customer_id=whole.ids["customers"], appointment_at=WHEN, title="Pending")
    [row] = rows_of(owner.submit(f"{path}/appointments?status=confirmed", f"{path}/appointments/export"))
    assert (row["id"], row["customer_name"], row["customer_phone"]) == (appointment, "Ada", "+15005550006")
    [row] = rows_of(owner.submit(f"{path}/sessions", f"{path}/sessions/export"))
    assert (row["id"], row["outcome"]) == (whole.ids["sessions"], "")
    entries = trail(whole.story.project.id)
    assert [one.action.partition(".")[2] for one in entries[:4]] == ["list_exported"] * 4
    assert entries[3].after == {"rows": 1, "filters": "email"}
    assert "zoe@example.com" not in json.dumps([one.after for one in entries]), "an erasure leaves the trail as it is"
    assert owner.submit(f"{path}/sessions", f"{path}/sessions/export", outcome="x").status == 400


def test_an_export_ends_before_a_response_is_too_large(
    stage: Stage, whole: Whole, owner: Browser, stopped_clock: Clock
) -> None:
    # In the response, such a character takes twelve bytes.
    metadata = {f"key {number}": "\U0001f44b" * 490 for number in range(8)}
    for _ in range(115):
        # A key has 100 requests a second.
        stopped_clock.forward(0.1)
        create_resource(stage, "/v1/customers", phone="+12125550144", metadata=metadata)
    shown = owner.submit(f"{whole.story.path}/customers", f"{whole.story.path}/customers/export")
    count = len(rows_of(shown))
    assert 90 < count < 115
    assert shown.headers["content-disposition"] == [f'attachment; filename="customers-first-{count}.csv"']
    assert len(json.dumps(shown.text)) < exports.MOST_BYTES + 1_000
    [entry] = trail(whole.story.project.id)[:1]
    assert entry.after == {"rows": count, "filters": ""}


def test_only_owners_export(stage: Stage, whole: Whole) -> None:
    member = signed_in(stage, f"{unique('member')}@example.com", {whole.story.project.id: members.MEMBER})
    for page in ("customers", "appointments", "sessions", f"customers/{whole.ids['customers']}"):
        path = f"{whole.story.path}/{page}"
        assert "Export" not in member.get(path).page.text
        assert member.submit(path, f"{path}/export").status == 403


def test_a_person_is_exported_with_all_that_an_erasure_removes(
    stage: Stage, stopped_clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMULATE_LIVE", "1")
    project = stage.project()
    stage._key = project.live_key
    create_resource(stage, "/v1/webhook_endpoints", url="http://127.0.0.1:1/")
    whom = erasures.person(stage, stopped_clock, erasures.live(stage, project), unique("quetzal"))
    browser = signed_in(stage, f"{unique('owner')}@example.com", {project.id: members.OWNER})
    page = f"/admin/projects/{project.id}/live/customers/{whom.id}"
    shown = browser.submit(page, f"{page}/export")
    assert shown.headers["content-disposition"] == [f'attachment; filename="{whom.id}.json"']
    found = json.loads(shown.text)
    assert [one["id"] for one in found["customers"]] == [whom.id]
    assert found["phones"][0]["phone"] == whom.phone
    assert found["phones"][0]["consent"]["status"] is not None
    with as_test():
        erasures.trace(whom)
        kinds = {row["kind"] for row in erasures.rows().values() if whom.owns(row)}
    assert kinds == SHOWN | NOT_SHOWN, "every kind of row about a person is in the file, or here with a reason"
    # Its ids, and each text that was stored with the person's mark.
    assert {id for id in whom.traces if id not in shown.text} == set()
    for text in ("name", "title", "location", "notes", "external_id", "instructions", "metadata", "reason"):
        assert f"{text} of {whom.mark}" in shown.text, text
    assert [len(found[part]) for part in ("appointments", "sessions", "conversations")] == [3, 2, 3]
    assert all(call["transcript"] for call in found["sessions"])
    assert any(event["deliveries"] for event in found["events"])
    assert [one.action for one in trail(project.id)][:1] == ["customer.exported"]
    other = signed_in(stage, f"{unique('owner')}@example.com", {stage.project().id: members.OWNER})
    assert other.post(f"{page}/export", other.get("/admin/account").form("")).status == 404


def test_a_customers_page_is_a_timeline(stage: Stage, whole: Whole, owner: Browser) -> None:
    id = whole.ids["customers"]
    page = f"{whole.story.path}/customers/{id}"
    sent = stage.call(
        "POST", f"/v1/conversations/{whole.ids['conversations']}/messages", {"content": "When do I come?"}
    )
    assert sent.status == 201
    assert stage.call("PATCH", f"/v1/customers/{id}", {"do_not_call": True}).status == 200
    stage.fan_out()
    shown = owner.get(page).page.text
    said = ("Customer created", "Appointment made: Check-up", "Conversation began", "When do I come?", "not want to be")
    positions = [shown.index(one) for one in said]
    assert positions == sorted(positions, reverse=True), "the newest is first"
    assert "Nothing yet" in owner.get(f"{whole.story.path}/customers/{new_customer(stage)}").page.text
    assert owner.get(f"{page}?before=yesterday").status == 400


def test_the_timeline_begins_a_conversation_before_its_first_message(
    stage: Stage, whole: Whole, owner: Browser, stopped_clock: Clock
) -> None:
    id = new_customer(stage)
    sent = {"external_conversation_id": unique("chat"), "customer": {"id": id}, "content": "Is anybody there?"}
    assert stage.call("POST", "/v1/messages", sent).status == 201
    shown = owner.get(f"{whole.story.path}/customers/{id}").page.text
    assert 0 < shown.index("Is anybody there?") < shown.index("Conversation began"), "the newest is first"


def test_the_timeline_says_why_and_when_an_appointment_was_canceled(
    stage: Stage, whole: Whole, owner: Browser, stopped_clock: Clock
) -> None:
    stopped_clock.forward(120)
    canceled = {"status": "cancelled", "cancellation_reason": "moves to Rome"}
    changed = stage.call("PATCH", f"/v1/appointments/{whole.ids['appointments']}", canceled)
    assert changed.status == 200
    shown = owner.get(f"{whole.story.path}/customers/{whole.ids['customers']}").page.text
    assert "Canceled Reason: moves to Rome" in shown
    assert f", last changed {times.shown(changed.json['updated_at'], UTC)}" in shown


def new_customer(stage: Stage) -> str:
    return str(create_resource(stage, "/v1/customers", phone="+12125550143")["id"])


def test_the_pages_of_a_timeline_have_each_entry_once(
    stage: Stage, whole: Whole, owner: Browser, stopped_clock: Clock
) -> None:
    id = new_customer(stage)
    made = []
    for number in range(timeline.SHOWN + 5):
        stopped_clock.forward(1)
        made.append(
            create_resource(stage, "/v1/appointments", customer_id=id, appointment_at=WHEN, title=f"N{number}.")["id"]
        )
        if number % 10 == 0:
            stopped_clock.forward(1)
            conversation = create_resource(stage, "/v1/conversations", customer={"id": id})["id"]
            made.append(conversation)
    page, ids = f"{whole.story.path}/customers/{id}", list[str]()
    query: str | None = ""
    while query is not None:
        shown = owner.get(page + query)
        ids += re.findall(r"<li>\s*(?:Appointment made: )?<a href=\"[^\"]*/((?:appt|conv)_\w+)", shown.text)
        older = [attributes["href"] for tag, attributes in shown.page.tags if attributes.get("rel") == "next"]
        query = older[0] if older else None
    assert ids == made[::-1]


def test_a_call_that_has_ended_offers_another_one_at_the_time_that_was_asked_for(
    stage: Stage, whole: Whole, owner: Browser, stopped_clock: Clock
) -> None:
    id = new_customer(stage)
    assert stage.call("PATCH", f"/v1/customers/{id}", {"phone": simulated_phone("05")}).status == 200
    appointment = create_resource(stage, "/v1/appointments", customer_id=id, appointment_at=WHEN)["id"]
    placed = stage.call("POST", f"/v1/customers/{id}/call", {"appointment_id": appointment}).json["session_id"]
    page = f"{whole.story.path}/sessions/{placed}"
    assert "Call again" not in owner.get(page).page.text, "it has not ended"
    simulated_calls.dial(stage, stopped_clock, Scope(whole.story.project.id, False), placed)
    later = simulated_calls.session_of(stage, placed)["call_later_at"]
    links = [str(one["href"]).removeprefix("/dev") for tag, one in owner.get(page).page.tags if tag == "a"]
    [link] = [one for one in links if "/call?" in one]
    form = owner.get(link).page
    [field] = [one for tag, one in form.tags if one.get("name") == "not_before"]
    assert field["value"] == later[:16], "the project's time zone is UTC"
    [chosen] = [one["value"] for tag, one in form.tags if tag == "option" and "selected" in one]
    assert chosen == appointment
    called = owner.submit(link, f"{whole.story.path}/customers/{id}/call")
    again = simulated_calls.session_of(stage, called.location.partition("?")[0].rpartition("/")[2])
    assert again["not_before"] == f"{later[:16]}:00.000Z"
