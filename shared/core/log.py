"""The structured log: a JSON object in each line. It never contains names, phone numbers, message contents or secrets.

Each line has the ids of what caused it (`shared/core/trace.py`), and the function's name as `service`. The fields are
those of Powertools for AWS Lambda, which is too large to load for them.
"""

from __future__ import annotations

import functools
import json
import logging
import sys
import time
import traceback
from typing import Any

from shared.core import settings, trace

_OF_LOGGING = frozenset(vars(logging.makeLogRecord({}))) | {"asctime", "message"}
"""The attributes that every record has. Others are fields of the line."""


class JsonLines(logging.Formatter):
    """Formats a record as a JSON object. Fields that are None are left out."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without a line break."""
        now = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "level": record.levelname,
            "location": f"{record.funcName}:{record.lineno}",
            "message": record.getMessage(),
            "timestamp": f"{now},{int(record.msecs):03d}+0000",
            "service": settings.service_name() or None,
        }
        line.update((name, value) for name, value in vars(record).items() if name not in _OF_LOGGING)
        if record.exc_info and (error := record.exc_info[1]) is not None:
            line["exception"] = "".join(traceback.format_exception(error)).rstrip()
            line["exception_name"] = type(error).__name__
        line["xray_trace_id"] = _xray_trace_id()
        present = {name: value for name, value in line.items() if value is not None}
        return json.dumps(present, default=str, separators=(",", ":"), ensure_ascii=False)


class _StandardOutput(logging.Handler):
    """Writes each line in one piece, so that those of several threads do not mix."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            write(self.format(record))
        except Exception:  # noqa: BLE001  # as `logging` wants it of handlers
            self.handleError(record)


def write(line: str) -> None:
    """Write a line to the standard output, from which Lambda takes it into the log."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


@functools.cache
def logger() -> logging.Logger:
    """The service's logger. Its level is `LOG_LEVEL`, by default INFO."""
    # Mangum logs exceptions to which the service has already responded.
    logging.getLogger("mangum").setLevel(logging.CRITICAL)
    service_logger = logging.getLogger("service")
    service_logger.setLevel(settings.log_level())
    # Lambda's own handler at the root would log each line again.
    service_logger.propagate = False
    handler = _StandardOutput()
    handler.setFormatter(JsonLines())
    service_logger.handlers = [handler]
    service_logger.addFilter(trace.add_ids)
    return service_logger


def _xray_trace_id() -> str | None:
    """The root of the trace that Lambda names, such as `1-5759e988-bd862e3fe1be46a994272793`."""
    return settings.trace_header().split(";")[0].replace("Root=", "") or None
