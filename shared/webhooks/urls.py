"""Which URLs can receive webhooks, and which addresses the client can connect to (promises 9).

There are two checks. `refuse_url` checks the text when an endpoint is registered: it refuses local addresses and names
that are never public. `refuse_address` checks each address before a delivery connects to it, because the addresses of a
name are known only then. Neither opens a socket.
"""

import functools
import ipaddress
import re
import unicodedata
from dataclasses import dataclass
from urllib.parse import quote

MAX_URL_LENGTH = 2048

LOOPBACK = "a loopback address"

# The networks that are refused, with their description for the error message. They are from IANA's special-purpose
# registry, listed here because `ipaddress.is_global` differs between Python versions.
REFUSED_IPV4 = tuple(
    (ipaddress.IPv4Network(network), what)
    for network, what in (
        ("0.0.0.0/8", "an unspecified address"),
        ("10.0.0.0/8", "a private address"),
        ("100.64.0.0/10", "a carrier's shared (CGNAT) address"),
        ("127.0.0.0/8", LOOPBACK),
        ("169.254.0.0/16", "a link-local address"),
        ("172.16.0.0/12", "a private address"),
        ("192.0.0.0/24", "a reserved address"),
        ("192.0.2.0/24", "a documentation address"),
        ("192.88.99.0/24", "a 6to4 relay address"),
        ("192.168.0.0/16", "a private address"),
        ("198.18.0.0/15", "a benchmarking address"),
        ("198.51.100.0/24", "a documentation address"),
        ("203.0.113.0/24", "a documentation address"),
        ("224.0.0.0/4", "a multicast address"),
        ("240.0.0.0/4", "a reserved address"),
    )
)

REFUSED_IPV6 = tuple(
    (ipaddress.IPv6Network(network), what)
    for network, what in (
        ("::/128", "an unspecified address"),
        ("::1/128", LOOPBACK),
        ("::ffff:0:0/96", "an IPv4-mapped address"),
        ("::/96", "an IPv4-compatible address"),
        ("2001::/32", "a Teredo address"),
        ("2001:db8::/32", "a documentation address"),
        ("2001::/23", "a reserved address"),
        ("2002::/16", "a 6to4 address"),
        ("3fff::/20", "a documentation address"),
        ("fc00::/7", "a private (unique local) address"),
        ("fe80::/10", "a link-local address"),
        ("fec0::/10", "a private (site-local) address"),
        ("ff00::/8", "a multicast address"),
    )
)

GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")

# DNS64 returns these addresses for hosts that have only IPv4. The embedded IPv4 address is checked.
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")

# Names that no public resolver resolves. `localhost` is checked separately.
RESERVED_SUFFIXES = ("local", "internal", "invalid", "onion", "home.arpa")

URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<target>[^#]*)", re.IGNORECASE)
AUTHORITY = re.compile(r"(?:\[(?P<ipv6>[^\[\]]*)\]|(?P<name>[^:\[\]]*))(?::(?P<port>.*))?")
LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")

# The characters that are not escaped in a request line: those of RFC 3986, and `%`, so that escapes are preserved.
TARGET_CHARACTERS = "!$%&'()*+,/:;=?@[]-._~"


class UrlRefused(ValueError):
    """The URL cannot receive webhooks. The message gives the reason in English."""


@dataclass(frozen=True)
class WebhookUrl:
    """A parsed URL. It is parsed once, so that the checked host is the one that the client connects to."""

    scheme: str
    host: str
    """A name in lower-case ASCII without a final dot, or an address without brackets."""
    port: int | None
    target: str
    """Path and query in ASCII, otherwise as sent by the client."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port is None else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.target}"


def refuse_url(url: str, *, allow_loopback: bool) -> str | None:
    """The reason in English why `url` cannot be registered; None if it can."""
    try:
        read_url(url, allow_loopback=allow_loopback)
    except UrlRefused as refusal:
        return str(refusal)
    return None


@functools.lru_cache(maxsize=1_000)
def read_url(url: str, *, allow_loopback: bool) -> WebhookUrl:
    """Parse `url`. With `allow_loopback`, loopback hosts are allowed too, with https or http. Raises UrlRefused."""
    if len(url) > MAX_URL_LENGTH:
        raise UrlRefused(f"The URL is longer than {MAX_URL_LENGTH} characters.")
    if any(c.isspace() or unicodedata.category(c) in ("Cc", "Cf", "Cs") for c in url):
        raise UrlRefused("The URL contains whitespace or control characters.")
    if "\\" in url:  # a slash to browsers, a part of the host to other parsers
        raise UrlRefused("The URL contains a backslash.")
    if "#" in url:
        raise UrlRefused("The URL must not have a fragment (`#`).")
    parts = URL.fullmatch(url)
    if parts is None or parts["scheme"].lower() not in ("http", "https"):
        raise UrlRefused("The URL must start with `https://`.")
    if "@" in parts["authority"]:
        raise UrlRefused("The URL must not contain credentials.")
    authority = AUTHORITY.fullmatch(parts["authority"])
    if authority is None:
        raise UrlRefused("The URL's host is malformed.")
    port = _read_port(authority["port"])
    if authority["ipv6"] is not None:
        host, is_loopback = _read_ipv6(authority["ipv6"], allow_loopback=allow_loopback)
    else:
        host, is_loopback = _read_name(authority["name"], allow_loopback=allow_loopback)
    scheme = parts["scheme"].lower()
    if scheme == "http" and not is_loopback:
        raise UrlRefused("The URL must start with `https://`.")
    target = quote(parts["target"], safe=TARGET_CHARACTERS)
    return WebhookUrl(scheme, host, port, target if target.startswith("/") else f"/{target}")


def refuse_address(address: str, *, allow_loopback: bool) -> str | None:
    """The reason why the client must not connect to `address` (IPv4 or IPv6 text); None if it may.

    With `allow_loopback`, 127.0.0.0/8 and ::1 are allowed too, but no other local range.
    """
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return f"{address} is not an address"
    what = _what_is_wrong(ip)
    if what is None or (allow_loopback and what == LOOPBACK):
        return None
    return f"{address} is {what}"


def _what_is_wrong(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str | None:
    if isinstance(ip, ipaddress.IPv4Address):
        return next((what for network, what in REFUSED_IPV4 if ip in network), None)
    if ip.scope_id is not None:
        return "an address with a zone"
    if ip in NAT64:
        inner = _what_is_wrong(ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF))
        return None if inner is None else f"{inner} behind NAT64"
    what = next((what for network, what in REFUSED_IPV6 if ip in network), None)
    return what or (None if ip in GLOBAL_UNICAST else "a reserved address")


def _read_port(text: str | None) -> int | None:
    if not text:
        return None
    # `isdecimal` alone accepts digits of other scripts.
    if not (text.isascii() and text.isdecimal() and len(text) <= 5 and 1 <= int(text) <= 65535):
        raise UrlRefused("The URL's port must be a number from 1 to 65535.")
    return int(text)


def _read_ipv6(text: str, *, allow_loopback: bool) -> tuple[str, bool]:
    if "%" in text:
        raise UrlRefused("The URL's address must not have a zone.")
    try:
        ip = ipaddress.IPv6Address(text)
    except ValueError:
        raise UrlRefused("The URL's host is not a valid IPv6 address.") from None
    return _check_ip(ip, allow_loopback=allow_loopback)


def _read_name(name: str, *, allow_loopback: bool) -> tuple[str, bool]:
    """The host to connect to, and whether it is loopback."""
    host = (name.lower() if name.isascii() else _to_ascii(name)).removesuffix(".")
    labels = host.split(".")
    if not host:
        raise UrlRefused("The URL has no host.")
    if len(host) > 253 or not all(LABEL.fullmatch(label) for label in labels):
        raise UrlRefused("The URL's host is not a valid name.")
    if NUMBER.fullmatch(labels[-1]):
        # Resolvers also accept 2130706433, 0x7f.1, 0177.0.0.1 and 127.1 as addresses. Only one notation is allowed.
        try:
            ip = ipaddress.IPv4Address(host)
        except ValueError:
            raise UrlRefused("An IPv4 address must be written as four decimal numbers.") from None
        return _check_ip(ip, allow_loopback=allow_loopback)
    if labels[-1] == "localhost":
        if not allow_loopback:
            raise UrlRefused("The URL must be publicly reachable; `localhost` is not.")
        return host, True
    if any(host == suffix or host.endswith(f".{suffix}") for suffix in RESERVED_SUFFIXES):
        raise UrlRefused(f"The URL must be publicly reachable; a name ending in `.{labels[-1]}` is not.")
    if len(labels) == 1:
        raise UrlRefused("The URL must be publicly reachable; its host is a name without a domain.")
    return host, False


def _check_ip(ip: ipaddress.IPv4Address | ipaddress.IPv6Address, *, allow_loopback: bool) -> tuple[str, bool]:
    refusal = refuse_address(str(ip), allow_loopback=allow_loopback)
    if refusal is not None:
        raise UrlRefused(f"The URL must be publicly reachable; {refusal}.")
    return str(ip), ip.is_loopback


def _to_ascii(name: str) -> str:
    import idna  # its tables are large, and few hosts need them

    try:
        return idna.encode(name, uts46=True).decode("ascii")
    except idna.IDNAError:
        raise UrlRefused("The URL's host is not a valid internationalised name.") from None
