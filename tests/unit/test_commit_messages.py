"""What `.ci/check-message` takes for a commit message that says what changed, and why."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

CHECK = Path(__file__).parents[2] / ".ci/check-message"
SUBJECT = "A call ends once"
LONG = "x" * 73
VERBOSE = "# ------------------------ >8 ------------------------\ndiff --git a/x b/x\n"


def is_fine(message: str) -> bool:
    done = subprocess.run([str(CHECK)], input=message, capture_output=True, text=True, timeout=20)
    assert (done.returncode == 0) == (done.stdout == "")
    return done.returncode == 0


@pytest.mark.parametrize(
    "message",
    [
        f"{SUBJECT}\n\nTwo workers ended it.\n",
        f"# a comment\n{'x' * 72}\n\nWhy: it was too long.\n",
        f"{SUBJECT}\n\nWhy.\n{VERBOSE}",
    ],
)
def test_a_message_with_a_short_subject_and_a_reason_is_fine(message: str) -> None:
    assert is_fine(message)


@pytest.mark.parametrize(
    "message",
    [
        SUBJECT,
        f"{LONG}\n\nWhy.\n",
        f"# a comment\n{LONG}\n\nWhy.\n",
        f"{SUBJECT}\n\n# a comment\n",
        f"{SUBJECT}\n{VERBOSE}",
        f"{SUBJECT}\n\nCo-authored-by: Ada <ada@example.com>\n",
        "",
    ],
)
def test_a_message_without_a_reason_or_with_a_long_subject_is_refused(message: str) -> None:
    assert not is_fine(message)
