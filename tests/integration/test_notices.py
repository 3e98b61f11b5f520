"""The notices that an endpoint is failing, was disabled or has recovered: each one once."""

from __future__ import annotations

import os

import pytest

from infra.local import names
from shared.core import clock
from shared.webhooks import health
from tests.support import log_lines
from tests.support.clocks import Clock
from tests.support.deliveries import PHONE
from tests.support.notices import DISABLED, FAILING, RECOVERED, deliver_event, notices
from tests.support.receivers import Obedient, Receiver, answer
from tests.support.resources import create_resource, get_resource
from tests.support.stage import Stage


def published_notices(stage: Stage) -> list[tuple[str, str]]:
    """Subject and text of the messages to the topic about this project."""
    from moto.sns.models import sns_backends

    topic = sns_backends[names.ACCOUNT][names.REGION].topics[os.environ["NOTICES_TOPIC_ARN"]]
    project = f"project {get_resource(stage, '/v1/ping')['project_id']}, test mode"
    sent = [(notification[2] or "", notification[1]) for notification in topic.sent_notifications]
    return [(subject, text) for subject, text in sent if subject.endswith(project)]


def test_a_failing_endpoint_is_announced_once_and_again_when_it_recovers(stage: Stage, stopped_clock: Clock) -> None:
    obedient = Obedient(400)
    with Receiver(obedient) as receiver, log_lines.lines() as lines:
        id = create_resource(stage, "/v1/webhook_endpoints", url=receiver.url)["id"]
        deliver_event(stage, stopped_clock)
        stopped_clock.forward(health.NOTICE_AFTER_S - 10)
        deliver_event(stage, stopped_clock)
        assert notices(lines) == []
        assert published_notices(stage) == []
        stopped_clock.forward(10)
        deliver_event(stage, stopped_clock)
        deliver_event(stage, stopped_clock)
        assert notices(lines) == [FAILING]
        [(project, mode, endpoint)] = log_lines.ids(lines, FAILING, "project_id", "mode", "endpoint_id")
        assert (project, mode, endpoint) == (get_resource(stage, "/v1/ping")["project_id"], "test", id)
        obedient.behaviour = answer(200)
        deliver_event(stage, stopped_clock)
        deliver_event(stage, stopped_clock)
        assert notices(lines) == [FAILING, RECOVERED]
        subjects, texts = zip(*published_notices(stage), strict=True)
        assert [subject.partition(":")[0] for subject in subjects] == [
            "Webhook endpoint failing",
            "Webhook endpoint recovered",
        ]
        for text in texts:
            assert f"/admin/projects/{project}/test/webhook_endpoints/{id}" in text
            assert receiver.url not in text
        assert receiver.url not in "".join(str(line.__dict__) for line in lines if line.getMessage() == FAILING)


def test_a_short_failure_is_not_announced(stage: Stage, stopped_clock: Clock) -> None:
    obedient = Obedient(400)
    with Receiver(obedient) as receiver, log_lines.lines() as lines:
        create_resource(stage, "/v1/webhook_endpoints", url=receiver.url)
        deliver_event(stage, stopped_clock)
        obedient.behaviour = answer(200)
        deliver_event(stage, stopped_clock)
        assert notices(lines) == []
        assert published_notices(stage) == []


def test_an_endpoint_that_is_disabled_because_of_its_receiver_is_announced(stage: Stage, stopped_clock: Clock) -> None:
    obedient = Obedient(410)
    with Receiver(obedient) as receiver, log_lines.lines() as lines:
        gone = create_resource(stage, "/v1/webhook_endpoints", url=receiver.url)["id"]
        stopped_clock.forward(health.NOTICE_AFTER_S)
        deliver_event(stage, stopped_clock)
        assert notices(lines) == [DISABLED]
        [(subject, _)] = published_notices(stage)
        assert subject.startswith("Webhook endpoint disabled")
        assert get_resource(stage, f"/v1/webhook_endpoints/{gone}")["disabled_reason"] == "gone"
        assert stage.call("DELETE", f"/v1/webhook_endpoints/{gone}").status == 200
        obedient.behaviour = answer(400)
        failing = create_resource(stage, "/v1/webhook_endpoints", url=receiver.url)["id"]
        deliver_event(stage, stopped_clock)
        stopped_clock.forward(health.FAILING_LIMIT_S / 2)
        deliver_event(stage, stopped_clock)
        stopped_clock.forward(clock.scaled_ms(health.FAILING_LIMIT_S) / clock.SECOND / 2 + 1)
        deliver_event(stage, stopped_clock)
        assert get_resource(stage, f"/v1/webhook_endpoints/{failing}")["disabled_reason"] == "failing"
        assert notices(lines) == [DISABLED, FAILING, DISABLED]


def test_an_endpoint_that_is_disabled_soon_after_it_was_changed_is_in_the_log_alone(
    stage: Stage, stopped_clock: Clock
) -> None:
    with Receiver(answer(410)) as receiver, log_lines.lines() as lines:
        id = create_resource(stage, "/v1/webhook_endpoints", url=receiver.url)["id"]
        for _ in range(3):
            deliver_event(stage, stopped_clock)
            assert stage.call("PATCH", f"/v1/webhook_endpoints/{id}", {"enabled": True}).status == 200
    assert notices(lines) == [DISABLED] * 3
    assert published_notices(stage) == []


def test_a_notice_that_cannot_be_sent_is_logged_and_the_attempt_counts(
    stage: Stage, stopped_clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTICES_TOPIC_ARN", os.environ["NOTICES_TOPIC_ARN"] + "-deleted")
    with Receiver(answer(410)) as receiver, log_lines.lines() as lines:
        id = create_resource(stage, "/v1/webhook_endpoints", url=receiver.url)["id"]
        stopped_clock.forward(health.NOTICE_AFTER_S)
        create_resource(stage, "/v1/customers", phone=PHONE)
        stage.fan_out()
        stage.deliver("deliveries")
        assert len(receiver.requests) == 1
    assert notices(lines) == [DISABLED]
    [(endpoint, error)] = log_lines.ids(lines, "notice not sent", "endpoint_id", "error")
    assert endpoint == id
    assert "NotFound" in error
    assert get_resource(stage, f"/v1/webhook_endpoints/{id}")["disabled_reason"] == "gone"


def test_an_endpoint_that_a_person_disables_is_not_announced(stage: Stage, stopped_clock: Clock) -> None:
    with Receiver(answer(200)) as receiver, log_lines.lines() as lines:
        id = create_resource(stage, "/v1/webhook_endpoints", url=receiver.url, enabled=True)["id"]
        assert stage.call("PATCH", f"/v1/webhook_endpoints/{id}", {"enabled": False}).status == 200
        deliver_event(stage, stopped_clock)
        assert notices(lines) == []
        assert published_notices(stage) == []
