"""Which service and key a command uses: stored profiles, or the environment, which wins.

Keys are stored in the system's keyring. Where there is none, they are in the profiles' file, which only its owner can
read. A key is never an argument, so neither the shell's history nor the list of processes shows it.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from .command import COMMAND, KEY, Command, Failure, Settings

NAMES = ("test", "live", "local")
LOCAL_URL = "http://127.0.0.1:8000"
_KEYRING_SERVICE = "appointments-cli"


@dataclass(frozen=True)
class Profile:
    """A service and a key for it."""

    name: str
    url: str
    key: str = field(repr=False)
    key_source: str

    @property
    def livemode(self) -> bool:
        """Whether the key is a live key."""
        return self.key.startswith("sk_live_")


def resolve(name: str | None) -> Profile:
    """The profile to use, completed or replaced by the environment."""
    stored = _load()
    name = name or stored.get("default") or ("local" if "APPOINTMENTS_API_KEY" not in os.environ else "")
    entry = stored["profiles"].get(name, {})
    key, source = os.environ.get("APPOINTMENTS_API_KEY", ""), "APPOINTMENTS_API_KEY"
    if not key:
        key, source = (entry["key"], str(_file())) if entry.get("key") else (_keyring_key(name, entry), "the keyring")
    if not key:
        raise Failure(
            f"There is no API key for the profile '{name}'.",
            f"Run `{COMMAND} login`, or set APPOINTMENTS_API_KEY.",
            KEY,
        )
    check_key(key, name)
    return Profile(name or mode_of(key), url_of(name), key.strip(), source)


def url_of(name: str | None) -> str:
    """The address of a profile's service, which needs no key."""
    stored = _load()
    name = name or stored.get("default")
    url = os.environ.get("APPOINTMENTS_URL") or stored["profiles"].get(name, {}).get("url")
    if not url and name in ("test", "live"):
        raise Failure(
            f"There is no address for the profile '{name}'.", f"Run `{COMMAND} login`, or set APPOINTMENTS_URL."
        )
    return clean_url(url or LOCAL_URL)


def mode_of(key: str) -> str:
    """`live` or `test`."""
    return "live" if key.startswith("sk_live_") else "test"


def check_key(key: str, profile_name: str) -> None:
    """Refuse what is no key, and a key of another mode than the profile's, so that a slip calls no real people."""
    if not re.fullmatch(r"sk_(test|live)_[!-~]+", key.strip()):
        raise Failure("That is not an API key: keys begin with sk_test_ or sk_live_.", exit_code=KEY)
    if profile_name in ("test", "live") and mode_of(key) != profile_name:
        raise Failure(
            f"The profile is '{profile_name}', but the key is a {mode_of(key)} key.",
            f"Choose the profile with `{COMMAND} -p {mode_of(key)} …`.",
            KEY,
        )


def clean_url(text: str) -> str:
    """The service's base address, without `/v1`. Plain http is for this machine only: it would reveal the key."""
    url = re.sub(r"(/v1)?/*$", "", text.strip())
    parts = urlsplit(url if "://" in url else f"https://{url}")
    if parts.scheme != "https" and not is_loopback(parts.geturl()):
        raise Failure(f"{text} must begin with https://, because requests contain the API key.")
    return parts.geturl()


def is_loopback(url: str) -> bool:
    """Whether an address is this machine's."""
    return urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")


def _file() -> Path:
    import platformdirs

    return platformdirs.user_config_path(COMMAND) / "profiles.json"


def _load() -> dict[str, Any]:
    import json

    try:
        stored: dict[str, Any] = json.loads(_file().read_text(encoding="utf-8"))
    except FileNotFoundError:
        stored = {"profiles": {}}
    return stored


