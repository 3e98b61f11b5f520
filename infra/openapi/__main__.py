"""`python -m infra.openapi [FILE]`: prints the API description, or writes it to a file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from infra.openapi.document import readable

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m infra.openapi", description="Generate the API description, in OpenAPI 3.1."
    )
    parser.add_argument("file", nargs="?", type=Path, help="where to write it, instead of the standard output")
    if file := parser.parse_args().file:
        file.write_text(readable(), encoding="utf-8")
    else:
        sys.stdout.write(readable())
