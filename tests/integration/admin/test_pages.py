"""What the pages show and do, and the promises of every page: headers, assets, escaping."""

from __future__ import annotations

import gzip
import itertools
import json
import re
import sys
from collections import Counter
from typing import Any

import pytest

from functions.admin import rendering
from shared.admin import members
from shared.core import ids
from shared.core.event_types import EVENT_TYPES
from shared.store import table
from shared.store.keys import Scope
from tests.support.admin_client import HERE, STAFF, Browser, Shown, Story, Whole, as_test, keys_of, signed_in, trail
from tests.support.clocks import Clock
from tests.support.hostile_values import STRINGS
from tests.support.resources import create_and_get_path
from tests.support.stage import Stage

HOSTILE = [
    *(json.loads(text) for text in STRINGS if "\\ud" not in text and "\\u00" not in text),
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "</title></code></pre></bdi><svg/onload=alert(1)>",
    "{{ 7 * 7 }}{% raw %}${7*7}",
    "javascript:alert(1)",
    "' onmouseover=alert(1) x='",
    "<!-- --><![CDATA[ ]]>",
    "&lt;b&gt; &amp;amp; &#60;",
]


SECTIONS = (
    "waiting",
    "attention",
    "customers",
    "appointments",
    "sessions",
    "conversations",
    "webhook_endpoints",
    "failed_deliveries",
    "usage",
    "call_limits",
    "agent_settings",
)


@pytest.fixture
def owner(stage: Stage, story: Story) -> Browser:
    return signed_in(stage, "owner@example.com", {story.project.id: members.OWNER})


def visit_all_pages(owner: Browser, story: Story) -> dict[str, Shown]:
    key = keys_of(story.project.id)[0].id
    paths = [
        "/admin/account",
        "/admin/sign-in",
        "/admin/nothing",
        f"{story.path}/events",
        f"{story.path}/events/{story.event}",
        f"{story.path}/api_keys",
        f"{story.path}/api_keys/{key}/revoke",
        f"{story.path}/members",
        f"{story.path}/members/{_staff(story)}",
        f"{story.path}/audit_trail",
        f"{story.path}/find?q=nothing",
        story.path,
        *(f"{story.path}/{section}" for section in SECTIONS),
        f"{story.path}/customers/new",
        f"{story.path}/webhook_endpoints/new",
    ]
    return {path: owner.get(path) for path in paths}


def test_every_page_has_the_headers_that_keep_others_out(owner: Browser, story: Story) -> None:
    for path, shown in visit_all_pages(owner, story).items():
        policy = dict(
            part.strip().partition(" ")[::2] for part in shown.headers["content-security-policy"][0].split(";")
        )
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["form-action"] == "'self'", path
        assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert shown.headers["referrer-policy"] == ["same-origin"]
        assert shown.headers["x-frame-options"] == ["DENY"]
        assert shown.headers["x-content-type-options"] == ["nosniff"]
        assert shown.headers["cache-control"] == ["no-store"]
        assert shown.headers["service-request-id"][0].startswith("req_")


def test_every_page_leads_to_the_documentation(owner: Browser, story: Story) -> None:
    for path, shown in visit_all_pages(owner, story).items():
        assert "/dev/docs" in [attributes.get("href") for tag, attributes in shown.page.tags if tag == "a"], path


def test_no_page_has_scripts_styles_or_handlers_of_its_own(owner: Browser, story: Story) -> None:
    for path, shown in visit_all_pages(owner, story).items():
        for tag, attributes in shown.page.tags:
            assert not [name for name in attributes if name.startswith("on") or name == "style"], path
            assert tag != "style"
            if tag == "script":
                assert (attributes["src"] or "").startswith("/dev/admin/assets/")


