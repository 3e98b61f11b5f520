"""Clients that OpenAPI Generator writes read the values of a later revision: statuses, codes, actions and events."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.docs import markdown
from tests.support.later_revision import check, later_revision
from tests.support.runner import Service, local_runner, memory_folder

HERE = Path(__file__).parent
COMMITTED = HERE.parent / "openapi.json"
SPEED = 50


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with memory_folder() as folder, local_runner(folder, SPEED) as started:
        yield started


class Program:
    """A program in a folder with a generated client."""

    def __init__(self, service: Service, folder: Path) -> None:
        self.service, self.folder = service, folder
        self.key = service.projects[0].test_key
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.environment = {"PATH": path, "HOME": str(folder), "KEY": self.key}

    def run(self, command: str, **environment: str) -> str:
        """What a command prints."""
        done = subprocess.run(
            ["sh", "-euc", command],
            cwd=self.folder,
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def generate(self, command: str) -> None:
        """Run a command of the page that generates a client."""
        self.run(command.replace(markdown.BASE_URL, self.service.base_url))

    def survives(self, command: str) -> None:
        """Run it against a service of a later revision."""
        since = int(time.time())
        with later_revision(self.service.base_url) as later_url:
            printed = self.run(command, LATER_URL=later_url)
        check(printed, self.service.base_url, self.key, since)


@pytest.fixture
def program(service: Service, tmp_path: Path) -> Program:
    return Program(service, tmp_path)


def documented(option: str) -> str:
    """The text of the page's block with this command."""
    (block,) = (one for one in markdown.document("generate").blocks if one.options.get("command") == option)
    return block.text


def test_a_client_in_go_survives_a_later_revision(program: Program) -> None:
    program.generate(documented("go"))
    (program.folder / "appointments/future").mkdir()
    shutil.copy(HERE / "future.go", program.folder / "appointments/future/main.go")
    program.survives("cd appointments && go run ./future")


def test_a_client_in_java_survives_a_later_revision(program: Program) -> None:
    """Its libraries are those of OpenAPI Generator and of Debian. Neither has that of `openApiNullable`."""
    described = json.loads(COMMITTED.read_text())["components"]["schemas"]
    nullable = {
        part["$ref"].rpartition("/")[2]
        for schema in described.values()
        for field in schema.get("properties", {}).values()
        for part in field.get("anyOf", ())
        if {"type": "null"} in field["anyOf"] and part.get("$ref", "").endswith("Value")
    }
    assert {*re.findall(r"(\w+)=\$string", documented("java"))} == nullable
    program.generate(documented("java") + ",openApiNullable=false")
    shutil.copy(HERE / "Future.java", program.folder)
    jar = Path(sys.executable).parents[1].glob("lib/python*/site-packages/openapi_generator_cli/openapi-generator.jar")
    libraries = f"{next(jar)}:/usr/share/java/geronimo-annotation-1.3-spec.jar"
    program.run(f"javac -nowarn -d classes -cp {libraries} Future.java $(find client-java/src/main -name '*.java')")
    program.survives(f"java -cp classes:{libraries} Future")


def test_a_client_in_php_survives_a_later_revision(program: Program) -> None:
    program.generate(documented("php"))
    shutil.copy(HERE / "future.php", program.folder)
    program.survives("GUZZLE=/usr/share/php/GuzzleHttp/autoload.php php future.php")
