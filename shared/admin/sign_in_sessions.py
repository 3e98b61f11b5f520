"""Sessions of the admin pages. A session is a row; the browser has only its random token, and the row only its hash."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from contextlib import suppress
from dataclasses import dataclass, field

from shared.admin.members import Identity
from shared.core import clock
from shared.store import table

IDLE_MS = 2 * clock.HOUR
"""How long a session lasts without a request."""
ABSOLUTE_MS = 12 * clock.HOUR
"""How long a session lasts at most."""
_TOUCHED_EVERY_MS = clock.MINUTE


@dataclass(frozen=True)
class SignInSession:
    """A session that has not ended. `csrf` is the token that its forms must send."""

    person: str
    email: str
    began_at: clock.Instant
    seen_at: clock.Instant
    digest: str = field(repr=False)
    csrf: str = field(repr=False)


def begin(identity: Identity) -> str:
    """Begin a session and return its token."""
    token, now = secrets.token_urlsafe(32), clock.now()
    row: table.Row = {"pk": _pk(_digest(token)), "sk": "session", "kind": "admin_session", "email": identity.email}
    row |= {"person": identity.person, "began_at": now, "seen_at": now, "expires_at": table.expiry(now + IDLE_MS)}
    table.write([table.Put(row)])
    return token


def find(token: str) -> SignInSession | None:
    """The session with this token; None if it has ended."""
    digest, now = _digest(token), clock.now()
    row = table.get(_pk(digest), "session")
    if row is None or now >= min(row["began_at"] + ABSOLUTE_MS, row["seen_at"] + IDLE_MS):
        return None
    csrf = hmac.new(token.encode(), b"csrf", hashlib.sha256).hexdigest()
    return SignInSession(row["person"], row["email"], row["began_at"], row["seen_at"], digest, csrf)


def touch(session: SignInSession) -> None:
    """Note that the session is in use. Writes at most once a minute."""
    now = clock.now()
    if now - session.seen_at < _TOUCHED_EVERY_MS:
        return
    ends_at = min(now + IDLE_MS, session.began_at + ABSOLUTE_MS)
    op = table.Update(_pk(session.digest), "session", set={"seen_at": now, "expires_at": table.expiry(ends_at)})
    # The session may have been ended meanwhile.
    with suppress(table.ConditionFailed):
        table.write([op])


def end(session: SignInSession) -> None:
    """End the session."""
    table.write([table.Delete(_pk(session.digest), "session", table.ALWAYS)])


def _pk(digest: str) -> str:
    return f"ADMIN_SESSION#{digest}"


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
