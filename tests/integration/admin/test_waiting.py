"""The queue of conversations that wait for a person: who waits, who has taken them, and when it shows new ones."""

from __future__ import annotations

import pytest

from functions.admin import lists
from shared.admin import members
from shared.core import clock
from tests.support.admin_client import Browser, Whole, database_calls, signed_in, trail
from tests.support.clocks import Clock
from tests.support.project_of_pages import hand_off
from tests.support.resources import create_resource, get_resource, list_resources
from tests.support.stage import Stage


@pytest.fixture
def member(stage: Stage, whole: Whole) -> Browser:
    return signed_in(stage, "waiting@example.com", {whole.story.project.id: members.MEMBER})


def another_waiting(stage: Stage, name: str) -> str:
    """The id of a conversation of a new customer, who waits for a person."""
    customer = create_resource(stage, "/v1/customers", phone="+15005550006", name=name)["id"]
    id = create_resource(stage, "/v1/conversations", customer={"id": customer})["id"]
    create_resource(stage, f"/v1/conversations/{id}/messages", content="I want to speak to a person")
    return str(id)


def test_the_queue_has_who_waits_longest_first_and_counts_in_its_title(
    stage: Stage, whole: Whole, member: Browser, stopped_clock: Clock
) -> None:
    queue = f"{whole.story.path}/waiting"
    assert "Nobody waits for a person" in member.get(queue).page.text
    another_waiting(stage, "Grace")
    stopped_clock.forward(300)
    hand_off(stage, whole)
    text = member.get(queue).page.text
    assert text.startswith("(2) Waiting")
    assert "2 wait for a person." in text
    # Ada's conversation is older, and waits for a shorter time.
    assert text.index("Grace") < text.index("Ada")
    assert "5 min ago" in text
    assert "The customer asked for a person" in text


def test_the_queue_has_the_latest_message_and_says_what_was_answered(
    stage: Stage, whole: Whole, member: Browser, stopped_clock: Clock
) -> None:
    queue, page = f"{whole.story.path}/waiting", f"{whole.story.path}/conversations/{whole.ids['conversations']}"
    messages = f"/v1/conversations/{whole.ids['conversations']}/messages"
    hand_off(stage, whole)
    create_resource(stage, messages, content=f"I need <b>help</b>. {'Long. ' * 100}")
    shown = member.get(queue)
    assert "I need <b>help</b>. Long." in shown.page.text
    assert "Long. " * 30 not in shown.page.text
    assert "Answered" not in shown.page.text
    [again] = [attributes["hx-get"] for _, attributes in shown.page.tags if attributes.get("id") == "waiting"]
    assert again is not None
    sent = member.submit(page, f"{page}/reply", content="We call you at noon.")
    assert sent.status == 303
    _, _, message = sent.location.partition("?notice=sent#")
    assert f'id="{message}"><p class="quiet">Your team' in member.get(page).text, "the page scrolls to it"
    new = member.get(again.removeprefix("/dev"), HX_Request="true")
    assert "Answered, not given back Your team: We call you at noon." in new.page.text
    text = member.get(page).page.text
    assert "with Ada Answered, not given back" in text
    assert "Your team has replied. The conversation was handed to a person" in text
    assert "waits for a person" not in text
    assert get_resource(stage, f"/v1/conversations/{whole.ids['conversations']}")["waiting"] is True
    # A person of the business may also write with the API.
    create_resource(stage, messages, role="user", content="And the costs?")
    assert "And the costs?" in member.get(queue).page.text
    assert "with Ada Waits for a person" in member.get(page).page.text
    create_resource(stage, messages, role="staff", content="It is free.")
    assert "Answered, not given back Your team: It is free." in member.get(queue).page.text


def test_a_queue_of_several_pages_begins_with_who_waits_longest(
    stage: Stage, whole: Whole, member: Browser, stopped_clock: Clock
) -> None:
    hand_off(stage, whole)
    # The oldest conversations wait for the shortest time: the order of creation is not that of waiting.
    people = [
        create_resource(stage, "/v1/conversations", external_id=f"Person {number}.")["id"]
        for number in range(lists.PAGE)
    ]
    for id in reversed(people):
        stopped_clock.forward(60)
        create_resource(stage, f"/v1/conversations/{id}/messages", content="[[sim:handoff]]")
    queue = f"{whole.story.path}/waiting"
    first = member.get(queue)
    text = first.page.text
    assert text.count("Take the conversation with") == lists.PAGE
    assert text.startswith(f"({lists.PAGE}+) Waiting")
    assert f"{lists.PAGE} or more wait for a person." in text
    assert text.index("Ada") < text.index(f"Person {lists.PAGE - 1}.") < text.index("Person 1.")
    assert "10 or more wait for a person" in member.get(whole.story.path).page.text
    [older] = [attributes["href"] for _, attributes in first.page.tags if attributes.get("rel") == "next"]
    assert older is not None
    second = member.get(older.removeprefix("/dev"))
    assert "Person 0." in second.page.text
    assert "Person 1." not in second.page.text
    [again] = [attributes["hx-get"] for _, attributes in second.page.tags if attributes.get("id") == "waiting"]
    assert again is not None
    assert member.get(again.removeprefix("/dev"), HX_Request="true").status == 204, "it is the same page"
    assert member.get(f"{queue}?starting_after=x").status == 400


