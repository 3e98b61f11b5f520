"""The structured log. It never contains names, phone numbers, message contents, keys or secrets.

Each line has the ids of what caused it (`shared/core/trace.py`).
"""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING

from shared.core import trace

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger


@functools.cache
def logger() -> Logger:
    """The service's logger. Powertools reads the function's name from the environment."""
    from aws_lambda_powertools import Logger

    # Mangum logs exceptions to which the service has already responded.
    logging.getLogger("mangum").setLevel(logging.CRITICAL)
    made = Logger()
    made.addFilter(trace.add_ids)
    return made
