"""Projects and their API keys, and the check that every request begins with.

A key is kept as the SHA-256 of its plaintext. Its row also counts the requests of the present minute and
of each of its seconds, so that one update tells who calls and whether the limits allow it (specification,
"Limits": 100 a second, 5000 a minute). Minute and second are windows of the UTC clock.

Hosts' clocks differ a little: a row that counts the next minute already is respected. One that counts a minute
beyond that was left by a clock that ran far ahead, and counts for nothing: it would lock the key out until then.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass

from shared.core import clock, ids, table
from shared.core.aws import Unavailable
from shared.core.errors import ApiError
from shared.core.keys import Scope

PER_SECOND = 100
PER_MINUTE = 5000
UNKNOWN_KEY_MEMORY = 5 * clock.SECOND
_REMEMBERED_KEYS = 1_000
_PLAINTEXT = re.compile(r"sk_(test|live)_[A-Za-z0-9]{16,128}")
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_KEY_CHARACTERS = 32  # 190 random bits; contract 4 asks for 160


@dataclass(frozen=True)
class Project:
    """Who owns resources. `id` is the integer that ping shows."""

    id: int
    name: str
    created_at: str


@dataclass(frozen=True)
class Key:
    """An API key without its plaintext. `last_used_at` is exact to the minute; None if never used."""

    id: str
    project_id: int
    livemode: bool
    label: str
    hint: str
    created_at: str
    revoked_at: str | None
    last_used_at: str | None


@dataclass(frozen=True)
class Caller:
    """Whom a valid key speaks for, and what is left of its windows (whole requests, whole seconds)."""

    scope: Scope
    project_name: str
    left_in_second: int
    left_in_minute: int
    minute_resets_in: int


class Limited(Exception):
    """The key has used up the window named `reason`, which ends in `resets_in` seconds."""

    def __init__(self, caller: Caller, reason: str, resets_in: int) -> None:
        super().__init__(reason)
        self.caller = caller
        self.reason = reason
        self.resets_in = resets_in


def create(name: str) -> Project:
    """A new project with the next free number. Raises ValueError for a name that says nothing."""
    if not name.strip():
        raise ValueError("a project needs a name")
    while True:
        existing = list_all()
        project = Project(existing[-1].id + 1 if existing else 1, name, clock.iso(clock.now()))
        row = {"pk": "PROJECTS", "sk": f"{project.id:010d}", "kind": "project"}
        row |= {"name": project.name, "created_at": project.created_at}
        try:
            table.write([table.Put(row)], ids.new("req_"))
            return project
        except table.Refused:
            continue


def list_all() -> list[Project]:
    """All projects, oldest first."""
    return [
        Project(int(row["sk"]), row["name"], row["created_at"])
        for page in table.query("PROJECTS", limit=1000, forward=True)
        for row in page
    ]


def create_key(project_id: int, livemode: bool, label: str, plaintext: str | None = None) -> tuple[Key, str]:
    """A new key of a project and its plaintext, which cannot be shown again. Raises LookupError."""
    project = _existing(project_id)
    mode = "live" if livemode else "test"
    plaintext = plaintext or f"sk_{mode}_" + "".join(secrets.choice(_ALPHABET) for _ in range(_KEY_CHARACTERS))
    if not _PLAINTEXT.fullmatch(plaintext) or not plaintext.startswith(f"sk_{mode}_"):
        raise ValueError(f"an API key of this mode starts with sk_{mode}_ and 16 letters or digits or more")
    key_id, created_at = ids.new("key_"), clock.iso(clock.now())
    digest = _digest(plaintext)
    facts = {"label": label, "created_at": created_at, "livemode": livemode, "hint": plaintext[-4:]}
    owner = {"project_id": project_id, "project_name": project["name"]}
    table.write(
        [
            table.Put({"pk": f"KEY#{digest}", "sk": "key", "kind": "api_key", "key_id": key_id} | owner | facts),
            table.Put({"pk": f"P#{project_id}#keys", "sk": key_id, "kind": "api_key_of", "digest": digest} | facts),
        ],
        ids.new("req_"),
    )
    return Key(key_id, project_id, livemode, label, plaintext[-4:], created_at, None, None), plaintext


def list_keys(project_id: int) -> list[Key]:
    """The keys of a project, oldest first. Raises LookupError."""
    _existing(project_id)
    pointers = [row for page in table.query(f"P#{project_id}#keys", limit=100, forward=True) for row in page]
    found: dict[tuple[str, str], table.Row] = {}
    for start in range(0, len(pointers), 100):
        found |= table.get_many([(f"KEY#{row['digest']}", "key") for row in pointers[start : start + 100]])
    return [_key(found[f"KEY#{row['digest']}", "key"]) for row in pointers]


def revoke_key(project_id: int, key_id: str) -> Key:
    """Refuse the key from now on; revoking it again changes nothing. Raises LookupError."""
    pointer = table.get(f"P#{project_id}#keys", key_id)
    if pointer is None:
        raise LookupError(f"project {project_id} has no key {key_id}")
    op = table.Update(
        f"KEY#{pointer['digest']}",
        "key",
        expressions=("revoked_at = if_not_exists(revoked_at, :now)",),
        values={":now": clock.iso(clock.now())},
    )
    return _key(table.update(op))


def authenticate(plaintext: str) -> Caller:
    """Whom the key speaks for, with this request counted. One update in the common case.

    Raises ApiError (`api_key_invalid`, `api_key_revoked`) or Limited.
    """
    if not _PLAINTEXT.fullmatch(plaintext):
        raise ApiError("api_key_invalid")
    digest = _digest(plaintext)
    now = clock.now()
    refusal = _refusals.get(digest, now)
    if refusal is not None:
        raise refusal
    present = now // clock.MINUTE
    latest = present + 1
    # The container guesses from its last look whether the row's minute is the present one. A wrong guess
    # costs another try; the conditions keep every count right.
    seen = _minutes.get(digest)
    minute = latest if seen == latest else present
    roll = seen != minute
    for _ in range(8):
        second = _second(now, minute)
        try:
            row = table.update(_roll(digest, minute, latest, second) if roll else _count(digest, minute, second))
        except table.Refused as refused:
            row = refused.old or {}
            if not row:
                raise _refusals.keep(digest, now, now + UNKNOWN_KEY_MEMORY, ApiError("api_key_invalid")) from None
            if "revoked_at" in row:
                raise _refusals.keep(digest, now, now + UNKNOWN_KEY_MEMORY, ApiError("api_key_revoked")) from None
            roll = not minute <= row.get("m", -1) <= latest
            if roll:
                continue
            minute = row["m"]
            second = _second(now, minute)
            caller = _caller(row, minute, second, now)
            if caller.left_in_minute <= 0:
                until = (minute + 1) * clock.MINUTE
                limited = Limited(caller, "minute", _seconds(until - now))
                raise _refusals.keep(digest, now, until, limited) from None
            if caller.left_in_second <= 0:
                until = (_counted_at(now, minute) // clock.SECOND + 1) * clock.SECOND
                limited = Limited(caller, "second", _seconds(until - now))
                raise _refusals.keep(digest, now, until, limited) from None
        else:
            _minutes.keep(digest, row["m"])
            return _caller(row, row["m"], second, now)
    raise Unavailable("the key's row kept changing")


def row_key(project_id: int) -> tuple[str, str]:
    """The row of a project."""
    return "PROJECTS", f"{project_id:010d}"


def name_of(project_id: int) -> str:
    """The project's name. Raises LookupError."""
    return str(_existing(project_id)["name"])


