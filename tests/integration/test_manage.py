"""`python -m infra.manage` in a process of its own, beside a local runner that is up."""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from infra.manage.__main__ import main
from shared.store import table
from tests.integration import managing
from tests.integration.managing import PATIENCE, ROOT
from tests.support.runner import LocalRunner

REFUSALS_KEPT = 5 + 2
"""Seconds; what is remembered of a key is short."""


@dataclass(frozen=True)
class Runner:
    """A running service and the folder that it holds."""

    data_dir: Path
    facts: dict[str, Any]

    def manage(self, *arguments: str) -> managing.Done:
        # None of the service's own variables: the tool finds the runner by its folder.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        environment |= {"DATA_DIR": str(self.data_dir)}
        return managing.manage(arguments, environment)

    def done(self, *arguments: str) -> str:
        ran = self.manage(*arguments)
        assert (ran.code, ran.err) == (0, ""), ran
        return ran.out

    def new_project(self, name: str) -> int:
        found = re.fullmatch(rf"project (\d+)  {re.escape(name)}\n", self.done("projects", "create", name))
        assert found
        return int(found[1])

    def new_key(self, project: int, *options: str) -> tuple[str, str]:
        """Id and plaintext of a new key."""
        out = self.done("keys", "create", str(project), *options)
        id, plaintext = re.search(r"key_[0-9a-z]{26}", out), re.search(r"sk_(test|live)_\w+", out)
        assert id
        assert plaintext
        return id[0], plaintext[0]

    def get(self, key: str, path: str = "/v1/ping") -> tuple[int, Any]:
        request = urllib.request.Request(self.facts["base_url"] + path, headers={"Authorization": f"Bearer {key}"})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def post(self, key: str, path: str, body: Any) -> Any:
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.facts["base_url"] + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def known(self) -> Any:
        """What the runner tells the operator's commands."""
        return json.loads((self.data_dir / "runner.json").read_text())

    def client(self, service: Any, url: str) -> Any:
        """A client of the runner's AWS."""
        import boto3

        known = self.known()
        return boto3.client(
            service,
            endpoint_url=known[url],
            region_name="us-east-1",
            aws_access_key_id=known["access_key_id"],
            aws_secret_access_key="local",
        )

    def rows(self) -> list[dict[str, Any]]:
        """All that the table holds, in DynamoDB's own JSON, with readable documents."""
        pages = (
            self.client("dynamodb", "dynamodb_url").get_paginator("scan").paginate(TableName=self.facts["table_name"])
        )
        items: list[dict[str, Any]] = [dict(item) for page in pages for item in page["Items"]]
        for item in items:
            for name in table.DOCUMENTS & item.keys():
                if "B" in item[name]:
                    # boto3 decodes Base64, which the table's own format has.
                    stored = {name: {"B": base64.b64encode(item[name]["B"]).decode()}}
                    item[name] = {"S": table.decode(stored)[name]}
        return items


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    local = LocalRunner(tmp_path_factory.mktemp("managed"), speed=50)
    local.start()
    try:
        yield Runner(local.data_dir, local.ready())
    finally:
        local.close()


def table_rows(table: str) -> list[dict[str, str]]:
    """The rows of a table, by the columns of its head."""
    head, *rows = [re.split(" {2,}", line.strip()) for line in table.splitlines()]
    return [dict(zip(head, row, strict=False)) for row in rows]


@contextmanager
def refusing() -> Iterator[tuple[str, list[str]]]:
    """An endpoint of AWS that refuses every request: its URL, and the `Authorization` of each request."""
    authorizations: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            authorizations.append(self.headers["Authorization"])
            body = b"<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>"
            self.send_response(403)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", authorizations
    finally:
        server.shutdown()
        server.server_close()


def error_line(ran: managing.Done) -> str:
    """The one line that a command that could not be carried out leaves."""
    assert ran.code == 1, ran
    assert ran.out == ""
    assert re.fullmatch(r"error: [^\n]+\n", ran.err), ran.err
    assert "Traceback" not in ran.err
    return ran.err