def test_every_field_has_a_label_and_every_page_one_heading(owner: Browser, story: Story) -> None:
    for path, shown in visit_all_pages(owner, story).items():
        tags = shown.page.tags
        assert len([tag for tag, _ in tags if tag == "h1"]) == 1, path
        labels = {attributes.get("for") for tag, attributes in tags if tag == "label"}
        for (before, _), (tag, attributes) in itertools.pairwise(tags):
            if tag in ("input", "select") and attributes.get("type") not in ("hidden", "radio"):
                assert before == "label" or "aria-label" in attributes or attributes["id"] in labels, path


def test_no_link_is_said_to_be_a_button_since_the_space_bar_does_not_follow_it(owner: Browser, story: Story) -> None:
    for path, shown in visit_all_pages(owner, story).items():
        assert [attributes for tag, attributes in shown.page.tags if tag == "a" and "role" in attributes] == [], path


def test_days_and_times_to_filter_by_are_those_of_the_zone_that_the_page_names(owner: Browser, story: Story) -> None:
    for section in ("appointments", "events", "failed_deliveries"):
        shown = owner.get(f"{story.path}/{section}")
        assert "Times are in UTC." in shown.page.text
        assert "(UTC)</label>" not in shown.text


def test_urls_contain_the_gateways_stage(owner: Browser, story: Story) -> None:
    for path, shown in visit_all_pages(owner, story).items():
        for _, attributes in shown.page.tags:
            for name in ("href", "src", "action", "hx-get"):
                url = attributes.get(name)
                assert url is None or url.startswith(("/dev/admin", "/dev/docs", "#", "?", "data:")), (path, url)


def test_assets_are_kept_for_ever_under_a_name_of_their_hash(owner: Browser, story: Story) -> None:
    page = owner.get(f"{story.path}/events").page
    paths = [
        attributes.get("src") or attributes.get("href") or ""
        for tag, attributes in page.tags
        if tag in ("script", "link")
    ]
    assets = [path.removeprefix("/dev") for path in paths if "/assets/" in path]
    assert len(assets) == len(rendering.assets().by_name)
    size = 0
    for path in assets:
        plain, packed = owner.get(path), owner.get(path, Accept="*/*", Accept_Encoding="gzip, br")
        assert plain.status == packed.status == 200
        assert plain.headers["cache-control"] == ["public, max-age=31536000, immutable"]
        assert gzip.decompress(packed.body) == plain.body
        size += len(packed.body)
        changed = re.sub(r"/[0-9a-f]{16}/", "/0000000000000000/", path)
        assert owner.get(changed).status == 404
    size += len(gzip.compress(owner.get(f"{story.path}/events").body))
    assert size <= 60_000, "the first visit"
    for path in ("/admin/assets/../visits.py", "/admin/assets/x/admin.css", "/admin/assets/%2e%2e/words.py"):
        assert owner.get(path).status == 404


def test_a_key_is_shown_once_and_works(stage: Stage, story: Story, owner: Browser) -> None:
    form = owner.get(f"{story.path}/api_keys")
    sent = {
        "csrf": form.field("csrf"),
        "once": form.field("once"),
        "label": "backend",
        "mode": "live",
        "access": "write",
    }
    shown = owner.post(f"{story.path}/api_keys", sent)
    assert shown.status == 201
    (key,) = set(re.findall(r"sk_live_\w+", shown.text))
    assert f"curl {HERE}/v1/ping -H 'Authorization: Bearer {key}'" in shown.page.text
    assert stage.call("GET", "/v1/ping", key=key).json["livemode"] is True

    again = owner.post(f"{story.path}/api_keys", sent)
    assert again.status == 303, "the browser sends the form again"
    assert len([one for one in keys_of(story.project.id) if one.label == "backend"]) == 1
    everything = "".join(page.text for page in visit_all_pages(owner, story).values()) + repr(trail(story.project.id))
    assert key not in everything
    (entry,) = trail(story.project.id)
    (made_key,) = [one for one in keys_of(story.project.id) if one.label == "backend"]
    assert (entry.action, entry.target, entry.who, entry.ip) == (
        "api_key.created",
        made_key.id,
        "owner@example.com",
        "127.0.0.1",
    )
    assert entry.after == {"label": "backend", "mode": "live"}
    assert entry.request_id == shown.headers["service-request-id"][0]


