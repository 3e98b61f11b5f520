"""`python -m infra.openapi [FILE]`: prints the API description, or writes it to a file."""

from __future__ import annotations

import sys
from pathlib import Path

from infra.openapi.document import readable

if len(sys.argv) > 1:
    Path(sys.argv[1]).write_text(readable(), encoding="utf-8")
else:
    sys.stdout.write(readable())
