"""The command: what it refuses, asks, prints and reports."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from infra import costs
from infra.app import context
from infra.bundle import ROOT
from infra.rehearse.rehearsal import EXAMPLE_TIME, MINUTE, RELEASES, Failed, Rehearsal
from infra.rehearse.steps import CLEAN_UP, STEPS, Step
from infra.stage import BadSetting, parse

OK = "ok"
METRICS = 300
"""The custom metrics of a stage, at most. Each is paid for the hours in which it has values."""


class Refused(Exception):
    """The rehearsal does not begin. The message says why and what to do."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Rehearse. Returns 0, or 1 if a step failed or the rehearsal was refused."""
    options = _parser().parse_args(arguments)
    try:
        rehearsal = _rehearsal(options)
        chosen = _chosen(options)
        if not rehearsal.dry:
            _agree(rehearsal, chosen, options.account)
        return _rehearse(rehearsal, chosen, clean=options.clean_up or not (options.only or options.keep))
    except (Refused, BadSetting, BotoCoreError, ClientError) as problem:
        print(f"infra.rehearse: {problem}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m infra.rehearse", description="Rehearse what no emulator shows.")
    parser.add_argument("--stage", required=True, help="a stage of its own, without keep_data")
    parser.add_argument("--dry-run", action="store_true", help="print commands, requests and calls of AWS, do nothing")
    parser.add_argument("--clean-up", action="store_true", help="only delete what the rehearsal created")
    parser.add_argument("--keep", action="store_true", help="do not delete the stage at the end")
    names = [step.name for step in STEPS]
    parser.add_argument("--only", nargs="+", choices=names, metavar="STEP", help=f"of {', '.join(names)}")
    parser.add_argument("--email", help="your address, for the step sign_in")
    parser.add_argument("--phone", help="your phone, such as +15005550006, for the step live_call")
    parser.add_argument("--account", help="the account's number, which is then not asked for")
    parser.add_argument("--folder", default=str(ROOT / ".rehearsal"), help="has report, log and state")
    parser.add_argument("--failing-url", help="a receiver that fails, instead of a route of the API")
    parser.add_argument("--connect-to", metavar="HOST:PORT", help="where the API is, by plain HTTP, whatever its name")
    return parser


def _chosen(options: argparse.Namespace) -> list[Step]:
    if options.clean_up:
        return []
    return [step for step in STEPS if not options.only or step.name in options.only]


def _rehearsal(options: argparse.Namespace) -> Rehearsal:
    """The rehearsal, with the state of an earlier run. Raises Refused and BadSetting."""
    settings = context()["stages"]
    if options.stage not in settings:
        raise Refused(f'cdk.json has no stage {options.stage!r}: add one, see infra/README.md, "The rehearsal"')
    found = settings[options.stage]
    if options.stage.lower().startswith("prod") or found.get("keep_data") or found.get("backup"):
        raise Refused(f"{options.stage} may not be rehearsed on: it is prod, or it keeps data or backups")
    stage = parse(options.stage, found)
    sdk: Any = boto3
    region = stage.region or sdk.Session().region_name or os.environ.get("AWS_REGION")
    if region is None and not options.dry_run:
        raise Refused("no region: set AWS_REGION, or `region` of the stage")
    made = Rehearsal(
        stage,
        region or "us-east-1",
        Path(options.folder) / stage.name,
        options.dry_run,
        email=options.email or ("you@example.com" if options.dry_run else None),
        phone=options.phone or ("+15005550006" if options.dry_run else None),
        failing_url=options.failing_url,
        connect_to=options.connect_to,
    )
    state = made.folder / "state.json"
    if made.dry:
        ids = dict.fromkeys(("kept", "forgotten", "lost"), "<customer>")
        made.state = {"steps": {}, "instant": EXAMPLE_TIME, "new_table": made.restored_table, **ids}
    elif state.exists():
        made.state = json.loads(state.read_text(encoding="utf-8"))
    return made


