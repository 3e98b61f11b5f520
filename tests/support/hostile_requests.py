"""Requests to every route: most of them as they should be, and some as nobody should send them."""

from __future__ import annotations

import json
import re
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from tests.support.described import DESCRIPTION
from tests.support.hostile_values import FIELDS, HOPELESS, JUNK, MOMENTS, PHONES, READ_ONLY, STATUSES


@dataclass(frozen=True)
class Route:
    """A method, a path with places for ids, the names of its fields, a valid body as JSON texts, and its parameters."""

    method: str
    path: str
    fields: Sequence[str] = ()
    valid: Mapping[str, str] = field(default_factory=dict)
    query: Sequence[str] = ()


DOCUMENT = json.loads(DESCRIPTION.read_text(encoding="utf-8"))
PLACES = {"customers": "customer", "appointments": "appointment", "webhook_endpoints": "endpoint", "events": "event"}
"""What the `id` in a path of each collection is."""
VALID = {
    "POST /v1/customers": {"phone": '"+15005550006"', "name": '"Ann"'},
    "PATCH /v1/customers/{customer}": {"name": '"Bea"'},
    "POST /v1/appointments": {"customer_id": '"{customer}"', "appointment_at": '"2030-05-06T07:08:09+02:00"'},
    "PATCH /v1/appointments/{appointment}": {"title": '"Visit"'},
    "POST /v1/webhook_endpoints": {"url": '"https://example.com/hook"'},
    "PATCH /v1/webhook_endpoints/{endpoint}": {"label": '"Main"'},
    "PATCH /v1/agent_settings": {"business_name": '"Main"'},
}


def resolve(part: Any) -> Any:
    """A part of the description, or what it refers to."""
    if "$ref" not in part:
        return part
    _, _, kind, name = part["$ref"].split("/")
    return resolve(DOCUMENT["components"][kind][name])


def routes(collection: str) -> Iterator[Route]:
    """The routes of a collection as the description has them. Calls are left out: they take time."""
    for described, methods in DOCUMENT["paths"].items():
        if described.split("/")[2] != collection or described.endswith("/call"):
            continue
        path = described.replace("{id}", f"{{{PLACES.get(collection)}}}").replace("{delivery_id}", "{delivery}")
        for method, operation in methods.items():
            bodies = operation.get("requestBody", {}).get("content", {}).values()
            fields = [name for body in bodies for name in resolve(body["schema"])["properties"]]
            parameters = map(resolve, operation.get("parameters", ()))
            query = [parameter["name"] for parameter in parameters if parameter["in"] == "query"]
            yield Route(method.upper(), path, fields, VALID.get(f"{method.upper()} {path}", {}), query)


