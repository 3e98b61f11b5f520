"""The programs of /docs/languages verify signatures. A toolchain that is missing fails its tests: none is skipped."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from shared.core import clock
from shared.docs import markdown
from shared.webhooks import signing

COMMANDS: Mapping[str, tuple[str, ...]] = {
    "go": ("go", "run", "verify.go"),
    "php": ("php", "verify.php"),
    "ruby": ("ruby", "verify.rb"),
    "java": ("java", "Verify.java"),
    "csharp": ("mono", "Verify.exe"),
}
COMPILERS: Mapping[str, tuple[str, ...]] = {"csharp": ("mcs", "-out:Verify.exe", "Verify.cs")}
"""Debian has Mono, but no .NET."""
BODY = '{"id":"evt_1","name":"Zoë"}'
SECRET, OTHER = signing.new_secret(), signing.new_secret()


def test_every_language_of_the_page_is_run() -> None:
    assert {block.language for block in markdown.document("languages").blocks} == {*COMMANDS}


@pytest.mark.parametrize("language", COMMANDS)
def test_a_program_accepts_what_the_service_signs_and_nothing_else(language: str, tmp_path: Path) -> None:
    (block,) = (one for one in markdown.document("languages").blocks if one.language == language)
    (tmp_path / block.options["file"]).write_text(block.text)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SECRET": SECRET}
    if language in COMPILERS:
        subprocess.run(COMPILERS[language], cwd=tmp_path, env=environment, timeout=120, check=True)

    def run_program(header: str, body: bytes = BODY.encode()) -> str:
        command = [*COMMANDS[language], header]
        done = subprocess.run(command, input=body, capture_output=True, cwd=tmp_path, env=environment, timeout=120)
        said = done.stdout.decode().strip()
        assert (said, done.returncode) in (("genuine", 0), ("refused", 1)), done
        return said

    now = clock.UnixSeconds(int(time.time()))
    genuine = signature(now, SECRET)
    assert run_program(genuine) == "genuine"
    assert run_program(signature(now, OTHER, SECRET)) == "genuine"
    assert run_program(signature(now, SECRET, OTHER)) == "genuine"
    assert run_program(signature(now, OTHER)) == "refused"
    assert run_program(signature(clock.UnixSeconds(now - 400), SECRET)) == "refused"
    assert run_program(genuine, BODY.encode() + b" ") == "refused"
    for malformed in ("", ",", "=", "t=", "t=x,v1=00", f"t={now}", f"t={now},v1=", f"t={now},v1=00,v1", "v1,t,é"):
        assert run_program(malformed) == "refused", malformed


def signature(sent_at: clock.UnixSeconds, *secrets: str) -> str:
    """The value of Service-Signature as the service sends it."""
    return signing.headers(secrets, "evt_1", BODY.encode(), sent_at)["Service-Signature"]
