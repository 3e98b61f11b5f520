"""`trigger`, deliveries, `verify`, `call` and `chat`."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from functools import partial

from infra.cli.trigger import RECIPES
from tests.cli.processes import Cli
from tests.support.client import Client, wait_for
from tests.support.concurrency import run_at_once
from tests.support.runner import ROOT
from tests.support.signed_receiver import Receiver

TYPES = [*json.loads((ROOT / "tests/openapi.json").read_text())["webhooks"]]


def test_every_event_type_of_the_description_is_triggered(cli: Cli) -> None:
    assert set(RECIPES) == set(TYPES)

    def trigger(types: list[str]) -> None:
        for one in types:
            assert json.loads(cli.run("trigger", one, "--json").out)["type"] == one

    # What needs the same requests is tried once.
    same = {"appointment.failed", "session.created", "session.dialing", "session.completed", "session.transcript_ready"}
    tried = [one for one in TYPES if one not in same]
    run_at_once([partial(trigger, tried[start::4]) for start in range(4)])


def test_an_override_changes_what_is_sent(cli: Cli) -> None:
    found = cli.run("trigger", "appointment.created", "--json", "--override", "appointment:metadata[plan]=gold").out
    assert json.loads(found)["data"]["object"]["metadata"] == {"plan": "gold"}
    assert "only customer" in cli.run("trigger", "customer.created", "--override", "room:name=1", code=2).err


def test_failed_deliveries_are_listed_and_sent_again(cli: Cli, client: Client, receiver: Receiver) -> None:
    hook = receiver.hook(400, 400, 200)
    endpoint = client.post("/v1/webhook_endpoints", {"url": hook.url, "event_filters": ["customer.created"]}).ok(201)[
        "id"
    ]
    try:
        made = [client.post("/v1/customers", {"phone": "+15005550006"}).ok(201)["id"] for _ in range(2)]
        hook.wait(2)

        def list_failed() -> list[str]:
            return cli.run("deliveries", "list", "--failed", "--endpoint", endpoint, "--json").out.splitlines()

        lines = wait_for(lambda: len(found := list_failed()) == 2 and found)
        event = json.loads(lines[0])["event_id"]
        assert "attempting" in cli.run("events", "resend", event, "--endpoint", endpoint).out
        hook.wait(3)
        wait_for(lambda: len(list_failed()) == 1)
        resend = "resend", "--failed", "--since", "10m", "--endpoint", endpoint
        assert "Sent 1 of 1 failed deliveries again." in cli.run(*resend).out
        assert {one.event["data"]["object"]["id"] for one in hook.wait(4)[2:]} == set(made)
        wait_for(lambda: not list_failed())
        assert "100%" in cli.in_terminal("deliveries", "list", "--since", "10m")
        assert "100%" in cli.in_terminal(*resend)
        assert event in cli.run("events", "list", "--type", "customer.created").out
        assert json.loads(cli.run("events", "show", event, "--json").out)["id"] == event
    finally:
        client.delete(f"/v1/webhook_endpoints/{endpoint}")


def test_verify_knows_valid_wrong_and_old_signatures(cli: Cli) -> None:
    body, now = b'{"id":"evt_1"}', int(time.time())

    def signature(moment: int) -> str:
        digest = hmac.new(b"whsec_x", b"%d." % moment + body, hashlib.sha256).hexdigest()
        return f"t={moment},v1={'0' * 64},v1={digest}"

    request = f"POST / HTTP/1.1\r\nService-Signature: {signature(now)}\r\n\r\n".encode() + body
    assert "is valid" in cli.run("verify", stdin=request, WEBHOOK_SECRET="whsec_x").out
    assert "is valid" in cli.run("verify", "--signature", signature(now), stdin=body, WEBHOOK_SECRET="whsec_x").out
    assert "No v1" in cli.run("verify", stdin=request, code=1).err
    old = "verify", "--signature", signature(now - 301)
    assert "300 s" in cli.run(*old, stdin=body, code=1, WEBHOOK_SECRET="whsec_x").err
    cli.run(*old, "--any-age", stdin=body, WEBHOOK_SECRET="whsec_x")


def test_a_call_is_watched_to_its_transcript_and_a_chat_is_held_in_a_terminal(cli: Cli, client: Client) -> None:
    customer = client.post("/v1/customers", {"phone": "+15005550006", "name": "Ada"}).ok(201)["id"]
    appointment = {"customer_id": customer, "appointment_at": "2032-03-04T15:00:00Z", "title": "Check-up"}
    client.post("/v1/appointments", appointment).ok(201)
    watched = cli.run("call", customer, "--watch")
    assert "completed" in watched.err
    assert "customer:" in watched.out
    busy = client.post("/v1/customers", {"phone": "+15005550003"}).ok(201)["id"]
    assert "busy" in (ended := cli.run("call", busy, "--watch", code=1)).err or "unreached" in ended.err

    said = (("you: ", "cancel my appointment\n"), ("you: ", "yes\n"), ("you: ", "\x04"))
    shown = cli.in_terminal("chat", "--customer", customer, dialogue=said)
    assert "AI assistant" in shown
    assert "appointment_cancelled appt_" in shown
