"""Fixtures of the integration tests: one stage for a test process, a project of its own for each test.

What functions ask of AWS is held against their grants (`tests/support/privileges.py`): a test in which one lacks
a right fails, and a run of the whole folder fails if a right was used by no test.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from shared.core import clock
from shared.store import keys, table
from tests.support import privileges
from tests.support import stage as stages
from tests.support.clocks import Clock
from tests.support.conversations import Thread, new_thread

AUDIT = pytest.StashKey[privileges.Audit]()
DATABASE = pytest.StashKey[int]()
"""In the process that runs workers of xdist: the port of the database that all of them share."""


@pytest.fixture(scope="session")
def _stage(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[stages.Stage]:
    folder, recorder = tmp_path_factory.mktemp("stage"), pytestconfig.stash[AUDIT].recorder
    worker = getattr(pytestconfig, "workerinput", None)
    with ExitStack() as running:
        if worker is None:
            port, owner = running.enter_context(stages.running_database(folder)), "local"
        else:
            port, owner = worker["database"], worker["workerid"]
        yield running.enter_context(stages.running(port, folder, recorder, owner))


@pytest.fixture(autouse=True)
def _least_privilege(pytestconfig: pytest.Config) -> Iterator[None]:
    """Fails the test if a function did what its role does not allow, whatever became of the call."""
    yield
    if lacking := pytestconfig.stash[AUDIT].recorder.take_lacking():
        told = "\n".join(f"{use.function} lacks {use.need}; to be granted in {use.line}" for use in lacking)
        pytest.fail(told, pytrace=False)


@pytest.fixture
def stage(_stage: stages.Stage) -> stages.Stage:
    """The stage, emptied of what other tests left in stream and queues, without live calls, with a new project."""
    _stage.stream_records()
    for row in next(table.query("CARRIER", limit=1000)):
        table.write([table.Delete(row["pk"], row["sk"])])
    _stage.empty_queues()
    _stage.project()
    return _stage


@pytest.fixture(scope="module")
def empty_storage(_stage: stages.Stage) -> None:
    """For a module that reads all that is stored, again and again: nothing is left of other modules."""
    _stage.empty_storage()


@pytest.fixture
def stopped_clock() -> Iterator[Clock]:
    """The service's clock under the test's control, starting now; sleeping moves it on."""
    import time

    stopped = Clock(time.time())
    clock.use(lambda: stopped.now, stopped.forward)
    yield stopped
    clock.use(time.time, time.sleep)


@pytest.fixture
def project(stage: stages.Stage) -> stages.Project:
    """A new project, which the stage calls as from now on."""
    return stage.project()


@pytest.fixture
def nothing_of_other_tests_is_due(stage: stages.Stage) -> None:
    """Nothing that other tests left is due."""
    for shard in keys.due_shards():
        for page in list(table.query(shard, index="due", limit=1000)):
            for row in page:
                with suppress(table.ConditionFailed):
                    table.write_and_get(table.Update(row["pk"], row["sk"], set={"due": None, "due_shard": None}))


@pytest.fixture
def live_thread(stage: stages.Stage, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Thread]:
    """Makes a thread in live mode, in a new project; the stage calls with its live key from then on."""
    monkeypatch.setenv("SIMULATE_LIVE", "1")

    def thread() -> Thread:
        project = stage.project()
        stage._key = project.live_key
        return new_thread(stage, project, livemode=True)

    return thread


# One database for all workers of xdist, because each one would compile the same code: half a minute of processor time.


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    if DATABASE not in node.config.stash:
        running = ExitStack()
        node.config.add_cleanup(running.close)
        folder = running.enter_context(tempfile.TemporaryDirectory())
        node.config.stash[DATABASE] = running.enter_context(stages.running_database(Path(folder)))
    node.workerinput["database"] = node.config.stash[DATABASE]


# Rights that no test used are found at the end: workers of xdist tell the process that runs them what they saw.


def pytest_configure(config: pytest.Config) -> None:
    config.stash[AUDIT] = privileges.Audit(Path(__file__).parent)


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    for item in items:
        item.config.stash[AUDIT].deselected(item.path)


def pytest_collection_finish(session: pytest.Session) -> None:
    if session.items:
        tests = [(item.path, item.nodeid) for item in session.items]
        session.config.stash[AUDIT].collected(tests, session.config.args)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" and report.passed:
        item.config.stash[AUDIT].passed(item.nodeid)
    return report


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: Any) -> None:
    node.config.stash[AUDIT].add(getattr(node, "workeroutput", {}).get("privileges"))


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    audit = session.config.stash[AUDIT]
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["privileges"] = audit.told()
    elif audit.unused():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    audit = config.stash[AUDIT]
    if audit.unused():
        terminalreporter.section("rights that no test uses", red=True)
    terminalreporter.write_line(audit.summary())
