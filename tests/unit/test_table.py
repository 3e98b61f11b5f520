"""How rows are stored: long documents compressed, everything else as it is."""

from __future__ import annotations

import base64
import json

import pytest

from shared.calls import project_limits
from shared.store import table
from shared.store.keys import Scope
from shared.store.table import writes

LONG = json.dumps({"notes": "Bitte Überweisung mitbringen. " * 40}, ensure_ascii=False)
SHORT = json.dumps({"notes": "Bitte Überweisung mitbringen."}, ensure_ascii=False)


@pytest.mark.parametrize("name", sorted(table.DOCUMENTS))
def test_a_long_document_is_stored_in_less_than_half_of_its_size(name: str) -> None:
    item = table.encode({"pk": "p", "sk": "s", name: LONG})
    assert len(base64.b64decode(item[name]["B"])) < len(LONG.encode()) / 2
    assert table.decode(item) == {"pk": "p", "sk": "s", name: LONG}


def test_short_documents_and_other_attributes_are_stored_as_they_are() -> None:
    assert table.encode({"doc": SHORT, "sealed": b"\x00\xff", "note": LONG}) == {
        "doc": {"S": SHORT},
        "sealed": {"B": "AP8="},
        "note": {"S": LONG},
    }
    assert table.decode(table.encode({"sealed": b"\x00\xff"})) == {"sealed": b"\x00\xff"}


def test_an_update_stores_a_long_document_compressed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABLE_NAME", "table")
    put = writes._parameters(table.Put({"pk": "p", "sk": "s", "doc": LONG}), {})
    update = writes._parameters(table.Update("p", "s", set={"doc": LONG}), {})
    assert update["ExpressionAttributeValues"][":s_doc"] == put["Item"]["doc"]


def test_a_row_that_was_not_read_is_not_taken_for_an_absent_one() -> None:
    read, absent, other = ("p", "1"), ("p", "2"), ("p", "3")
    rows = table.Rows([read, absent], {read: {"pk": "p", "sk": "1"}, other: {"pk": "p", "sk": "3"}})
    assert dict(rows) == {read: {"pk": "p", "sk": "1"}}
    assert absent not in rows
    assert rows.get(absent) is None
    for look_up in (rows.get, rows.__contains__, rows.__getitem__):
        with pytest.raises(RuntimeError, match="was not read"):
            look_up(other)


def test_a_call_has_no_default_limits_because_its_limits_were_not_read() -> None:
    with pytest.raises(RuntimeError, match="was not read"):
        project_limits.of_rows(Scope(1, livemode=True), table.Rows([], {}))
