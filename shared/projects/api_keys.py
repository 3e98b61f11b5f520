"""API keys. A key is stored as the SHA-256 of its plaintext (promises 0).

The row of a key also counts its requests (`rate_limits.py`), so that one update authenticates and counts a request.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import secrets
import string
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NotRequired, TypedDict, TypeVar, cast

from cachetools import LRUCache

from shared.aws.services import Unavailable
from shared.core import clock, ids
from shared.core.errors import ApiError, Code
from shared.projects import projects, rate_limits
from shared.projects.rate_limits import Moment, Remaining
from shared.store import table
from shared.store.keys import Scope
from shared.store.transactions import Change

REFUSAL_MEMORY_MS = 5 * clock.SECOND
"""How long a container caches that a key is refused, even if its minute is used up for longer: a key
that was revoked meanwhile gets `api_key_revoked`."""
_CACHED_KEYS = 1_000
PREFIX = "key_"
"""The prefix of the ids of keys."""
_PLAINTEXT = re.compile(r"sk_(test|live)_[A-Za-z0-9]{16,128}")
_ALPHABET = string.ascii_letters + string.digits
_KEY_CHARACTERS = 32  # 190 random bits; promise 0.2 requires 160
_ATTEMPTS = 8

T = TypeVar("T")


class ApiKeyRow(TypedDict):
    """The row of an API key, which counts its requests, too (`rate_limits.py`)."""

    pk: str
    sk: str
    kind: str
    key_id: str
    project_id: int
    project_name: str
    livemode: bool
    label: str
    last_four: str
    created_at: str
    read_only: NotRequired[bool]
    valid_until: NotRequired[clock.Instant]
    replaces: NotRequired[str]
    """The id of the key whose rotation created it."""
    revoked_at: NotRequired[str]
    m: NotRequired[int]
    """The minute of the last request."""
    w: NotRequired[dict[str, int]]
    """The requests in that minute (`n`), and in its seconds."""


@dataclass(frozen=True)
class ApiKey:
    """An API key without its plaintext. `last_used_at` is precise to the minute, and None before the first use.

    `replaces` is the id of the key whose rotation created it; None for other keys.
    """

    id: str
    project_id: int
    livemode: bool
    label: str
    last_four: str
    created_at: str
    revoked_at: str | None
    last_used_at: str | None
    expires_at: str | None
    read_only: bool
    replaces: str | None

    @property
    def has_expired(self) -> bool:
        """Whether its time has ended."""
        return self.expires_at is not None and clock.parse(self.expires_at) <= clock.now()


@dataclass(frozen=True)
class Caller:
    """The id, project and mode of a valid key, what remains of its rate limits, and whether it may only read."""

    key_id: str
    scope: Scope
    project_name: str
    remaining: Remaining
    read_only: bool


@dataclass(frozen=True)
class NewKey:
    """A new key with its plaintext, which nothing stores."""

    key: ApiKey
    plaintext: str = field(repr=False)


class LimitExceeded(Exception):
    """The key has reached the limit of a window (`second` or `minute`), which ends in `resets_in_s`."""

    def __init__(self, caller: Caller, window: str, resets_in_s: int) -> None:
        super().__init__(window)
        self.caller = caller
        self.window = window
        self.resets_in_s = resets_in_s


def create(
    project_id: int,
    livemode: bool,
    label: str,
    plaintext: str | None = None,
    *,
    read_only: bool = False,
    valid_until: clock.Instant | None = None,
    replaces: str | None = None,
) -> Change[NewKey]:
    """Create a key of a project, by default with a random plaintext.

    Raises LookupError for an unknown project, ValueError for an invalid `plaintext`.
    """
    project = projects.find(project_id)
    mode = "live" if livemode else "test"
    plaintext = plaintext or new_plaintext(mode)
    if not _PLAINTEXT.fullmatch(plaintext) or not plaintext.startswith(f"sk_{mode}_"):
        raise ValueError(f"the plaintext of this mode must be sk_{mode}_ and 16 to 128 letters or digits")
    key_id, created_at = ids.new(PREFIX), clock.iso(clock.now())
    digest = _digest(plaintext)
    facts = {"label": label, "created_at": created_at, "livemode": livemode, "last_four": plaintext[-4:]}
    owner = {"project_id": project_id, "project_name": project["name"]}
    # Not `expires_at`, which would have DynamoDB delete the row: an expired key is known as such.
    terms = {"read_only": read_only or None, "valid_until": valid_until, "replaces": replaces}
    row: table.Row = {"pk": f"KEY#{digest}", "sk": "key", "kind": "api_key", "key_id": key_id} | owner | facts
    row |= {name: value for name, value in terms.items() if value is not None}
    pointer = {"pk": f"P#{project_id}#keys", "sk": key_id, "kind": "api_key_of", "digest": digest} | facts
    return Change(NewKey(_of_row(row), plaintext), [table.Put(row), table.Put(pointer)])


def rotate(project_id: int, key_id: str, valid_ms: int, valid_until: clock.Instant | None = None) -> Change[NewKey]:
    """Create a key in place of another one, which then expires within `valid_ms` milliseconds.

    The new key expires at `valid_until`, None if it does not. It has the label, mode and rights of the other one.
    Raises LookupError for an unknown key, `invalid_status_transition` if it is not valid any more.
    """
    row = _find(project_id, key_id)
    old, ends_at = _of_row(row), clock.now() + valid_ms
    if old.revoked_at or old.has_expired:
        raise ApiError(Code.INVALID_STATUS_TRANSITION, "The key is not valid any more, so it cannot be replaced.")
    new = create(project_id, old.livemode, old.label, read_only=old.read_only, valid_until=valid_until, replaces=old.id)
    end = table.Update(
        row["pk"],
        row["sk"],
        set={"valid_until": min(ends_at, row.get("valid_until", ends_at))},
        condition=table.PRESENT & table.equals("revoked_at", None),
    )
    return new.with_writes(end)


def new_plaintext(mode: str) -> str:
    """A random plaintext for a key of this mode, `test` or `live`."""
    return f"sk_{mode}_" + "".join(secrets.choice(_ALPHABET) for _ in range(_KEY_CHARACTERS))


def of_project(project_id: int) -> list[ApiKey]:
    """The keys of a project, oldest first. Raises LookupError for an unknown project."""
    projects.find(project_id)
    pointers = [row for page in table.query(f"P#{project_id}#keys", limit=100, forward=True) for row in page]
    rows = table.get_many([_row_key(row["digest"]) for row in pointers])
    return [_of_row(rows[_row_key(row["digest"])]) for row in pointers]


def find(project_id: int, key_id: str) -> ApiKey:
    """The key of a project with this id. Raises LookupError for an unknown key."""
    return _of_row(_find(project_id, key_id))


def revoke(project_id: int, key_id: str) -> Change[ApiKey]:
    """Revoke a key. Nothing changes if it was revoked before. Raises LookupError for an unknown key."""
    row = _find(project_id, key_id)
    if "revoked_at" in row:
        return Change(_of_row(row))
    now = clock.iso(clock.now())
    is_valid = table.PRESENT & table.equals("revoked_at", None)
    update = table.Update(row["pk"], row["sk"], set={"revoked_at": now}, condition=is_valid)
    return Change(_of_row(row | {"revoked_at": now}), [update])


def delete(project_id: int, key_id: str) -> None:
    """Delete a key for good, unlike `revoke`. Deleting an unknown key has no effect."""
    pointer = table.get(f"P#{project_id}#keys", key_id)
    if pointer is not None:
        rows = (_row_key(pointer["digest"]), (pointer["pk"], pointer["sk"]))
        table.write([table.Delete(pk, sk, table.ALWAYS) for pk, sk in rows])


def expected_scope(plaintext: str) -> Scope | None:
    """The project and mode of a key that this container has authenticated before; None if it may be refused now.

    Only `authenticate` decides whether the key is valid.
    """
    digest = _digest(plaintext)
    known, refusal = _known.get(digest), _refusals.get(digest)
    return None if known is None or (refusal is not None and refusal.holds(clock.now())) else known.scope


def authenticate(plaintext: str) -> Caller:
    """Authenticate a request by its key and count it. Makes one update in the common case.

    Raises ApiError (`api_key_invalid`, `api_key_revoked`, `api_key_expired`) or LimitExceeded.
    """
    if not _PLAINTEXT.fullmatch(plaintext):
        raise ApiError(Code.API_KEY_INVALID)
    digest, now = _digest(plaintext), clock.now()
    refusal = _refusals.get(digest)
    if refusal is not None:
        if refusal.holds(now):
            raise refusal.error_at(now)
        _refusals.drop(digest)
    # The container guesses which minute the row counts from its last update. A wrong guess costs another attempt; the
    # conditions keep every count correct.
    known = _known.get(digest)
    moment = rate_limits.moment(now, known.minute if known else None)
    for _ in range(_ATTEMPTS):
        try:
            row = cast("ApiKeyRow", table.write_and_get(rate_limits.count_write(*_row_key(digest), moment)))
        except table.ConditionFailed as failed:
            old = cast("ApiKeyRow | None", failed.old)
            moment = rate_limits.moment(now, old.get("m") if old else None)
            refusal = _refusal(old, moment)
            if refusal is not None:
                _refusals.put(digest, refusal)
                raise refusal.error_at(now) from None
        else:
            caller = _caller(row, moment)
            _known.put(digest, _Known(caller.scope, row["m"]))
            return caller
    raise Unavailable("the row of the key was modified concurrently")


def _refusal(row: ApiKeyRow | None, moment: Moment) -> _Refusal | None:
    """Why the row of a key, None if there is none, does not allow a request. None if it does."""
    now = moment.now
    code = _refusal_code(row, now)
    if code is not None:
        return _Refusal(ApiError(code), now, now + REFUSAL_MEMORY_MS)
    if moment.starts:
        return None
    assert row is not None
    caller = _caller(row, moment)
    window = rate_limits.exhausted_window(caller.remaining, moment)
    if window is None:
        return None
    exceeded = LimitExceeded(caller, window.name, rate_limits.whole_seconds(window.until - now))
    return _Refusal(exceeded, now, min(window.until, now + REFUSAL_MEMORY_MS), window.until)


def _refusal_code(row: ApiKeyRow | None, now: clock.Instant) -> Code | None:
    """Why the key of this row, None if there is none, is not valid; None if it is."""
    if row is None:
        return Code.API_KEY_INVALID
    if "revoked_at" in row:
        return Code.API_KEY_REVOKED
    return Code.API_KEY_EXPIRED if row.get("valid_until", now + 1) <= now else None


def _caller(row: ApiKeyRow, moment: Moment) -> Caller:
    scope = Scope(row["project_id"], row["livemode"])
    remaining = rate_limits.remaining(row, moment)
    return Caller(row["key_id"], scope, row["project_name"], remaining, row.get("read_only", False))


def _find(project_id: int, key_id: str) -> ApiKeyRow:
    pointer = table.get(f"P#{project_id}#keys", key_id)
    row = table.get(*_row_key(pointer["digest"])) if pointer else None
    if row is None:
        raise LookupError(f"project {project_id} has no key {key_id}")
    return cast("ApiKeyRow", row)


def _row_key(digest: str) -> tuple[str, str]:
    return f"KEY#{digest}", "key"


def _digest(plaintext: str) -> str:
    return hashlib.sha256(plaintext.encode()).hexdigest()


def _of_row(row: Mapping[str, Any]) -> ApiKey:
    return ApiKey(
        row["key_id"],
        row["project_id"],
        row["livemode"],
        row["label"],
        row["last_four"],
        row["created_at"],
        row.get("revoked_at"),
        # The row has the minute of the last use, which may begin before the key was created.
        max(clock.iso(row["m"] * clock.MINUTE), row["created_at"]) if "m" in row else None,
        clock.iso(row["valid_until"]) if "valid_until" in row else None,
        row.get("read_only", False),
        row.get("replaces"),
    )


@dataclass(frozen=True)
class _Refusal:
    """Why a key is refused, and from which instant until which one this is known without reading the table.

    The window of a limit that was reached ends at `resets_at`, which may be later: the key may be revoked before.
    """

    error: ApiError | LimitExceeded
    since: clock.Instant
    until: clock.Instant
    resets_at: clock.Instant = clock.EPOCH

    def holds(self, now: clock.Instant) -> bool:
        """Whether it is known at the instant `now`. The clock may have been set back to before `since`."""
        return self.since <= now < self.until

    def error_at(self, now: clock.Instant) -> ApiError | LimitExceeded:
        """The exception of a request at the instant `now`, a new one for each request."""
        if isinstance(self.error, ApiError):
            return ApiError(self.error.code)
        # The RateLimit header shows this value only if the minute's limit is reached.
        resets_in_s = rate_limits.whole_seconds(self.resets_at - now)
        caller = self.error.caller
        remaining = dataclasses.replace(caller.remaining, minute_resets_in_s=resets_in_s)
        return LimitExceeded(dataclasses.replace(caller, remaining=remaining), self.error.window, resets_in_s)


class _Cache(Generic[T]):
    """A bounded cache by the digest of a key. Threads may share it."""

    def __init__(self) -> None:
        self._values: LRUCache[str, T] = LRUCache(_CACHED_KEYS)
        self._lock = threading.Lock()

    def get(self, digest: str) -> T | None:
        with self._lock:
            return self._values.get(digest)

    def put(self, digest: str, value: T) -> None:
        with self._lock:
            self._values[digest] = value

    def drop(self, digest: str) -> None:
        with self._lock:
            self._values.pop(digest, None)


@dataclass(frozen=True)
class _Known:
    """What this container knows of a key: its project and mode, and the minute that its row was last seen to count."""

    scope: Scope
    minute: int


_known = _Cache[_Known]()
"""The keys that were authenticated last."""
_refusals = _Cache[_Refusal]()
"""The latest refusals, so that repeated requests with a refused key cost no writes."""
