"""The client in Go that /docs/generate describes is generated, compiled and used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from shared.docs import markdown
from tests.support.runner import local_runner, memory_folder


def test_the_documented_commands_and_program_for_go_work(tmp_path: Path) -> None:
    blocks = {
        block.options.get("command") or block.options.get("file"): block.text
        for block in markdown.document("generate").blocks
    }
    with memory_folder() as folder, local_runner(folder, 1) as service:
        environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "API": f"{service.base_url}/v1",
            "KEY": service.projects[0].test_key,
        }

        def run(command: str) -> str:
            text = command.replace(markdown.BASE_URL, service.base_url)
            done = subprocess.run(
                ["sh", "-euc", text], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
            )
            assert done.returncode == 0, done
            return done.stdout

        run(blocks["go"])
        program = tmp_path / "appointments/first/main.go"
        program.parent.mkdir()
        program.write_text(blocks["appointments/first/main.go"])
        assert run(blocks["go-run"]).startswith("created cust_")
