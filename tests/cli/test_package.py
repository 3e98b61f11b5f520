"""The package alone: installed in a virtual environment of its own, and the two minutes of its README."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from shared.docs import markdown
from tests.cli.processes import Cli
from tests.support.runner import ROOT, Service, free_port

PACKAGE = ROOT / "infra/cli"
SLOW = ("httpx", "keyring", "rich", "platformdirs", "sqlite3")


def test_help_imports_nothing_that_is_slow() -> None:
    code = f"import sys, infra.cli.main; print([name for name in {SLOW!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_it_is_installed_by_the_commands_of_the_documentation(service: Service, tmp_path: Path) -> None:
    install, login = (
        block.text.replace(markdown.BASE_URL, service.base_url)
        for block in markdown.document("local").blocks
        if "command" in block.options
    )
    uv = f"{sys.executable} -m uv"
    script = "\n".join(
        [
            f"set -eu; {uv} venv --quiet venv; export VIRTUAL_ENV=$PWD/venv PATH=$PWD/venv/bin:$PATH",
            install.replace("pipx", f"{uv} pip"),
            f"{login} < key.txt",
            "appt whoami",
        ]
    )
    (tmp_path / "key.txt").write_text(service.projects[0].test_key)
    environment = os.environ | Cli(tmp_path).environment | {"PYTHONPATH": ""}
    command = ["sh", "-c", script]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, done
    assert service.projects[0].name in done.stdout.partition("project_name")[2]


def test_it_is_installed_alone_and_its_readmes_two_minutes_are_enough(service: Service, tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "source", ignore=shutil.ignore_patterns("__pycache__"))
    uv = [sys.executable, "-m", "uv"]
    for command in (["venv", str(tmp_path / "venv")], ["pip", "install", str(tmp_path / "source")]):
        environment = os.environ | {"VIRTUAL_ENV": str(tmp_path / "venv")}
        subprocess.run([*uv, *command, "--quiet"], check=True, env=environment, cwd=tmp_path)
    _, login, secret, listen, trigger, talk = re.findall(
        r"```sh\n(.*?)```", (PACKAGE / "README.md").read_text(), re.DOTALL
    )
    receiver = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[0]
    port = str(free_port())
    (tmp_path / "receiver.py").write_text(receiver.replace("9000", port))
    login = login.replace("login", f"login --url {service.base_url} < key.txt")
    (tmp_path / "key.txt").write_text(service.projects[0].test_key)
    script = "\n".join(
        [
            "set -euo pipefail; trap 'kill $(jobs -p)' EXIT",
            'patiently() { for n in $(seq 80); do eval "$1" && return || sleep 0.25; done; return 1; }',
            *(login, secret, "python3 receiver.py > received.txt &"),
            *(
                f"{listen.strip().replace('9000', port)} > listened.txt 2>&1 &",
                "patiently 'grep -q Forwarding listened.txt'",
            ),
            *(trigger, "patiently 'grep -q appointment.confirmed received.txt'", talk),
        ]
    )
    cli = Cli(tmp_path, PATH=f"{tmp_path / 'venv/bin'}{os.pathsep}{os.environ['PATH']}")
    del cli.environment["PYTHONPATH"]
    began = time.monotonic()
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=cli.environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done
    assert time.monotonic() - began < 120
    assert "agent: " in done.stdout
    assert "appointment_confirmed" in done.stderr
    received = (tmp_path / "received.txt").read_text()
    assert "verified" in received
    assert "REFUSED" not in received
