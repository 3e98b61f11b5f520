"""Messages to the person who started the runner. The functions' output goes to `service.log`.

In the runner, `sys.stdout` is the functions' log, so these messages go to the process's original streams.
"""

from __future__ import annotations

import sys


class StartError(Exception):
    """The runner cannot start or continue. The message is one line that says why and what to do."""


def say(text: str = "") -> None:
    """Print a line on the original standard output."""
    print(text, file=sys.__stdout__, flush=True)


def warn(text: str) -> None:
    """Print a line on the original standard error."""
    print(text, file=sys.__stderr__, flush=True)
