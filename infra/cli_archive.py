"""The sources of the command line for clients in an archive that pip installs. The documentation serves it."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

_CLI = Path(__file__).with_name("cli")


def archive() -> bytes:
    """The archive. The same sources give the same bytes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for source in (_CLI / "pyproject.toml", _CLI / "README.md", *sorted(_CLI.glob("*.py"))):
            file.writestr(zipfile.ZipInfo(source.name), source.read_bytes())
    return packed.getvalue()
