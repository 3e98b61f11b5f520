"""The pages of webhook endpoints and failed deliveries, as people use them."""

from __future__ import annotations

import json
import re

import pytest

from shared.admin import members
from shared.core import clock, ids
from shared.store import table
from shared.store.keys import Scope
from shared.webhooks import health
from shared.webhooks.endpoints import resource as endpoints
from shared.webhooks.endpoints.resource import HANGING_FROM
from tests.support import receivers
from tests.support.admin_client import Browser, Story, Whole, as_test, signed_in, trail
from tests.support.clocks import Clock
from tests.support.deliveries import mark, new_event
from tests.support.project_of_pages import replaying, retrying
from tests.support.resources import create_resource, get_resource, list_resources
from tests.support.stage import Stage


@pytest.fixture
def member(stage: Stage, story: Story) -> Browser:
    return signed_in(stage, "member@example.com", {story.project.id: members.MEMBER})


def test_an_endpoint_is_created_and_its_secret_shown_once(stage: Stage, story: Story, member: Browser) -> None:
    new, path = f"{story.path}/webhook_endpoints/new", f"{story.path}/webhook_endpoints"
    form = {"url": "https://example.com/hook", "label": "Books", "event_filters": "appointment.*\r\ncustomer.created"}
    shown = member.submit(new, path, **form, once="1")
    assert shown.status == 201
    [secret] = set(re.findall(r"whsec_[A-Za-z0-9+/=]{20,}", shown.text))
    endpoint = next(one for one in list_resources(stage, "/v1/webhook_endpoints") if one["label"] == "Books")
    assert endpoint["event_filters"] == ["appointment.*", "customer.created"]
    assert secret.startswith(endpoint["secret_prefix"])
    again = member.submit(new, path, **form, once="1")
    assert again.location == f"{path}?notice=created"
    assert len(list_resources(stage, "/v1/webhook_endpoints")) == 2, "the story has one"
    pages = [member.get(one).text for one in (path, f"{path}/{endpoint['id']}", f"{story.path}/audit_trail")]
    assert secret not in "".join(pages) + repr(trail(story.project.id))
    [entry] = trail(story.project.id)
    assert (entry.action, entry.target, entry.after["url"]) == (
        "webhook_endpoint.created",
        endpoint["id"],
        "https://example.com/hook",
    )


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"url": "ftp://example.com"}, 400),
        ({"url": "https://10.0.0.1/"}, 400),
        ({"url": ""}, 400),
        ({"url": "https://example.com", "label": "x" * 201}, 400),
        ({"url": "https://example.com", "event_filters": "nothing"}, 400),
    ],
)
def test_an_endpoint_form_says_what_is_wrong(
    stage: Stage, story: Story, member: Browser, form: dict[str, str], status: int
) -> None:
    path = f"{story.path}/webhook_endpoints"
    shown = member.submit(f"{path}/new", path, **{"description": "typed"} | form)
    assert shown.status == status
    assert 'role="alert"' in shown.text
    assert "typed</textarea>" in shown.text
    assert len(list_resources(stage, "/v1/webhook_endpoints")) == 1
    edit = f"{path}/{list_resources(stage, '/v1/webhook_endpoints')[0]['id']}/edit"
    assert member.submit(edit, edit, **form).status == status


def test_the_seventeenth_endpoint_is_refused_in_words(stage: Stage, story: Story, member: Browser) -> None:
    for _ in range(15):
        create_resource(stage, "/v1/webhook_endpoints", url="https://example.com/")
    path = f"{story.path}/webhook_endpoints"
    shown = member.submit(f"{path}/new", path, url="https://example.com/", once="1")
    assert shown.status == 409
    assert "already has 16" in shown.text
    assert "cannot be more" in member.get(path).text


def test_an_endpoint_is_edited_disabled_enabled_and_deleted(stage: Stage, whole: Whole, member: Browser) -> None:
    id = whole.ids["webhook_endpoints"]
    page, api = f"{whole.story.path}/webhook_endpoints/{id}", f"/v1/webhook_endpoints/{id}"
    url = get_resource(stage, api)["url"]
    assert member.submit(f"{page}/edit", f"{page}/edit", url=url, label="Books", event_filters="").status == 303
    assert get_resource(stage, api)["label"] == "Books"
    assert member.submit(f"{page}/edit", f"{page}/edit", url=url, label="", event_filters="").status == 303
    assert get_resource(stage, api)["label"] is None
    assert "was disabled" in member.get(member.submit(page, f"{page}/disable").location).text
    assert (get_resource(stage, api)["enabled"], get_resource(stage, api)["disabled_reason"]) == (False, "manual")
    assert "Send test event" not in member.get(page).text
    assert "Events are not sent to it" in member.get(f"{whole.story.path}/attention").text
    assert member.submit(page, f"{page}/test").status == 409
    assert member.submit(page, f"{page}/enable").status == 303
    assert get_resource(stage, api)["enabled"] is True
    assert member.submit(f"{page}/delete", f"{page}/delete").status == 303
    assert stage.call("GET", api).status == 404
    assert member.get(page).status == 404
    actions = [entry.action.partition(".")[2] for entry in trail(whole.story.project.id)]
    assert actions == ["deleted", "enabled", "disabled", "changed", "changed"]


