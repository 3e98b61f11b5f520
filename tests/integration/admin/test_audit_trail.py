"""The audit trail as people read it: names and links, filters, export."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime, timedelta

import pytest

from shared.admin import audit, members
from shared.core import clock
from shared.store import table
from tests.support.admin_client import Browser, Shown, Whole, as_test, database_calls, keys_of, signed_in
from tests.support.clocks import Clock
from tests.support.project_of_pages import hand_off_and_take
from tests.support.stage import Stage


@pytest.fixture
def owner(stage: Stage, whole: Whole) -> Browser:
    return signed_in(stage, "owner@example.com", {whole.story.project.id: members.OWNER})


def add_entry(whole: Whole, action: str, target: str, who: str = "ada@example.com", **after: str) -> None:
    """Somebody has changed something."""
    actor = audit.Actor(who, None, "req_1")
    with as_test():
        entry = audit.entry(whole.story.project.id, actor, action, target, livemode=False, after=after)
        table.write([entry])


def links(shown: Shown) -> set[str]:
    found = (attributes.get("href") or "" for tag, attributes in shown.page.tags if tag == "a")
    return {one.removeprefix("/dev") for one in found}


def actions(shown: Shown) -> list[str]:
    """The rows of the trail."""
    return [attributes["id"] or "" for tag, attributes in shown.page.tags if tag == "tr" and "id" in attributes]


def test_what_was_changed_is_named_and_linked(stage: Stage, whole: Whole, owner: Browser) -> None:
    ids, path = whole.ids, whole.story.path
    hand_off_and_take(stage, whole)
    add_entry(whole, "customer.changed", ids["customers"], fields="name")
    add_entry(whole, "appointment.changed", ids["appointments"])
    add_entry(whole, "conversation.taken", ids["conversations"])
    add_entry(whole, "customer.called", ids["customers"], session=ids["sessions"])
    add_entry(whole, "delivery.replayed", whole.story.delivery, event=whole.story.event)
    add_entry(whole, "webhook_endpoint.tested", ids["webhook_endpoints"])
    add_entry(whole, "agent_settings.changed", str(whole.story.project.id))
    owner.submit(f"{path}/api_keys/{ids['api_keys']}/revoke", f"{path}/api_keys/{ids['api_keys']}/revoke")
    shown = owner.get(f"{path}/audit_trail")
    for said in ("Check-up, Ada", "Conversation, Ada", whole.story.receiver.url, "Agent settings"):
        assert said in shown.page.text, said
    [key] = [one for one in keys_of(whole.story.project.id) if one.id == ids["api_keys"]]
    assert f"test …{key.last_four}" in shown.page.text
    sections = ("customers", "appointments", "conversations", "sessions", "webhook_endpoints")
    expected = {f"{path}/{section}/{ids[section]}" for section in sections}
    expected |= {f"{path}/events/{whole.story.event}#{whole.story.delivery}", f"{path}/agent_settings"}
    expected |= {f"{path}/api_keys#{ids['api_keys']}", f"{path}/members/{ids['members']}"}
    assert expected <= links(shown)


def test_a_change_of_the_other_mode_leads_to_its_page(stage: Stage, whole: Whole, owner: Browser) -> None:
    add_entry(whole, "customer.changed", whole.ids["customers"])
    shown = owner.get(whole.story.path.replace("/test", "/live") + "/audit_trail")
    assert f"{whole.story.path}/customers/{whole.ids['customers']}" in links(shown)
    assert "Ada" in shown.page.text


def test_the_trail_is_filtered_by_person_kind_and_day(whole: Whole, owner: Browser, stopped_clock: Clock) -> None:
    add_entry(whole, "customer.changed", whole.ids["customers"], who="a@example.com")
    add_entry(whole, "appointment.changed", whole.ids["appointments"], who="a@example.com")
    stopped_clock.forward(3 * 86_400)
    owner.cookies = signed_in(owner.stage, "owner@example.com").cookies
    add_entry(whole, "customer.changed", whole.ids["customers"], who="b@example.com")
    page, today = f"{whole.story.path}/audit_trail", clock.iso(clock.now())[:10]

    def count_entries(query: str) -> int:
        return len(actions(owner.get(f"{page}?{query}")))

    assert count_entries("who=a@example.com") == 2
    assert count_entries("kind=customer") == 2
    assert count_entries("who=a@example.com&kind=customer") == 1
    assert count_entries(f"kind=customer&since={today}") == 1
    yesterday = (datetime.fromtimestamp(stopped_clock.now, UTC) - timedelta(days=1)).date()
    assert count_entries(f"kind=customer&until={yesterday}") == 1
    assert count_entries("who=nobody@example.com") == 0
    refused = owner.get(f"{page}?since=yesterday")
    assert refused.status == 400
    assert 'role="alert"' in refused.text


def test_older_changes_keep_the_filter(whole: Whole, owner: Browser) -> None:
    for _ in range(audit.PAGE + 1):
        add_entry(whole, "customer.changed", whole.ids["customers"], who="a@example.com")
    first = owner.get(f"{whole.story.path}/audit_trail?who=a@example.com")
    [older] = [attributes["href"] for tag, attributes in first.page.tags if attributes.get("rel") == "next"]
    second = owner.get(f"{whole.story.path}/audit_trail{older}")
    assert (len(actions(first)), len(actions(second))) == (audit.PAGE, 1)
    assert not {*actions(first)} & {*actions(second)}


def test_an_owner_exports_what_the_filter_lets_through(whole: Whole, owner: Browser) -> None:
    page = f"{whole.story.path}/audit_trail"
    add_entry(whole, "api_key.created", "key_1", who="a@example.com", label="=1+1")
    add_entry(whole, "customer.changed", "=cmd|' /C calc'!A0", who="a@example.com")
    add_entry(whole, "customer.changed", whole.ids["customers"], who="b@example.com")
    shown = owner.submit(f"{page}?who=a@example.com", f"{page}/export")
    assert shown.status == 200
    assert shown.headers["content-disposition"] == ['attachment; filename="audit-trail.csv"']
    rows = [*csv.DictReader(io.StringIO(shown.text))]
    assert [row["action"] for row in rows] == ["customer.changed", "api_key.created"]
    assert rows[0]["target"].startswith("'="), "no spreadsheet runs it"
    assert rows[1]["after"] == '{"label":"=1+1"}'
    assert "Exported the audit trail" in owner.get(page).page.text


def test_the_reads_of_the_trail_do_not_grow(whole: Whole, owner: Browser) -> None:
    page = f"{whole.story.path}/audit_trail"
    add_entry(whole, "customer.changed", whole.ids["customers"])
    few = database_calls(owner, page)
    for _ in range(30):
        add_entry(whole, "appointment.changed", whole.ids["appointments"])
    assert len(database_calls(owner, page)) <= len(few) + 1, "an appointment's customer is read, too"
