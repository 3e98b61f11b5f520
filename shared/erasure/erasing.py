"""The erasure of a customer, step by step. A run that was stopped anywhere is repeated from the beginning.

First, stop everything that could write the customer's data again. The row of the erasure makes `fan_out` ignore
all changes of the customer's rows, so the erasure has no events. The customer is deleted, so that nothing new can begin
for it. Its conversations end, its calls have no step left, and its deliveries are gone. Functions that had read the
rows before may still be running, so nothing else is removed until they must have ended (`NotYet`).

Then everything is removed. Rows that another row leads to are deleted before that row, so that a repeated run finds
them again, and the customer last. A function that writes later than that does so on condition of a row that is gone.
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from shared.appointments.resource import APPOINTMENTS
from shared.calls import endings, recordings, sessions, transcripts
from shared.calls.consent import consents
from shared.calls.live import contacts
from shared.calls.sessions import SESSIONS
from shared.conversations import commands as conversation_commands
from shared.conversations.resource import CONVERSATIONS, ConversationStatus, messages_pk
from shared.core import clock
from shared.core.call_statuses import CUSTOMER_DELETED, SessionCallStatus
from shared.customers import commands as customer_commands
from shared.customers import resource as customers
from shared.customers.resource import CUSTOMERS, Customer
from shared.erasure import stored_batches
from shared.erasure.stored_batches import StoredBatch
from shared.projects import usage
from shared.resources import list_pages
from shared.resources.collections import Collection
from shared.resources.queries import Query
from shared.store import table, transactions
from shared.store.keys import Scope
from shared.store.transactions import Change
from shared.tasks import tasks
from shared.telephony import contact_lens
from shared.webhooks.deliveries import resource as deliveries
from shared.webhooks.events import EVENTS

SETTLES_S = 400
"""Unscaled seconds after which nothing is written any more by a function that began before the data was stopped.
It is longer than the longest timeout of a function and the five minutes for which AWS accepts a signed request."""
CALL_TAKES_MS = 10 * clock.SECOND
"""When to try again while a call is under way."""
FILES_MAY_ARRIVE_FOR_MS = clock.HOUR
"""How long after the end of a live call Amazon Connect may store its files."""
_PAGE = 100
_DELIVERIES = 90
"""The most deliveries that are deleted in one transaction with their event."""

StoredBatches = Callable[[], Iterable[StoredBatch]]


class NotYet(Exception):
    """The erasure must be run again, not before the instant `until`. The message says why."""

    def __init__(self, until: clock.Instant, reason: str) -> None:
        super().__init__(reason)
        self.until = until


def erase(scope: Scope, customer_id: str, stored: StoredBatches) -> Iterator[str]:
    """Erase a customer and all its data. Yields in words what has been done.

    `stored` returns the failed batches of the table's stream. Raises NotYet if something must end first: call it again.
    If there is no such customer, nothing happens.
    """
    if exists(scope, customer_id):
        yield from _stop(scope, customer_id)
        yield from _remove(scope, customer_id, stored)


def exists(scope: Scope, customer_id: str) -> bool:
    """Whether there is such a customer, deleted or not, or its erasure has begun."""
    return CUSTOMERS.row(scope, customer_id) is not None or customers.is_erased(scope, customer_id)


def _stop(scope: Scope, customer_id: str) -> Iterator[str]:
    """Stop everything that could write the customer's data again. Raises NotYet until all of it has ended."""
    pk, sk = customers.erasure_key(scope, customer_id)
    marks: dict[str, table.Value] = {
        "kind": "erasure",
        "expires_at": table.expiry(clock.now() + customers.ERASURE_KEPT_MS),
    }
    erasure = table.write_and_get(table.Update(pk, sk, set=marks, condition=table.ALWAYS))
    stopped = _delete_customer(scope, customer_id)
    if stopped:
        yield "deleted the customer"
    waits: list[NotYet] = []
    for session in _ids(SESSIONS, scope, customer_id):
        try:
            stopped |= transactions.retry_on_conflict(functools.partial(_stop_session, scope, session))
        except NotYet as wait:
            waits.append(wait)
    with_events = [customer_id, *_ids(APPOINTMENTS, scope, customer_id), *_ids(SESSIONS, scope, customer_id)]
    for conversation in _ids(CONVERSATIONS, scope, customer_id):
        stopped |= transactions.retry_on_conflict(functools.partial(_end_conversation, scope, conversation))
        with_events += [conversation, *_staff_messages(scope, conversation)]
    if number := sum(_erase_events(scope, id) for id in with_events):
        yield f"erased {number} events and their deliveries"
    if _erase_consents(scope, customer_id)["erased"]:
        yield "erased the consent of the customer's phone"
    if waits:
        raise max(waits, key=lambda wait: wait.until)
    if stopped or "stopped_at" not in erasure:
        erasure = table.write_and_get(table.Update(pk, sk, set={"stopped_at": clock.now()}))
    settled_at = erasure["stopped_at"] + clock.scaled_ms(SETTLES_S)
    if clock.now() < settled_at:
        raise NotYet(settled_at, "requests and workers that began before must end")


