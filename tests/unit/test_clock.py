from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core import clock

OFFSETS = st.integers(-(23 * 60 + 59), 23 * 60 + 59).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@pytest.fixture
def real_clock_afterwards() -> Iterator[None]:
    yield
    clock.use(time.time, time.sleep)


@pytest.mark.parametrize(
    ("instant", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (1_782_864_000_123, "2026-07-01T00:00:00.123Z"),
        (951_782_400_000, "2000-02-29T00:00:00.000Z"),
        (-62_135_596_800_000, "0001-01-01T00:00:00.000Z"),
        (-30_610_224_000_000, "1000-01-01T00:00:00.000Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_an_instant_has_one_spelling(instant: clock.Instant, text: str) -> None:
    assert clock.iso(instant) == text
    assert clock.parse(text) == instant


@given(st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 12, 31)), OFFSETS)
def test_any_offset_names_the_same_instant_as_utc(naive: datetime, offset: timezone) -> None:
    moment = naive.replace(tzinfo=offset)
    text = moment.isoformat()
    expected = clock.Instant((moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1))

    assert clock.parse(text) == expected
    assert clock.parse(clock.iso(expected)) == expected
    assert len(clock.iso(expected)) == 24


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999), st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_spellings_sort_as_their_instants_do(one: clock.Instant, other: clock.Instant) -> None:
    assert (clock.iso(one) < clock.iso(other)) == (one < other)


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("1970-01-01T00:00Z", 0),
        ("1970-01-01t00:00:01z", 1000),
        ("1970-01-01 00:00:01Z", 1000),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T05:30:00+0530", 0),
        ("1969-12-31T14:00:00-10:00", 0),
        ("1970-01-01T00:00:00.5Z", 500),
        ("1970-01-01T00:00:00.9999Z", 999),
        ("1970-01-01T00:00:00.123456789Z", 123),
        ("1970-01-01T00:00:00-00:00", 0),
        ("2000-02-29T12:00:00Z", 951_825_600_000),
        ("0001-01-01T00:00:00-01:00", -62_135_593_200_000),
        ("9999-12-31T23:59:59.999+00:01", 253_402_300_739_999),
    ],
)
def test_what_rfc_3339_allows_is_taken(text: str, instant: int) -> None:
    assert clock.parse(text) == instant


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "0",
        "2027-03-04",
        "2027-03-04T15:00:00",
        "2027-03-04T15Z",
        "2027-03-04T15:00:00 Z",
        "2027-03-04T15:00:00Z ",
        "2027-03-04T15:00:00Z\n",
        "2027-03-04T15:00:00.Z",
        "2027-03-04T15:00:00,5Z",
        "2027-03-04T15:00:00.1234567890Z",
        "2027-03-04T15:00:00+1",
        "2027-03-04T15:00:00+24:00",
        "2027-03-04T15:00:00+01:60",
        "2027-03-04T15:00:00+01:00:30",
        "2027-03-04T25:00:00Z",
        "2027-03-04T15:60:00Z",
        "2016-12-31T23:59:60Z",
        "2027-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "2027-13-01T00:00:00Z",
        "2027-00-01T00:00:00Z",
        "2027-04-31T00:00:00Z",
        "0000-01-01T00:00:00Z",
        "10000-01-01T00:00:00Z",
        "-2027-03-04T15:00:00Z",
        "20270304T150000Z",
        "2027-W10-4T15:00:00Z",
        "2027-063T15:00:00Z",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "\u0662\u0660\u0662\u0667-03-04T15:00:00Z",
        "2027-03-04T15:00:00\u2212" + "01:00",
    ],
)
def test_what_is_no_moment_with_an_offset_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        clock.parse(text)


@given(st.text(max_size=40))
def test_no_text_makes_the_parser_stumble(text: str) -> None:
    with contextlib.suppress(ValueError):
        clock.parse(text)


@pytest.mark.parametrize(
    ("speed", "seconds", "milliseconds"),
    [(None, 5, 5000), ("", 5, 5000), ("1", 1800, 1_800_000), ("50", 5, 100), ("0.5", 1, 2000), ("60", 0, 0)],
)
def test_speed_divides_waits(
    monkeypatch: pytest.MonkeyPatch, speed: str | None, seconds: int, milliseconds: int
) -> None:
    monkeypatch.delenv("SPEED", raising=False)
    if speed is not None:
        monkeypatch.setenv("SPEED", speed)

    assert clock.scaled_ms(seconds) == milliseconds


@pytest.mark.usefixtures("real_clock_afterwards")
def test_another_clock_can_be_put_in() -> None:
    slept: list[float] = []
    clock.use(lambda: 1_790_000_000.9996, slept.append)

    clock.sleep(2.5)

    assert clock.now() == 1_790_000_000_999
    assert slept == [2.5]
