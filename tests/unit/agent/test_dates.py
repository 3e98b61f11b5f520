from __future__ import annotations

import re
import time as stopwatch
from datetime import UTC, date, datetime, time
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.agent import dates
from shared.agent.dates import Moment, Unclear

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2027, 3, 3, 10, 0, tzinfo=BERLIN)  # a Wednesday
PRESENT = datetime(2027, 3, 5, 14, 30, tzinfo=BERLIN)  # the Friday after

EXACT = """
2027-03-04 15:00 = 2027-03-04 15:00
2027-03-04T15:00 = 2027-03-04 15:00
2027-03-04T15:00:00 = 2027-03-04 15:00
2027-03-04T15:00:00Z = 2027-03-04 16:00
2027-03-04T15:00:00.000Z = 2027-03-04 16:00
2027-03-04T15:00+03:00 = 2027-03-04 13:00
2027-07-04 15:00 UTC = 2027-07-04 17:00
2027/03/04 09:30 = 2027-03-04 09:30
4 March 2027 noon = 2027-03-04 12:00
March 4th at 15:00 = 2027-03-04 15:00
March 4 at 3pm = 2027-03-04 15:00
March the 4th at 3 pm = 2027-03-04 15:00
4th of March 2027, 3 p.m. = 2027-03-04 15:00
the 4th of march at 10 a.m. = 2027-03-04 10:00
Mar 4, 2027 3:15pm = 2027-03-04 15:15
4-Mar-2027 11:00 = 2027-03-04 11:00
4 may at 9 = 2027-05-04 09:00
May 4 at 9 = 2027-05-04 09:00
March 4, 15:00 = 2027-03-04 15:00
2 January at 10am = 2028-01-02 10:00
the 4th at 3pm = 2027-03-04 15:00
the 2nd at 3pm = 2027-04-02 15:00
on the twenty-first at 11am = 2027-03-21 11:00
13/04/2027 10am = 2027-04-13 10:00
04/13/2027 10am = 2027-04-13 10:00
13.04.2027 10:00 = 2027-04-13 10:00
13-04-2027 10:00 = 2027-04-13 10:00
13/04/27 at 10:00 = 2027-04-13 10:00
13/4 at 10:00 = 2027-04-13 10:00
05/05/2027 at 3pm = 2027-05-05 15:00
today at 4pm = 2027-03-03 16:00
today 16:00 = 2027-03-03 16:00
this afternoon at 3 = 2027-03-03 15:00
tonight at 8 = 2027-03-03 20:00
tomorrow 9:30 = 2027-03-04 09:30
tomorrow at 9 = 2027-03-04 09:00
Tomorrow at nine thirty = 2027-03-04 09:30
tomorrow, 10 = 2027-03-04 10:00
tmrw 4pm = 2027-03-04 16:00
at noon tomorrow = 2027-03-04 12:00
tomorrow morning at 10 = 2027-03-04 10:00
tomorrow at 3 in the afternoon = 2027-03-04 15:00
tomorrow evening at 7 = 2027-03-04 19:00
7 in the evening tomorrow = 2027-03-04 19:00
the day after tomorrow at half past nine = 2027-03-05 09:30
day after tomorrow 15h30 = 2027-03-05 15:30
tomorrow at 15h = 2027-03-04 15:00
tomorrow 1530 hrs = 2027-03-04 15:30
tomorrow at 15.30 = 2027-03-04 15:30
tomorrow quarter to five pm = 2027-03-04 16:45
tomorrow at quarter past three pm = 2027-03-04 15:15
tomorrow at a quarter to ten = 2027-03-04 09:45
tomorrow at ten to three pm = 2027-03-04 14:50
tomorrow at twenty past four pm = 2027-03-04 16:20
tomorrow at five minutes to nine = 2027-03-04 08:55
tomorrow at quarter to one = 2027-03-04 12:45
tomorrow at quarter to one pm = 2027-03-04 12:45
tomorrow at quarter to twelve = 2027-03-04 11:45
tomorrow 3 o'clock pm = 2027-03-04 15:00
tomorrow at three o'clock in the afternoon = 2027-03-04 15:00
tomorrow at ten o'clock = 2027-03-04 10:00
tomorrow at one pm = 2027-03-04 13:00
tomorrow at one thirty pm = 2027-03-04 13:30
tomorrow at 12 = 2027-03-04 12:00
tomorrow at 12pm = 2027-03-04 12:00
tomorrow at 12:30 = 2027-03-04 12:30
tomorrow at 3:30pm = 2027-03-04 15:30
tomorrow at 03:30 = 2027-03-04 03:30
tomorrow at 07:30 = 2027-03-04 07:30
tomorrow at 00:15 = 2027-03-04 00:15
tomorrow at 7pm = 2027-03-04 19:00
tomorrow at 7am = 2027-03-04 07:00
tomorrow at 15:00 CET = 2027-03-04 15:00
tomorrow at 15:00 pm = 2027-03-04 15:00
tomorrow @ 4pm = 2027-03-04 16:00
tomorrow @ 16 = 2027-03-04 16:00
Friday at 3pm = 2027-03-05 15:00
on Friday 15:00 = 2027-03-05 15:00
fri 3pm = 2027-03-05 15:00
at 3pm on Tuesday = 2027-03-09 15:00
3pm Tuesday = 2027-03-09 15:00
next Tuesday at 3pm = 2027-03-09 15:00
Next Wednesday at ten = 2027-03-10 10:00
this Friday at 11 = 2027-03-05 11:00
this wednesday at 4pm = 2027-03-03 16:00
coming Monday 10:00 = 2027-03-08 10:00
Tuesday next week at 3pm = 2027-03-09 15:00
next week Friday at 3pm = 2027-03-12 15:00
next week on Friday, 3pm = 2027-03-12 15:00
Friday of next week at 3pm = 2027-03-12 15:00
Friday week at 3pm = 2027-03-12 15:00
a week from Friday at 3pm = 2027-03-12 15:00
two weeks from tomorrow at 3pm = 2027-03-18 15:00
two days from now at 3pm = 2027-03-05 15:00
in two weeks at ten = 2027-03-17 10:00
in a week at 10am = 2027-03-10 10:00
in 3 days at 2pm = 2027-03-06 14:00
in a fortnight at noon = 2027-03-17 12:00
in two weeks on Friday at 3pm = 2027-03-19 15:00
in two weeks' time at ten = 2027-03-17 10:00
week after next on Monday at 9 = 2027-03-15 09:00
Friday morning at 10 = 2027-03-05 10:00
10 in the morning on Friday = 2027-03-05 10:00
Thursday, March 4th at 3pm = 2027-03-04 15:00
in two hours = 2027-03-03 12:00
in half an hour = 2027-03-03 10:30
in 90 minutes = 2027-03-03 11:30
an hour from now = 2027-03-03 11:00
same day at 4pm = 2027-03-05 16:00
the same day at four pm = 2027-03-05 16:00
same time on Monday = 2027-03-08 14:30
same time tomorrow = 2027-03-04 14:30
Monday, same time = 2027-03-08 14:30
an hour later = 2027-03-05 15:30
one hour earlier = 2027-03-05 13:30
30 minutes later = 2027-03-05 15:00
half an hour earlier = 2027-03-05 14:00
a day later = 2027-03-06 14:30
two days later = 2027-03-07 14:30
one week later please = 2027-03-12 14:30
four weeks later = 2027-04-02 14:30
postpone it by two hours = 2027-03-05 16:30
please delay my appointment by a week = 2027-03-12 14:30
move it to Monday at 10 = 2027-03-08 10:00
move it from Friday to Monday at 10 = 2027-03-08 10:00
move my 3pm on Friday to Monday 10am = 2027-03-08 10:00
move Friday's appointment to the 9th at two pm = 2027-03-09 14:00
I can't make Friday at 3, how about Monday at 10? = 2027-03-08 10:00
not Friday but Monday at 10 = 2027-03-08 10:00
Monday at 10 instead of Friday = 2027-03-08 10:00
Instead of Friday, Monday at 10 = 2027-03-08 10:00
Good morning, could I come tomorrow at 3pm? = 2027-03-04 15:00
Good afternoon! Monday at 10 please = 2027-03-08 10:00
the Friday one at 4pm = 2027-03-05 16:00
room for 2 people tomorrow at 3pm = 2027-03-04 15:00
  TOMORROW   AT   3PM!!! = 2027-03-04 15:00
28 March 2027 at 03:00 = 2027-03-28 03:00
31 October 2027 at 2:30 CEST in the morning = 2027-10-31 02:30
29 February 2028 at 10:00 = 2028-02-29 10:00
12 May at 15:00 2028 = 2028-05-12 15:00
12 May at 15:00, 2028 = 2028-05-12 15:00
May 12 at 3pm in 2028 = 2028-05-12 15:00
12 May '28 at 15:00 = 2028-05-12 15:00
tomorrow at 15:00 GMT+2 = 2027-03-04 14:00
tomorrow at 15:00 gmt +2 = 2027-03-04 14:00
tomorrow at 15:00 UTC-05:00 = 2027-03-04 21:00
tomorrow at 15:00 UTC plus two = 2027-03-04 14:00
tomorrow at 15:00 GMT minus 3 = 2027-03-04 19:00
tomorrow at 15:00 UTC\u22123 = 2027-03-04 19:00
tomorrow at 15:00 +02:00 = 2027-03-04 14:00
tomorrow at 15:00 Z = 2027-03-04 16:00
tomorrow at 15:00 Europe/Berlin = 2027-03-04 15:00
"""
UNCLEAR = """
missing: hello|please move it|move it please|thank you|what|Friday|next Tuesday|tomorrow|March 4th|2027-03-04
missing: 13/04/2027|in two weeks|4pm|at 4pm|10|at ten|15:00|noon|quarter past ten|same day|same time
missing: the same time please|to 4pm|not on Friday|I can't make Friday at 3|I cannot come tomorrow|the one
missing: may I move it|march on|not tomorrow|not tomorrow at 10|Monday at 10 doesn't work|except Monday at 10
missing: on Monday at 10 I can't|Monday but not at 10|tomorrow at 1530
vague: next week|next week at 3pm|sometime next week|this week|this weekend|next month|in March|March 2027
vague: Friday morning|tomorrow afternoon|this evening|tonight|soon|as soon as possible|asap|later|a bit later
vague: any time|any day next week|whenever|early next week|in a few days|in a couple of days|in a month
vague: around 3pm tomorrow|tomorrow at about 3pm|tomorrow after 3pm|before noon on Friday|between 3 and 5 on Friday
vague: Friday from 3 to 4pm|Friday 3-4pm|Friday 3pm-4pm|tomorrow by 3pm|after Friday|lunchtime tomorrow
vague: tomorrow 3ish|next year|any day but monday|any day but monday at 10|anything but Monday at 10|any monday at 10
vague: every Monday at 10|tomorrow 10am-ish|tomorrow at 10 at the latest|no later than Monday at 10|tomorrow 10\u201311
vague: tomorrow from 10 onwards|12 and 13 May at 10|12/13 May at 10|12-15 May at 10|approximately 10:00 tomorrow
ambiguous: 03/04/2027|03/04/2027 at 10:00|3/4 at 10am|03-04-2027 10:00|03.04.2027 10:00|03/04/27 10am|tomorrow at 7
ambiguous: tomorrow 7:30|midnight|Friday at midnight|Friday at 24:00|Friday at 12am|half nine tomorrow
ambiguous: Monday or Tuesday at 3|Monday at 3 or 4pm|Monday, Tuesday at 3pm|Tuesday, March 4th at 3pm
ambiguous: 3|at 3|at three|quarter past three|tomorrow at 3|tomorrow at one|tomorrow 3:30|tomorrow 3 o'clock
ambiguous: tomorrow at ten to three|tomorrow @ 4|tomorrow 10 or 11|tomorrow at 10 or at 11|tomorrow 10, 11
ambiguous: tomorrow 10 and 11|tomorrow at 10 or so|tomorrow 10:00 or later|Monday and Tuesday at 10|tomorrow at 12am
ambiguous: tomorrow at 15:00 CET+1|tomorrow at 15:00 IST|tomorrow at 15:00 Europe/London|tomorrow at 15:00 your time
ambiguous: tomorrow at 15:00 +2 GMT|tomorrow at 15:00 2028|12 May 2027 at 15:00 2028|Monday fortnight at 10
ambiguous: tomorrow 24:00|tomorrow at midnight
ambiguous: Wednesday at 3pm|tomorrow morning at 3pm|tomorrow afternoon at 10am|Friday at 3pm, 4pm
ambiguous: 2:30 on 31 October 2027 at night|31 October 2027 at 02:30|tomorrow at 15:00 EST|Tuesday after next at 3pm
impossible: 31 February|31 February at 10:00|February 30th at noon|29 February 2027|32 March at 10|tomorrow at 25:00
impossible: tomorrow at 10:75|tomorrow at 13am|tomorrow at 0pm|2027-13-04 10:00|2027-02-30 10:00|31/31/2027 10:00
impossible: 28 March 2027 at 02:30|in 9999 weeks on Friday in 9999 weeks of 0000-00-00|0000-01-01 10:00
impossible: the 45th at 10|the 31st of June|31 June at 10|31/06/2027 10:00|2027-06-31 10:00|tomorrow at 15:60
impossible: tomorrow at 15:00 GMT+25|tomorrow at 15:00+99:99|00/05/2027 10:00
past: yesterday|yesterday at 3pm|last Friday|last Friday at 3pm|today at 9am|today at 9:59|two days ago
past: 2020-03-04 15:00|1 March at 10:00|2 March 2027 noon|March 1st|2027-03-01|4 March 2026 at 10:00
past: 2027-03-03 10:00
"""
EXACT_ROWS = [tuple(line.rsplit(" = ", 1)) for line in EXACT.strip("\n").splitlines()]
UNCLEAR_ROWS = [
    (line.split(": ", 1)[0], text)
    for line in UNCLEAR.strip("\n").splitlines()
    for text in line.split(": ", 1)[1].split("|")
]


