"""The pages of API keys: an end, read-only keys, and rotation."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shared.admin import members
from shared.core import clock
from tests.support.admin_client import Browser, Shown, Story, keys_of, signed_in, trail
from tests.support.clocks import Clock
from tests.support.stage import Stage


@pytest.fixture
def owner(stage: Stage, story: Story) -> Browser:
    return signed_in(stage, "owner@example.com", {story.project.id: members.OWNER})


def plaintext(shown: Shown) -> str:
    [key] = set(re.findall(r"sk_(?:test|live)_[A-Za-z0-9]{16,}", shown.text))
    return str(key)


def newest(story: Story) -> Any:
    return keys_of(story.project.id)[-1]


def test_a_key_with_an_end_that_only_reads_is_created(stage: Stage, story: Story, owner: Browser) -> None:
    path = f"{story.path}/api_keys"
    day = (datetime.now(UTC) + timedelta(days=30)).date().isoformat()
    shown = owner.submit(path, path, label="reports", mode="test", access="read", expires_on=day)
    assert shown.status == 201
    key = newest(story)
    assert (key.label, key.read_only, key.expires_at[:10]) == (
        "reports",
        True,
        clock.iso(clock.parse(f"{day}T00:00:00Z") + clock.DAY)[:10],
    )
    assert stage.call("POST", "/v1/customers", {"name": "Ada"}, key=plaintext(shown)).code == "permission_denied"
    assert "Read-only" in owner.get(path).text
    assert "Expires" in owner.get(path).page.text
    [entry] = trail(story.project.id)
    assert entry.after == {"label": "reports", "mode": "test", "read_only": True, "expires_at": key.expires_at}


@pytest.mark.parametrize("day", ["2020-01-01", "tomorrow", "2030-02-30"])
def test_a_day_on_which_no_key_can_end_is_said_and_the_form_kept(story: Story, owner: Browser, day: str) -> None:
    path, before = f"{story.path}/api_keys", len(keys_of(story.project.id))
    shown = owner.submit(path, path, label="typed", mode="test", access="read", expires_on=day)
    assert shown.status == 400
    assert 'role="alert"' in shown.text
    form = shown.form(path)
    assert (form["label"], form["access"], form["expires_on"]) == ("typed", "read", day)
    assert len(keys_of(story.project.id)) == before


def test_a_rotated_key_is_valid_for_a_while_and_its_last_use_is_shown(
    stage: Stage, story: Story, owner: Browser, stopped_clock: Clock
) -> None:
    old = next(key for key in keys_of(story.project.id) if not key.livemode)
    stage.call("GET", "/v1/ping", key=story.project.test_key)
    page = f"{story.path}/api_keys/{old.id}/rotate"
    shown = owner.submit(page, page, valid_for="hour")
    assert shown.status == 201
    new = newest(story)
    assert (new.label, new.livemode, new.read_only, new.replaces) == (old.label, False, False, old.id)
    assert "Last used:" in shown.page.text
    replacement = plaintext(shown)
    stopped_clock.forward(1)
    again = owner.submit(page, page, valid_for="hour")
    assert again.status == 201, "another form is another rotation"
    listed = owner.get(f"{story.path}/api_keys").page.text
    assert "replaced by" in listed
    stopped_clock.forward(3598)
    assert stage.call("GET", "/v1/ping", key=story.project.test_key).status == 200
    stopped_clock.forward(1)
    assert stage.call("GET", "/v1/ping", key=story.project.test_key).code == "api_key_expired"
    assert stage.call("GET", "/v1/ping", key=replacement).status == 200
    entry = trail(story.project.id)[-1]
    assert (entry.action, entry.target, entry.after["replaces"]) == ("api_key.rotated", new.id, old.id)
    assert replacement not in repr(trail(story.project.id))


def test_a_form_that_is_sent_twice_rotates_once(story: Story, owner: Browser) -> None:
    page = f"{story.path}/api_keys/{newest(story).id}/rotate"
    form = owner.get(page).form(page) | {"valid_for": "month"}
    assert owner.post(page, form).status == 201
    before = len(keys_of(story.project.id))
    assert owner.post(page, form).location == f"{story.path}/api_keys?notice=created"
    assert len(keys_of(story.project.id)) == before


def test_a_key_that_is_not_valid_any_more_is_not_rotated(story: Story, owner: Browser, stopped_clock: Clock) -> None:
    key = newest(story)
    page = f"{story.path}/api_keys/{key.id}/rotate"
    form = owner.get(page).form(page)
    assert owner.post(page, form | {"valid_for": "never"}).status == 400
    assert owner.post(page, form | {"valid_for": "0"}).status == 201
    stopped_clock.forward(1)
    assert "not valid any more" in owner.get(page).text
    refused = owner.post(page, form | {"valid_for": "day", "once": "another"})
    assert refused.status == 409
    assert 'role="alert"' in refused.text
