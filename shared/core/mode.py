"""Whether calls and conversations are simulated: in test mode always, on the local runner in live mode too."""

from __future__ import annotations

import os

from shared.core.keys import Scope


def is_simulated(scope: Scope) -> bool:
    """Whether nothing of this project and mode may reach a carrier, or a model that costs money (contract 10)."""
    return not scope.livemode or os.environ.get("SIMULATE_LIVE") == "1"
