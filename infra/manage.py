"""`python -m infra.manage`: projects, API keys and erasures, on the local runner or a deployed stage.

    projects create NAME | projects list
    keys create PROJECT --mode test|live --label LABEL [--read-only] [--days N]
    keys list PROJECT | keys revoke PROJECT KEY
    calls show PROJECT     shows the limits of live calls, and the calls now and today
    calls limit PROJECT [--prefix +1 …] [--at-once 50] [--per-day 1000]     sets the limits of live calls
    agent show PROJECT --mode test|live     prints the settings of the agent as JSON
    agent set PROJECT --mode test|live [--file PATCH.json]     changes them by a JSON merge patch, from standard input
    consents revoke PROJECT PHONE --mode test|live     stops calls on WhatsApp to this number
    conversations resume PROJECT CONVERSATION --mode test|live     gives a handed-off conversation back to the agent
    customers erase PROJECT CUSTOMER --mode test|live     removes a person for good, with all its data
    customers export PROJECT CUSTOMER --mode test|live     prints all that is kept about a person, as JSON
    customers erase --from-ledger     after a restore, erases again everyone in the ledger
    search fill PROJECT --mode test|live     makes search rows for customers and appointments that have none
    search empty PROJECT --mode test|live    deletes all search rows, once the stage has them no more
    opt-outs apply          after a restore, opts out again every phone in the ledger, or lifts it again
    usage PROJECT MONTH     shows live messages, model tokens, calls and their seconds in a month (2026-11)
    members add PROJECT EMAIL [--role viewer|member|owner] | members list PROJECT
    members remove PROJECT EMAIL [--force]     the only owner only with --force
    members rebind PROJECT [EMAIL]     after a change of the sign-in provider or user pool, lets everybody sign in anew
    members invite PROJECT EMAIL     sends the invitation to a stage with a user pool again
    members reset-second-factor PROJECT EMAIL     removes a lost authenticator app, in such a stage
    members link EMAIL      prints a link that signs a member in once, on the local runner only
    redrive-stream          sends the failed batches of the table's stream to fan_out again

`--stage`, `--data-dir` and `--json` may also follow the command. For a stage other than `local`, the AWS credentials of
the environment are used, and the stage's region in cdk.json, or else that of the environment.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabulate import tabulate

from infra import topology
from infra.local.data_dir import STREAM_FAILURES, write_json
from infra.stack_names import (
    ADMIN_OUTPUT,
    DUE_SHARDS_OUTPUT,
    ERASURES_OUTPUT,
    FAILURES_OUTPUT,
    FAN_OUT_OUTPUT,
    RECORDINGS_OUTPUT,
    RUNNER,
    TABLE_OUTPUT,
    USER_POOL_OUTPUT,
    stack_name,
)
from shared.aws.services import AwsError, Unavailable

if TYPE_CHECKING:
    from shared.calls.project_limits import Limits
    from shared.erasure.stored_batches import StoredBatch
    from shared.store.keys import Scope


ANY_HOUR = (
    "without calling_hours, people are called at any hour; the hours are those of timezone, which must be the one of "
    "the people who are called"
)


class NotReachable(Exception):
    """The stage cannot be reached. The message says why and what to do."""


class CommandFailed(Exception):
    """A command could not do its work, or not all of it. The message says why and what to do."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns 0, or 1 with one line on standard error if it fails."""
    from botocore.exceptions import ClientError

    options = _parser().parse_args(arguments)
    try:
        stage = _Local(Path(options.data_dir)) if options.stage == RUNNER else _Deployed(options.stage)
        _check_project(options)
        options.command(stage, options)
    except (NotReachable, CommandFailed, LookupError, ValueError) as error:
        print(f"error: {error.args[0]}", file=sys.stderr)
        return 1
    except Unavailable as error:
        print(f"error: stage {options.stage} does not respond ({error}): is it running?", file=sys.stderr)
        return 1
    except (AwsError, ClientError) as error:
        print(f"error: AWS refused the command: {error}", file=sys.stderr)
        return 1
    return 0


