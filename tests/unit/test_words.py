"""The words of `shared/GLOSSARY.md`: names, docstrings, comments, documents and pages use none that it replaces."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
_TABLE = (ROOT / "shared/GLOSSARY.md").read_text(encoding="utf-8").partition("| do not write | write |\n")[2]
INSTEAD = dict(re.findall(r"^\| (\w+) \| (.+) \|$", _TABLE, re.MULTILINE))
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_READ = (
    *(path for folder in ("functions", "infra", "shared", "tests") for path in (ROOT / folder).rglob("*.py")),
    *(path for folder in ("functions", "infra", "shared", "tests") for path in (ROOT / folder).rglob("*.md")),
    *(path for folder in ("functions", "shared") for path in (ROOT / folder).rglob("*.html")),
    *ROOT.glob("*.md"),
)
_FOR_CLIENTS = ROOT / "shared/docs/content"
"""Pages for clients, to whom our words mean nothing, so that theirs are not refused."""
_INSTANT = re.compile(r"(?:^|_)(?:at|until|since|now|instant)$")
"""Names of instants, which have the type `Instant` or `UnixSeconds` (`shared/core/clock.py`)."""
_WORD = re.compile(rf"(?<![A-Za-z])({'|'.join(INSTEAD)})s?(?![A-Za-z])", re.IGNORECASE)


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """The texts of a file, with their lines: a module's names, docstrings and comments, or the lines of a document."""
    source = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        # Code in a document is that of a module, or of a client.
        lines = _CODE.sub(lambda code: re.sub(r"[^\n]", "", code[0]), source.replace(_TABLE, "")).split("\n")
        yield from enumerate(lines, start=1)
        return
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


def test_code_documents_and_pages_use_the_words_of_the_list() -> None:
    assert INSTEAD
    refused = [
        f"{path.relative_to(ROOT)}:{line}: write '{INSTEAD[word[1].lower()]}' instead of '{word[0]}'"
        for path in _READ
        # Tools of `make test-openapi` bring documents of their own.
        if not path.is_relative_to(_FOR_CLIENTS) and "node_modules" not in path.parts
        for line, text in texts(path)
        if (word := _WORD.search(text))
    ]
    assert not refused, "\n".join(refused)


def test_a_constant_names_its_unit_by_the_usual_letters() -> None:
    long = re.compile(r"^_?[A-Z_]+_(?:SECONDS|MILLISECONDS)\b", re.MULTILINE)
    files = [path for folder in ("functions", "infra", "shared") for path in (ROOT / folder).rglob("*.py")]
    found = [f"{path.relative_to(ROOT)}: {name}" for path in files for name in long.findall(path.read_text("utf-8"))]
    assert not found, f"write _S and _MS: {found}"


def test_an_instant_has_the_type_instant() -> None:
    bare = []
    for path in (*(ROOT / "functions").rglob("*.py"), *(ROOT / "shared").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case (
                    ast.arg(arg=name, annotation=ast.expr() as type)
                    | ast.AnnAssign(target=ast.Name(id=name), annotation=type)
                    | ast.FunctionDef(name=name, returns=ast.expr() as type)
                ):
                    if _INSTANT.search(name) and re.search(r"\bint\b", ast.unparse(type)):
                        bare.append(f"{path.relative_to(ROOT)}:{node.lineno}: {name}: {ast.unparse(type)}")
    assert not bare, "\n".join(bare)


def test_a_package_of_a_resource_has_the_same_names_in_every_module() -> None:
    """`commands` and `resource` are in many packages, so each is imported by a name of its own."""
    names: dict[tuple[str, str], set[str]] = defaultdict(set)
    for folder in ("functions", "infra", "shared"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("shared."):
                    for alias in node.names:
                        if alias.name in ("commands", "resource"):
                            names[str(node.module), alias.name].add(alias.asname or alias.name)
    used = [name for each in names.values() for name in each]
    assert len(used) == len(names) == len({*used} - {"commands", "resource"}), names
