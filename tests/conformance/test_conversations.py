"""Promises 8: opening, finding and ending conversations."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.client import Client, Response, assert_error, assert_replay, wait_for
from tests.support.client_actions import (
    UNKNOWN,
    create_appointment,
    create_conversation,
    create_customer,
    end_conversation,
    event_about,
    events_about,
    send,
    send_to_thread,
    settle,
    transcript,
    unique,
    unique_phone,
)

PATH = "/v1/conversations"


def test_a_conversation_is_created_with_all_its_fields(client: Client) -> None:
    customer = create_customer(client)
    fields = {"external_id": unique(), "metadata": {"page": "/pricing", "score": 1.0}}
    response = client.post(PATH, fields | {"customer": {"id": customer["id"]}})
    conversation = response.ok(201)
    assert conversation | fields == conversation
    assert conversation["customer_id"] == customer["id"]
    assert conversation["status"] == "active"
    assert conversation["livemode"] is False
    assert conversation["created_at"] == conversation["updated_at"]
    assert (conversation["last_message_at"], conversation["ended_at"]) == (None, None)
    assert response.headers["Location"] == f"{client.base_path}{PATH}/{conversation['id']}"
    assert client.get(f"{PATH}/{conversation['id']}").ok() == conversation
    assert transcript(client, conversation["id"]) == []


def test_nothing_is_required_and_unset_fields_are_null(client: Client) -> None:
    conversation = create_conversation(client)
    set_fields = {"id", "object", "livemode", "created_at", "updated_at", "status", "metadata", "waiting"}
    assert {name for name, value in conversation.items() if value is not None} == set_fields
    assert conversation["metadata"] == {}


def test_a_live_key_makes_live_conversations(live: Client) -> None:
    assert create_conversation(live)["livemode"] is True


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({"external_id": "x" * 256}, "parameter_invalid", "external_id"),
        ({"external_id": 7}, "parameter_invalid", "external_id"),
        ({"external_id": "a\x00b"}, "parameter_invalid", "external_id"),
        ({"metadata": {"k": "x" * 501}}, "metadata_invalid", "metadata[k]"),
        ({"metadata": [1]}, {"metadata_invalid", "parameter_invalid"}, "metadata"),
        ({"customer": "cust_1"}, "parameter_invalid", "customer"),
        ({"status": "ended"}, "parameter_unknown", "status"),
        ({"external_conversation_id": "x"}, "parameter_unknown", "external_conversation_id"),
        ({"customer_id": f"cust_{UNKNOWN}"}, "parameter_unknown", "customer_id"),
    ],
)
def test_invalid_fields_are_refused(client: Client, body: Any, code: str | set[str], param: str) -> None:
    assert_error(client.post(PATH, body), 400, code, param=param)


def test_the_longest_external_id_is_kept(client: Client) -> None:
    external_id = unique().ljust(255, "é")
    assert create_conversation(client, external_id=external_id)["external_id"] == external_id


@pytest.mark.parametrize("id", [f"conv_{UNKNOWN}", f"cust_{UNKNOWN}", "nonsense", "conv_"])
def test_an_unknown_conversation_is_not_found(client: Client, id: str) -> None:
    for method, path, body in (
        ("GET", f"{PATH}/{id}", None),
        ("GET", f"{PATH}/{id}/messages", None),
        ("POST", f"{PATH}/{id}/messages", {"content": "hello"}),
        ("POST", f"{PATH}/{id}/end", None),
    ):
        assert_error(client.request(method, path, json_body=body), 404, "resource_not_found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PATCH", f"{PATH}/conv_{UNKNOWN}", {"GET"}),
        ("DELETE", f"{PATH}/conv_{UNKNOWN}", {"GET"}),
        ("GET", f"{PATH}/conv_{UNKNOWN}/end", {"POST"}),
        ("DELETE", f"{PATH}/conv_{UNKNOWN}/messages", {"GET", "POST"}),
        ("GET", "/v1/messages", {"POST"}),
    ],
)
def test_other_methods_are_not_allowed(client: Client, method: str, path: str, allowed: set[str]) -> None:
    response = client.request(method, path)
    assert_error(response, 405, "method_not_allowed")
    assert set(response.headers["Allow"].replace(" ", "").split(",")) - {"HEAD", "OPTIONS"} == allowed


# The external id.


def test_an_external_id_has_one_active_conversation(client: Client) -> None:
    first = create_conversation(client, external_id=unique())
    error = assert_error(client.post(PATH, {"external_id": first["external_id"]}), 409, "conversation_exists")
    assert error["type"] == "conflict_error"
    assert send_to_thread(client, first["external_id"], "hello")["conversation"]["id"] == first["id"]


def test_a_conversation_that_a_message_opened_holds_its_external_id(client: Client) -> None:
    thread = unique()
    send_to_thread(client, thread, "hello")
    assert_error(client.post(PATH, {"external_id": thread}), 409, "conversation_exists")


def test_a_refused_conversation_creates_no_customer(client: Client) -> None:
    external_id, phone = create_conversation(client, external_id=unique())["external_id"], unique_phone()
    body = {"external_id": external_id, "customer": {"phone": phone}}
    assert_error(client.post(PATH, body), 409, "conversation_exists")
    newest = client.get("/v1/customers", {"limit": 100}).ok()["data"]
    assert phone not in {customer["phone"] for customer in newest}


def test_conversations_without_an_external_id_are_as_many_as_wanted(client: Client) -> None:
    assert create_conversation(client)["id"] != create_conversation(client)["id"]


def test_external_ids_that_differ_only_in_case_are_two(client: Client) -> None:
    external_id = unique("thread")
    create_conversation(client, external_id=external_id)
    create_conversation(client, external_id=external_id.upper())


def test_an_ended_conversation_frees_its_external_id_and_keeps_showing_it(client: Client) -> None:
    first = create_conversation(client, external_id=unique())
    ended = end_conversation(client, first["id"])
    assert ended["external_id"] == first["external_id"]
    second = create_conversation(client, external_id=first["external_id"])
    assert second["id"] != first["id"]
    assert client.get(f"{PATH}/{first['id']}").ok() == ended
    # The first one, ended once more, does not free what the second one holds.
    assert end_conversation(client, first["id"]) == ended
    assert_error(client.post(PATH, {"external_id": first["external_id"]}), 409, "conversation_exists")


def test_a_message_on_a_freed_thread_opens_a_new_conversation(client: Client) -> None:
    thread, body = unique(), {"metadata": {"n": 1}, "customer": {"phone": unique_phone()}}
    first = send_to_thread(client, thread, "hello", **body)["conversation"]
    end_conversation(client, first["id"])
    second = send_to_thread(client, thread, "hello again")["conversation"]
    assert second["id"] != first["id"]
    assert (second["external_id"], second["status"]) == (thread, "active")
    # `customer` and `metadata` were the first one's.
    assert (second["customer_id"], second["metadata"]) == (None, {})
    assert len(transcript(client, first["id"])) == len(transcript(client, second["id"])) == 2
    params = {"external_id": thread}
    wait_for(lambda: ids(client.get(PATH, params).ok()["data"]) == [second["id"], first["id"]])


def test_each_project_and_mode_has_its_own_external_ids(
    client: Client, live: Client, other: Client, other_live: Client
) -> None:
    external_id = unique()
    made = {create_conversation(one, external_id=external_id)["id"] for one in (client, live, other, other_live)}
    assert len(made) == 4


def test_of_several_creates_on_one_external_id_at_once_one_succeeds(client: Client) -> None:
    body = {"external_id": unique()}
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client.post(PATH, body), range(8)))
    assert sorted(answer.status for answer in answers) == [201] + [409] * 7
    assert {answer.error["code"] for answer in answers if answer.status == 409} <= {"conversation_exists", "conflict"}
    wait_for(lambda: len(client.get(PATH, body).ok()["data"]) == 1)


# Ending.


def test_ending_ends(client: Client) -> None:
    conversation = create_conversation(client, external_id=unique(), metadata={"a": 1})
    before = send(client, conversation["id"], "hello")["conversation"]
    ended = end_conversation(client, conversation["id"])
    assert ended["status"] == "ended"
    assert ended["ended_at"] >= ended["last_message_at"]
    changed = {"status", "ended_at", "updated_at"}
    assert {name for name, value in ended.items() if value != before[name]} == changed
    assert client.get(f"{PATH}/{conversation['id']}").ok() == ended


def test_ending_an_ended_conversation_returns_it_unchanged(client: Client) -> None:
    conversation = create_conversation(client)
    ended = end_conversation(client, conversation["id"])
    assert end_conversation(client, conversation["id"]) == ended
    assert client.post(f"{PATH}/{conversation['id']}/end", {}).ok() == ended
    assert client.get(f"{PATH}/{conversation['id']}").ok() == ended


def test_ending_takes_no_fields(client: Client) -> None:
    conversation = create_conversation(client)
    path = f"{PATH}/{conversation['id']}"
    assert_error(client.post(f"{path}/end", {"reason": "x"}), 400, "parameter_unknown", param="reason")
    assert client.get(path).ok()["status"] == "active"


def test_an_ended_conversation_takes_no_messages_and_keeps_its_transcript(client: Client) -> None:
    conversation_id = create_conversation(client, external_id=unique())["id"]
    send(client, conversation_id, "hello")
    before = transcript(client, conversation_id)
    ended = end_conversation(client, conversation_id)
    response = client.post(f"{PATH}/{conversation_id}/messages", {"content": "still there?"})
    assert_error(response, 409, "conversation_ended")
    assert transcript(client, conversation_id) == before
    assert client.get(f"{PATH}/{conversation_id}").ok() == ended


# Idempotency.


def test_a_create_is_replayed_even_when_the_conversation_has_ended(client: Client) -> None:
    key, body = unique(), {"external_id": unique(), "customer": {"phone": unique_phone()}, "metadata": {"x": 1.0}}
    first = client.post(PATH, body, idempotency_key=key)
    assert_replay(first, client.post(PATH, body, idempotency_key=key))
    end_conversation(client, first.ok(201)["id"])
    assert_replay(first, client.post(PATH, body, idempotency_key=key))
    settle(client, "customer")
    assert len(events_about(client, first.json["customer_id"])) == 1


def test_an_existing_conversation_stays_the_answer_of_its_key(client: Client) -> None:
    conversation, key = create_conversation(client, external_id=unique()), unique()
    body = {"external_id": conversation["external_id"]}
    first = client.post(PATH, body, idempotency_key=key)
    assert_error(first, 409, "conversation_exists")
    end_conversation(client, conversation["id"])
    assert_replay(first, client.post(PATH, body, idempotency_key=key))
    assert client.post(PATH, body, idempotency_key=unique()).status == 201


def test_ending_is_replayed(client: Client) -> None:
    path, key = f"{PATH}/{create_conversation(client)['id']}/end", unique()
    first = client.post(path, idempotency_key=key)
    assert first.ok()["status"] == "ended"
    assert_replay(first, client.post(path, idempotency_key=key))


def test_a_key_of_a_create_fits_no_other_body(client: Client) -> None:
    key = unique()
    client.post(PATH, {"external_id": unique()}, idempotency_key=key).ok(201)
    assert_error(client.post(PATH, {"external_id": unique()}, idempotency_key=key), 400, "idempotency_key_reused")


# The customer of a conversation, however it is opened.

Open = Callable[[Client, object], Response]


def by_create(client: Client, customer: object) -> Response:
    return client.post(PATH, {"customer": customer})


def by_message(client: Client, customer: object) -> Response:
    body = {"external_conversation_id": unique(), "content": "hello", "customer": customer}
    return client.post("/v1/messages", body)


@pytest.fixture(params=[by_create, by_message])
def open_with(request: pytest.FixtureRequest) -> Open:
    found: Open = request.param
    return found


def customer_of(response: Response) -> str:
    """The customer of the conversation that was opened."""
    made = response.ok(201)
    found: str = made.get("conversation", made)["customer_id"]
    return found


def new_findable_customer(client: Client, **fields: object) -> Any:
    """A new customer that filters find by now."""
    customer = create_customer(client, **fields)
    name = "external_id" if customer["external_id"] else "phone"
    params = {name: customer[name]}
    wait_for(lambda: customer["id"] in ids(client.get("/v1/customers", params).ok()["data"]))
    return customer


def ids(items: list[Any]) -> list[str]:
    return [item["id"] for item in items]


def test_a_customer_is_named_by_id(client: Client, open_with: Open) -> None:
    customer = create_customer(client)
    assert customer_of(open_with(client, {"id": customer["id"]})) == customer["id"]
    assert client.get(f"/v1/customers/{customer['id']}").ok() == customer


@pytest.mark.parametrize("id", [f"cust_{UNKNOWN}", f"conv_{UNKNOWN}", "nonsense"])
def test_an_unknown_customer_id_is_refused(client: Client, open_with: Open, id: str) -> None:
    assert_error(open_with(client, {"id": id}), 400, "resource_not_found", param="customer[id]")


def test_a_foreign_customer_id_is_unknown(client: Client, live: Client, other: Client, open_with: Open) -> None:
    for stranger in (live, other):
        response = open_with(client, {"id": create_customer(stranger)["id"]})
        assert_error(response, 400, "resource_not_found", param="customer[id]")


@pytest.mark.parametrize("beside", [{"phone": "+14155550111"}, {"name": "Ann"}, {"metadata": {}}])
def test_an_id_goes_alone(client: Client, open_with: Open, beside: dict[str, object]) -> None:
    customer = {"id": create_customer(client)["id"], **beside}
    assert_error(open_with(client, customer), 400, "parameters_exclusive")


@pytest.mark.parametrize("customer", [{}, {"name": "Ann"}, {"metadata": {"a": 1}}, {"name": "Ann", "metadata": {}}])
def test_a_customer_needs_something_to_be_known_by(client: Client, open_with: Open, customer: object) -> None:
    assert_error(open_with(client, customer), 400, "parameter_missing", param="customer")


@pytest.mark.parametrize(
    ("customer", "code", "param"),
    [
        ({"phone": "4155550111"}, "phone_invalid_format", "customer[phone]"),
        ({"email": "ann@"}, "email_invalid", "customer[email]"),
        ({"phone": "+14155550111", "name": "x" * 201}, "parameter_invalid", "customer[name]"),
        ({"external_id": "x" * 256}, "parameter_invalid", "customer[external_id]"),
        ({"phone": "+14155550111", "nmae": "Ann"}, "parameter_unknown", "customer[nmae]"),
        ({"phone": "+14155550111", "metadata": {"k": "x" * 501}}, "metadata_invalid", "customer[metadata][k]"),
        ([], "parameter_invalid", "customer"),
    ],
    ids=str,
)
def test_invalid_fields_of_a_customer_are_named(
    client: Client, open_with: Open, customer: object, code: str, param: str
) -> None:
    assert_error(open_with(client, customer), 400, code, param=param)


def test_a_deleted_customer_gets_no_conversation(client: Client, open_with: Open) -> None:
    customer_id = create_customer(client)["id"]
    client.delete(f"/v1/customers/{customer_id}").ok()
    assert_error(open_with(client, {"id": customer_id}), 409, "customer_deleted")


def test_a_customer_is_matched_by_external_id(client: Client, open_with: Open) -> None:
    customer = new_findable_customer(client, external_id=unique())
    assert customer_of(open_with(client, {"external_id": customer["external_id"]})) == customer["id"]


def test_a_customer_is_matched_by_phone_in_any_spelling(client: Client, open_with: Open) -> None:
    customer = new_findable_customer(client)
    phone = customer["phone"]
    assert customer_of(open_with(client, {"phone": phone})) == customer["id"]
    assert customer_of(open_with(client, {"phone": f" {phone[:2]} ({phone[2:5]}) {phone[5:]}"})) == customer["id"]


def test_the_external_id_goes_before_the_phone(client: Client, open_with: Open) -> None:
    by_external_id, by_phone = new_findable_customer(client, external_id=unique()), new_findable_customer(client)
    customer = {"external_id": by_external_id["external_id"], "phone": by_phone["phone"]}
    assert customer_of(open_with(client, customer)) == by_external_id["id"]


def test_the_phone_decides_where_the_external_id_matches_nobody(client: Client, open_with: Open) -> None:
    customer = new_findable_customer(client)
    assert customer_of(open_with(client, {"external_id": unique(), "phone": customer["phone"]})) == customer["id"]


def test_of_several_matches_the_newest_is_taken(client: Client, open_with: Open) -> None:
    external_id, phone = unique(), unique_phone()
    new_findable_customer(client, external_id=external_id)
    newest = new_findable_customer(client, external_id=external_id)
    assert customer_of(open_with(client, {"external_id": external_id})) == newest["id"]
    new_findable_customer(client, phone=phone)
    newest = new_findable_customer(client, phone=phone)
    assert customer_of(open_with(client, {"phone": phone})) == newest["id"]


def test_a_deleted_match_is_passed_over(client: Client, open_with: Open) -> None:
    phone = unique_phone()
    older, newer = new_findable_customer(client, phone=phone), new_findable_customer(client, phone=phone)
    client.delete(f"/v1/customers/{newer['id']}").ok()
    assert customer_of(open_with(client, {"phone": phone})) == older["id"]
    client.delete(f"/v1/customers/{older['id']}").ok()
    assert customer_of(open_with(client, {"phone": phone})) not in {older["id"], newer["id"]}


def test_a_match_is_linked_and_not_changed(client: Client, open_with: Open) -> None:
    customer = new_findable_customer(client, external_id=unique(), name="Ann", metadata={"a": 1})
    given = {"external_id": customer["external_id"], "phone": unique_phone(), "name": "Eve", "metadata": {"b": 2}}
    assert customer_of(open_with(client, given)) == customer["id"]
    assert client.get(f"/v1/customers/{customer['id']}").ok() == customer
    settle(client, "customer")
    assert [event["type"] for event in events_about(client, customer["id"])] == ["customer.created"]


def test_a_customer_that_matches_nobody_is_created(client: Client, open_with: Open) -> None:
    given = {
        "phone": unique_phone(),
        "name": "Ann Lee",
        "email": "ann@example.com",
        "external_id": unique(),
        "metadata": {"plan": "gold"},
    }
    customer = client.get(f"/v1/customers/{customer_of(open_with(client, given))}").ok()
    assert customer | given == customer
    event = event_about(client, customer["id"], "customer.created")
    assert event["data"] == {"object": customer}


@pytest.mark.parametrize("name", ["external_id", "email"])
def test_a_customer_is_created_without_a_phone_where_none_is_given(client: Client, open_with: Open, name: str) -> None:
    given = {name: f"{unique()}@example.com"}
    customer = client.get(f"/v1/customers/{customer_of(open_with(client, given))}").ok()
    assert customer["phone"] is None
    assert customer[name] == given[name]


def test_an_email_matches_nobody(client: Client, open_with: Open) -> None:
    customer = new_findable_customer(client, email=f"{unique()}@example.com")
    assert customer_of(open_with(client, {"email": customer["email"]})) != customer["id"]


# Lists.


@pytest.fixture(scope="module")
def threads(client: Client) -> list[Any]:
    """Four conversations of two customers, oldest first; the first and last share an external id, two have ended."""
    ann, bob = ({"id": create_customer(client)["id"]} for _ in range(2))
    external_id = unique()
    made = [create_conversation(client, customer=ann, external_id=external_id)]
    made[0] = end_conversation(client, made[0]["id"])
    made += [create_conversation(client, customer=one) for one in (ann, bob)]
    made[2] = end_conversation(client, made[2]["id"])
    made.append(create_conversation(client, customer=bob, external_id=external_id))
    params = {"external_id": external_id, "status": "active"}
    wait_for(lambda: client.get(PATH, params).ok()["data"] == [made[3]])
    return made


@pytest.mark.parametrize(
    ("params", "found"),
    [
        ({"customer_id": "{ann}"}, [1, 0]),
        ({"customer_id": "{bob}"}, [3, 2]),
        ({"external_id": "{external}"}, [3, 0]),
        ({"customer_id": "{ann}", "status": "active"}, [1]),
        ({"customer_id": "{ann}", "status": "ended"}, [0]),
        ({"customer_id": "{bob}", "external_id": "{external}"}, [3]),
        ({"customer_id": "{ann}", "external_id": "{external}", "status": "active"}, []),
        ({"status": "ended"}, [2, 0]),
        ({"status": "active", "created_at[gte]": "{first}"}, [3, 1]),
        ({"created_at[gte]": "{first}", "created_at[lt]": "{last}"}, [2, 1, 0]),
        ({"created_at[gt]": "{first}", "created_at[lte]": "{last}"}, [3, 2, 1]),
        ({"customer_id": "{ann}", "created_at[gt]": "{first}"}, [1]),
        ({"customer_id": f"cust_{UNKNOWN}"}, []),
    ],
    ids=str,
)
def test_conversations_are_filtered_alone_and_combined(
    client: Client, threads: list[Any], params: dict[str, str], found: list[int]
) -> None:
    values = {
        "{ann}": threads[0]["customer_id"],
        "{bob}": threads[2]["customer_id"],
        "{external}": threads[0]["external_id"],
        "{first}": threads[0]["created_at"],
        "{last}": threads[3]["created_at"],
    }
    filled = {name: values.get(value, value) for name, value in params.items()} | {"limit": "100"}
    ours = ids(threads)

    def look() -> bool:
        page = client.get(PATH, filled).ok()
        # A filter that names none of ours finds those of other tests too.
        return [one for one in page["data"] if one["id"] in ours] == [threads[index] for index in found]

    wait_for(look)


@pytest.mark.parametrize("status", ["open", "Active", "", "closed"])
def test_an_unknown_status_to_filter_by_is_refused(client: Client, status: str) -> None:
    assert_error(client.get(PATH, {"status": status}), 400, "parameter_invalid", param="status")


@pytest.mark.parametrize("name", ["livemode", "metadata", "order", "updated_at[gte]"])
def test_an_unknown_filter_is_refused(client: Client, name: str) -> None:
    assert_error(client.get(PATH, {name: "asc"}), 400, "parameter_unknown", param=name)


def test_the_list_is_newest_first_and_sees_every_write(client: Client) -> None:
    made = [create_conversation(client) for _ in range(3)][::-1]
    assert client.get(PATH, {"limit": 3}).ok()["data"] == made
    made[1] = end_conversation(client, made[1]["id"])
    assert client.get(PATH, {"limit": 3}).ok()["data"] == made
    page = client.get(PATH, {"limit": 1, "starting_after": made[0]["id"]}).ok()
    assert (page["data"], page["has_more"], page["next_cursor"]) == ([made[1]], True, made[1]["id"])


# What is said first


def test_the_first_reply_says_that_an_automated_assistant_answers(client: Client) -> None:
    client.patch("/v1/agent_settings", {"business_name": "Blue *Clinic*"}).ok()
    try:
        conversation = create_conversation(client)["id"]
        first, second = (send(client, conversation, "Hello")["reply"]["content"] for _ in range(2))
        forced = create_conversation(client)["id"]
        rich = send(client, forced, "[[sim:markdown]]")["reply"]["content"]
        next_one = send(client, forced, "Hello")["reply"]["content"]
        plain = create_conversation(client)["id"]
        text = send(client, plain, "Hello", markdown=False)["reply"]["content"]
        waiting = create_conversation(client)["id"]
        send(client, waiting, "[[sim:handoff]]")
        held, again = (send(client, waiting, "Hello")["reply"]["content"] for _ in range(2))
    finally:
        client.patch("/v1/agent_settings", {"business_name": None}).ok()
    introduction = "I am the automated AI assistant of Blue \\*Clinic\\*.\n\n"
    assert held.startswith(introduction)
    assert not again.startswith(introduction)
    assert first == next_one == introduction + second
    assert rich.startswith("# ")
    assert text.startswith("I am the automated AI assistant of Blue *Clinic*.\n")


def test_a_name_that_cannot_be_said_is_replaced_by_the_projects(client: Client) -> None:
    client.patch("/v1/agent_settings", {"business_name": " \u200b. "}).ok()
    try:
        content = send(client, create_conversation(client)["id"], "Hello")["reply"]["content"]
    finally:
        client.patch("/v1/agent_settings", {"business_name": None}).ok()
    default = send(client, create_conversation(client)["id"], "Hello")["reply"]["content"]
    assert content == default


def test_the_agent_understands_the_answer_to_a_question_in_its_first_reply(client: Client) -> None:
    customer = create_customer(client)["id"]
    appointment = create_appointment(client, customer)["id"]
    conversation = create_conversation(client, customer={"id": customer})["id"]
    assert "?" in send(client, conversation, "cancel it")["reply"]["content"]
    assert send(client, conversation, "yes")["reply"]["actions"] == [
        {"type": "appointment_cancelled", "appointment_id": appointment}
    ]
    again = create_appointment(client, customer)["id"]
    other = create_conversation(client, customer={"id": customer})["id"]
    assert "When" in send(client, other, "please move my appointment")["reply"]["content"]
    assert "Shall I move" in send(client, other, "tomorrow at 10:00")["reply"]["content"], again