class _Local:
    """The runner on this machine that uses a data directory."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        try:
            facts = json.loads((data_dir / "runner.json").read_text())
        except FileNotFoundError:
            raise NotReachable(f"no runner is running on {data_dir}: start one with `make run`") from None
        os.environ |= {
            "AWS_ENDPOINT_URL": facts["aws_url"],
            "AWS_ENDPOINT_URL_DYNAMODB": facts["dynamodb_url"],
            "AWS_ACCESS_KEY_ID": facts["access_key_id"],
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_DEFAULT_REGION": facts["region"],
            "AWS_ACCOUNT_ID_ENDPOINT_MODE": "disabled",
            "TABLE_NAME": facts["table_name"],
            "DUE_SHARDS": str(topology.DUE_SHARDS),
            "RECORDINGS_BUCKET": facts["recordings"],
            "ERASURES_BUCKET": facts["erasures"],
            "SPEED": facts["speed"],
            # The functions log to the standard output, which is for the command's own lines.
            "LOG_LEVEL": "WARNING",
        }
        self._queues: dict[str, str] = facts["queues"]
        self._failed_batches: str = facts["failed_batches"]
        self._base_url: str = facts["base_url"]
        os.environ.pop("AWS_PROFILE", None)
        os.environ.pop("AWS_SESSION_TOKEN", None)

    def failures(self) -> Iterator[StoredBatch]:
        """The failed batches of the table's stream."""
        from shared.erasure.stored_batches import StoredBatch, in_bucket

        for path in sorted((self.data_dir / STREAM_FAILURES).glob("*.json")):

            def replace(content: str | None, path: Path = path) -> None:
                if content is None:
                    path.unlink()
                else:
                    write_json(path, json.loads(content))

            yield StoredBatch(path.name, path.read_text(), replace)
        yield from in_bucket(self._failed_batches)

    def fan_out(self, event: Any) -> Any:
        """Call the function with a batch, in this process."""
        for name, url in self._queues.items():
            os.environ[f"QUEUE_{name.upper()}"] = url
        os.environ.setdefault("SERVICE_NAME", "fan_out")
        module, _, handler = _fan_out().handler.rpartition(".")
        return getattr(importlib.import_module(module), handler)(event, None)

    def invite(self, email: str) -> str:
        """Say how a new member signs in."""
        return f"sign in with the link that `members link {email}` prints"

    def use_user_pool(self) -> None:
        """The local runner has no users."""
        raise NotReachable("the local runner has no user pool: people sign in with a link")

    def sign_in_url(self, email: str) -> str:
        """A link that signs this person in once."""
        from shared.admin import sign_in

        return f"{self._base_url}/admin/sign-in/link?token={sign_in.new_link(email)}"


