"""The list of promises: each is held by tests that exist, and whatever is cited is in the list."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIST = ROOT / "tests/conformance/promises.md"
SECTION = re.compile(r"^## (\d+)\. ", re.MULTILINE)
PROMISE = re.compile(r"^- \*\*(\d+\.\d+)\*\* ", re.MULTILINE)
TEST = re.compile(r"`([\w./]+\.py)::(\w+)`")
NUMBER = r"\d+(?:\.\d+)?"
CITATION = re.compile(rf"\bpromises? ({NUMBER}(?:(?:,| and|, and) {NUMBER})*)", re.IGNORECASE)

sections, promises = (pattern.split(LIST.read_text(encoding="utf-8"))[1:] for pattern in (SECTION, PROMISE))
TEXTS = dict(zip(promises[::2], promises[1::2], strict=True))


def sources() -> list[Path]:
    """The code and the documents of the repository."""
    found = [path for folder in ("functions", "infra", "shared", "tests") for path in (ROOT / folder).rglob("*")]
    wanted = [path for path in found if path.suffix in {".py", ".md", ".ts", ".toml", ".html"}]
    return [*(path for path in wanted if "node_modules" not in path.parts), *ROOT.glob("*.md")]


def test_numbers_are_consecutive() -> None:
    assert sections[::2] == [str(number) for number in range(len(sections) // 2)]
    for section, text in zip(sections[::2], sections[1::2], strict=True):
        listed = PROMISE.findall(text)
        assert listed == [f"{section}.{number}" for number in range(1, len(listed) + 1)]


@pytest.mark.parametrize("promise", TEXTS)
def test_each_promise_is_held_by_tests_that_exist(promise: str) -> None:
    named = TEST.findall(TEXTS[promise])
    assert named
    for path, test in named:
        file = LIST.parent / path
        assert file.is_file(), path
        assert re.search(rf"^def {test}\(", file.read_text(encoding="utf-8"), re.MULTILINE), f"{path} has no {test}"


def test_what_is_cited_is_in_the_list() -> None:
    known = {*sections[::2], *TEXTS}
    cited = [
        (number, path.relative_to(ROOT))
        for path in sources()
        for citation in CITATION.findall(path.read_text(encoding="utf-8"))
        for number in re.findall(NUMBER, citation)
    ]
    assert [citation for citation in cited if citation[0] not in known] == []
