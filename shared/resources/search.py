"""Search rows: resources by the beginning of any word of a text, and by the last digits of a phone.

Beside a resource there is a row for each word of its text, and one for the digits of its phone in reverse. Their
partition is that of project, mode, kind and a hash of the first letter or of the last three digits. The sort key has
the word, the words after it, those before it, and the id: one query finds who has a word, and shows their other words.
These are the only keys with client text, and no index has them. `Collection` changes them in the transaction that
changes the resource. What they were made of is the attribute `found_by` of its row, by which they are deleted: another
release of Unicode may read the text differently.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from shared.core import settings
from shared.store import table
from shared.store.keys import Scope

MOST_WORDS = 8
"""The first words of a text that have rows."""
LONGEST_WORD = 20
"""The first characters of a word that are compared. A sort key has at most 1,024 bytes."""
LEAST_DIGITS = 3
"""The last digits of a phone that find it."""
EXAMINED = 500
"""The most rows that a query reads."""
_EXAMINED_FOR_ONE = 50
"""As `EXAMINED`, for a single word: the first rows are the best."""
_AFTER_EVERY_TEXT = "\U0010ffff"
_PHONE = "+"
"""What the digits of the phone begin with in `found_by`. No word has it."""
_APOSTROPHES = "'`\u2019\u02bc"
_LETTERS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "ħ": "h", "\u0131": "i", "æ": "ae", "œ": "oe", "þ": "th"}
)
"""Letters that Unicode does not decompose, although people leave out the stroke."""
_NOTATION = re.compile(r"\+?[0-9\s()/.\u2010-\u2015-]+")


@dataclass(frozen=True)
class SearchRows:
    """What the resources of a type are found by: the words of a field, and the phone of those that have one."""

    field: str

    def found_by(self, doc: Mapping[str, Any]) -> str | None:
        """What the search rows of this resource are made of; None if it is to have none, as when it is deleted."""
        return found_by(*self._text_and_phone(doc)) if doc["deleted_at"] is None else None

    def differ(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
        """Whether a change of the resource changes what it is found by."""
        return self._text_and_phone(before) != self._text_and_phone(after)

    def _text_and_phone(self, doc: Mapping[str, Any]) -> tuple[str | None, str | None]:
        return doc[self.field], doc.get("phone")


def words(text: str) -> list[str]:
    """The different words of a text as they are compared: without case, accents and apostrophes."""
    plain = "".join(map(_plain, unicodedata.normalize("NFKD", text))).casefold().translate(_LETTERS)
    return [*dict.fromkeys(word[:LONGEST_WORD] for word in plain.split())][:MOST_WORDS]


def found_by(text: str | None, phone: str | None) -> str | None:
    """What the search rows of a resource with this text and phone are made of; None if it is to have none."""
    if not settings.search_is_on():
        return None
    digits = [] if phone is None else [_PHONE + phone.removeprefix("+")[::-1]]
    return " ".join([*words(text or ""), *digits]) or None


def change_writes(scope: Scope, kind: str, id: str, before: str | None, after: str | None) -> list[table.Write]:
    """The writes that replace the search rows made of `before` by those made of `after`.

    They have no condition: the resource's own write has one.
    """
    old, new = ({*_keys(scope, kind, id, text or "")} for text in (before, after))
    puts = [table.Put({"pk": pk, "sk": sk, "kind": "search"}, table.ALWAYS) for pk, sk in sorted(new - old)]
    return [*puts, *(table.Delete(pk, sk, table.ALWAYS) for pk, sk in sorted(old - new))]


def by_words(scope: Scope, kind: str, text: str, *, newest_first: bool = False) -> tuple[list[str], bool]:
    """The ids of the resources with words that begin as those of `text` do, and whether there may be more.

    Those with more of the words as they are come first, then in the order of their words. One query reads the rows of
    the longest word. If there are too many of them, one more for each word looks for those with the words side by side,
    or, for a single word, for those that have no other.
    """
    wanted = words(text)
    if not wanted:
        return [], False
    longest = max(wanted, key=len)
    most = EXAMINED if len(wanted) > 1 else _EXAMINED_FOR_ONE
    rows = _beginning(scope, kind, longest, newest_first, most)
    more = len(rows) == most
    if more:
        # The row of a text that is only this word sorts after those of texts that begin with it.
        neighbours = [" ".join(rotated) for rotated in _rotations(wanted)] if len(wanted) > 1 else [f"{longest}#"]
        for beginning in neighbours:
            rows += _beginning(scope, kind, beginning, newest_first, most)
    ranks: dict[str, tuple[int, str]] = {}
    for row in rows:
        text, _, id = row["sk"].partition("#")
        own = text.split()
        if all(any(word.startswith(beginning) for word in own) for beginning in wanted):
            rank = (-len({*wanted} & {*own}), text)
            ranks[id] = min(rank, ranks.get(id, rank))
    return sorted(sorted(ranks, reverse=newest_first), key=ranks.__getitem__), more


def by_digits(scope: Scope, kind: str, text: str) -> list[str]:
    """The ids of the resources whose phone ends with the digits of `text`, at least three, in any notation.

    National and international notations have digits before the number that are not part of it: zeros, and 011.
    """
    plain = unicodedata.normalize("NFKD", text).replace("(0)", "")
    if not _NOTATION.fullmatch(plain):
        return []
    digits = re.sub("[^0-9]", "", plain)
    ids: dict[str, None] = {}
    for notation in dict.fromkeys((digits, digits.lstrip("0"), digits.removeprefix("011"))):
        if len(notation) >= LEAST_DIGITS:
            backwards = notation[::-1]
            rows = _read(scope.index(kind, "phone", _end(backwards)), backwards)
            ids |= {row["sk"].partition("#")[2]: None for row in rows}
    return [*ids]


def _plain(char: str) -> str:
    if unicodedata.combining(char) or char in _APOSTROPHES:
        return ""
    return char if char.isalnum() or unicodedata.category(char).startswith("M") else " "


def _keys(scope: Scope, kind: str, id: str, found_by: str) -> Iterator[tuple[str, str]]:
    parts = found_by.split()
    for rotated in _rotations([part for part in parts if not part.startswith(_PHONE)]):
        yield _partition(scope, kind, rotated[0]), f"{' '.join(rotated)}#{id}"
    for digits in (part.removeprefix(_PHONE) for part in parts if part.startswith(_PHONE)):
        yield scope.index(kind, "phone", _end(digits)), f"{digits}#{id}"


def _rotations(parts: list[str]) -> Iterator[list[str]]:
    return (parts[number:] + parts[:number] for number in range(len(parts)))


def _beginning(scope: Scope, kind: str, text: str, newest_first: bool, most: int = EXAMINED) -> list[table.Row]:
    return _read(_partition(scope, kind, text), text, most, forward=not newest_first)


def _partition(scope: Scope, kind: str, word: str) -> str:
    return scope.index(kind, "word", word[0])


def _end(reversed_digits: str) -> str:
    return reversed_digits[:LEAST_DIGITS]


def _read(pk: str, beginning: str, most: int = EXAMINED, *, forward: bool = True) -> list[table.Row]:
    at_most = beginning + _AFTER_EVERY_TEXT
    return next(table.query(pk, at_least=beginning, at_most=at_most, limit=most, forward=forward), [])
