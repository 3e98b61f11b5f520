"""Test mode's messages that force a reply (promises 10). In live mode they are messages like any other."""

from __future__ import annotations

from shared.core import clock
from shared.store.keys import Scope

MARKDOWN, HANDOFF = "[[sim:markdown]]", "[[sim:handoff]]"
"""Anywhere in a message, the scripted agent finds them."""
ERROR, TIMEOUT = "[[sim:error]]", "[[sim:timeout]]"
"""The whole message."""
_BEGINNING = "[[sim:"

RICH = """\
# Your appointment
**Everything** is in the [guide](https://example.com/guide "The guide"), <b>parking</b> and *directions* too.
- Your `insurance card`
```python
print("See you & <soon>")
```
"""
"""The reply to `MARKDOWN`."""
TIMEOUT_WINDOW_S = 2
"""Seconds that a request with `TIMEOUT` has for the reply."""
TIMEOUT_REPLY_MS = 7 * clock.SECOND
"""Milliseconds after which the reply to `TIMEOUT` is due."""


def forces_reply(scope: Scope, message: str) -> bool:
    """Whether a message begins as those do that force a reply, so that the reply does not say who replies."""
    return scope.is_simulated and message.startswith(_BEGINNING)


def is_error(scope: Scope, message: str) -> bool:
    """Whether the agent is to fail."""
    return scope.is_simulated and message == ERROR


def is_timeout(scope: Scope, message: str) -> bool:
    """Whether the reply is to come too late for the request."""
    return scope.is_simulated and message == TIMEOUT
