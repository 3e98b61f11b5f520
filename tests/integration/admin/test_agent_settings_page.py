"""The page with the settings of the agent."""

from __future__ import annotations

from typing import Any

import pytest

from shared.admin import members
from tests.support.browsing import Browser, Story, signed_in, trail
from tests.support.stage import Stage

DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday"]


@pytest.fixture
def member(stage: Stage, story: Story) -> Browser:
    return signed_in(stage, "desk@example.com", {story.project.id: members.MEMBER})


def settings(stage: Stage) -> Any:
    return stage.call("GET", "/v1/agent_settings").json


def save(browser: Browser, story: Story, **form: str) -> Any:
    path = f"{story.path}/agent_settings"
    return browser.submit(path, path, **form)


def test_hours_and_facts_are_written_as_a_person_writes_them(stage: Stage, story: Story, member: Browser) -> None:
    week = {f"opening_hours_{day}": "9-12:30, 14:00 \u2013 18.00" for day in DAYS}
    facts = "Do you have parking?\r\nYes, behind the house.\r\nIt is free.\r\n\r\n\r\nWhere are you?\r\n12 Main Street"
    saved = save(member, story, **week, opening_hours_saturday="22 to 24", facts=facts, business_phone="+49 30 901820")
    assert saved.status == 303
    assert settings(stage)["opening_hours"] == [
        {"days": DAYS, "from": "09:00", "to": "12:30"},
        {"days": DAYS, "from": "14:00", "to": "18:00"},
        {"days": ["saturday"], "from": "22:00", "to": "24:00"},
    ]
    assert settings(stage)["facts"] == [
        {"question": "Do you have parking?", "answer": "Yes, behind the house.\nIt is free."},
        {"question": "Where are you?", "answer": "12 Main Street"},
    ]
    assert settings(stage)["business_phone"] == "+4930901820"
    [entry] = trail(story.project.id)
    assert entry.action == "agent_settings.changed"
    assert save(member, story).status == 303
    assert len(trail(story.project.id)) == 1, "what was not changed is not written"


def test_an_emptied_field_brings_the_default_back(stage: Stage, story: Story, member: Browser) -> None:
    save(member, story, timezone="Europe/Berlin", minimum_notice_minutes="60", opening_hours_monday="9-17")
    save(member, story, timezone="", minimum_notice_minutes="", opening_hours_monday="")
    kept = settings(stage)
    assert (kept["timezone"], kept["minimum_notice_minutes"], kept["opening_hours"]) == ("UTC", 0, [])


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("opening_hours_monday", "nine to five"),
        ("opening_hours_monday", "17:00-09:00"),
        ("opening_hours_sunday", "23-24:30"),
        ("facts", "Do you have parking?"),
        ("timezone", "Berlin"),
        ("business_phone", "030 901820"),
        ("minimum_notice_minutes", "soon"),
    ],
)
def test_what_cannot_be_saved_is_said_and_kept(
    stage: Stage, story: Story, member: Browser, field: str, wrong: str
) -> None:
    before = settings(stage)
    refused = save(member, story, **{field: wrong})
    assert refused.status == 400
    assert 'role="alert"' in refused.text
    assert refused.form(f"{story.path}/agent_settings")[field] == wrong
    assert settings(stage) == before


def test_a_viewer_sees_the_settings_and_changes_nothing(stage: Stage, story: Story) -> None:
    viewer = signed_in(stage, "viewer@example.com", {story.project.id: members.VIEWER})
    page = viewer.get(f"{story.path}/agent_settings")
    assert page.status == 200
    assert "<button>Save</button>" not in page.text
    form = {"csrf": page.field("csrf"), "business_name": "Mine"}
    assert viewer.post(f"{story.path}/agent_settings", form).status == 403


def test_changes_of_two_people_are_both_kept_or_asked_about(stage: Stage, story: Story, member: Browser) -> None:
    path = f"{story.path}/agent_settings"
    form = member.get(path).form(path)
    assert save(member, story, opening_hours_monday="9-17").status == 303
    assert member.post(path, form | {"business_name": "Blue Clinic"}).status == 303
    assert settings(stage)["opening_hours"] == [{"days": ["monday"], "from": "09:00", "to": "17:00"}]
    asked = member.post(path, form | {"opening_hours_tuesday": "9-17"})
    assert asked.status == 409, "the week is one setting, so Monday would be lost"