def write_private(path: Path, text: str) -> None:
    """Replace a file by one that only its owner can read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{os.getpid()}")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    new.replace(path)


def _save(stored: dict[str, Any]) -> None:
    import json

    write_private(_file(), json.dumps(stored, indent=2))


def _keyring_key(name: str, entry: dict[str, Any]) -> str:
    """The key in the keyring, if the profile says that it is there."""
    if not entry:
        return ""
    import keyring
    from keyring.errors import KeyringError

    with contextlib.suppress(KeyringError):
        return keyring.get_password(_KEYRING_SERVICE, name) or ""
    return ""


def _store_key(name: str, key: str) -> bool:
    """Whether the keyring has taken the key."""
    import keyring
    from keyring.errors import KeyringError

    try:
        keyring.set_password(_KEYRING_SERVICE, name, key)
        return keyring.get_password(_KEYRING_SERVICE, name) == key
    except KeyringError:
        return False


def _read_key() -> str:
    if sys.stdin.isatty():
        return str(click.prompt("API key", hide_input=True, err=True)).strip()
    return sys.stdin.readline().strip()


@click.command(
    cls=Command,
    prints=False,
    examples=(
        "login",
        "login --url https://api.example.com",
        "-p local login < key.txt",
    ),
)
@click.option(
    "--url", metavar="URL", help=f"The address of the service. The default is that of `make run`, {LOCAL_URL}."
)
@click.pass_obj
def login(settings: Settings, url: str | None) -> None:
    """Store an address and an API key.

    Asks for what it needs; a key that is not typed is read from stdin. A service on this machine becomes the profile
    `local`, and another one `test` or `live`, as its key. The profile of the last login is the default, but `live` has
    to be chosen each time, with `-p live`.
    """
    from .api import Client

    url = url or os.environ.get("APPOINTMENTS_URL")
    if not url and sys.stdin.isatty():
        url = click.prompt("Address of the service", default=LOCAL_URL, err=True)
    url = clean_url(url or LOCAL_URL)
    key = _read_key()
    name = settings.profile_name or ("local" if is_loopback(url) else mode_of(key))
    check_key(key, name)
    ping = Client(url, key).get("/v1/ping")
    stored = _load()
    in_keyring = _store_key(name, key)
    stored["profiles"][name] = {"url": url} if in_keyring else {"url": url, "key": key}
    if name != "live":
        stored["default"] = name
    _save(stored)
    place = "the keyring" if in_keyring else f"{_file()}, which only you can read: this machine has no keyring"
    click.echo(f"Logged in to {ping['project_name']} ({mode_of(key)} mode) as the profile '{name}'.")
    click.echo(f"The key is in {place}.")


@click.command(cls=Command, prints=False, examples=("logout", "-p live logout"))
@click.pass_obj
def logout(settings: Settings) -> None:
    """Forget a profile and its API key."""
    import keyring
    from keyring.errors import KeyringError

    stored = _load()
    name = settings.profile_name or stored.get("default") or ""
    if stored["profiles"].pop(name, None) is None:
        raise Failure(f"There is no profile '{name}'.")
    if stored.get("default") == name:
        stored["default"] = None
    _save(stored)
    with contextlib.suppress(KeyringError):
        keyring.delete_password(_KEYRING_SERVICE, name)
    click.echo(f"Forgot the profile '{name}'.")


@click.command(cls=Command, examples=("whoami", "-p live whoami", "whoami --json"))
@click.pass_obj
def whoami(settings: Settings) -> None:
    """Show whose key is used, and where it comes from."""
    from . import output

    profile = settings.profile
    ping = settings.client.get("/v1/ping")
    output.show(
        settings,
        {
            "project_name": ping["project_name"],
            "project_id": ping["project_id"],
            "mode": "live" if ping["livemode"] else "test",
            "profile": profile.name,
            "url": profile.url,
            "key_from": profile.key_source,
        },
    )


@click.command(name="open", cls=Command, prints=False, examples=("open docs", "-p live open admin"))
@click.argument("page", type=click.Choice(["docs", "admin"]))
@click.pass_obj
def open_page(settings: Settings, page: str) -> None:
    """Open the documentation or the admin pages in the browser."""
    import webbrowser

    url = f"{url_of(settings.profile_name)}/{page}"
    click.echo(url)
    webbrowser.open(url)
