"""The runner's child process: DynamoDB Local and moto. It runs until its standard input closes.

Its argument is the data directory. It prints one line of JSON: `dynamodb_url`, `aws_url`, `signing_key` and an optional
`warning`, or `error`. However the runner ends, its end of the pipe closes, and this process ends too.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

from infra.local import database, processes
from infra.local.console import StartError, say

# Seconds that the database of a killed runner may take to close its files, before and after it is killed too.
_ENDING_BY_ITSELF = 3
_ENDING_BY_FORCE = 6


def main(folder: Path) -> int:
    """Run until standard input closes or the database ends."""
    try:
        lock = _lock(folder)
        port = database.free_port()
        java = database.start(folder / "dynamodb", folder / "dynamodb.log", port, keep_open=(lock.fileno(),))
    except (StartError, OSError) as error:
        say(json.dumps({"error": str(error)}))
        return 1
    lock.truncate(0)
    lock.write(json.dumps([os.getpid(), java.pid]))
    lock.flush()
    signal.signal(signal.SIGTERM, lambda *_: java.terminate())
    threading.Thread(target=_end_with_runner, args=(java,), daemon=True).start()
    try:
        emulated = _emulate(folder)
        database.await_ready(java, folder / "dynamodb.log", port)
    except StartError as error:
        say(json.dumps({"error": str(error)}))
        processes.stop(java, patience=1)
        return 1
    say(json.dumps({"dynamodb_url": f"http://127.0.0.1:{port}"} | emulated))
    java.wait()
    # Exit at once: requests in progress would keep the interpreter running.
    os._exit(0)


def _lock(folder: Path) -> IO[str]:
    """The lock that this process and its database share. It is free once both have ended."""
    lock = (folder / "backend.lock").open("a+")
    started = time.monotonic()
    forced = False
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except BlockingIOError:
            waited = time.monotonic() - started
        if waited > _ENDING_BY_FORCE:
            raise StartError(f"the database in {folder} is still in use by a process of an earlier runner")
        if waited > _ENDING_BY_ITSELF and not forced:
            forced = True
            lock.seek(0)
            for pid in json.loads(lock.read() or "[]"):
                processes.kill_leftover(pid, mark=str(folder))
        time.sleep(0.05)


def _emulate(folder: Path) -> dict[str, str]:
    # Imported here, so that it runs on another core while Java starts.
    from infra.local import emulator, objects

    kept = json.loads((folder / "kms.json").read_text())
    signing_key = emulator.restore_signing_key(kept["key_id"], bytes.fromhex(kept["key_material"]))
    s3 = objects.KeptObjects(folder / "s3")
    damaged = s3.restore()
    answer = {"aws_url": emulator.serve(s3), "signing_key": signing_key}
    if damaged:
        answer["warning"] = f"damaged files are ignored; restore or delete them: {', '.join(map(str, damaged))}"
    return answer


def _end_with_runner(java: subprocess.Popen[bytes]) -> None:
    sys.stdin.buffer.read()
    processes.stop(java, patience=2)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