def _delete_customer(scope: Scope, customer_id: str) -> bool:
    """Delete the customer as the API does. Returns whether it was not deleted yet.

    Another run of the erasure may remove the customer meanwhile.
    """

    def delete() -> Change[Customer | None]:
        row = CUSTOMERS.row(scope, customer_id)
        if row is None:
            return Change(None)
        return customer_commands.delete(scope, CUSTOMERS.record(row))

    return bool(transactions.commit(delete).writes)


def _stop_session(scope: Scope, session_id: str) -> bool:
    """Leave the call without a step, and let events of its contact be ignored. Returns whether this changed something.

    Raises NotYet while the call is under way, or its files may still arrive.
    """
    row = SESSIONS.row(scope, session_id)
    if row is None:
        return False
    record, now = SESSIONS.record(row), clock.now()
    session = record.doc
    if session["call_status"] == SessionCallStatus.DIALING:
        raise NotYet(now + CALL_TAKES_MS, f"the call {session_id} is under way")
    if session["call_status"] == SessionCallStatus.QUEUED:
        table.write(endings.end_writes(scope, record, CUSTOMER_DELETED, frees_customer=False))
        return True
    stopped = False
    if "contact_id" in record.row:
        assert session["ended_at"] is not None, "the call has ended"
        until = clock.parse(session["ended_at"]) + FILES_MAY_ARRIVE_FOR_MS
        if now < until:
            raise NotYet(until, f"Amazon Connect may still store files of the call {session_id}")
        stopped = contacts.find(record.row["contact_id"]) is not None
        _execute(contacts.delete_write(record.row["contact_id"]))
    if "due_at" in record.row:
        table.write([sessions.change_write(scope, record, {}, tasks.NO_WORK)])
        stopped = True
    return stopped


def _staff_messages(scope: Scope, conversation_id: str) -> list[str]:
    """The ids of the messages of a conversation that have events."""
    pages = table.query(messages_pk(scope, conversation_id), limit=_PAGE)
    return [row["sk"] for page in pages for row in page if row["kind"] == "staff_message"]


def _end_conversation(scope: Scope, conversation_id: str) -> bool:
    """End the conversation, so that it takes no message any more. Returns whether it was active."""
    row = CONVERSATIONS.row(scope, conversation_id)
    if row is None:
        return False
    writes = conversation_commands.end(scope, CONVERSATIONS.record(row)).writes
    if writes:
        table.write(writes)
    return bool(writes)


def _remove(scope: Scope, customer_id: str, stored: StoredBatches) -> Iterator[str]:
    """Remove everything, the customer last."""
    consent = _erase_consents(scope, customer_id)
    if consent["erased"]:
        yield "erased the consent of the customer's phone"
    if consent["kept"]:
        yield "kept the consent of a phone that another customer has, too"
    for collection, remove in OWNED:
        done: Counter[str] = Counter()
        for row in rows_of(collection, scope, customer_id):
            done += remove(scope, row)
        yield from (f"erased {number} {what}" for what, number in done.items())
    if number := _erase_events(scope, customer_id):
        yield f"erased {number} events"
    if number := sum(stored_batches.erase(batch, scope, customer_id) for batch in stored()):
        yield f"erased {number} changes in failed batches"
    if CUSTOMERS.row(scope, customer_id) is not None:
        _delete(scope.pk(CUSTOMERS.kind), customer_id)
        _delete(scope.pk(f"deleted_{CUSTOMERS.kind}"), customer_id)
        yield "erased the customer"