class _Deployed:
    """A deployed stage in the AWS account of the environment's credentials."""

    def __init__(self, stage: str) -> None:
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError

        from infra.rollback import use_region_of

        use_region_of(stage)
        # The AWS and CDK command lines read either variable for the region; boto3 reads only AWS_DEFAULT_REGION and
        # the profile, and the service's own client only the variables.
        if region := boto3.Session().region_name or os.environ.get("AWS_REGION"):
            os.environ["AWS_DEFAULT_REGION"] = region
        name = stack_name(stage)
        try:
            stacks = boto3.client("cloudformation").describe_stacks(StackName=name)["Stacks"]
        except (BotoCoreError, ClientError) as error:
            raise NotReachable(f"stack {name} cannot be read: {error}") from None
        self.outputs = {output["OutputKey"]: output["OutputValue"] for output in stacks[0].get("Outputs", [])}
        os.environ |= {"TABLE_NAME": self.outputs[TABLE_OUTPUT], "DUE_SHARDS": self.outputs[DUE_SHARDS_OUTPUT]}
        os.environ["RECORDINGS_BUCKET"] = self.outputs[RECORDINGS_OUTPUT]
        os.environ["ERASURES_BUCKET"] = self.outputs[ERASURES_OUTPUT]

    def invite(self, email: str) -> str:
        """Create the user in the stack's user pool, which sends an e-mail with a password. Say how to sign in."""
        from shared.admin import user_pool

        pages = self.outputs.get(ADMIN_OUTPUT, "the admin pages")
        if USER_POOL_OUTPUT not in self.outputs:
            return f"sign in at {pages} with the stage's own provider"
        self.use_user_pool()
        try:
            invited = user_pool.invite(email)
        except (Unavailable, AwsError) as error:
            raise NotReachable(f"the member was added, but the user pool has no user for them: {error}") from None
        if not invited:
            return f"sign in at {pages}, as before"
        return f"an e-mail with a password was sent; sign in at {pages}"

    def use_user_pool(self) -> None:
        """Let the commands that follow use the stack's user pool."""
        if USER_POOL_OUTPUT not in self.outputs:
            raise NotReachable("the stage has no user pool: people sign in at its own provider")
        os.environ["USER_POOL_ID"] = self.outputs[USER_POOL_OUTPUT]

    def sign_in_url(self, email: str) -> str:
        """Links sign nobody in on a deployed stage."""
        raise NotReachable("only the local runner has sign-in links; on a deployed stage people sign in at a provider")

    def failures(self) -> Iterator[StoredBatch]:
        """The failed batches of the table's stream, oldest first."""
        from shared.erasure import stored_batches

        return stored_batches.in_bucket(self.outputs[FAILURES_OUTPUT])

    def fan_out(self, event: Any) -> Any:
        """Invoke the function with a batch."""
        import boto3

        answer = boto3.client("lambda").invoke(
            FunctionName=self.outputs[FAN_OUT_OUTPUT], Payload=json.dumps(event).encode()
        )
        result = json.loads(answer["Payload"].read())
        if "FunctionError" in answer:
            raise CommandFailed(f"fan_out failed again: {result.get('errorMessage')}")
        return result


Stage = _Local | _Deployed


def _fan_out() -> topology.Function:
    return next(function for function in topology.FUNCTIONS if function.stream)


def _check_project(options: argparse.Namespace) -> None:
    """Raise LookupError if the command names a project that does not exist."""
    from shared.projects import projects

    if getattr(options, "project", None) is not None:
        projects.name_of(options.project)


def _say(options: argparse.Namespace, found: Any, text: str) -> None:
    """Print what a command found, as JSON if the options say so."""
    print(json.dumps(found, indent=2, ensure_ascii=False, default=str) if options.json else text)


def _list(options: argparse.Namespace, found: Sequence[Any], row: Callable[[Any], Mapping[str, object]]) -> None:
    """Print the objects that a command found, as a table or as JSON."""
    if options.json or found:
        text = tabulate(map(row, found), headers="keys", tablefmt="plain", disable_numparse=True)
        _say(options, [dataclasses.asdict(one) for one in found], text)


def _create_project(stage: Stage, options: argparse.Namespace) -> None:
    from shared.projects import projects

    project = projects.create(options.name)
    _say(options, dataclasses.asdict(project), f"project {project.id}  {project.name}")


def _list_projects(stage: Stage, options: argparse.Namespace) -> None:
    from shared.projects import projects

    _list(options, projects.list_all(), lambda one: {"id": one.id, "created": one.created_at, "name": one.name})


def _create_key(stage: Stage, options: argparse.Namespace) -> None:
    from shared.admin import audit, audited_keys
    from shared.core import clock

    made = audited_keys.create(
        options.project,
        options.mode == "live",
        options.label,
        audit.operator(),
        read_only=options.read_only,
        valid_until=clock.now() + options.days * clock.DAY if options.days else None,
    )
    _say(
        options,
        {**dataclasses.asdict(made.key), "plaintext": made.plaintext},
        f"key {made.key.id}  {made.key.label}\n"
        f"{made.plaintext}    <- shown only once: the service stores only its SHA-256",
    )


