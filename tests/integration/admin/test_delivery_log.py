"""The deliveries to an endpoint as people see them: the log, the chart, replays of chosen ones, and test events."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from shared.admin import members
from shared.core import clock, ids
from shared.core.event_types import EVENT_TYPES
from shared.store.keys import Scope
from shared.webhooks.deliveries.resource import DELIVERIES, endpoint_partition, find
from tests.support import rows
from tests.support.admin_client import Browser, Shown, Whole, as_test, database_calls, signed_in, trail
from tests.support.clocks import Clock
from tests.support.deliveries import disable
from tests.support.project_of_pages import retrying
from tests.support.resources import create_resource, list_resources
from tests.support.stage import Stage


@pytest.fixture
def member(stage: Stage, whole: Whole) -> Browser:
    return signed_in(stage, "member@example.com", {whole.story.project.id: members.MEMBER})


def log_of(whole: Whole) -> str:
    return f"{whole.story.path}/webhook_endpoints/{whole.ids['webhook_endpoints']}/deliveries"


def listed_ids(shown: Shown) -> list[str]:
    assert shown.status == 200, shown.text
    return [attributes["id"] or "" for tag, attributes in shown.page.tags if tag == "tr" and "id" in attributes]


def choices(shown: Shown) -> list[str]:
    """What can be chosen for a replay."""
    return [attributes["value"] or "" for _, attributes in shown.page.tags if attributes.get("name") == "delivery"]


def test_the_log_has_every_delivery_newest_first(stage: Stage, whole: Whole, member: Browser) -> None:
    stage.settle()
    page = f"{whole.story.path}/webhook_endpoints/{whole.ids['webhook_endpoints']}"
    member.submit(page, f"{page}/test")
    member.submit(log_of(whole), f"{log_of(whole)}/replay", delivery=f"{whole.story.event}/{whole.story.delivery}")
    stage.settle()
    shown = member.get(log_of(whole))
    found = listed_ids(shown)
    assert found == sorted(found, reverse=True)
    assert whole.story.delivery in found
    for said in ("Test event", "Replay", "HTTP 400", "HTTP 200", "Failed", "Delivered"):
        assert said in shown.page.text, said
    assert found[:3] == re.findall(r"whd_\w{26}", member.get(page).text.partition("Latest deliveries")[2])[:3]


def test_the_log_is_filtered_by_status_type_and_day(stage: Stage, whole: Whole, member: Browser) -> None:
    stage.settle()

    def find_ids(query: str) -> list[str]:
        return listed_ids(member.get(f"{log_of(whole)}?{query}"))

    every = find_ids("")
    assert len(every) > 2
    assert find_ids("status=failed") == [whole.story.delivery]
    assert whole.story.delivery not in find_ids("status=succeeded")
    assert whole.story.delivery in find_ids("type=customer.*")
    assert whole.story.delivery not in find_ids("type=appointment.*")
    today = datetime.now(UTC).date().isoformat()
    assert find_ids(f"since={today}&until={today}") == every
    assert find_ids("until=2020-01-01") == []
    for wrong in ("status=lost", "type=nothing", "since=yesterday"):
        assert member.get(f"{log_of(whole)}?{wrong}").status == 400


def delivery_row(whole: Whole) -> Mapping[str, object]:
    """The row of the story's delivery."""
    with as_test():
        return find(Scope(whole.story.project.id, False), whole.story.event, whole.story.delivery)


def copy_delivery(whole: Whole, count: int, **changes: object) -> None:
    """Copies of the story's delivery, as if each were of an event of its own."""
    with as_test():
        row = {name: value for name, value in delivery_row(whole).items() if name != "f1"}
        copies = []
        for number in range(count):
            id = ids.new(DELIVERIES.prefix, clock.now() + number)
            doc = json.loads(str(row["doc"])) | {"id": id} | changes
            copies.append(row | {"sk": id, "doc": json.dumps(doc)})
        rows.write(copies)


def test_older_deliveries_keep_the_filter_and_a_page_reads_a_bounded_number(whole: Whole, member: Browser) -> None:
    copy_delivery(whole, 320, status="succeeded", error_code=None)
    path, seen = f"{log_of(whole)}?status=failed", list[str]()
    shown = member.get(path)
    assert listed_ids(shown) == []
    assert "None of the deliveries that were looked at match" in shown.page.text
    while older := [one["href"] for _, one in shown.page.tags if one.get("rel") == "next"]:
        shown = member.get(f"{log_of(whole)}{older[0]}")
        seen += listed_ids(shown)
    assert seen == [whole.story.delivery]


def test_the_reads_of_the_pages_do_not_grow(whole: Whole, member: Browser) -> None:
    page = log_of(whole).removesuffix("/deliveries")
    few = [len(database_calls(member, one)) for one in (page, log_of(whole))]
    copy_delivery(whole, 60)
    assert [len(database_calls(member, one)) for one in (page, log_of(whole))] == few


def test_chosen_deliveries_are_replayed_succeeded_ones_too(stage: Stage, whole: Whole, member: Browser) -> None:
    stage.settle()
    before = member.get(log_of(whole))
    chosen = choices(before)
    assert len(chosen) == len(listed_ids(before)) > 2
    answered = member.submit(log_of(whole), f"{log_of(whole)}/replay", delivery="\n".join(chosen))
    assert "are being sent again" in member.get(answered.location).page.text
    received = len(whole.story.receiver.requests)
    stage.settle()
    assert len(whole.story.receiver.requests) == received + len(chosen)
    assert [entry.action for entry in trail(whole.story.project.id)] == ["delivery.replayed"] * len(chosen)


