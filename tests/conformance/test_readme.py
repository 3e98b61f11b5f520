"""The README's five minutes, run as they are written: only the port, the key and the receiver's port are put in."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.client import wait_for
from tests.support.documentation import assert_refuses_unsigned
from tests.support.runner import ROOT, Service, free_port

PATIENCE = 120


def blocks(language: str) -> list[str]:
    """The section's blocks of code in a language."""
    section = (ROOT / "README.md").read_text().split("## Five minutes")[1].split("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)


def answers(printed: str) -> Iterator[Any]:
    """The JSON texts that follow each other in what was printed."""
    while printed := printed.strip():
        found, end = json.JSONDecoder().raw_decode(printed)
        yield found
        printed = printed[end:]


@pytest.mark.runner("goes to the address that `make run` prints")
def test_the_five_minutes_end_in_verified_webhooks(service: Service, tmp_path: Path) -> None:
    _, who, helpers, register, change, stopped, talk, ring, consent = blocks("sh")
    (receiver,) = blocks("python")
    start = "python3 receiver.py >> received.txt & RECEIVER=$!; sleep 1"
    helper = 'patiently() { for n in $(seq 60); do eval "$1" && return || sleep 0.5; done; return 1; }'
    confirmed, cancelled, rescheduled = (
        f"patiently 'grep -q appointment.{kind} received.txt'" for kind in ("confirmed", "cancelled", "rescheduled")
    )
    script = "\n".join(
        [
            "set -euo pipefail; trap 'kill $RECEIVER || true' EXIT",
            *(helper, who, helpers, register, start, change, confirmed),
            *("kill $RECEIVER", "wait $RECEIVER || true", stopped, start, talk, ring, consent, cancelled, rescheduled),
            """patiently 'call GET /sessions/$PENDING | grep "call_status.:.completed"'""",
        ]
    )
    port = str(free_port())
    values = {"http://127.0.0.1:8000": service.base_url, "sk_test_…": service.projects[0].test_key}
    for written, value in values.items():
        assert written in script
        script = script.replace(written, value)
    script = script.replace("127.0.0.1:9000", f"127.0.0.1:{port}")
    (tmp_path / "receiver.py").write_text(receiver.replace("9000", port))

    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
    )

    assert done.returncode == 0, done.stderr
    assert '"object":"ping"' in done.stdout
    assert '"status":"attempting"' in done.stdout
    assert '"type":"appointment_rescheduled"' in done.stdout
    sessions = [answer for answer in answers(done.stdout) if answer["object"] == "session"]
    assert (sessions[0]["channel"], sessions[0]["call_status"]) == ("phone", "completed")
    assert (sessions[-1]["consent"]["status"], sessions[-1]["call_status"]) == ("granted", "completed")
    assert '"role":"customer"' in done.stdout
    assert (tmp_path / "call.wav").read_bytes().startswith(b"RIFF")
    received = (tmp_path / "received.txt").read_text()
    assert "REFUSED" not in received
    for change_of in ("created", "confirmed", "cancelled", "rescheduled"):
        assert f'"type":"appointment.{change_of}"' in received


def test_the_receiver_refuses_what_is_not_signed(tmp_path: Path) -> None:
    (receiver,) = blocks("python")
    port = free_port()
    (tmp_path / "receiver.py").write_text(receiver.replace("9000", str(port)))
    command = [sys.executable, "receiver.py"]
    with subprocess.Popen(command, cwd=tmp_path, env=os.environ | {"SECRET": "whsec_"}) as running:
        try:
            wait_for(lambda: is_listening(port))
            assert_refuses_unsigned(port)
        finally:
            running.terminate()


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
