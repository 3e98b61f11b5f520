"""The runbook is complete and its commands are real: for each alarm an entry, for each name in it a thing."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore import xform_name
from botocore.session import get_session

from infra import alarms, releases, topology
from infra.app import context
from infra.gateway import ACCESS_LOG
from infra.manage.__main__ import _parser
from infra.preflight import CONCURRENCY_QUOTA
from infra.rehearse.steps import CLEAN_UP, STEPS
from infra.stack_names import KEPT, RESTORE_ROLE_OUTPUT, SIGNING_KEY_OUTPUT, ledger_copy_name, stack_name
from tests.support.synth import Synthesized

ROOT = Path(__file__).parents[2]
RUNBOOK = (ROOT / "infra" / "runbook.md").read_text(encoding="utf-8")
PROCEDURES = {
    "Budget",
    "Follow a request",
    "Rollback",
    "Erasure",
    "A leaked key or secret",
    "Handed-off conversations",
    "Stop live calls",
    "Take-down",
    "A lost region",
    "A replica of the table",
    "Members of a new user pool",
    "Request log",
    "Restore from point-in-time recovery",
    "Webhook endpoint notices",
}
TRIED = {"preflight", "first_release", "sign_in", "live_call"}
"""Steps of the rehearsal that carry out what README.md describes."""
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", RUNBOOK, re.MULTILINE | re.DOTALL))
GLOBAL_OPTIONS = {"query", "output", "max-items", "region"}
"""Options of the AWS command line that every command has; the last one those that come in pages."""
RENAMED = {("sns", "notification-endpoint"): "endpoint"}
"""Options that the command line calls otherwise than the service does."""
CUSTOM = {
    ("logs", "tail"): {"since", "filter-pattern"},
    ("s3", "ls"): {"recursive"},
    ("s3", "rm"): {"recursive"},
    ("s3", "sync"): set(),
}
"""Commands that are the command line's own, with the options of theirs that are used."""


def code() -> Iterator[str]:
    """Every line of shell, in blocks and in running text; a line that is continued is one."""
    for block in re.findall(r"^```sh\n(.*?)^```", RUNBOOK, re.MULTILINE | re.DOTALL):
        lines = re.sub(r"\\\n\s*", "", block).splitlines()
        yield from (line for line in lines if not line.startswith("#"))
    prose = re.sub(r"^```.*?^```", "", RUNBOOK, flags=re.MULTILINE | re.DOTALL)
    for span in re.findall(r"`([^`]+)`", prose):
        yield " ".join(span.split())


def commands() -> Iterator[list[str]]:
    """Every command in words; one within another (`$(…)`) is a command of its own, and `VALUE` there."""
    for line in code():
        pending = [line]
        while pending:
            text = pending.pop()
            pending += re.findall(r"\$\(([^()]*)\)", text)
            text = re.sub(r"\$\([^()]*\)", "VALUE", text)
            if "$(" in text:
                pending.append(text)
            else:
                yield shlex.split(text)


def calls(*program: str) -> list[list[str]]:
    """The arguments of each call of a program, up to the command's end."""
    found = []
    for words in commands():
        for start in range(len(words)):
            if tuple(words[start : start + len(program)]) == program:
                rest = words[start + len(program) :]
                end = next((at for at, word in enumerate(rest) if word.endswith(";") or word in ("|", "&&")), None)
                found.append(rest if end is None else [*rest[:end], rest[end].removesuffix(";")])
    return found


OF_BACKUPS = ("FailedBackups", "FailedReplication", "MissingBackups")


def test_every_alarm_has_its_entry_and_every_entry_its_alarm(stages: dict[str, Synthesized]) -> None:
    for name, stage in stages.items():
        kinds = set()
        for alarm in stage.alarms.values():
            kind = alarm["AlarmName"].rpartition("-")[2]
            assert alarm["AlarmDescription"].endswith(f"Runbook: infra/runbook.md, {kind}")
            kinds.add(kind)
        # Only a stage that keeps its data has backups and a canary.
        absent = (
            set()
            if name in ("prod", "calls")
            else {"CanaryFailed", "FailedBackups", "FailedReplication", "MissingBackups"}
        )
        assert kinds == SECTIONS.keys() - PROCEDURES - absent


