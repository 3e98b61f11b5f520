from __future__ import annotations

import json
import re
from typing import Annotated, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import Field
from pydantic_core import PydanticCustomError

from shared.core.errors import ApiError
from shared.resources import fields

SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False, allow_infinity=False) | st.text()
PRINTABLE = st.characters(exclude_categories=["Cc", "Cs"])
SCALARS_SENT = st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from([0.5, 1.0]) | st.text(PRINTABLE)
METADATA = st.dictionaries(st.text(PRINTABLE, min_size=1, max_size=3), SCALARS_SENT, max_size=5)
SEPARATORS = st.text(" -.()", max_size=2)


class Inner(fields.Input):
    phone: fields.Phone | None = None


class Sample(fields.Input):
    needed: str
    phone: fields.Phone = ""
    email: fields.Email | None = None
    at: fields.DateTime | None = None
    zone: fields.Timezone | None = None
    minutes: Annotated[int, Field(ge=1, le=1440)] | None = None
    tags: list[str] | None = None
    external_id: fields.ExternalId | None = None
    name: fields.Name | None = None
    metadata: fields.MetadataCreate | None = None
    inner: Inner | None = None


def error_of(**given: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        fields.validate(Sample, {"needed": "x"} | given)
    return caught.value


def value_of(name: str, value: Any) -> Any:
    return getattr(fields.validate(Sample, {"needed": "x", name: value}), name)


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("+15005550006", "+15005550006"),
        ("  +15005550006\n", "+15005550006"),
        ("+1 (500) 555-0006", "+15005550006"),
        ("+1.500.555.0006", "+15005550006"),
        ("+49 (0)30 901820", "+49030901820"),
        ("+1 500-.-555 ((0006", "+15005550006"),
        ("+1234567", "+1234567"),
        ("+123456789012345", "+123456789012345"),
    ],
)
def test_a_phone_number_becomes_e164(written: str, canonical: str) -> None:
    assert value_of("phone", written) == canonical


@pytest.mark.parametrize(
    "written",
    [
        "",
        "+",
        "5005550006",
        "15005550006",
        "0015005550006",
        "+05005550006",
        "+123456",
        "+1234567890123456",
        "++15005550006",
        "+ 15005550006",
        "+(1)5005550006",
        "+15005550006-",
        "+15005550006 x1",
        "+1/500/5550006",
        "+1\t500\t5550006",
        "+1\n5005550006",
        "+1\u00a05005550006",
        "+1\u20115005550006",
        "\uff0b15005550006",
        "+\u0661\u0665\u0660\u0660\u0665\u0665\u0665\u0660\u0660\u0660\u0666",
        "+15005550006,+15005550007",
        "tel:+15005550006",
    ],
)
def test_any_other_format_of_a_phone_number_is_refused(written: str) -> None:
    error = error_of(phone=written)

    assert (error.code, error.param, error.status) == ("phone_invalid_format", "phone", 400)


@given(st.from_regex(r"\A[1-9][0-9]{6,14}\Z"), st.data())
def test_separators_between_digits_change_nothing_and_canonical_numbers_stay(digits: str, data: st.DataObject) -> None:
    written = "+" + digits[0] + "".join(data.draw(SEPARATORS) + digit for digit in digits[1:])

    assert fields.phone(written) == "+" + digits
    assert fields.phone("+" + digits) == "+" + digits


@given(st.text(" +-.()0123456789\u0665x", max_size=24))
def test_a_phone_number_that_is_taken_is_e164_with_the_digits_that_were_sent(text: str) -> None:
    try:
        canonical = fields.phone(text)
    except PydanticCustomError:
        return
    assert re.fullmatch(r"\+[1-9][0-9]{6,14}", canonical)
    assert canonical[1:] == "".join(character for character in text if character in "0123456789")


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "GMT"])
def test_an_iana_zone_is_taken(zone: str) -> None:
    assert value_of("zone", zone) == zone


@pytest.mark.parametrize("zone", ["CET", "EST5EDT", "Japan", "Singapore"])
def test_an_iana_zone_whose_name_has_no_slash_is_taken_too(zone: str) -> None:
    assert value_of("zone", zone) == zone


