"""What is kept about people: export, erasure, rows of search, and opt-outs."""

from __future__ import annotations

import json
import os
from collections import Counter
from functools import partial
from typing import Any

from infra.manage.command import MODE, PROJECT, Argument, Run, command
from infra.manage.stages import CommandFailed
from shared.admin import audit
from shared.appointments.resource import APPOINTMENTS
from shared.customers import opted_out_phones
from shared.customers.resource import CUSTOMERS
from shared.erasure import access, erasing, ledger, runs
from shared.resources.collections import Collection
from shared.store import table, transactions
from shared.store.keys import Scope
from shared.store.transactions import Change


@command("customers export", PROJECT, Argument("customer"), MODE)
def _export(run: Run, project: int, customer: str, mode: str) -> None:
    scope = Scope(project, mode == "live")
    found = access.document(access.parts(scope, customer))
    table.write([audit.entry(project, audit.operator(), "customer.exported", customer, livemode=scope.livemode)])
    print(json.dumps(found, indent=2, ensure_ascii=False))


@command(
    "customers erase",
    Argument("project", type=int, nargs="?"),
    Argument("customer", nargs="?"),
    Argument("--mode", choices=("test", "live"), help="required with a customer"),
    Argument("--from-ledger", action="store_true", help="erase again everyone in the ledger"),
)
def _erase(run: Run, project: int | None, customer: str | None, mode: str | None, from_ledger: bool) -> None:
    if from_ledger == (customer is not None):
        raise ValueError("name either a project and a customer, or --from-ledger")
    if project is None or customer is None:
        entries = ledger.entries()
    else:
        if mode is None:
            raise ValueError("name the mode of the customer: --mode test or --mode live")
        scope = Scope(project, mode == "live")
        if not erasing.exists(scope, customer):
            where = f"project {project}, {mode} mode"
            raise LookupError(f"there is no customer {customer} in {where}, not even a deleted one")
        entries = [ledger.begin(scope, customer)]
    later = runs.run(entries, run.stage.failures, print)
    print(f"{len(entries) - len(later)} of {len(entries)} erasures are complete")
    if later:
        raise CommandFailed("; ".join(later))


@command("search fill", PROJECT, MODE)
def _fill_search(run: Run, project: int, mode: str) -> None:
    _renew_search_rows(run, Scope(project, mode == "live"), "1")


@command("search empty", PROJECT, MODE)
def _empty_search(run: Run, project: int, mode: str) -> None:
    _renew_search_rows(run, Scope(project, mode == "live"), "0")


def renew_search_rows(collection: Collection[Any, Any], scope: Scope) -> int:
    """Give all resources the search rows that they are to have. Returns the number of those that had others."""
    pk = scope.pk(collection.kind)

    def renew(id: str) -> Change[None]:
        row = table.get(pk, id)
        return Change(None, [] if row is None else collection.search_row_writes(scope, collection.record(row)))

    ids = (row["sk"] for page in table.query(pk, limit=100, forward=True) for row in page)
    return sum(bool(transactions.commit(partial(renew, id)).writes) for id in ids)


def _renew_search_rows(run: Run, scope: Scope, search: str) -> None:
    os.environ["SEARCH"] = search
    renewed = sum(renew_search_rows(collection, scope) for collection in (CUSTOMERS, APPOINTMENTS))
    run.show({"object": "search_rows", "changed": renewed}, f"changed {renewed} customers and appointments")


@command("opt-outs apply")
def _apply_opt_outs(run: Run) -> None:
    done, without_key = Counter[bool](), Counter[int]()
    for change in ledger.opt_outs():
        try:
            writes = opted_out_phones.restore_writes(change.scope, change.phone_hash, opted_out=change.opted_out)
        except LookupError:
            without_key[change.scope.project_id] += 1
            continue
        if writes:
            table.write(writes)
            done[change.opted_out] += 1
    print(f"phones opted out again: {done[True]}, opt-outs lifted again: {done[False]}")
    for project, number in without_key.items():
        print(f"phones left out: {number}, because project {project} is not in the table, or older than opt-outs")
