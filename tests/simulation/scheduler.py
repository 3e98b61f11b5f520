"""Tasks of one process under a virtual clock, of which one runs at a time. A seeded generator decides who goes on.

A task is a greenlet. It gives up control when it sleeps, waits for a lock, or makes a call that takes time; nothing
else interrupts it. What waits for the same instant continues in an order that the generator draws.

`Lock`, `RLock`, `Condition`, `Event`, `Thread`, `Future`, `Executor` and `wait` stand in for those of the standard
library in the modules of the service (`hosts.py`), so that threads inside a function are tasks, too.
"""

from __future__ import annotations

import asyncio.events
import heapq
import itertools
import random
import threading
from collections.abc import Callable, Iterable
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NoReturn

from greenlet import getcurrent, greenlet

MICROSECONDS = 1_000_000


class Stuck(Exception):
    """The simulation did not come to an end: the tasks wait for each other, or go on for ever."""


@dataclass(eq=False)
class Group:
    """Tasks that end together: those of one invocation. A killed group never goes on; a frozen one may later."""

    name: str
    dead: bool = False
    frozen: bool = False
    asleep: list[tuple[Task, int]] = field(default_factory=list)
    """Tasks whose time has come while the group was frozen."""


@dataclass(eq=False)
class Task:
    """A thread of control."""

    name: str
    group: Group | None
    thread: greenlet = field(init=False, repr=False)
    ticket: int = 0
    """Which entry of the heap continues the task. An older entry is outdated."""
    woken: bool = False


class Scheduler:
    """The clock, in microseconds since the Unix epoch, and the tasks that wait for an instant."""

    def __init__(self, seed: str, start: int) -> None:
        self.random = random.Random(seed)
        self.now = start
        self.switches = 0
        self._waiting: list[tuple[int, float, int, Task, int]] = []
        self._numbers = itertools.count()
        self._hub = getcurrent()
        self._dead: list[greenlet] = []
        self.current: Task | None = None

    @property
    def seconds(self) -> float:
        """The time in Unix seconds."""
        return self.now / MICROSECONDS

    def spawn(self, name: str, work: Callable[[], Any], group: Group | None = None, after: float = 0) -> Task:
        """Start a task, `after` seconds from now. It belongs to the group of its creator unless another is given."""
        group = group or (self.current.group if self.current else None)
        task = Task(name, group)
        # The context is that of the creator, as every executor of the service passes it on.
        context: Context = copy_context()
        task.thread = greenlet(lambda: context.run(work), parent=self._hub)
        self._continue_at(task, self.now + round(after * MICROSECONDS))
        return task

    def sleep(self, seconds: float) -> None:
        """Let time pass for the current task."""
        at = self.now + max(0, round(seconds * MICROSECONDS))
        if self.current is None:
            raise Stuck("only tasks can sleep")
        if at > self.now and (not self._waiting or self._waiting[0][0] > at):
            self.now = at  # Nobody else goes on before.
            return
        self._continue_at(self.current, at)
        self._leave()

    def pause(self) -> None:
        """Let another task go on, if the generator says so."""
        self.sleep(0)

    def park(self, seconds: float | None = None) -> bool:
        """Wait until `wake` is called for the current task, at most `seconds`. Returns whether it was."""
        task = self.current
        assert task is not None
        task.woken = False
        task.ticket += 1
        if seconds is not None:
            self._continue_at(task, self.now + max(0, round(seconds * MICROSECONDS)))
        self._leave()
        return task.woken

    def wake(self, task: Task) -> None:
        """Continue a task that is parked."""
        task.woken = True
        self._continue_at(task, self.now)

    def kill(self, group: Group) -> None:
        """No task of the group goes on. If the current one belongs to it, this does not return."""
        group.dead = True
        if self.current is not None and self.current.group is group:
            # Never collected: that would unwind the stack of the dead.
            self._dead.append(self.current.thread)
            # Its event loop must not seem to run in the next task.
            asyncio.events._set_running_loop(None)
            self._hub.switch()

    def freeze(self, group: Group) -> None:
        """The tasks of the group go on only after `thaw`."""
        group.frozen = True

    def thaw(self, group: Group) -> None:
        """Let a frozen group go on."""
        group.frozen = False
        for task, ticket in group.asleep:
            if task.ticket == ticket:
                self._continue_at(task, self.now)
        group.asleep.clear()

    def run(self, until: Callable[[], bool], most_switches: int) -> None:
        """Run tasks until the condition holds. Raises Stuck, or the exception of a task."""
        while not until():
            if not self._waiting:
                raise Stuck("all tasks wait for each other")
            at, _, _, task, ticket = heapq.heappop(self._waiting)
            group = task.group
            if ticket != task.ticket or (group is not None and group.dead):
                continue
            if group is not None and group.frozen:
                group.asleep.append((task, ticket))
                continue
            self.now = max(self.now, at)
            self.switches += 1
            if self.switches > most_switches:
                raise Stuck(f"{most_switches} steps were not enough")
            self.current = task
            task.thread.switch()
            self.current = None

    def _continue_at(self, task: Task, at: int) -> None:
        task.ticket += 1
        heapq.heappush(self._waiting, (at, self.random.random(), next(self._numbers), task, task.ticket))

    def _leave(self) -> None:
        task = self.current
        # The event loop that runs in this task must not seem to run in the next one.
        loop = asyncio.events._get_running_loop()
        asyncio.events._set_running_loop(None)
        self._hub.switch()
        asyncio.events._set_running_loop(loop)
        assert self.current is task


