"""No event is lost and none shown twice, whatever interrupts `listen`."""

from __future__ import annotations

import json
import random
import re
import signal
import statistics
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.cli.processes import Background, Cli, Wire
from tests.support.client import Client, wait_for
from tests.support.concurrency import run_at_once
from tests.support.runner import Service
from tests.support.signed_receiver import Receiver, service_signature_is_valid, standard_signature_is_valid

BURST = 500
WRITERS = 10
QUIET_S = 1.2
"""Longer than two reads: what has not come twice by then does not come twice."""


@pytest.fixture
def wire(service: Service) -> Iterator[Wire]:
    with Wire(urlsplit(service.base_url).port or 0) as started:
        yield started


@pytest.fixture
def through_wire(cli: Cli, wire: Wire, service: Service) -> Cli:
    """The command whose way to the service can be cut, in the second project."""
    return Cli(
        cli.folder,
        APPOINTMENTS_URL=f"http://127.0.0.1:{wire.port}",
        APPOINTMENTS_API_KEY=service.projects[1].test_key,
    )


def create(client: Client, count: int) -> list[str]:
    """Ids of new customers, each of which has one event."""
    return [client.post("/v1/customers", {"phone": "+15005550006"}).ok(201)["id"] for _ in range(count)]


def create_many(client: Client, count: int) -> list[str]:
    made: list[str] = []
    run_at_once([lambda: made.extend(create(client, count // WRITERS)) for _ in range(WRITERS)])
    return made


def customers(*listeners: Background) -> list[str]:
    """The customers whose events were printed, as often as they were."""
    return [str(found[0]) for one in listeners for line in one.lines if (found := re.search(r"cust_\w+", line))]


def assert_each_once(made: list[str], *listeners: Background, timeout: float = 30) -> None:
    wait_for(lambda: set(made) <= set(customers(*listeners)), timeout)
    time.sleep(QUIET_S)
    shown = customers(*listeners)
    assert sorted(one for one in shown if one in set(made)) == sorted(made)
    assert len(shown) == len(set(shown))


def test_a_burst_of_500_events_across_a_restart_is_forwarded_once_and_signed(
    cli: Cli, other: Client, service: Service, receiver: Receiver
) -> None:
    cli.environment["APPOINTMENTS_API_KEY"] = service.projects[1].test_key
    hook = receiver.hook(200)
    secret = cli.run("listen", "--print-secret").out.strip()
    began = int(time.time()) - 1
    with cli.start("listen", "--forward-to", hook.url) as first:
        assert secret in first.err
        made = create_many(other, BURST)
        wait_for(lambda: len(first.ids) > 20, 60)
        assert first.end() == 130
        with cli.start("listen", "--forward-to", hook.url) as second:
            assert "Continuing" in second.err
            assert_each_once(made, first, second, timeout=60)
    received = hook.received
    assert len(received) == BURST == len({one.headers["webhook-id"] for one in received})
    for one in received:
        assert service_signature_is_valid(one, secret)
        assert standard_signature_is_valid(one, secret)
        assert one.body == json.dumps(one.event, ensure_ascii=False, separators=(",", ":")).encode()

    # Exactly five pages: the last one ends where the list does.
    with cli.start("listen", "--since", str(began), "--print-json", "--events", "customer.created") as again:
        assert_each_once(made, again, timeout=60)
        assert f"Behind by {BURST} events" in again.err
        assert "Caught up." in again.err
        assert json.loads(again.lines[0])["type"] == "customer.created"


def test_a_sleep_a_cut_and_a_kill_lose_nothing_and_repeat_nothing(through_wire: Cli, wire: Wire, other: Client) -> None:
    with through_wire.start("listen") as first:
        made = create(other, 3)
        assert_each_once(made, first)

        # A laptop sleeps: its connections are gone when it wakes up.
        first.send(signal.SIGSTOP)
        made += create(other, 3)
        wire.cut()
        wire.mend()
        first.send(signal.SIGCONT)
        assert_each_once(made, first)

        # The network is down for a while, in which nothing can be read.
        wire.cut()
        made += create(other, 3)
        wait_for(lambda: "no event is lost" in first.err)
        wire.mend()
        assert_each_once(made, first)
        assert "Connected again." in first.err

        first.kill()
        made += create(other, 3)
        with through_wire.start("listen") as second:
            assert_each_once(made, first, second)


def test_a_listener_that_waits_uses_under_two_percent_of_the_rate_limit_and_is_quick(
    through_wire: Cli, wire: Wire, other: Client
) -> None:
    delays: list[float] = []
    chance = random.Random(7)
    with through_wire.start("listen", "--events", "customer.*") as running:
        wire.requests, began = 0, time.monotonic()
        time.sleep(6)
        assert wire.requests / (time.monotonic() - began) < 0.02 * 5_000 / 60
        for _ in range(8):
            time.sleep(chance.uniform(0, 0.7))
            made, created = create(other, 1), time.monotonic()
            wait_for(lambda made=made: made[0] in customers(running))  # type: ignore[misc]
            delays.append(time.monotonic() - created)
    assert statistics.median(delays) < 1, delays


def test_a_second_listener_for_the_same_receiver_is_refused(cli: Cli) -> None:
    with cli.start("listen"):
        assert "Another `listen` is running" in cli.run("listen", code=1).err


def test_a_receiver_that_is_down_is_shown_and_gets_the_event_with_since(
    cli: Cli, client: Client, receiver: Receiver
) -> None:
    began = int(time.time()) - 1
    with cli.start("listen", "--forward-to", "localhost:1/hooks") as running:
        (made,) = create(client, 1)
        wait_for(lambda: made in customers(running))
        assert "refused" in running.lines[-1]
    hook = receiver.hook(500)
    with cli.start("listen", "--since", str(began), "--forward-to", hook.url) as running:
        assert hook.wait_about(made)
        wait_for(lambda: any("→ 500" in line for line in running.lines))


def test_since_shows_nothing_that_happened_before(cli: Cli, client: Client) -> None:
    earlier = create(client, 2)
    time.sleep(2.1)
    since = int(time.time())
    later = create(client, 2)
    with cli.start("listen", "--since", str(since)) as running:
        assert_each_once(later, running)
        assert not set(earlier) & set(customers(running))


def test_an_unknown_type_is_refused_by_the_service(cli: Cli) -> None:
    assert "parameter_invalid" in cli.run("listen", "--events", "appointment.eaten", code=1).err
