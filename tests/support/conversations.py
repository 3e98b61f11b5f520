"""Conversations whose turns a test lets the requests or the workers take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from shared.conversations import resource as conversations
from shared.core import clock
from shared.store.keys import Scope
from tests.support import privileges
from tests.support.clocks import Clock
from tests.support.concurrency import just_before
from tests.support.resources import create_resource, get_resource, idempotency_header, woken
from tests.support.stage import Answer, Project, Stage, wake_up_record

LEASE = 50


class Hurried(Stage):
    """The stage, but a request has no time to wait for a reply: it is answered 504 as soon as it is stored."""

    def __init__(self, stage: Stage) -> None:
        self.__dict__ = stage.__dict__

    def invoke(self, function: str, event: Any, seconds: float = 2) -> Any:
        """Call a function as Lambda does when the function's time is nearly over."""
        return super().invoke(function, event, seconds)


@dataclass(frozen=True)
class Thread:
    """A conversation with a customer who has one appointment."""

    scope: Scope
    id: str
    customer: str
    appointment: str

    @property
    def messages(self) -> str:
        """The path of its messages."""
        return f"/v1/conversations/{self.id}/messages"


def send(stage: Stage, thread: Thread, content: str, key: str | None = None) -> Answer:
    """The answer to a message by id."""
    return stage.call("POST", thread.messages, {"content": content}, headers=idempotency_header(key))


def store_unanswered_message(stage: Stage, thread: Thread, content: str, key: str | None = None) -> str:
    """Store a message that nobody has answered yet; its id."""
    response = send(Hurried(stage), thread, content, key)
    assert (response.status, response.code) == (504, "agent_timeout"), response.body
    return str(response.json["error"]["message_id"])


def work(stage: Stage, records: Sequence[dict[str, Any]]) -> int:
    """Let the turn worker have these wake-ups, one by one; how many it was."""
    for record in records:
        assert stage.invoke("turn", {"Records": [record]}) == {"batchItemFailures": []}
    return len(records)


@contextmanager
def work_at_each_wait(time: Clock, *works: Callable[[], Any]) -> Iterator[None]:
    """Who waits by the service's clock lets one of these works be done at each wait, and must then be content."""
    left = list(works)

    def sleep(seconds: float) -> None:
        if not left:
            raise TimeoutError("waited for more than there is")
        time.forward(seconds)
        with privileges.running(None):
            left.pop(0)()

    clock.use(lambda: time.now, sleep)
    try:
        yield
    finally:
        clock.use(lambda: time.now, time.forward)


def before_commit(work: Callable[[], Any]) -> AbstractContextManager[None]:
    """The work is done once, just before the next transaction is sent."""
    return just_before("TransactWriteItems", work)


def redeliver_wake_up(stage: Stage, time: Clock, thread: Thread, record: dict[str, Any], by_sweep: bool) -> None:
    """When its worker's lease is over, the wake-up comes again, or sweep gives one if the turn is still pending."""
    time.forward(LEASE + 1)
    if by_sweep:
        stage.invoke("sweep", {})
    work(stage, woken(stage, thread.scope) if by_sweep else [record])


WHEN = "2030-05-06T07:08:09Z"

PHONE = "+15005550006"

CONFIRM = "Please confirm my appointment"
CANCEL = "Please cancel my appointment"


def new_thread(stage: Stage, project: Project | None = None, livemode: bool = False, **fields: Any) -> Thread:
    """A thread in a new project, or in this one."""
    project = project or stage.project()
    customer = create_resource(stage, "/v1/customers", phone=PHONE)["id"]
    appointment = create_resource(stage, "/v1/appointments", customer_id=customer, appointment_at=WHEN)["id"]
    conversation = create_resource(stage, "/v1/conversations", customer={"id": customer}, **fields)["id"]
    return Thread(Scope(project.id, livemode), conversation, customer, f"/v1/appointments/{appointment}")


def wake_up(stage: Stage, thread: Thread, message_id: str) -> dict[str, Any]:
    """A wake-up at a turn."""
    return wake_up_record(stage, "turns", conversations.messages_pk(thread.scope, thread.id), message_id)


def run_turn_worker(stage: Stage, thread: Thread) -> None:
    """Let the turn worker have what its queue holds for the thread."""
    assert work(stage, woken(stage, thread.scope)) == 1


def send_and_get(stage: Stage, time: Clock, thread: Thread, content: str, key: str | None = None) -> Any:
    """The 201 of a message, whose request answers it without waiting."""
    with work_at_each_wait(time):
        response = send(stage, thread, content, key)
    assert response.status == 201, response.body
    return response.json


def events_of(stage: Stage, thread: Thread) -> list[str]:
    """The types of the events of the thread's appointment, oldest first."""
    stage.fan_out()
    id = thread.appointment.rpartition("/")[2]
    return [event["type"] for event in get_resource(stage, f"/v1/events?object_id={id}")["data"]][::-1]


@dataclass(frozen=True)
class Wish:
    """A message that changes the appointment, and what that comes to."""

    content: str
    before: Sequence[str]
    action: str
    event: str
    status: str


WISHES = (
    Wish(CONFIRM, (), "appointment_confirmed", "appointment.confirmed", "confirmed"),
    Wish("yes", (CANCEL,), "appointment_cancelled", "appointment.cancelled", "cancelled"),
)


def thread_errors(stage: Stage, time: Clock, thread: Thread, wish: Wish) -> Iterator[str]:
    """What is wrong with a wish that was granted, whatever happened to its workers."""
    messages = get_resource(stage, thread.messages)["data"][2 * len(wish.before) :]
    if [message["role"] for message in messages] != ["user", "assistant"]:
        yield f"the transcript is {messages}"
        return
    message, reply = messages
    if message["reply_status"] != "complete":
        yield f"reply_status {message['reply_status']}"
    if [action["type"] for action in reply["actions"]] != [wish.action]:
        yield f"actions {reply['actions']}"
    # The key's message waits for nothing any more.
    with work_at_each_wait(time, lambda: None):
        response = send(stage, thread, wish.content, "k")
    conversation = get_resource(stage, f"/v1/conversations/{thread.id}")
    if (response.status, response.headers.get("idempotent-replayed")) != (201, "true"):
        yield f"{response.status} {response.body[:90]!r}"
    elif response.json != message | {"reply": reply, "conversation": conversation}:
        yield "the 201 is not what the transcript shows"
    if (status := get_resource(stage, thread.appointment)["status"]) != wish.status:
        yield f"the appointment is {status}"
    if (happened := events_of(stage, thread)) != ["appointment.created", wish.event]:
        yield f"events {happened}"
    if (code := send(Hurried(stage), thread, "Hello").code) != "agent_timeout":
        yield f"the next message is {code}"
