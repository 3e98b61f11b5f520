"""Whatever is sent, every answer keeps the contract; and what goes in comes out again as the contract says.

Examples are derandomised, so that a run is the same each time. `HYPOTHESIS_EXAMPLES` multiplies their number, and
above 1 failing ones are shrunk.
"""

from __future__ import annotations

import copy
import itertools
import json
import os
import re
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from shared.core.errors import ERRORS, RETRYABLE
from shared.projects import api_keys
from tests.support.client import RATE_LIMIT_POLICY, REVISIONS, ULID
from tests.support.receivers import Receiver
from tests.support.shapes import assert_page, assert_shape
from tests.support.stage import Answer, Stage

TIMES = float(os.environ.get("HYPOTHESIS_EXAMPLES") or 1)
KEYS = 8
"""Keys of one project and mode that take turns, as each may make 100 requests a second only."""


def fixed(examples: int, **options: Any) -> settings:
    """The same examples in every run."""
    return settings(
        derandomize=True,
        database=None,
        deadline=None,
        print_blob=False,
        max_examples=max(1, int(examples * TIMES)),
        # Each step of a shrinking is some requests: not in the time that a whole run has.
        phases=[Phase.explicit, Phase.generate, *([Phase.shrink] if TIMES > 1 else [])],
        suppress_health_check=list(HealthCheck),
        **options,
    )


# --- What is sent -------------------------------------------------------------------------------------------------

# JSON texts rather than Python values, as not all that a client can write is one.
NUMBERS = ["0", "-0", "-1", "1.0", "1e2", "1E+2", "30.5", "1e400", "-1e400", "1e-400", "9" * 25, "9" * 4000, "9" * 5000]
STRINGS = [
    '""',
    '" "',
    r'"\u0000"',
    r'"a\u0001b"',
    r'"\u007f"',
    r'"\u0085"',
    r'"\ud800"',
    r'"\udc00\ud800"',
    r'"\ud83d\ude00"',
    r'"\u202eabc\u200f"',
    r'"\ufeff"',
    r'"\uffff"',
    '"\U0001f469\u200d\U0001f680"',
    '"\u05e9\u05dc\u05d5\u05dd"',
    '"e\u0301"',
    r'"a\tb\r\nc"',
    '"' + "x" * 201 + '"',
    '"' + "\u00e4" * 256 + '"',
    '"' + "x" * 3000 + '"',
    r'"<script>alert(1)</script> \" \\ \/ # % ; -- ${a} {{b}}"',
]
OTHERS = [
    "null",
    "true",
    "false",
    "[]",
    "{}",
    "[null]",
    '[1,"a",[]]',
    '{"a":{"b":{"c":[]}}}',
    '{"":""}',
    '{"a":1,"a":2}',
    '{"__proto__":{"x":1}}',
    "[" * 60 + "]" * 60,
    '{"a":' * 400 + "1" + "}" * 400,
]
BROKEN = [
    "NaN",
    "Infinity",
    "-Infinity",
    "tru",
    "'x'",
    "01",
    "+1",
    ".5",
    "1.",
    "0x1",
    '"\t"',
    '"\\x"',
    '"',
    "{",
    "",
    "1 2",
]
BROKEN += ["[" * 100_000, "[" * 100_000 + "]" * 100_000]
GENERATED = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
).map(json.dumps)
JUNK = st.sampled_from([*NUMBERS, *STRINGS, *OTHERS]) | GENERATED
HOPELESS = st.sampled_from(BROKEN)


def quoted(*values: str) -> st.SearchStrategy[str]:
    return st.sampled_from([json.dumps(value) for value in values])


