"""What a function is configured by. Every setting is an environment variable.

Each is read when it is asked for. One that is missing and has no default is a KeyError. Unless a docstring names
another, `Function.environment` in `infra/topology.py` sets the variable; the operator's commands (`infra/manage.py`)
set those that they need.

AWS's own variables are the exception. `shared/aws/client.py` and `shared/aws/credentials.py` read credentials, region,
endpoints and certificates by the names that all of AWS's SDKs use.
"""

from __future__ import annotations

import os

# What every function has


def service_name() -> str:
    """The function's name in `infra/topology.py`, which is that of its module. Empty in the operator's commands."""
    return os.environ.get("SERVICE_NAME", "")


def table_name() -> str:
    """The name of the DynamoDB table."""
    return os.environ["TABLE_NAME"]


def due_shards() -> int:
    """How many partitions of the index `by_due` are written to, 1 to 64."""
    return int(os.environ["DUE_SHARDS"])


def log_level() -> str:
    """The lowest level of lines in the log, by default INFO. `infra/stack.py` sets it to that of the stage."""
    return os.environ.get("LOG_LEVEL") or "INFO"


def trace_header() -> str:
    """The trace of this invocation, `Root=1-5759e988-…;Parent=…;Sampled=1`. Lambda sets it; empty elsewhere."""
    return os.environ.get("_X_AMZN_TRACE_ID", "")


# What only the local runner sets (`infra/local/runner.py`). The defaults are those of every deployed stage.


def speed() -> float:
    """What scheduled times and leases are divided by, by default 1 (`scaled_ms` in `shared/core/clock.py`)."""
    return float(os.environ.get("SPEED") or 1)


def simulates_live() -> bool:
    """Whether live mode is simulated, too (`Scope.is_simulated`); by default not."""
    return os.environ.get("SIMULATE_LIVE") == "1"
