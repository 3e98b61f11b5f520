"""Requests in trouble with AWS: the answer is one of those promised, and the effect is one (promises 4)."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.clocks import Clock
from tests.support.faults import (
    FEWER_TROUBLES,
    LASTING_TROUBLE,
    PASSING_TROUBLE,
    PHONE,
    TROUBLES,
    URL,
    Preparation,
    Request,
    Trouble,
    faults,
    wrongs,
)
from tests.support.resources import create_and_get_path, list_resources
from tests.support.stage import Stage
from tests.support.wire import Fault, wire

WHEN = "2030-05-06T07:08:09Z"


# Requests


def create_customer(stage: Stage) -> Request:
    return Request("POST", "/v1/customers", {"phone": PHONE}, 201)


def create_appointment(stage: Stage) -> Request:
    customer = create_and_get_path(stage, "customers", phone=PHONE).rpartition("/")[2]
    return Request("POST", "/v1/appointments", {"customer_id": customer, "appointment_at": WHEN}, 201)


def create_endpoint(stage: Stage) -> Request:
    return Request("POST", "/v1/webhook_endpoints", {"url": URL}, 201)


def update_customer(stage: Stage) -> Request:
    return Request("PATCH", create_and_get_path(stage, "customers", phone=PHONE), {"metadata": {"a": 1}}, 200)


def update_appointment(stage: Stage) -> Request:
    return Request("PATCH", _appointment(stage), {"status": "confirmed", "metadata": {"a": 1}}, 200)


def update_endpoint(stage: Stage) -> Request:
    return Request("PATCH", create_and_get_path(stage, "webhook_endpoints", url=URL), {"enabled": False}, 200)


def update_of_a_deleted_customer(stage: Stage) -> Request:
    path = create_and_get_path(stage, "customers", phone=PHONE)
    stage.call("DELETE", path)
    return Request("PATCH", path, {"name": "A"}, 409)


def rotate_secret(stage: Stage) -> Request:
    return Request("POST", create_and_get_path(stage, "webhook_endpoints", url=URL) + "/rotate_secret", None, 200)


def send_test_event(stage: Stage) -> Request:
    return Request("POST", create_and_get_path(stage, "webhook_endpoints", url=URL) + "/test", None, 202)


def retry_delivery(stage: Stage) -> Request:
    endpoint = create_and_get_path(stage, "webhook_endpoints", url=URL, enabled=False)
    create_and_get_path(stage, "customers", phone=PHONE)
    stage.fan_out()
    [event] = list_resources(stage, "/v1/events")
    [delivery] = list_resources(stage, f"/v1/events/{event['id']}/deliveries")
    stage.call("PATCH", endpoint, {"enabled": True})
    return Request("POST", f"/v1/events/{event['id']}/deliveries/{delivery['id']}/retry", None, 202)


def delete_customer(stage: Stage) -> Request:
    return Request("DELETE", create_and_get_path(stage, "customers", phone=PHONE), None, 200)


def delete_appointment(stage: Stage) -> Request:
    return Request("DELETE", _appointment(stage), None, 200)


def delete_endpoint(stage: Stage) -> Request:
    return Request("DELETE", create_and_get_path(stage, "webhook_endpoints", url=URL), None, 200)


def _appointment(stage: Stage) -> str:
    customer = create_and_get_path(stage, "customers", phone=PHONE).rpartition("/")[2]
    return create_and_get_path(stage, "appointments", customer_id=customer, appointment_at=WHEN)


KEYED: Sequence[Preparation] = (
    create_customer,
    create_appointment,
    create_endpoint,
    update_customer,
    update_appointment,
    update_endpoint,
    update_of_a_deleted_customer,
    rotate_secret,
    send_test_event,
    retry_delivery,
)
DELETIONS: Sequence[Preparation] = (delete_customer, delete_appointment, delete_endpoint)


def picture(stage: Stage) -> list[str]:
    """All that a project has, but for ids, times and secrets."""
    stage.fan_out()
    docs = [
        doc
        for kind in ("customers", "appointments", "webhook_endpoints")
        for doc in list_resources(stage, f"/v1/{kind}")
    ]
    for event in list_resources(stage, "/v1/events"):
        docs += [event, *list_resources(stage, f"/v1/events/{event['id']}/deliveries")]
    return sorted(map(_faceless, docs))


def _faceless(doc: Any) -> str:
    text = re.sub(r"\b([a-z]+_)[0-7][0-9a-hjkmnp-tv-z]{25}\b", r"\1", json.dumps(doc, sort_keys=True))
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    return re.sub(r'"created": \d+', "", re.sub(r"whsec_.{7}", "", text))


THOROUGH = (create_appointment, update_appointment, delete_appointment)
"""These meet all troubles. All requests commit, replay and fail by the same code, so the others meet fewer."""


def troubles_of(prepare: Preparation, kind: str) -> Sequence[Trouble]:
    """What this request is to meet of a kind of trouble."""
    return (TROUBLES if prepare in THOROUGH else FEWER_TROUBLES)[kind]


@pytest.mark.parametrize("kind", TROUBLES)
@pytest.mark.parametrize("prepare", KEYED, ids=lambda prepare: prepare.__name__)
def test_a_request_in_trouble_is_answered_as_promised_and_its_retry_makes_the_effect_one(
    stage: Stage, stopped_clock: Clock, prepare: Preparation, kind: str
) -> None:
    def try_all(fault: Fault | None, code: str | None, retry: str = "true") -> tuple[list[str], list[str]]:
        stage.project()
        request = prepare(stage)
        with wire(fault):
            first = request.send(stage, "key")
        found = list(wrongs(first, request, code, retry=retry))
        # Others wait a second and come back; so do we.
        stopped_clock.forward(1)
        second, third = request.send(stage, "key"), request.send(stage, "key")
        found += [f"retry: {wrong}" for wrong in wrongs(second, request, None)]
        found += [f"replay: {wrong}" for wrong in wrongs(third, request, None)]
        if third.headers.get("idempotent-replayed") != "true":
            found.append("the third answer is no replay")
        if request.status < 400:
            bodies = {third.body, second.body} | ({first.body} if first.status == request.status else set())
            found += ["the answers differ"] if len(bodies) > 1 else []
        return found, picture(stage)

    wrong, right = try_all(None, None)
    assert wrong == []
    problems = []
    for name, fault, code, retry in faults(stage, prepare, troubles_of(prepare, kind), "key"):
        wrong, seen = try_all(fault, code, retry)
        problems += [f"{name}: {each}" for each in wrong]
        if not wrong and seen != right:
            problems.append(f"{name}: {Counter(seen) - Counter(right)} for {Counter(right) - Counter(seen)}")
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("kind", ["passing", "lasting", "conflict"])
@pytest.mark.parametrize("prepare", [*KEYED, *DELETIONS], ids=lambda prepare: prepare.__name__)
def test_a_request_without_a_key_in_trouble_is_answered_as_promised_and_at_most_one_effect(
    stage: Stage, stopped_clock: Clock, prepare: Preparation, kind: str
) -> None:
    def try_all(fault: Fault | None, code: str | None, retry: str = "true") -> tuple[list[str], list[str]]:
        stage.project()
        request = prepare(stage)
        before = picture(stage)
        with wire(fault):
            first = request.send(stage, None)
        found = list(wrongs(first, request, code, retry=retry))
        seen = picture(stage)
        if first.status >= 400 and request.status < 400 and seen == before:
            seen = right
        if first.status == 201 and stage.call("GET", first.headers["location"].removeprefix("/dev")).status != 200:
            found.append("what was created is not there")
        return found, seen

    right: list[str] = []
    wrong, right = try_all(None, None)
    assert wrong == []
    problems = []
    for name, fault, code, retry in faults(stage, prepare, troubles_of(prepare, kind), None):
        wrong, seen = try_all(fault, code, retry)
        problems += [f"{name}: {each}" for each in wrong]
        if not wrong and seen != right:
            problems.append(f"{name}: {Counter(seen) - Counter(right)} for {Counter(right) - Counter(seen)}")
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("path", ["/v1/customers", "/v1/customers?phone=%2B15005550006", "/v1/webhook_endpoints"])
def test_a_read_in_trouble_is_carried_through_or_unavailable(stage: Stage, stopped_clock: Clock, path: str) -> None:
    create_and_get_path(stage, "customers", phone=PHONE)
    with wire() as line:
        stage.call("GET", path)
    for position in range(len(line.calls)):
        for trouble in (*PASSING_TROUBLE, *LASTING_TROUBLE):
            stopped_clock.forward(1)
            with wire(Fault(position, trouble.disturbance, trouble.tries)):
                found = stage.call("GET", path)
            assert not list(wrongs(found, Request("GET", path, None, 200), trouble.code)), (position, trouble.name)