def read(text: str, **known: date | time) -> Moment | Unclear:
    return dates.read(text, NOW, BERLIN, PRESENT, **known)  # type: ignore[arg-type]


def local(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN)


@pytest.mark.parametrize(("text", "expected"), EXACT_ROWS)
def test_exact_words_name_an_instant(text: str, expected: str) -> None:
    assert read(text) == Moment(local(expected))


@pytest.mark.parametrize(("why", "text"), UNCLEAR_ROWS)
def test_words_that_are_not_exact_are_asked_back(why: str, text: str) -> None:
    answer = read(text)
    assert isinstance(answer, Unclear)
    assert answer.why == why
    assert answer.ask.endswith(("?", "."))


def test_a_half_that_is_known_already_stands_in_for_one_that_is_not_named() -> None:
    monday, ten = date(2027, 3, 8), time(10)

    assert read("at 4pm", day=monday) == Moment(local("2027-03-08 16:00"))
    assert read("on Monday", hour=ten) == Moment(local("2027-03-08 10:00"))
    assert read("Tuesday at 4pm", day=monday, hour=ten) == Moment(local("2027-03-09 16:00"))
    assert read("next week", day=monday, hour=ten) == read("next week")


@pytest.mark.parametrize(
    ("text", "day", "hour"),
    [
        ("Monday", date(2027, 3, 8), None),
        ("Monday morning", date(2027, 3, 8), None),
        ("Monday at 7", date(2027, 3, 8), None),
        ("at 4pm", None, time(16)),
        ("Monday at 3", date(2027, 3, 8), None),
        ("03/04/2027 at 10", None, time(10)),
        ("next week at 10", None, time(10)),
    ],
)
def test_the_half_that_was_clear_is_kept_with_the_question(text: str, day: date | None, hour: time | None) -> None:
    answer = read(text)
    assert isinstance(answer, Unclear)
    assert (answer.day, answer.hour) == (day, hour)


