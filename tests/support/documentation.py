"""Runs the examples of a page of the documentation as a reader does: in a shell, with Python and with Node."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shared.docs import markdown
from shared.docs.markdown import Block
from tests.support.runner import ROOT, free_port

COMMANDS = {"curl": ("bash", "-euo", "pipefail"), "sh": ("bash", "-euo", "pipefail"), "js": ("node",)}
SUFFIXES = {"curl": "sh", "sh": "sh", "python": "py", "js": "mjs"}
PATIENCE = 60
VARYING = {"duration_seconds"}
"""Fields whose values depend on the runner's SPEED."""
SIGNATURES = ("", "x", ",", "=", "t=", "t=x,v1=00", "t=1,v1=", "t=1,v1=00,v1=11", "t=1,v1=\xff", "v1,x", "v1,\xff")
"""Wrong signatures, most of them malformed, for each of the headers."""
_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


@dataclass(frozen=True)
class Outcome:
    """What an example has printed. `status` is None if it does not print it."""

    status: int | None
    headers: Mapping[str, str]
    body: Any


@dataclass
class Reader:
    """A reader who runs the examples of a page in one language, one after another.

    `provide` returns the value of a variable that the page tells the reader to export.
    """

    language: str
    folder: Path
    base_url: str
    provide: Callable[[str], str]
    variables: dict[str, str] = field(default_factory=dict)
    printed: dict[str, str] = field(default_factory=dict)
    """The output of each program, by its file name."""

    def __post_init__(self) -> None:
        # Node looks for packages in the folders above a module.
        (self.folder / "node_modules").symlink_to(ROOT / "node_modules")
        command = self.folder / "bin/appt"
        command.parent.mkdir()
        command.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m infra.cli "$@"\n')
        command.chmod(0o755)

    def read(self, blocks: list[Block], receive: Callable[[Reader, Block], None]) -> None:
        """Run every example of a page; `receive` tries out a program that receives webhooks."""
        following = [*blocks, None][1:]
        for block, after in zip(blocks, following, strict=True):
            if block.language == "request":
                expected = after.text if after is not None and after.language == "response" else None
                self._request(block, expected)
            elif block.language == "sh" and all(line.startswith("export ") for line in block.text.splitlines()):
                self._export(block)
            elif block.language == self.language and "receiver" in block.options:
                receive(self, block)
            elif block.language in (self.language, "sh"):
                self.printed[block.options.get("file", "")] = self._run(block.language, self._code(block.text))
            else:
                # `tests/languages` runs the programs of other languages.
                others = ("go", "php", "ruby", "java", "csharp")
                assert block.language in ("response", "json", "text", *others, *markdown.LANGUAGES), block

    @contextlib.contextmanager
    def serving(self, block: Block) -> Iterator[tuple[int, Path]]:
        """A program that receives webhooks, on a free port, and the file of what it prints."""
        port = free_port()
        source = self._code(block.text)
        assert source.count("9000") == 1
        output = self.folder / f"{block.options['file']}.out"
        with output.open("wb") as printed:
            command = self._command(block.language, block.options["file"], source.replace("9000", str(port)))
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=self._environment(),
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield port, output
        finally:
            # The command `node` may be a script that runs the program as a process of its own.
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(10)

    def _export(self, block: Block) -> None:
        for line in block.text.splitlines():
            exported = re.fullmatch(r"export ([A-Z]+)=(\S+)(?: +# .*)?", line)
            assert exported, line
            name = exported[1]
            shown = exported[2].replace(markdown.BASE_URL, self.base_url)
            self.variables[name] = shown if name == "API" else self.provide(name)

    def _request(self, block: Block, expected: str | None) -> None:
        outcome = self._sent(block, expected)
        for name, response_field in markdown.saved(block):
            self.variables[name] = field_of(outcome.body, response_field)

    def _sent(self, block: Block, expected: str | None) -> Outcome:
        """The outcome of a request. If it comes later, curl waits for it, because it starts faster than the others."""
        if "later" in block.options:
            self._sent_in("curl", block, expected, time.monotonic() + PATIENCE)
        return self._sent_in(self.language, block, expected, time.monotonic())

    def _sent_in(self, language: str, block: Block, expected: str | None, deadline: float) -> Outcome:
        while True:
            printed = self._run(language, block.variants[language])
            outcome = _outcome(language, printed, shows_headers=block.request.shows_headers)
            complaint = self._complaint(outcome, expected)
            if not complaint:
                return outcome
            assert time.monotonic() < deadline, f"{complaint}\n{block.text}\n{json.dumps(outcome.body, indent=2)}"
            time.sleep(0.2)

    def _complaint(self, outcome: Outcome, expected: str | None) -> str:
        """What differs from the response of the page, or from a success if the page shows none."""
        if expected is None:
            return f"it failed: {outcome.body['error']['code']}" if "error" in outcome.body else ""
        head, _, body = self._code(expected).partition("\n\n")
        status, *headers = head.splitlines()
        if outcome.status not in (None, int(status)):
            return f"the status is {outcome.status}, not {status}"
        for line in headers if outcome.headers else ():
            name, _, value = line.partition(": ")
            if not re.fullmatch(pattern(value), outcome.headers.get(name.lower(), "")):
                return f"{name} is {outcome.headers.get(name.lower())!r}, not {value!r}"
        return difference(json.loads(body), outcome.body, "")

    def _code(self, text: str) -> str:
        return text.replace(markdown.BASE_URL, self.base_url)

    def _run(self, language: str, code: str) -> str:
        command = self._command(language, f"example.{SUFFIXES[language]}", code)
        done = subprocess.run(
            command, cwd=self.folder, env=self._environment(), capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 0, f"{code}\n{done.stdout}{done.stderr}"
        return done.stdout

    def _command(self, language: str, name: str, code: str) -> list[str]:
        (self.folder / name).write_text(code)
        return [*COMMANDS.get(language, (sys.executable,)), name]

    def _environment(self) -> dict[str, str]:
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        return {"PATH": path, "HOME": str(self.folder)} | self.variables


def _outcome(language: str, printed: str, *, shows_headers: bool) -> Outcome:
    if language != "curl":
        *lines, last = printed.rstrip().splitlines()
        status, _, body = last.partition(" ")
        return Outcome(int(status), _headers(lines), json.loads(body))
    if not shows_headers:
        return Outcome(None, {}, json.loads(printed))
    head, _, body = printed.replace("\r\n", "\n").partition("\n\n")
    first, *lines = head.splitlines()
    return Outcome(int(first.split()[1]), _headers(lines), json.loads(body))


def field_of(body: Any, path: str) -> str:
    """The field of a response, such as `id`, `conversation.id` or `data.0.id`."""
    for part in path.split("."):
        body = body[int(part) if part.isdigit() else part]
    assert isinstance(body, str)
    return body


def pattern(shown: str) -> str:
    """The regular expression of a text in which an ellipsis stands for anything, and a time for any time."""
    return ".*".join(_TIME if re.fullmatch(_TIME, part) else re.escape(part) for part in shown.split("…"))


def difference(shown: Any, actual: Any, place: str) -> str:
    """Where the actual value differs from the one that the page shows; empty if nowhere.

    The name `…` stands for the fields that the page does not show.
    """
    if isinstance(shown, str) and isinstance(actual, str):
        return "" if re.fullmatch(pattern(shown), actual, re.DOTALL) else f"{place} is {actual!r}, not {shown!r}"
    if isinstance(shown, dict) and isinstance(actual, dict):
        names = set(shown) - {"…"}
        if names - set(actual) or ("…" not in shown and names != set(actual)):
            return f"{place or 'it'} has the fields {sorted(actual)}, not {sorted(shown)}"
        compared = names - VARYING
        return next(filter(None, (difference(shown[name], actual[name], f"{place}.{name}") for name in compared)), "")
    if isinstance(shown, list) and isinstance(actual, list):
        if len(shown) != len(actual):
            return f"{place} has {len(actual)} items, not {len(shown)}"
        pairs = enumerate(zip(shown, actual, strict=True))
        return next(filter(None, (difference(one, other, f"{place}[{n}]") for n, (one, other) in pairs)), "")
    return "" if shown == actual and type(shown) is type(actual) else f"{place} is {actual!r}, not {shown!r}"


def assert_refuses_unsigned(port: int) -> None:
    """A receiver on this port responds with a 400 to requests without a signature or with a wrong one.

    It also does so after a connection that was closed within a request.
    """
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\ncut")
    now = int(time.time())
    requests: list[tuple[list[str], bytes]] = [([], b""), (["Content-Length: 2"], b"{}")]
    for value, body in itertools.product(SIGNATURES, (b"{}", b"\xff")):
        fields = [f"Service-Signature: {value}", f"webhook-signature: {value}", f"Content-Length: {len(body)}"]
        requests += [(fields, body), ([*fields, "webhook-id: \xff", f"webhook-timestamp: {now}"], body)]
    for fields, body in requests:
        head = "\r\n".join(["POST / HTTP/1.1", "Host: 127.0.0.1", "Connection: close", *fields, "", ""])
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
            connection.sendall(head.encode("latin-1") + body)
            status = connection.recv(1024).split(b"\r\n")[0].split()
        assert status[1:2] == [b"400"], (fields, body, status)


def _headers(lines: list[str]) -> dict[str, str]:
    pairs = (line.partition(":") for line in lines)
    return {name.lower(): value.strip() for name, _, value in pairs}