def test_a_key_is_not_used_before_it_was_created(stage: Stage, story: Story, stopped_clock: Clock) -> None:
    stopped_clock.now = stopped_clock.now // 60 * 60 + 90
    owner = signed_in(stage, "owner@example.com", {story.project.id: members.OWNER})
    page = f"{story.path}/api_keys"
    [key] = set(re.findall(r"sk_test_\w+", owner.submit(page, page, label="backend", mode="test").text))
    assert stage.call("GET", "/v1/ping", key=key).status == 200
    [made_key] = [one for one in keys_of(story.project.id) if one.label == "backend"]
    assert made_key.last_used_at == made_key.created_at


@pytest.mark.parametrize(
    ("label", "mode", "says"),
    [("", "test", "empty"), ("x" * 101, "test", "At most 100"), ("a\x07b", "test", "Control"), ("a", "both", "mode")],
)
def test_a_form_that_cannot_be_taken_says_why_and_keeps_what_was_typed(
    story: Story, owner: Browser, label: str, mode: str, says: str
) -> None:
    before = keys_of(story.project.id)
    shown = owner.submit(f"{story.path}/api_keys", f"{story.path}/api_keys", label=label, mode=mode, once="1")
    assert shown.status == 400
    assert says in shown.text
    values = [attributes.get("value") for tag, attributes in shown.page.tags if attributes.get("id") == "label"]
    assert values == [label.strip()]
    assert keys_of(story.project.id) == before


def test_revoking_asks_first_and_takes_effect_at_once(stage: Stage, story: Story, owner: Browser) -> None:
    key = next(one for one in keys_of(story.project.id) if not one.livemode)
    path = f"{story.path}/api_keys/{key.id}/revoke"
    assert "Revoke this key?" in owner.get(path).text
    assert stage.call("GET", "/v1/ping", key=story.project.test_key).status == 200
    assert owner.get(owner.submit(path, path).location).text.count("was revoked") == 1
    assert stage.call("GET", "/v1/ping", key=story.project.test_key).code == "api_key_revoked"
    (entry,) = trail(story.project.id)
    assert (entry.action, entry.target, entry.before["label"]) == ("api_key.revoked", key.id, "test")
    assert "Created an API key" not in owner.get(f"{story.path}/audit_trail").text
    assert "Revoked an API key" in owner.get(f"{story.path}/audit_trail").text

    other = f"{story.path}/api_keys"
    csrf = owner.get(other).field("csrf")
    assert owner.post(path, {"csrf": csrf}).status == 303
    assert len(trail(story.project.id)) == 1, "it was revoked already: nothing has changed"


def test_an_event_shows_its_payload_and_what_became_of_it(story: Story, owner: Browser) -> None:
    page = owner.get(f"{story.path}/events/{story.event}").page
    for said in ("customer.created", story.event, story.delivery, "Failed", "HTTP 400", '"phone": "+15005550006"'):
        assert said in page.text, said
    assert "The receiver did not respond with a 2xx status" in page.text
    assert "<b>no</b>" in page.text, "the receiver's response, as text"
    assert "its page" in page.text
    assert re.search(r"\w{3} \d{1,2} \w{3} 20\d\d, \d\d:\d\d:\d\d", page.text), "attempts are seconds apart"


def test_a_replay_sends_the_event_again_and_is_in_the_trail(stage: Stage, story: Story, owner: Browser) -> None:
    page = f"{story.path}/events/{story.event}"
    path = f"{page}/deliveries/{story.delivery}/replay"
    shown = owner.submit(page, path)
    assert shown.location == f"{page}?notice=replayed"
    waiting = owner.get(shown.location)
    assert "being sent again" in waiting.text
    assert 'hx-trigger="every ' in waiting.text, "the page looks again by itself"

    refused = owner.submit(page.replace(f"/events/{story.event}", "/api_keys"), path)
    assert refused.status == 409
    assert "in progress" in refused.text

    stage.settle()
    assert len(story.receiver.requests) == 2
    fragment = owner.get(f"{page}/deliveries", HX_Request="true")
    assert "Delivered" in fragment.text
    assert "<html" not in fragment.text
    assert 'hx-trigger="every ' not in fragment.text, "nothing is in progress any more"
    (entry,) = trail(story.project.id)
    assert (entry.action, entry.target, entry.after["event"]) == ("delivery.replayed", story.delivery, story.event)
    assert entry.livemode is False