def test_a_test_event_shows_its_result_as_it_happens(stage: Stage, whole: Whole, member: Browser) -> None:
    page = f"{whole.story.path}/webhook_endpoints/{whole.ids['webhook_endpoints']}"
    location = member.submit(page, f"{page}/test").location
    waiting = member.get(location)
    assert "test event is being sent" in waiting.text
    assert "made up for this test event" in waiting.text
    assert "its page" not in waiting.text, "the object does not exist"
    assert 'hx-trigger="every ' in waiting.text
    stage.deliver("retries")
    fragment = member.get(location.partition("?")[0] + "/deliveries", HX_Request="true")
    assert "Delivered" in fragment.text
    assert 'hx-trigger="every ' not in fragment.text


def test_a_rotated_secret_is_shown_once(stage: Stage, whole: Whole, member: Browser) -> None:
    page = f"{whole.story.path}/webhook_endpoints/{whole.ids['webhook_endpoints']}"
    api = f"/v1/webhook_endpoints/{whole.ids['webhook_endpoints']}"
    before = get_resource(stage, api)["secret_prefix"]
    form = {"once": "1", "previous_secret_valid_seconds": "0"}
    shown = member.submit(f"{page}/rotate_secret", f"{page}/rotate_secret", **form)
    assert shown.status == 201
    [secret] = set(re.findall(r"whsec_[A-Za-z0-9+/=]{20,}", shown.text))
    assert secret.startswith(get_resource(stage, api)["secret_prefix"])
    assert get_resource(stage, api)["secret_prefix"] != before
    again = member.submit(f"{page}/rotate_secret", f"{page}/rotate_secret", **form)
    assert again.status == 303
    assert "rotated the secret once" in member.get(again.location).text
    assert secret.startswith(get_resource(stage, api)["secret_prefix"]), "the form was sent before: nothing has changed"
    assert secret not in repr(trail(whole.story.project.id))
    assert get_resource(stage, api)["previous_secret_expires_at"] is None
    kept = member.submit(
        f"{page}/rotate_secret", f"{page}/rotate_secret", once="2", previous_secret_valid_seconds="3600"
    )
    assert "The previous secret is valid until" in kept.page.text
    assert get_resource(stage, api)["previous_secret_expires_at"] is not None
    assert "the previous one until" in member.get(page).page.text


def test_the_health_of_an_endpoint_is_shown(stage: Stage, whole: Whole, member: Browser) -> None:
    page = f"{whole.story.path}/webhook_endpoints/{whole.ids['webhook_endpoints']}"
    shown = member.get(page).page.text
    assert "Failing" in shown
    assert "0 of 1 attempts accepted (0 %)" in shown
    stage.settle()
    shown = member.get(page).page.text
    assert "Enabled" in shown
    assert re.search(r"(\d+) of (\d+) attempts accepted", shown)
    assert "Every attempt has failed since" not in shown


def test_an_endpoint_is_shown_as_slow_or_as_hanging(stage: Stage, story: Story, member: Browser) -> None:
    [endpoint] = list_resources(stage, "/v1/webhook_endpoints")
    path = f"{story.path}/webhook_endpoints"
    one = f"/v1/webhook_endpoints/{endpoint['id']}"
    for marks, of_list, of_one in (
        ({"slow_until": clock.now()}, "slow to respond", "a queue of their own"),
        ({"timeouts": HANGING_FROM}, "does not respond", "are put off"),
    ):
        mark(stage, one, **marks)
        assert of_list in member.get(path).text
        assert of_one in member.get(f"{path}/{endpoint['id']}").text


