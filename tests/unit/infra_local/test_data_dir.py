"""The runner's folder: what it refuses to use."""

from pathlib import Path

import pytest

from infra.local.console import StartError
from infra.local.data_dir import FORMAT, DataDir


def test_a_folder_can_be_used_again(tmp_path: Path) -> None:
    DataDir(tmp_path).close()
    (tmp_path / "dynamodb").mkdir()
    again = DataDir(tmp_path)
    assert again.load("format.json") == FORMAT
    again.close()


@pytest.mark.parametrize("written", [None, "1", str(FORMAT + 1), '"two"'])
def test_data_of_another_version_is_refused_in_one_line(tmp_path: Path, written: str | None) -> None:
    (tmp_path / "dynamodb").mkdir()
    if written is not None:
        (tmp_path / "format.json").write_text(written)
    with pytest.raises(StartError, match="another version of the service: use another DATA_DIR") as refused:
        DataDir(tmp_path)
    assert "\n" not in str(refused.value)


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    first = DataDir(tmp_path)
    with pytest.raises(StartError, match="in use by another runner"):
        DataDir(tmp_path)
    first.close()