def test_a_new_project_gets_the_next_number_and_is_listed(runner: Runner) -> None:
    first, second = runner.new_project("Zo\u00eb & Sons"), runner.new_project("Zo\u00eb & Sons")
    rows = table_rows(runner.done("projects", "list"))

    assert second == first + 1
    assert [row["id"] for row in rows] == sorted((row["id"] for row in rows), key=int)
    names = {row["id"]: row["name"] for row in rows}
    assert (names[str(first)], names[str(second)]) == ("Zo\u00eb & Sons",) * 2
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", row["created"]) for row in rows)


@pytest.mark.parametrize("mode", ["test", "live"])
def test_a_new_key_speaks_for_its_project_and_mode(runner: Runner, mode: str) -> None:
    project = runner.new_project(f"Keys {mode}")
    _, plaintext = runner.new_key(project, "--mode", mode, "--label", "Main")
    status, ping = runner.get(plaintext)

    assert plaintext.startswith(f"sk_{mode}_")
    assert status == 200
    assert (ping["project_id"], ping["project_name"]) == (project, f"Keys {mode}")
    assert ping["livemode"] is (mode == "live")


def test_the_mode_is_test_unless_it_is_named(runner: Runner) -> None:
    _, plaintext = runner.new_key(runner.new_project("Default"))

    assert plaintext.startswith("sk_test_")


def test_a_key_has_160_random_bits_at_least_and_no_two_are_alike(runner: Runner) -> None:
    project = runner.new_project("Random")
    keys = {runner.new_key(project)[1] for _ in range(3)}

    assert len(keys) == 3
    # 62 characters hold 5.95 bits each.
    assert all(re.fullmatch(r"sk_test_[A-Za-z0-9]{27,}", key) for key in keys)


def test_the_plaintext_is_shown_once_and_kept_nowhere(runner: Runner) -> None:
    project = runner.new_project("Secret")
    id, plaintext = runner.new_key(project, "--label", "Main")
    runner.get(plaintext)
    secret = plaintext.removeprefix("sk_test_")
    listed = runner.done("keys", "list", str(project))

    assert id in listed
    assert secret not in listed
    assert secret not in runner.done("keys", "revoke", str(project), id)
    assert secret not in json.dumps(runner.rows(), default=repr)
    for path in runner.data_dir.rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path.name


def test_the_list_shows_label_mode_and_last_use_but_not_more_than_the_end_of_a_key(runner: Runner) -> None:
    project = runner.new_project("Collection")
    used, plaintext = runner.new_key(project, "--mode", "live", "--label", "Used")
    unused, _ = runner.new_key(project, "--label", "Unused")
    before = time.strftime("%Y-%m-%dT%H:%M", time.gmtime())
    runner.get(plaintext)
    after = time.strftime("%Y-%m-%dT%H:%M", time.gmtime())
    first, second = table_rows(runner.done("keys", "list", str(project)))

    assert (first["id"], second["id"], first["label"], second["label"]) == (used, unused, "Used", "Unused")
    assert first["key"] == f"sk_live_\u2026{plaintext[-4:]}"
    assert re.fullmatch(rf"({before}|{after}):[\d.]{{6}}Z", first["last used"])
    assert (second["last used"], second["revoked"]) == ("never", "no")


def test_a_revoked_key_is_refused_at_once_and_the_project_s_others_are_not(runner: Runner) -> None:
    project = runner.new_project("Revoked")
    id, plaintext = runner.new_key(project, "--label", "Old")
    _, other = runner.new_key(project, "--label", "New")
    assert runner.get(plaintext)[0] == 200
    told = runner.done("keys", "revoke", str(project), id)
    status, answer = runner.get(plaintext)

    assert (status, answer["error"]["code"]) == (401, "api_key_revoked")
    assert runner.get(other)[0] == 200
    since = re.fullmatch(rf"key {id} was revoked at (\S+)\n", told)
    assert since
    assert [row["revoked"] for row in table_rows(runner.done("keys", "list", str(project)))] == [since[1], "no"]
    assert runner.done("keys", "revoke", str(project), id) == told


