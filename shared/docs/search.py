"""Finds sections of the pages by words. The words of a section are its heading, its text and its code."""

from __future__ import annotations

import re
from dataclasses import dataclass

from shared.docs.contents import PAGES, Page
from shared.docs.markdown import Section, document

MOST_RESULTS = 30
MOST_CHARACTERS = 100
"""The characters of a query that are read."""
_EXCERPT = 160
_WORD = re.compile(r"[\w.]+")


@dataclass(frozen=True)
class Result:
    """A section that has all words of the query."""

    page: Page
    section: Section
    excerpt: str

    @property
    def path(self) -> str:
        """The path of the section."""
        return self.page.path + (f"#{self.section.anchor}" if self.section.anchor else "")

    @property
    def title(self) -> str:
        """The heading of the section."""
        return self.section.title or self.page.title


def find(query: str) -> list[Result]:
    """The sections that have all words of the query, those with them in their heading first."""
    words = _WORD.findall(query[:MOST_CHARACTERS].lower())
    if not words:
        return []
    found: list[tuple[int, Result]] = []
    for page in PAGES.values():
        for section in document(page.name).sections:
            title = section.title or f"{page.title} {page.about}"
            heading, text = title.lower(), section.text.lower()
            if all(word in heading or word in text for word in words):
                score = sum(10 if word in heading else min(text.count(word), 5) for word in words)
                found.append((score, Result(page, section, _excerpt(section.text, words))))
    found.sort(key=lambda pair: -pair[0])
    return [result for _, result in found[:MOST_RESULTS]]


def _excerpt(text: str, words: list[str]) -> str:
    """The text around the first of the words."""
    lower = text.lower()
    position = min((at for at in (lower.find(word) for word in words) if at >= 0), default=0)
    start = text.rfind(" ", 0, max(0, position - _EXCERPT // 3) + 1) + 1
    end = text.find(" ", start + _EXCERPT)
    return ("… " if start else "") + (text[start:] if end < 0 else f"{text[start:end]} …")
