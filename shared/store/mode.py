"""Whether calls and conversations are simulated: always in test mode, and on the local runner in live mode too."""

from __future__ import annotations

import os

from shared.store.keys import Scope


def is_simulated(scope: Scope) -> bool:
    """Whether this project and mode must not reach a carrier or a model that costs money (contract 10)."""
    return not scope.livemode or os.environ.get("SIMULATE_LIVE") == "1"