def test_all_failed_deliveries_are_replayed_with_progress(
    stage: Stage, whole: Whole, stopped_clock: Clock, member: Browser
) -> None:
    story, endpoint = whole.story, whole.ids["webhook_endpoints"]
    page = f"{story.path}/failed_deliveries"
    listing = member.get(f"{page}?endpoint={endpoint}")
    assert story.event in listing.text
    assert "Replay all of these" in listing.page.text
    started = member.submit(page, f"{page}/replay", endpoint="", since="")
    assert started.location == page
    waiting = member.get(started.location)
    assert "0 of 1 replayed" in waiting.text
    assert "It goes on if you close this page" in waiting.text
    assert "Replay all" not in waiting.text
    for asked in ("", endpoint):
        refused = member.submit(page, f"{page}/replay", endpoint=asked)
        assert refused.status == 409
        assert "A replay is already running" in refused.text
    assert f"{page}/progress" in waiting.text
    step = {"pk": Scope(story.project.id, False).pk("replay"), "sk": endpoint}
    stage.nudge("replay", "replays", step)
    stage.deliver("retries")
    stopped_clock.forward(5)
    running = member.get(f"{page}/progress", HX_Request="true")
    assert "1 of 1 replayed" in running.page.text
    assert 'hx-trigger="every ' in running.text, "the outcome is not counted yet"
    stage.nudge("replay", "replays", step)
    fragment = member.get(f"{page}/progress", HX_Request="true")
    assert "<html" not in fragment.text
    assert "1 accepted, 0 failed again" in fragment.page.text
    assert "running" not in fragment.page.text
    assert 'hx-trigger="every ' not in fragment.text
    assert story.event not in fragment.text, "the list refreshes with the progress"
    assert "Replay all" not in fragment.text
    [since] = [attributes["href"] for tag, attributes in fragment.page.tags if tag == "a"]
    assert since is not None
    failed_since = member.get(since.removeprefix("/dev"))
    assert failed_since.status == 200
    assert "No failed deliveries match" in failed_since.text
    assert "All is well" in member.get(page).text
    assert len(story.receiver.requests) == 2
    nothing = member.submit(page, f"{page}/replay", endpoint="")
    assert nothing.status == 409
    assert "nothing to replay" in nothing.text
    [entry] = trail(story.project.id)
    assert (entry.action, entry.target) == ("replay.started", endpoint)


def test_what_is_failing_now_is_said_listed_and_sent_at_once(
    stage: Stage, whole: Whole, stopped_clock: Clock, member: Browser
) -> None:
    stage.settle()
    obedient = receivers.Obedient(500)
    with receivers.Receiver(obedient) as receiver:
        failing = create_resource(stage, "/v1/webhook_endpoints", url=receiver.url, label="Broken")["id"]
        page = f"{whole.story.path}/failed_deliveries?endpoint={failing}"
        assert "Failing now" not in member.get(page).text
        for _ in range(3):
            create_resource(stage, "/v1/customers", phone="+15005550006")
        stage.fan_out()
        stage.deliver("deliveries")
        assert len(receiver.requests) == 3
        events = [json.loads(request.body)["id"] for request in receiver.requests]
        shown = member.get(page)
        assert [event in shown.text for event in events] == [True] * 3
        assert shown.page.text.count("1 of 9") == 3
        assert "All is well" not in shown.text
        assert "3 to Broken that wait for a later attempt" in member.get(f"{whole.story.path}/attention").page.text
        assert "3 that wait" in member.get(f"{whole.story.path}/webhook_endpoints/{failing}").page.text

        obedient.behaviour = receivers.answer(200)
        [path] = [action for action, _ in shown.page.forms if events[0] in action]
        sent = member.submit(page, path.removeprefix("/dev"))
        assert sent.location == f"{whole.story.path}/events/{events[0]}?notice=sent_now"
        assert "is being sent now" in member.get(sent.location).text
        again = member.submit(page, path.removeprefix("/dev"))
        assert again.status == 303, "it is due already"
        [entry] = trail(whole.story.project.id)
        assert (entry.action, entry.after) == ("delivery.sent_now", {"event": events[0]})
        stage.deliver("retries")
        assert [json.loads(request.body)["id"] for request in receiver.requests][3:] == events[:1]
        shown = member.get(page)
        assert [event in shown.text for event in events] == [False, True, True]
        ended = member.post(path.removeprefix("/dev"), {"csrf": shown.field("csrf")})
        assert ended.status == 409
        assert "has ended" in ended.page.text