def _existing(project_id: int) -> table.Row:
    project = table.get(*row_key(project_id))
    if project is None:
        raise LookupError(f"there is no project {project_id}")
    return project


def _counted_at(now: int, minute: int) -> int:
    """The instant that a request is counted at: the present one, or the start of a minute that is still to come."""
    return max(now, minute * clock.MINUTE)


def _second(now: int, minute: int) -> str:
    """The name of the count of the request's second."""
    return f"s{_counted_at(now, minute) // clock.SECOND % 60}"


def _roll(digest: str, minute: int, latest: int, second: str) -> table.Update:
    return table.Update(
        f"KEY#{digest}",
        "key",
        set={"m": minute, "w": {"n": 1, second: 1}},
        condition="attribute_exists(pk) AND attribute_not_exists(revoked_at)"
        " AND (attribute_not_exists(m) OR m < :s_m OR m > :latest)",
        values={":latest": latest},
    )


def _count(digest: str, minute: int, second: str) -> table.Update:
    return table.Update(
        f"KEY#{digest}",
        "key",
        expressions=("w.n = w.n + :one", f"w.{second} = if_not_exists(w.{second}, :zero) + :one"),
        condition="m = :m AND w.n < :per_minute AND attribute_not_exists(revoked_at)"
        f" AND (attribute_not_exists(w.{second}) OR w.{second} < :per_second)",
        values={":m": minute, ":one": 1, ":zero": 0, ":per_minute": PER_MINUTE, ":per_second": PER_SECOND},
    )


