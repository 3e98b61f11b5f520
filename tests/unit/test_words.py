"""The words of `shared/README.md`: names, docstrings and comments use none of those that it replaces."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
_TABLE = (ROOT / "shared/README.md").read_text(encoding="utf-8").partition("| do not write | write |\n")[2]
INSTEAD = dict(re.findall(r"^\| (\w+) \| (.+) \|$", _TABLE, re.MULTILINE))
_WORD = re.compile(rf"(?<![A-Za-z])({'|'.join(INSTEAD)})s?(?![A-Za-z])", re.IGNORECASE)


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """The names that a module defines, its docstrings and its comments, with their lines."""
    source = path.read_text(encoding="utf-8")
    yield 1, path.stem
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                yield node.lineno, name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, text
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def test_the_code_uses_the_words_of_the_list() -> None:
    assert INSTEAD
    refused = [
        f"{path.relative_to(ROOT)}:{line}: write '{INSTEAD[word[1].lower()]}' instead of '{word[0]}'"
        for folder in ("functions", "infra", "shared", "tests")
        for path in (ROOT / folder).rglob("*.py")
        for line, text in texts(path)
        if (word := _WORD.search(text))
    ]
    assert not refused, "\n".join(refused)
