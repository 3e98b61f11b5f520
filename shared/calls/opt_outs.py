"""What it means that a person is not to be called or written to again (promises 11).

An opt-out is stored twice: as `do_not_call` of the customer, and as a row of the phone, which outlives its customers
(`shared/customers/opted_out_phones.py`). No call begins after it (`has_opted_out`), the phone's consent ends, and so do
the calls to the person: at once if they wait, otherwise at their next step. `opt_in` lifts it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from shared.calls import endings, sessions
from shared.calls.consent import consents
from shared.calls.sessions import SESSIONS, SessionRecord
from shared.core import clock
from shared.core.call_statuses import ENDED, OPTED_OUT, ConsentStatus
from shared.core.errors import ApiError, Code
from shared.customers import opted_out_phones
from shared.customers.resource import CUSTOMERS, Customer, CustomerRecord
from shared.resources import list_pages
from shared.resources.documents import revise
from shared.resources.queries import Query
from shared.store import table, transactions
from shared.store.keys import Scope
from shared.store.transactions import Change
from shared.tasks import tasks, wake_ups

_PAGE = 100


def has_opted_out(scope: Scope, customer: Customer | None, phone: str, rows: table.Rows | None = None) -> bool:
    """Whether a customer is not to be called, or nobody at this phone. `rows` are as in `opted_out_phones.contains`."""
    return (customer is not None and customer["do_not_call"]) or opted_out_phones.contains(scope, phone, rows)


def opt_out(scope: Scope, customer_id: str, *, in_call: str | None = None, to: str | None = None) -> Change[Customer]:
    """Opt a customer and its phone out, which ends the calls to them that wait or ring.

    In a call (the session `in_call` to the number `to`), that number is the phone, and the call itself goes on. Of a
    deleted customer, only the phone is opted out. Nothing changes if all of this was done. Raises `resource_not_found`.
    """
    record = CUSTOMERS.find(scope, customer_id)
    phone = to or record.doc["phone"]
    of_phone = [] if phone is None else opted_out_phones.add_writes(scope, phone)
    change = Change(record.doc)
    if record.doc["deleted_at"] is None and not record.doc["do_not_call"]:
        opted_out: Customer = {**record.doc, "do_not_call": True}
        change = save_opted_out(scope, record, revise(record.doc, opted_out), in_call)
    return Change(change.doc, [*of_phone, *change.writes], partial(_end_calls, scope, change, phone, in_call))


def opt_out_now(scope: Scope, customer_id: str, *, in_call: str | None = None, to: str | None = None) -> None:
    """Commit an opt-out before the agent's answer, which a worker may have to repeat: the wish is kept in any case."""
    transactions.commit(lambda: opt_out(scope, customer_id, in_call=in_call, to=to))


def opt_in(scope: Scope, record: CustomerRecord) -> Change[Customer]:
    """Lift the opt-out of a customer and of its phone: the person agrees to be called again.

    Nothing changes if there is none. Raises `customer_deleted`.
    """
    if record.doc["deleted_at"] is not None:
        raise ApiError(Code.CUSTOMER_DELETED)
    allowed: Customer = {**record.doc, "do_not_call": False}
    customer = revise(record.doc, allowed)
    phone = customer["phone"]
    writes = [] if phone is None else [*opted_out_phones.remove_writes(scope, phone)]
    if customer is not record.doc:
        writes += CUSTOMERS.replace_writes(scope, record, customer)
    elif writes:
        # The phone may have changed since it was read.
        pk, id = scope.pk(CUSTOMERS.kind), customer["id"]
        writes.append(table.Check(pk, id, table.unchanged(record.version)))
    return Change(customer, writes)


def save_opted_out(scope: Scope, record: CustomerRecord, doc: Customer, in_call: str | None = None) -> Change[Customer]:
    """Make `doc`, with `do_not_call`, a customer's document, and end its call, unless that is `in_call`.

    The writes fail if a call of the customer started or ended since.
    """
    id = record.row.get("active_session")
    same_call = table.equals("active_session", id)
    if id is None or id == in_call:
        return Change(doc, CUSTOMERS.replace_writes(scope, record, doc, condition=same_call))
    call = SESSIONS.find(scope, id)
    if sessions.is_waiting(call):
        end = endings.end_writes(scope, call, OPTED_OUT, frees_customer=False)
        return Change(doc, [*CUSTOMERS.replace_writes(scope, record, doc, {"active_session": None}, same_call), *end])
    writes = [*CUSTOMERS.replace_writes(scope, record, doc, condition=same_call), *_opted_out_writes(scope, call)]
    return Change(doc, writes, partial(_wake, scope, id))


def _end_calls(scope: Scope, of_customer: Change[Customer], phone: str | None, in_call: str | None) -> None:
    """After the commit: end the phone's consent, and the calls to all its customers, other than `in_call`.

    If the worker dies in between, the calls that remain fail when they are dialed, and no grant revives the consent.
    """
    of_customer.after_commit()
    if phone is None:
        return
    transactions.retry_on_conflict(partial(_end_consent, scope, phone))
    for customer_id in _customers_of(scope, phone):
        transactions.retry_on_conflict(partial(_end_call, scope, customer_id, phone, in_call))


def _end_consent(scope: Scope, phone: str) -> None:
    consent = consents.find(scope, phone)
    if consent.is_pending or consent.doc["status"] == ConsentStatus.GRANTED:
        # Imported here, because it loads botocore, and few phones have a consent.
        from shared.calls.consent import consent_requests

        doc = consents.with_answer(consent, ConsentStatus.DECLINED, clock.now())
        consent_requests.close(consent, doc, OPTED_OUT)


def _customers_of(scope: Scope, phone: str) -> Iterator[str]:
    """The ids of the customers with this phone."""
    cursor = None
    while True:
        query = Query(limit=_PAGE, starting_after=cursor, filters={"phone": (phone,)})
        page = list_pages.read(scope, CUSTOMERS, query)
        yield from (row["sk"] for row in page.rows)
        if page.next_cursor is None:
            return
        cursor = page.next_cursor


def _end_call(scope: Scope, customer_id: str, phone: str, in_call: str | None) -> None:
    """End the call of a customer, if it waits or rings."""
    row = CUSTOMERS.row(scope, customer_id)
    if row is None or row.get("active_session") in (None, in_call):
        return
    call = SESSIONS.find(scope, row["active_session"])
    # A call that was started may go to another phone: the customer's may have changed.
    goes_elsewhere = sessions.is_starting(call) and call.doc["to"] != phone
    if sessions.is_waiting(call):
        table.write(endings.end_writes(scope, call, OPTED_OUT))
    elif not goes_elsewhere and (writes := _opted_out_writes(scope, call)):
        table.write(writes)
        _wake(scope, call.doc["id"])


def _opted_out_writes(scope: Scope, call: SessionRecord) -> list[table.Update]:
    """The write that lets the next step of a call that was started end it, and makes the step due now.

    None if the call has ended meanwhile.
    """
    if call.doc["call_status"] in ENDED:
        return []
    due = tasks.due_attributes(call.doc["id"], clock.now())
    return [sessions.change_write(scope, call, {}, {**due, "opted_out": True})]


def _wake(scope: Scope, session_id: str) -> None:
    wake_ups.send_within(wake_ups.REQUEST_S, [sessions.wake_up(scope, session_id)])
