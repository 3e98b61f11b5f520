"""Generated clients do the README's five minutes: openapi-python-client's package, and openapi-typescript's types."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shared.docs import markdown
from tests.openapi.conftest import NODE_BIN
from tests.support.later_revision import check, later_revision
from tests.support.runner import Service
from tests.support.signed_receiver import Receiver

HERE = Path(__file__).parent
COMMITTED = HERE.parent / "openapi.json"
BIN = Path(sys.executable).parent


def run(*command: str | Path, **environment: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, timeout=170)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def python_client(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of the generated package."""
    folder = tmp_path_factory.mktemp("python")
    generate: list[str | Path] = [BIN / "openapi-python-client", "generate", "--meta", "none", "--fail-on-warning"]
    # It formats with ruff, which is in the same folder.
    path = f"{BIN}:{os.environ['PATH']}"
    run(*generate, "--path", COMMITTED, "--output-path", folder / "appointments_client", PATH=path)
    return str(folder)


def test_the_enumerations_of_a_python_client_have_names_of_their_own(python_client: str) -> None:
    """A generator numbers an enumeration without a name, or names it after where it is used."""
    modules = sorted(path.stem for path in Path(python_client).glob("*/models/*.py"))
    assert [name for name in modules if re.search(r"_type_[0-9]+$|_item$|[0-9]$", name)] == []
    assert {"appointment_status", "session_call_status", "channel", "error_code"} <= {*modules}


def test_a_python_client_survives_a_later_revision(service: Service, python_client: str) -> None:
    with Receiver(service.promises) as receiver, later_revision(service.base_url) as later_url:
        hook = receiver.hook()
        arguments = (later_url, service.base_url, service.projects[0].test_key, hook.url)
        run(sys.executable, HERE / "future.py", *arguments, PYTHONPATH=python_client)
        hook.wait()
    assert not service.promises.new


def test_a_python_client_does_the_readmes_five_minutes(service: Service, python_client: str) -> None:
    with Receiver(service.promises) as receiver:
        hook = receiver.hook()
        arguments = (service.base_url, service.projects[0].test_key, hook.url)
        appointment_id = run(sys.executable, HERE / "quick_start.py", *arguments, PYTHONPATH=python_client)
        received = hook.wait_about(appointment_id.strip(), 3)
    types = {one.event["type"] for one in received}
    assert types == {"appointment.created", "appointment.confirmed", "appointment.cancelled"}
    assert not service.promises.new


def documented_command(option: str) -> str:
    """The text of the page's block with this option."""
    name, _, value = option.partition("=")
    (block,) = (one for one in markdown.document("generate").blocks if one.options.get(name) == value)
    return block.text


def test_the_documented_commands_and_program_for_python_work(service: Service, tmp_path: Path) -> None:
    command = documented_command("command=python").replace(markdown.BASE_URL, service.base_url)
    path = f"{BIN}:{os.environ['PATH']}"
    run("sh", "-euc", f"cd {tmp_path} && {command}", PATH=path)
    (tmp_path / "first_customer.py").write_text(documented_command("file=first_customer.py"))
    key = service.projects[0].test_key
    printed = run(sys.executable, tmp_path / "first_customer.py", API=f"{service.base_url}/v1", KEY=key)
    assert printed.startswith("created cust_")


def test_the_documented_commands_and_program_for_typescript_work(service: Service, tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(HERE / "node_modules")
    command = documented_command("command=typescript").replace(markdown.BASE_URL, service.base_url)
    run("sh", "-euc", f"cd {tmp_path} && {command}")
    for name in ("first_customer.ts", "narrow.ts"):
        (tmp_path / name).write_text(documented_command(f"file={name}"))
    (tmp_path / "package.json").write_text("{}")
    program = documented_command("command=typescript-run").replace("first_customer.ts", "first_customer.ts narrow.ts")
    command = f"cd {tmp_path} && {program}"
    printed = run("sh", "-euc", command, API=f"{service.base_url}/v1", KEY=service.projects[0].test_key)
    assert "created cust_" in printed


def test_the_documented_command_generates_a_client_in_csharp(tmp_path: Path) -> None:
    """Those of other languages are used in `tests/languages`. Debian has no .NET."""
    command = documented_command("command=csharp").replace(f"{markdown.BASE_URL}/openapi.json", str(COMMITTED))
    run("sh", "-euc", f"cd {tmp_path} && {command}", PATH=f"{BIN}:{os.environ['PATH']}")
    (api,) = tmp_path.glob("client-csharp/**/CustomersApi.cs")
    assert "createcustomer(" in api.read_text().lower()


def test_typescript_types_survive_a_later_revision(service: Service, tmp_path: Path) -> None:
    compile_typescript(tmp_path, "future.ts", narrow=documented_command("file=narrow.ts"))
    key, since = service.projects[0].test_key, int(time.time())
    with later_revision(service.base_url) as later_url:
        printed = run("node", tmp_path / "future.js", later_url, key)
    check(printed, service.base_url, key, since)


def test_a_request_in_typescript_needs_only_the_fields_that_it_must_have(tmp_path: Path) -> None:
    """Every body compiles without the fields that have a default or may be omitted, and not without another."""
    described = json.loads(COMMITTED.read_text())
    bodies = {
        operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        for methods in described["paths"].values()
        for operation in methods.values()
        if "requestBody" in operation
    }
    required = {name: described["components"]["schemas"][name].get("required", []) for name in sorted(bodies)}
    assert required["CustomerCreate"] == ["phone"]
    lines = ['import type { components } from "./api";', 'type Schemas = components["schemas"];']
    for name, fields in required.items():
        lines.append(f'export const {name}: Schemas["{name}"] = {json.dumps(dict.fromkeys(fields, "x"))};')
        for field in fields:
            others = dict.fromkeys((one for one in fields if one != field), "x")
            lines.append(f"// @ts-expect-error {field}")
            lines.append(f'export const {name}_{field}: Schemas["{name}"] = {json.dumps(others)};')
    (tmp_path / "bodies.ts").write_text("\n".join(lines))
    compile_typescript(tmp_path, "quick_start.ts")


def compile_typescript(folder: Path, program: str, narrow: str = "") -> None:
    """Generate the types with the documented option, and compile a program of this folder with them."""
    option = "--default-non-nullable=false"
    assert option in documented_command("command=typescript")
    run(NODE_BIN / "openapi-typescript", COMMITTED, option, "-o", folder / "api.d.ts")
    for name in (program, "tsconfig.json"):
        shutil.copy(HERE / name, folder / name)
    (folder / "narrow.ts").write_text(narrow or "export {};")
    (folder / "package.json").write_text('{"type": "module"}')
    run(NODE_BIN / "tsc", "--project", folder)


def test_typescript_types_compile_and_do_the_readmes_five_minutes(service: Service, tmp_path: Path) -> None:
    compile_typescript(tmp_path, "quick_start.ts")
    with Receiver(service.promises) as receiver:
        hook = receiver.hook()
        run("node", tmp_path / "quick_start.js", service.base_url, service.projects[1].test_key, hook.url)
        hook.wait(2)
    assert not service.promises.new
