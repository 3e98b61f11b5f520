"""Execution environments of Lambda: each has its own copy of the service's modules, with what they remember.

A host runs one invocation at a time, as an execution environment does. The copies are made before the simulation, with
simulated threads and locks, from the sources of a release (`releases.py`).
"""

from __future__ import annotations

import builtins
import copy
import importlib
import importlib.abc
import importlib.util
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.simulation import scheduler
from tests.simulation.releases import OURS, RENAMED, Release

REPLACED: dict[str, Any] = {"threading": scheduler.THREADING, "concurrent.futures": scheduler.FUTURES}
IMPORTED_LATE = ("botocore.config", "botocore.exceptions", "cryptography.hazmat.primitives.ciphers.aead", "markdown_it")
"""What functions import when they first need it. It is imported once, before all histories."""


@dataclass(eq=False)
class Host:
    """One copy of the modules. `groups` have the tasks of its invocations, which are frozen after each response."""

    name: str
    modules: dict[str, types.ModuleType]
    previous: bool = False
    """Whether it has the previous release."""
    groups: list[Any] = field(default_factory=list)
    invocations: int = 0
    loop: Any = None
    """The event loop of the API's functions."""
    _memory: list[tuple[Any, dict[str, Any]]] = field(default_factory=list)

    def module(self, name: str) -> Any:
        """A module of this copy."""
        return self.modules[name]

    def commit(self, command: Callable[[], Any], who: str) -> Any:
        """Commit the change of a command. The previous release wants to know who does so."""
        commit = self.module("shared.store.transactions").commit
        return commit(command, who) if self.previous else commit(command)

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


def load(count: int, release: Release) -> list[Host]:
    """So many copies of the service's modules."""
    present = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in OURS}
    hosts: list[Host] = []
    codes = {file: compile(text, str(release.root / file), "exec") for file, text in release.sources.items()}
    for name in IMPORTED_LATE:
        importlib.import_module(name)
    try:
        for number in range(count):
            _forget()
            host = Host(f"{'old' if release.previous else ''}{number}", _load(release, codes), release.previous)
            if release.previous:
                _rename(host.modules, RENAMED)
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


def _load(release: Release, codes: Mapping[str, types.CodeType]) -> dict[str, types.ModuleType]:
    modules: dict[str, types.ModuleType] = {}
    finder = _Finder(release.root, codes, _builtins(modules))
    sys.meta_path.insert(0, finder)
    try:
        for file in codes:
            importlib.import_module(file.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    finally:
        sys.meta_path.remove(finder)
    # From here on, imports inside of functions find the modules of this copy.
    modules.update({name: module for name, module in sys.modules.items() if name.partition(".")[0] in OURS})
    for module in modules.values():
        if (app := getattr(module, "app", None)) is not None:
            app.warm()
    return modules


def _rename(modules: dict[str, Any], renamed: Mapping[str, str]) -> None:
    """Let what has another name now be found under it as well."""
    for now, before in renamed.items():
        if before in modules:
            modules[now] = modules[before]
        else:
            (module, _, name), (module_before, _, name_before) = now.rpartition("."), before.rpartition(".")
            setattr(modules[module], name, getattr(modules[module_before], name_before))


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

    def __init__(self, root: Path, codes: Mapping[str, types.CodeType], found: dict[str, Any]) -> None:
        self._root, self._codes, self._builtins = root, codes, found

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The spec of a module of ours, None for any other."""
        if name.partition(".")[0] not in OURS:
            return None
        module = name.replace(".", "/")
        file = next((file for file in (f"{module}/__init__.py", f"{module}.py") if file in self._codes), None)
        if file is None:
            # Another finder would take it from the tree.
            raise ModuleNotFoundError(f"no module named {name} in {self._root}", name=name)
        inside = [str(self._root / module)] if file.endswith("/__init__.py") else None
        loader = _Loader(self._codes[file], self._builtins)
        return importlib.util.spec_from_file_location(
            name, self._root / file, loader=loader, submodule_search_locations=inside
        )


class _Loader(importlib.abc.Loader):
    def __init__(self, code: types.CodeType, found: dict[str, Any]) -> None:
        self._code, self._builtins = code, found

    def exec_module(self, module: types.ModuleType) -> None:
        """Run the module's code with the copy's builtins."""
        module.__dict__["__builtins__"] = self._builtins
        exec(self._code, module.__dict__)