def test_what_waits_because_its_endpoint_hangs_is_said_listed_and_sent_at_once(
    stage: Stage, whole: Whole, stopped_clock: Clock, member: Browser
) -> None:
    stage.settle()
    with receivers.Receiver(receivers.Obedient(200)) as receiver:
        silent = create_resource(stage, "/v1/webhook_endpoints", url=receiver.url, label="Silent")["id"]
        mark(stage, f"/v1/webhook_endpoints/{silent}", timeouts=HANGING_FROM)
        [put_off] = [one for one in list_resources(stage, new_event(stage)) if one["webhook_endpoint_id"] == silent]
        page, event = f"{whole.story.path}/failed_deliveries", put_off["event_id"]
        shown = member.get(f"{page}?endpoint={silent}").page
        assert event in shown.text
        assert "0 of 9" in shown.text
        assert "other attempts had no response" in shown.text
        assert "1 to Silent that wait for a later attempt" in member.get(f"{whole.story.path}/attention").page.text
        for where in (page, f"{whole.story.path}/events/{event}"):
            paths = [action for action, _ in member.get(where).page.forms if f"{put_off['id']}/send_now" in action]
            assert len(paths) == 1
        assert member.submit(where, paths[0].removeprefix("/dev")).status == 303
        assert f"{put_off['id']}/send_now" not in member.get(where).text, "it is being sent"
        stage.deliver("retries")
        stage.deliver("manual_deliveries")
        assert len(receiver.requests) == 1
        assert event not in member.get(f"{page}?endpoint={silent}").text


@pytest.mark.parametrize("enabled", [False, True])
def test_what_was_canceled_by_disabling_its_endpoint_is_not_said_to_wait(
    stage: Stage, whole: Whole, stopped_clock: Clock, member: Browser, enabled: bool
) -> None:
    stage.settle()
    said = "that wait"
    with receivers.Receiver(receivers.Obedient(500)) as receiver:
        failing = create_resource(stage, "/v1/webhook_endpoints", url=receiver.url)["id"]
        pages = [f"{whole.story.path}/attention", f"{whole.story.path}/webhook_endpoints/{failing}"]
        create_resource(stage, "/v1/customers", phone="+15005550006")
        stage.fan_out()
        stage.deliver("deliveries")
        assert [said in member.get(page).page.text for page in pages] == [True, True]
        for value in (False, enabled):
            assert stage.call("PATCH", f"/v1/webhook_endpoints/{failing}", {"enabled": value}).status == 200
        assert [said in member.get(page).page.text for page in pages] == [False, False]


def test_a_later_page_without_failures_does_not_say_that_all_is_well(
    stage: Stage, whole: Whole, stopped_clock: Clock, member: Browser
) -> None:
    retrying(stage, whole)
    page = f"{whole.story.path}/failed_deliveries"
    assert "Failing now" in member.get(page).page.text
    oldest = ids.first_of("whd_", clock.EPOCH)
    assert "All is well" not in member.get(f"{page}?starting_after={oldest}").page.text
    assert "All is well" not in member.get(f"{page}/progress?starting_after={oldest}", HX_Request="true").page.text


def test_a_replay_can_be_stopped(stage: Stage, whole: Whole, member: Browser) -> None:
    page = f"{whole.story.path}/failed_deliveries"
    replaying(whole)
    assert member.submit(page, f"{page}/stop", endpoint=whole.ids["webhook_endpoints"]).status == 303
    assert "A person stopped it" in member.get(page).text
    [entry] = trail(whole.story.project.id)
    assert entry.action == "replay.stopped"


def test_failed_deliveries_are_listed_since_a_time(stage: Stage, whole: Whole, member: Browser) -> None:
    page = f"{whole.story.path}/failed_deliveries"
    assert whole.story.event in member.get(f"{page}?since=2020-01-01T00:00").text
    later = clock.iso(clock.now() + clock.HOUR)[:16]
    shown = member.get(f"{page}?since={later}")
    assert whole.story.event not in shown.text
    assert "No failed deliveries match" in shown.text


def test_a_line_on_other_pages_says_that_an_endpoint_is_failing(
    stage: Stage, whole: Whole, stopped_clock: Clock
) -> None:
    browser = signed_in(stage, "member@example.com", {whole.story.project.id: members.MEMBER})
    page, said = f"{whole.story.path}/customers", "it has refused every attempt since"
    stage.settle()
    assert said not in browser.get(page).text
    scope, id = Scope(whole.story.project.id, False), whole.ids["webhook_endpoints"]
    with as_test():
        failing = health.attributes_write(scope, endpoints.read(scope, [id])[id], failing_since=1, noticed=True)
        table.write([failing])
    assert said in browser.get(page).text
    assert said not in browser.get(f"{whole.story.path}/attention").text, "the page shows it itself"
    create_resource(stage, "/v1/customers", phone="+15005550006")
    stage.settle()
    assert said not in browser.get(page).text, "it has recovered"
