"""`login`, `whoami`, `open`: where the key comes from, and that it is never shown."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from tests.cli.processes import Cli
from tests.support.runner import Service

KEYRING = '''
import json, pathlib
from keyring.backend import KeyringBackend

class FileKeyring(KeyringBackend):
    """What a desktop's keyring is to the command."""
    priority = 1
    file = pathlib.Path(__file__).with_name("keyring.json")
    def _all(self): return json.loads(self.file.read_text()) if self.file.exists() else {}
    def get_password(self, service, username): return self._all().get(username)
    def set_password(self, service, username, password):
        self.file.write_text(json.dumps(self._all() | {username: password}))
    def delete_password(self, service, username):
        self.file.write_text(json.dumps({k: v for k, v in self._all().items() if k != username}))
'''


@pytest.fixture
def new_cli(tmp_path: Path) -> Cli:
    """The command on a machine that has never seen it."""
    return Cli(tmp_path)


def profiles(cli: Cli) -> Path:
    return cli.folder / "config/appt/profiles.json"


def test_login_in_a_terminal_hides_the_key_and_stores_it_for_the_owner_only(new_cli: Cli, service: Service) -> None:
    key = service.projects[0].test_key
    shown = new_cli.in_terminal("login", dialogue=(("Address", f"{service.base_url}/v1\n"), ("API key:", f"{key}\n")))
    assert "Logged in to Demo (test mode) as the profile 'local'" in " ".join(shown.split())
    assert stat.S_IMODE(profiles(new_cli).stat().st_mode) == 0o600
    asked = new_cli.run("whoami", "--json")
    assert json.loads(asked.out)["mode"] == "test"
    assert key not in shown + asked.out + asked.err

    # The environment wins.
    other = service.projects[1].test_key
    assert json.loads(new_cli.run("whoami", "--json", APPOINTMENTS_API_KEY=other).out)["project_name"] == "Second demo"
    assert "APPOINTMENTS_API_KEY" in new_cli.run("whoami", APPOINTMENTS_API_KEY=other).out

    new_cli.run("logout")
    assert "login" in new_cli.run("whoami", code=3).err


def test_a_keyring_keeps_the_key_out_of_files(new_cli: Cli, service: Service) -> None:
    (new_cli.folder / "file_keyring.py").write_text(KEYRING)
    new_cli.environment["PYTHONPATH"] += os.pathsep + str(new_cli.folder)
    new_cli.environment["PYTHON_KEYRING_BACKEND"] = "file_keyring.FileKeyring"
    key = service.projects[0].live_key
    new_cli.run("login", "--url", service.base_url, stdin=service.projects[0].test_key)
    said = new_cli.run("-p", "live", "login", "--url", service.base_url, stdin=key)
    assert "The key is in the keyring" in said.out
    assert "sk_" not in profiles(new_cli).read_text()

    # A live key is used only if it is asked for.
    assert "test" in new_cli.run("whoami").out
    shown = new_cli.run("-p", "live", "whoami").out
    assert "the keyring" in shown
    assert key not in shown
    assert "needs a test key" in new_cli.run("-p", "live", "trigger", "customer.created", code=1).err


@pytest.mark.parametrize(
    ("arguments", "key", "code"),
    [
        (["login", "--url", "http://api.example.com"], "sk_test_x", 1),
        (["login"], "whsec_x", 3),
        (["-p", "live", "login"], "sk_test_x", 3),
    ],
)
def test_login_refuses_plain_http_and_keys_of_another_kind(
    new_cli: Cli, arguments: list[str], key: str, code: int
) -> None:
    refused = new_cli.run(*arguments, stdin=key, code=code)
    assert key not in refused.out + refused.err
    assert not profiles(new_cli).exists()


def test_an_unknown_key_and_a_silent_service_have_exit_codes_of_their_own(cli: Cli) -> None:
    assert "appt login" in cli.run("whoami", code=3, APPOINTMENTS_API_KEY="sk_test_unknown").err
    assert "make run" in cli.run("whoami", code=5, APPOINTMENTS_URL="http://127.0.0.1:1").err


def test_open_starts_the_browser(cli: Cli, service: Service) -> None:
    browser = cli.folder / "browser"
    browser.write_text('#!/bin/sh\necho "$1" > opened\n')
    browser.chmod(0o755)
    for place in ("docs", "admin"):
        cli.run("open", place, BROWSER=str(browser))
        assert (cli.folder / "opened").read_text().strip() == f"{service.base_url}/{place}"


def test_no_command_takes_a_key_as_an_argument(new_cli: Cli, service: Service) -> None:
    """Neither the history of a shell nor `ps` has it."""
    key = service.projects[0].test_key
    for arguments in (["login", key], ["login", "--key", key], ["--key", key, "whoami"], ["login", "--api-key", key]):
        refused = new_cli.run(*arguments, code=2)
        assert "No such option" in refused.err or "unexpected extra argument" in refused.err
    new_cli.run("login", "--url", service.base_url, stdin=key)
    with new_cli.start("listen") as running:
        shown = Path(f"/proc/{running.process.pid}/cmdline").read_text()
        assert "listen" in shown
        assert key not in shown + running.err + Path(f"/proc/{running.process.pid}/environ").read_text()
