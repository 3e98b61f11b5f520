"""What the steps act by: commands, requests, calls of AWS and waits. A dry run prints them and does nothing."""

from __future__ import annotations

import datetime as dt
import functools
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import boto3
from botocore.exceptions import ClientError

from infra.bundle import ROOT
from infra.rehearse.traffic import Traffic
from infra.stack_names import API_OUTPUT, construct_id, stack_name
from infra.stage import Stage

SECOND, MINUTE, HOUR = 1, 60, 3600
RESPONSE_S = 30
"""Seconds in which the API must respond. The gateway itself gives up after 29."""
COPIED = ("functions", "infra", "requirements", "shared", "cdk.json", "package.json")
"""What a release is deployed from."""
EXAMPLE_TIME = "2026-11-21T10:15:00Z"
"""In a dry run, the time at which everything was created."""
PHONE = "+15005550006"
LAST_LINES = 15
"""The number of lines that are shown of a command that failed."""


class Failed(Exception):
    """A step did not see what it must see. The message says what it saw instead."""


@dataclass(frozen=True)
class Edit:
    """A change of a release: in a file of the repository, one text becomes another. The text is there once."""

    path: str
    before: str
    after: str


_PING = "functions/ping.py"
_SECOND = Edit(_PING, '"object": "ping",', '"object": "second ping",')
FIRST_PING, SECOND_PING = "ping", "second ping"
"""The `object` of a ping's response, which tells the releases apart."""
RELEASES: Mapping[str, tuple[Edit, ...]] = {
    "first": (),
    "second": (_SECOND,),
    "bad": (_SECOND, Edit(_PING, "    body: Ping = {", '    raise RuntimeError("rehearsed")\n    body: Ping = {')),
    "restored": (_SECOND, Edit("infra/stack.py", 'self, "Table",', 'self, "RestoredTable",')),
}
"""The releases that the rehearsal deploys, as changes of what the repository has now."""


class Placeholders(dict[str, Any]):
    """A response in a dry run: what it does not have is `<name>`."""

    def __missing__(self, name: str) -> str:
        return f"<{name}>"


