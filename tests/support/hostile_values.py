"""Values that a client may send: what a field takes, what is at its edges, and what no field takes."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

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


def json_strings(*values: str) -> st.SearchStrategy[str]:
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

FIELDS = {
    "appointment_at": json_strings(*MOMENTS),
    "cancellation_reason": json_strings("ill", "x" * 501),
    "customer_id": json_strings(
        "{customer}", "{deleted_customer}", f"cust_{'0' * 26}", "{appointment}", "{CUSTOMER}", "x"
    ),
    "description": json_strings("Text", "x" * 501),
    "duration_minutes": st.sampled_from(["1", "30", "1440", "0", "1441", "-1", "30.0", '"30"', "true", "1e1"]),
    "email": json_strings(*EMAILS),
    "enabled": st.sampled_from(["true", "false", "null", "1", '"true"']),
    "event_filters": st.sampled_from([json.dumps(value) for value in FILTERS]),
    "external_id": json_strings("c-1", "", "x" * 255, "x" * 256),
    "failure_reason": json_strings("no show"),
    "label": json_strings("Main", "x" * 201),
    "location": json_strings("Here", "x" * 500, "x" * 501),
    "metadata": NESTED,
    "name": json_strings("Ann", "x" * 200, "x" * 201),
    "notes": json_strings("a\nb", "x" * 2000, "x" * 2001),
    "phone": json_strings(*PHONES),
    "status": json_strings(*STATUSES, "Pending", "done"),
    "timezone": json_strings(*ZONES),
    "title": json_strings("Visit", "x" * 200, "x" * 201),
    "url": json_strings(*URLS),
}
"""By name: values of a field, at its edges and beyond."""
READ_ONLY = ("id", "object", "livemode", "created_at", "updated_at", "deleted_at", "secret", "session_id")