@pytest.mark.parametrize("rule", dates.RULES, ids=lambda rule: rule.name)
def test_each_rule_reads_its_own_example(rule: dates.Rule) -> None:
    if rule.kind in ("day", "time", "week", "shift", "part", "vague"):
        assert dates.names_any(rule.example)
    else:
        assert re.search(rule.pattern, rule.example.lower())


def test_what_is_left_without_its_dates_has_every_other_word() -> None:
    assert dates.without("Call me on Monday at 10:00 CET, please").split() == ["call", "me", "on", "at", ",", "please"]


def test_weekdays_are_asked_about_only_while_they_can_be_mistaken() -> None:
    monday = datetime(2027, 3, 1, 10, 0, tzinfo=BERLIN)
    asked = dates.read("Monday at 3pm", monday, BERLIN)

    assert isinstance(asked, Unclear)
    assert asked.ask == "Do you mean **Monday 1 March 2027** or **Monday 8 March 2027**?"
    assert dates.read("next Tuesday at 3pm", monday, BERLIN) == Moment(local("2027-03-09 15:00"))
    assert dates.read("Tuesday at 3pm", monday, BERLIN) == Moment(local("2027-03-02 15:00"))
    assert dates.read("next Monday at 3pm", monday, BERLIN) == Moment(local("2027-03-08 15:00"))


