"""A project's calls: the limits of live ones, and consent to those on WhatsApp."""

from __future__ import annotations

import argparse
import dataclasses
import re

from infra.manage.command import MODE, PROJECT, Argument, Run, command
from shared.admin import audit, audited
from shared.calls import project_limits
from shared.calls.consent import consent_requests, consents
from shared.core import clock
from shared.core.call_statuses import ConsentStatus
from shared.projects import projects
from shared.resources import fields
from shared.store import table, transactions
from shared.store.keys import Scope
from shared.store.transactions import Change

ANY_NUMBER = "may be repeated; without it, all numbers are allowed"


@command("calls show", PROJECT, help="show the limits, and the number of calls now and today")
def _show_limits(run: Run, project: int) -> None:
    allowed, counts = project_limits.of_project(Scope(project, livemode=True))
    found = {**dataclasses.asdict(allowed), "now": counts.at_once, "today": counts.today}
    run.show(found, f"{_in_words(project, allowed)}\nnow {counts.at_once}, today {counts.today}")


def _prefix(text: str) -> str:
    if not project_limits.is_prefix(text):
        raise argparse.ArgumentTypeError("a prefix is the beginning of a number, such as +1 or +4930")
    return text


def _count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise argparse.ArgumentTypeError("must be a whole number, 0 or more")
    return int(text)


@command(
    "calls limit",
    PROJECT,
    Argument("--prefix", type=_prefix, action="append", default=[], help=ANY_NUMBER),
    Argument("--at-once", type=_count, default=project_limits.AT_ONCE, help="calls at once"),
    Argument("--per-day", type=_count, default=project_limits.PER_DAY, help="calls in a day (UTC)"),
    help="set all three limits; an omitted option sets its default",
)
def _set_limits(run: Run, project: int, prefix: list[str], at_once: int, per_day: int) -> None:
    wanted = project_limits.Limits(tuple(prefix), at_once, per_day)
    projects.find(project)

    def change() -> Change[project_limits.Limits]:
        before, _ = project_limits.of_project(Scope(project, livemode=True))
        return audited.change_call_limits(project, wanted, before, audit.operator())

    transactions.commit(change)
    print(_in_words(project, wanted))


def _in_words(project: int, limits: project_limits.Limits) -> str:
    reach = ", ".join(limits.prefixes) or "any number"
    return f"project {project}: live calls to {reach}, {limits.at_once} at once, {limits.per_day} a day (UTC)"


def _phone(text: str) -> str:
    try:
        return fields.phone(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError("a phone number has the form +15005550006") from error


@command("consents revoke", PROJECT, Argument("phone", type=_phone), MODE)
def _revoke_consent(run: Run, project: int, phone: str, mode: str) -> None:
    scope = Scope(project, mode == "live")
    before = consents.find(scope, phone)
    # Without the phone, which is personal data. Written first: nothing is revoked without an entry.
    entry = audit.entry(project, audit.operator(), "consent.revoked", str(project), livemode=scope.livemode)
    table.write([entry])
    consent_requests.answer(scope, phone, ConsentStatus.DECLINED, clock.now(), revoked=True)
    was = before.doc["status"] or ("granted" if before.is_granted else "not on file")
    print(
        f"revoked in {mode} mode: the consent of {phone} was {was}. WhatsApp calls that wait for it, "
        "or are not dialed yet, end as failed; the other mode is as before"
    )
