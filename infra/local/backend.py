"""The runner's child process: DynamoDB Local and moto. It lives as long as its standard input is open.

Started with the data directory as its argument, it prints one line of JSON: `dynamodb_url`, `aws_url`,
`signing_key` and perhaps `warning`, or `error`. When the runner ends in whatever way, the pipe to it closes and
all of this ends too.
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

# How long the database of a runner that was killed may take to let go of its files, in seconds.
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
    # Requests that are still being served would keep the interpreter from ending.
    os._exit(0)


def _lock(folder: Path) -> IO[str]:
    """The lock that this process and its database hold together, so that it is free when both are gone."""
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
            raise StartError(f"the database in {folder} is still in use by an earlier runner's process")
        if waited > _ENDING_BY_ITSELF and not forced:
            forced = True
            lock.seek(0)
            for pid in json.loads(lock.read() or "[]"):
                processes.kill_leftover(pid, mark=str(folder))
        time.sleep(0.05)


def _emulate(folder: Path) -> dict[str, str]:
    # Imported while Java starts, on the machine's other core.
    from infra.local import emulator, objects

    kept = json.loads((folder / "kms.json").read_text())
    signing_key = emulator.restore_signing_key(kept["key_id"], bytes.fromhex(kept["key_material"]))
    s3 = objects.KeptObjects(folder / "s3")
    damaged = s3.restore()
    answer = {"aws_url": emulator.serve(s3), "signing_key": signing_key}
    if damaged:
        answer["warning"] = f"damaged and left out, to be restored or deleted: {', '.join(map(str, damaged))}"
    return answer


def _end_with_runner(java: subprocess.Popen[bytes]) -> None:
    sys.stdin.buffer.read()
    processes.stop(java, patience=2)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
