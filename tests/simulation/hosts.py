"""Execution environments of Lambda: each has its own copy of the service's modules, with what they remember.

A host runs one invocation at a time, as an execution environment does. The copies are made before the simulation, with
simulated threads and locks; a planted fault replaces a line of a module's source when it is loaded.
"""

from __future__ import annotations

import builtins
import copy
import importlib
import importlib.machinery
import importlib.util
import pkgutil
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.simulation import scheduler

ROOT = Path(__file__).parents[2]
OURS = ("shared", "functions")
LEFT_OUT = ("functions.admin", "shared.admin", "shared.docs", "shared.pages", "functions.entry", "functions.fallback")
"""Modules that no simulated function uses."""
REPLACED: dict[str, Any] = {"threading": scheduler.THREADING, "concurrent.futures": scheduler.FUTURES}
IMPORTED_LATE = ("botocore.config", "botocore.exceptions", "cryptography.hazmat.primitives.ciphers.aead", "markdown_it")
"""What functions import when they first need it. It is imported once, before all histories."""

Replacement = tuple[str, str, str]
"""A module's file, a text in it that occurs once, and the text in its place."""


@dataclass(eq=False)
class Host:
    """One copy of the modules. `groups` have the tasks of its invocations, which are frozen after each response."""

    number: int
    modules: dict[str, types.ModuleType]
    groups: list[Any] = field(default_factory=list)
    invocations: int = 0
    loop: Any = None
    """The event loop of the API's functions."""
    _memory: list[tuple[Any, dict[str, Any]]] = field(default_factory=list)

    def module(self, name: str) -> Any:
        """A module of this copy."""
        return self.modules[name]

    def remember(self) -> None:
        """Keep the present state, to which `reset` returns."""
        for name, module in self.modules.items():
            for value in list(vars(module).values()):
                # Pools, and what threads share, which has a lock, are the only state that outlives an invocation.
                shared = type(value).__module__ == name and _has_lock(value)
                if shared or isinstance(value, scheduler.Executor):
                    self._memory.append((value, copy.deepcopy(vars(value))))

    def reset(self) -> None:
        """Begin anew, as the next execution environment does: forget what invocations left behind."""
        for value, attributes in self._memory:
            vars(value).clear()
            vars(value).update(copy.deepcopy(attributes))
        services = self.module("shared.aws.services")
        for client in (services.dynamodb, services.sqs, services.stepfunctions, services.kms, services.s3):
            client.cache_clear()
        self.groups = []


def _has_lock(value: Any) -> bool:
    return any(isinstance(part, scheduler.Lock) for part in getattr(value, "__dict__", {}).values())


def load(count: int, planted: Sequence[Replacement] = ()) -> list[Host]:
    """So many copies of the service's modules."""
    present = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in OURS}
    hosts = []
    for name in IMPORTED_LATE:
        importlib.import_module(name)
    try:
        for number in range(count):
            _forget()
            host = Host(number, _load(planted))
            host.remember()
            hosts.append(host)
    finally:
        _forget()
        sys.modules.update(present)
    return hosts


def load_module(name: str) -> Any:
    """A copy of one module outside of the service, with simulated locks."""
    modules: dict[str, types.ModuleType] = {}
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    module = types.ModuleType(f"simulated.{name}")
    module.__dict__["__builtins__"] = _builtins(modules)
    sys.modules[module.__name__] = module
    exec(compile(Path(spec.origin).read_text(), spec.origin, "exec"), module.__dict__)
    return module


def _forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
        del sys.modules[name]


def _load(planted: Sequence[Replacement]) -> dict[str, types.ModuleType]:
    modules: dict[str, types.ModuleType] = {}
    finder = _Finder(_builtins(modules), planted)
    sys.meta_path.insert(0, finder)
    try:
        for package in OURS:
            for info in pkgutil.walk_packages([str(ROOT / package)], f"{package}."):
                if not info.name.startswith(LEFT_OUT):
                    importlib.import_module(info.name)
    finally:
        sys.meta_path.remove(finder)
    assert not finder.unused, f"nothing was planted in {finder.unused}"
    # From here on, imports inside of functions find the modules of this copy.
    modules.update({name: module for name, module in sys.modules.items() if name.partition(".")[0] in OURS})
    for module in modules.values():
        if (app := getattr(module, "app", None)) is not None:
            app.warm()
    return modules


def _builtins(modules: Mapping[str, types.ModuleType]) -> dict[str, Any]:
    """The builtins of a copy's modules, whose `import` finds the copy's modules and simulated threads."""
    usual: Callable[..., Any] = builtins.__import__

    # As `__import__` names them.
    def find(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:  # noqa: A002
        if name in REPLACED:
            return REPLACED[name]
        if level == 0 and name in modules:
            return modules[name] if fromlist else modules[name.partition(".")[0]]
        return usual(name, globals, locals, fromlist, level)

    return {**vars(builtins), "__import__": find}


class _Finder:
    """Finds the service's modules, and loads them with a copy's builtins."""

    def __init__(self, found: dict[str, Any], planted: Sequence[Replacement]) -> None:
        self._builtins = found
        self._planted = planted
        self.unused = {file for file, _, _ in planted}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The spec of a module of ours, None for any other."""
        if name.partition(".")[0] not in OURS:
            return None
        file = ROOT / name.replace(".", "/")
        is_package = file.is_dir()
        file = file / "__init__.py" if is_package else file.with_suffix(".py")
        loader = _Loader(name, str(file), self._builtins, self._planted, self.unused)
        spec = importlib.util.spec_from_file_location(name, file, loader=loader)
        return spec if file.exists() else None


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(
        self, name: str, path: str, found: dict[str, Any], planted: Sequence[Replacement], unused: set[str]
    ) -> None:
        super().__init__(name, path)
        self._builtins, self._planted, self._unused = found, planted, unused

    def exec_module(self, module: types.ModuleType) -> None:
        """Run the module's code with the copy's builtins."""
        module.__dict__["__builtins__"] = self._builtins
        changes = [(old, new) for file, old, new in self._planted if str(ROOT / file) == self.path]
        if not changes:
            code = self.get_code(module.__name__)
            assert code is not None
            exec(code, module.__dict__)
            return
        text = Path(self.path).read_text()
        for old, new in changes:
            assert text.count(old) == 1, f"{self.path} has {text.count(old)} times: {old}"
            text = text.replace(old, new)
        self._unused.discard(str(Path(self.path).relative_to(ROOT)))
        exec(compile(text, self.path, "exec"), module.__dict__)