def _remove_appointment(scope: Scope, row: table.Row) -> Counter[str]:
    id = row["sk"]
    events = _erase_events(scope, id)
    transactions.retry_on_conflict(functools.partial(_delete_appointment, scope, id))
    return +Counter({"appointments": 1, "events": events})


def _delete_appointment(scope: Scope, id: str) -> None:
    """Delete an appointment's row with its search rows. Raises ConditionFailed if it was changed meanwhile."""
    # In this order, because the API may move the row from the one key to the other meanwhile.
    for pk, sk in APPOINTMENTS.row_keys(scope, id):
        row = table.get(pk, sk)
        if row is not None:
            table.write(APPOINTMENTS.erasure_writes(scope, row))


def _remove_session(scope: Scope, row: table.Row) -> Counter[str]:
    record = SESSIONS.record(row)
    id, ended_at = record.doc["id"], record.doc["ended_at"]
    done = Counter({"sessions": 1, "events": _erase_events(scope, id)})
    done["recordings and other files"] = recordings.erase(_file_prefixes(scope, row))
    if scope.livemode and ended_at is not None:
        done["usage records"] = _erase_usage(scope, [(id, ended_at)])
    _execute(transcripts.delete_write(scope, id))
    _delete(row["pk"], id)
    return +done


def _file_prefixes(scope: Scope, row: table.Row) -> Iterator[str]:
    """The prefixes of the keys of all files of a call."""
    session = SESSIONS.record(row).doc
    yield recordings.key_of(scope, session["id"])
    known = row.get("recording_key")
    if known is not None:
        yield known
    if "contact_id" in row:
        days = [at[:10] for at in (session["dialed_at"], session["ended_at"]) if at is not None]
        yield from contact_lens.prefixes(row["contact_id"], days, known)


def _remove_conversation(scope: Scope, row: table.Row) -> Counter[str]:
    record = CONVERSATIONS.record(row)
    pk = messages_pk(scope, record.doc["id"])
    with_events = [record.doc["id"], *_staff_messages(scope, record.doc["id"])]
    done = Counter({"conversations": 1, "events": sum(_erase_events(scope, id) for id in with_events)})
    while page := next(table.query(pk, limit=_PAGE, forward=True), []):
        if scope.livemode:
            answered = [message for message in page if "response_body" in message]
            turns = [(one["sk"], json.loads(one["response_body"])["reply"]["created_at"]) for one in answered]
            done["usage records"] += _erase_usage(scope, turns)
        for message in page:
            _delete(pk, message["sk"])
        done["messages"] += len(page)
    if record.doc["status"] != ConversationStatus.ENDED:
        for write in conversation_commands.free_thread_writes(scope, record.doc):
            _execute(write)
    _delete(row["pk"], row["sk"])
    return +done


def _erase_usage(scope: Scope, counted: Iterable[tuple[str, str]]) -> int:
    """Make the usage of these turns and calls, counted at these times, part of the sum of their months."""
    months: dict[str, list[str]] = defaultdict(list)
    for id, at in counted:
        months[at[:7]].append(id)
    return sum(
        transactions.retry_on_conflict(functools.partial(usage.merge, scope, *month)) for month in months.items()
    )


def _erase_events(scope: Scope, object_id: str) -> int:
    """Erase the events of a resource with their deliveries. Returns the number of events."""
    partition = scope.index(EVENTS.kind, "object_id", object_id)
    entries = [entry for page in table.query(partition, index="f1", limit=_PAGE) for entry in page]
    return sum(transactions.retry_on_conflict(functools.partial(_erase_event, scope, entry["sk"])) for entry in entries)