@dataclass
class Rehearsal:
    """One rehearsal of a stage. `folder` has its report, its log, and the state with which it is continued."""

    stage: Stage
    region: str
    folder: Path
    dry: bool
    email: str | None = None
    phone: str | None = None
    failing_url: str | None = None
    connect_to: str | None = None
    state: dict[str, Any] = field(default_factory=dict)
    _keys: dict[bool, str] = field(default_factory=dict)
    _printed: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        """The stage's name."""
        return self.stage.name

    @property
    def stack(self) -> str:
        """The name of the stage's stack."""
        return stack_name(self.name)

    @property
    def restored_table(self) -> str:
        """The name of the restored table."""
        return f"{self.stack}-restored-1"

    def save(self) -> None:
        """Store the state, so that an interrupted rehearsal can be continued or cleaned up."""
        if not self.dry:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / "state.json").write_text(json.dumps(self.state, indent=2), encoding="utf-8")

    def must(self, seen: bool, problem: str) -> None:
        """Raise Failed if the step did not see what it must see. A dry run sees nothing."""
        if not seen and not self.dry:
            raise Failed(problem)

    def show(self, line: str) -> None:
        """Print what a dry run does not do, once in a step."""
        if self.dry and line not in self._printed:
            self._printed.add(line)
            print(f"    {line}")

    def next_step(self) -> None:
        """In a dry run, print again what an earlier step has printed."""
        self._printed.clear()

    def once(self, what: str, act: Callable[[], object]) -> None:
        """Do what cannot be repeated, unless it was done before an interruption."""
        if what not in self.state.setdefault("once", []):
            act()
            self.state["once"].append(what)
            self.save()

    def wait(self, what: str, check: Callable[[], bool], *, within_s: float, every_s: float = 5) -> float:
        """Check until it is true. Returns the seconds that it took; raises Failed if it takes too long."""
        self.show(f"# until {what}, for at most {within_s / MINUTE:g} min:")
        began = time.monotonic()
        while not check() and not self.dry:
            self.must(time.monotonic() < began + within_s, f"not within {within_s / MINUTE:g} min: {what}")
            time.sleep(every_s)
        return time.monotonic() - began

    def pause(self, seconds: float) -> None:
        """Wait for some seconds."""
        self.show(f"# {seconds:g} s later:")
        if not self.dry:
            time.sleep(seconds)

    # Commands

    def run(self, *command: str, folder: Path = ROOT, secret: bool = False, fails: bool = False) -> str:
        """Run a command, and return what it wrote. Raises Failed unless it ends as expected.

        What it wrote goes to the log, unless it is secret.
        """
        shown = shlex.join(["python" if part == sys.executable else part for part in command])
        where = f"cd {os.path.relpath(folder, ROOT)} && " if folder != ROOT else ""
        self.show(f"{where}{shown}")
        if self.dry:
            return ""
        path, own = os.environ["PATH"], str(Path(sys.executable).parent)
        done = subprocess.run(
            command,
            cwd=folder,
            # The CDK starts the `node` and the `python3` of the virtual environment.
            env=os.environ
            | {"PATH": path if own in path.split(os.pathsep) else f"{own}{os.pathsep}{path}"}
            | dict.fromkeys(("AWS_REGION", "AWS_DEFAULT_REGION"), self.region),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        with (self.folder / "log.txt").open("a", encoding="utf-8") as log:
            log.write(f"$ {where}{shown}\n{'(secret)' if secret else done.stdout}\n")
        tail = "\n".join(done.stdout.splitlines()[-LAST_LINES:])
        self.must((done.returncode != 0) is fails, f"{shown} ended with {done.returncode}:\n{tail}")
        return done.stdout

    def manage(self, *arguments: str, secret: bool = False) -> str:
        """What a command of the operator writes."""
        return self.run(sys.executable, "-m", "infra.manage", "--stage", self.name, *arguments, secret=secret)

    def checkout(self, release: str) -> Path:
        """A copy of the repository with the release's changes."""
        folder = self.folder / release
        self.show(
            f"# {os.path.relpath(folder, ROOT)} is a copy of the repository" + (", with:" if RELEASES[release] else "")
        )
        for edit in RELEASES[release]:
            self.show(f"#   in its {edit.path}: {edit.before.strip()} -> {' '.join(edit.after.split())}")
        if not self.dry:
            shutil.rmtree(folder, ignore_errors=True)
            copy(ROOT, folder, RELEASES[release])
        return folder

    def deploy(self, release: str, *, fails: bool = False) -> str:
        """Deploy a release as `make deploy` does. Returns what the command wrote."""
        return self.run(sys.executable, "-m", "infra.deploy", self.name, folder=self.checkout(release), fails=fails)

    def cdk(self, command: str, *arguments: str, folder: Path = ROOT) -> str:
        """Run a command of the CDK's command line."""
        context = ("--context", f"stage={self.name}")
        return self.run("npx", "--no-install", "cdk", command, *arguments, *context, folder=folder)

    # AWS

    def aws(self, service: str) -> Any:
        """A boto3 client. In a dry run it prints its calls, checked against AWS's service model."""
        sdk: Any = boto3
        if not self.dry:
            return sdk.client(service, region_name=self.region)
        client = sdk.client(service, region_name=self.region, aws_access_key_id="-", aws_secret_access_key="-")  # noqa: S106
        client.meta.events.register("before-parameter-build", self._show_call)
        client.meta.events.register("before-call", _respond)
        return client

    def _show_call(self, params: Mapping[str, Any], model: Any, **_: Any) -> None:
        service = model.service_model.service_name
        self.show(f"{service} {model.name} {json.dumps(params, default=_in_json, ensure_ascii=False)}")

    def outputs(self) -> Mapping[str, str]:
        """The stack's outputs."""
        (stack,) = self.aws("cloudformation").describe_stacks(StackName=self.stack)["Stacks"]
        found = {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}
        return Placeholders() if self.dry else found

    def stack_status(self) -> str | None:
        """The status of the stack; None if there is none."""
        try:
            (stack,) = self.aws("cloudformation").describe_stacks(StackName=self.stack)["Stacks"]
        except ClientError as error:
            if "does not exist" in error.response["Error"]["Message"]:
                return None
            raise
        return str(stack["StackStatus"])

    def resources(self, kind: str, prefix: str = "") -> list[str]:
        """The physical ids of the stack's resources of a type whose logical ids begin like this."""
        pages = self.aws("cloudformation").get_paginator("list_stack_resources").paginate(StackName=self.stack)
        found = [
            each["PhysicalResourceId"]
            for page in pages
            for each in page["StackResourceSummaries"]
            if each["ResourceType"] == kind and each["LogicalResourceId"].startswith(prefix)
        ]
        return [f"<{prefix}>" if prefix else f"each-{kind.replace('::', '-')}-of-the-stack"] if self.dry else found

    def resource(self, kind: str, prefix: str = "") -> str:
        """The physical id of the one resource of a type whose logical id begins like this."""
        (found,) = self.resources(kind, prefix)
        return found

    def canary(self) -> None:
        """Start the canary once. Raises Failed if it does not pass."""
        alias = self.resource("AWS::Lambda::Alias", f"{construct_id('canary')}Live")
        answer = self.aws("lambda").invoke(FunctionName=alias, Payload=b"{}")
        result = json.loads(answer["Payload"].read())
        self.must(result == {"passed": True}, f"the canary answered {result}; see the function's log")

    # The API

    @functools.cached_property
    def base_url(self) -> str:
        """The API's address."""
        return self.outputs()[API_OUTPUT]

    def send(self, key: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Send a request. Returns the status and the JSON of the response; raises OSError without one."""
        url = urlsplit(self.base_url + path)
        at = url._replace(scheme="http", netloc=self.connect_to) if self.connect_to else url
        request = urllib.request.Request(
            urlunsplit(at),
            method=method,
            headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json", "Host": url.netloc},
            data=None if body is None else json.dumps(body).encode(),
        )
        try:
            with urllib.request.urlopen(request, timeout=RESPONSE_S) as response:
                status, content = response.status, response.read()
        except urllib.error.HTTPError as error:
            with error:
                status, content = error.code, error.read()
        try:
            return status, json.loads(content)
        except ValueError:
            return status, content.decode(errors="replace")

    def request(self, method: str, path: str, body: Any = None, *, live: bool = False) -> tuple[int, Any]:
        """The status and the JSON of a response."""
        key = self.key(live=live)
        shown = "" if body is None else f" {json.dumps(body)}"
        self.show(f"{method} {self.base_url}{path}{shown}")
        if self.dry:
            return 0, Placeholders(created_at=EXAMPLE_TIME, data=[Placeholders()])
        return self.send(key, method, path, body)

    def api(self, method: str, path: str, body: Any = None, *, live: bool = False) -> Any:
        """The JSON of a response, which must be a success."""
        status, found = self.request(method, path, body, live=live)
        self.must(status < 300, f"{method} {path} got {status}: {json.dumps(found)[:300]}")
        return found

    def gone(self, customer: str) -> bool:
        """Whether a customer does not exist."""
        return self.request("GET", f"/v1/customers/{customer}")[0] == 404

    def release(self) -> str:
        """The `object` of a ping's response, which names the release; the status if it is an error."""
        status, found = self.request("GET", "/v1/ping")
        return str(found["object"]) if status == 200 or self.dry else str(status)

    def create_customer(self) -> Any:
        """A new customer of test mode."""
        return self.api("POST", "/v1/customers", {"phone": PHONE, "name": "Rehearsal"})

    def project(self) -> str:
        """The number of the rehearsal's project."""
        if "project" not in self.state:
            created = re.search(r"^project (\d+)", self.manage("projects", "create", "Rehearsal"), re.MULTILINE)
            self.state["project"] = created[1] if created else "<project>"
            self.save()
        return str(self.state["project"])

    def key(self, *, live: bool = False) -> str:
        """An API key of the rehearsal's project. It is stored nowhere, so each run creates its own."""
        if live not in self._keys:
            mode = "live" if live else "test"
            said = self.manage("keys", "create", self.project(), "--mode", mode, "--label", "rehearsal", secret=True)
            self._keys[live] = "" if self.dry else re.findall(rf"sk_{mode}_\w+", said)[0]
        return self._keys[live]

    def forget_keys(self) -> None:
        """Create keys again when they are used: a restored table lacks those that were created later."""
        self._keys.clear()

    @contextmanager
    def traffic(self) -> Iterator[Traffic]:
        """Requests that go on during the block."""
        self.show("# meanwhile, five times a second GET /v1/ping, and once a second POST /v1/customers:")
        key = self.key()
        traffic = Traffic(functools.partial(self.send, key), PHONE)
        if self.dry:
            yield traffic
            return
        with traffic.running():
            yield traffic


def copy(source: Path, target: Path, edits: tuple[Edit, ...]) -> None:
    """Copy what a release is deployed from, and change it. Deploys from the copy ask no questions."""
    target.mkdir(parents=True)
    for name in COPIED:
        if (source / name).is_dir():
            shutil.copytree(source / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source / name, target)
    (target / "node_modules").symlink_to((source / "node_modules").resolve())
    settings = json.loads((target / "cdk.json").read_text(encoding="utf-8"))
    settings |= {"requireApproval": "never", "progress": "events", "notices": False}
    (target / "cdk.json").write_text(json.dumps(settings, indent=2), encoding="utf-8")
    for edit in edits:
        path = target / edit.path
        text = path.read_text(encoding="utf-8")
        if text.count(edit.before) != 1:
            raise Failed(f"{edit.path} does not contain {edit.before.strip()} once, so the release cannot be made")
        path.write_text(text.replace(edit.before, edit.after), encoding="utf-8")


def _respond(model: Any, **_: Any) -> tuple[Any, Any]:
    """The response of a dry run's call, which botocore takes instead of sending the call."""
    return SimpleNamespace(status_code=200), _example(model.output_shape, "") if model.output_shape else {}


def _example(shape: Any, name: str, depth: int = 0) -> Any:
    """A value of this shape. Pages of a list have no token, so that there is one page."""
    match shape.type_name:
        case "structure" if depth < 8:
            members = {each: it for each, it in shape.members.items() if not re.search("(Token|Marker)$", each)}
            return {each: _example(it, each, depth + 1) for each, it in members.items()}
        case "list" if depth < 8:
            return [_example(shape.member, name, depth + 1)]
        case "string":
            return f"<{name}>"
        case "integer" | "long" | "float" | "double":
            return 0
        case "timestamp":
            return dt.datetime.fromisoformat(EXAMPLE_TIME)
        case "boolean":
            return False
        case "blob":
            return io.BytesIO(b"{}")
    return {}


def _in_json(value: Any) -> str:
    return value.isoformat() if isinstance(value, dt.datetime) else value.decode()
