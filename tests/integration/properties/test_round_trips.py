"""What goes in comes out again as promised."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.properties import canonical, fixed_examples, merge_patched
from tests.support.world import World

CHARACTERS = st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\t\n\r")
TEXT = st.text(CHARACTERS, max_size=20)
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
).filter(lambda value: len(json.dumps(value, ensure_ascii=False, separators=(",", ":"))) <= 500)
METADATA_SENT = st.dictionaries(st.text(CHARACTERS, min_size=1, max_size=40), VALUE, max_size=6)


@fixed_examples(60)
@given(METADATA_SENT)
def test_metadata_comes_back_as_sent_everywhere(world: World, metadata: dict[str, Any]) -> None:
    kept = {key: value for key, value in metadata.items() if value is not None}
    made = world.call("POST", "/v1/customers", {"phone": "+15005550006", "metadata": metadata})
    assert made.status == 201, made.body
    id = made.json["id"]
    read = world.call("GET", f"/v1/customers/{id}")
    listed = world.call("GET", "/v1/customers?limit=1")

    for found in (made.json, read.json, listed.json["data"][0]):
        assert found["id"] == id
        assert canonical(found["metadata"]) == canonical(kept)


@fixed_examples(60)
@given(st.from_regex(r"\A\s{0,2}\+[1-9]([ .()-]{0,2}[0-9]){6,14}\s{0,2}\Z", alphabet=" +-.()0123456789\n"))
def test_a_canonical_phone_number_is_canonical(world: World, phone: str) -> None:
    first = world.call("POST", "/v1/customers", {"phone": phone})
    assert first.status == 201, first.body
    again = world.call("POST", "/v1/customers", {"phone": first.json["phone"]})

    assert first.json["phone"] == "+" + re.sub(r"[^0-9]", "", phone)
    assert again.json["phone"] == first.json["phone"]


SETTABLE = {
    "name": TEXT,
    "email": st.sampled_from(["ada@example.com", "bea@example.com"]),
    "external_id": st.text(CHARACTERS, min_size=1, max_size=10),
}
PATCHES = st.fixed_dictionaries(
    {},
    optional={
        "phone": st.sampled_from(["+15005550006", "+1 500 555 0007"]),
        **{name: st.none() | values for name, values in SETTABLE.items()},
        "metadata": st.none() | st.dictionaries(st.sampled_from("abc"), VALUE, max_size=3),
    },
)


@fixed_examples(40)
@given(st.lists(PATCHES, min_size=1, max_size=4))
def test_a_patch_does_what_a_merge_patch_does(world: World, patches: list[dict[str, Any]]) -> None:
    state = world.call("POST", "/v1/customers", {"phone": "+15005550006", "metadata": {"a": 1, "b": {"c": 2}}}).json
    for patch in patches:
        answer = world.call("PATCH", f"/v1/customers/{state['id']}", patch)
        assert answer.status == 200, answer.body
        expected = merge_patched(state, patch)
        if canonical(expected) == canonical(state):
            assert canonical(answer.json) == canonical(state)
        else:
            assert answer.json["updated_at"] >= state["updated_at"]
            assert canonical(answer.json | {"updated_at": ""}) == canonical(expected | {"updated_at": ""})
        state = answer.json
    assert canonical(world.call("GET", f"/v1/customers/{state['id']}").json) == canonical(state)