def test_a_new_key_works_though_it_was_tried_before_it_existed(runner: Runner) -> None:
    unknown = "sk_test_" + "x" * 32
    assert runner.get(unknown)[1]["error"]["code"] == "api_key_invalid"
    _, plaintext = runner.new_key(runner.new_project("Tried"))

    assert runner.get(plaintext)[0] == 200


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("keys", "create", "999999"), "999999"),
        (("keys", "list", "999999"), "999999"),
        (("keys", "revoke", "999999", "key_x"), "999999"),
        (("keys", "revoke", "1", "key_x"), "key_x"),
        (("usage", "999999", "2026-11"), "there is no project 999999"),
        (("keys", "revoke", "1", "key_00000000000000000000000000"), "key_00000000000000000000000000"),
        (("keys", "create", "-1"), "-1"),
        (("calls", "show", "999999"), "999999"),
        (("search", "fill", "999999", "--mode", "test"), "999999"),
        (("conversations", "resume", "1", "conv_x", "--mode", "live"), "conv_x"),
        (("conversations", "resume", "999999", "conv_x", "--mode", "live"), "999999"),
        (("customers", "erase", "1", "cust_x", "--mode", "test"), "cust_x in project 1, test mode"),
        (("customers", "erase", "999999", "cust_x", "--mode", "live"), "999999"),
        (("customers", "export", "1", "cust_x", "--mode", "test"), "cust_x"),
        (("customers", "erase", "1", "cust_x"), "--mode"),
        (("customers", "erase", "1"), "--from-ledger"),
        (("customers", "erase", "1", "cust_x", "--from-ledger"), "--from-ledger"),
    ],
)
def test_what_does_not_exist_is_one_clear_line(runner: Runner, arguments: tuple[str, ...], told: str) -> None:
    if "-1" in arguments:
        arguments = (*arguments[:2], "--", *arguments[2:])

    assert told in error_line(runner.manage(*arguments))


def test_search_rows_are_deleted_and_made_again(runner: Runner) -> None:
    project = runner.new_project("Search")
    _, plaintext = runner.new_key(project)
    for name in ("Ada", "Bob"):
        runner.post(plaintext, "/v1/customers", {"phone": "+15005550006", "name": name})
    renew = (str(project), "--mode", "test")
    for command, changed in (("fill", 0), ("empty", 2), ("empty", 0), ("fill", 2)):
        assert f"changed {changed} customers" in runner.done("search", command, *renew)


def test_what_is_kept_about_a_customer_is_printed_as_json(runner: Runner) -> None:
    project = runner.new_project("Access")
    _, plaintext = runner.new_key(project)
    customer = runner.post(plaintext, "/v1/customers", {"phone": "+15005550006", "name": "Zoë"})
    printed = json.loads(runner.done("customers", "export", str(project), customer["id"], "--mode", "test"))
    assert printed["customers"] == [customer]


def test_a_project_needs_a_name(runner: Runner) -> None:
    error_line(runner.manage("projects", "create", ""))


def test_a_folder_without_a_runner_is_one_clear_line(tmp_path: Path, runner: Runner) -> None:
    told = error_line(runner.manage("--data-dir", str(tmp_path), "projects", "list"))

    assert "no runner is running" in told
    assert "make run" in told