def test_events_are_listed_by_the_filters_and_pages_of_the_api(stage: Stage, story: Story, owner: Browser) -> None:
    customers = [create_and_get_path(stage, "customers", phone="+15005550006").rpartition("/")[2] for _ in range(51)]
    stage.fan_out()
    first = owner.get(f"{story.path}/events")
    (older,) = [attributes["href"] for tag, attributes in first.page.tags if attributes.get("rel") == "next"]
    second = owner.get(f"{story.path}/events{older}")
    pages = [re.findall(r"events/(evt_\w+)", shown.text) for shown in (first, second)]
    assert [len(page) for page in pages] == [50, 2]
    assert sorted(pages[0] + pages[1], reverse=True) == pages[0] + pages[1]

    one = owner.get(f"{story.path}/events?object_id={customers[0]}&type=customer.*&since=2020-01-01&until=2099-12-31")
    assert len(set(re.findall(r"events/(evt_\w+)", one.text))) == 1
    assert "No events match" in owner.get(f"{story.path}/events?type=appointment.created").text
    assert "no events in live mode yet" in owner.get(story.path.replace("/test", "/live") + "/events").text
    for wrong in ("type=nothing", "since=yesterday", "starting_after=evt_1"):
        assert owner.get(f"{story.path}/events?{wrong}").status == 400
    for type in EVENT_TYPES:
        assert f"<option>{type}</option>" in first.text


