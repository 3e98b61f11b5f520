"""Black-box tests over HTTP, from the promises alone.

By default they start the local runner themselves. To test a running service set `BASE_URL`, `TEST_KEY`,
`LIVE_KEY`, `OTHER_TEST_KEY` and `OTHER_LIVE_KEY` (the last two of a second project; `-m smoke` needs
`TEST_KEY` alone) and, if the service is on this machine, `SPEED`. Without `SPEED` it is taken for a deployed
one: it cannot reach receivers on loopback, so the tests that need those are skipped, and what the first key
made is deleted in the end. `CONNECT_TO=HOST:PORT` connects there whatever host `BASE_URL` names, as curl's
`--connect-to` does; `PATIENCE=3` waits three times as long for what happens in the background; `SAMPLE=2,4` runs
every second test of a file and every fourth case of it, the first ones always. With `-n 2 --dist loadfile` each worker
needs projects of its own: separate their keys by spaces.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.client import Client, Promises
from tests.support.client_actions import Subscribe
from tests.support.runner import Project, Service, local_runner, memory_folder, subscriptions
from tests.support.signed_receiver import Receiver

SPEED = 50


def delete_all(client: Client) -> None:
    """Delete what this client has made; what the API cannot delete, conversations, is ended."""
    made = re.findall(r"/v1/((?:customers|appointments|webhook_endpoints|conversations)/\w+)", "\n".join(client.made))
    for path in reversed(dict.fromkeys(made)):
        if path.startswith("conversations/"):
            client.post(f"/v1/{path}/end").ok()
        elif (response := client.delete(f"/v1/{path}")).status != 404:
            response.ok()


def running_service() -> Service:
    """The service that the environment names, with as many projects as it has keys of."""
    base_url = os.environ["BASE_URL"].rstrip("/")
    host, _, port = os.environ.get("CONNECT_TO", "").rpartition(":")
    speed = os.environ.get("SPEED")
    service = Service(
        base_url,
        projects=(),
        speed=float(speed) if speed else None,
        promises=Promises(base_url),
        connect_to=(host, int(port)) if host else None,
    )
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))

    def key(name: str) -> str:
        keys = os.environ.get(name, "").split()
        return keys[worker] if keys else ""

    projects = []
    for prefix in ("", "OTHER_"):
        if test_key := key(f"{prefix}TEST_KEY"):
            ping = service.client(test_key).get("/v1/ping").ok()
            projects.append(Project(ping["project_id"], ping["project_name"], test_key, key(f"{prefix}LIVE_KEY")))
    return replace(service, projects=tuple(projects))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A running service is not for the tests that are marked as the runner's own; a slow one gets a sample."""
    files: dict[Path, dict[str, list[pytest.Item]]] = {}
    for item in items:
        files.setdefault(item.path, {}).setdefault(item.nodeid.partition("[")[0], []).append(item)
        marker = item.get_closest_marker("runner")
        if marker and "BASE_URL" in os.environ:
            item.add_marker(pytest.mark.skip(reason=marker.args[0]))
    tests, cases = map(int, (os.environ.get("SAMPLE") or "1,1").split(","))
    sample = {item for file in files.values() for case in list(file.values())[::tests] for item in case[::cases]}
    config.hook.pytest_deselected(items=[item for item in items if item not in sample])
    items[:] = [item for item in items if item in sample]


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    if "BASE_URL" in os.environ:
        yield running_service()
        return
    with memory_folder() as folder, local_runner(folder, SPEED) as started:
        yield started


@pytest.fixture(scope="session")
def client(service: Service) -> Iterator[Client]:
    """Test mode of the first project."""
    found = service.client(service.projects[0].test_key)
    yield found
    if service.speed is None:
        delete_all(found)


@pytest.fixture(scope="session")
def live(service: Service) -> Client:
    """Live mode of the first project."""
    return service.client(service.projects[0].live_key)


@pytest.fixture(scope="session")
def other(service: Service) -> Client:
    """Test mode of the second project."""
    return service.client(service.projects[1].test_key)


@pytest.fixture(scope="session")
def other_live(service: Service) -> Client:
    """Live mode of the second project."""
    return service.client(service.projects[1].live_key)


@pytest.fixture(scope="session")
def anonymous(service: Service) -> Client:
    return service.client(None)


@pytest.fixture(scope="session")
def receiver(service: Service) -> Iterator[Receiver]:
    if service.speed is None:
        pytest.skip("a deployed service cannot reach a receiver on loopback")
    with Receiver(service.promises) as started:
        yield started


@pytest.fixture
def subscribe() -> Iterator[Subscribe]:
    with subscriptions() as function:
        yield function


@pytest.fixture(scope="module")
def subscribe_module() -> Iterator[Subscribe]:
    """As `subscribe`, for endpoints that several tests of a module look at."""
    with subscriptions() as function:
        yield function


@pytest.fixture(autouse=True)
def every_response_keeps_the_common_promises(service: Service) -> Iterator[None]:
    """Any answer of any test that lacks what every answer has fails that test, each kind of breach once."""
    yield
    broken, service.promises.new = service.promises.new, []
    assert not broken, "\n".join(broken)