def test_today_is_today_in_the_appointments_zone() -> None:
    late = datetime(2027, 3, 3, 23, 30, tzinfo=UTC)

    assert dates.read("today at 3pm", late, BERLIN) == Moment(local("2027-03-04 15:00"))
    auckland = ZoneInfo("Pacific/Auckland")
    expected = datetime(2027, 3, 5, 9, 0, tzinfo=auckland)
    assert dates.read("tomorrow at 9", late, auckland) == Moment(expected)


def test_the_two_hours_of_a_fold_are_told_apart_by_the_zones_abbreviation() -> None:
    first = dates.read("31 October 2027 at 02:30 CEST", NOW, BERLIN)
    second = dates.read("31 October 2027 at 02:30 CET", NOW, BERLIN)

    assert isinstance(first, Moment)
    assert isinstance(second, Moment)
    assert first.at.astimezone(UTC) == datetime(2027, 10, 31, 0, 30, tzinfo=UTC)
    assert second.at.astimezone(UTC) == datetime(2027, 10, 31, 1, 30, tzinfo=UTC)


def test_hours_later_pass_over_a_change_of_clocks_and_days_later_keep_the_time() -> None:
    present = datetime(2027, 3, 27, 14, 30, tzinfo=BERLIN)

    assert dates.read("a day later", NOW, BERLIN, present) == Moment(local("2027-03-28 14:30"))
    assert dates.read("24 hours later", NOW, BERLIN, present) == Moment(local("2027-03-28 15:30"))


