"""Dates and times in a person's words, read in the time zone of an appointment. For anything else, the agent asks.

Forms understood; `FORMS` has one object for each:

    day     2027-03-04, 13/04/2027, 4 March (2027), March 4th (2027), today, tomorrow, the same day,
            Friday, this Friday, next Friday, Friday next week
    time    15:00, 3:30 pm, 3pm, 10 o'clock, at 10, 10 in the morning, noon, the same time
    both    2027-03-04T15:00Z, in two hours, an hour later, a day earlier
    zone    UTC, GMT+2, +02:00

"At 3" is ambiguous (03:00 or 15:00?); from 8 it is the morning, 12 is noon, and a leading zero is the 24-hour clock.
"Tuesday" is the coming one, ambiguous on a Tuesday, and "next Tuesday" is next week's. "4 March" is this year's. An
hour that the clocks skip does not exist, and one that they show twice is ambiguous.

A message that names a day or a time is read only if every other word of it is one of a few known ones: "around 3pm",
"10 or 11", "half past nine", "15:00 CET" and "not Friday" are not.
"""

# Own code, because promise 8.10 wants the agent to ask about what is vague, ambiguous, impossible or past. Of 122
# such times, dateparser, python-dateutil, parsedatetime, timefhuman and recurrent guess 69 or more (November 2026).

from __future__ import annotations

import re
import unicodedata
from calendar import day_name, month_name
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from typing import Literal
from zoneinfo import ZoneInfo

LONGEST = 500
"""Characters of the longest message that is read; more is no answer to "when?"."""
_WHEN = "Please tell me the day and the time, for example *12 May at 15:00*."
_ONE_TIME, _WHICH = f"I need one exact time. {_WHEN}", f"Which of them do you mean? {_WHEN}"


@dataclass(unsafe_hash=True)
class Unclear(Exception):
    """Why there is no exact instant, and the question to ask."""

    why: Literal["missing", "vague", "ambiguous", "impossible", "past"]
    ask: str


def read(text: str, now: datetime, zone: ZoneInfo, present: datetime | None = None) -> datetime | Unclear:
    """Return the instant that `text` names, in the zone.

    "Same day", "same time" and "an hour later" refer to `present`, the appointment's present time.
    """
    if len(text) > LONGEST:
        return Unclear("vague", f"That is a long message. {_WHEN}")
    try:
        return _Reading(text, now, zone, present).instant()
    except Unclear as unclear:
        return unclear.with_traceback(None)
    except (OverflowError, ValueError):
        return Unclear("impossible", f"There is no such date, or no such time. {_WHEN}")


def split(text: str) -> tuple[str, str]:
    """Return what is moved and where to, of "move the one on Friday to Monday at 10"; the first may be ""."""
    plain = _plain(text)
    mask = _mask(plain)[1]
    cuts = [to.start() for to in _TO.finditer(plain) if "#" in mask[to.start() :] and " or " not in plain]
    return (plain[: cuts[-1]], plain[cuts[-1] :]) if cuts else ("", text)


def names_any(text: str) -> bool:
    """Whether the text names a day or a time at all, exact or not."""
    return bool(_mask(_plain(text))[0])


def part(text: str) -> str:
    """The part of a text that names days and times: "tomorrow at 10" of "he is out, call back tomorrow at 10 please".

    The whole text if it names none, or if its clause says that a time is not meant, or leaves a choice.
    """
    plain = _plain(text)
    spans = [match.span() for match in _mask(plain)[0]]
    if not spans:
        return text
    first, last = min(spans)[0], max(end for _, end in spans)
    clause = re.split(r"[,.;!?]|\bbut\b", plain[:first])[-1] + plain[first:]
    if re.search(r"\b(?:not|or|except|before|until|unless)\b|n't\b", clause):
        return text
    return plain[first - len("at ") * plain[:first].endswith("at ") : last]


def without(text: str) -> str:
    """Return the text in lower case without the words that name a day or a time."""
    return re.sub("#+", " ", _mask(_plain(text))[1])


def fits(text: str, at: datetime, now: datetime) -> bool | None:
    """Whether the local time `at` is what the text names ("the one on Friday"); None if it names no day or time."""
    reading = _Reading(text, now, at.tzinfo or UTC, at)
    at = reading.appointment_time
    try:
        named = [value for value in reading.values() if isinstance(value, date | time)]
    except (Unclear, OverflowError, ValueError):
        return False
    if re.search(r"\d", reading.mask):
        return False
    return all(value in (at, at.date(), at.time()) for value in named) if named else None


