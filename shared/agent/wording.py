"""The wording of replies: an appointment as a sentence, untrusted text without markup, a reply without links.

The scripted agent, the live agent and phone calls use it.
"""

from __future__ import annotations

import html
import re
import unicodedata
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from shared.agent.turn import AppointmentView
from shared.agent_settings.policy import Problem
from shared.agent_settings.resource import Settings
from shared.appointments.resource import AppointmentStatus
from shared.core import clock

ATTEND = "Will you be there?"
"""The question that ends the opening of a call about an appointment. A plain yes confirms the appointment."""
CANNOT_HELP = "I cannot help with this one myself. I have asked someone from our team to get back to you."
"""The reply with a handoff, if the agent must not or cannot answer."""
REMOVED = "(link removed)"
"""Replaces an address in a reply."""
MAX_NESTING = 4
"""The most levels of nested entities and links that are resolved. The syntax of deeper levels is broken up."""
_STATUS = {
    AppointmentStatus.PENDING: "not confirmed yet",
    AppointmentStatus.RESCHEDULED: "rescheduled and not confirmed yet",
    AppointmentStatus.FAILED: "marked as failed",
}


def describe(appointment: AppointmentView, *, details: bool = False) -> str:
    """Describe an appointment in Markdown by its title, if it has one, and its local time.

    With `details`, the description includes its location and status.
    """
    title = escape(appointment.title or "")
    what = f"**{title}**" if title else "your appointment"
    text = f"{what} on {long_time(local_time(appointment.at, appointment.timezone))}"
    if details:
        place = f", {place}" if (place := escape(appointment.location or "")) else ""
        text += f"{place}, {_STATUS.get(appointment.status, appointment.status)}"
    return text


def describe_hours(settings: Settings) -> str:
    """The opening hours in a sentence, such as "We are open on Monday from 08:30 to 17:00 (Europe/Berlin)."."""
    entries = (
        f"{', '.join(day.capitalize() for day in each['days'])} from {each['from']} to {each['to']}"
        for each in settings["opening_hours"]
    )
    return f"We are open on {'; on '.join(entries)} ({settings['timezone']})."


def why_not(problem: Problem) -> str:
    """Why a time that the customer wished is not possible."""
    return {
        Problem.TOO_SOON: "That is too short notice for us.",
        Problem.OUTSIDE_HOURS: "That is not within our opening hours.",
    }[problem]


def local_time(instant: str, zone: str) -> datetime:
    """The local time in a zone of an instant (RFC 3339); in UTC if the zone cannot represent it."""
    at = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=clock.parse(instant))
    try:
        return at.astimezone(ZoneInfo(zone))
    except OverflowError:
        # The first and last day of the calendar have no local time in some zones.
        return at


def long_time(at: datetime) -> str:
    """A local time in Markdown: `**Friday 5 March 2027 at 14:30** (Europe/Berlin)`."""
    zone = at.tzinfo.key if isinstance(at.tzinfo, ZoneInfo) else "UTC"
    return f"**{at:%A} {at.day} {at:%B %Y} at {at:%H:%M}** ({zone})"


def escape(text: str) -> str:
    """Escape untrusted text for a line of Markdown: it has no markup, HTML or links."""
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    line = re.sub(r"([\\`*_\[\]<>~|&!#])", r"\\\1", line)
    return re.sub(r"(?<=\w):(?=//)|(?<=www)\.|@", lambda sign: f"\\{sign[0]}", line, flags=re.IGNORECASE)


def without_links(markdown: str) -> str:
    """The text without links and images: they become their labels, and addresses become `REMOVED`.

    The agent has no reason to send links, and the address of a link that a model generates could leak data. Entities
    are resolved, invisible characters are removed, and HTML tags are disabled. Takes time linear in the text's length.
    """
    text = _without_entities(visible(markdown))
    text = _ESCAPE.sub(r"\1", _JOINERS.sub(_strip_joiners, text))
    for _ in range(MAX_NESTING):
        text = _LINK.sub(r"\1", text)
    text = _WORD.sub(_replace_address, _break_links(text))
    return _TAG.sub("< ", _break_links(text)).strip()


def visible(text: str) -> str:
    """The text without invisible characters, which can hide instructions and split words."""
    return "".join(c for c in text if c in _ALLOWED or not (unicodedata.category(c) in _INVISIBLE or c in _SELECTORS))


_ALLOWED = frozenset("\t\n\u200c\u200d")
"""Tab, newline, and the joiners that some scripts and emoji need."""
_INVISIBLE = frozenset({"Cc", "Cf", "Cn", "Co", "Cs"})
_SELECTORS = frozenset(map(chr, range(0xE0100, 0xE01F0)))
"""The supplementary variation selectors: 240 invisible characters that can encode a text."""
_JOINERS = re.compile("[\u200c\u200d]+")
# `html.unescape` raises for a number with more than 4,300 digits.
_ENDLESS_NUMBER = re.compile(r"&#x?[0-9a-f]{32,};?", re.IGNORECASE)
_ESCAPE = re.compile(r"\\([:/.@<\[\]()!])")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*(?:\([^()]*\)[^()]*)*\)")
_WORD = re.compile(r"[^\s<>]+")
_AROUND = "*_~`'\"“”\u2018\u2019()[]{}.,;:!?"
_ADDRESS = re.compile(
    r"""://
    # Whatever is before it: "https@www.evil.example" is no email address that anybody has.
    | (?<![\w.-]) www\. \w
    # Not after the "@" of an email address.
    | (?:^|[^\w@.-]|(?<!\w)@) (?: //\w | (?:https?|ftp|mailto|data|javascript|vbscript|tel|sms|file|blob):\S )
    # A host with a path or a subdomain, unlike "Dr.Smith" and "3.30".
    | (?:^|[^\w@.-]|(?<!\w)@) (?:[\w-]+\.)+ [^\W\d_]{2,} (?::\d+)? [/?#]
    | (?:^|[^\w@.-]|(?<!\w)@) (?:[\w-]+\.){2,} [^\W\d_]{2,} \.* (?:$|[^\w.-])
    """,
    re.IGNORECASE | re.VERBOSE,
)
_TAG = re.compile(r"<(?=[A-Za-z/!?])")


def _without_entities(text: str) -> str:
    for _ in range(MAX_NESTING):
        plain = visible(html.unescape(_ENDLESS_NUMBER.sub("", text)))
        if plain == text:
            return text
        text = plain
    # Entities that are nested this deep hide something. Without "&" they are not entities.
    return text.replace("&", "")


def _strip_joiners(joiners: re.Match[str]) -> str:
    """The joiners, or nothing if they are next to ASCII, where they only split a word."""
    around = joiners.string[max(joiners.start() - 1, 0) : joiners.start()] + joiners.string[joiners.end() :][:1]
    return "" if any("!" <= sign <= "~" for sign in around) else joiners[0]


def _break_links(text: str) -> str:
    """The text without the syntax of links, valid or not."""
    return text.replace("](", "] (").replace("]:", "] :")


def _replace_address(word: re.Match[str]) -> str:
    core = word[0].strip(_AROUND)
    if not _ADDRESS.search(unicodedata.normalize("NFKC", core)):
        return word[0]
    before, _, after = word[0].partition(core)
    return before + REMOVED + after