def _list_keys(stage: Stage, options: argparse.Namespace) -> None:
    from shared.projects import api_keys

    def row(key: api_keys.ApiKey) -> Mapping[str, object]:
        return {
            "id": key.id,
            "key": f"sk_{'live' if key.livemode else 'test'}_…{key.last_four}",
            "created": key.created_at,
            "last used": key.last_used_at or "never",
            "revoked": key.revoked_at or "no",
            "read-only": "yes" if key.read_only else "no",
            "label": key.label,
        }

    _list(options, api_keys.of_project(options.project), row)


def _revoke_key(stage: Stage, options: argparse.Namespace) -> None:
    from shared.admin import audit, audited_keys

    key = audited_keys.revoke(options.project, options.key, audit.operator())
    print(f"key {key.id} was revoked at {key.revoked_at}")


def _add_member(stage: Stage, options: argparse.Namespace) -> None:
    from shared.admin import audit, members

    member = members.add(options.project, options.email, options.role, audit.operator())
    print(f"{member.email} is now {member.role} of project {options.project}: {stage.invite(member.email)}")


def _list_members(stage: Stage, options: argparse.Namespace) -> None:
    from shared.admin import members

    _list(
        options,
        members.of_project(options.project),
        lambda one: {"role": one.role, "joined": one.joined_at or "not yet", "email": one.email},
    )


def _remove_member(stage: Stage, options: argparse.Namespace) -> None:
    from shared.admin import audit, members

    try:
        member = members.remove(options.project, options.email, audit.operator(), keep_an_owner=not options.force)
    except members.LastOwner:
        raise CommandFailed(
            f"{options.email} is the only owner of project {options.project}: add another owner first, or use --force"
        ) from None
    print(f"{member.email} is no longer a member of project {options.project}")


def _rebind_members(stage: Stage, options: argparse.Namespace) -> None:
    from shared.admin import audit, members

    emails = [options.email] if options.email else [one.email for one in members.of_project(options.project)]
    for email in emails:
        member = members.rebind(options.project, email, audit.operator())
        print(f"{member.email} joins project {options.project} with the next sign-in: {stage.invite(member.email)}")


def _invite_member(stage: Stage, options: argparse.Namespace) -> None:
    from shared.admin import audit, members, user_pool

    member = members.with_email(options.project, options.email)
    stage.use_user_pool()
    try:
        user_pool.send_again(member, audit.operator())
    except user_pool.NotPossible as problem:
        raise CommandFailed(str(problem)) from None
    print(f"{member.email} gets another e-mail with a password, which is valid for seven days")


def _reset_second_factor(stage: Stage, options: argparse.Namespace) -> None:
    from shared.admin import audit, members, user_pool

    member = members.with_email(options.project, options.email)
    stage.use_user_pool()
    try:
        user_pool.reset_second_factor(member, audit.operator())
    except user_pool.NotPossible as problem:
        raise CommandFailed(str(problem)) from None
    print(f"the next sign-in of {member.email} asks for another authenticator app, after the password")


def _link_member(stage: Stage, options: argparse.Namespace) -> None:
    from shared.admin import members, sign_in

    identity = sign_in.link_identity(options.email)
    if not members.is_invited(options.email) and not members.person(identity.person).memberships:
        raise LookupError(f"{options.email} is not a member of any project: add them first with `members add`")
    print(stage.sign_in_url(options.email))


def _email(text: str) -> str:
    from shared.resources import fields

    try:
        return fields.email(text.strip())
    except ValueError as error:
        raise argparse.ArgumentTypeError("an e-mail address has the form ada@example.com") from error