def test_what_cannot_be_replayed_is_said(stage: Stage, whole: Whole, member: Browser) -> None:
    stage.settle()
    replay = f"{log_of(whole)}/replay"
    one = f"{whole.story.event}/{whole.story.delivery}"
    for delivery, says in (
        ("", "Nothing is sent again"),
        ("evt_1/whd_1", "Nothing is sent again"),
        (f"{one}\n{one}", "Some of the chosen deliveries"),
    ):
        answered = member.submit(log_of(whole), replay, delivery=delivery)
        assert says in member.get(answered.location).page.text
    disable(stage, f"/v1/webhook_endpoints/{whole.ids['webhook_endpoints']}")
    assert choices(member.get(log_of(whole))) == []


def test_a_viewer_sees_the_log_and_chooses_nothing(stage: Stage, whole: Whole) -> None:
    viewer = signed_in(stage, "viewer@example.com", {whole.story.project.id: members.VIEWER})
    shown = viewer.get(log_of(whole))
    assert whole.story.delivery in listed_ids(shown)
    assert choices(shown) == []


def test_a_delivery_that_waits_is_sent_now_from_the_log(stage: Stage, whole: Whole, member: Browser) -> None:
    retrying(stage, whole)
    [endpoint] = [one for one in list_resources(stage, "/v1/webhook_endpoints") if one["url"] == "http://127.0.0.1:1/"]
    shown = member.get(f"{whole.story.path}/webhook_endpoints/{endpoint['id']}/deliveries")
    assert "In progress" in shown.page.text
    path = f"{whole.story.path}/events/{whole.story.event}/deliveries/{whole.story.delivery}/send_now"
    assert member.post(path, shown.form(path)).status == 303


def test_the_chart_has_the_attempts_of_each_hour(
    stage: Stage, whole: Whole, member: Browser, stopped_clock: Clock
) -> None:
    stage.settle()
    page = f"{whole.story.path}/webhook_endpoints/{whole.ids['webhook_endpoints']}"
    shown = member.get(page)
    bars = [attributes["class"] for tag, attributes in shown.page.tags if tag == "rect"]
    assert {*bars} == {"good", "bad", "calm"}
    text = shown.page.text
    [accepted, failed] = next(re.findall(r"(\d+) (\d+) \d+ ms", part) for part in [text.partition("Median")[2]])[0]
    assert (int(accepted), failed) == (len(whole.story.receiver.requests) - 1, "1")
    stopped_clock.forward(25 * 3600)
    member.cookies = signed_in(stage, "member@example.com").cookies
    assert "There were none" in member.get(page).page.text


@pytest.mark.parametrize("type", EVENT_TYPES)
def test_a_test_event_has_any_type(stage: Stage, whole: Whole, member: Browser, type: str) -> None:
    stage.settle()
    page = f"{whole.story.path}/webhook_endpoints/{whole.ids['webhook_endpoints']}"
    location = member.submit(page, f"{page}/test", type=type).location
    stage.deliver("retries")
    sent = json.loads(whole.story.receiver.requests[-1].body)
    assert (sent["type"], sent["livemode"]) == (type, False)
    assert sent["id"] in location
    assert sent["data"]["object"].get("livemode") in (False, None)
    [entry] = trail(whole.story.project.id)
    assert entry.after["type"] == type


def test_an_unknown_type_of_a_test_event_is_refused(whole: Whole, member: Browser) -> None:
    page = f"{whole.story.path}/webhook_endpoints/{whole.ids['webhook_endpoints']}"
    assert member.submit(page, f"{page}/test", type="nothing").status == 400


def test_the_events_of_an_endpoint_are_boxes(stage: Stage, whole: Whole, member: Browser) -> None:
    id = whole.ids["webhook_endpoints"]
    page, api = f"{whole.story.path}/webhook_endpoints/{id}/edit", f"/v1/webhook_endpoints/{id}"
    changed = stage.call("PATCH", api, {"event_filters": ["session.completed", "customer.*"]})
    assert changed.status == 200, changed.body
    shown = member.get(page)
    boxes = {one["value"]: "checked" in one for _, one in shown.page.tags if one.get("type") == "checkbox"}
    assert [*filter(boxes.get, boxes)] == ["customer.*", "session.completed"]
    assert {*EVENT_TYPES} < boxes.keys()
    assert member.post(page, shown.form(page)).status == 303
    assert stage.call("GET", api).json["event_filters"] == ["session.completed", "customer.*"], "nothing was changed"
    # A browser sends the empty value first, and then each box that is checked.
    assert member.post(page, shown.form(page) | {"event_filters": "\nappointment.*\nsession.failed"}).status == 303
    assert stage.call("GET", api).json["event_filters"] == ["appointment.*", "session.failed"]
    member.submit(page, page, event_filters="")
    assert stage.call("GET", api).json["event_filters"] == []
    create_resource(stage, "/v1/webhook_endpoints", url="https://example.com/")


def test_deliveries_have_the_partition_of_their_endpoint(whole: Whole) -> None:
    scope = Scope(whole.story.project.id, False)
    assert delivery_row(whole)["f2"] == endpoint_partition(scope, whole.ids["webhook_endpoints"])
