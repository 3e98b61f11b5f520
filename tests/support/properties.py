"""How properties are tested.

Examples are derandomised, so that a run is the same each time. `HYPOTHESIS_EXAMPLES` multiplies their number, and
above 1 failing ones are shrunk.
"""

from __future__ import annotations

import copy
import json
import os
from typing import Any

from hypothesis import HealthCheck, Phase, settings

TIMES = float(os.environ.get("HYPOTHESIS_EXAMPLES") or 1)


def fixed_examples(examples: int, **options: Any) -> settings:
    """The same examples in every run."""
    return settings(
        derandomize=True,
        database=None,
        deadline=None,
        print_blob=False,
        max_examples=max(1, int(examples * TIMES)),
        # Each step of a shrinking is some requests: not in the time that a whole run has.
        phases=[Phase.explicit, Phase.generate, *([Phase.shrink] if TIMES > 1 else [])],
        suppress_health_check=list(HealthCheck),
        **options,
    )


def canonical(value: Any) -> str:
    """Equal for equal JSON only: True is not 1, nor is 1.0."""
    return json.dumps(value, sort_keys=True)


def merge_patched(document: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """RFC 7396 for the flat fields; `metadata` by key, its values whole (promises 3)."""
    result = copy.deepcopy(document)
    for name, value in patch.items():
        if name == "metadata" and value is not None:
            for key, inner in value.items():
                if inner is None:
                    result["metadata"].pop(key, None)
                else:
                    result["metadata"][key] = inner
        elif name == "metadata":
            result["metadata"] = {}
        elif name == "phone":
            result["phone"] = value.replace(" ", "")
        else:
            result[name] = value
    return result


DAYS = [f"2030-01-0{day}T00:00:00.000Z" for day in range(1, 6)]
