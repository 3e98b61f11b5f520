"""The folder of everything that survives a restart.

    dynamodb/           the table and its stream, in DynamoDB Local's format
    credentials.json    the access key id that owns the table        stream.json     the position in the stream
    kms.json            the key that encrypts signing secrets        demo.json       the demo projects' API keys
    s3/                 recordings of calls, and the ledger of erased customers
    stream_failures/    batches that fan_out could not process       runner.json     the addresses of the running runner
    format.json         the version of the stored formats            openapi.json     the API description
    appt.zip            the command line for clients                 service.log, dynamodb.log, backend.log

Files are replaced atomically, and only their owner may read them.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from infra.local.console import StartError

STREAM_FAILURES = "stream_failures"
LEAST_FREE = 2**20
"""Bytes. With less free space, the disk counts as full: the database needs some to write."""
FORMAT = 4
"""The version of the stored formats. A change with which older data cannot be read increases it."""


def write_json(path: Path, value: object) -> None:
    """Replace the file's content by `value` atomically. Only the owner may read the file."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            json.dump(value, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


class DataDir:
    """The folder, which this process locks until it ends."""

    def __init__(self, path: Path) -> None:
        """Lock the folder, which is created if it does not exist. Raises StartError."""
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = (path / "runner.lock").open("a+")
        except OSError as error:
            raise StartError(f"DATA_DIR {path} cannot be used: {error.strerror}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self.is_full:
                raise StartError(self.full)
            # Drafts of a runner that was killed while it wrote them.
            for draft in path.glob(".*.json.*"):
                draft.unlink()
            self._check_format()
        except BlockingIOError:
            self.close()
            raise StartError(f"DATA_DIR {path} is in use by another runner: stop it or use another folder") from None
        except StartError:
            self.close()
            raise

    def _check_format(self) -> None:
        """Raises StartError if the database was written by a version of the service with other stored formats."""
        if not (self.path / "dynamodb").exists():
            self.save("format.json", FORMAT)
        elif self.load("format.json") != FORMAT:
            raise StartError(
                f"the data in {self.path} is of another version of the service: use another DATA_DIR, or delete it"
            )

    @property
    def is_full(self) -> bool:
        """Whether there is too little free space on the folder's disk."""
        return shutil.disk_usage(self.path).free < LEAST_FREE

    @property
    def full(self) -> str:
        """What to do if the disk is full."""
        return f"the disk of DATA_DIR {self.path} is full: delete other files, or use a DATA_DIR on another disk"

    def close(self) -> None:
        """Unlock the folder."""
        self._lock.close()

    def load(self, name: str) -> Any:
        """The value saved under this name, or None. Raises StartError if the file is damaged."""
        path = self.path / name
        try:
            return json.loads(path.read_text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise StartError(f"{path} is damaged ({error}): restore it, or use another DATA_DIR") from None

    def save(self, name: str, value: object) -> None:
        """Save a JSON value under this name."""
        write_json(self.path / name, value)

    def remove(self, name: str) -> None:
        """Delete the value saved under this name."""
        with contextlib.suppress(FileNotFoundError):
            (self.path / name).unlink()

    def secret(self, name: str, fields: Mapping[str, Callable[[], str]]) -> dict[str, str]:
        """The secrets in the file `name`. In a new folder, `fields` creates them.

        Raises StartError if the file is missing but a database exists, which cannot be read without its secrets.
        """
        path = self.path / name
        kept = self.load(name)
        if kept is None:
            if (self.path / "dynamodb").exists():
                raise StartError(
                    f"{path} is missing, so the database cannot be read: restore it, or use another DATA_DIR"
                )
            kept = {field: make() for field, make in fields.items()}
            self.save(name, kept)
        if not isinstance(kept, dict) or any(not isinstance(kept.get(field), str) for field in fields):
            raise StartError(f"{path} is damaged: restore it, or use another DATA_DIR")
        return kept