def _limit_calls(stage: Stage, options: argparse.Namespace) -> None:
    from shared.calls import project_limits

    allowed = project_limits.Limits(tuple(options.prefix), options.at_once, options.per_day)
    project_limits.set_limits(options.project, allowed)
    print(_in_words(options.project, allowed))


def _show_calls(stage: Stage, options: argparse.Namespace) -> None:
    from shared.calls import project_limits
    from shared.store.keys import Scope

    scope = Scope(options.project, livemode=True)
    allowed, counts = project_limits.of_project(scope)
    found = {**dataclasses.asdict(allowed), "now": counts.at_once, "today": counts.today}
    _say(options, found, f"{_in_words(options.project, allowed)}\nnow {counts.at_once}, today {counts.today}")


def _in_words(project: int, limits: Limits) -> str:
    reach = ", ".join(limits.prefixes) or "any number"
    return f"project {project}: live calls to {reach}, {limits.at_once} at once, {limits.per_day} a day (UTC)"


def _show_agent(stage: Stage, options: argparse.Namespace) -> None:
    from shared.agent_settings import commands

    print(json.dumps(commands.read(_scope(options)).settings, indent=2, ensure_ascii=False))


def _set_agent(stage: Stage, options: argparse.Namespace) -> None:
    from shared.agent_settings import commands
    from shared.agent_settings.resource import AgentSettingsPatch
    from shared.api.requests import parse_json
    from shared.core.errors import ApiError
    from shared.resources import fields
    from shared.store import transactions

    try:
        patch = fields.validate(AgentSettingsPatch, parse_json(options.file.read().encode()))
    except ApiError as error:
        raise ValueError(f"{error.param}: {error.message}" if error.param else error.message) from None
    change = transactions.commit(lambda: commands.update(_scope(options), patch))
    print("changed" if change.writes else "nothing to change")
    if options.mode == "live" and not change.doc["calling_hours"]:
        print(ANY_HOUR)


def _revoke_consent(stage: Stage, options: argparse.Namespace) -> None:
    from shared.calls.consent import consent_requests, consents
    from shared.core import clock
    from shared.core.call_statuses import ConsentStatus

    scope = _scope(options)
    before = consents.find(scope, options.phone)
    consent_requests.answer(scope, options.phone, ConsentStatus.DECLINED, clock.now(), revoked=True)
    was = before.doc["status"] or ("granted" if before.is_granted else "not on file")
    print(
        f"revoked in {options.mode} mode: the consent of {options.phone} was {was}. WhatsApp calls that wait for it, "
        "or are not dialed yet, end as failed; the other mode is as before"
    )


def _resume_conversation(stage: Stage, options: argparse.Namespace) -> None:

    from shared.conversations import commands
    from shared.core.errors import ApiError
    from shared.store import transactions

    try:
        change = transactions.commit(lambda: commands.resume(_scope(options), options.conversation))
    except ApiError as error:
        raise LookupError(error.message) from None
    if change.writes:
        print("resumed: the agent replies to the next message")
    else:
        print("nothing to do: this conversation is not handed to a person")


def _export_customer(stage: Stage, options: argparse.Namespace) -> None:

    from shared.admin import audit
    from shared.core.errors import ApiError
    from shared.erasure import access
    from shared.store import table

    scope = _scope(options)
    try:
        found = access.document(access.parts(scope, options.customer))
    except ApiError as error:
        raise LookupError(error.message) from None
    actor = audit.operator()
    entry = audit.entry(options.project, actor, "customer.exported", options.customer, livemode=scope.livemode)
    table.write([entry])
    print(json.dumps(found, indent=2, ensure_ascii=False))


