"""Search rows: resources by the beginning of any word of a text, and by the last digits of a phone.

Beside a resource there is a row for each word of its text, and one for the digits of its phone in reverse. Their
partition is that of project, mode, kind and a hash of the first letter or of the last three digits. The sort key has
the word, the words after it, those before it, and the id: one query finds who has a word, and shows their other words.
These are the only keys with client text, and no index has them. They change in the transaction that changes the
resource. What they were made of is the attribute `found_by` of its row, by which they are deleted: another release of
Unicode may read the text differently.
"""

from __future__ import annotations

import functools
import os
import re
import unicodedata
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from shared.resources.collections import Collection, Record
from shared.store import table, transactions
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
_PAGE = 100
_AFTER_EVERY_TEXT = "\U0010ffff"
_PHONE = "+"
"""What the digits of the phone begin with in `found_by`. No word has it."""
_APOSTROPHES = "'`\u2019\u02bc"
_LETTERS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "ħ": "h", "\u0131": "i", "æ": "ae", "œ": "oe", "þ": "th"}
)
"""Letters that Unicode does not decompose, although people leave out the stroke."""
_NOTATION = re.compile(r"\+?[0-9\s()/.\u2010-\u2015-]+")


def is_on() -> bool:
    """Whether the stage has search rows."""
    return os.environ.get("SEARCH") != "off"


def words(text: str) -> list[str]:
    """The different words of a text as they are compared: without case, accents and apostrophes."""
    plain = "".join(map(_plain, unicodedata.normalize("NFKD", text))).casefold().translate(_LETTERS)
    return [*dict.fromkeys(word[:LONGEST_WORD] for word in plain.split())][:MOST_WORDS]


def changes(
    scope: Scope, collection: Collection[Any, Any], doc: Mapping[str, Any], record: Record[Any, Any] | None = None
) -> tuple[dict[str, str | None], list[table.Write]]:
    """What follows from a resource's new document: attributes of its row, and the writes of its search rows.

    Both are empty if nothing changes. The writes have no condition: the resource's own write has one.
    """
    before = None if record is None else record.row.get("found_by")
    after = _found_by(collection, doc)
    if after == before:
        return {}, []
    old, new = ({*_keys(scope, collection, doc["id"], text or "")} for text in (before, after))
    puts = [table.Put({"pk": pk, "sk": sk, "kind": "search"}, condition="") for pk, sk in sorted(new - old)]
    return {"found_by": after}, [*puts, *(table.Delete(pk, sk, condition="") for pk, sk in sorted(old - new))]


def deletions(scope: Scope, collection: Collection[Any, Any], row: table.Row) -> list[table.Write]:
    """The writes that delete the search rows of a resource with this row."""
    keys = _keys(scope, collection, row["sk"], row.get("found_by", ""))
    return [table.Delete(*key, condition="") for key in keys]


def renew_all(scope: Scope, collection: Collection[Any, Any]) -> int:
    """Give all resources the search rows that they are to have. Returns the number of resources that had others."""
    pages = table.query(scope.pk(collection.kind), limit=_PAGE, forward=True)
    ids = (row["sk"] for page in pages for row in page)
    return sum(transactions.retry_on_conflict(functools.partial(_renew, scope, collection, id)) for id in ids)


def _renew(scope: Scope, collection: Collection[Any, Any], id: str) -> bool:
    pk = scope.pk(collection.kind)
    row = table.get(pk, id)
    if row is None:
        return False
    record = collection.record(row)
    attributes, writes = changes(scope, collection, record.doc, record)
    if attributes:
        update = table.Update(pk, id, set=attributes, condition="v = :v", values={":v": record.version})
        table.write([update, *writes], uuid.uuid4().hex)
    return bool(attributes)


def by_words(
    scope: Scope, collection: Collection[Any, Any], text: str, *, newest_first: bool = False
) -> tuple[list[str], bool]:
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
    rows = _beginning(scope, collection, longest, newest_first, most)
    more = len(rows) == most
    if more:
        # The row of a text that is only this word sorts after those of texts that begin with it.
        neighbours = [" ".join(rotated) for rotated in _rotations(wanted)] if len(wanted) > 1 else [f"{longest}#"]
        for beginning in neighbours:
            rows += _beginning(scope, collection, beginning, newest_first, most)
    ranks: dict[str, tuple[int, str]] = {}
    for row in rows:
        text, _, id = row["sk"].partition("#")
        own = text.split()
        if all(any(word.startswith(beginning) for word in own) for beginning in wanted):
            rank = (-len({*wanted} & {*own}), text)
            ranks[id] = min(rank, ranks.get(id, rank))
    return sorted(sorted(ranks, reverse=newest_first), key=ranks.__getitem__), more


def by_digits(scope: Scope, collection: Collection[Any, Any], text: str) -> list[str]:
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
            rows = _read(scope.index(collection.kind, "phone", _end(backwards)), backwards)
            ids |= {row["sk"].partition("#")[2]: None for row in rows}
    return [*ids]


def _found_by(collection: Collection[Any, Any], doc: Mapping[str, Any]) -> str | None:
    if doc["deleted_at"] is not None or not is_on():
        return None
    phone = doc.get("phone")
    digits = [] if phone is None else [_PHONE + phone.removeprefix("+")[::-1]]
    return " ".join([*words(doc[collection.searched] or ""), *digits]) or None


def _plain(char: str) -> str:
    if unicodedata.combining(char) or char in _APOSTROPHES:
        return ""
    return char if char.isalnum() or unicodedata.category(char).startswith("M") else " "


def _keys(scope: Scope, collection: Collection[Any, Any], id: str, found_by: str) -> Iterator[tuple[str, str]]:
    parts = found_by.split()
    for rotated in _rotations([part for part in parts if not part.startswith(_PHONE)]):
        yield _partition(scope, collection, rotated[0]), f"{' '.join(rotated)}#{id}"
    for digits in (part.removeprefix(_PHONE) for part in parts if part.startswith(_PHONE)):
        yield scope.index(collection.kind, "phone", _end(digits)), f"{digits}#{id}"


def _rotations(parts: list[str]) -> Iterator[list[str]]:
    return (parts[number:] + parts[:number] for number in range(len(parts)))


def _beginning(
    scope: Scope, collection: Collection[Any, Any], text: str, newest_first: bool, most: int = EXAMINED
) -> list[table.Row]:
    return _read(_partition(scope, collection, text), text, most, forward=not newest_first)


def _partition(scope: Scope, collection: Collection[Any, Any], word: str) -> str:
    return scope.index(collection.kind, "word", word[0])


def _end(reversed_digits: str) -> str:
    return reversed_digits[:LEAST_DIGITS]


def _read(pk: str, beginning: str, most: int = EXAMINED, *, forward: bool = True) -> list[table.Row]:
    at_most = beginning + _AFTER_EVERY_TEXT
    return next(table.query(pk, at_least=beginning, at_most=at_most, limit=most, forward=forward), [])