@pytest.mark.parametrize("variable", ["AWS_REGION", "AWS_DEFAULT_REGION"])
def test_a_deployed_stage_is_looked_for_in_the_region_of_either_variable(variable: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment |= {variable: "eu-central-1", "AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_MAX_ATTEMPTS": "1"}
    environment |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_CONFIG_FILE": os.devnull}
    command = [sys.executable, "-m", "infra.manage", "--stage", "dev", "projects", "list"]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert ran.stderr.startswith("error: stack appointments-dev cannot be read: Could not connect"), ran


def test_a_deployed_stage_is_looked_for_in_its_region_of_cdk_json(tmp_path: Path) -> None:
    for name in ("functions", "infra", "shared"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "cdk.json").write_text('{"context": {"stages": {"dev": {"region": "eu-west-3"}}}}')
    with refusing() as (url, authorizations):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        environment |= {"AWS_REGION": "eu-central-1", "AWS_DEFAULT_REGION": "eu-central-1", "AWS_ENDPOINT_URL": url}
        environment |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_CONFIG_FILE": os.devnull}
        command = [sys.executable, "-m", "infra.manage", "--stage", "dev", "projects", "list"]
        ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert ran.stderr.startswith("error: stack appointments-dev cannot be read"), ran
    assert [authorization.split("/")[2] for authorization in authorizations] == ["eu-west-3"]


def test_a_runner_that_was_killed_is_one_clear_line(tmp_path: Path, runner: Runner) -> None:
    # It leaves its facts behind, and nobody answers at the addresses in them.
    facts = json.loads((runner.data_dir / "runner.json").read_text())
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{reserved.getsockname()[1]}"
        (tmp_path / "runner.json").write_text(json.dumps(facts | {"dynamodb_url": url, "aws_url": url}))
        error_line(runner.manage("--data-dir", str(tmp_path), "projects", "list"))


def test_facts_that_are_damaged_are_one_clear_line(tmp_path: Path, runner: Runner) -> None:
    (tmp_path / "runner.json").write_text("{")

    error_line(runner.manage("--data-dir", str(tmp_path), "projects", "list"))


def change_of(runner: Runner, customer_id: str) -> dict[str, Any]:
    """The stream's record of a customer's creation, made from its row."""
    (item,) = (row for row in runner.rows() if row["sk"] == {"S": customer_id})
    keys = {name: item[name] for name in ("pk", "sk")}
    change = {"Keys": keys, "NewImage": item, "SequenceNumber": "1", "StreamViewType": "NEW_AND_OLD_IMAGES"}
    return {"eventID": "1", "eventName": "INSERT", "eventSource": "aws:dynamodb", "dynamodb": change}


def put_aside(runner: Runner, name: str, record: dict[str, Any]) -> Path:
    """A batch as Lambda's on-failure destination gets it."""
    folder = runner.data_dir / "stream_failures"
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"version": "1.0", "payload": json.dumps({"Records": [record]})}))
    return path


def events_about(runner: Runner, key: str, object_id: str) -> list[Any]:
    status, page = runner.get(key, f"/v1/events?object_id={object_id}")
    assert status == 200
    found: list[Any] = page["data"]
    return found


def test_a_batch_that_was_put_aside_is_given_again_and_then_gone(runner: Runner) -> None:
    project = runner.new_project("Redriven")
    _, key = runner.new_key(project)
    customer = runner.post(key, "/v1/customers", {"phone": "+15005550006"})
    deadline = time.monotonic() + 30
    while not (before := events_about(runner, key, customer["id"])) and time.monotonic() < deadline:
        time.sleep(0.1)
    # As if fan_out had never taken the change: a resource whose event is not there yet.
    record = change_of(runner, customer["id"])
    lost = customer | {"id": "cust_" + "0" * 25 + "1"}
    record["dynamodb"]["NewImage"] |= {"sk": {"S": lost["id"]}, "doc": {"S": json.dumps(lost)}}
    path = put_aside(runner, "2026-01-01", record)
    told = runner.done("redrive-stream")

    assert told == f"{path.name}: 1 records\n1 batches processed again\n"
    assert not path.exists()
    (event,) = events_about(runner, key, lost["id"])
    assert (event["type"], event["data"]["object"]) == ("customer.created", lost)
    assert events_about(runner, key, customer["id"]) == before


def test_a_batch_that_was_taken_after_all_makes_no_second_event(runner: Runner) -> None:
    _, key = runner.new_key(runner.new_project("Twice"))
    customer = runner.post(key, "/v1/customers", {"phone": "+15005550006"})
    deadline = time.monotonic() + 30
    while not (before := events_about(runner, key, customer["id"])) and time.monotonic() < deadline:
        time.sleep(0.1)
    put_aside(runner, "2026-01-02", change_of(runner, customer["id"]))
    runner.done("redrive-stream")

    assert events_about(runner, key, customer["id"]) == before
    assert len(before) == 1


def test_a_batch_that_still_cannot_be_taken_stays_and_is_told(runner: Runner) -> None:
    _, key = runner.new_key(runner.new_project("Broken"))
    customer = runner.post(key, "/v1/customers", {"phone": "+15005550006"})
    record = change_of(runner, customer["id"])
    record["dynamodb"]["NewImage"]["doc"] = {"S": "not JSON"}
    path = put_aside(runner, "2026-01-03", record)
    try:
        ran = runner.manage("redrive-stream")
        assert ran.code == 1
        assert path.name in ran.err
        assert path.exists()
    finally:
        path.unlink()


