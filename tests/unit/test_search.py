"""The words by which people are found."""

from __future__ import annotations

import pytest

from shared.appointments.commands import sample
from shared.appointments.resource import APPOINTMENTS
from shared.customers.resource import CUSTOMERS
from shared.resources import search
from shared.store import table
from shared.store.keys import Scope

SCOPE = Scope(4_294_967_295, False)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Ada Lovelace", ["ada", "lovelace"]),
        ("  MÜLLER-Lüdenscheid, Zoë ", ["muller", "ludenscheid", "zoe"]),
        ("Mu\u0308ller", ["muller"]),
        ("Weiß WEISS", ["weiss"]),
        ("O'Brien O\u2019Neill", ["obrien", "oneill"]),
        ("Łukasz Sørensen Đặng Ægir", ["lukasz", "sorensen", "dang", "aegir"]),
        ("\uff26\uff55\uff4c\uff4c width", ["full", "width"]),
        ("Γιώργος Παπαδόπουλος", ["γιωργοσ", "παπαδοπουλοσ"]),
        ("李明", ["李明"]),
        ("अनिता", ["अनिता"]),
        ("Check-up #2 (long)", ["check", "up", "2", "long"]),
        ("a b c d e f g h i", [*"abcdefgh"]),
        ("x" * 200, ["x" * search.LONGEST_WORD]),
        ("\ud800 🙂 #+_", []),
        ("", []),
    ],
)
def test_words_are_compared_without_case_accents_and_apostrophes(text: str, found: list[str]) -> None:
    assert search.words(text) == found


@pytest.mark.parametrize("name", ["\ufdfa" * 200, "🙂" * 200, "\U0001d504" * 200, " ".join(["ⷠ𐐀" * 10] * 10), "ﷺ " * 99])
def test_keys_and_transactions_have_room_for_every_name(name: str) -> None:
    found_by = search.found_by(name, "+123456789012345")
    writes = search.change_writes(SCOPE, CUSTOMERS.kind, f"cust_{'0' * 26}", None, found_by)
    assert len(writes) <= search.MOST_WORDS + 1
    for write in writes:
        assert isinstance(write, table.Put)
        assert len(write.row["sk"].encode()) <= 1024
        assert write.row["pk"].startswith("P#4294967295#test#customer#")


def test_a_change_writes_only_the_rows_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    appointment = sample(SCOPE)
    put, *search_rows = APPOINTMENTS.insert_writes(SCOPE, appointment)
    assert put.row["found_by"] == "test appointment"
    assert [type(write) for write in search_rows] == [table.Put, table.Put]
    record = APPOINTMENTS.record(put.row)
    update, *search_rows = APPOINTMENTS.replace_writes(SCOPE, record, {**appointment, "notes": "Ring twice"})
    assert "found_by" not in update.set
    assert search_rows == []
    # Not either where the stage has no search rows any more: a call changes the appointment, and may not delete rows.
    monkeypatch.setenv("SEARCH", "0")
    update, *search_rows = APPOINTMENTS.replace_writes(SCOPE, record, {**appointment, "notes": "Ring twice"})
    assert "found_by" not in update.set
    assert search_rows == []
    update, *search_rows = APPOINTMENTS.replace_writes(SCOPE, record, {**appointment, "title": None})
    assert update.set["found_by"] is None
    assert [type(write) for write in search_rows] == [table.Delete, table.Delete]