def test_nothing_is_relative_to_an_appointment_that_is_not_given() -> None:
    for text in ("same day at 4pm", "same time on Monday", "an hour later"):
        answer = dates.read(text, NOW, BERLIN)
        assert isinstance(answer, Unclear)
        assert answer.why == "missing"


@pytest.mark.parametrize(
    ("text", "source", "target"),
    [
        ("Move Friday's to Monday at 10", "move friday's ", "to monday at 10"),
        ("move it from 3pm on Friday to Monday at quarter to four", "move it from 3pm on friday ", None),
        ("Move it to Monday at 10", "", "Move it to Monday at 10"),
        ("tomorrow at ten to three", "", "tomorrow at ten to three"),
    ],
)
def test_of_two_times_the_one_after_to_is_the_new_one(text: str, source: str, target: str | None) -> None:
    assert dates.split(text) == (source, target or dates.split(text)[1])


@pytest.mark.parametrize(
    "text", ["Friday", "the one on Friday", "5 March", "my 2:30pm", "14:30 on Friday", "this week", "the 5th"]
)
def test_an_appointment_fits_what_is_named_of_its_time(text: str) -> None:
    assert dates.fits(text, PRESENT, NOW) is True


@pytest.mark.parametrize(
    "text", ["Monday", "Friday at 3pm", "6 March", "next week", "tomorrow", "31 February", "03/04/2027"]
)
def test_an_appointment_does_not_fit_another_time(text: str) -> None:
    assert dates.fits(text, PRESENT, NOW) is False


@pytest.mark.parametrize("text", ["", "the dentist", "please cancel it", "in the morning"])
def test_what_names_no_time_says_nothing_about_an_appointment(text: str) -> None:
    assert dates.fits(text, PRESENT, NOW) is None


WORDS = [
    "at", "on", "the", "next", "this", "of", "to", "from", "in", "a", "day", "week", "friday", "monday", "march",
    "may", "4th", "31st", "31", "0", "3", "12", "99", "2027", "/", ":", ".", "-", "pm", "am", "noon", "half",
    "past", "quarter", "tomorrow", "same", "time", "later", "earlier", "two", "one", "not", "or", ",", "before",
    "utc", "25:00", "2027-02-30", "hours", "months", "z", "+99:99", "+02:00", "night",
]  # fmt: skip


@given(st.lists(st.sampled_from(WORDS), max_size=9), st.sampled_from(["", " "]))
def test_any_row_of_words_is_read_as_a_coming_instant_or_asked_back(words: list[str], between: str) -> None:
    answer = read(between.join(words))
    if isinstance(answer, Moment):
        assert answer.at > NOW
        assert answer.at.tzinfo is BERLIN
    else:
        assert answer.ask


@given(st.text(max_size=60))
def test_any_text_at_all_is_read(text: str) -> None:
    read(text)
    dates.fits(text, PRESENT, NOW)


def test_a_hostile_message_is_read_in_no_time() -> None:
    started = stopwatch.process_time()
    for text in (
        "1" * 500,
        "1 " * 250,
        "postpone " * 55,
        "a " * 250,
        "to monday " * 50,
        "march " * 80,
        "monday " * 1_000_000,
    ):
        read(text)
        dates.names_any(text)
    assert stopwatch.process_time() - started < 0.5
