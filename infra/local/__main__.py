"""`python -m infra.local`: starts the runner. Prints one line if it fails. `--help` starts nothing."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from typing import NoReturn

from infra.local.console import StartError, warn
from infra.local.settings import read


def main() -> NoReturn:
    """Run until a signal or a failure, and exit the process."""
    # The same as Ctrl-C, even while modules are being imported.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        settings = read(os.environ, sys.argv[1:])
        from infra.local import runner

        code = runner.main(settings)
    except KeyboardInterrupt:
        code = 0
    except StartError as error:
        warn(f"make run: {error}")
        code = 1
    except Exception as error:  # noqa: BLE001  # the last resort of the process
        if isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] not in _OURS:
            warn(f"make run: the Python package {error.name} is not installed: run `make run` to install it")
        else:
            # Standard error is service.log once that file is open.
            traceback.print_exc()
            warn(f"make run: {error!r}: the traceback is above or in service.log")
        code = 1
    sys.stdout.flush()
    # Do not wait for threads: they may still be running calls whose results nobody needs.
    os._exit(code)


_OURS = ("functions", "infra", "shared")

if __name__ == "__main__":
    main()