_scheduler: Scheduler | None = None


def use(scheduler: Scheduler) -> None:
    """The scheduler of locks and threads from now on."""
    global _scheduler
    _scheduler = scheduler


def _present() -> Scheduler:
    assert _scheduler is not None
    return _scheduler


def _is_alone() -> bool:
    """Whether no simulation runs: modules are being loaded or warmed."""
    return _scheduler is None or _scheduler.current is None


class Lock:
    """A lock. `reentrant` ones count how often their owner has them."""

    reentrant = False

    def __init__(self) -> None:
        self._owner: Task | None = None
        self._count = 0
        self._waiters: list[Task] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """As the standard library's."""
        if _is_alone():
            return True
        scheduler = _present()
        task = scheduler.current
        assert task is not None
        if self.reentrant and self._owner is task:
            self._count += 1
            return True
        deadline = None if timeout < 0 else scheduler.now + round(timeout * MICROSECONDS)
        while self._owner is not None:
            left = None if deadline is None else (deadline - scheduler.now) / MICROSECONDS
            if not blocking or (left is not None and left <= 0):
                return False
            self._waiters.append(task)
            scheduler.park(left)
            if task in self._waiters:
                self._waiters.remove(task)
        self._owner, self._count = task, 1
        return True

    def release(self) -> None:
        """As the standard library's."""
        if _is_alone():
            return
        self._count -= 1
        if self._count:
            return
        self._owner = None
        scheduler = _present()
        if self._waiters:
            scheduler.wake(self._waiters.pop(scheduler.random.randrange(len(self._waiters))))

    def locked(self) -> bool:
        """As the standard library's."""
        return self._owner is not None

    __enter__ = acquire

    def __exit__(self, *_: object) -> None:
        self.release()


class RLock(Lock):
    """A lock that its owner may acquire again."""

    reentrant = True


