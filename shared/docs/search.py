"""Finds sections of the pages, and operations of the API, by words.

Words are compared by their stems. A word may have synonyms; one that is on no page stands for those that begin with it,
or else for those that differ by one typing error. Entries with all words come first; each is ranked by BM25 (Robertson
and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009), to which the words of headings are added.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from shared.docs.contents import MENU, operations
from shared.docs.markdown import document

MOST_RESULTS = 30
MOST_CHARACTERS = 100
"""The characters of a query that are read."""
_EXCERPT = 160
_WORD = re.compile(r"[\w.]+")
_PART = re.compile(r"[^\W_]+")
_SUFFIXES = (
    *("ications", "ication", "ations", "ation", "ating", "ates", "ated", "ate", "ions", "ion", "ings", "ing"),
    *("ies", "ied", "ed", "es", "s", "e", "y"),
)
_SHORTEST = 3
"""The letters that a suffix leaves, and those from which a word may stand for longer ones, or have a typing error."""
_SYNONYM, _GUESS = 0.5, 0.6
"""What another word counts, compared to the one that was asked for: a synonym, or what a word on no page stands for."""
_HEADING, _PAGE_TITLE = 5.0, 2.0
"""What a word of a heading adds, and one of the titles of the page and of its part of the menu."""
_LISTED, _OPERATION = 0.8, 0.6
"""What an entry of a list counts, compared to the guides: a revision, an error code or an event type; an operation."""
_LISTS = frozenset({"changelog", "errors", "events"})
_SATURATION, _LENGTH = 1.2, 0.75
"""The parameters k1 and b of BM25, with their usual values."""
_COMPOUND = "timezone"
"""What the two words "time zone" are for the search: each of them alone is about something else."""
_UNIMPORTANT = frozenset(
    re.findall(r"\w+", "a an and are can do does for how i if in is it my of on or the to what when which with")
)
_SYNONYMS: Mapping[str, str] = {
    "ai": "agent",
    "answering": "machine",
    "auth": "authentication",
    "authorization": "authentication",
    "bearer": "authentication",
    "bot": "agent",
    "ccpa": "erase erasure",
    "client": "sdk generate",
    "cursor": "pagination",
    "delete": "erase erasure",
    "data": "person erasure",
    "date": "time range",
    "deduplicate": "duplicates idempotency",
    "download": "url",
    "double": "duplicates idempotency",
    "dsgvo": "erase erasure",
    "escalate": "handoff",
    "forget": "erase erasure",
    "gdpr": "erase erasure retention",
    "go": "going",
    "golang": "go",
    "hmac": "signature",
    "hook": "webhook",
    "human": "person handoff",
    "llm": "model agent",
    "localhost": "local",
    "ngrok": "tunnel local",
    "operator": "person handoff",
    "ordering": "order",
    "paginate": "pages",
    "privacy": "erase erasure retention",
    "production": "live",
    "quota": "limits",
    "remove": "delete erase",
    "reschedule": "move",
    "resend": "retry",
    "sandbox": "test",
    "sdk": "client generate",
    "sequence": "order",
    "sort": "order",
    "staging": "test",
    "throttle": "rate limit",
    "throttling": "rate limit",
    "token": "key",
    "tunnel": "local",
    "unsubscribe": "opted opt",
    "upgrade": "revision version",
    "working": "opening",
}


@dataclass(frozen=True)
class SearchEntry:
    """A section of a page, or an operation of the API."""

    path: str
    page: str
    """The title of its page."""
    title: str
    text: str
    scale: float = 1.0
    words: Counter[str] = field(default_factory=Counter, repr=False)
    """The stems of the text, with their numbers."""
    heading: frozenset[str] = frozenset()
    above: frozenset[str] = frozenset()
    """The stems of the title, and of the titles of the page and of its part of the menu."""


@dataclass(frozen=True)
class SearchResult:
    """An entry that was found. `is_complete` if it has all words of the query."""

    entry: SearchEntry
    excerpt: str
    is_complete: bool


def find(query: str, description: Callable[[], str]) -> list[SearchResult]:
    """The entries that have words of the query, the best first. `description` returns the OpenAPI document."""
    asked = _asked(query[:MOST_CHARACTERS].lower())
    if not asked:
        return []
    index = _index(description())
    wanted = [index.meanings(word) for word in asked]
    found: list[tuple[bool, float, SearchEntry]] = []
    for entry in index.entries:
        scores = [index.score(entry, meanings) for meanings in wanted]
        if any(scores):
            found.append((all(scores), sum(scores) * entry.scale, entry))
    found.sort(key=lambda one: (not one[0], -one[1]))
    known = {stem for meanings in wanted for stem in meanings}
    return [SearchResult(entry, _excerpt(entry.text, known), complete) for complete, _, entry in found[:MOST_RESULTS]]


def stem(word: str) -> str:
    """The part of a word that its forms share: `pagin` of paginate and of pagination."""
    shortened = True
    while shortened:
        suffix = next((one for one in _SUFFIXES if word.endswith(one) and len(word) - len(one) >= _SHORTEST), "")
        shortened = bool(suffix) and not word.isdigit()
        word = word.removesuffix(suffix) if shortened else word
    return word[:-1] if len(word) > _SHORTEST and word[-1] == word[-2] and not word.isdigit() else word


class _Index:
    """The entries, with what the ranking needs to know of all of them."""

    def __init__(self, entries: Sequence[SearchEntry]) -> None:
        self.entries = entries
        self.length = sum(entry.words.total() for entry in entries) / len(entries)
        self.words = {word for entry in entries for word in _words(f"{entry.title} {entry.text}".lower())}
        self.documents = Counter(one for entry in entries for one in {*entry.words, *entry.heading})

    def meanings(self, word: str) -> dict[str, float]:
        """The stems that a word of a query stands for, and what each counts."""
        own = stem(word)
        weights = dict.fromkeys(_synonyms().get(own, ()), _SYNONYM)
        if own in self.documents:
            return weights | {own: 1.0}
        if weights:
            return weights
        longer = [one for one in self.documents if len(own) >= _SHORTEST and one.startswith(own)]
        return dict.fromkeys(longer or self._similar(word), _GUESS)

    def _similar(self, word: str) -> Iterator[str]:
        """The stems of words that differ from a word by one typing error, and those that such words stand for."""
        if len(word) >= _SHORTEST and not word.isdigit():
            for one in self.words | _SYNONYMS.keys():
                if _differ_by_one_error(word, one):
                    yield from (stem(one), *_synonyms().get(stem(one), ()))

    def score(self, entry: SearchEntry, meanings: Mapping[str, float]) -> float:
        """How much an entry is about a word of the query; 0 if not at all."""
        return max((factor * self._about(entry, one) for one, factor in meanings.items()), default=0)

    def _about(self, entry: SearchEntry, one: str) -> float:
        count = entry.words[one]
        longer = 1 - _LENGTH + _LENGTH * entry.words.total() / self.length
        times = count * (_SATURATION + 1) / (count + _SATURATION * longer)
        others = self.documents[one]
        rarity = math.log(1 + (len(self.entries) - others + 0.5) / (others + 0.5))
        above = _HEADING / max(1, math.sqrt(len(entry.heading))) if one in entry.heading else 0
        return rarity * (times + above + (_PAGE_TITLE if one in entry.above else 0))


@functools.cache
def _synonyms() -> Mapping[str, Sequence[str]]:
    """The stems that a stem may stand for."""
    return {stem(word): [*map(stem, others.split())] for word, others in _SYNONYMS.items()}


@functools.lru_cache(1)
def _index(description: str) -> _Index:
    return _Index([*_sections(), *_operations(description)])


def _sections() -> Iterator[SearchEntry]:
    for part, pages in MENU.items():
        for page in pages:
            for section in document(page.name).sections:
                title = section.title or page.title
                path = page.path + (f"#{section.anchor}" if section.anchor else "")
                about = "" if section.anchor else f"{page.about}. "
                scale = _LISTED if page.name in _LISTS and section.anchor else 1.0
                yield _entry(path, page.title, title, about + section.text, scale, part)


def _operations(description: str) -> Iterator[SearchEntry]:
    for request, operation in operations(description):
        tag, name = operation["tags"][0], operation["operationId"]
        text = f"{request} {name}. {operation.get('description', '')}"
        yield _entry(f"/docs/api#{name}", "API reference", operation["summary"], text, _OPERATION, tag)


def _entry(path: str, page: str, title: str, text: str, scale: float, part: str) -> SearchEntry:
    words, heading, above = Counter(_stems(text)), frozenset(_stems(title)), frozenset(_stems(f"{part} {page}"))
    return SearchEntry(path, page, title, text, scale, words, heading, above)


def _stems(text: str) -> Iterator[str]:
    return map(stem, _words(text.lower()))


def _words(text: str) -> Iterator[str]:
    """The words of a text, and the parts of those with `_` or a period."""
    for word in _WORD.findall(text.replace("time zone", _COMPOUND)):
        parts = _PART.findall(word)
        if len(parts) > 1:
            yield word.strip(".")
        yield from parts


def _asked(query: str) -> Collection[str]:
    """The words of a query, without those that say nothing, if there are others."""
    words = [word.strip(".") for word in _WORD.findall(query) if _PART.search(word)]
    for n, pair in enumerate(itertools.pairwise(words)):
        if _differ_by_one_error("".join(pair), _COMPOUND):
            words[n : n + 2] = [_COMPOUND]
            break
    return dict.fromkeys([word for word in words if word not in _UNIMPORTANT] or words)


def _differ_by_one_error(one: str, other: str) -> bool:
    """Whether two words are equal, or differ by one letter that is added, missing, changed or swapped with the next."""
    if abs(len(one) - len(other)) > 1:
        return False
    start = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    a, b = one[start:], other[start:]
    return a[1:] == b[1:] or a[1:] == b or a == b[1:] or (a[:2] == b[1::-1] and a[2:] == b[2:])


def _excerpt(text: str, stems: set[str]) -> str:
    """The text around the first of the words."""
    starts = (match.start() for match in _WORD.finditer(text) if stems.intersection(_stems(match[0])))
    start = text.rfind(" ", 0, max(0, next(starts, 0) - _EXCERPT // 3) + 1) + 1
    end = text.find(" ", start + _EXCERPT)
    return ("… " if start else "") + (text[start:] if end < 0 else f"{text[start:end]} …")
