from __future__ import annotations

from pathlib import Path

import pytest

from infra.local.console import StartError
from infra.local.settings import read


def test_an_empty_variable_is_an_absent_one() -> None:
    found = read({"PORT": "", "READY_FILE": "", "SPEED": ""})
    assert (found.port, found.data_dir, found.speed, found.ready_file) == (8000, Path.cwd() / ".data", 1.0, None)


@pytest.mark.parametrize(
    "environment",
    [
        {"CANARY": "yes"},
        {"PORT": "http"},
        {"PORT": "-1"},
        {"PORT": "65536"},
        {"SPEED": "0"},
        {"SPEED": "nan"},
        {"SPEED": "fast"},
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(environment: dict[str, str]) -> None:
    with pytest.raises(StartError):
        read(environment)


def test_the_canary_is_off_unless_it_is_turned_on() -> None:
    assert [read(setting).canary for setting in ({}, {"CANARY": ""}, {"CANARY": "0"}, {"CANARY": "1"})] == [
        False,
        False,
        False,
        True,
    ]


def test_an_option_wins_over_the_environment(tmp_path: Path) -> None:
    found = read({"DATA_DIR": "/elsewhere", "SPEED": "50"}, ["--data-dir", str(tmp_path), "--port=0"])
    assert (found.data_dir, found.port, found.speed) == (tmp_path, 0, 50.0)