def _agree(it: Rehearsal, chosen: Sequence[Step], confirmed: str | None) -> None:
    """Check that the stage is the rehearsal's own, and that the person agrees to account and price. Raises Refused."""
    sdk: Any = boto3
    account = sdk.client("sts", region_name=it.region).get_caller_identity()["Account"]
    place = {"account": account, "region": it.region}
    if it.stage.account not in (None, account):
        raise Refused(f"{it.name} belongs to account {it.stage.account}; these credentials are of account {account}")
    if it.state and {name: it.state[name] for name in place} != place:
        raise Refused(f"the rehearsal began in {it.state['account']}, {it.state['region']}: continue or clean up there")
    if not it.state and (status := it.stack_status()):
        raise Refused(f"the stack {it.stack} is {status}, and not from a rehearsal in {it.folder}: use another stage")
    if not it.state and not chosen:
        raise Refused(f"there is nothing to clean up: {it.folder} has no state")
    print(f"The rehearsal of the stage {it.name} in account {account}, region {it.region}:\n")
    for step in (*chosen, CLEAN_UP):
        print(f"  {step.name:18}{step.minutes:4} min   {step.does}")
    minutes = sum(step.minutes for step in (*chosen, CLEAN_UP))
    print(f"\nIt takes about {minutes / 60:.1f} hours and costs less than ${price(chosen)} (prices of us-east-1).")
    print("It deletes all data of the stage. No other stage is touched.")
    print(f"Type the account's number, {account}, to begin: ", end="", flush=True)
    if (confirmed or sys.stdin.readline().strip()) != account:
        raise Refused("not confirmed, so nothing was done")
    print()
    it.state = {"began": _now(), "steps": {}} | it.state | place
    it.save()


def price(chosen: Sequence[Step]) -> int:
    """Dollars that these steps cost at most: twice the stage's price for their time, and what each step adds."""
    metric = next(each.dollars for name, each in costs.BY_USE.items() if name.startswith("CloudWatch, custom metrics"))
    month = sum(costs.idle().values()) + METRICS * (metric or 0)
    minutes = sum(step.minutes for step in (*chosen, CLEAN_UP))
    return math.ceil(2 * month / costs.MINUTES * minutes + sum(step.dollars for step in chosen))


def _rehearse(it: Rehearsal, chosen: Sequence[Step], *, clean: bool) -> int:
    """Carry out the steps, but for those that have succeeded before."""
    try:
        for step in (*chosen, *([CLEAN_UP] if clean else [])):
            succeeded = it.state["steps"].get(step.name, {}).get("result") == OK
            if not succeeded and not _carry_out(it, step):
                return 1
    except KeyboardInterrupt:
        print(f"\ninterrupted. {_what_now(it)}")
        return 1
    if it.dry:
        return 0
    if clean:
        for release in RELEASES:
            shutil.rmtree(it.folder / release, ignore_errors=True)
        (it.folder / "state.json").unlink()
    print(f"The report is {os.path.relpath(it.folder / 'report.md')}.")
    return 0


def _carry_out(it: Rehearsal, step: Step) -> bool:
    """Carry out a step, and print one line with what it saw. Returns whether it saw what it must."""
    reason = step.skipped(it)
    if it.dry:
        it.next_step()
        print(f"{step.name}: {step.does}" + (f" (skipped: {reason})" if reason else ""))
        step.act(it)
        print(f"    # must be seen: {step.sees}\n")
        return True
    if reason:
        _record(it, step, "skipped", reason, 0)
        return True
    began = time.monotonic()
    try:
        _record(it, step, OK, step.act(it), time.monotonic() - began)
    except (Failed, BotoCoreError, ClientError, OSError) as problem:
        _record(it, step, "FAILED", str(problem), time.monotonic() - began)
        print(_what_now(it))
        return False
    return True


def _record(it: Rehearsal, step: Step, result: str, saw: str, seconds: float) -> None:
    """Print the step's line, store it and renew the report."""
    minutes = round(seconds / MINUTE, 1)
    print(f"{step.name}: {result}{f', {minutes} min' if seconds else ''}: {saw}", flush=True)
    it.state["steps"][step.name] = {"result": result, "minutes": minutes, "saw": saw, "at": _now()}
    it.save()
    (it.folder / "report.md").write_text(report(it), encoding="utf-8")


def report(it: Rehearsal) -> str:
    """The report, in Markdown."""
    lines = [
        f"# Rehearsal of the stage {it.name}",
        "",
        f"Account {it.state['account']}, region {it.state['region']}, begun {it.state['began']}, commit {_commit()}.",
        "",
        "| step | result | minutes | must be seen | was seen |",
        "| --- | --- | ---: | --- | --- |",
    ]
    for step in (*STEPS, CLEAN_UP):
        entry = it.state["steps"].get(step.name, {"result": "not yet", "minutes": "", "saw": ""})
        saw = " ".join(entry["saw"].split()).replace("|", "\\|")
        lines.append(f"| {step.name} | {entry['result']} | {entry['minutes']} | {step.sees} | {saw} |")
    return "\n".join((*lines, ""))


def _what_now(it: Rehearsal) -> str:
    command = f"python -m infra.rehearse --stage {it.name}"
    return f"The stage is still there. Continue with `{command}`, or delete it with `{command} --clean-up`."


def _commit() -> str:
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "unknown"


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


if __name__ == "__main__":
    sys.exit(main())
