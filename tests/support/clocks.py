"""A clock under a test's control."""

from __future__ import annotations


class Clock:
    """A clock that moves when told to; `now` in Unix seconds."""

    def __init__(self, start: float) -> None:
        self.now = start

    def forward(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
