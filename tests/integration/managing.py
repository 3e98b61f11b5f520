"""`python -m infra.manage` in a process of its own, forked from one that has imported what it needs."""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATIENCE = 120
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["boto3", "infra.manage.__main__", "shared.admin.members", "shared.erasure.erasing"])


@dataclass(frozen=True)
class Done:
    """What a command has left: its exit code and its output."""

    code: int
    out: str
    err: str


def manage(arguments: Sequence[str], environment: Mapping[str, str]) -> Done:
    """Run a command with exactly this environment."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        process = _FORKS.Process(target=_run, args=(list(arguments), dict(environment), str(out), str(err)))
        process.start()
        process.join(PATIENCE)
        assert process.exitcode is not None, f"{arguments} does not end"
        return Done(process.exitcode, out.read_text(), err.read_text())


def _run(arguments: list[str], environment: dict[str, str], out: str, err: str) -> None:
    os.chdir(ROOT)
    os.environ.clear()
    os.environ.update(environment)
    for stream, path in ((sys.stdout, out), (sys.stderr, err)):
        stream.flush()
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, stream.fileno())
        os.close(file)
    from infra.manage.__main__ import main

    sys.exit(main(arguments))