@pytest.mark.parametrize("kind", sorted(SECTIONS.keys() - PROCEDURES))
def test_an_entry_says_what_it_means_where_to_look_and_what_to_do(kind: str) -> None:
    parts = re.split(r"^\*\*(\w+)\.\*\*", SECTIONS[kind], flags=re.MULTILINE)
    assert parts[1::2] == ["Means", "Look", "Do"]
    assert all(len(text.split()) >= 15 for text in parts[2::2])
    assert re.search(r"`|Dashboard", parts[4]), "nowhere to look"


def test_the_procedures_are_there_and_what_was_never_tried_says_so() -> None:
    assert SECTIONS.keys() >= PROCEDURES
    for name in ("Restore from point-in-time recovery", "A lost region"):
        assert "have not been carried out on AWS" in " ".join(SECTIONS[name].split())


@pytest.mark.parametrize("procedure", sorted(PROCEDURES))
def test_a_procedure_says_whether_and_by_which_steps_the_rehearsal_covers_it(procedure: str) -> None:
    (answer, text), *more = re.findall(
        r"^\*\*(Rehearsed|Not rehearsed)\.\*\* (.+?)\n\n", SECTIONS[procedure], re.M | re.S
    )
    assert not more
    covered = text.partition(" Not: ")[0] if answer == "Rehearsed" else ""
    named = {word for word in re.findall(r"`(\w+)`", covered) if word != "keep_data"}
    assert bool(named) is (answer == "Rehearsed")
    assert named <= {step.name for step in (*STEPS, CLEAN_UP)}


def test_each_step_that_carries_out_a_procedure_is_named_there() -> None:
    text = " ".join(RUNBOOK.split())
    assert not [step.name for step in (*STEPS, CLEAN_UP) if f"`{step.name}`" not in text and step.name not in TRIED]


def test_the_alarms_that_wake_a_person_are_listed() -> None:
    first = " ".join(RUNBOOK.partition("They notify")[0].split())
    listed = re.findall(r"`([A-Za-z]+)`", first.partition("wake a person")[2])
    kinds = [kind for kind in vars(alarms).values() if isinstance(kind, alarms.Kind) and kind.wakes]
    assert listed == sorted(kind.name for kind in kinds)


def test_the_numbers_of_a_rollback_are_those_of_the_releases() -> None:
    text = " ".join(SECTIONS["Rollback"].split())
    assert f"of at least {releases.FEWEST_INVOCATIONS} invocations in five minutes, a tenth or more" in text
    assert releases.FAILED_PERCENT == 10
    assert ("Two releases can be undone" in text) is (KEPT == 2)


def test_links_lead_to_headings() -> None:
    links = re.findall(r"\]\(#([^)]+)\)", RUNBOOK)
    assert links
    assert set(links) <= {heading.lower().replace(" ", "-") for heading in SECTIONS}


def test_the_operators_tool_takes_every_command() -> None:
    given = calls(".venv/bin/python", "-m", "infra.manage")
    assert ["--stage", "$STAGE", "redrive-stream"] in given
    for arguments in given:
        assert _parser(arguments).parse_args(arguments).function, arguments


def test_makes_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {arguments[0] for arguments in calls("make")}
    assert targets >= {"deploy", "synth"}
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


