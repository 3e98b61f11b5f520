"""The runner's settings, from environment variables (`make run PORT=9000` sets one too)."""

from __future__ import annotations

import math
from collections.abc import Mapping
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


def read(environment: Mapping[str, str]) -> Settings:
    """Read the settings. An empty variable counts as absent. Raises StartError."""
    port = environment.get("PORT") or "8000"
    if not (port.isascii() and port.isdigit() and int(port) <= 65535):
        raise StartError(f"PORT must be a number from 0 to 65535, not {port!r}")
    speed = environment.get("SPEED") or "1"
    try:
        factor = float(speed)
    except ValueError:
        factor = math.nan
    if not 0 < factor < math.inf:
        raise StartError(f"SPEED must be a number above 0, not {speed!r}")
    ready_file = environment.get("READY_FILE")
    canary = environment.get("CANARY") or "0"
    if canary not in ("0", "1"):
        raise StartError(f"CANARY must be 0 or 1, not {canary!r}")
    return Settings(
        port=int(port),
        data_dir=Path(environment.get("DATA_DIR") or ".data").absolute(),
        speed=factor,
        ready_file=Path(ready_file).absolute() if ready_file else None,
        canary=canary == "1",
    )
