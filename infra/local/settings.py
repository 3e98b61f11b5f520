"""The runner's settings, from options and environment variables (`make run PORT=9000` sets one too)."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.local.console import StartError


@dataclass(frozen=True)
class Settings:
    """The settings. Port 0 selects a free port. `speed` divides the service's waits. `canary` turns the canary on."""

    port: int
    data_dir: Path
    speed: float
    ready_file: Path | None
    canary: bool = False


SETTINGS: Mapping[str, tuple[str, str]] = {
    "PORT": ("8000", "the port on which the API listens, on loopback only; 0 selects a free one"),
    "DATA_DIR": (".data", "the folder of everything that survives a restart"),
    "SPEED": ("1", "divides waits: retries, simulated calls, consent"),
    "CANARY": ("0", "1 runs the canary every five minutes"),
    "READY_FILE": ("", "a file to write once requests are served, with the addresses and the demo keys"),
}
"""The default and the meaning of each setting, by its environment variable."""


def read(environment: Mapping[str, str], arguments: Sequence[str] = ()) -> Settings:
    """Read the settings. Options win, and an empty value counts as absent. Raises StartError."""
    found = {**environment, **_options(arguments)}
    port, data_dir, speed, canary, ready_file = (found.get(name) or default for name, (default, _) in SETTINGS.items())
    if not (port.isascii() and port.isdigit() and int(port) <= 65535):
        raise StartError(f"PORT must be a number from 0 to 65535, not {port!r}")
    try:
        factor = float(speed)
    except ValueError:
        factor = math.nan
    if not 0 < factor < math.inf:
        raise StartError(f"SPEED must be a number above 0, not {speed!r}")
    if canary not in ("0", "1"):
        raise StartError(f"CANARY must be 0 or 1, not {canary!r}")
    return Settings(
        port=int(port),
        data_dir=Path(data_dir).absolute(),
        speed=factor,
        ready_file=Path(ready_file).absolute() if ready_file else None,
        canary=canary == "1",
    )


def _options(arguments: Sequence[str]) -> Mapping[str, str]:
    """The settings that are options. `--help` ends the process."""
    parser = argparse.ArgumentParser(
        prog="python -m infra.local",
        description="Run the whole service on this machine, as `make run` does. An environment variable sets what an "
        "option does not: DATA_DIR is that of --data-dir.",
    )
    for name, (default, meaning) in SETTINGS.items():
        option, value = f"--{name.lower().replace('_', '-')}", name.rpartition("_")[2]
        text = f"{meaning} (default: {default or 'none'})"
        parser.add_argument(option, dest=name, metavar=value, default=argparse.SUPPRESS, help=text)
    return vars(parser.parse_args(arguments))
