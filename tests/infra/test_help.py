"""Every operator's command says what it does, and does nothing else, if it is asked for help."""

from __future__ import annotations

import argparse
import importlib
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra.manage.__main__ import WORDS
from infra.manage.command import COMMANDS

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__main__")
    for path in ROOT.glob("infra/**/*.py")
    if '__name__ == "__main__"' in path.read_text() and path.name != "backend.py"
)
"""The programs of the folder. The local runner starts its backend itself, and `infra.cli` has tests of its own."""


def test_the_programs_are_found() -> None:
    assert {"infra.app", "infra.bundle", "infra.local", "infra.manage", "infra.rehearse"} <= {*PROGRAMS}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_that_is_asked_for_help_does_nothing_else(program: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", program, "--help"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    usage, _, rest = done.stdout.partition("\n\n")
    assert usage.startswith(f"usage: python -m {program} ")
    assert not rest.startswith(("options:", "positional arguments:")), "it does not say what it does"
    assert not [*tmp_path.iterdir()]


def test_a_function_of_the_operators_commands_has_the_arguments_that_are_declared() -> None:
    for module, _ in WORDS.values():
        importlib.import_module(f"infra.manage.{module}")
    assert {words.split()[0] for words in COMMANDS} == {*WORDS}
    for words, command in COMMANDS.items():
        parser = argparse.ArgumentParser()
        declared = {parser.add_argument(each.name, **each.options).dest for each in command.arguments}
        assert {*inspect.signature(command.function).parameters} == {"run", *declared}, words
