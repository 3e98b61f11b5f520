"""Forms that were opened before somebody else changed the same thing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from shared.admin import members
from shared.calls import project_limits
from shared.calls.project_limits import PER_DAY, Limits
from shared.store.keys import Scope
from tests.support.admin_client import Browser, Shown, Whole, as_test, signed_in, trail
from tests.support.concurrency import just_before
from tests.support.resources import get_resource, list_resources
from tests.support.simulated_calls import limit_calls
from tests.support.stage import Stage


@dataclass
class Opened:
    """An edit form that a person has opened, and the resource that it edits."""

    stage: Stage
    browser: Browser
    page: str
    api: str

    def __post_init__(self) -> None:
        self.fields = self.browser.get(self.page).form(self.page)

    def save(self, **typed: str) -> Shown:
        """Send the form as it was opened, with what the person typed."""
        return self.browser.post(self.page, self.fields | typed)

    def change(self, **fields: Any) -> None:
        """Change the resource by the API meanwhile."""
        changed = self.stage.call("PATCH", self.api, fields)
        assert changed.status == 200, changed.body

    def now(self, *names: str) -> list[Any]:
        resource = get_resource(self.stage, self.api)
        return [resource[name] for name in names]


def open_form(stage: Stage, whole: Whole, section: str) -> Opened:
    browser = signed_in(stage, "member@example.com", {whole.story.project.id: members.MEMBER})
    path = f"{section}/{whole.ids[section]}"
    return Opened(stage, browser, f"{whole.story.path}/{path}/edit", f"/v1/{path}")


FIELDS: Mapping[str, Mapping[str, tuple[str, Any, str]]] = {
    "appointments": {
        "title": ("typed", "theirs", "typed"),
        "location": ("typed", "theirs", "typed"),
        "notes": ("typed\r\ntwo", "theirs", "typed\ntwo"),
        "external_id": ("typed", "theirs", "typed"),
    },
    "customers": {
        "phone": ("+15005550007", "+15005550008", "+15005550007"),
        "name": ("typed", "theirs", "typed"),
        "email": ("typed@example.com", "theirs@example.com", "typed@example.com"),
        "external_id": ("typed", "theirs", "typed"),
    },
    "webhook_endpoints": {
        "url": ("https://example.com/typed", "https://example.com/theirs", "https://example.com/typed"),
        "label": ("typed", "theirs", "typed"),
        "description": ("typed", "theirs", "typed"),
    },
}
"""By section and field: what the person types, what the API sets meanwhile, and what is stored once it was saved."""
EACH = [(section, field) for section, fields in FIELDS.items() for field in fields]


@pytest.mark.parametrize(("section", "field"), EACH)
def test_a_form_leaves_alone_what_the_person_has_not_changed(
    stage: Stage, whole: Whole, section: str, field: str
) -> None:
    form = open_form(stage, whole, section)
    others = [name for name in FIELDS[section] if name != field]
    form.change(**{name: FIELDS[section][name][1] for name in others})
    typed, _, saved = FIELDS[section][field]
    assert form.save(**{field: typed}).status == 303
    assert form.now(field, *others) == [saved, *(FIELDS[section][name][1] for name in others)]
    [entry] = trail(whole.story.project.id)
    assert entry.after == {"fields": field} or set(entry.after) == {field}, "the trail names what the person changed"


@pytest.mark.parametrize(("section", "field"), EACH)
def test_a_form_asks_before_it_replaces_what_somebody_else_has_changed(
    stage: Stage, whole: Whole, section: str, field: str
) -> None:
    form = open_form(stage, whole, section)
    typed, theirs, saved = FIELDS[section][field]
    form.change(**{field: theirs})
    asked = form.save(**{field: typed})
    assert asked.status == 409
    assert "Somebody else has changed" in asked.page.text
    assert f"now: {theirs}" in asked.page.text
    assert asked.form(form.page)[field] == typed, "what was typed is kept"
    assert form.now(field) == [theirs], "nothing was saved"
    assert trail(whole.story.project.id) == []
    # The person has seen it, and saves the same form again.
    assert form.browser.post(form.page, asked.form(form.page)).status == 303
    assert form.now(field) == [saved]


@pytest.mark.parametrize(("section", "field"), EACH)
def test_what_two_people_change_to_the_same_value_is_no_conflict(
    stage: Stage, whole: Whole, section: str, field: str
) -> None:
    form = open_form(stage, whole, section)
    typed, _, saved = FIELDS[section][field]
    form.change(**{field: saved})
    assert form.save(**{field: typed}).status == 303
    assert form.now(field) == [saved]
    assert trail(whole.story.project.id) == []


def test_a_note_does_not_move_an_appointment_back(stage: Stage, whole: Whole) -> None:
    form = open_form(stage, whole, "appointments")
    form.change(appointment_at="2030-06-01T10:00:00Z", timezone="Europe/Berlin")
    assert form.save(notes="Bring the papers").status == 303
    assert form.now("appointment_at", "timezone", "notes") == [
        "2030-06-01T10:00:00.000Z",
        "Europe/Berlin",
        "Bring the papers",
    ]
    stage.fan_out()
    events = [one for one in list_resources(stage, "/v1/events") if one["type"] == "appointment.rescheduled"]
    assert len(events) == 1


@pytest.mark.parametrize("meanwhile", [{"appointment_at": "2030-06-01T10:00:00Z"}, {"timezone": "Asia/Tokyo"}])
@pytest.mark.parametrize("typed", [{"at": "2030-07-01T10:00"}, {"timezone": "Europe/Berlin"}])
def test_time_and_time_zone_are_one_field(
    stage: Stage, whole: Whole, meanwhile: dict[str, str], typed: dict[str, str]
) -> None:
    form = open_form(stage, whole, "appointments")
    form.change(**meanwhile)
    before = form.now("appointment_at", "timezone")
    assert form.save(**typed).status == 409
    assert form.now("appointment_at", "timezone") == before


@pytest.mark.parametrize("section", ["appointments", "customers"])
def test_metadata_that_somebody_else_has_changed_is_kept_or_asked_about(
    stage: Stage, whole: Whole, section: str
) -> None:
    form = open_form(stage, whole, section)
    form.change(metadata={"theirs": 1})
    assert form.save(external_id="typed").status == 303
    assert form.now("metadata", "external_id") == [{"theirs": 1}, "typed"]
    asked = form.save(metadata='{"typed": 2}')
    assert asked.status == 409
    assert '"theirs": 1' in asked.page.text
    assert form.browser.post(form.page, asked.form(form.page)).status == 303
    assert form.now("metadata") == [{"typed": 2}]


def test_filters_of_events_are_left_alone_or_asked_about(stage: Stage, whole: Whole) -> None:
    form = open_form(stage, whole, "webhook_endpoints")
    form.change(event_filters=["customer.*", "session.*"])
    assert form.save(label="Books").status == 303
    assert form.now("event_filters", "label") == [["customer.*", "session.*"], "Books"]
    asked = form.save(event_filters="appointment.*")
    assert asked.status == 409
    assert "now: customer.* session.*" in asked.page.text
    assert form.now("event_filters") == [["customer.*", "session.*"]]


def test_another_wrong_value_does_not_hide_what_was_changed_meanwhile(stage: Stage, whole: Whole) -> None:
    form = open_form(stage, whole, "customers")
    refused = form.save(name="typed", email="nobody")
    assert refused.status == 400
    form.change(name="theirs")
    again = form.browser.post(form.page, refused.form(form.page) | {"email": ""})
    assert again.status == 409
    assert form.now("name") == ["theirs"]


@pytest.mark.parametrize("text", ["two\nlines", " spaces ", "tab\there", "a\r\nb", "\n\nfirst", "ünï 💩", "a\u2028b"])
def test_a_form_that_nobody_has_touched_changes_nothing(stage: Stage, whole: Whole, text: str) -> None:
    browser = signed_in(stage, "member@example.com", {whole.story.project.id: members.MEMBER})
    written = {
        "customers": {"name": text, "external_id": text, "metadata": {"k": text}},
        "appointments": {"title": text, "notes": text, "location": text, "metadata": {"k": text}},
        "webhook_endpoints": {"label": text, "description": text, "event_filters": ["customer.*", "session.*"]},
    }
    for section, values in written.items():
        api = f"/v1/{section}/{whole.ids[section]}"
        assert stage.call("PATCH", api, values).status == 200
        before = get_resource(stage, api)
        page = f"{whole.story.path}/{section}/{whole.ids[section]}/edit"
        fields = browser.get(page).form(page)
        # A browser removes line breaks from fields of one line.
        areas = ("notes", "description", "metadata", "event_filters")
        sent = {name: value if name in areas else " ".join(value.splitlines()) for name, value in fields.items()}
        assert browser.post(page, sent).status == 303
        assert get_resource(stage, api) == before
    assert trail(whole.story.project.id) == []


def test_limits_that_another_owner_has_changed_are_kept_or_asked_about(stage: Stage, whole: Whole) -> None:
    browser = signed_in(stage, "owner@example.com", {whole.story.project.id: members.OWNER})
    path = f"{whole.story.path}/call_limits"
    form = browser.get(path).form(path)
    assert browser.submit(path, path, at_once="7", prefixes="+49").status == 303
    assert browser.post(path, form | {"per_day": "40"}).status == 303
    with as_test():
        assert project_limits.of_project(Scope(whole.story.project.id, True))[0] == Limits(("+49",), 7, 40)
    asked = browser.post(path, form | {"at_once": "3"})
    assert asked.status == 409
    assert "now: 7" in asked.page.text
    assert browser.post(path, asked.form(path)).status == 303
    with as_test():
        assert project_limits.of_project(Scope(whole.story.project.id, True))[0] == Limits(("+49",), 3, 40)


def test_limits_that_another_owner_changes_at_the_same_moment_are_asked_about(stage: Stage, whole: Whole) -> None:
    browser = signed_in(stage, "owner@example.com", {whole.story.project.id: members.OWNER})
    path = f"{whole.story.path}/call_limits"

    def change_by_another() -> None:
        with as_test():
            limit_calls(whole.story.project.id, Limits(("+49",), 7, PER_DAY))

    with just_before("TransactWriteItems", change_by_another):
        asked = browser.submit(path, path, at_once="3")
    assert asked.status == 409
    assert "now: 7" in asked.page.text
    with just_before("TransactWriteItems", change_by_another):
        assert browser.submit(path, path, per_day="40").status == 303
    with as_test():
        assert project_limits.of_project(Scope(whole.story.project.id, True))[0] == Limits(("+49",), 7, 40)


def test_a_role_that_another_owner_has_given_is_kept_or_asked_about(stage: Stage, whole: Whole) -> None:
    browser = signed_in(stage, "owner@example.com", {whole.story.project.id: members.OWNER})
    path = f"{whole.story.path}/members/{whole.ids['members']}"
    form = browser.get(path).form(path)
    assert form["role"] == members.MEMBER

    def role() -> str:
        with as_test():
            return members.find(whole.story.project.id, whole.ids["members"]).role

    assert browser.submit(path, path, role=members.OWNER).status == 303
    assert browser.post(path, form).status == 303
    assert role() == members.OWNER, "nobody has chosen another role"
    asked = browser.post(path, form | {"role": members.VIEWER})
    assert asked.status == 409
    assert "now: owner" in asked.page.text
    assert role() == members.OWNER
    assert browser.post(path, asked.form(path)).status == 303
    assert role() == members.VIEWER
