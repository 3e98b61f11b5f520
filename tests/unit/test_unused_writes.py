"""Functions that return writes or a change execute nothing, so nobody may drop what they return."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shared.store import transactions

ROOT = Path(__file__).parents[2]
BUILDS = re.compile(r"\b(?:Put|Update|Delete|Check|Writes?|Change)\b")
"""What the return type of such a function mentions."""
_ONE = r"(?:table\.)?(?:Put|Update|Delete|Check|Write)"
ONLY_WRITES = re.compile(rf"{_ONE}|(?:list|Sequence)\[{_ONE}\]|Writes\[{_ONE}\]")
"""The return type of a function that returns nothing else."""


def test_what_a_function_has_to_write_is_not_dropped() -> None:
    assert not [f"{path}:{line}" for path in modules() for line in dropped(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(
    "text",
    [
        "from shared.calls import transcripts\ntranscripts.delete_write(scope, id)",
        "from shared.calls.sessions import SESSIONS\nSESSIONS.erasure_writes(scope, row)",
        "def row() -> table.Put: ...\nrow()",
        "def run():\n    from shared.calls.commands import request_call as call\n    call(scope, id, options)",
    ],
)
def test_dropped_writes_are_found(text: str) -> None:
    assert [*dropped(text)] == [text.count("\n") + 1]


def test_the_name_of_a_function_says_whether_it_returns_writes() -> None:
    # An entry is one of the audit trail; `once` is the record of a form.
    named = {"write", "writes", "check", "checks", "entry", "once"}
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.returns and ONLY_WRITES.fullmatch(ast.unparse(node.returns)):
                assert {*node.name.split("_")} & named, f"{path}:{node.lineno}: {node.name}"


def modules() -> Iterator[Path]:
    for folder in ("functions", "shared", "infra/manage"):
        yield from (ROOT / folder).rglob("*.py")


def dropped(text: str) -> Iterator[int]:
    """The lines of a module that only call such a function, by name or by that of its module or collection."""
    tree = ast.parse(text)
    returned = {
        node.name: ast.unparse(node.returns)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.returns
    }
    found = imported(tree)
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
            continue
        called = node.value.func
        if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
            type_name = annotation(getattr(found.get(called.value.id), called.attr, None))
        else:
            name = called.id if isinstance(called, ast.Name) else ""
            type_name = annotation(found.get(name)) or returned.get(name, "")
        if BUILDS.search(type_name):
            yield node.lineno


def imported(tree: ast.Module) -> dict[str, Any]:
    """What a module imports from `shared`, by the name that it gives."""
    found = dict[str, Any]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("shared"):
            module = importlib.import_module(str(node.module))
            for alias in node.names:
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")
                found[alias.asname or alias.name] = getattr(module, alias.name)
    return found


def annotation(function: object) -> str:
    """The type that a function returns, as it is written; empty if it is unknown, or if it has executed the writes."""
    if function in (transactions.commit, transactions.execute):
        return ""
    return str(getattr(function, "__annotations__", {}).get("return", ""))
