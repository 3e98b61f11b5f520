from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core import clock
from shared.store import keys
from shared.store.keys import Scope

SCOPES = st.builds(Scope, st.integers(1, 10**10), st.booleans())


@given(SCOPES, SCOPES, st.text(max_size=20))
def test_a_partition_belongs_to_one_project_and_mode(one: Scope, other: Scope, text: str) -> None:
    for kind in ("customer", "event", f"idempotency#{text}"):
        assert keys.scope_of(one.pk(kind)) == one
        assert (one.pk(kind) == other.pk(kind)) == (one == other)
        assert (one.index(kind, "external_id", text) == other.index(kind, "external_id", text)) == (one == other)


@given(SCOPES, st.text(min_size=1, max_size=300))
def test_what_a_client_wrote_is_not_in_an_index_key(scope: Scope, text: str) -> None:
    written = f"\u00a7{text}"
    key = scope.index("customer", "external_id", written)

    assert written not in key
    assert key.isascii()
    assert len(key) == len(scope.index("customer", "external_id", ""))


@given(SCOPES, st.text(max_size=20), st.text(max_size=20))
def test_equal_values_of_one_field_share_a_partition_and_others_do_not(scope: Scope, one: str, other: str) -> None:
    first = scope.index("customer", "email", one)

    assert (first == scope.index("customer", "email", other)) == (one == other)
    assert first != scope.index("customer", "external_id", one)
    assert first != scope.index("appointment", "email", one)


@given(st.lists(st.integers(0, 253_402_300_799_999), min_size=2))
def test_due_times_sort_as_instants(instants: list[clock.Instant]) -> None:
    in_order = sorted(set(instants))

    assert all(keys.due(one) < keys.due(other) for one, other in pairwise(in_order))


@pytest.mark.parametrize("count", [1, 8, 16, 64])
def test_every_row_is_in_one_of_the_shards_of_the_setting_and_they_share_the_load(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setenv("DUE_SHARDS", str(count))
    shards = keys.due_shards()
    counts = dict.fromkeys(shards, 0)

    for number in range(8000):
        counts[keys.due_shard(f"whd_{number}")] += 1

    assert set(counts) == set(shards)
    assert len(set(shards)) == count
    assert min(counts.values()) > 0.6 * 8000 / count
    assert keys.due_shard("whd_1") == keys.due_shard("whd_1")


def test_the_shards_of_a_higher_and_a_lower_setting_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def shards_for(count: int) -> tuple[list[str], list[str]]:
        monkeypatch.setenv("DUE_SHARDS", str(count))
        return keys.due_shards(), keys.former_due_shards()

    (few, beyond_few), (many, beyond_many) = shards_for(8), shards_for(16)

    assert set(few) < set(many), "rows that were written before the setting was raised"
    assert set(many) - set(few) <= set(beyond_few), "rows that were written before it was lowered"
    assert not set(many) & set(beyond_many)
    assert shards_for(64)[1] == []
