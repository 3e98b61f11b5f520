"""A reader finds every file and heading that the documents name."""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = (".github", "functions", "infra", "shared", "tests")
LINK = re.compile(r"\]\((?!https?:|mailto:|/)([^)#\s]*)(?:#([^)\s]+))?\)")
"""A link of Markdown to a file, to one of its headings, or to one of the same document."""


def linked() -> list[Path]:
    """The documents of the repository that have such links."""
    documents = [*ROOT.glob("*.md"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.md"))]
    mine = (path for path in documents if "node_modules" not in path.parts)
    return sorted(path for path in mine if LINK.search(path.read_text(encoding="utf-8")))


def headings(document: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    texts = re.findall(r"(?m)^#+ (.+)$", document.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w -]", "", text).strip().lower().replace(" ", "-") for text in texts}


def packages() -> list[Path]:
    """The packages of the domain, and those of the local runner and the operator's commands."""
    inits = (
        (ROOT / "shared").rglob("__init__.py"),
        (ROOT / name / "__init__.py" for name in ("infra/local", "infra/manage")),
    )
    return sorted(path.parent for path in itertools.chain(*inits))


@pytest.mark.parametrize("document", linked(), ids=lambda path: str(path.relative_to(ROOT)))
def test_the_links_of_a_document_lead_to_files_and_headings(document: Path) -> None:
    for name, heading in LINK.findall(document.read_text(encoding="utf-8")):
        target = document.parent / name if name else document
        assert target.exists(), name
        assert not heading or heading in headings(target), f"{name}#{heading}"


def test_the_documents_for_readers_have_links() -> None:
    assert {*linked()} >= {ROOT / name for name in ("README.md", "shared/README.md", "infra/runbook.md")}


def test_the_map_of_the_code_names_files_by_their_full_paths() -> None:
    _, _, text = (ROOT / "shared/README.md").read_text(encoding="utf-8").partition("\n## Paths\n")
    named = re.findall(r"`([\w/]+\.(?:py|md))`", text)
    assert len(named) > 50
    # Each resource's package has this module.
    assert not [path for path in named if path != "commands.py" and not (ROOT / path).is_file()]


@pytest.mark.parametrize("package", packages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_the_docstring_of_a_package_names_its_modules(package: Path) -> None:
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
    modules = {path.stem for path in package.glob("*.py")} - {"__init__"}
    assert not {name for name in modules if not re.search(rf"\b{name}\b", docstring)}


def test_documents_and_docstrings_name_what_files_have() -> None:
    paths = [path for folder in FOLDERS for end in ("md", "py") for path in (ROOT / folder).rglob(f"*.{end}")]
    named = [
        (path, name, file)
        for path in paths
        if "node_modules" not in path.parts
        for name, file in re.findall(
            r"`([A-Za-z_]\w*(?:\.\w+)?)`\s+in\s+\[?`([\w/]+\.py)`", path.read_text(encoding="utf-8")
        )
        if (ROOT / file).is_file()
    ]
    assert len(named) > 150
    missing = [
        f"{path.relative_to(ROOT)}: {name} in {file}"
        for path, name, file in named
        if not re.search(rf"\b{name.rpartition('.')[2]}\b", (ROOT / file).read_text(encoding="utf-8"))
    ]
    assert not missing


@pytest.mark.parametrize(
    ("document", "section", "folder"),
    [
        ("tests/README.md", "What tests share", "tests/support"),
        ("infra/README.md", "Deploying and operating", "infra"),
        ("functions/admin/README.md", "The code", "functions/admin"),
    ],
)
def test_a_table_names_every_module_of_its_folder(document: str, section: str, folder: str) -> None:
    _, _, text = (ROOT / document).read_text(encoding="utf-8").partition(f"# {section}")
    text, _, _ = text.partition("\n## ")
    modules = {path.name for path in (ROOT / folder).glob("*.py")} - {"__init__.py"}
    assert {*re.findall(r"`(\w+\.py)`", text)} == modules


def test_the_table_of_questions_names_tests_that_exist() -> None:
    _, _, text = (ROOT / "tests/README.md").read_text(encoding="utf-8").partition("\n## Which test to open\n")
    text, _, _ = text.partition("\n## ")
    named = re.findall(r"`([\w/]+(?:/|\.py|\.md))`", text)
    assert len(named) > 25
    assert not [path for path in named if not (ROOT / "tests" / path).exists()]


def paths() -> dict[str, list[str]]:
    """The files that each path names, in the order of its text, by the words that the path begins with."""
    _, _, text = (ROOT / "shared/README.md").read_text(encoding="utf-8").partition("\n## Paths\n")
    sections = re.split(r"(?m)^\*\*(.+?)\*\*", text.partition("\n## ")[0])[1:]
    # What differs in a live call is told after the path of a call.
    texts = (text.partition("\nA live call has other steps")[0] for text in sections[1::2])
    return {name: named_files(text) for name, text in zip(sections[::2], texts, strict=True)}


def named_files(text: str) -> list[str]:
    """The files that a text of `shared/README.md` links or names."""
    names = re.findall(r"\]\(([^)#\s]+)\)|(?<!\[)`([\w/]+\.py)`", text)
    return [str(((ROOT / "shared" / link) if link else ROOT / name).resolve()) for link, name in names]


@pytest.mark.parametrize("name", paths())
def test_a_path_has_at_most_twelve_files_and_fifteen_hops(name: str) -> None:
    files = paths()[name]
    assert len({*files}) <= 12
    assert sum(one != other for one, other in itertools.pairwise(files)) <= 15


def test_a_request_a_delivery_a_message_and_a_call_have_paths() -> None:
    assert len(paths()) == 4


NAMED = re.compile(r"`([\w/]+\.(?:py|md|json|html))`")

DECISIONS = [
    path for folder in ("functions", "infra", "shared") for path in sorted((ROOT / folder).rglob("DECISIONS.md"))
]


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.parent.name)
def test_decisions_are_listed_with_the_newest_first(path: Path) -> None:
    dates = re.findall(r"(?m)^- \*\*(\d{4}-\d\d-\d\d) ", path.read_text(encoding="utf-8"))
    assert dates == sorted(dates, reverse=True)
    assert dates


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.parent.name)
def test_decisions_name_files_beside_them_or_from_the_root(path: Path) -> None:
    named = NAMED.findall(path.read_text(encoding="utf-8"))
    places = (path.parent, path.parent / "templates", ROOT)
    assert not [name for name in named if not any((place / name).is_file() for place in places)]
