"""Commands of resources and raw requests: what is sent, printed and repeated."""

from __future__ import annotations

import json
import uuid

import click

from infra.cli import description, main
from infra.cli.command import Command
from tests.cli.processes import Cli
from tests.support import receivers
from tests.support.client import Client
from tests.support.receivers import Receiver
from tests.support.runner import ROOT, Service

EXPECTED = {
    "agent-settings": "get update",
    "appointments": "list create get update delete",
    "conversations": "list create get messages send-message resume end",
    "customers": "list create get update delete opt-in call",
    "events": "list get deliveries get-delivery retry",
    "messages": "create",
    "sessions": "list get cancel transcript recording",
    "webhook-endpoints": "list create get update delete rotate-secret test",
}


def read_operations() -> description.Operations:
    return description.derive(json.loads((ROOT / "tests/openapi.json").read_text()))


def test_each_operation_of_the_description_is_a_command() -> None:
    assert {name: " ".join(commands) for name, commands in read_operations().items()} == EXPECTED


def test_each_command_has_help_with_examples() -> None:
    from infra.cli.resources import Resource

    own = [one for one in main._COMMANDS.values() if not isinstance(one, click.Group)]
    groups = [Resource(name, commands, main._OWN.get(name, {})) for name, commands in read_operations().items()]
    context = click.Context(main.cli)
    all_of_them = own + [group.get_command(context, name) for group in groups for name in group.list_commands(context)]
    for command in all_of_them:
        assert isinstance(command, Command)
        assert command.help
        assert command.examples, command.name


def test_a_resource_is_created_shown_changed_listed_and_deleted(cli: Cli) -> None:
    mark = f"crm-{uuid.uuid4().hex}"
    made = json.loads(
        cli.run(
            "customers", "create", "--phone", "+15005550006", "--do-not-call", "true", "--external-id", mark, "--json"
        ).out
    )
    assert made["do_not_call"] is True
    cli.run("customers", "update", made["id"], "--name", "Ada", "-d", "metadata[plan]=gold", "-d", "do_not_call:=null")
    shown = cli.run("customers", "show", made["id"]).out
    assert "Ada" in shown
    assert '{"plan":"gold"}' in shown
    table = cli.run("customers", "list", "--external-id", mark).out.splitlines()
    assert table[0].split() == ["id", "name", "phone", "created_at"]
    assert table[1].startswith(made["id"])
    patched = cli.run("patch", f"customers/{made['id']}", "-d", "name=Grace").out
    assert json.loads(patched)["name"] == "Grace"
    cli.run("delete", f"customers/{made['id']}")
    assert cli.run("customers", "list", "--external-id", mark).out == ""


def test_all_prints_every_item_once_as_json_lines(cli: Cli, client: Client) -> None:
    mark = uuid.uuid4().hex
    made = [
        client.post("/v1/customers", {"phone": "+15005550006", "name": mark, "email": f"{mark}@example.com"}).ok(201)[
            "id"
        ]
        for _ in range(3)
    ]
    lines = cli.run("customers", "list", "--email", f"{mark}@example.com", "--limit", "1", "--all").out.splitlines()
    assert [json.loads(line)["id"] for line in lines] == made[::-1]
    raw = cli.run("get", "customers", "-d", f"email={mark}@example.com", "--all").out.splitlines()
    assert raw == lines


def test_an_error_has_code_param_request_id_and_a_remedy(cli: Cli) -> None:
    refused = cli.run("customers", "create", "--phone", "0151", code=1).err
    for part in ("E.164", "phone_invalid_format", "param", "req_", "/docs/errors#phone_invalid_format"):
        assert part in refused
    as_json = cli.run("customers", "create", "--phone", "0151", "--json", code=1).err
    assert json.loads(as_json)["error"]["param"] == "phone"
    assert "whoami" in cli.run("get", "customers/cust_x", code=4).err
    assert "No such command" in cli.run("patients", "list", code=2).err
    assert "key=value" in cli.run("post", "customers", "-d", "phone", code=2).err


def test_colors_are_for_terminals_and_not_with_no_color(cli: Cli) -> None:
    assert "\x1b[" in cli.in_terminal("whoami")
    assert "\x1b[" not in cli.in_terminal("whoami", NO_COLOR="1")
    assert "\x1b[" not in cli.run("whoami").out


def test_a_request_is_repeated_with_its_key_as_the_service_asks_and_not_otherwise(cli: Cli) -> None:
    error = json.dumps({"error": {"message": "Wait.", "code": "rate_limit_exceeded"}}).encode()

    def refusal(status: int, retry: str) -> receivers.Behaviour:
        return receivers.answer(status, error, {"Service-Should-Retry": retry, "Retry-After": "1"})

    answers = refusal(429, "true"), receivers.Exchange.reset, receivers.answer(200, b'{"id": "cust_1"}')
    with Receiver(*answers) as server:
        url = server.url.removesuffix("/hook")
        done = cli.run("post", "customers", "-d", "phone=+15005550006", APPOINTMENTS_URL=url)
        assert json.loads(done.out) == {"id": "cust_1"}
        first, last = server.wait_for(2)
        assert first.headers["idempotency-key"] == last.headers["idempotency-key"]
        assert "Trying again in 1.0 s" in done.err
    with Receiver(refusal(500, "false")) as server:
        cli.run("post", "customers", code=5, APPOINTMENTS_URL=server.url.removesuffix("/hook"))
        assert server.connections == 1


def test_commands_and_resources_complete(cli: Cli) -> None:
    assert "_APPT_COMPLETE" in cli.run("completion", "zsh").out
    cli.run("customers", "list")
    for words, expected in (
        ("appt cust", "customers"),
        ("appt customers li", "list"),
        ("appt trigger session.no", "session.no_answer"),
    ):
        count = str(len(words.split()) - 1)
        done = cli.run(_APPT_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=count)
        assert f"plain,{expected}" in done.out.splitlines()


def test_help_knows_the_resources_without_a_request(cli: Cli, service: Service) -> None:
    assert "customers" not in cli.run("--help").out.split("Examples")[0]
    cli.run("sessions", "list")
    assert "webhook-endpoints" in cli.run("--help", APPOINTMENTS_API_KEY="").out
