"""The page with the settings of the agent."""

from __future__ import annotations

from typing import Any

import pytest

from shared.admin import members
from tests.support.admin_client import Browser, Markup, Story, signed_in, trail
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


def ask(browser: Browser, story: Story, question: str, **form: str) -> Any:
    return save(browser, story, ask="1", content=question, **form)


def preview_text(page: Any) -> str:
    return Markup.of(page.text.partition("<blockquote")[2].partition(">")[2].partition("</blockquote>")[0]).text


def test_the_agent_answers_with_what_is_in_the_form_and_nothing_is_stored(
    stage: Stage, story: Story, member: Browser
) -> None:
    path = f"{story.path}/agent_settings"
    before, conversations = settings(stage), stage.call("GET", "/v1/conversations").json["data"]
    typed = {"business_name": "Blue *Clinic*", "facts": "Do you have parking?\nYes, behind the **house**."}
    page = ask(member, story, "do you have parking?", **typed)
    assert page.status == 200
    assert preview_text(page).startswith("I am the automated AI assistant of Blue *Clinic*. Yes, behind the **house**.")
    assert settings(stage) == before
    assert stage.call("GET", "/v1/conversations").json["data"] == conversations
    assert trail(story.project.id) == []
    # The form is still the one that the person has filled in, and can be saved.
    form = page.form(path)
    assert (form["content"], form["business_name"]) == ("do you have parking?", "Blue *Clinic*")
    assert member.post(path, {name: value for name, value in form.items() if name != "ask"}).status == 303
    assert settings(stage)["business_name"] == "Blue *Clinic*"
    assert "Yes, behind the **house**." in preview_text(ask(member, story, "Do you have parking?"))


@pytest.mark.parametrize("question", ["", "x" * 8001, "a\x00b"])
def test_a_question_that_no_customer_could_send_is_refused(story: Story, member: Browser, question: str) -> None:
    page = ask(member, story, question, business_name="Blue Clinic")
    assert page.status == 400
    assert 'role="alert"' in page.text
    assert page.form(f"{story.path}/agent_settings")["business_name"] == "Blue Clinic"


def test_settings_that_cannot_be_saved_are_not_previewed(story: Story, member: Browser) -> None:
    page = ask(member, story, "Are you open?", opening_hours_monday="nine to five")
    assert (page.status, page.form(f"{story.path}/agent_settings")["content"]) == (400, "Are you open?")


def test_a_preview_in_live_mode_asks_no_model(story: Story, member: Browser) -> None:
    page, path = member.get(f"{story.path}/agent_settings"), f"{story.path}/agent_settings".replace("/test/", "/live/")
    form = {"csrf": page.field("csrf"), "ask": "1", "content": "When are you open?"}
    assert "I am the automated AI assistant of " in preview_text(member.post(path, form))


def test_a_preview_needs_a_member_and_the_forms_token(stage: Stage, story: Story, member: Browser) -> None:
    path = f"{story.path}/agent_settings"
    viewer = signed_in(stage, "viewer@example.com", {story.project.id: members.VIEWER})
    form = {"csrf": viewer.get(path).field("csrf"), "ask": "1", "content": "Are you open?"}
    assert viewer.post(path, form).status == 403
    assert 'name="ask"' not in viewer.get(path).text
    assert member.post(path, {"ask": "1", "content": "Are you open?"}).status == 403