@pytest.mark.parametrize(
    "zone",
    [
        "",
        "Europe",
        "Europe/",
        "Europe/Nowhere",
        "europe/berlin",
        "Berlin",
        "+01:00",
        "UTC+1",
        "localtime",
        "posixrules",
        "tzdata.zi",
        "../etc/passwd",
        "/etc/localtime",
        "Europe/../Europe/Berlin",
        "Europe//Berlin",
        "Europe/Berlin ",
        "Europe/B\u00e9rlin",
    ],
)
def test_what_is_no_iana_zone_is_refused(zone: str) -> None:
    assert error_of(zone=zone).code == "parameter_invalid"


@pytest.mark.parametrize("email", ["ada@example.com", "a+b@example.co.uk", "z\u00f6e@example.com", "a@b.example"])
def test_an_address_is_kept_as_sent(email: str) -> None:
    assert value_of("email", email) == email


@pytest.mark.parametrize("email", ["", "ada", "ada@", "@example.com", "a b@example.com", "a@b@c.com", "a@exa mple.com"])
def test_what_is_no_address_is_refused(email: str) -> None:
    error = error_of(email=email)

    assert (error.code, error.param) == ("email_invalid", "email")


def test_a_time_is_kept_in_utc_and_milliseconds() -> None:
    assert value_of("at", "2027-03-04T15:00:00.1239+02:00") == "2027-03-04T13:00:00.123Z"


@pytest.mark.parametrize(
    ("given", "code", "param"),
    [
        ({"needed": None}, "parameter_invalid_empty", "needed"),
        ({"needed": 1}, "parameter_invalid", "needed"),
        ({"phone": None}, "parameter_invalid_empty", "phone"),
        ({"minutes": "30"}, "parameter_invalid_integer", "minutes"),
        ({"minutes": 30.0}, "parameter_invalid_integer", "minutes"),
        ({"minutes": 30.5}, "parameter_invalid_integer", "minutes"),
        ({"minutes": True}, "parameter_invalid_integer", "minutes"),
        ({"minutes": 0}, "parameter_invalid", "minutes"),
        ({"minutes": 1441}, "parameter_invalid", "minutes"),
        ({"minutes": 10**400}, "parameter_invalid", "minutes"),
        ({"tags": ["a", 1]}, "parameter_invalid", "tags[1]"),
        ({"tags": {"0": "a"}}, "parameter_invalid", "tags"),
        ({"at": "2027-03-04T15:00:00"}, "datetime_invalid", "at"),
        ({"at": 1_790_000_000}, "parameter_invalid", "at"),
        ({"external_id": ""}, "parameter_invalid_empty", "external_id"),
        ({"external_id": "x" * 256}, "parameter_invalid", "external_id"),
        ({"name": "x" * 201}, "parameter_invalid", "name"),
        ({"name": "a\0b"}, "parameter_invalid", "name"),
        ({"name": "a\x7fb"}, "parameter_invalid", "name"),
        ({"name": "a\x85b"}, "parameter_invalid", "name"),
        ({"metadata": []}, "metadata_invalid", "metadata"),
        ({"metadata": "x"}, "metadata_invalid", "metadata"),
        ({"metadata": {"a": {"b": ["\0"]}}}, "parameter_invalid", "metadata[a]"),
        ({"metadata": {"a\x01": 1}}, "parameter_invalid", "metadata[a\x01]"),
        ({"inner": {"phone": "1"}}, "phone_invalid_format", "inner[phone]"),
        ({"inner": {"fone": "1"}}, "parameter_unknown", "inner[fone]"),
        ({"inner": []}, "parameter_invalid", "inner"),
        ({"phon": "+15005550006"}, "parameter_unknown", "phon"),
    ],
)
def test_input_that_does_not_fit_becomes_the_error_of_its_parameter(
    given: dict[str, Any], code: str, param: str
) -> None:
    error = error_of(**given)

    assert (error.code, error.param, error.status) == (code, param, 400)
    assert error.message


def test_a_missing_field_is_named() -> None:
    with pytest.raises(ApiError) as caught:
        fields.validate(Sample, {})

    assert (caught.value.code, caught.value.param) == ("parameter_missing", "needed")