def test_a_conversation_is_taken_by_one_and_released(stage: Stage, whole: Whole, member: Browser) -> None:
    hand_off(stage, whole)
    id, path = whole.ids["conversations"], whole.story.path
    queue, page = f"{path}/waiting", f"{path}/conversations/{whole.ids['conversations']}"
    assert member.submit(queue, f"{page}/take").location == f"{page}?notice=taken"
    assert member.submit(queue, f"{page}/take").status == 303, "it is mine already"
    other = signed_in(stage, "other@example.com", {whole.story.project.id: members.MEMBER})
    shown = other.get(queue)
    assert "waiting@example.com" in shown.page.text
    assert f"{page}/take" not in shown.text
    refused = other.submit(queue, f"{page}/take")
    assert refused.status == 409
    assert "waiting@example.com has taken this conversation" in refused.page.text
    assert other.submit(page, f"{page}/release").location == f"{page}?notice=released"
    assert other.submit(queue, f"{page}/take").status == 303
    assert [entry.action for entry in trail(whole.story.project.id)] == [
        "conversation.taken",
        "conversation.released",
        "conversation.taken",
    ]
    stage.fan_out()
    types = [one["type"] for one in list_resources(stage, "/v1/events") if one["data"]["object"]["id"] == id]
    assert sorted(types) == ["conversation.created", "conversation.handed_off"], "nobody is told who has taken it"


def test_another_handoff_is_taken_by_nobody_yet(
    stage: Stage, whole: Whole, member: Browser, stopped_clock: Clock
) -> None:
    hand_off(stage, whole)
    page = f"{whole.story.path}/conversations/{whole.ids['conversations']}"
    assert member.submit(page, f"{page}/take").status == 303
    assert member.submit(page, f"{page}/give_back").status == 303
    refused = member.submit(page, f"{page}/take").location
    assert "so you have not taken it" in member.get(refused).page.text
    stopped_clock.forward(60)
    hand_off(stage, whole)
    assert "Taken by Nobody" in member.get(page).page.text


def test_the_page_of_the_queue_asks_for_what_is_new(
    stage: Stage, whole: Whole, member: Browser, stopped_clock: Clock
) -> None:
    hand_off(stage, whole)
    shown = member.get(f"{whole.story.path}/waiting")
    [again] = [attributes["hx-get"] for _, attributes in shown.page.tags if attributes.get("id") == "waiting"]
    assert again is not None
    again = again.removeprefix("/dev")
    assert member.get(again, HX_Request="true").status == 204, "nothing is new"
    assert member.get(again).location == f"{whole.story.path}/waiting", "without a script"
    another_waiting(stage, "Grace")
    new = member.get(again, HX_Request="true")
    assert new.status == 200
    assert "<html" not in new.text
    assert new.text.startswith("<title>(2) Waiting")
    assert "Grace" in new.page.text


def test_a_viewer_sees_the_queue_and_takes_nothing(stage: Stage, whole: Whole) -> None:
    hand_off(stage, whole)
    viewer = signed_in(stage, "viewer@example.com", {whole.story.project.id: members.VIEWER})
    queue, page = f"{whole.story.path}/waiting", f"{whole.story.path}/conversations/{whole.ids['conversations']}"
    assert "Ada" in viewer.get(queue).page.text
    assert f"{page}/take" not in viewer.get(queue).text
    for action in ("take", "release"):
        assert viewer.submit(queue, f"{page}/{action}").status == 403


def test_the_reads_of_the_queue_do_not_grow(stage: Stage, whole: Whole, member: Browser) -> None:
    hand_off(stage, whole)
    one = database_calls(member, f"{whole.story.path}/waiting")
    for name in ("Grace", "Mary"):
        another_waiting(stage, name)
    assert database_calls(member, f"{whole.story.path}/waiting") == one


def test_a_conversation_has_the_customers_next_appointment_beside_it(
    stage: Stage, whole: Whole, member: Browser
) -> None:
    customer, page = whole.ids["customers"], f"{whole.story.path}/conversations/{whole.ids['conversations']}"
    soon = clock.iso(clock.now() + clock.DAY)
    gone = create_resource(stage, "/v1/appointments", customer_id=customer, appointment_at=soon, title="Gone")["id"]
    assert stage.call("PATCH", f"/v1/appointments/{gone}", {"status": "cancelled"}).status == 200
    past = clock.iso(clock.now() - clock.DAY)
    create_resource(stage, "/v1/appointments", customer_id=customer, appointment_at=past, title="Past")
    text = member.get(page).page.text
    assert "Next appointment Check-up , Mon 6 May 2030, 07:08 Pending" in text
    assert "Gone" not in text


def test_what_the_agent_says_is_shown_as_markdown_and_what_the_customer_says_is_not(
    stage: Stage, whole: Whole, member: Browser
) -> None:
    id = whole.ids["conversations"]
    create_resource(stage, f"/v1/conversations/{id}/messages", content="Hello **you**")
    shown = member.get(f"{whole.story.path}/conversations/{id}")
    assert "Hello **you**" in shown.page.text
    assert '<div class="markdown"><p>' in shown.text