class Condition:
    """As the standard library's, without `wait_for`."""

    def __init__(self, lock: Lock | None = None) -> None:
        self._lock = lock or RLock()
        self._waiters: list[Task] = []
        self.acquire, self.release = self._lock.acquire, self._lock.release

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Release the lock, wait until `notify`, and acquire it again."""
        scheduler = _present()
        task = scheduler.current
        assert task is not None
        count = self._lock._count
        self._lock._count = 1
        self._waiters.append(task)
        self._lock.release()
        notified = scheduler.park(timeout)
        if task in self._waiters:
            self._waiters.remove(task)
        self._lock.acquire()
        self._lock._count = count
        return notified

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> NoReturn:
        """Not simulated."""
        raise NotImplementedError

    def notify(self, count: int = 1) -> None:
        """Wake so many waiters."""
        woken, self._waiters[:] = self._waiters[:count], self._waiters[count:]
        for task in woken:
            _present().wake(task)

    def notify_all(self) -> None:
        """Wake all waiters."""
        self.notify(len(self._waiters))


class Future:
    """The result of a task, as that of `concurrent.futures`."""

    def __init__(self) -> None:
        self._done = False
        self._result: Any = None
        self._error: BaseException | None = None
        self._waiters: list[Task] = []

    def done(self) -> bool:
        """Whether there is a result or an exception."""
        return self._done

    def set_result(self, result: Any) -> None:
        """End with a result."""
        self._result = result
        self._end()

    def set_exception(self, error: BaseException) -> None:
        """End with an exception."""
        self._error = error
        self._end()

    def result(self) -> Any:
        """Wait for the result, or raise the exception."""
        wait([self])
        if self._error is not None:
            raise self._error
        return self._result

    def _end(self) -> None:
        self._done = True
        for task in self._waiters:
            _present().wake(task)
        self._waiters.clear()


def wait(futures: Iterable[Future], timeout: float | None = None) -> tuple[set[Future], set[Future]]:
    """Wait until all have ended, at most `timeout` seconds. Returns those that have, and the others.

    The sets are lists in the order of the futures: that of a set depends on addresses.
    """
    scheduler = _present()
    all_of_them = list(futures)
    deadline = None if timeout is None else scheduler.now + round(timeout * MICROSECONDS)
    while pending := [future for future in all_of_them if not future._done]:
        left = None if deadline is None else (deadline - scheduler.now) / MICROSECONDS
        if left is not None and left <= 0:
            break
        task = scheduler.current
        assert task is not None
        pending[0]._waiters.append(task)
        scheduler.park(left)
        if task in pending[0]._waiters:
            pending[0]._waiters.remove(task)
    ended = [future for future in all_of_them if future._done]
    return ended, [future for future in all_of_them if not future._done]  # type: ignore[return-value]


class Thread:
    """A thread, which is a task."""

    def __init__(self, target: Callable[..., Any], args: tuple[Any, ...] = (), name: str = "", daemon: bool = True):
        self._work, self.name = lambda: target(*args), name

    def start(self) -> None:
        """Start the task."""
        _present().spawn(self.name, self._work)


class Executor:
    """A pool of threads: at most `most` tasks run its work at once."""

    def __init__(self, max_workers: int, thread_name_prefix: str = "pool") -> None:
        self._most, self._name = max_workers, thread_name_prefix
        self._running = 0
        self._queue: list[tuple[Future, Callable[[], Any]]] = []
        self._futures: list[Future] = []

    def submit(self, work: Callable[..., Any], *args: Any) -> Future:
        """Run `work` with these arguments in a task."""
        future = Future()
        self._futures.append(future)
        self._queue.append((future, lambda: work(*args)))
        if self._running < self._most:
            self._running += 1
            _present().spawn(self._name, self._work_off)
        return future

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, *_: object) -> None:
        wait(self._futures)

    def _work_off(self) -> None:
        while self._queue:
            future, work = self._queue.pop(0)
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)
            self._futures = [each for each in self._futures if not each._done]
        self._running -= 1


THREADING = SimpleNamespace(
    Lock=Lock, RLock=RLock, Condition=Condition, Thread=Thread, TIMEOUT_MAX=threading.TIMEOUT_MAX
)
"""What the service uses of `threading`. Anything else fails."""
FUTURES = SimpleNamespace(Future=Future, ThreadPoolExecutor=Executor, wait=wait)
"""What the service uses of `concurrent.futures`."""
