"""A project with an event whose delivery has failed, as the admin pages show it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shared.admin import members
from tests.support import receivers
from tests.support.admin_client import STAFF, Story, Whole, add_member, as_test, keys_of
from tests.support.deliveries import new_event
from tests.support.project_of_pages import WHEN
from tests.support.resources import create_resource
from tests.support.stage import Stage


@pytest.fixture
def story(stage: Stage) -> Iterator[Story]:
    project = stage.project("Blue Clinic")
    add_member(project.id, STAFF, members.MEMBER)
    # A 400 is not retried: the delivery has failed at once. Everything after it is taken.
    with receivers.Receiver(receivers.answer(400, b"<b>no</b>"), receivers.answer(200)) as receiver:
        assert stage.call("POST", "/v1/webhook_endpoints", {"url": receiver.url}).status == 201
        path = new_event(stage)
        stage.settle()
        [delivery] = stage.call("GET", path).json["data"]
        assert delivery["status"] == "failed"
        yield Story(project, delivery["event_id"], delivery["id"], receiver)


@pytest.fixture
def whole(stage: Stage, story: Story) -> Whole:
    """The story's project with a resource of every kind. The customer of the pages has no call."""
    customer = create_resource(stage, "/v1/customers", phone="+15005550006", name="Ada")["id"]
    appointment = create_resource(
        stage, "/v1/appointments", customer_id=customer, appointment_at=WHEN, title="Check-up"
    )["id"]
    conversation = create_resource(stage, "/v1/conversations", external_id="ada", customer={"id": customer})["id"]
    [endpoint] = stage.call("GET", "/v1/webhook_endpoints").json["data"]
    callee = create_resource(stage, "/v1/customers", phone="+15005550000")["id"]
    session = create_resource(stage, f"/v1/customers/{callee}/call")["session_id"]
    with as_test():
        [staff] = [one.id for one in members.of_project(story.project.id) if one.email == STAFF]
    ids = {
        "events": story.event,
        "api_keys": keys_of(story.project.id)[0].id,
        "members": staff,
        "webhook_endpoints": endpoint["id"],
        "customers": customer,
        "appointments": appointment,
        "conversations": conversation,
        "sessions": session,
    }
    return Whole(story, ids)
