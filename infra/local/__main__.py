"""`python -m infra.local`: check what is installed, then run."""

from __future__ import annotations

import sys

from infra.local.console import StartError, warn


def main() -> int:
    """The process's exit code."""
    try:
        from infra.local import runner

        runner.main()
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in ("functions", "infra", "shared"):
            raise
        warn(f"make run: the Python package {error.name} is not installed: `make run` installs what is missing")
    except StartError as error:
        warn(f"make run: {error}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
