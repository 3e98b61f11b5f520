"""What the person who started the runner reads; the functions' own output goes to `service.log`.

`sys.stdout` is Lambda's log in here, so these lines go to the process's original streams.
"""

from __future__ import annotations

import sys


class StartError(Exception):
    """The runner cannot start or go on; the message is one line that says why and what helps."""


def say(text: str = "") -> None:
    """A line on the original standard output."""
    print(text, file=sys.__stdout__, flush=True)


def warn(text: str) -> None:
    """A line on the original standard error."""
    print(text, file=sys.__stderr__, flush=True)
