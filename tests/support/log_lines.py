"""What the service logs while a test watches."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from shared.core import log


@contextmanager
def lines(level: str = "INFO") -> Iterator[list[logging.LogRecord]]:
    """What is logged from this level on while the block runs."""
    found: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record)

    logger = log.logger()
    handler = Keep()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(level)
    try:
        yield found
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def ids(logged: list[logging.LogRecord], message: str, *names: str) -> list[tuple[Any, ...]]:
    """The values of these keys in each line with this message."""
    found = [record.__dict__ for record in logged if record.getMessage() == message]
    return [tuple(line.get(name) for name in names) for line in found]
