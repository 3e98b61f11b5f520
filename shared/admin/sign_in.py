"""The steps of a sign-in that must be remembered: attempts at a provider, and one-time links of the local runner."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field

from shared.admin.members import Identity
from shared.core import clock
from shared.store import table

ATTEMPT_MS = 10 * clock.MINUTE
"""How long a person may take to sign in at the provider."""
LINK_MS = 12 * clock.HOUR
"""How long a sign-in link is valid."""
LINK_ISSUER = "sign-in-link"
"""The issuer of the identities that links sign in. No provider has it, because an issuer is a URL."""


@dataclass(frozen=True)
class SignInAttempt:
    """An attempt to sign in at the provider. `browser` is a cookie of the browser that began it."""

    state: str = field(repr=False)
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)
    browser: str = field(repr=False)
    return_to: str


def begin(return_to: str) -> SignInAttempt:
    """Begin an attempt; `return_to` is the path to show after it."""
    state, nonce, verifier, browser = (secrets.token_urlsafe(32) for _ in range(4))
    row: table.Row = {"pk": _pk_of_attempt(state), "sk": "attempt", "kind": "sign_in", "nonce": nonce}
    row |= {"verifier": verifier, "browser": _digest(browser), "return_to": return_to}
    table.write([table.Put(row | {"expires_at": table.expiry(clock.now() + ATTEMPT_MS)})])
    return SignInAttempt(state, nonce, verifier, browser, return_to)


def take_attempt(state: str, browser: str) -> SignInAttempt | None:
    """The attempt with this state, if this browser began it. It can be taken once; None otherwise."""
    row = _take(_pk_of_attempt(state), "attempt")
    if row is None or not secrets.compare_digest(row["browser"], _digest(browser)):
        return None
    return SignInAttempt(state, row["nonce"], row["verifier"], browser, row["return_to"])


def new_link(email: str) -> str:
    """A token that signs this person in once."""
    token = secrets.token_urlsafe(32)
    row = {"pk": _pk_of_link(token), "sk": "link", "kind": "sign_in_link", "email": email}
    table.write([table.Put(row | {"expires_at": table.expiry(clock.now() + LINK_MS)})])
    return token


def take_link(token: str) -> Identity | None:
    """The identity that a link signs in. It can be taken once; None otherwise."""
    row = _take(_pk_of_link(token), "link")
    return None if row is None else link_identity(row["email"])


def link_identity(email: str) -> Identity:
    """The identity of the person with this e-mail address who signs in by links."""
    return Identity(LINK_ISSUER, email.lower(), email)


def _take(pk: str, sk: str) -> table.Row | None:
    """The row, which only one caller gets."""
    row = table.get(pk, sk)
    if row is None:
        return None
    try:
        table.write([table.Delete(pk, sk)])
    except table.ConditionFailed:
        return None
    return row


def _pk_of_attempt(state: str) -> str:
    return f"SIGN_IN#{_digest(state)}"


def _pk_of_link(token: str) -> str:
    return f"SIGN_IN_LINK#{_digest(token)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