class _Reading:
    """One reading of a message. The present instant and the appointment's time are local to the zone."""

    def __init__(self, text: str, now: datetime, zone: tzinfo, present: datetime | None) -> None:
        self.now, self.zone, self.today = now.astimezone(zone), zone, now.astimezone(zone).date()
        self.present = present and present.astimezone(zone).replace(second=0, microsecond=0)
        self.spans, self.mask = _mask(_plain(text))
        self.years = sorted({match["year"] for match in self.spans if match.groupdict().get("year")})

    @property
    def appointment_time(self) -> datetime:
        """The appointment's present time, to which the words refer."""
        if self.present is None:
            raise Unclear("missing", _WHEN)
        return self.present

    # Meanings of the forms.

    def vague(self, match: re.Match[str]) -> None:
        """A day or a time that is never exact."""
        raise Unclear("vague", _ONE_TIME)

    def day_of_month(self, match: re.Match[str]) -> date:
        """A day of a month, which is named or in figures."""
        month = match["month"]
        return self._date(int(match["day"]), int(month) if month.isdigit() else 1 + _MONTHS.index(month[:3]))

    def figures(self, match: re.Match[str]) -> date:
        """A date in figures, whose order of day and month is known only if one of them is over 12."""
        one, other = int(match["one"]), int(match["other"])
        if one != other and {one, other} <= {*range(1, 13)}:
            days = f"**{one} {month_name[other]}** or **{other} {month_name[one]}**"
            raise Unclear("ambiguous", f"Is that {days}? Please name the month.")
        return self._date(max(one, other), min(one, other))

    def _date(self, day: int, month: int) -> date:
        if self.years:
            return date(int(self.years[0]), month, day)
        this = date(self.today.year, month, day)
        if this < self.today:
            raise Unclear("past", f"{_long(this)} has passed. Please name the year.")
        return this

    def weekday(self, match: re.Match[str]) -> date:
        """The coming such day, or next week's."""
        day = self.today + timedelta(_WEEKDAYS.index(match["weekday"][:3]) - self.today.weekday())
        next_week = day + timedelta(7)
        if match["week"] or match["which"] == "next":
            return next_week
        if day == self.today and match["which"] is None:
            raise Unclear("ambiguous", f"Do you mean **{_long(day)}** or **{_long(next_week)}**?")
        return day if day >= self.today else next_week

    def shifted(self, match: re.Match[str]) -> datetime:
        """So much from now, or so much after or before the appointment; days and weeks keep its time of day."""
        way = match.groupdict().get("way")
        start = self.appointment_time if way else self.now
        count = int(match["count"]) if match["count"].isdigit() else 1
        amount = timedelta(**{f"{match['unit']}s": -count if way == "earlier" else count})
        if match["unit"] in ("day", "week"):
            return self._at(start.date() + amount, start.time())
        return (start.astimezone(UTC) + amount).astimezone(self.zone).replace(second=0, microsecond=0)

    def clock(self, match: re.Match[str]) -> time:
        """The time of an hour and a minute, on the 24-hour clock or made so by "pm"."""
        words = match.groupdict()
        hour, minute, half = int(words["hour"]), int(words.get("minute") or 0), words.get("half")
        if half == "a" and hour == 12:
            raise Unclear("ambiguous", f"Is that noon or midnight? {_WHEN}")
        if half is None and 1 <= hour < 8 and not match["hour"].startswith("0"):
            raise Unclear("ambiguous", f"Is that **{hour:02}:{minute:02}** or **{hour + 12}:{minute:02}**? {_WHEN}")
        if half and not 1 <= hour <= 12:
            raise ValueError
        return time(hour % 12 + 12 if half == "p" else hour, minute)

    def offset(self, match: re.Match[str]) -> timezone:
        """An offset from UTC."""
        hours, minutes = int(match["hours"] or 0), int(match["minutes"] or 0)
        if hours > 14 or minutes > 59:
            raise ValueError
        return timezone(timedelta(hours=hours, minutes=minutes) * (-1 if match["sign"] == "-" else 1))

    # From the meanings to an instant.

    def values(self) -> list[Value]:
        """What the spans mean. Raises Unclear."""
        return [form.meaning(self, match) for match, form in self.spans.items()]

    def instant(self) -> datetime:
        """The instant that all spans name together. Raises Unclear."""
        if self.spans and not _READABLE.fullmatch(self.mask):
            is_choice = re.search(r"\bor\b", self.mask)
            raise Unclear("ambiguous", _WHICH) if is_choice else Unclear("vague", _ONE_TIME)
        values = self.values()
        instants = {value for value in values if isinstance(value, datetime)}
        days = {value for value in values if type(value) is date} | {at.date() for at in instants}
        hours = {value for value in values if isinstance(value, time)} | {at.time() for at in instants}
        offsets = {value for value in values if isinstance(value, timezone)}
        if max(len(instants) + len(offsets), len(days), len(hours), len(self.years)) > 1:
            raise Unclear("ambiguous", _WHICH)
        if not days:
            raise Unclear("missing", f"On which day at {hours.pop():%H:%M}?" if hours else _WHEN)
        day = days.pop()
        if self.years and str(day.year) not in self.years:
            raise Unclear("ambiguous", f"Which date in {self.years[0]} do you mean? {_WHEN}")
        if day < self.today:
            raise Unclear("past", f"{_long(day)} has passed. {_WHEN}")
        if not hours:
            raise Unclear("missing", f"At what time on {_long(day)}?")
        at = instants.pop() if instants else self._at(day, hours.pop(), *offsets)
        if at.astimezone(UTC) <= self.now.astimezone(UTC):
            raise Unclear("past", f"{_long(at.date())} at {at:%H:%M} has passed. {_WHEN}")
        return at

    def _at(self, day: date, hour: time, offset: timezone | None = None) -> datetime:
        """The instant of a local time, or of a time with an offset from UTC."""
        at = datetime.combine(day, hour, offset or self.zone)
        before, after = at.utcoffset() or timedelta(0), at.replace(fold=1).utcoffset() or timedelta(0)
        name = f"{hour:%H:%M} on {_long(day)} in {self.zone}"
        if before < after:
            raise Unclear("impossible", f"The clocks skip {name}. {_WHEN}")
        if before > after:
            raise Unclear("ambiguous", f"The clocks show {name} twice. {_WHEN}")
        return at.astimezone(self.zone)


