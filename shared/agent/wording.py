"""How an agent words things: an appointment in a sentence, somebody's text as plain words, a reply without links.

The scripted agent, the live one and phone calls use it.
"""

from __future__ import annotations

import html
import re
import unicodedata
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from shared.agent.tools import AppointmentView
from shared.core import clock

ATTEND = "Will you be there?"
"""The end of the opening of a call about an appointment; a plain yes to it confirms."""
REMOVED = "(link removed)"
DEEPEST = 4
"""How many levels of entities in entities, and of links in links, are read; below, their syntax is taken apart."""
_STATUS = {
    "pending": "not confirmed yet",
    "rescheduled": "rescheduled and not confirmed yet",
    "failed": "marked as failed",
}


def describe(appointment: AppointmentView, *, details: bool = False) -> str:
    """Return an appointment in a sentence, as Markdown: its title, if it has one, and its local time.

    With `details`, its location and status too.
    """
    title = escaped(appointment.title or "")
    what = f"**{title}**" if title else "your appointment"
    text = f"{what} on {long_time(local_time(appointment.at, appointment.timezone))}"
    if details:
        place = f", {place}" if (place := escaped(appointment.location or "")) else ""
        text += f"{place}, {_STATUS.get(appointment.status, appointment.status)}"
    return text


def local_time(instant: str, zone: str) -> datetime:
    """Return an instant (RFC 3339) as the local time of a zone."""
    at = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=clock.parse(instant))
    try:
        return at.astimezone(ZoneInfo(zone))
    except OverflowError:
        # The first and the last day of the calendar have no local time everywhere.
        return at


def long_time(at: datetime) -> str:
    """Return a local time as Markdown: `**Friday 5 March 2027 at 14:30** (Europe/Berlin)`."""
    zone = at.tzinfo.key if isinstance(at.tzinfo, ZoneInfo) else "UTC"
    return f"**{at:%A} {at.day} {at:%B %Y} at {at:%H:%M}** ({zone})"


def escaped(text: str) -> str:
    """Return somebody's text as plain words in a line of Markdown: no markup, no HTML, no link."""
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    line = re.sub(r"([\\`*_\[\]<>~|&!#])", r"\\\1", line)
    return re.sub(r"(?<=\w):(?=//)|(?<=www)\.|@", lambda sign: f"\\{sign[0]}", line, flags=re.IGNORECASE)


def without_links(markdown: str) -> str:
    """Return a text in which nothing can be followed or loaded: links and images become their labels, addresses go.

    The agent has no business sending links, and one made up by a model carries out whatever its address says.
    Only what is shown stays, entities and invisible characters resolved, and HTML is no longer HTML. Takes time
    in proportion to the text's length, whatever the text.
    """
    text = _without_entities(visible(markdown))
    text = _ESCAPE.sub(r"\1", _JOINERS.sub(_joined, text))
    for _ in range(DEEPEST):
        text = _LINK.sub(r"\1", text)
    text = _WORD.sub(_unlinked, _broken(text))
    return _TAG.sub("< ", _broken(text)).strip()


def visible(text: str) -> str:
    """Return the text without invisible characters, which hide instructions and take words apart."""
    return "".join(c for c in text if c in _KEPT or not (unicodedata.category(c) in _UNSEEN or c in _SELECTORS))


_KEPT = frozenset("\t\n\u200c\u200d")
"""Layout, and the joiners that some scripts and emoji are written with."""
_UNSEEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs"})
_SELECTORS = frozenset(map(chr, range(0xE0100, 0xE01F0)))
"""The supplement of variation selectors: 240 invisible letters, as good as an alphabet."""
_JOINERS = re.compile("[\u200c\u200d]+")
# `html.unescape` raises on a number of more than 4,300 digits.
_ENDLESS_NUMBER = re.compile(r"&#x?[0-9a-f]{32,};?", re.IGNORECASE)
_ESCAPE = re.compile(r"\\([:/.@<\[\]()!])")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*(?:\([^()]*\)[^()]*)*\)")
_WORD = re.compile(r"[^\s<>]+")
_AROUND = "*_~`'\"“”\u2018\u2019()[]{}.,;:!?"
_ADDRESS = re.compile(
    r"""://
    # Not behind the "@" of an e-mail address.
    | (?:^|[^\w@.-]|(?<!\w)@) (?: //\w | www\. | (?:https?|ftp|mailto|data|javascript|vbscript|tel|sms|file|blob):\S )
    # A host with a path, or one with a subdomain; "Dr.Smith" and "3.30" are neither.
    | (?:^|[^\w@.-]|(?<!\w)@) (?:[\w-]+\.)+ [^\W\d_]{2,} (?::\d+)? [/?#]
    | (?:^|[^\w@.-]|(?<!\w)@) (?:[\w-]+\.){2,} [^\W\d_]{2,} (?:$|[^\w.-])
    """,
    re.IGNORECASE | re.VERBOSE,
)
_TAG = re.compile(r"<(?=[A-Za-z/!?])")


def _without_entities(text: str) -> str:
    for _ in range(DEEPEST):
        plain = visible(html.unescape(_ENDLESS_NUMBER.sub("", text)))
        if plain == text:
            return text
        text = plain
    # Nobody nests entities this deep but to hide something: without its "&" none of them is an entity.
    return text.replace("&", "")


def _joined(joiners: re.Match[str]) -> str:
    """Joiners, unless they stand beside ASCII, where they only take a word apart."""
    around = joiners.string[max(joiners.start() - 1, 0) : joiners.start()] + joiners.string[joiners.end() :][:1]
    return "" if any("!" <= sign <= "~" for sign in around) else joiners[0]


def _broken(text: str) -> str:
    """The text without any syntax of links, well formed or not."""
    return text.replace("](", "] (").replace("]:", "] :")


def _unlinked(word: re.Match[str]) -> str:
    core = word[0].strip(_AROUND)
    if not _ADDRESS.search(unicodedata.normalize("NFKC", core)):
        return word[0]
    before, _, after = word[0].partition(core)
    return before + REMOVED + after
