"""The structured log. Names, phones, contents, keys and secrets stay out of it."""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger


@functools.cache
def logger() -> Logger:
    """The service's logger; the name of the function comes from its environment."""
    from aws_lambda_powertools import Logger

    # Mangum reports an exception that the service has answered already.
    logging.getLogger("mangum").setLevel(logging.CRITICAL)
    return Logger()