Value = date | time | timezone | None
"""A day, a time, an instant (a datetime), an offset from UTC, or nothing by itself."""


@dataclass(frozen=True)
class Form:
    """A form that is understood: examples, its pattern, and what the words of a match mean in a reading."""

    examples: str
    pattern: str
    meaning: Callable[[_Reading, re.Match[str]], Value] = lambda reading, match: None


_WEEKDAYS, _MONTHS = ([name[:3].lower() for name in names if name] for names in (day_name, month_name))
_WEEKDAY = "(?P<weekday>mon|tue(?:s)?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?"
_MONTH = "(?P<month>{})".format("|".join(f"{name[:3]}(?:{name[3:]})?" for name in month_name[1:]).lower())
_DAY, _YEAR = r"(?<![:.,/+-])(?P<day>\d\d?)(?:st|nd|rd|th)?\b(?![:.]\d)", r"(?P<year>(?:19|20)\d\d)\b(?![:/.-]\d)"
_HOUR, _HALF = r"(?<![\w:.,/+-])(?P<hour>\d\d?)", r" ?(?P<half>[ap])(?:\.m\.|m\b)"
_COUNT = r"(?P<count>\d{1,4}|an?|one)"

# fmt: off
# What a form matches is no longer there for those after it.
FORMS: Sequence[Form] = (
    Form("2027-03-04", r"(?<![\d-])(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)(?![\d-])", _Reading.day_of_month),
    Form("13/04/2027", r"(?<![\d/])(?P<one>\d\d?)/(?P<other>\d\d?)(?:/(?P<year>\d{4}))?(?![\d/])", _Reading.figures),
    Form("4 March, 4th of March 2027", rf"\b{_DAY} (?:of )?{_MONTH}\b(?:,? {_YEAR})?", _Reading.day_of_month),
    Form("March 4th, 2027", rf"\b{_MONTH} (?:the )?{_DAY}(?! ?[ap]\.?m)(?:,? {_YEAR})?", _Reading.day_of_month),
    Form("today, tomorrow, yesterday", r"\b(?P<name>yesterday|today|tomorrow)\b",
         lambda reading, match: reading.today + timedelta(("yesterday", "today", "tomorrow").index(match["name"]) - 1)),
    Form("next Friday", rf"\b(?:(?P<which>this|next) )?{_WEEKDAY}\b(?P<week> next week\b)?", _Reading.weekday),
    Form("same day", r"\bsame day\b", lambda reading, match: reading.appointment_time.date()),
    Form("same time", r"\bsame time\b", lambda reading, match: reading.appointment_time.time()),
    Form("one day later", rf"\b{_COUNT} (?P<unit>minute|hour|day|week)s? (?P<way>later|earlier)\b", _Reading.shifted),
    Form("in two hours", rf"\bin {_COUNT} (?P<unit>minute|hour)s?\b", _Reading.shifted),
    Form("15:00, 3:30 pm", rf"{_HOUR}:(?P<minute>\d\d)(?::\d\d(?:\.\d+)?)?(?![\d:])(?:{_HALF})?", _Reading.clock),
    Form("3 pm, 3 p.m.", rf"{_HOUR}{_HALF}", _Reading.clock),
    Form("10 o'clock", rf"{_HOUR} ?o'?clock\b(?:{_HALF})?", _Reading.clock),
    Form("at 10", rf"(?:(?<=\bat )|(?:^|(?<=\. ))(?=\d+[.!?]?$)){_HOUR}\b(?![:/.,-]\d)", _Reading.clock),
    Form("noon", r"\b(?:12 )?noon\b", lambda reading, match: time(12)),
    Form("UTC, GMT+2, +02:00",
         r"(?:\b(?:utc|gmt) ?(?P<sign>[+-])|\+)(?P<hours>\d\d?)(?::?(?P<minutes>\d\d))?\b|\b(?:utc|gmt)\b|(?<=#) ?z\b",
         _Reading.offset),
    Form("2028, as in 12 May at 15:00 2028", rf"\b(?<![:.,/+-]){_YEAR}"),
    Form("next week, Friday morning, soon",
         r"\b(?:(?:(?:this|next|in a) )?(?:week(?:end)?|month|year)s?|(?:any|some) ?(?:time|day)|few|several"
         r"|(?<!good )(?:morning|afternoon|evening)|(?:to|mid)?night|whenever|soon|asap|later|earlier|[a-z]+days)\b",
         _Reading.vague),
)
# fmt: on
_FIGURES = {"two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9"}
_FIGURES |= {"ten": "10", "eleven": "11", "twelve": "12"}
# All that may stand beside the days and times, whose signs are "#" in the mask: "to" only before the first of them, and
# no "my Monday appointment", which is no new time.
_FILLER = (
    r"[\s,.;!?]|\b(?:can|could|would|we|you|i|i'd|come|be|better|how about|like|want|need|have|please|move"
    r"|reschedule|postpone|change|make|it|my"
    r"|the|(?<!# )appointment(?! on| at| for)|call|phone|ring|give|a|me|us|back|again|on|at|for|then|instead|but|yes|no"
    r"|ok|okay|sure|sorry|thanks|thank|hi|hello|hey)\b"
)
_READABLE = re.compile(rf"(?:\bto\b|{_FILLER})*(?:#|{_FILLER})*")
# Between two figures "to" is a range, or a time by itself ("ten to three").
_TO = re.compile(r"\bto\b(?! \d)|(?<!\d )(?<!am )(?<!pm )(?<!quarter )\bto\b")


def _plain(text: str) -> str:
    plain = unicodedata.normalize("NFKC", text[:LONGEST]).replace("\u2019", "'").replace("#", " ").lower()
    plain = re.sub(r"(?<=\d)t(?=\d)", " ", re.sub("[\u2010-\u2015\u2212]", "-", " ".join(plain.split())))
    return re.sub(r"[a-z]+", lambda word: _FIGURES.get(word[0], word[0]), plain.replace(" in the morning", " am"))


def _mask(plain: str) -> tuple[dict[re.Match[str], Form], str]:
    """What matches which form in a plain text, and the text with "#" for each of these signs."""
    spans: dict[re.Match[str], Form] = {}
    for form in FORMS:
        spans |= dict.fromkeys(re.finditer(form.pattern, plain), form)
        plain = re.sub(form.pattern, lambda match: "#" * len(match[0]), plain)
    return spans, plain


def _long(day: date) -> str:
    return f"{day:%A} {day.day} {day:%B %Y}"