IDS = {"customer": "cust_", "appointment": "appt_", "endpoint": "whk_", "event": "evt_", "delivery": "whd_"}
ROUTES = {collection: [*routes(collection)] for collection in ("ping", "agent_settings", *PLACES)} | {
    "fallback": [
        Route(method, path)
        for method in ("GET", "POST", "OPTIONS")
        for path in (
            "/",
            "/v1",
            "/v2/customers",
            "/docs/errors",
            "/docs/errors/",
            "/docs",
            "/docs/nothing",
            "/docs/assets/0/docs.css",
            "/docs/search",
            "/v1/customer",
            "/v1/%00",
            "/v1/\U0001f600",
            "/..%2f..%2fetc/passwd",
            "/%ff%fe",
        )
    ],
}
QUERY_VALUES = st.sampled_from(
    [
        *(
            "",
            "0",
            "1",
            "100",
            "101",
            "-5",
            "1.5",
            "1e3",
            "9" * 30,
            "-" + "9" * 30,
            "ten",
            "\u0661",
            "0x10",
            " 7 ",
            "+7",
        ),
        *("{customer}", "{appointment}", "{endpoint}", "{event}", "{delivery}", "{CUSTOMER}", "cust_", "a" * 3000),
        *(f"{prefix}{'0' * 26}" for prefix in IDS.values()),
        *(f"{prefix}7{'z' * 25}" for prefix in IDS.values()),
        *MOMENTS,
        *PHONES,
        *STATUSES,
        *("appointment.created", "appointment.*", "customer.", "1790000000", "1790000000.5", "-1", "9" * 20),
        *("\0", "\x1f", "\u202e", "\U0001f600", "MjAyNw", "====", "null", "[object Object]"),
    ]
)
UNKNOWN_QUERY = (
    "Limit",
    "limit[]",
    "offset",
    "created_at",
    "created_at[eq]",
    "created_at[gt][gt]",
    "a" * 300,
    "\0",
    "",
    "status[]",
)
RAW_QUERIES = (
    "%",
    "%zz=%",
    "limit=%31%30",
    "limit=5&limit=5",
    "&&&",
    "=",
    "limit",
    "limit=1;limit=2",
    "%00=%00",
    "%ff=%fe",
    "a=%u0041",
    "limit=%C0%AF",
    "?",
    "starting_after=%ed%a0%80",
    "status=pending&status=failed&status=pending",
)
HEADERS = {
    "Authorization": [
        *(
            "",
            "Bearer",
            "Bearer ",
            "Basic YTpi",
            "Bearer x",
            "Bearer sk_test_" + "0" * 32,
            "Bearer sk_test_\u00e4" + "0" * 32,
        ),
        *(
            "bearer {key}",
            "Bearer  {key}",
            "Bearer {key} x",
            "{key}",
            "Bearer {key},Bearer {key}",
            "Bearer " + "9" * 5000,
        ),
    ],
    "Idempotency-Key": [
        "",
        " ",
        "a",
        "x" * 255,
        "x" * 256,
        "\u00e4",
        "a\x7fb",
        "a\tb",
        "a,b",
        "{new}",
        "{new}",
        "{new}",
    ],
    "Service-Version": ["", "2026-06-01", "2026-08-22", "2026-06-02", "2026-13-45", "latest", "v1", "2026-08-22 "],
    "Content-Type": [
        *(
            "",
            "text/plain",
            "application/x-www-form-urlencoded",
            "application/json; charset=utf-16",
            "application/jsonp",
        ),
        *(
            "APPLICATION/JSON",
            "application/json;;;",
            "multipart/form-data; boundary=x",
            "json",
            "application/json, text/plain",
        ),
    ],
    "Content-Encoding": ["", "identity", "gzip", "br", "identity, gzip", "GZIP"],
    "Content-Length": ["0", "-1", "99999999999", "x"],
    "Accept": ["text/html", "*/*;q=0", ""],
    "Accept-Encoding": ["gzip", "identity;q=0"],
    "Host": ["", "evil.example", "a b", "[::1", "x" * 300],
    "X-Forwarded-For": ["", "127.0.0.1, 10.0.0.1"],
    "X-Forwarded-Proto": ["http", "javascript"],
    "X-Http-Method-Override": ["DELETE"],
    "If-Match": ["*"],
    "Expect": ["100-continue"],
    "Transfer-Encoding": ["chunked"],
    "Cookie": ["a=b; c"],
}


@dataclass(frozen=True)
class Sent:
    """A request whose ids and key are still to be filled in."""

    method: str
    path: str
    raw: str | bytes | None
    headers: Mapping[str, str]


def text_of(fields: list[tuple[str, str]]) -> str:
    return "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in fields) + "}"


