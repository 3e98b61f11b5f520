"""S3 objects that survive a restart of moto. Each is a file, `<folder>/<bucket>/<percent-encoded key>`.

A file has one line of JSON (`size` in bytes, `etag`, `last_modified`, `metadata` with the content type), and then the
content: both are in one file, so that one rename writes both atomically. The content is not kept in memory. Versions,
tags and access lists are not stored.
"""

from __future__ import annotations

import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.s3.models import FakeKey, S3Backend, s3_backends

from infra.local import names

_PARTITION = "aws"
# An encoded key contains no comma.
_DRAFT = ",draft"


class KeptObjects(S3Backend):
    """An S3 backend with files. The constructor installs it as moto's S3 in this process."""

    def __init__(self, folder: Path) -> None:
        super().__init__(_PARTITION, DEFAULT_ACCOUNT_ID)
        self._folder = folder
        self._unsaved: list[FakeKey] = []
        s3_backends[DEFAULT_ACCOUNT_ID][_PARTITION] = self

    def restore(self) -> list[Path]:
        """Load the stored objects. Returns the damaged files, which are neither loaded nor changed."""
        damaged = []
        for path in sorted(self._folder.glob("*/*")):
            if path.name.endswith(_DRAFT):
                path.unlink()
                continue
            try:
                self._restore(path)
            except (OSError, ValueError, LookupError, TypeError):
                damaged.append(path)
        return damaged

    def save(self) -> None:
        """Write the objects that were put since the last call. Raises OSError.

        It is called after each request, because moto sets an object's metadata only after it has put the object.
        """
        unsaved, self._unsaved = self._unsaved, []
        for key in unsaved:
            self._save(key)

    def put_object(self, *args: Any, **kwargs: Any) -> FakeKey:
        """As moto's."""
        key = super().put_object(*args, **kwargs)
        self._unsaved.append(key)
        return key

    def delete_object(self, bucket_name: str, key_name: str, *args: Any, **kwargs: Any) -> tuple[bool, dict[str, Any]]:
        """As moto's."""
        self._path(bucket_name, key_name).unlink(missing_ok=True)
        return super().delete_object(bucket_name, key_name, *args, **kwargs)

    def _path(self, bucket_name: str, key_name: str) -> Path:
        return self._folder / bucket_name / quote(key_name, safe="")

    def _save(self, key: FakeKey) -> None:
        path = self._path(str(key.bucket_name), key.name)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        facts = {
            "size": key.size,
            "etag": key.etag.strip('"'),
            "last_modified": key.last_modified.isoformat(),
            "metadata": dict(key.metadata),
        }
        head = json.dumps(facts).encode() + b"\n"
        draft = path.with_name(path.name + _DRAFT)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(head)
            file.write(key.value)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        _move_content(key, path, len(head))

    def _restore(self, path: Path) -> None:
        with path.open("rb") as file:
            head = file.readline()
        facts = json.loads(head)
        if path.stat().st_size != len(head) + facts["size"]:
            raise ValueError("truncated")
        etag, last_modified = str(facts["etag"]), datetime.fromisoformat(facts["last_modified"])
        metadata = dict(facts["metadata"])
        bucket_name = path.parent.name
        if bucket_name not in self.buckets:
            self.create_bucket(bucket_name, names.REGION)
        key = super().put_object(bucket_name, unquote(path.name), b"", etag=etag)
        key.set_metadata(metadata)
        key.last_modified, key.contentsize = last_modified, facts["size"]
        _move_content(key, path, len(head))


class _InFile:
    """The content of an object, read on demand, with the methods that moto's `FakeKey` calls."""

    def __init__(self, path: Path, start: int) -> None:
        self._path, self._start = path, start

    def seek(self, position: int) -> None:
        """Do nothing: moto reads only from the beginning."""

    def read(self) -> bytes:
        with self._path.open("rb") as file:
            file.seek(self._start)
            return file.read()

    def close(self) -> None:
        """Do nothing: no file is open."""


def _move_content(key: FakeKey, path: Path, start: int) -> None:
    """Release the content in memory: moto keeps every object that it created, even deleted ones."""
    key._value_buffer.close()
    vars(key)["_value_buffer"] = _InFile(path, start)