MOMENTS = (
    "2030-05-06T07:08:09Z",
    "2024-02-29T00:00:00Z",
    "2023-02-29T00:00:00Z",
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "0001-01-01T00:00:00-14:00",
    "9999-12-31T23:59:59.999999999Z",
    "9999-12-31T23:59:59-12:00",
    "9999-12-31T23:59:59+12:00",
    "0000-01-01T00:00:00Z",
    "2016-12-31T23:59:60Z",
    "2030-05-06T24:00:00Z",
    "2030-05-06T07:08:09",
    "2030-05-06T07:08:09+24:00",
    "2030-05-06T07:08:09.1234567890Z",
    "2030-05-06 07:08:09z",
    "1969-12-31T23:59:59.999Z",
    "1900-02-29T00:00:00Z",
    "tomorrow",
)
PHONES = (
    "+15005550006",
    " +1 (500) 555-0006 ",
    "+1.500.555.0006",
    "+123456",
    "+1234567",
    "+123456789012345",
    "+1234567890123456",
    "+05005550006",
    "5005550006",
    "+1500555\u0660\u0660\u0660\u0666",
    "\uff0b15005550006",
    "+1\u00a05005550006",
    "+",
    "++15005550006",
)
EMAILS = (
    "ada@example.com",
    "z\u00f6e@b\u00fccher.example",
    '"a b"@example.com',
    "a@b",
    "a@[127.0.0.1]",
    "@",
    "a@@b",
    "x" * 250 + "@example.com",
    "a\u202eb@example.com",
)
URLS = (
    "https://example.com/hook",
    "http://127.0.0.1:9/",
    "http://example.com/",
    "https://user:pw@example.com/",
    "https://example.com/#f",
    "https://10.0.0.1/",
    "https://[::1]/",
    "https://[::ffff:10.0.0.1]/",
    "https://169.254.169.254/latest",
    "https://localhost./",
    "https://0x7f.1/",
    "https://b\u00fccher.example/",
    "https://exa mple.com/",
    "https://example.com:0/",
    "https://example.com:99999/",
    "https://[/",
    "https://" + "a." * 200 + "com/",
    "https://example.com/" + "x" * 2048,
    "ftp://example.com/",
    "//example.com",
    "javascript:alert(1)",
)
ZONES = (
    "Europe/Berlin",
    "UTC",
    "Europe",
    "localtime",
    "../../etc/passwd",
    "/etc/localtime",
    "Europe/Berlin\0",
    "a" * 70,
)
FILTERS: tuple[list[Any], ...] = (
    [],
    ["appointment.*"],
    ["appointment.created", "customer.*"],
    ["*"],
    ["appointment."],
    ["appointment.*"] * 51,
    [""],
    ["\ud800"],
    ["a" * 1000],
    ["session.*", None],
)
METADATA: tuple[dict[str, Any], ...] = (
    {},
    {"a": 1, "b": [1.5, {"c": None}]},
    {f"k{n}": n for n in range(50)},
    {f"k{n}": n for n in range(51)},
    {"k" * 40: 1},
    {"k" * 41: 1},
    {"k": "x" * 498},
    {"k": "x" * 499},
    {"k": "\U0001f600" * 498},
    {f"k{n}": "\U0001f600" * 250 for n in range(17)},
    {"": 1},
    {"a": "\0"},
    {"a\x1f": 1},
    {"a": {"b": "\ud800"}},
    {"a": [[[[[[1]]]]]]},
)
NESTED = st.sampled_from([json.dumps(value) for value in METADATA])
STATUSES = ("pending", "confirmed", "rescheduled", "cancelled", "failed")

CUSTOMER = {
    "phone": quoted(*PHONES),
    "name": quoted("Ann", "x" * 200, "x" * 201),
    "email": quoted(*EMAILS),
    "external_id": quoted("c-1", "", "x" * 255, "x" * 256),
    "metadata": NESTED,
}
APPOINTMENT = {
    "appointment_at": quoted(*MOMENTS),
    "status": quoted(*STATUSES, "Pending", "done"),
    "timezone": quoted(*ZONES),
    "duration_minutes": st.sampled_from(["1", "30", "1440", "0", "1441", "-1", "30.0", '"30"', "true", "1e1"]),
    "title": quoted("Visit", "x" * 200, "x" * 201),
    "location": quoted("Here", "x" * 500, "x" * 501),
    "notes": quoted("a\nb", "x" * 2000, "x" * 2001),
    "external_id": quoted("a-1", "", "x" * 256),
    "metadata": NESTED,
}
ENDPOINT = {
    "url": quoted(*URLS),
    "event_filters": st.sampled_from([json.dumps(value) for value in FILTERS]),
    "label": quoted("Main", "x" * 201),
    "description": quoted("Text", "x" * 501),
    "enabled": st.sampled_from(["true", "false", "null", "1", '"true"']),
}
REASONS = {"cancellation_reason": quoted("ill", "x" * 501), "failure_reason": quoted("no show")}
CUSTOMER_ID = quoted("{customer}", "{deleted_customer}", f"cust_{'0' * 26}", "{appointment}", "{CUSTOMER}", "x")
READ_ONLY = ("id", "object", "livemode", "created_at", "updated_at", "deleted_at", "secret", "session_id")

Fields = Mapping[str, st.SearchStrategy[str]]


@dataclass(frozen=True)
class Route:
    """A method, a path with places for ids, and the body: fields, and those of a valid one as JSON texts."""

    method: str
    path: str
    fields: Fields = field(default_factory=dict)
    valid: Mapping[str, str] = field(default_factory=dict)
    query: tuple[str, ...] = ()