def test_a_change_that_fails_for_itself_is_put_aside_at_once_and_can_be_given_again(runner: Runner) -> None:
    project = runner.new_project("Poisoned")
    poison = {"pk": f"P#{project}#test#customer", "sk": "cust_" + "0" * 26, "kind": "customer", "doc": "not JSON"}
    item = {name: {"S": value} for name, value in poison.items()}
    runner.client("dynamodb", "dynamodb_url").put_item(TableName=runner.facts["table_name"], Item=item)
    s3, bucket = runner.client("s3", "aws_url"), runner.known()["failed_batches"]
    deadline = time.monotonic() + PATIENCE
    while not (found := s3.list_objects_v2(Bucket=bucket).get("Contents")) and time.monotonic() < deadline:
        time.sleep(0.1)
    [stored] = found
    ran = runner.manage("redrive-stream")
    assert ran.code == 1
    assert stored["Key"] in ran.err
    assert len(s3.list_objects_v2(Bucket=bucket)["Contents"]) == 1
    s3.delete_object(Bucket=bucket, Key=stored["Key"])


def test_without_batches_there_is_nothing_to_give_again(runner: Runner) -> None:
    assert runner.done("redrive-stream") == "0 batches processed again\n"


def session_when_ended(runner: Runner, key: str, id: str) -> Any:
    """The session once its call is over."""
    deadline = time.monotonic() + PATIENCE
    while True:
        _, session = runner.get(key, f"/v1/sessions/{id}")
        if session["ended_at"] is not None:
            return session
        assert time.monotonic() < deadline, session
        time.sleep(0.1)


def call_and_wait(runner: Runner, key: str, phone: str) -> Any:
    """A call's session after its end."""
    customer = runner.post(key, "/v1/customers", {"phone": phone})
    call = runner.post(key, f"/v1/customers/{customer['id']}/call", {})
    return session_when_ended(runner, key, call["session_id"])


def test_calls_are_limited_to_prefixes_from_now_on(runner: Runner) -> None:
    project = runner.new_project("Limited")
    _, key = runner.new_key(project, "--mode", "live")
    assert call_and_wait(runner, key, "+15005550000")["call_status"] == "completed"

    said = runner.done("calls", "limit", str(project), "--prefix", "+44", "--prefix", "+4930", "--per-day", "7")
    assert said == f"project {project}: live calls to +44, +4930, 50 at once, 7 a day (UTC)\n"

    assert call_and_wait(runner, key, "+15005550000")["ended_reason"] == "destination_not_allowed"
    assert call_and_wait(runner, key, "+493012345678")["call_status"] == "completed"
    # One was dialed before the limits, one after; the destination that is not allowed was not.
    assert runner.done("calls", "show", str(project)) == said + "now 0, today 2\n"


def test_the_limits_of_a_new_project_are_the_defaults(runner: Runner) -> None:
    project = runner.new_project("Unlimited")
    told = f"project {project}: live calls to any number, 50 at once, 1000 a day (UTC)\nnow 0, today 0\n"
    assert runner.done("calls", "show", str(project)) == told