def test_an_unknown_field_is_told_before_all_else_with_the_nearest_known_one() -> None:
    error = error_of(needed=1, phone="x", inner={"phone": 1, "fone": 1})

    assert (error.code, error.param) == ("parameter_unknown", "inner[fone]")
    assert "Did you mean 'phone'?" in error.message


@pytest.mark.parametrize("name", ["name", "external_id"])
def test_text_may_have_tabs_newlines_and_any_script(name: str) -> None:
    text = "a\tb\r\nc \U0001f600 \u05e9\u05dc\u05d5\u05dd \u202e"

    assert value_of(name, text) == text
    assert value_of(name, "\U0001f600" * 200) == "\U0001f600" * 200


@pytest.mark.parametrize(
    ("metadata", "taken"),
    [
        ({f"k{n}": n for n in range(50)}, True),
        ({f"k{n}": n for n in range(51)}, False),
        ({"k" * 40: 1}, True),
        ({"k" * 41: 1}, False),
        ({"\U0001f600" * 40: 1}, True),
        ({"": 1}, False),
        ({"k": "x" * 498}, True),
        ({"k": "x" * 499}, False),
        ({"k": "\U0001f600" * 498}, True),
        ({"k": [1] * 249}, True),
        ({"k": [1] * 250}, False),
        ({f"k{n}": "x" * 498 for n in range(32)}, True),
        ({f"k{n}": "x" * 498 for n in range(33)}, False),
        ({f"k{n}": "\U0001f600" * 250 for n in range(17)}, False),
    ],
)
def test_metadata_has_its_limits(metadata: dict[str, Any], taken: bool) -> None:
    if taken:
        assert value_of("metadata", metadata) == metadata
    else:
        error = error_of(metadata=metadata)
        # The key to blame in brackets, unless it is the whole that is too much.
        assert error.code == "metadata_invalid"
        assert error.param in ["metadata", *(f"metadata[{key[:40]}]" for key in metadata)]


@given(METADATA, METADATA)
@example({"a": {"b": 1, "c": 2}}, {"a": {"b": None}})
def test_metadata_is_merged_by_key_and_nested_values_are_replaced_whole(
    before: dict[str, Any], patch: dict[str, Any]
) -> None:
    expected = dict(before)
    for key, value in patch.items():
        if value is None:
            expected.pop(key, None)
        else:
            expected[key] = value

    assert fields.canonical(fields.merge_metadata(before, patch)) == fields.canonical(expected)
    assert fields.merge_metadata(before, None) == {}


@given(METADATA)
@example({"a": None, "b": {"c": None}, "d": [None], "e": 0})
def test_new_metadata_is_what_a_patch_of_none_would_make(sent: dict[str, Any]) -> None:
    assert fields.canonical(value_of("metadata", sent)) == fields.canonical(fields.merge_metadata({}, sent))


def test_a_null_that_was_stored_as_a_value_survives_a_patch_of_another_key() -> None:
    assert fields.merge_metadata({"a": None}, {"b": 1}) == {"a": None, "b": 1}


def test_a_patch_may_not_take_metadata_beyond_its_limits() -> None:
    before = {f"k{n}": n for n in range(50)}

    with pytest.raises(ApiError) as caught:
        fields.merge_metadata(before, {"one more": 1})
    assert (caught.value.code, caught.value.param) == ("metadata_invalid", "metadata")
    assert len(fields.merge_metadata(before, {"one more": 1, "k0": None})) == 50


@given(st.dictionaries(st.text(), SCALARS))
def test_canonical_json_does_not_depend_on_the_order_of_keys(value: dict[str, Any]) -> None:
    turned = dict(reversed(value.items()))

    assert fields.canonical(value) == fields.canonical(turned)
    assert json.loads(fields.canonical(value)) == value


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, 1.0), (0, False), ("1", 1), ([], {}), (None, "null")])
def test_canonical_json_tells_values_apart_that_python_or_a_reader_might_mix_up(one: Any, other: Any) -> None:
    assert fields.canonical({"a": one}) != fields.canonical({"a": other})


@given(st.text(max_size=30))
def test_no_unknown_name_makes_the_error_stumble_or_grow(name: str) -> None:
    error = fields.unknown(name * 20, name * 20, ["phone", "email"])

    assert len(error.param or "") <= 100
    assert len(error.message) < 200
