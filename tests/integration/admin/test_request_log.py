"""The API requests of the last day: from their log lines to the page."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Sequence
from typing import Any

import pytest

from infra.local import log_lines
from shared.admin import members
from shared.core import clock, ids, log
from shared.core.errors import ERRORS, Code
from shared.core.metrics import REQUEST_LINE
from shared.projects import request_log
from shared.projects.request_log import KEPT_MS
from shared.store import table
from tests.support import rows
from tests.support.admin_client import Browser, Shown, Whole, as_test, database_calls, keys_of, signed_in
from tests.support.clocks import Clock
from tests.support.log_lines import lines
from tests.support.stage import Answer, Stage


@pytest.fixture
def member(stage: Stage, whole: Whole) -> Browser:
    return signed_in(stage, "member@example.com", {whole.story.project.id: members.MEMBER})


def call_and_log(stage: Stage, *calls: Any, times: int = 1) -> list[Answer]:
    """Call the API, and give the lines that it logs to the function, as CloudWatch Logs does."""
    with lines() as found:
        answers = [stage.call(*arguments) for arguments in calls]
    formatter = log.JsonLines()
    events = [{"id": "1", "timestamp": 1, "message": formatter.format(record)} for record in found]
    for _ in range(times):
        stage.invoke("request_log", log_lines.event_of(events))
    return answers


def causes_of(shown: Shown) -> list[str]:
    """The requests to which the page of an event leads."""
    assert shown.status == 200, shown.text
    return re.findall(r'/requests\?id=(req_\w{26})"', shown.text)


def rows_of(shown: Shown) -> list[str]:
    assert shown.status == 200, shown.text
    return [attributes["id"] or "" for tag, attributes in shown.page.tags if tag == "tr" and "id" in attributes]


def test_a_request_is_shown_with_its_error_and_without_its_body(stage: Stage, whole: Whole, member: Browser) -> None:
    page = f"{whole.story.path}/requests"
    assert "No requests of the last 24 hours are stored" in member.get(page).page.text
    body = {"phone": "+15005550123", "no_such_field": "secret text"}
    made, refused = call_and_log(stage, ("GET", "/v1/ping"), ("POST", "/v1/customers", body), times=2)
    shown = member.get(page)
    ids = [one.headers["service-request-id"] for one in (refused, made)]
    assert rows_of(shown) == ids, "newest first, and once, though the lines arrived twice"
    for said in ("GET /v1/ping", "POST /v1/customers", "parameter_unknown", "200", "400"):
        assert said in shown.page.text, said
    [key] = [one for one in keys_of(whole.story.project.id) if not one.livemode]
    assert f"…{key.last_four}" in shown.page.text
    assert "no_such_field" not in shown.text, "a client may name a field after anything"
    assert "secret" not in shown.text
    assert "5550123" not in shown.text
    live = member.get(page.replace("/test/", "/live/"))
    assert rows_of(live) == []


def test_the_error_of_a_request_names_the_parameter_and_says_what_to_do(
    stage: Stage, whole: Whole, member: Browser
) -> None:
    hours = [{"days": ["monday"], "from": "10:00", "to": "09:00"}]
    *answers, long_key = call_and_log(
        stage,
        ("POST", "/v1/customers", {}),
        ("PATCH", "/v1/agent_settings", {"opening_hours": hours}),
        ("GET", "/v1/customers?limit=many"),
        ("POST", "/v1/customers", {"phone": "+15005550006", "metadata": {"Ada Lovelace": "x" * 600}}),
    )
    shown = member.get(f"{whole.story.path}/requests").page.text
    for answer in answers:
        assert f"{answer.code} , {answer.json['error']['param']}" in shown
    assert long_key.json["error"]["param"] == "metadata[Ada Lovelace]"
    assert f"{long_key.code} , metadata {ERRORS[Code(long_key.code)].meaning}" in shown
    assert ERRORS[Code.PARAMETER_MISSING].remedy in shown
    assert "Ada" not in shown


def test_requests_are_filtered(stage: Stage, whole: Whole, member: Browser) -> None:
    call_and_log(stage, ("GET", "/v1/ping"), ("GET", "/v1/customers/cust_1"), ("POST", "/v1/customers", {}))
    [key] = [one for one in keys_of(whole.story.project.id) if not one.livemode]

    def count_rows(query: str) -> int:
        return len(rows_of(member.get(f"{whole.story.path}/requests?{query}")))

    assert count_rows("status=errors") == count_rows("status=4xx") == 2
    assert count_rows("status=5xx") == 0
    assert count_rows("status=2xx&route=ping") == 1
    assert count_rows("route=POST%20/v1/customers") == 1
    assert count_rows(f"key={key.id}") == 3
    assert count_rows("key=key_1") == 0
    assert count_rows("until=2020-01-01T00:00") == 0
    assert count_rows("since=2020-01-01T00:00") == 3
    for wrong in ("status=200", "since=yesterday"):
        assert member.get(f"{whole.story.path}/requests?{wrong}").status == 400


def test_a_request_is_found_by_its_id_and_leads_from_its_event(stage: Stage, whole: Whole, member: Browser) -> None:
    path = whole.story.path
    created, _ = call_and_log(stage, ("POST", "/v1/customers", {"phone": "+15005550006"}), ("GET", "/v1/ping"))
    id = created.headers["service-request-id"]
    found = member.get(f"{path}/find?q={id}")
    assert found.location == f"{path}/requests?id={id}"
    assert rows_of(member.get(found.location)) == [id]
    assert member.get(f"{path}/find?q=req_{'0' * 26}").status == 404
    assert member.get(f"{path.replace('/test', '/live')}/find?q={id}").status == 404
    stage.settle()
    [event] = stage.call("GET", f"/v1/events?object_id={created.json['id']}").json["data"]
    shown = member.get(f"{path}/events/{event['id']}")
    assert causes_of(shown) == [id, id], "of the event, and of its delivery"
    assert "POST /v1/customers, 201" in shown.page.text


def test_a_replayed_delivery_names_the_request_of_the_replay(stage: Stage, whole: Whole, member: Browser) -> None:
    stage.settle()
    [created] = call_and_log(stage, ("POST", "/v1/customers", {"phone": "+15005550006"}))
    stage.settle()
    [event] = stage.call("GET", f"/v1/events?object_id={created.json['id']}").json["data"]
    page = f"{whole.story.path}/events/{event['id']}"
    [delivery] = stage.call("GET", f"/v1/events/{event['id']}/deliveries").json["data"]
    [retried] = call_and_log(stage, ("POST", f"/v1/events/{event['id']}/deliveries/{delivery['id']}/retry", {}))
    assert retried.status == 202, retried.body
    first, second = (one.headers["service-request-id"] for one in (created, retried))
    assert causes_of(member.get(page)) == [first, second, first], "the replay is above the first delivery"
    stage.settle()
    member.submit(page, f"{page}/deliveries/{retried.json['id']}/replay")
    assert causes_of(member.get(page)) == [first, second, first], "a person's click is no request of the API"


def test_without_the_request_in_the_log_an_event_has_its_id_and_no_link(
    stage: Stage, whole: Whole, member: Browser
) -> None:
    stage.settle()
    created = stage.call("POST", "/v1/customers", {"phone": "+15005550006"})
    stage.settle()
    [event] = stage.call("GET", f"/v1/events?object_id={created.json['id']}").json["data"]
    shown = member.get(f"{whole.story.path}/events/{event['id']}")
    assert causes_of(shown) == []
    assert created.headers["service-request-id"] in shown.page.text


def test_a_request_is_kept_for_a_day(stage: Stage, whole: Whole, stopped_clock: Clock) -> None:
    [made] = call_and_log(stage, ("GET", "/v1/ping"))
    stopped_clock.forward(KEPT_MS / 1000 - 1)
    member = signed_in(stage, "member@example.com", {whole.story.project.id: members.MEMBER})
    page = f"{whole.story.path}/requests"
    assert rows_of(member.get(page)) == [made.headers["service-request-id"]]
    stopped_clock.forward(1)
    assert rows_of(member.get(page)) == []
    with as_test():
        [row] = next(table.query(f"P#{whole.story.project.id}#test#request", limit=10))
    assert row["expires_at"] <= stopped_clock.now, "the database deletes it"


@pytest.mark.parametrize("line", ["", "REPORT RequestId: 1", "[]", "{", '{"message": "request"}', '"request"', "null"])
def test_other_lines_are_left_out(stage: Stage, whole: Whole, member: Browser, line: str) -> None:
    stage.invoke("request_log", log_lines.event_of([{"id": "1", "timestamp": 1, "message": line}]))
    anonymous = {"message": "request", "request_id": f"req_{'0' * 26}", "status": 401}
    stage.invoke("request_log", log_lines.event_of([{"id": "1", "timestamp": 1, "message": json.dumps(anonymous)}]))
    assert rows_of(member.get(f"{whole.story.path}/requests")) == []


def test_a_message_without_lines_does_nothing(stage: Stage) -> None:
    control = json.dumps({"messageType": "CONTROL_MESSAGE", "logEvents": [{"message": "CWL CONTROL MESSAGE"}]})
    data = base64.b64encode(gzip.compress(control.encode())).decode()
    assert stage.invoke("request_log", {"awslogs": {"data": data}}) is None


def stored(whole: Whole, statuses: Sequence[int]) -> list[str]:
    """Requests with these statuses, one after another, straight into the table. Returns their ids, newest first."""
    [key] = [one for one in keys_of(whole.story.project.id) if not one.livemode]
    found = []
    with as_test():
        for number, status in enumerate(statuses):
            id = ids.new("req_", clock.now() - clock.MINUTE + number)
            facts = {"message": REQUEST_LINE, "request_id": id, "method": "GET", "route": "/v1/ping", "status": status}
            caller = {"project_id": whole.story.project.id, "livemode": False, "key_id": key.id, "duration_ms": 1.5}
            found.append(request_log.row_of(json.dumps(facts | caller)) or {})
        rows.write(found)
    return [row["sk"] for row in reversed(found)]


def test_a_refused_request_is_found_among_many_others(stage: Stage, whole: Whole, member: Browser) -> None:
    every = stored(whole, [500, 404, *[200] * 400])
    page = f"{whole.story.path}/requests"
    assert rows_of(member.get(f"{page}?status=errors")) == every[-2:], "on the first page"
    assert rows_of(member.get(f"{page}?status=5xx")) == every[-1:]


def test_older_requests_keep_the_filter_and_a_page_reads_a_bounded_number(whole: Whole, member: Browser) -> None:
    every = stored(whole, [204, *[200] * 350])
    page, seen = f"{whole.story.path}/requests", list[str]()
    shown = member.get(f"{page}?route=/v1/ping")
    assert rows_of(shown) == every[:50]
    while older := [one["href"] for _, one in shown.page.tags if one.get("rel") == "next"]:
        shown = member.get(f"{page}{older[0]}")
        seen += rows_of(shown)
    assert seen == every[50:]
    shown = member.get(f"{page}?route=nothing")
    assert "None of the requests that were looked at match" in shown.page.text
    [last] = [one["href"] for _, one in shown.page.tags if one.get("rel") == "next"]
    assert "No requests match these filters" in member.get(f"{page}{last}").page.text


def test_the_reads_of_the_page_do_not_grow(stage: Stage, whole: Whole, member: Browser) -> None:
    page = f"{whole.story.path}/requests"
    few = len(database_calls(member, page))
    call_and_log(stage, *[("GET", "/v1/ping")] * 60)
    assert len(database_calls(member, page)) == few
    first = member.get(page)
    [older] = [attributes["href"] for _, attributes in first.page.tags if attributes.get("rel") == "next"]
    assert (len(rows_of(first)), len(rows_of(member.get(f"{page}{older}")))) == (50, 10)