@st.composite
def bodies(draw: st.DrawFn, route: Route) -> str | bytes | None:
    """Mostly a valid body with one thing about it changed."""
    valid = list(route.valid.items())
    kind = draw(
        st.sampled_from(
            ["edge"] * 8 + ["junk"] * 5 + ["more"] * 3 + ["valid", "less", "key", "hopeless", "whole", "bytes"]
        )
    )
    names = sorted(route.fields) or ["x"]
    name = draw(st.sampled_from(names))
    others = [pair for pair in valid if pair[0] != name]
    if kind == "edge":
        return text_of([*others, (name, draw(FIELDS.get(name, JUNK)))])
    if kind == "junk":
        return text_of([*others, (name, draw(JUNK))])
    if kind == "more":
        more = draw(st.lists(st.sampled_from(names), max_size=4, unique=True))
        found = dict(valid) | {each: draw(FIELDS.get(each, JUNK)) for each in more}
        return text_of(list(found.items()))
    if kind == "less":
        return text_of(others) if route.fields else None
    if kind == "key":
        strange = (
            name,
            name.upper(),
            name + " ",
            name + "\0",
            name[:-1],
            f"metadata[{name}]",
            "\ud800",
            "",
            *READ_ONLY,
        )
        return text_of([*valid, (draw(st.sampled_from(strange) | st.text(max_size=50)), draw(JUNK))])
    if kind == "hopeless":
        return text_of([*others, (name, draw(HOPELESS))])
    if kind == "whole":
        return draw(JUNK | HOPELESS)
    if kind == "bytes":
        good = text_of(valid).encode()
        wrapped = (
            b"\xef\xbb\xbf" + good,
            good[:-1],
            good + b"\0",
            good.replace(b'"', b"'"),
            good.decode().encode("utf-16"),
        )
        return draw(
            st.sampled_from([*wrapped, good + b" " * 300_000, b"\xff\xfe\xfd", b'{"name":"\xe4"}'])
            | st.binary(max_size=40)
        )
    return text_of(valid)


@st.composite
def queries(draw: st.DrawFn, route: Route) -> str:
    names = st.sampled_from([*route.query, "limit"])
    pairs = draw(st.lists(st.tuples(names, QUERY_VALUES), max_size=3))
    odd = draw(st.sampled_from(["", "", "", "unknown", "raw", "twice"]))
    if odd == "unknown":
        pairs.append((draw(st.sampled_from(UNKNOWN_QUERY) | st.text(max_size=10)), draw(QUERY_VALUES)))
    if odd == "twice" and pairs:
        pairs.append(pairs[0])
    query = "&".join(f"{quote(name)}={quote(value)}" for name, value in pairs)
    return query + ("&" + draw(st.sampled_from(RAW_QUERIES)) if odd == "raw" else "")


def quote(text: str) -> str:
    """Percent-encoded but for the braces, in which ids go later."""
    return urllib.parse.quote(text, safe="{}", errors="surrogatepass")


@st.composite
def requests(draw: st.DrawFn, group: str) -> Sent:
    """A request to a route of the group, most of it as it should be."""
    route = draw(st.sampled_from(ROUTES[group]))
    path = route.path
    places = re.findall(r"{\w+}", path)
    if places and draw(st.integers(0, 5)) == 0:
        strange = (
            "x",
            "%00",
            "%2F",
            "..",
            "\U0001f600",
            "a" * 500,
            "{CUSTOMER}",
            "{deleted_customer}",
            "{unknown}",
            "{customer}",
            "%7B%7D",
            "",
        )
        path = path.replace(draw(st.sampled_from(places)), draw(st.sampled_from(strange)))
    if draw(st.integers(0, 30)) == 0:
        path += draw(st.sampled_from(["/", "//", "/x", "/..", "%20", ";a=b"]))
    method = route.method
    if draw(st.integers(0, 25)) == 0:
        method = draw(st.sampled_from(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]))
    if method in ("GET", "HEAD") or draw(st.integers(0, 12)) == 0:
        query = draw(queries(route))
        path += f"?{query}" if query else ""
    raw = (
        draw(bodies(route))
        if method in ("POST", "PATCH", "PUT") and (route.fields or draw(st.integers(0, 3)) == 0)
        else None
    )
    names = (
        draw(st.lists(st.sampled_from(sorted(HEADERS)), max_size=2, unique=True))
        if draw(st.integers(0, 3)) == 0
        else []
    )
    headers = {name: draw(st.sampled_from(HEADERS[name])) for name in names}
    if method in ("POST", "PATCH") and draw(st.integers(0, 3)) == 0:
        headers.setdefault("Idempotency-Key", "{new}")
    return Sent(method, path, raw, headers)
