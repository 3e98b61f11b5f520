"""A reader finds every file that the documents name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("README.md", "shared/README.md", "infra/README.md", "tests/README.md", "functions/admin/README.md")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_links_of_a_document_lead_to_files(name: str) -> None:
    document = ROOT / name
    links = re.findall(r"\]\((?!https?:)([^)#\s]+)", document.read_text(encoding="utf-8"))
    assert not [link for link in links if not (document.parent / link).exists()]


def test_the_map_of_the_code_names_files_by_their_full_paths() -> None:
    _, _, text = (ROOT / "shared/README.md").read_text(encoding="utf-8").partition("\n## Four paths\n")
    text, _, _ = text.partition("\n## Words\n")
    named = re.findall(r"`([\w/]+\.(?:py|md))`", text)
    assert len(named) > 50
    # Each resource's package has this module.
    assert not [path for path in named if path != "commands.py" and not (ROOT / path).is_file()]


DECISIONS = [
    path for folder in ("functions", "infra", "shared") for path in sorted((ROOT / folder).rglob("DECISIONS.md"))
]


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.parent.name)
def test_decisions_are_listed_with_the_newest_first(path: Path) -> None:
    dates = re.findall(r"(?m)^- \*\*(\d{4}-\d\d-\d\d) ", path.read_text(encoding="utf-8"))
    assert dates == sorted(dates, reverse=True)
    assert dates
