from __future__ import annotations

from pathlib import Path

import pytest

from shared.aws.credentials import Source


def test_lambdas_credentials_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source()
    assert source.current().session_token is None
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    found = source.current()
    assert (found.access_key_id, found.session_token) == ("AKIDEXAMPLE", "token")
    assert "wJalr" not in repr(found)
    assert "token'" not in repr(found)


def test_a_persons_profile_is_read_by_boto3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "credentials"
    file.write_text("[ada]\naws_access_key_id = AKIDADA\naws_secret_access_key = hidden\n")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_PROFILE", "ada")
    assert Source().current().access_key_id == "AKIDADA"
