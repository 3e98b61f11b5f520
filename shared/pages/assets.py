"""The files that pages load: our own, and those of npm packages, which the Lambda bundle contains.

    Assets("/docs/assets", (here / "docs.css", vendored("@picocss/pico/css/pico.min.css")))

The path of an asset contains a hash of its contents, so browsers may keep it for ever.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
from collections.abc import Iterable
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import Response

from shared.core import settings
from shared.pages import documents

_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}


def vendored(name: str) -> Path:
    """The file of an npm package, by its path below `node_modules` (`shared/core/vendored.py`)."""
    return Path(settings.vendored_folder() or Path(__file__).parent / "vendored") / name


class Asset:
    """A file that the pages load. It is read when it is first needed."""

    def __init__(self, base: str, file: Path) -> None:
        self._base, self._file = base, file

    @functools.cached_property
    def content(self) -> bytes:
        """The file's contents."""
        return self._file.read_bytes()

    @functools.cached_property
    def compressed(self) -> bytes:
        """The contents, compressed by gzip."""
        return gzip.compress(self.content, mtime=0)

    @functools.cached_property
    def path(self) -> str:
        """The path at which it is served."""
        return f"{self._base}/{hashlib.sha256(self.content).hexdigest()[:16]}/{self._file.name}"

    @property
    def media_type(self) -> str:
        """The value of Content-Type."""
        return _TYPES[self._file.suffix]


class Assets:
    """The assets of a group of pages, below the path `base`."""

    def __init__(self, base: str, files: Iterable[Path]) -> None:
        self.by_name = {file.name: Asset(base, file) for file in files}

    def path(self, name: str) -> str:
        """The path of the asset with this file name."""
        return self.by_name[name].path

    def response(self, path: str, requested: Headers) -> Response | None:
        """The response with the asset of this path; None if there is none. `requested` are the request's headers."""
        asset = self.by_name.get(path.rpartition("/")[2])
        if asset is None or asset.path != path:
            return None
        headers = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
        headers |= {"X-Content-Type-Options": "nosniff"}
        if documents.accepts_gzip(requested):
            return Response(asset.compressed, 200, headers | {"Content-Encoding": "gzip"}, asset.media_type)
        return Response(asset.content, 200, headers, asset.media_type)
