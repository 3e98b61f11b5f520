"""`make simulate`: runs histories, as many at once as there are processors, until one fails."""

from __future__ import annotations

import os
import sys

if os.environ.get("PYTHONHASHSEED") != "0":
    # The order of sets must be the same in each run.
    command = [sys.executable, "-m", "tests.simulation", *sys.argv[1:]]
    os.execve(sys.executable, command, {**os.environ, "PYTHONHASHSEED": "0"})

from tests.simulation.runner import main

sys.exit(main(sys.argv[1:]))