IDS = {"customer": "cust_", "appointment": "appt_", "endpoint": "whk_", "event": "evt_", "delivery": "whd_"}
RANGES = tuple(f"created_at[{word}]" for word in ("gt", "gte", "lt", "lte"))
TIME_RANGES = tuple(f"appointment_at[{word}]" for word in ("gt", "gte", "lt", "lte"))
SECONDS = tuple(f"created[{word}]" for word in ("gt", "gte", "lt", "lte"))
ROUTES = {
    "ping": [Route("GET", "/v1/ping")],
    "customers": [
        Route("POST", "/v1/customers", CUSTOMER, {"phone": '"+15005550006"', "name": '"Ann"'}),
        Route("GET", "/v1/customers", query=("phone", "email", "external_id", *RANGES)),
        Route("GET", "/v1/customers/{customer}"),
        Route("PATCH", "/v1/customers/{customer}", CUSTOMER, {"name": '"Bea"'}),
        Route("DELETE", "/v1/customers/{customer}"),
    ],
    "appointments": [
        Route(
            "POST",
            "/v1/appointments",
            APPOINTMENT | {"customer_id": CUSTOMER_ID},
            {"customer_id": '"{customer}"', "appointment_at": '"2030-05-06T07:08:09+02:00"'},
        ),
        Route(
            "GET",
            "/v1/appointments",
            query=("customer_id", "session_id", "status", "external_id", *RANGES, *TIME_RANGES),
        ),
        Route("GET", "/v1/appointments/{appointment}"),
        Route("PATCH", "/v1/appointments/{appointment}", APPOINTMENT | REASONS, {"title": '"Visit"'}),
        Route("DELETE", "/v1/appointments/{appointment}"),
    ],
    "webhook_endpoints": [
        Route("POST", "/v1/webhook_endpoints", ENDPOINT, {"url": '"https://example.com/hook"'}),
        Route("GET", "/v1/webhook_endpoints"),
        Route("GET", "/v1/webhook_endpoints/{endpoint}"),
        Route("PATCH", "/v1/webhook_endpoints/{endpoint}", ENDPOINT, {"label": '"Main"'}),
        Route("POST", "/v1/webhook_endpoints/{endpoint}/rotate_secret"),
        Route("POST", "/v1/webhook_endpoints/{endpoint}/test"),
        Route("DELETE", "/v1/webhook_endpoints/{endpoint}"),
    ],
    "events": [
        Route("GET", "/v1/events", query=("type", "object_id", *SECONDS)),
        Route("GET", "/v1/events/{event}"),
        Route("GET", "/v1/events/{event}/deliveries"),
        Route("GET", "/v1/events/{event}/deliveries/{delivery}"),
        Route("POST", "/v1/events/{event}/deliveries/{delivery}/retry"),
    ],
    "fallback": [
        Route(method, path)
        for method in ("GET", "POST", "OPTIONS")
        for path in (
            "/",
            "/v1",
            "/v2/customers",
            "/docs/errors",
            "/docs/errors/",
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
    edges = route.fields.get(name, JUNK)
    others = [pair for pair in valid if pair[0] != name]
    if kind == "edge":
        return text_of([*others, (name, draw(edges))])
    if kind == "junk":
        return text_of([*others, (name, draw(JUNK))])
    if kind == "more":
        more = draw(st.lists(st.sampled_from(names), max_size=4, unique=True))
        found = dict(valid) | {each: draw(route.fields.get(each, JUNK)) for each in more}
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
    names = st.sampled_from(["limit", "starting_after", *route.query])
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


# --- Whom it is sent to -------------------------------------------------------------------------------------------


class World:
    """A project with one of each thing, made anew when a request has used it up."""

    def __init__(self, stage: Stage, receiver: Receiver | None) -> None:
        self.stage = stage
        self.project = stage.project("Properties")
        more = [api_keys.create(self.project.id, False, "more")[1] for _ in range(KEYS)]
        self._keys = itertools.cycle(more)
        self._numbers = itertools.count()
        self._receiver = receiver
        self.ids = {"unknown": "cust_" + "1" * 26}
        self.renew("customer")
        if receiver is None:
            # Nobody hears of what happens here, which saves the deliveries.
            return
        self.renew("appointment")
        self.renew("endpoint")
        self._deliver_an_event()
        gone = self.call("POST", "/v1/customers", {"phone": "+15005550006"}).json["id"]
        self.call("DELETE", f"/v1/customers/{gone}")
        self.ids["deleted_customer"] = gone

    def key(self) -> str:
        """The key whose turn it is."""
        return next(self._keys)

    def call(self, method: str, path: str, body: Any = None, **options: Any) -> Answer:
        options.setdefault("key", self.key())
        return self.stage.call(method, path, body, **options)

    def new(self) -> str:
        """A value that was not used before."""
        return f"new-{next(self._numbers)}"

    def renew(self, kind: str) -> None:
        given = {
            "customer": ("/v1/customers", {"phone": "+15005550006"}),
            "appointment": (
                "/v1/appointments",
                {"customer_id": self.ids.get("customer"), "appointment_at": MOMENTS[0]},
            ),
            "endpoint": ("/v1/webhook_endpoints", {"url": self._receiver and self._receiver.url}),
        }
        path, body = given[kind]
        answer = self.call("POST", path, body)
        assert answer.status == 201, answer.body
        self.ids[kind] = answer.json["id"]
        self.ids["CUSTOMER"] = self.ids["customer"].upper()

    def filled(self, text: str) -> str:
        return re.sub(r"{(\w+)}", lambda place: self.ids.get(place[1], place[0]), text)

    def send(self, sent: Sent) -> Answer:
        key = self.key()
        new = self.new()
        headers = {
            name: value.replace("{key}", key).replace("{new}", new)
            for name, value in ({"Authorization": f"Bearer {key}"} | dict(sent.headers)).items()
        }
        raw = self.filled(sent.raw) if isinstance(sent.raw, str) else sent.raw
        return self.stage.call(sent.method, self.filled(sent.path), raw=raw, key="", headers=headers)

    def tidy(self, sent: Sent, answer: Answer) -> None:
        """Put back what the request took away, and away what it made."""
        if answer.status >= 300:
            return
        if sent.method == "DELETE":
            self.renew(next(kind for kind in ("customer", "appointment", "endpoint") if f"{{{kind}}}" in sent.path))
        elif sent.method == "PATCH" and "{appointment}" in sent.path:
            self.renew("appointment")
        elif sent.method == "POST" and sent.path.startswith("/v1/webhook_endpoints") and answer.status == 201:
            self.call("DELETE", f"/v1/webhook_endpoints/{answer.json['id']}")
        elif sent.path.endswith("/retry"):
            self.stage.deliver("retries")

    def _deliver_an_event(self) -> None:
        self.stage.settle()
        made = self.call("POST", "/v1/customers", {"phone": "+15005550006"}).json["id"]
        self.stage.settle()
        (found,) = self.call("GET", f"/v1/events?object_id={made}").json["data"]
        (delivery,) = self.call("GET", f"/v1/events/{found['id']}/deliveries").json["data"]
        assert delivery["status"] == "succeeded", delivery
        self.ids |= {"event": found["id"], "delivery": delivery["id"]}


@pytest.fixture(scope="module")
def world(_stage: Stage) -> Iterator[World]:
    with Receiver() as receiver:
        yield World(_stage, receiver)


@pytest.fixture(scope="module")
def quiet_world(_stage: Stage) -> World:
    """A project without endpoints."""
    return World(_stage, None)


# --- What every answer must be ------------------------------------------------------------------------------------


def check(sent: Sent, answer: Answer) -> None:
    """Contract sections 1 and 2, for any answer."""
    headers = answer.headers
    assert answer.status < 500, answer.body
    assert re.fullmatch(f"req_{ULID}", headers["service-request-id"])
    assert headers["service-version"] in REVISIONS
    assert headers["cache-control"] == "no-store"
    if sent.method == "HEAD":
        assert answer.body == b""
        return
    if headers["content-type"].startswith("text/html"):
        assert (answer.status, sent.path.partition("?")[0]) == (200, "/docs/errors")
        return
    assert headers["content-type"] == "application/json"
    code = check_error(answer) if answer.status >= 400 else ""
    if answer.status != 401 and code not in ("route_not_found", "method_not_allowed"):
        assert headers["ratelimit-policy"] == RATE_LIMIT_POLICY
        assert re.fullmatch(r'"(second|minute)";r=\d+;t=[1-9]\d*', headers["ratelimit"])
    if answer.status < 400:
        assert "service-should-retry" not in headers
        check_success(sent, answer)


def check_error(answer: Answer) -> str:
    assert set(answer.json) == {"error"}
    error = answer.json["error"]
    assert set(error) - {"param"} == {"type", "code", "message", "request_id", "doc_url"}
    code, kind = error["code"], ERRORS[error["code"]]
    assert error["type"] == kind.type
    assert answer.status == kind.status or (code, answer.status) == ("resource_not_found", 400)
    assert isinstance(error["message"], str)
    assert error["message"].strip()
    assert isinstance(error.get("param", ""), str)
    assert error["request_id"] == answer.headers["service-request-id"]
    assert error["doc_url"].endswith(f"/docs/errors#{code}")
    assert answer.headers["service-should-retry"] == ("true" if code in RETRYABLE else "false")
    if answer.status == 401:
        assert answer.headers["www-authenticate"] == "Bearer"
    if answer.status == 405:
        assert answer.headers["allow"]
    assert answer.status != 429, "the tests must not run into the rate limit"
    return str(code)


def check_success(sent: Sent, answer: Answer) -> None:
    assert answer.status in (200, 201, 202)
    found, path = answer.json, sent.path.partition("?")[0]
    kind = found["object"]
    if kind == "list":
        item = "webhook_delivery" if path.endswith("/deliveries") else path.rsplit("/", 1)[1].removesuffix("s")
        assert_page(found, found["url"], item)
        assert found["url"].startswith("/v1/")
    elif kind == "ping":
        assert set(found) == {"object", "project_id", "project_name", "livemode", "request_id"}
        assert found["request_id"] == answer.headers["service-request-id"]
    elif found.get("deleted") is True:
        assert set(found) == {"id", "object", "deleted"}
    else:
        secret = path.endswith("/rotate_secret") or (answer.status == 201 and kind == "webhook_endpoint")
        assert_shape(found, kind, secret=secret)
    if answer.status == 201:
        assert answer.headers["location"].endswith(f"{path}/{found['id']}")


@pytest.mark.parametrize(
    ("group", "examples"),
    [
        ("ping", 60),
        ("customers", 220),
        ("appointments", 220),
        ("webhook_endpoints", 200),
        ("events", 140),
        ("fallback", 80),
    ],
)
def test_whatever_is_sent_the_answer_keeps_the_contract(world: World, group: str, examples: int) -> None:
    @fixed(examples)
    @given(requests(group))
    def property_(sent: Sent) -> None:
        answer = world.send(sent)
        event(f"{sent.method} {answer.status}")
        check(sent, answer)
        world.tidy(sent, answer)

    property_()


@pytest.mark.parametrize("group", ["customers", "appointments", "webhook_endpoints"])
def test_the_same_request_under_the_same_key_has_the_same_outcome(world: World, group: str) -> None:
    routes = [route for route in ROUTES[group] if route.method in ("POST", "PATCH")]

    @fixed(60)
    @given(st.sampled_from(routes).flatmap(lambda route: st.tuples(st.just(route), bodies(route))))
    def property_(chosen: tuple[Route, str | bytes | None]) -> None:
        route, raw = chosen
        path, key = world.filled(route.path), world.key()
        raw = world.filled(raw) if isinstance(raw, str) else raw
        headers = {"Idempotency-Key": world.new()}
        first, second = (world.stage.call(route.method, path, raw=raw, key=key, headers=headers) for _ in range(2))
        event(f"{route.method} {first.status}")
        one, other = (answer.headers["service-request-id"].encode() for answer in (first, second))
        assert second.status == first.status
        assert second.body.replace(other, one) == first.body
        replayed = first.status < 300 or first.status == 409
        assert second.headers.get("idempotent-replayed") == ("true" if replayed else None)
        assert second.headers.get("original-request") == (one.decode() if replayed else None)
        if first.status < 300:
            assert second.body == first.body
            assert second.headers.get("location") == first.headers.get("location")
        world.tidy(Sent(route.method, route.path, raw, {}), first)

    property_()


# --- What goes in comes out ---------------------------------------------------------------------------------------

CHARACTERS = st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\t\n\r")
TEXT = st.text(CHARACTERS, max_size=20)
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
).filter(lambda value: len(json.dumps(value, ensure_ascii=False, separators=(",", ":"))) <= 500)
METADATA_SENT = st.dictionaries(st.text(CHARACTERS, min_size=1, max_size=40), VALUE, max_size=6)


def canonical(value: Any) -> str:
    """Equal for equal JSON only: True is not 1, nor is 1.0."""
    return json.dumps(value, sort_keys=True)


@fixed(60)
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


@fixed(60)
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


def merge_patched(document: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """RFC 7396 for the flat fields; `metadata` by key, its values whole (contract 3)."""
    result = copy.deepcopy(document)
    for name, value in patch.items():
        if name == "metadata" and value is not None:
            for key, inner in value.items():
                if inner is None:
                    result["metadata"].pop(key, None)
                else:
                    result["metadata"][key] = inner
        elif name == "metadata":
            result["metadata"] = {}
        elif name == "phone":
            result["phone"] = value.replace(" ", "")
        else:
            result[name] = value
    return result


@fixed(40)
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


# --- Lists --------------------------------------------------------------------------------------------------------

DAYS = [f"2030-01-0{day}T00:00:00.000Z" for day in range(1, 6)]
WORDS = {"gt": "__gt__", "gte": "__ge__", "lt": "__lt__", "lte": "__le__"}


class Shelf:
    """A project with some customers and appointments, and nothing else, some of them deleted."""

    def __init__(self, stage: Stage) -> None:
        project = stage.project("Shelf")
        keys = [api_keys.create(project.id, False, "more")[1] for _ in range(KEYS)]
        self._keys = itertools.cycle(keys)
        self.stage = stage
        self.customers = [self._make("customers", self._customer(number)) for number in range(14)]
        ids = [customer["id"] for customer in self.customers[:3]]
        self.appointments = [self._make("appointments", self._appointment(number, ids)) for number in range(28)]
        for number in range(0, 28, 5):
            self.appointments[number] = self._call("PATCH", "appointments", number, {"status": "cancelled"})
        for number in range(3, 28, 9):
            self._call("DELETE", "appointments", number)
        self._call("DELETE", "customers", 7)
        self.shown = {
            "customers": [one for number, one in enumerate(self.customers) if number != 7],
            "appointments": [one for number, one in enumerate(self.appointments) if number not in range(3, 28, 9)],
        }

    def get(self, path: str) -> Any:
        answer = self.stage.call("GET", path, key=next(self._keys))
        assert answer.status == 200, answer.body
        return answer.json

    def _customer(self, number: int) -> dict[str, Any]:
        email = ["ada@example.com", None, "bea@example.com"][number % 3]
        external_id = ["x", "y z&=", "\u00e4"][number % 3] if number % 2 else None
        return {"phone": f"+1500555000{number % 4}", "email": email, "external_id": external_id}

    def _appointment(self, number: int, ids: list[str]) -> dict[str, Any]:
        status = ("pending", "confirmed")[number % 2]
        at = DAYS[number * 3 % 5]
        return {"customer_id": ids[number % 3], "appointment_at": at, "status": status, "external_id": f"e{number % 4}"}

    def _make(self, group: str, body: dict[str, Any]) -> Any:
        answer = self.stage.call("POST", f"/v1/{group}", body, key=next(self._keys))
        assert answer.status == 201, answer.body
        return answer.json

    def _call(self, method: str, group: str, number: int, body: Any = None) -> Any:
        id = {"customers": self.customers, "appointments": self.appointments}[group][number]["id"]
        answer = self.stage.call(method, f"/v1/{group}/{id}", body, key=next(self._keys))
        assert answer.status == 200, answer.body
        return answer.json


@pytest.fixture(scope="module")
def shelf(_stage: Stage) -> Shelf:
    return Shelf(_stage)


@st.composite
def filters(draw: st.DrawFn, group: str) -> list[tuple[str, str]]:
    """Filters as (parameter, value); "#n" stands for the creation time of the n-th item."""
    exact = {
        "customers": {
            "phone": [f"+1500555000{number}" for number in range(5)],
            "email": ["ada@example.com", "bea@example.com", "nobody@example.com"],
            "external_id": ["x", "y z&=", "\u00e4", "z"],
        },
        "appointments": {
            "status": ["pending", "confirmed", "cancelled", "failed"],
            "customer_id": ["@0", "@1", "@2", "@9"],
            "external_id": ["e0", "e1", "e9"],
        },
    }[group]
    found = []
    for name in draw(st.lists(st.sampled_from(sorted(exact)), max_size=3, unique=True)):
        count = draw(st.integers(1, 3)) if name == "status" else 1
        found += [(name, draw(st.sampled_from(exact[name]))) for _ in range(count)]
    for word in draw(st.lists(st.sampled_from(sorted(WORDS)), max_size=2, unique=True)):
        found.append((f"created_at[{word}]", f"#{draw(st.integers(0, 13))}"))
    if group == "appointments":
        for word in draw(st.lists(st.sampled_from(sorted(WORDS)), max_size=2, unique=True)):
            found.append((f"appointment_at[{word}]", draw(st.sampled_from(DAYS))))
    return found


def wanted(items: list[Any], chosen: list[tuple[str, str]]) -> list[Any]:
    """The reference: every item judged by every filter, newest or latest first."""
    values: dict[str, set[str]] = {}
    for name, value in chosen:
        values.setdefault(name, set()).add(value)

    def fits(item: Any) -> bool:
        for name, texts in values.items():
            ranged = re.fullmatch(r"(\w+)\[(\w+)\]", name)
            if ranged:
                if not all(getattr(item[ranged[1]], WORDS[ranged[2]])(text) for text in texts):
                    return False
            elif item[name] not in texts:
                return False
        return True

    by_time = any(name.startswith("appointment_at") for name in values)
    order = (lambda item: (item["appointment_at"], item["id"])) if by_time else (lambda item: item["id"])
    return sorted(filter(fits, items), key=order, reverse=True)


@pytest.mark.parametrize("group", ["customers", "appointments"])
def test_a_list_shows_exactly_what_its_filters_say_in_order_and_over_pages(shelf: Shelf, group: str) -> None:
    @fixed(80)
    @given(filters(group), st.integers(1, 12))
    def property_(chosen: list[tuple[str, str]], limit: int) -> None:
        items = shelf.customers if group == "customers" else shelf.appointments
        named = []
        for name, value in chosen:
            if value.startswith("@"):
                value = shelf.customers[int(value[1:])]["id"]
            if value.startswith("#"):
                value = items[int(value[1:])]["created_at"]
            named.append((name, value))
        found: list[Any] = []
        cursor: list[tuple[str, str]] = []
        while True:
            query = urllib.parse.urlencode([*named, ("limit", str(limit)), *cursor])
            page = shelf.get(f"/v1/{group}?{query}")
            found += page["data"]
            assert len(page["data"]) <= limit
            assert page["has_more"] == (page["next_cursor"] is not None)
            if not page["has_more"]:
                break
            assert len(page["data"]) == limit
            cursor = [("starting_after", page["next_cursor"])]
        expected = wanted(shelf.shown[group], named)
        event(f"{len(expected)} found")
        assert [item["id"] for item in found] == [item["id"] for item in expected]
        assert found == expected

    property_()


# --- Appointments against a model of contract section 6 -----------------------------------------------------------

ALLOWED = {
    "pending": {"confirmed", "rescheduled", "cancelled", "failed"},
    "confirmed": {"rescheduled", "cancelled", "failed"},
    "rescheduled": {"confirmed", "rescheduled", "cancelled", "failed"},
    "failed": {"confirmed", "rescheduled", "cancelled"},
    "cancelled": set(),
}
REASON = {"cancelled": "cancellation_reason", "failed": "failure_reason"}
TIMESTAMPS = ("created_at", "updated_at", "deleted_at")


def refusals(state: dict[str, Any], patch: dict[str, Any]) -> set[str]:
    """The codes that a patch may be refused with; empty for one that is to be carried out."""
    asked, now = patch.get("status"), state["status"]
    moved = patch.get("appointment_at", state["appointment_at"]) != state["appointment_at"]
    codes: set[str] = set()
    if state["deleted_at"] is not None:
        codes.add("appointment_deleted")
    if asked == "rescheduled" and not moved:
        codes |= {"parameter_missing", "parameter_invalid"}
    if moved and asked in ("cancelled", "failed"):
        codes.add("parameters_exclusive")
    target = asked or ("rescheduled" if moved else now)
    if moved and asked == now == "pending":
        target = "rescheduled"
    stays = target == now and (not moved or now == "confirmed")
    if not stays and target not in ALLOWED[now]:
        codes.add("invalid_status_transition")
    for status, reason in REASON.items():
        if patch.get(reason) is not None and target != status:
            codes.add("parameters_exclusive")
    return codes


def carried_out(state: dict[str, Any], patch: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """The appointment after a patch that is not refused, and the type of its event."""
    after = {**state, **{name: value for name, value in patch.items() if name != "metadata"}}
    if "metadata" in patch:
        after["metadata"] = merge_patched(state, {"metadata": patch["metadata"]})["metadata"]
    moved = after["appointment_at"] != state["appointment_at"]
    if moved:
        after["status"] = "confirmed" if patch.get("status") == "confirmed" else "rescheduled"
    for status, reason in REASON.items():
        if after["status"] != status:
            after[reason] = None
    if moved:
        return after, "appointment.rescheduled"
    return after, f"appointment.{after['status']}" if after["status"] != state["status"] else None


PATCHED = st.fixed_dictionaries(
    {},
    optional={
        "status": st.sampled_from(STATUSES),
        "appointment_at": st.sampled_from(DAYS),
        "title": st.none() | st.sampled_from(["Visit", "Call"]),
        "metadata": st.none() | st.dictionaries(st.sampled_from("ab"), st.sampled_from([None, 1, 1.0, True, "x"])),
        "cancellation_reason": st.sampled_from([None, "ill"]),
        "failure_reason": st.sampled_from([None, "no show"]),
    },
)


class Appointments(RuleBasedStateMachine):
    """Writes to a few appointments; at the end the event log must tell exactly what the model did."""

    world: World

    def __init__(self) -> None:
        super().__init__()
        self.states: list[dict[str, Any]] = []
        self.events: list[list[tuple[str, dict[str, Any], dict[str, Any] | None]]] = []

    @precondition(lambda self: len(self.states) < 3)
    @rule(at=st.sampled_from(DAYS), status=st.sampled_from([None, "pending", "confirmed"]))
    def create(self, at: str, status: str | None) -> None:
        body = {"customer_id": self.world.ids["customer"], "appointment_at": at} | (
            {"status": status} if status else {}
        )
        made = self.world.call("POST", "/v1/appointments", body)
        assert made.status == 201, made.body
        assert made.json["status"] == (status or "pending")
        assert made.json["appointment_at"] == at
        self.states.append(made.json)
        self.events.append([("appointment.created", made.json, None)])

    @precondition(lambda self: bool(self.states))
    @rule(which=st.integers(0, 2), patch=PATCHED, twice=st.booleans())
    def patch(self, which: int, patch: dict[str, Any], twice: bool) -> None:
        number = which % len(self.states)
        before = self.states[number]
        path, key = f"/v1/appointments/{before['id']}", self.world.key()
        options: dict[str, Any] = {"key": key, "headers": {"Idempotency-Key": self.world.new()} if twice else {}}
        answer = self.world.call("PATCH", path, patch, **options)
        refused = refusals(before, patch)
        if refused:
            assert answer.status in (400, 409), (before, patch, answer.body)
            assert answer.code in refused, (before, patch, answer.body)
        else:
            assert answer.status == 200, (before, patch, answer.body)
            after, type = carried_out(before, patch)
            self._moved_on(number, answer.json, after, type)
        if twice:
            again = self.world.call("PATCH", path, patch, **options)
            assert again.status == answer.status
            assert again.body == answer.body or refused

    @precondition(lambda self: bool(self.states))
    @rule(which=st.integers(0, 2))
    def delete(self, which: int) -> None:
        number = which % len(self.states)
        before = self.states[number]
        answer = self.world.call("DELETE", f"/v1/appointments/{before['id']}")
        assert answer.status == 200
        if before["deleted_at"] is not None:
            assert answer.json == before
            return
        after, type = carried_out(before, {"status": "cancelled"})
        assert answer.json["deleted_at"] is not None
        self._moved_on(number, answer.json, after | {"deleted_at": answer.json["deleted_at"]}, type)

    @precondition(lambda self: bool(self.states))
    @rule()
    def look(self) -> None:
        listed = self.world.call("GET", "/v1/appointments?limit=100").json["data"]
        ids = [item["id"] for item in listed]
        for state in self.states:
            assert canonical(self.world.call("GET", f"/v1/appointments/{state['id']}").json) == canonical(state)
            assert (state["id"] in ids) == (state["deleted_at"] is None)

    def _moved_on(self, number: int, found: dict[str, Any], after: dict[str, Any], type: str | None) -> None:
        before = self.states[number]
        if canonical(after) == canonical(before):
            assert canonical(found) == canonical(before)
            return
        assert canonical(found | {"updated_at": ""}) == canonical(after | {"updated_at": ""})
        assert found["updated_at"] >= before["updated_at"]
        self.states[number] = found
        if type is not None:
            self.events[number].append((type, found, before))

    def teardown(self) -> None:
        self.world.stage.fan_out()
        for state, expected in zip(self.states, self.events, strict=True):
            log = self.world.call("GET", f"/v1/events?limit=100&object_id={state['id']}").json["data"]
            assert [one["type"] for one in reversed(log)] == [type for type, _, _ in expected]
            for one, (_, after, before) in zip(reversed(log), expected, strict=True):
                assert canonical(one["data"]["object"]) == canonical(after)
                previous = before and {
                    name: value
                    for name, value in before.items()
                    if name != "updated_at" and canonical(value) != canonical(after[name])
                }
                assert canonical(one["data"].get("previous_attributes")) == canonical(previous)


def test_appointments_and_their_events_follow_the_contract_through_any_history(quiet_world: World) -> None:
    class Machine(Appointments):
        world = quiet_world

    run_state_machine_as_test(Machine, settings=fixed(25, stateful_step_count=15))