def _erase_customer(stage: Stage, options: argparse.Namespace) -> None:
    from shared.erasure import erasing, ledger, runs

    if options.from_ledger == (options.customer is not None):
        raise ValueError("name either a project and a customer, or --from-ledger")
    if options.from_ledger:
        entries = ledger.entries()
    else:
        if options.mode is None:
            raise ValueError("name the mode of the customer: --mode test or --mode live")
        if not erasing.exists(_scope(options), options.customer):
            mode = f"project {options.project}, {options.mode} mode"
            raise LookupError(f"there is no customer {options.customer} in {mode}, not even a deleted one")
        entries = [ledger.begin(_scope(options), options.customer)]
    later = runs.run(entries, stage.failures, print)
    print(f"{len(entries) - len(later)} of {len(entries)} erasures are complete")
    if later:
        raise CommandFailed("; ".join(later))


def _apply_opt_outs(stage: Stage, options: argparse.Namespace) -> None:

    from shared.customers import opted_out_phones
    from shared.erasure import ledger
    from shared.store import table

    done, without_key = Counter[bool](), Counter[int]()
    for change in ledger.opt_outs():
        try:
            writes = opted_out_phones.restore(change.scope, change.phone_hash, opted_out=change.opted_out)
        except LookupError:
            without_key[change.scope.project_id] += 1
            continue
        if writes:
            table.write(writes)
            done[change.opted_out] += 1
    print(f"phones opted out again: {done[True]}, opt-outs lifted again: {done[False]}")
    for project, number in without_key.items():
        print(f"phones left out: {number}, because project {project} is not in the table, or older than opt-outs")


def _renew_search_rows(stage: Stage, options: argparse.Namespace) -> None:
    from shared.appointments.resource import APPOINTMENTS
    from shared.customers.resource import CUSTOMERS

    os.environ["SEARCH"] = options.search
    scope = _scope(options)
    renewed = sum(collection.renew_search_rows(scope) for collection in (CUSTOMERS, APPOINTMENTS))
    _say(options, {"object": "search_rows", "changed": renewed}, f"changed {renewed} customers and appointments")


def _scope(options: argparse.Namespace) -> Scope:
    from shared.store.keys import Scope

    return Scope(options.project, options.mode == "live")


