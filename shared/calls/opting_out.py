"""A person's own wish not to be called or written to again: kept, and carried out on calls (promises 11)."""

from __future__ import annotations

from functools import partial

from shared.calls import commands as call_commands
from shared.calls import sessions, transitions
from shared.calls.consent import consents
from shared.calls.sessions import SESSIONS
from shared.core import clock
from shared.core.call_statuses import ConsentStatus
from shared.customers import opted_out_phones
from shared.customers.resource import CUSTOMERS, Customer
from shared.resources import list_pages
from shared.resources.collections import revise
from shared.resources.queries import Query
from shared.store import table, transactions
from shared.store.keys import Scope
from shared.store.transactions import Change

_PAGE = 100


def opt_out(scope: Scope, customer_id: str, *, in_call: str | None = None, to: str | None = None) -> Change[Customer]:
    """Opt a customer and its phone out, which ends the calls to them that wait or ring.

    In a call (the session `in_call` to the number `to`), that number is the phone, and the call itself goes on. Of a
    deleted customer, only the phone is opted out. Nothing changes if all of this was done. Raises `resource_not_found`.
    """
    record = CUSTOMERS.find(scope, customer_id)
    phone = to or record.doc["phone"]
    writes = [] if phone is None else [*opted_out_phones.opt_out(scope, phone)]
    end_calls = partial(_end_calls, scope, phone, in_call)
    opted_out: Customer = {**record.doc, "do_not_call": True}
    customer = revise(record.doc, opted_out)
    if record.doc["deleted_at"] is not None:
        return Change(record.doc, writes, end_calls)
    if customer is record.doc:
        return Change(customer, writes, end_calls)
    if in_call is not None and record.row.get("active_session") == in_call:
        return Change(customer, [*writes, *CUSTOMERS.replace(scope, record, customer)], end_calls)
    change = call_commands.stop_calling(scope, record, customer)

    def wake_and_end_calls() -> None:
        change.after_commit()
        end_calls()

    return Change(customer, [*writes, *change.writes], wake_and_end_calls)


def opt_out_now(scope: Scope, customer_id: str, *, in_call: str | None = None, to: str | None = None) -> None:
    """Commit an opt-out before the agent's answer, which a worker may have to repeat: the wish is kept in any case."""
    transactions.commit(lambda: opt_out(scope, customer_id, in_call=in_call, to=to))


def _end_calls(scope: Scope, phone: str | None, in_call: str | None) -> None:
    """End the phone's consent, and the calls to its customers that wait or ring, other than `in_call`.

    If the worker dies in between, the calls that remain fail when they are dialed, and no grant revives the consent.
    """
    if phone is None:
        return
    transactions.retry_on_conflict(lambda: _end_consent(scope, phone))
    cursor = None
    while True:
        query = Query(limit=_PAGE, starting_after=cursor, filters={"phone": (phone,)})
        page = list_pages.read(scope, CUSTOMERS, query)
        for row in page.rows:
            transactions.retry_on_conflict(partial(_end_call, scope, row["sk"], phone, in_call))
        if page.next_cursor is None:
            return
        cursor = page.next_cursor


def _end_consent(scope: Scope, phone: str) -> None:
    consent = consents.find(scope, phone)
    if consent.is_pending or consent.doc["status"] == ConsentStatus.GRANTED:
        # Imported here, because it loads botocore, and few phones have a consent.
        from shared.calls.consent import consent_requests

        doc = consents.with_answer(consent, ConsentStatus.DECLINED, clock.now())
        consent_requests.close(consent, doc, transitions.OPTED_OUT)


def _end_call(scope: Scope, customer_id: str, phone: str, in_call: str | None) -> None:
    """End the call of a customer, if it waits or rings."""
    row = CUSTOMERS.row(scope, customer_id)
    if row is None or row.get("active_session") in (None, in_call):
        return
    active = SESSIONS.find(scope, row["active_session"])
    # A call that is under way may go to another phone: the customer's may have changed.
    if sessions.is_starting(active) and active.doc["to"] != phone:
        return
    writes = transitions.end_by_opt_out(scope, active)
    if writes:
        table.write(writes)
        call_commands.wake(scope, active.doc["id"])
