"""The folder that holds all that survives a restart.

    dynamodb/           the table and its stream, DynamoDB Local's own files
    credentials.json    the access key id the table belongs to       stream.json     how far the stream was read
    kms.json            the key for signing secrets                  demo.json       the demo projects' API keys
    s3/                 recordings of calls
    stream_failures/    batches that fan_out could not take          runner.json     how to reach a running runner
    service.log, dynamodb.log, backend.log

Files are written whole or not at all, and only their owner may read them.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from infra.local.console import StartError


def write_json(path: Path, value: object) -> None:
    """Put `value` in place of the file's content in one step, readable by its owner only."""
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
    """The folder, held by this process until it ends."""

    def __init__(self, path: Path) -> None:
        """Make the folder if need be and take hold of it. Raises StartError."""
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = (path / "runner.lock").open("a+")
        except OSError as error:
            raise StartError(f"DATA_DIR {path} cannot be used: {error.strerror}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StartError(f"DATA_DIR {path} is in use by another runner: stop it or name another folder") from None
        # Drafts of a runner that was killed while it wrote.
        for draft in path.glob(".*.json.*"):
            draft.unlink()

    def close(self) -> None:
        """Let go of the folder."""
        self._lock.close()

    def load(self, name: str) -> Any:
        """What `save` wrote under this name, or None. Raises StartError if it is damaged."""
        path = self.path / name
        try:
            return json.loads(path.read_text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise StartError(f"{path} is damaged ({error}): restore it, or start anew with another DATA_DIR") from None

    def save(self, name: str, value: object) -> None:
        """Keep a JSON value under this name."""
        write_json(self.path / name, value)

    def remove(self, name: str) -> None:
        """Forget what was saved under this name."""
        with contextlib.suppress(FileNotFoundError):
            (self.path / name).unlink()

    def secret(self, name: str, fields: Mapping[str, Callable[[], str]]) -> dict[str, str]:
        """The secrets kept in file `name`, made by `fields` in a new folder.

        Raises StartError where the database is older than they are: what was written with the lost ones
        could not be read.
        """
        path = self.path / name
        kept = self.load(name)
        if kept is None:
            if (self.path / "dynamodb").exists():
                raise StartError(f"{path} is gone, and its database with it: restore it, or use another DATA_DIR")
            kept = {field: make() for field, make in fields.items()}
            self.save(name, kept)
        if not isinstance(kept, dict) or any(not isinstance(kept.get(field), str) for field in fields):
            raise StartError(f"{path} is damaged: restore it, or start anew with another DATA_DIR")
        return kept
