"""Weekly hours and the rules for new times, against a computation that looks at every minute (promises 11)."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import cast
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.agent_settings import hours
from shared.agent_settings.hours import DAYS, Hours
from shared.agent_settings.policy import DURATION_MS, Problem, TimePolicy
from shared.core import clock

CHANGES = {
    # Zones, and days on which their clocks change: by an hour, by half an hour, at midnight, a day before a year ends.
    "Europe/Berlin": ("2027-03-28", "2027-10-31"),
    "America/New_York": ("2027-03-14", "2027-11-07"),
    "Australia/Lord_Howe": ("2027-04-04", "2027-10-03"),
    "Africa/Cairo": ("2027-04-30", "2027-10-29"),
    "America/Santiago": ("2027-04-04", "2027-09-05"),
    "Asia/Kathmandu": ("2027-01-01", "2027-07-01"),
    "UTC": ("2027-12-31",),
}
MINUTE, QUARTER = timedelta(minutes=1), timedelta(minutes=15)

times = st.integers(0, 24 * 4).map(lambda quarter: f"{quarter // 4:02}:{quarter % 4 * 15:02}")


@st.composite
def entries(draw: st.DrawFn) -> Hours:
    begin, end = sorted(draw(st.lists(times, min_size=2, max_size=2, unique=True)))
    days = draw(st.lists(st.sampled_from(DAYS), min_size=1, max_size=7))
    return cast("Hours", {"days": days, "from": begin, "to": end})


@st.composite
def moments(draw: st.DrawFn) -> tuple[ZoneInfo, datetime]:
    """A zone, and a quarter of an hour up to two days before or after a change of its clocks."""
    zone = draw(st.sampled_from(sorted(CHANGES)))
    day = datetime.fromisoformat(draw(st.sampled_from(CHANGES[zone]))).replace(tzinfo=UTC)
    return ZoneInfo(zone), day + draw(st.integers(-2 * 24 * 4, 2 * 24 * 4)) * QUARTER


def instant(at: datetime) -> clock.Instant:
    return clock.Instant(round(at.timestamp() * 1000))


def open_quarters(week: list[Hours], zone: ZoneInfo, first: datetime, days: int) -> list[bool]:
    """Whether each quarter of an hour of the next days is within the hours.

    An entry begins with the first quarter whose local time is not before its own, and ends likewise.
    """
    a_day = 24 * 4
    local = [(first + n * QUARTER).astimezone(zone).replace(tzinfo=None) for n in range(-2 * a_day, (days + 2) * a_day)]
    is_open = [not week] * len(local)
    for day in {at.date() for at in local}:
        for entry in week:
            if DAYS[day.weekday()] in entry["days"]:
                begin, end = (
                    next((n for n, at in enumerate(local) if at >= wall_time(day, text)), len(local))
                    for text in (entry["from"], entry["to"])
                )
                is_open[begin:end] = [True] * (end - begin)
    return is_open[2 * a_day : -2 * a_day]


def wall_time(day: date, text: str) -> datetime:
    return datetime(day.year, day.month, day.day) + timedelta(hours=int(text[:2]), minutes=int(text[3:]))


@settings(deadline=None)
@given(st.lists(entries(), max_size=4), moments(), st.integers(0, 14), st.integers(1, 600))
def test_an_appointment_is_within_the_hours_if_each_of_its_minutes_is(
    week: list[Hours], moment: tuple[ZoneInfo, datetime], late: int, minutes: int
) -> None:
    zone, at = moment
    start = instant(at + late * MINUTE)
    expected = all(open_quarters(week, zone, at, 1)[: -(-(late + minutes) // 15)])
    assert hours.contain(week, zone, start, start + minutes * clock.MINUTE) == expected


@settings(deadline=None, max_examples=50)
@given(st.lists(entries(), min_size=1, max_size=3), moments(), st.integers(0, 14))
def test_the_next_open_instant_is_the_first_one(
    week: list[Hours], moment: tuple[ZoneInfo, datetime], late: int
) -> None:
    zone, at = moment
    start = at + late * MINUTE
    first = at + open_quarters(week, zone, at, 9).index(True) * QUARTER
    assert hours.next_open(week, zone, instant(start)) == instant(max(start, first))


@settings(deadline=None, max_examples=50)
@given(st.lists(entries(), max_size=3), moments(), st.integers(1, 300), st.integers(-100, 3000))
def test_the_next_possible_time_is_the_first_quarter_that_has_no_problem(
    week: list[Hours], moment: tuple[ZoneInfo, datetime], minutes: int, notice: int
) -> None:
    zone, at = moment
    policy = TimePolicy(zone, instant(at) + notice * clock.MINUTE, week)
    is_open = open_quarters(week, zone, at, 15)
    possible = (
        at + n * QUARTER
        for n in range(1, 14 * 24 * 4 + 1)
        if n * 15 >= notice and all(is_open[n : n + -(-minutes // 15)])
    )
    first = next(possible, None)
    expected = None if first is None else instant(first)
    assert policy.next_possible(instant(at), minutes * clock.MINUTE) == expected
    if expected is not None:
        assert policy.problem(expected, minutes * clock.MINUTE) is None


def test_what_is_too_soon_or_outside_the_hours_is_said() -> None:
    week = [cast("Hours", {"days": ["monday"], "from": "09:00", "to": "10:00"})]
    monday = clock.parse("2027-03-01T09:00:00Z")
    policy = TimePolicy(ZoneInfo("UTC"), monday, week)
    assert policy.problem(monday, DURATION_MS) is None
    assert policy.problem(monday + DURATION_MS, DURATION_MS) is None
    assert policy.problem(monday + DURATION_MS + 1, DURATION_MS) is Problem.OUTSIDE_HOURS
    assert policy.problem(monday - 1, DURATION_MS) is Problem.TOO_SOON


@pytest.mark.parametrize("last", [clock.LAST, clock.LAST - clock.DAY, clock.LAST - 10 * clock.DAY])
def test_the_end_of_the_calendar_is_no_error(last: clock.Instant) -> None:
    week = [cast("Hours", {"days": list(DAYS), "from": "00:00", "to": "24:00"})]
    policy = TimePolicy(ZoneInfo("Pacific/Auckland"), clock.EPOCH, week)
    policy.problem(last, DURATION_MS)
    policy.next_possible(last, DURATION_MS)


def test_hours_around_midnight_are_one_span() -> None:
    week = [
        cast("Hours", {"days": ["monday"], "from": "22:00", "to": "24:00"}),
        cast("Hours", {"days": ["tuesday"], "from": "00:00", "to": "02:00"}),
    ]
    night = clock.parse("2027-03-01T22:00:00Z")
    assert hours.contain(week, ZoneInfo("UTC"), night, night + 4 * clock.HOUR)
    assert not hours.contain(week, ZoneInfo("UTC"), night, night + 4 * clock.HOUR + 1)