def test_the_find_box_goes_to_what_an_id_names(stage: Stage, story: Story, owner: Browser) -> None:
    key = keys_of(story.project.id)[0].id
    customer = create_and_get_path(stage, "customers", phone="+15005550123").rpartition("/")[2]
    stage.fan_out()

    def find_location(text: str) -> str:
        return owner.get(f"{story.path}/find?q={text}").location

    assert find_location(story.event) == f"{story.path}/events/{story.event}"
    assert find_location(key) == f"{story.path}/api_keys#{key}"
    appointment = create_and_get_path(
        stage, "appointments", customer_id=customer, appointment_at="2030-05-06T07:08:09Z"
    )
    conversation = create_and_get_path(stage, "conversations", external_id="thread", customer={"id": customer})
    [endpoint] = stage.call("GET", "/v1/webhook_endpoints").json["data"]
    assert stage.call("PATCH", f"/v1/customers/{customer}", {"email": "a@x.org", "external_id": "p-7"}).status == 200
    session = stage.call("POST", f"/v1/customers/{customer}/call").json["session_id"]
    for text in (customer, "%2B1%20500%20555%200123", "a@x.org", "p-7"):
        assert find_location(text) == f"{story.path}/customers/{customer}"
    for section, path in (("appointments", appointment), ("conversations", conversation)):
        id = path.rpartition("/")[2]
        assert find_location(id) == f"{story.path}/{section}/{id}"
    assert find_location(endpoint["id"]) == f"{story.path}/webhook_endpoints/{endpoint['id']}"
    assert find_location(session) == f"{story.path}/sessions/{session}"
    message = stage.call("POST", f"{conversation}/messages", {"content": "hello"}).json["id"]
    assert find_location(message) == f"{story.path}{conversation.removeprefix('/v1')}#{message}"
    assert find_location(story.delivery) == f"{story.path}/events/{story.event}#{story.delivery}"
    create_and_get_path(stage, "customers", phone="+15005550123")
    several = owner.get(f"{story.path}/find?q=%2B1%20500%20555%200123")
    assert several.page.text.count("+15005550123") == 2
    for unknown in ("evt_01m816msd5000p4pwadfypjhfj", "key_1", "nothing", "%2B1", ids.new("cust_")):
        shown = owner.get(f"{story.path}/find?q={unknown}")
        assert shown.status == 404, unknown
        assert "Nothing found" in shown.text
        assert "country code" not in shown.text or unknown == "%2B1"
    for local in ("0170%201234567", "(500)%20555-0123"):
        assert "+49 170 1234567 instead of" in owner.get(f"{story.path}/find?q={local}").text
    live = story.path.replace("/test", "/live")
    assert owner.get(f"{live}/find?q={story.event}").status == 404, "modes are separate"
    assert "Nothing found" in owner.get(f"{story.path}/find?q={ids.new('msg_')}").text
    assert "No request with this id is stored" in owner.get(f"{story.path}/find?q={ids.new('req_')}").text


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_what_customers_write_never_becomes_markup(stage: Stage, story: Story, owner: Browser, text: str) -> None:
    plain = [tag for tag, _ in owner.get(f"{story.path}/events/{story.event}").page.tags]
    name = text[:200]
    customer = stage.call(
        "POST", "/v1/customers", {"phone": "+15005550006", "name": name, "metadata": {"k": name[:99]}}
    )
    assert customer.status == 201, customer.body
    stage.fan_out()
    (event,) = stage.call("GET", f"/v1/events?object_id={customer.json['id']}").json["data"]
    shown = owner.get(f"{story.path}/events/{event['id']}")
    payload = json.dumps(name, ensure_ascii=False)
    assert " ".join(payload.split()) in shown.page.text
    # The delivery is in progress, so only the parts of a failed one are missing.
    assert {tag for tag, _ in shown.page.tags} <= {*plain}
    assert len([tag for tag, _ in shown.page.tags if tag == "script"]) == plain.count("script")

    label = name[:100].strip()
    if label and not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", label):
        before = {
            page: {tag for tag, _ in owner.get(f"{story.path}/{page}").page.tags}
            for page in ("api_keys", "audit_trail")
        }
        made_key = owner.submit(f"{story.path}/api_keys", f"{story.path}/api_keys", label=label, mode="test", once="2")
        assert made_key.status == 201
        for page, tags in before.items():
            after = owner.get(f"{story.path}/{page}")
            assert {tag for tag, _ in after.page.tags} <= tags | {"br", "tr", "td", "span", "time", "code", "bdi"}
            assert " ".join(label.split()) in after.page.text
    # With two people of the name, it is listed by the find box, which leads to the page of a single one.
    namesake = stage.call("POST", "/v1/customers", {"phone": "+15005550007", "name": name})
    assert namesake.status == 201, namesake.body
    response = owner.get(f"{story.path}/find?q={_quote(text[:64])}")
    assert response.status in (200, 404)
    assert [tag for tag, _ in response.page.tags].count("script") == 2