def test_revoked_consent_is_asked_for_anew(runner: Runner) -> None:
    project = runner.new_project("Revoked")
    _, key = runner.new_key(project)
    assert call_and_wait(runner, key, "+15005550020")["consent"]["status"] == "granted"

    told = runner.done("consents", "revoke", str(project), "+1 500 555 0020", "--mode", "test")
    assert told.startswith("revoked in test mode: the consent of +15005550020 was granted.")

    customer = runner.post(key, "/v1/customers", {"phone": "+15005550020"})
    assert runner.post(key, f"/v1/customers/{customer['id']}/call", {})["status"] == "consent_pending"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("consents", "revoke", "999", "+15005550020", "--mode", "live"), "there is no project 999"),
        (("consents", "revoke", "1", "+15005550020"), "--mode"),
        (("agent", "set", "1"), "--mode"),
        (("keys", "create", "1", "--days", "0"), "a number of days from 1 to 99999"),
        (("keys", "create", "1", "--days", "-5"), "a number of days from 1 to 99999"),
        (("keys", "create", "1", "--days", "9999999"), "a number of days from 1 to 99999"),
        (("consents", "revoke", "1", "12", "--mode", "live"), "a phone number has the form +15005550006"),
        (("conversations", "resume", "1", "conv_0", "--mode", "test"), "error: No such conversation: 'conv_0'."),
        (("customers", "export", "1", "cust_0", "--mode", "test"), "error: No such customer: 'cust_0'."),
        (("calls", "limit", "999"), "there is no project 999"),
        (("calls", "limit", "1", "--at-once", "-1"), "--at-once"),
        (("calls", "limit", "1", "--prefix", "44"), "a prefix is the beginning of a number"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(runner: Runner, arguments: tuple[str, ...], problem: str) -> None:
    ran = runner.manage(*arguments)
    assert ran.code != 0
    assert problem in ran.err


def test_a_conversation_that_was_handed_off_is_given_back_to_the_agent(runner: Runner) -> None:
    project = runner.new_project("Handed off")
    _, key = runner.new_key(project)
    conversation = runner.post(key, "/v1/conversations", {})["id"]
    path = f"/v1/conversations/{conversation}/messages"
    runner.post(key, path, {"content": "[[sim:handoff]]"})
    holding = runner.post(key, path, {"content": "Hello"})["reply"]["content"]

    resume = ("conversations", "resume", str(project), conversation, "--mode", "test")
    assert runner.done(*resume) == "resumed: the agent replies to the next message\n"
    assert runner.post(key, path, {"content": "Hello"})["reply"]["content"] != holding
    assert runner.done(*resume) == "nothing to do: this conversation is not handed to a person\n"


def test_the_settings_of_the_agent_are_shown_and_changed(runner: Runner, tmp_path: Path) -> None:
    project = runner.new_project("Agent")
    _, key = runner.new_key(project)
    of_project = (str(project), "--mode", "test")
    patch = tmp_path / "patch.json"
    patch.write_text('{"opening_hours": [{"days": ["monday"], "from": "09:00", "to": "17:00"}]}')
    assert runner.done("agent", "set", *of_project, "--file", str(patch)) == "changed\n"
    assert runner.done("agent", "set", *of_project, "--file", str(patch)) == "nothing to change\n"
    warned = runner.done("agent", "set", str(project), "--mode", "live", "--file", str(patch))
    assert warned == (
        "changed\nwithout calling_hours, people are called at any hour; the hours are those of timezone, which must be "
        "the one of the people who are called\n"
    )
    shown = json.loads(runner.done("agent", "show", *of_project))
    assert shown == runner.get(key, "/v1/agent_settings")[1]
    assert shown["opening_hours"][0]["days"] == ["monday"]
    patch.write_text('{"opening_hours": [{"days": ["monday"], "from": "17:00", "to": "09:00"}]}')
    refused = runner.manage("agent", "set", *of_project, "--file", str(patch))
    assert "opening_hours[0][to]: The end must be after the beginning." in error_line(refused)
    patch.write_bytes(b"\xff\xfe")
    assert "not a valid JSON object in UTF-8" in error_line(
        runner.manage("agent", "set", *of_project, "--file", str(patch))
    )


def test_a_customer_is_erased_and_again_from_the_ledger(runner: Runner) -> None:
    project = runner.new_project("Erased")
    _, key = runner.new_key(project, "--mode", "live")
    session = call_and_wait(runner, key, "+12125550106")
    customer, name = session["customer_id"], "Ottilie Quetzal"
    runner.post(key, "/v1/conversations", {"customer": {"id": customer}, "metadata": {"name": name}})
    kept = runner.post(key, "/v1/customers", {"phone": "+12125550107"})
    deadline = time.monotonic() + 30
    while not events_about(runner, key, kept["id"]) and time.monotonic() < deadline:
        time.sleep(0.1)
    put_aside(runner, "2026-01-04", change_of(runner, customer))
    usage = runner.done("usage", str(project), time.strftime("%Y-%m", time.gmtime()))
    assert re.search(r"(?m)^calls +1$", usage)

    lines = runner.done("customers", "erase", str(project), customer, "--mode", "live").splitlines()

    assert {f"{customer}: erased 1 {what}" for what in ("sessions", "conversations")} <= {*lines}
    assert f"{customer}: erased 1 recordings and other files" in lines
    assert f"{customer}: erased 1 changes in failed batches" in lines
    assert lines[-2:] == [f"{customer}: complete", "1 of 1 erasures are complete"]
    assert runner.get(key, f"/v1/customers/{customer}")[0] == 404
    assert runner.get(key, f"/v1/sessions/{session['id']}")[0] == 404
    assert runner.get(key, f"/v1/customers/{kept['id']}")[0] == 200
    assert [row["sk"]["S"] for row in runner.rows() if customer in json.dumps(row, default=repr)] == [customer]
    files = [path for path in (runner.data_dir / "s3").rglob("*") if path.is_file()]
    assert [path.name for path in files if session["id"] in path.name] == []
    assert any(customer in path.name for path in files), "the ledger is kept"
    assert runner.done("usage", str(project), time.strftime("%Y-%m", time.gmtime())) == usage
    assert runner.done("redrive-stream") == "0 batches processed again\n"

    again = runner.done("customers", "erase", "--from-ledger").splitlines()
    assert again == [f"{customer}: complete", "1 of 1 erasures are complete"]


def open_link(link: str) -> tuple[int, str]:
    """Open a link as a browser does, with cookies; the status and the page."""
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    try:
        with browser.open(link, timeout=PATIENCE) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_the_ready_file_has_the_admin_pages_and_a_link_that_works_once(runner: Runner) -> None:
    assert runner.facts["admin_url"] == f"{runner.facts['base_url']}/admin"
    status, page = open_link(runner.facts["admin_sign_in_url"])
    assert status == 200
    for project in runner.facts["projects"]:
        assert project["name"] in page
    assert open_link(runner.facts["admin_sign_in_url"])[0] == 403


def test_an_opt_out_is_soon_in_the_ledger_and_applying_it_changes_nothing(runner: Runner) -> None:
    project = runner.new_project("Opted out")
    _, key = runner.new_key(project)
    customer = runner.post(key, "/v1/customers", {"phone": "+15005550006"})["id"]
    conversation = runner.post(key, "/v1/conversations", {"customer": {"id": customer}})["id"]
    runner.post(key, f"/v1/conversations/{conversation}/messages", {"content": "Please do not call me again."})
    s3, bucket = runner.client("s3", "aws_url"), runner.known()["erasures"]
    until = time.monotonic() + PATIENCE
    while not s3.list_objects_v2(Bucket=bucket, Prefix=f"opt_outs/{project}/test/").get("Contents"):
        assert time.monotonic() < until, "the ledger has no opt-out"
        time.sleep(0.1)
    assert runner.done("opt-outs", "apply") == "phones opted out again: 0, opt-outs lifted again: 0\n"


def test_a_member_signs_in_with_a_link_until_they_are_removed(runner: Runner) -> None:
    project = runner.new_project("Members only")
    told = runner.done("members", "add", str(project), "Ada@example.com", "--role", "viewer")
    assert told == (
        f"Ada@example.com is now viewer of project {project}: "
        "sign in with the link that `members link Ada@example.com` prints\n"
    )
    (shown,) = table_rows(runner.done("members", "list", str(project)))
    assert shown == {"role": "viewer", "joined": "not yet", "email": "Ada@example.com"}
    status, page = open_link(runner.done("members", "link", "ada@example.com").strip())
    assert (status, "Events" in page, "Members only" in page) == (200, True, True)
    (shown,) = table_rows(runner.done("members", "list", str(project)))
    assert re.fullmatch(r"\S+Z", shown["joined"])

    assert runner.done("members", "remove", str(project), "ada@example.com").endswith(f"of project {project}\n")
    assert runner.done("members", "list", str(project)) == ""
    assert "not a member of any project" in error_line(runner.manage("members", "link", "ada@example.com"))


def test_the_only_owner_is_removed_only_by_force(runner: Runner) -> None:
    project = runner.new_project("Owned")
    add, remove = ("members", "add", str(project)), ("members", "remove", str(project))
    told = runner.done(*add, "viewer-of-owned@example.com")
    assert told.startswith(f"viewer-of-owned@example.com is now viewer of project {project}")
    runner.done(*add, "owner-of-owned@example.com", "--role", "owner")

    assert "add another owner first, or use --force" in error_line(runner.manage(*remove, "owner-of-owned@example.com"))
    runner.done(*remove, "viewer-of-owned@example.com")
    runner.done(*remove, "owner-of-owned@example.com", "--force")
    assert runner.done("members", "list", str(project)) == ""


def test_what_is_printed_can_be_json_and_common_options_may_follow_the_command(runner: Runner) -> None:
    made = json.loads(runner.done("projects", "create", "As JSON", "--json"))
    project = str(made["id"])
    key = json.loads(runner.done("--json", "keys", "create", project))
    assert (key["livemode"], key["plaintext"][:8]) == (False, "sk_test_")
    (listed,) = json.loads(runner.done("keys", "list", project, "--json", "--data-dir", str(runner.data_dir)))
    assert listed["id"] == key["id"]
    assert key["plaintext"] not in json.dumps(listed)
    assert made in json.loads(runner.done("projects", "list", "--json"))
    assert json.loads(runner.done("members", "list", project, "--json")) == []
    shown = json.loads(runner.done("calls", "show", project, "--json"))
    assert (shown["at_once"], shown["per_day"], shown["now"]) == (50, 1000, 0)
    assert json.loads(runner.done("usage", project, "2026-11", "--json"))["calls"] == 0


@pytest.mark.parametrize(
    ("command", "default"),
    [
        (("members", "add"), "(default: viewer)"),
        (("keys", "create"), "(default: test)"),
        (("calls", "limit"), "(default: 50)"),
        (("agent", "set"), "- is standard input (default: -)"),
        (("keys", "list"), "or else local (default: local)"),
        ((), "(default: local)"),
        ((), "keys list PROJECT | keys revoke PROJECT KEY"),
    ],
)
def test_help_shows_commands_and_defaults(runner: Runner, command: tuple[str, ...], default: str) -> None:
    shown = " ".join(runner.done(*command, "--help").split())
    assert default in shown
    assert not re.search(r"default: (None|<|\[|\))", shown), shown


def test_help_shows_a_data_directory_whatever_its_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DATA_DIR", "/data/50%d")
    with pytest.raises(SystemExit, match="0"):
        main(["projects", "list", "--help"])
    assert "/data/50%d" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("members", "add", "1", "owner@demo.example"), "a member of project 1 already"),
        (("members", "add", "999", "ada@example.com"), "there is no project 999"),
        (("members", "add", "1", "ada"), "an e-mail address has the form"),
        (("members", "add", "1", "ada@example.com", "--role", "king"), "--role"),
        (("members", "remove", "1", "nobody@example.com"), "no member nobody@example.com"),
        (("members", "list", "999"), "there is no project 999"),
        (("members", "link", "nobody@example.com"), "not a member of any project"),
    ],
)
def test_a_member_that_makes_no_sense_is_refused_in_words(
    runner: Runner, arguments: tuple[str, ...], problem: str
) -> None:
    ran = runner.manage(*arguments)
    assert ran.code != 0
    assert problem in ran.err