def _phone(text: str) -> str:
    from shared.resources import fields

    try:
        return fields.phone(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError("a phone number has the form +15005550006") from error


def _count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise argparse.ArgumentTypeError("must be a whole number, 0 or more")
    return int(text)


def _prefix(text: str) -> str:
    if not re.fullmatch(r"\+[1-9][0-9]{0,14}", text):
        raise argparse.ArgumentTypeError("a prefix is the beginning of a number, such as +1 or +4930")
    return text


def _usage(stage: Stage, options: argparse.Namespace) -> None:
    from shared.projects import usage
    from shared.store.keys import Scope

    found = dict(usage.of_month(Scope(options.project, livemode=True), options.month))
    _say(options, found, tabulate(found.items(), tablefmt="plain"))


def _month(text: str) -> str:
    if not re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", text):
        raise argparse.ArgumentTypeError("a month has the form 2026-11")
    return text


def _redrive_stream(stage: Stage, options: argparse.Namespace) -> None:
    done = 0
    for batch in stage.failures():
        payload = json.loads(batch.content)["payload"]
        event = json.loads(payload) if isinstance(payload, str) else payload
        failed = stage.fan_out({**event, "redriven": True}).get("batchItemFailures")
        if failed:
            raise CommandFailed(f"fan_out failed again on {batch.name}, at {failed[0]['itemIdentifier']}: see its log")
        batch.replace(None)
        done += 1
        print(f"{batch.name}: {len(event['Records'])} records")
    print(f"{done} batches processed again")


class _Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Help with the defaults that say something, under a description whose lines stay as they are."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default in (None, "", []) or "(default: " in (action.help or ""):
            return action.help
        return super()._get_help_string(action)


class _Parser(argparse.ArgumentParser):
    """A parser whose help shows defaults, and which takes the common options, as do those of its commands.

    Only the outermost one has their defaults: a command's would replace what precedes the command.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": _Help} | options)
        # argparse reads `%` in a help text as a reference.
        data_dir = str(_data_dir()).replace("%", "%%")
        self.add_argument(
            "--stage",
            default=argparse.SUPPRESS,
            help=f"a deployed stage, such as dev or prod, or else {RUNNER} (default: {RUNNER})",
        )
        self.add_argument(
            "--data-dir",
            default=argparse.SUPPRESS,
            help=f"the local runner's data directory (default: {data_dir}, from DATA_DIR or .data)",
        )
        self.add_argument(
            "--json", action="store_true", default=argparse.SUPPRESS, help="print JSON where there is data"
        )


def _data_dir() -> str:
    return os.environ.get("DATA_DIR", ".data")


def _parser() -> argparse.ArgumentParser:
    from shared.calls import project_limits

    parser = _Parser(prog="python -m infra.manage", description=__doc__)
    parser.set_defaults(stage=RUNNER, data_dir=_data_dir(), json=False)
    groups = parser.add_subparsers(required=True, metavar="COMMAND")

    projects = groups.add_parser("projects", help="create and list projects").add_subparsers(required=True)
    create = projects.add_parser("create")
    create.add_argument("name")
    create.set_defaults(command=_create_project)
    projects.add_parser("list").set_defaults(command=_list_projects)

    keys = groups.add_parser("keys", help="create, list and revoke API keys").add_subparsers(required=True)
    create = keys.add_parser("create")
    create.add_argument("project", type=int)
    create.add_argument("--mode", choices=("test", "live"), default="test", help="the mode of the key")
    create.add_argument("--label", default="", help="what the key is for")
    create.add_argument("--read-only", action="store_true", help="the key may only send GET requests")
    create.add_argument("--days", type=int, help="the key expires after this number of days")
    create.set_defaults(command=_create_key)
    listing = keys.add_parser("list")
    listing.add_argument("project", type=int)
    listing.set_defaults(command=_list_keys)
    revoke = keys.add_parser("revoke")
    revoke.add_argument("project", type=int)
    revoke.add_argument("key")
    revoke.set_defaults(command=_revoke_key)

    members = groups.add_parser("members", help="the people who may use the admin pages").add_subparsers(required=True)
    add = members.add_parser("add", help="add a member by e-mail address")
    add.add_argument("project", type=int)
    add.add_argument("email", type=_email)
    add.add_argument("--role", choices=("owner", "member", "viewer"), default="viewer", help="what the person may do")
    add.set_defaults(command=_add_member)
    listing = members.add_parser("list")
    listing.add_argument("project", type=int)
    listing.set_defaults(command=_list_members)
    remove = members.add_parser("remove", help="remove a member, who loses access immediately")
    remove.add_argument("project", type=int)
    remove.add_argument("email", type=_email)
    remove.add_argument("--force", action="store_true", help="remove the only owner, too")
    remove.set_defaults(command=_remove_member)
    rebind = members.add_parser("rebind", help="let members sign in with new identities: one, or all of a project")
    rebind.add_argument("project", type=int)
    rebind.add_argument("email", type=_email, nargs="?")
    rebind.set_defaults(command=_rebind_members)
    for name, helps, command in (
        ("invite", "send the invitation again", _invite_member),
        ("reset-second-factor", "remove a lost authenticator app", _reset_second_factor),
    ):
        of_user = members.add_parser(name, help=helps)
        of_user.add_argument("project", type=int)
        of_user.add_argument("email", type=_email)
        of_user.set_defaults(command=command)
    link = members.add_parser("link", help="print a link that signs a member in once (local runner)")
    link.add_argument("email", type=_email)
    link.set_defaults(command=_link_member)

    calls = groups.add_parser("calls", help="show and set a project's limits of live calls").add_subparsers(
        required=True
    )
    show = calls.add_parser("show", help="show the limits, and the number of calls now and today")
    show.add_argument("project", type=int)
    show.set_defaults(command=_show_calls)
    limit = calls.add_parser("limit", help="set all three limits; an omitted option sets its default")
    limit.add_argument("project", type=int)
    limit.add_argument(
        "--prefix",
        type=_prefix,
        action="append",
        default=[],
        help="may be repeated; without it, all numbers are allowed",
    )
    limit.add_argument("--at-once", type=_count, default=project_limits.AT_ONCE, help="calls at once")
    limit.add_argument("--per-day", type=_count, default=project_limits.PER_DAY, help="calls in a day (UTC)")
    limit.set_defaults(command=_limit_calls)

    agent = groups.add_parser("agent", help="show and change the settings of a project's agent").add_subparsers(
        required=True
    )
    show = agent.add_parser("show", help="print the settings as JSON")
    change = agent.add_parser("set", help=f"apply a JSON merge patch; null brings a default back; {ANY_HOUR}")
    change.add_argument("--file", type=argparse.FileType(), default="-", help="the patch; - is standard input")
    for each, command in ((show, _show_agent), (change, _set_agent)):
        each.add_argument("project", type=int)
        each.add_argument("--mode", choices=("test", "live"), required=True, help="the mode of the data")
        each.set_defaults(command=command)

    consents = groups.add_parser("consents", help="revoke consent to calls on WhatsApp")
    revoke = consents.add_subparsers(required=True).add_parser("revoke")
    revoke.add_argument("project", type=int)
    revoke.add_argument("phone", type=_phone)
    revoke.add_argument("--mode", choices=("test", "live"), required=True, help="the mode of the data")
    revoke.set_defaults(command=_revoke_consent)

    conversations = groups.add_parser("conversations", help="give handed-off conversations back to the agent")
    resume = conversations.add_subparsers(required=True).add_parser("resume")
    resume.add_argument("project", type=int)
    resume.add_argument("conversation")
    resume.add_argument("--mode", choices=("test", "live"), required=True, help="the mode of the data")
    resume.set_defaults(command=_resume_conversation)

    customers = groups.add_parser("customers", help="export what is kept about a person, or remove it for good")
    of_customer = customers.add_subparsers(required=True)
    export = of_customer.add_parser("export")
    export.add_argument("project", type=int)
    export.add_argument("customer")
    export.add_argument("--mode", choices=("test", "live"), required=True, help="the mode of the data")
    export.set_defaults(command=_export_customer)
    erase = of_customer.add_parser("erase")
    erase.add_argument("project", type=int, nargs="?")
    erase.add_argument("customer", nargs="?")
    erase.add_argument("--mode", choices=("test", "live"), help="required with a customer")
    erase.add_argument("--from-ledger", action="store_true", help="erase again everyone in the ledger")
    erase.set_defaults(command=_erase_customer)

    search = groups.add_parser("search", help="make or delete the rows by which people are found").add_subparsers(
        required=True
    )
    for name, value in (("fill", "1"), ("empty", "0")):
        renew = search.add_parser(name)
        renew.add_argument("project", type=int)
        renew.add_argument("--mode", choices=("test", "live"), required=True, help="the mode of the data")
        renew.set_defaults(command=_renew_search_rows, search=value)

    opted_out = groups.add_parser("opt-outs", help="apply the ledger's opt-outs of phones").add_subparsers(
        required=True
    )
    opted_out.add_parser("apply").set_defaults(command=_apply_opt_outs)

    usage = groups.add_parser("usage", help="show a project's usage of a month in live mode")
    usage.add_argument("project", type=int)
    usage.add_argument("month", type=_month)
    usage.set_defaults(command=_usage)

    redrive = groups.add_parser("redrive-stream", help="send the failed batches of the stream to fan_out again")
    redrive.set_defaults(command=_redrive_stream)
    return parser


if __name__ == "__main__":
    sys.exit(main())
