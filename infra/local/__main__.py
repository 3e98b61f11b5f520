"""`python -m infra.local`: what a person sees of a failure is one line."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from typing import NoReturn

from infra.local.console import StartError, warn


def main() -> NoReturn:
    """Run until a signal or a failure."""
    # As Ctrl-C, also while the modules are still being imported.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        from infra.local import runner

        code = runner.main()
    except KeyboardInterrupt:
        code = 0
    except StartError as error:
        warn(f"make run: {error}")
        code = 1
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] not in _OURS:
            warn(f"make run: the Python package {error.name} is not installed: `make run` installs what is missing")
        else:
            # To service.log, once that is open.
            traceback.print_exc()
            warn(f"make run: {error!r}: a traceback is above or in service.log")
        code = 1
    sys.stdout.flush()
    # Threads may still be busy with calls that nobody waits for any more.
    os._exit(code)


_OURS = ("functions", "infra", "shared")

if __name__ == "__main__":
    main()
