"""Descriptions from docstrings: of classes and functions, and of the fields of a class."""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import re
import sys
from collections.abc import Mapping
from enum import StrEnum
from types import ModuleType
from typing import Any

# References to the documents behind the code, which clients do not have.
_REFERENCE = re.compile(r"\s*\(promises? \d[^()]*\)")


def of(described: Any) -> str:
    """The docstring of a class or function, as paragraphs of Markdown without line breaks."""
    return plain(inspect.getdoc(described) or "")


def summary_and_description(function: Any) -> tuple[str, str]:
    """The first paragraph of a docstring without its full stop, and the other paragraphs."""
    summary, _, description = of(function).partition("\n\n")
    return summary.removesuffix("."), description


def of_fields(cls: type) -> dict[str, str]:
    """The docstrings below the fields of a class and its bases, by field."""
    module = sys.modules[cls.__module__]
    found: dict[str, str] = {}
    node = _classes(module).get(cls.__name__)
    if node is None:
        return found
    # A TypedDict does not know its bases.
    for name in (base.id for base in node.bases if isinstance(base, ast.Name)):
        base = getattr(module, name)
        if base.__module__.split(".")[0] in ("functions", "shared"):
            found |= of_fields(base)
    return found | _own_fields(node)


def meanings(cls: type[StrEnum]) -> dict[str, str]:
    """The docstrings of the values of an enumeration, by value."""
    body = _classes(sys.modules[cls.__module__])[cls.__name__].body
    return {
        str(cls[member.targets[0].id]): plain(str(doc.value.value))
        for member, doc in itertools.pairwise(body)
        if isinstance(member, ast.Assign)
        and isinstance(member.targets[0], ast.Name)
        and isinstance(doc, ast.Expr)
        and isinstance(doc.value, ast.Constant)
    }


def listing(summary: str, meanings: Mapping[str, str]) -> str:
    """A description of an enumeration: a summary, and a list of its values."""
    return "\n".join([summary, "", *(f"- `{value}`: {meaning}" for value, meaning in meanings.items())])


def plain(docstring: str) -> str:
    """A docstring without references to promises, and without line breaks within paragraphs."""
    paragraphs = inspect.cleandoc(docstring).split("\n\n")
    return "\n\n".join(_REFERENCE.sub("", " ".join(paragraph.split())) for paragraph in paragraphs)


def _own_fields(node: ast.ClassDef) -> dict[str, str]:
    found = {}
    for field, doc in zip(node.body, node.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(doc, ast.Expr)
            and isinstance(doc.value, ast.Constant)
        ):
            found[field.target.id.removesuffix("_")] = plain(str(doc.value.value))
    return found


@functools.cache
def _classes(module: ModuleType) -> Mapping[str, ast.ClassDef]:
    tree = ast.parse(inspect.getsource(module))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