def test_what_the_operator_changes_is_in_the_audit_trail(runner: Runner, tmp_path: Path) -> None:
    project = runner.new_project("Audited")
    key, plaintext = runner.new_key(project, "--mode", "live")
    runner.done("keys", "revoke", str(project), key)
    runner.done("members", "add", str(project), "audited@example.com", "--role", "viewer")
    for _ in range(2):  # The second time changes nothing, and has no entry.
        runner.done("calls", "limit", str(project), "--prefix", "+4930")
    patch = tmp_path / "patch.json"
    patch.write_text('{"business_name": "Riverside Dental"}')
    runner.done("agent", "set", str(project), "--mode", "test", "--file", str(patch))
    runner.done("consents", "revoke", str(project), "+15005550020", "--mode", "test")
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with browser.open(runner.done("members", "link", "audited@example.com").strip(), timeout=PATIENCE):
        pass
    page = f"{runner.facts['base_url']}/admin/projects/{project}/test/audit_trail"
    with browser.open(page, timeout=PATIENCE) as response:
        shown = response.read().decode()
    for said in ("Created an API key", "Revoked an API key", "Added a member", "operator", key):
        assert said in shown, said
    # Once each, beside the filter's list.
    once = (
        "Changed the call limits",
        "Changed the settings of the agent",
        "Revoked a consent to be called on WhatsApp",
    )
    assert [shown.count(said) for said in once] == [1, 1, 1]
    assert "5005550020" not in shown
    assert "+4930" in shown
    assert plaintext not in shown