def test_the_cdks_commands_exist_and_have_these_options() -> None:
    used = calls("npx", "--no-install", "cdk")
    assert len(used) == len(calls("npx")), "npx may fetch another version than package.json's"
    assert {command for command, *_ in used} == {"deploy", "diff", "import", "rollback"}
    helps = {
        command: subprocess.run(
            ["npx", "--no-install", "cdk", command, "--help"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        for command in {command for command, *_ in used}
    }
    for command, *rest in used:
        for option in (word for word in rest if word.startswith("--")):
            assert re.search(rf"--(\[no-\])?{re.sub('^--(no-)?', '', option)}\b", helps[command]), (command, option)


def test_numbers_are_those_of_the_stack(stages: dict[str, Synthesized]) -> None:
    text = " ".join(RUNBOOK.split())
    days = {
        rule["ExpirationInDays"] for rule in stages["prod"][stages["prod"].bucket]["LifecycleConfiguration"]["Rules"]
    }
    assert [f"{day} days" for day in days] == re.findall(r"each object is a batch, kept for (\d+ days)", text, re.I)
    prod = context()["stages"]["prod"]
    steps = SECTIONS["Restore from point-in-time recovery"]
    limits = [prod[name] for name in ("requests_per_second", "burst", "messages_per_second", "messages_burst")]
    assert re.findall(r"^limit (.+)$", steps, re.MULTILINE) == ["0 0 0 0", " ".join(map(str, limits))]
    methods = {route.replace("/", "~1") for function in topology.FUNCTIONS for route in function.posts}
    assert set(re.findall(r"path='?/(\S+)/POST/throttling", steps)) == methods
    reserved = re.findall(r"--reserved-concurrent-executions (\d+)", steps)
    assert reserved == ["0", str(prod["reserved_concurrency"]["voice_turn"])]
    # Lambda's "Concurrent executions" in Service Quotas.
    assert set(re.findall(r"L-[0-9A-F]{8}", text)) == {CONCURRENCY_QUOTA}


def test_the_fields_that_are_looked_for_are_in_the_access_log() -> None:
    for field in re.findall(r"\$\.(\w+)", SECTIONS["ServerErrors"]):
        assert field in ACCESS_LOG


def test_what_the_stack_is_asked_for_by_name_is_one_thing(stages: dict[str, Synthesized]) -> None:
    stage = stages["calls"]  # has everything
    asked = {(kind, name) for kind, name, *_ in calls("resource")}
    asked |= {("AWS::Logs::LogGroup", f"{function}Log") for function, *_ in calls("errors")}
    for kind, name in asked - {("AWS::Lambda::EventSourceMapping", "")}:
        if name != "$1Log":
            assert len([found for found in stage.all(kind) if found.startswith(name)]) == 1, (kind, name)


def test_the_aws_commands_exist_and_have_these_options() -> None:
    session = get_session()
    used = set()
    for service, command, *rest in calls("aws"):
        options = {re.sub("^no-", "", word[2:]) for word in rest if word.startswith("--")} - GLOBAL_OPTIONS
        options = {RENAMED.get((service, option), option) for option in options}
        used.add(f"{service} {command}")
        if (service, command) in CUSTOM:
            assert options <= CUSTOM[service, command], (service, command)
            continue
        model = session.get_service_model({"s3api": "s3", "deploy": "codedeploy"}.get(service, service))
        names = {xform_name(name, "-"): name for name in model.operation_names}
        if command == "wait":
            waiters = session.get_waiter_model(service)
            operation = {xform_name(name, "-"): waiters.get_waiter(name).operation for name in waiters.waiter_names}
            called = model.operation_model(operation[rest[0]])
        else:
            called = model.operation_model(names[command])
        shape = called.input_shape
        assert shape is not None
        assert options <= {xform_name(member, "-") for member in shape.members}, (service, command)
        assert options >= {xform_name(member, "-") for member in shape.required_members}, (service, command)
    assert {"sqs start-message-move-task", "dynamodb restore-table-to-point-in-time"} <= used


def test_what_a_lost_region_needs_has_the_names_that_the_copies_have() -> None:
    steps = SECTIONS["A lost region"]
    (named,) = re.findall(r"s3://(\$LEDGER-\S+?)\"", steps)
    values = {"$LEDGER": stack_name("Prod").lower(), "$AWS_REGION": "eu-west-1", "$ACCOUNT": "123456789012"}
    for name, value in values.items():
        named = named.replace(name, value)
    assert named == ledger_copy_name("Prod", "eu-west-1", "123456789012")
    assert {RESTORE_ROLE_OUTPUT, SIGNING_KEY_OUTPUT} <= {word for words in calls("copies") for word in words}


def test_a_restored_table_is_set_up_as_the_topology_says(prod: Synthesized) -> None:
    steps = SECTIONS["Restore from point-in-time recovery"]
    assert f"AttributeName={topology.TABLE.ttl}" in steps
    assert f"StreamViewType={topology.TABLE.stream}" in steps
    tags = {tag["Key"] for tag in prod[prod.table]["Tags"]}
    assert tags == set(re.findall(r"Key=(\w+),Value", steps))
    # The steps rename the construct `Table`, and find its new id in the template by this pattern.
    assert re.fullmatch("Table[0-9A-F]*", prod.table)
    assert '"Table",' in (ROOT / "infra" / "stack.py").read_text(encoding="utf-8")