def _caller(row: table.Row, minute: int, second: str, now: int) -> Caller:
    counts = row.get("w", {}) if row.get("m") == minute else {}
    return Caller(
        scope=Scope(row["project_id"], row["livemode"]),
        project_name=row["project_name"],
        left_in_second=PER_SECOND - counts.get(second, 0),
        left_in_minute=PER_MINUTE - counts.get("n", 0),
        minute_resets_in=_seconds((minute + 1) * clock.MINUTE - now),
    )


def _seconds(milliseconds: int) -> int:
    return max(1, -(-milliseconds // clock.SECOND))


def _digest(plaintext: str) -> str:
    return hashlib.sha256(plaintext.encode()).hexdigest()


def _key(row: table.Row) -> Key:
    return Key(
        row["key_id"],
        row["project_id"],
        row["livemode"],
        row["label"],
        row["hint"],
        row["created_at"],
        row.get("revoked_at"),
        clock.iso(row["m"] * clock.MINUTE) if "m" in row else None,
    )


class _Minutes:
    """The minute that each key's row was last seen to count."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, int] = OrderedDict()

    def get(self, digest: str) -> int | None:
        return self._seen.get(digest)

    def keep(self, digest: str, minute: int) -> None:
        self._seen[digest] = minute
        while len(self._seen) > _REMEMBERED_KEYS:
            self._seen.popitem(last=False)


class _Refusals:
    """Refusals that still hold, so that a flood of refused requests costs no writes; bounded and short.

    One that was made later than now, before the clock was set back, does not hold.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[int, int, Exception]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, digest: str, now: int) -> Exception | None:
        with self._lock:
            since, until, refusal = self._kept.get(digest, (0, 0, None))
            if refusal is None or not since <= now < until:
                self._kept.pop(digest, None)
                return None
        if isinstance(refusal, Limited):
            # Shown only if it is the minute that is used up.
            caller = dataclasses.replace(refusal.caller, minute_resets_in=_seconds(until - now))
            return Limited(caller, refusal.reason, caller.minute_resets_in)
        assert isinstance(refusal, ApiError)
        return ApiError(refusal.code)

    def keep(self, digest: str, since: int, until: int, refusal: Exception) -> Exception:
        with self._lock:
            self._kept[digest] = (since, until, refusal)
            while len(self._kept) > _REMEMBERED_KEYS:
                self._kept.popitem(last=False)
        return refusal


_minutes = _Minutes()
_refusals = _Refusals()