def _erase_event(scope: Scope, id: str) -> bool:
    """Erase an event with its deliveries. Returns whether it was there."""
    pk = scope.pk(EVENTS.kind)
    # An expired event is read too: DynamoDB may keep it for some days.
    events = next(table.query(pk, at_least=id, at_most=id, limit=1), [])
    of_event = deliveries.of_event(scope, id)
    for row in of_event[_DELIVERIES:]:
        _delete(row["pk"], row["sk"])
    retries = events[0].get("retries") if events else None
    # A manual retry creates a delivery, and counts it in the event's row.
    event = table.Delete(pk, id, table.equals("retries", retries))
    others = [table.Delete(row["pk"], row["sk"], table.ALWAYS) for row in of_event[:_DELIVERIES]]
    table.write([event, *others])
    return bool(events)


def _erase_consents(scope: Scope, customer_id: str) -> Counter[str]:
    """Erase the consents of the customer's phones, except those of phones that another customer has. Returns both.

    Otherwise a person who has consented would be asked again.
    """
    done: Counter[str] = Counter()
    for phone in phones_of(scope, customer_id):
        pk = consents.pk(scope, phone)
        if table.get(pk, "consent") is None:
            _delete(consents.askers_pk(phone), pk)
        elif _has_phone(scope, phone, customer_id):
            done["kept"] += 1
        else:
            # A reply that comes later belongs to nobody.
            _delete(consents.askers_pk(phone), pk)
            _delete(pk, "consent")
            done["erased"] += 1
    return done


def phones_of(scope: Scope, customer_id: str) -> set[str]:
    """The customer's phone, and those that its calls went to."""
    phones = {json.loads(row["doc"])["to"] for row in rows_of(SESSIONS, scope, customer_id)}
    customer = CUSTOMERS.row(scope, customer_id)
    if customer is not None:
        phones.add(json.loads(customer["doc"])["phone"])
    return phones - {None}


def _has_phone(scope: Scope, phone: str, customer_id: str) -> bool:
    """Whether another customer, who is not deleted, has this phone."""
    query = Query(limit=2, starting_after=None, filters={"phone": (phone,)})
    return any(row["sk"] != customer_id for row in list_pages.read(scope, CUSTOMERS, query).rows)


def _ids(collection: Collection[Any, Any], scope: Scope, customer_id: str) -> list[str]:
    """The ids of a customer's resources, deleted or not. Some may be gone already."""
    return [entry["sk"] for page in _entries(collection, scope, customer_id) for entry in page]


def rows_of(collection: Collection[Any, Any], scope: Scope, customer_id: str) -> Iterator[table.Row]:
    """The rows of a customer's resources, deleted or not."""
    for page in _entries(collection, scope, customer_id):
        yield from table.rows_of(page)


def _entries(collection: Collection[Any, Any], scope: Scope, customer_id: str) -> Iterator[list[table.Row]]:
    """The index entries of a customer's resources: first those that are not deleted, because a row moves only once."""
    index, partition = collection.with_value(scope, "customer_id", customer_id)
    yield from table.query(partition, index=index, limit=_PAGE)
    if collection.keeps_deleted:
        index, partition = collection.deleted_of(scope, customer_id)
        yield from table.query(partition, index=index, limit=_PAGE)


def _delete(pk: str, sk: str) -> None:
    """Delete a row, if it exists."""
    _execute(table.Delete(pk, sk, table.ALWAYS))


def _execute(delete: table.Write) -> None:
    """Execute the deletion of a row, unless its condition fails."""
    with contextlib.suppress(table.ConditionFailed):
        table.write([delete])


OWNED: tuple[tuple[Collection[Any, Any], Callable[[Scope, table.Row], Counter[str]]], ...] = (
    (APPOINTMENTS, _remove_appointment),
    (SESSIONS, _remove_session),
    (CONVERSATIONS, _remove_conversation),
)
"""The resources of a customer, each with what removes one and all that belongs to it. `access.py` shows the same."""
