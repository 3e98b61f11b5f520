"""A project that has something to show on every admin page."""

from __future__ import annotations

from shared.conversations import commands as conversation_commands
from shared.core import clock
from shared.store import table
from shared.store.keys import Scope
from shared.webhooks import replays
from tests.support.admin_client import Whole, as_test
from tests.support.deliveries import new_event
from tests.support.resources import create_resource, list_resources
from tests.support.stage import Stage

WHEN = "2030-05-06T07:08:09Z"


def replaying(whole: Whole) -> None:
    """A replay to the endpoint is running."""
    scope = Scope(whole.story.project.id, False)
    with as_test():
        change = replays.start(scope, whole.ids["webhook_endpoints"], clock.EPOCH, "staff@example.com")
        table.write(change.writes)


def retrying(stage: Stage, whole: Whole) -> None:
    """The story is about another delivery, whose first attempt has failed and which waits for the next one."""
    id = create_resource(stage, "/v1/webhook_endpoints", url="http://127.0.0.1:1/")["id"]
    found = list_resources(stage, new_event(stage))
    stage.deliver("deliveries")
    [delivery] = [one for one in found if one["webhook_endpoint_id"] == id]
    whole.story.event = whole.ids["events"] = delivery["event_id"]
    whole.story.delivery = delivery["id"]


def hand_off(stage: Stage, whole: Whole) -> None:
    """The agent has handed the conversation to a person."""
    path = f"/v1/conversations/{whole.ids['conversations']}/messages"
    reply = create_resource(stage, path, content="[[sim:handoff]]")["reply"]
    assert reply["actions"][0]["type"] == "handoff"


def hand_off_and_take(stage: Stage, whole: Whole) -> None:
    """The conversation waits for a person, and one has taken it."""
    hand_off(stage, whole)
    with as_test():
        scope = Scope(whole.story.project.id, False)
        change = conversation_commands.take(scope, whole.ids["conversations"], "staff@example.com")
        table.write(change.writes)