def test_nothing_of_a_resource_becomes_markup(stage: Stage, whole: Whole) -> None:
    story, ids = whole.story, whole.ids
    browser = signed_in(stage, "owner@example.com", {story.project.id: members.OWNER})
    pages = [
        *SECTIONS,
        "failed_deliveries?endpoint=",
        *(f"{section}/{ids[section]}" for section in ("customers", "appointments", "conversations", "sessions")),
        f"customers/{ids['customers']}/edit",
        f"customers/{ids['customers']}/call",
        f"appointments/{ids['appointments']}/edit",
        f"appointments/{ids['appointments']}/move",
        f"appointments/{ids['appointments']}/cancel",
        f"webhook_endpoints/{ids['webhook_endpoints']}",
        f"webhook_endpoints/{ids['webhook_endpoints']}/edit",
    ]
    written: dict[str, dict[str, Any]] = {
        "customers": {"name": "plain", "external_id": "plain", "metadata": {"k": "plain"}},
        "appointments": {"title": "plain", "location": "plain", "notes": "plain", "metadata": {"k": "plain"}},
        "webhook_endpoints": {"label": "plain", "description": "plain"},
    }

    def write(text: str) -> None:
        for section, values in written.items():
            changes = {name: {"k": text[:99]} if name == "metadata" else text[:200] for name in values}
            changed = stage.call("PATCH", f"/v1/{section}/{ids[section]}", changes)
            assert changed.status == 200, changed.body
        sent = stage.call("POST", f"/v1/conversations/{ids['conversations']}/messages", {"content": text})
        assert sent.status == 201, sent.body

    def tags() -> dict[str, set[str]]:
        shown = {page: browser.get(f"{story.path}/{page}") for page in pages}
        assert {one.status for one in shown.values()} == {200}
        for page, one in shown.items():
            for tag, attributes in one.page.tags:
                assert not [name for name in attributes if name.startswith("on") or name == "style"], page
                assert tag != "script" or (attributes["src"] or "").startswith("/dev/admin/assets/")
        return {page: {tag for tag, _ in one.page.tags} for page, one in shown.items()}

    write("plain")
    plain = tags()
    for text in HOSTILE:
        if text.strip():
            write(text)
            assert tags() == plain, text
            assert " ".join(text[:200].split()) in browser.get(f"{story.path}/customers/{ids['customers']}").page.text


def test_a_hundred_rows_render_with_few_calls(stage: Stage, story: Story, owner: Browser) -> None:
    customers = [create_and_get_path(stage, "customers", phone="+15005550006").rpartition("/")[2] for _ in range(49)]
    stage.fan_out()

    def function_calls(path: str) -> int:
        owner.get(path)
        calls: Counter[str] = Counter()
        sys.setprofile(lambda frame, kind, argument: calls.update([kind]))
        try:
            page = owner.get(path)
        finally:
            sys.setprofile(None)
        assert page.status == 200
        return calls["call"] + calls["c_call"]

    many, one = function_calls(f"{story.path}/events"), function_calls(f"{story.path}/events?object_id={customers[0]}")
    # Reading and rendering 100 rows may take 16 ms of CPU. A call takes 0.4 µs on average.
    assert (many - one) * 100 / 49 < 40_000, (many, one)


@pytest.mark.parametrize(
    "path",
    [
        "appointments/{appt_}/move",
        "appointments/{appt_}/edit",
        "appointments/{appt_}/cancel",
        "customers/{cust_}/edit",
        "customers/{cust_}/call",
        "conversations/{conv_}/give_back",
        "conversations/{conv_}/reply",
        "webhook_endpoints/{whk_}/edit",
    ],
)
def test_a_form_about_what_does_not_exist_is_a_page_that_is_not_found(story: Story, owner: Browser, path: str) -> None:
    unknown = {prefix: ids.new(prefix) for prefix in ("appt_", "cust_", "conv_", "whk_")}
    form = owner.get(f"{story.path}/customers/new")
    sent = {"csrf": form.field("csrf"), "once": form.field("once"), "appointment_at": "2031-05-06T07:08"}
    shown = owner.post(f"{story.path}/{path.format(**unknown)}", sent)
    assert shown.status == 404
    assert "Page not found" in shown.text


def test_a_failure_of_ours_is_a_page_that_tells_nothing(story: Story, owner: Browser) -> None:
    pk, damaged = Scope(story.project.id, livemode=False).pk("event"), ids.new("evt_")
    with as_test():
        table.write([table.Put({"pk": pk, "sk": damaged, "doc": "secret detail"})])
    shown = owner.get(f"{story.path}/events/{damaged}")
    assert shown.status == 500
    assert "secret detail" not in shown.text
    assert shown.headers["service-request-id"][0] in shown.text


def _staff(story: Story) -> str:
    with as_test():
        (id,) = (one.id for one in members.of_project(story.project.id) if one.email == STAFF)
    return id


def _quote(text: str) -> str:
    import urllib.parse

    return urllib.parse.quote(text)
