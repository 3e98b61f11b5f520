"""Checks a history against the contract (`tests/conformance/promises.md`), whose numbers the findings name.

It knows what clients asked and were told, what receivers got, and what the API shows when all is quiet. It reads the
table only for what erasures and the canary must not leave. Replays, the log of requests and the audit trail have no
API: it reads them by the functions of their pages.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from shared.core import clock
from shared.core.limits import RETRY_SCHEDULE_S
from shared.store.table.encoding import decode
from tests.simulation.canary import MOST_LAST
from tests.simulation.carrier import RECORDINGS
from tests.simulation.clients import AGREES, DAYS, WISH, Load, Operation, Scope, Taking, scope_at
from tests.simulation.desk import LISTS, Form
from tests.simulation.faults import Fault
from tests.simulation.hosts import Host
from tests.simulation.messenger import Asked, Decision
from tests.simulation.model import LINK
from tests.simulation.receivers import UNSEEN, Got, Receiver
from tests.simulation.scheduler import MICROSECONDS
from tests.simulation.world import START, World

T = TypeVar("T")
U = TypeVar("U")
OFF_S = 0.7
"""Seconds by which the clocks of two hosts may differ."""
IN_FLIGHT_S = 90
"""Seconds for which an attempt may go on that began before a change of its endpoint."""
FROZEN_S = 800
"""Seconds for which an invocation may stand still."""
FILES_S = 300
"""Seconds after the end of a call in which a file of it surely comes in time."""
ASKS_S = 3600
"""Seconds after which a request for consent has surely been sent."""
TAKES_EFFECT_S = 3600
"""Seconds after which what WhatsApp told has surely had its effect."""
DIALED_S = 1800
"""Seconds within which a call is dialed to whom agrees, if nothing goes wrong. Others may be under way."""
CONSENT_S = 7 * 86_400
"""Seconds after which a request for consent expires."""
MOST_ASKED = 3
"""How often a request for consent is sent that may not have been sent."""
SLOT_S = 121
"""Seconds for which a message that is not answered keeps its slot."""
COMMITS_S = 20
"""Seconds within which a reply is committed, if nothing goes wrong."""
ENDS_S = 150
"""Seconds within which a message is answered if only the model fails: 120, and the waits for a host."""
QUESTION = "Shall I "
"""What each question of the agent about a proposal has."""
CHANGED = {
    "appointment_confirmed": ("status", "confirmed"),
    "appointment_cancelled": ("status", "cancelled"),
    "appointment_rescheduled": ("appointment_at", None),
}
"""By the action of a reply: the field that it changes and its value, if that is known."""
MESSAGE_ADDED = "conversation.message_added"
MARKED = ("customer.created", "customer.changed", MESSAGE_ADDED)
"""The forms that always change something if they are accepted, and whose effects have their marks."""
AGENT_FAILED = "agent_failed"
MODEL_FAULTS = {Fault.MODEL_SLOW, Fault.MODEL_FAILED, Fault.MODEL_ODD}
NEVER = "9999-12-31T23:59:59.999Z"
REASON = "service-rate-limited-reason"
MOST_LOST = 3
"""The workers that are lost over an attempt before its delivery fails."""
SLOW_MS = 5_000
LATE_S = 300
"""Seconds by which an attempt may be late if nothing goes wrong."""
MOST_LISTED = 20_000
MOST_READS = 3
"""How often the checker reads, because each host may have something left behind."""
KINDS = {"cust": "customers", "appt": "appointments", "sess": "sessions", "conv": "conversations"}
ENDED_CALLS = ("completed", "no_answer", "failed", "invalid_number", "call_later")
UNSHOWN = {
    "appointment": ("session_id", "updated_at"),
    "customer": ("updated_at",),
    "conversation": ("last_message_at", "updated_at"),
    "session": (
        "answered_at",
        "answered_by",
        "consent",
        "dial_at",
        "recording_status",
        "to",
        "transcript_status",
        "updated_at",
    ),
}
"""Fields that change without an event of the resource (promise 11.11)."""


@dataclass
class Shown:
    """What the API shows of a scope in the end."""

    scope: Scope
    events: list[Any] = field(default_factory=list)
    """In the order of their ids."""
    deliveries: dict[str, list[Any]] = field(default_factory=dict)
    """By event."""
    resources: dict[str, Any] = field(default_factory=dict)
    """By id."""
    messages: dict[str, list[Any]] = field(default_factory=dict)
    """By conversation, oldest first."""
    endpoints: dict[str, Any] = field(default_factory=dict)
    listed: Counter[str] = field(default_factory=Counter)
    """How often the pages of the lists have each resource."""
    found: dict[str, set[str]] = field(default_factory=dict)
    """By customer: the appointments that a filter finds."""
    erased: set[str] = field(default_factory=set)
    """The ids of erased customers, and of all that belonged to them."""

    def events_of(self, id: str) -> list[Any]:
        """The events of a resource, oldest first."""
        return [event for event in self.events if event["data"]["object"]["id"] == id]


def check(world: World, load: Load) -> list[str]:
    """What breaks a promise, each with the promise's number."""
    # First, while all requests are in the log.
    found = [finding for scope in load.scopes if world.lines.started for finding in _logged(world, scope)]
    shown = [_read(world, load, scope) for scope in load.scopes]
    for each in shown:
        each.erased = _erased(load, each.scope)
        every = [operation for operation in load.operations if operation.scope is each.scope]
        # Of what was erased, nothing is shown any more.
        mine = [operation for operation in every if not _is_about(operation, each.erased)]
        checks = (
            _responses(world, every),
            _keys(every),
            _rates(world, load, every),
            _erasures(world, load, each),
            _effects(each, mine, load),
            _pages(load, each),
            _forms(world, load, each),
            _endpoints(each),
            _changes(each),
            _order(each, mine),
            _lists(each, mine),
            _calls(each, mine),
            _contacts(world, each),
            _consents(world, each, every),
            _files(world, each),
            _windows(world, each, every),
            _conversations(each, mine, load),
            _slots(world, load, each, every),
            _replies(world, each),
            _staff_messages(each, mine),
            _desk(load, each, mine),
            _deliveries(world, load, each, mine),
        )
        found += [f"{finding} [{each.scope.name}]" for findings in checks for finding in findings]
    found += _tenancy(load, shown)
    found += _replays(world, load)
    found += _canary(world)
    if not found:
        # Last, because this changes what is shown.
        found += [finding for each in shown for finding in _nothing_is_held(world, each)]
    found += [f"a dead-letter queue has messages: {name} {count}" for name, count in world.dead_letters().items()]
    return found


# What the API shows


def _read(world: World, load: Load, scope: Scope) -> Shown:
    shown = Shown(scope)
    shown.endpoints = {each["id"]: each for each in _read_all(world, scope, "/v1/webhook_endpoints")}
    shown.events = sorted(_read_all(world, scope, "/v1/events"), key=lambda event: str(event["id"]))
    has_deliveries = shown.endpoints or load.known.get((scope.name, "webhook_endpoints"))
    for event in shown.events:
        path = f"/v1/events/{event['id']}/deliveries"
        shown.deliveries[event["id"]] = _read_all(world, scope, path) if has_deliveries else []
    listed = [each for kind in KINDS.values() for each in _read_all(world, scope, f"/v1/{kind}")]
    shown.listed = Counter(each["id"] for each in [*listed, *shown.events])
    shown.resources = {each["id"]: each for each in listed}
    for id in dict.fromkeys([*(event["data"]["object"]["id"] for event in shown.events), *shown.resources]):
        kind = KINDS.get(id.partition("_")[0])
        # What is deleted is in no list. The object of a test event does not exist.
        if kind and id not in shown.resources and (response := _get(world, scope, f"/v1/{kind}/{id}")):
            shown.resources[id] = response
        if id.startswith("conv_"):
            shown.messages[id] = _read_all(world, scope, f"/v1/conversations/{id}/messages", "order=asc&")
        if id.startswith("cust_"):
            shown.found[id] = {each["id"] for each in _read_all(world, scope, "/v1/appointments", f"customer_id={id}&")}
    return shown


def _nothing_is_held(world: World, shown: Shown) -> Iterator[str]:
    """Whoever can be called or written to, can: no lock is left behind."""
    for id, resource in shown.resources.items():
        if resource["object"] == "customer" and resource["deleted_at"] is None:
            response = world.request("POST", f"/v1/customers/{id}/call", shown.scope.key, {})
            if response.status == 409 and response.json["error"]["code"] == "call_in_progress":
                yield f"7.3: {id} cannot be called, although no call is under way"
        if resource["object"] == "conversation" and resource["status"] == "active":
            body = {"content": "Hello"}
            response = world.request("POST", f"/v1/conversations/{id}/messages", shown.scope.key, body)
            if response.status == 409 and response.json["error"]["code"] == "conversation_busy":
                yield f"8.4: {id} is busy, although no message is under way"


def _get(world: World, scope: Scope, path: str) -> Any:
    for _ in range(MOST_READS):
        world.scheduler.sleep(0.1)
        response = world.request("GET", path, scope.key)
        # What an earlier invocation left behind on the host may have met a fault, and ends both.
        if not response.was_hit:
            break
    assert response.status in (200, 404), (path, response)
    return response.json if response.status == 200 else None


def _read_all(world: World, scope: Scope, path: str, more: str = "") -> list[Any]:
    found: list[Any] = []
    while True:
        after = f"&starting_after={found[-1]['id']}" if found else ""
        page = _get(world, scope, f"{path}?{more}limit=7{after}")
        found += page["data"]
        assert len(found) < MOST_LISTED, f"3.13: the list {path} does not end"
        if not page["has_more"]:
            return found


# Requests


def _responses(world: World, operations: Sequence[Operation]) -> Iterator[str]:
    for operation in operations:
        statuses = {each.response.status for each in operation.tries}
        if 500 in statuses:
            yield f"2.9: {operation.name} was answered by an internal error"
        for each in operation.tries:
            if each.response.status >= 500 and each.response.status != 504 and not each.response.was_hit:
                yield f"2.9: {operation.name} got {each.response.status}, although nothing went wrong"
        # The key is free again after 24 hours.
        if operation.reuses and operation.succeeded and operation.ended - operation.reuses.began < 24 * 3600:
            yield f"4.2: {operation.name} succeeded with the key of {operation.reuses.name}"
        bodies = {each.response.body for each in operation.tries if 200 <= each.response.status < 300}
        if operation.key and len(bodies) > 1:
            yield f"4.1: {operation.name} got {len(bodies)} different responses for one key"


def _keys(operations: Sequence[Operation]) -> Iterator[str]:
    """A read-only key changes nothing, and a key is refused from its end on."""
    for operation in operations:
        scope = operation.scope
        for each in operation.tries:
            status = each.response.status
            if status == 429 or status >= 500:
                continue
            if operation.api_key == scope.reading and (status == 403) != (operation.method != "GET"):
                yield f"0.3: {operation.name} ({operation.method}) with a read-only key got {status}"
            if operation.api_key == scope.ending and each.began > scope.ends_at + OFF_S and status != 401:
                yield f"0.3: {operation.name} got {status}, although its key had ended"
            if operation.api_key == scope.ending and each.ended < scope.ends_at - OFF_S and status == 401:
                yield f"0.3: {operation.name} was refused before the end of its key"


def _rates(world: World, load: Load, operations: Sequence[Operation]) -> Iterator[str]:
    """No key sends more than its limits allow, as far as it is certain in which second a request was counted."""
    if _are_clocks_off(world):
        return
    for seconds, most in zip((1, 60), load.limits, strict=True):
        counts: Counter[tuple[str, float]] = Counter()
        for operation in operations:
            for each in operation.tries:
                window = each.began // seconds
                accepted = each.response.status not in (401, 429) and each.response.status < 500
                if accepted and each.ended // seconds == window:
                    counts[operation.api_key, window] += 1
        for (_, window), count in counts.items():
            if count > most:
                yield f"1.5: a key sent {count} requests in the {seconds} s from {window * seconds:.0f}, not {most}"


def _effects(shown: Shown, operations: Sequence[Operation], load: Load) -> Iterator[str]:
    """One effect for each request that succeeded, at most one for another, none for a refused one."""
    forms = [form for form in load.forms if form.scope is shown.scope]
    causes: dict[str, Operation | Form] = {form.name: form for form in forms}
    causes.update({operation.name: operation for operation in operations})
    marks: Counter[str] = Counter()
    for mark, event, is_first in _marks(shown):
        marks[mark] += 1
        if mark in causes and not is_first:
            yield from _only_what_was_asked(event, causes[mark])
    for operation in operations:
        if not isinstance(operation.body, dict) or "mark" not in operation.body.get("metadata", {}):
            continue
        effects = marks[operation.name]
        if effects > 1:
            yield f"4.6: {operation.name} had {effects} effects"
        if operation.succeeded and effects == 0:
            yield f"9.1: {operation.name} succeeded, and there is no event of it"
        if operation.refused and effects:
            yield f"4.4: {operation.name} was refused, and has an effect"
    yield from _effects_of_forms(shown, forms, marks)


def _marks(shown: Shown) -> Iterator[tuple[str, Any, bool]]:
    """Each change of a mark: the new one, its event, and whether it is the resource's first."""
    for kind in ("customer", "appointment"):
        for id in _ids(shown, kind):
            before = None
            for event in shown.events_of(id):
                mark = event["data"]["object"]["metadata"].get("mark")
                if mark != before and mark is not None:
                    yield mark, event, before is None
                before = mark


def _effects_of_forms(shown: Shown, forms: Sequence[Form], marks: Mapping[str, int]) -> Iterator[str]:
    """One effect for each form that was accepted, however often it was sent."""
    stored = Counter(message["content"] for messages in shown.messages.values() for message in messages)
    for form in forms:
        if form.action not in MARKED:
            continue
        effects = stored[form.name] if form.action == MESSAGE_ADDED else marks.get(form.name, 0)
        if effects > (0 if form.is_refused else 1):
            yield f"pages: {form.name} ({form.action}) had {effects} effects: {form.statuses}"
        if form.is_done and not effects and form.target not in shown.erased:
            yield f"pages: {form.name} ({form.action}) was accepted, and had no effect"


def _endpoints(shown: Shown) -> Iterator[str]:
    """Each creation of an endpoint, which has a URL of its own, has one effect."""
    for url, count in Counter(each["url"] for each in shown.endpoints.values()).items():
        if count > 1:
            yield f"4.6: there are {count} endpoints with {url}"


def _only_what_was_asked(event: Any, cause: Operation | Form) -> Iterator[str]:
    """A patch changes what it names, and nothing that another one has written meanwhile."""
    previous, after = event["data"].get("previous_attributes", {}), event["data"]["object"]
    follows = {"status", "cancellation_reason", "failure_reason"} if "appointment_at" in cause.body else set[str]()
    unasked = set(previous) - set(cause.body) - follows - set(UNSHOWN[after["object"]])
    before, now = previous.get("metadata", {}), after["metadata"]
    keys = {key for key in before.keys() | now.keys() if before.get(key) != now.get(key)}
    unasked |= keys - set(cause.body["metadata"])
    if unasked:
        yield f"3.7: {cause.name} changed {sorted(unasked)} of {after['id']} too"


def _changes(shown: Shown) -> Iterator[str]:
    """Events are exactly the committed changes, each with the attributes as they were before."""
    for id, present in shown.resources.items():
        events = shown.events_of(id)
        if not events:
            yield f"9.1: {id} exists, and there is no event of its creation ({present['object']})"
            continue
        if not events[0]["type"].endswith(".created") or "previous_attributes" in events[0]["data"]:
            yield f"9.1: the first event of {id} is {events[0]['type']}"
        for event, following in itertools.pairwise(events):
            yield from _change(event["data"]["object"], following)
        last, ignored = events[-1]["data"]["object"], UNSHOWN.get(present["object"])
        if ignored and _omit(last, ignored) != _omit(present, ignored):
            yield f"9.1: {id} has changed since its last event {events[-1]['id']}"


def _change(before: Any, event: Any) -> Iterator[str]:
    """Whether an event says what was before."""
    after, previous = event["data"]["object"], event["data"].get("previous_attributes") or {}
    ignored = UNSHOWN.get(after["object"])
    if ignored is None:
        return
    changed = {name: before[name] for name in after if name not in ignored and before[name] != after[name]}
    told = _omit(previous, ignored)
    if not changed and after["object"] != "session":
        yield f"9.1: {event['id']} ({event['type']} of {after['id']}) is an event of no change"
    elif changed != told:
        yield f"6.5: {event['id']} ({event['type']} of {after['id']}) says {told} was before, and {changed} was"
    if before.get("status") == "cancelled" != after.get("status"):
        yield f"6.2: {after['id']} was cancelled, and is {after['status']}"


def _order(shown: Shown, operations: Sequence[Operation]) -> Iterator[str]:
    """Responses agree with one order of the changes of each resource, which agrees with time."""
    seen: dict[str, list[tuple[float, float, int, int, str]]] = defaultdict(list)
    for operation in operations:
        for each in operation.tries:
            if not 200 <= each.response.status < 300 or not each.response.body:
                continue
            body = each.response.json
            kind = body.get("object")
            if kind not in UNSHOWN:
                continue
            states = [_omit(event["data"]["object"], UNSHOWN[kind]) for event in shown.events_of(body["id"])]
            places = [number for number, state in enumerate(states) if state == _omit(body, UNSHOWN[kind])]
            if not places:
                yield f"3.11: {operation.name} was shown a state of {body['id']} that never was"
                continue
            # A write with a saved response may have had its effect at an earlier try.
            began = each.began if operation.method == "GET" else operation.began
            seen[body["id"]].append((began, each.ended, places[0], places[-1], operation.name))
            if operation.method != "GET":
                break
    for id, entries in seen.items():
        for _, ended, first, _, name in entries:
            for began, _, _, last, later in entries:
                if ended < began and last < first:
                    yield f"3.11: {later} was shown {id} as it was before {name}, which had ended"


def _lists(shown: Shown, operations: Sequence[Operation]) -> Iterator[str]:
    """Lists show each resource once, and each write at once if they have no filter."""
    for id, count in shown.listed.items():
        if count > 1:
            yield f"3.13: the pages of a list have {id} {count} times"
    for id, resource in shown.resources.items():
        if not resource.get("deleted_at") and id not in shown.listed:
            yield f"3.13: {id} is in no list"
    for customer, ids in shown.found.items():
        theirs = {
            id
            for id, each in shown.resources.items()
            if each["object"] == "appointment" and each["customer_id"] == customer and not each["deleted_at"]
        }
        if ids != theirs:
            yield f"3.15: the appointments of {customer} are {sorted(theirs)}, and the filter finds {sorted(ids)}"
    for kind in ("customers", "appointments"):
        created = [
            each for each in operations if each.method == "POST" and each.path == f"/v1/{kind}" and each.succeeded
        ]
        deletions = [each for each in operations if each.method == "DELETE"]
        for operation in operations:
            if operation.path != f"/v1/{kind}" or operation.method != "GET" or not operation.succeeded:
                continue
            page = operation.result
            listed = [each["id"] for each in page["data"]]
            last = operation.tries[-1]
            for creation in created:
                id = creation.result["id"]
                begun = any(each.path.endswith(id) and each.began < last.ended for each in deletions)
                beyond = page["has_more"] and listed and id < listed[-1]
                if creation.ended < last.began and not begun and not beyond and id not in listed:
                    yield f"3.11: {operation.name} does not list {id}, which existed"


# Calls and conversations


def _calls(shown: Shown, operations: Sequence[Operation]) -> Iterator[str]:
    of_customer: dict[str, list[Any]] = defaultdict(list)
    for session in shown.resources.values():
        if session["object"] == "session":
            of_customer[session["customer_id"]].append(session)
            yield from _call(shown, session)
    for customer, sessions in of_customer.items():
        for first, second in _overlapping(sessions, operations):
            yield f"7.3: {customer} had two calls at once, {first} and {second}"
    yield from _one_call_a_key(operations)
    yield from _calls_of_deleted(shown, operations)
    yield from _opt_outs(shown, operations)
    yield from _wishes(shown, operations)


def _call(shown: Shown, session: Any) -> Iterator[str]:
    """A call goes to exactly one end, which never changes."""
    id, status = session["id"], session["call_status"]
    if status not in ENDED_CALLS:
        yield f"7.5: {id} is {status} in the end"
    kinds = [event["type"].partition(".")[2] for event in shown.events_of(id)]
    statuses = [event["data"]["object"]["call_status"] for event in shown.events_of(id)]
    if sum(kind in ENDED_CALLS for kind in kinds) != 1 or len(set(kinds)) < len(kinds):
        yield f"7.5: {id} has the events {kinds}"
    if any(before in ENDED_CALLS and after != before for before, after in itertools.pairwise([*statuses, status])):
        yield f"7.5: {id} ended and changed: {[*statuses, status]}"
    for part in ("transcript", "recording"):
        if session[f"{part}_status"] == "processing":
            yield f"7.11: the {part} of {id} is never available"


def _overlapping(those: list[Any], operations: Sequence[Operation]) -> Iterator[tuple[str, str]]:
    """The pairs of which a client knew both before either had ended.

    `created_at` does not tell: a row is committed later, and another one may have begun and ended meanwhile.
    """
    told = _told(operations)
    for first, second in itertools.combinations(sorted(those, key=lambda each: str(each["id"])), 2):
        known = max(told.get(each["id"], float("inf")) for each in (first, second))
        ended = min(_seconds(each["ended_at"] or NEVER) for each in (first, second))
        if known < ended - OFF_S:
            yield first["id"], second["id"]


def _are_clocks_off(world: World) -> bool:
    return bool(world.faults.injected[Fault.CLOCK_OFF] or world.faults.injected[Fault.CLOCK_STEPPED])


def _told(operations: Sequence[Operation]) -> dict[str, float]:
    """When a client first knew of each call and conversation."""
    found: dict[str, float] = {}
    for operation in operations:
        if operation.succeeded and isinstance(operation.result, dict):
            result = operation.result
            id = (
                result.get("session_id")
                if operation.path.endswith("/call")
                else (result.get("conversation") or {}).get("id")
            )
            at = min(each.ended for each in operation.tries if 200 <= each.response.status < 300)
            if id:
                found[id] = min(at, found.get(id, at))
    return found


def _calls_of_deleted(shown: Shown, operations: Sequence[Operation]) -> Iterator[str]:
    for deletion in operations:
        customer = deletion.path.rpartition("/")[2]
        if deletion.method != "DELETE" or not deletion.succeeded:
            continue
        for session in shown.resources.values():
            if session["object"] == "session" and session["customer_id"] == customer and session["ended_at"]:
                waits = not session["dialed_at"] or _seconds(session["dialed_at"]) > deletion.ended + OFF_S
                if waits and _seconds(session["ended_at"]) > deletion.ended + OFF_S:
                    yield f"5.4: {session['id']} went on to wait after {customer} was deleted"
        for event in shown.events:
            session = event["data"]["object"]
            late = event["type"] == "session.dialing" and session["customer_id"] == customer
            if late and _seconds(session["updated_at"]) > deletion.ended + IN_FLIGHT_S:
                yield f"5.4: {session['id']} was dialed after {customer} was deleted"


def _contacts(world: World, shown: Shown) -> Iterator[str]:
    """A live call is placed once, not after its end, and no customer is called twice at once."""
    for contact in world.carrier.contacts:
        session = shown.resources.get(contact.session)
        if session is None:
            continue
        others = [each for each in world.carrier.contacts if each.began < contact.began and each is not contact]
        at_once = 1 + sum(each.ended is None or each.ended > contact.began for each in others)
        if at_once > world.carrier.at_once and not world.faults.injected:
            yield f"7.12: {at_once} calls were under way at once, not {world.carrier.at_once}"
        for other in others:
            ended_before = other.ended is not None and other.ended < contact.began + OFF_S
            if other.session == contact.session:
                yield f"7.5: {contact.session} was placed as {other.id} and as {contact.id}"
            elif not ended_before and _customer_of(shown, other.session) == session["customer_id"]:
                yield f"7.3: {other.id} and {contact.id} called {session['customer_id']} at once"
        if session["ended_at"] and contact.began > _seconds(session["ended_at"]) + IN_FLIGHT_S:
            yield f"7.5: {contact.id} was placed after the end of {contact.session}"


def _consents(world: World, shown: Shown, operations: Sequence[Operation]) -> Iterator[str]:
    """Nobody is asked too often, an answer in time is the end of its request, and only who agreed is called."""
    if not shown.scope.livemode or not world.carrier.at_once:
        return
    decided: dict[str, list[Decision]] = defaultdict(list)
    for decision in world.messenger.decisions:
        decided[decision.phone].append(decision)
    # With a person, the memory of having been asked is erased.
    bodies = [each.body for each in operations if isinstance(each.body, dict) and _is_about(each, shown.erased)]
    forgotten = {body.get("phone") for body in bodies}
    yield from _too_many_requests([each for each in world.messenger.asked if each.phone not in forgotten])
    for session in shown.resources.values():
        if session["object"] == "session" and session["consent"] is not None:
            yield from _consent(session, decided[session["to"]])
            yield from _end_of_consent(world, session, decided[session["to"]])


def _too_many_requests(sent: Sequence[Asked]) -> Iterator[str]:
    """A phone gets one request a day and two in seven days, each of which is sent again at most twice if in doubt."""
    for (phone, reference), count in Counter((each.phone, each.reference) for each in sent).items():
        if count > MOST_ASKED:
            yield f"7.8: {phone} was sent the request {reference} {count} times"
    # What did not reach its phone does not count.
    failed = {each.reference for each in sent if each.failed}
    first = {each.reference: each for each in reversed(sent) if each.reference not in failed}
    for days, most in ((1, 1), (7, 2)):
        for phone in {each.phone for each in sent}:
            times = sorted(each.at for each in first.values() if each.phone == phone)
            for earlier, later in zip(times, times[most:], strict=False):
                if later - earlier < days * 86_400 - ASKS_S:
                    yield f"7.8: {phone} got {most + 1} requests within {(later - earlier) / 3600:.1f} hours"


def _consent(session: Any, decisions: Sequence[Decision]) -> Iterator[str]:
    """Whether a call on WhatsApp went on, or ended, as the decisions of its phone say."""
    id, reason, consent = session["id"], session["ended_reason"], session["consent"]
    asked_at = _seconds(consent["requested_at"]) if consent["requested_at"] else 0
    expires_at = _seconds(consent["expires_at"]) if consent["expires_at"] else 0
    answers = [each for each in decisions if each.at >= asked_at - 1]
    if reason == "consent_declined" and not any(not each.accepts for each in answers):
        yield f"7.9: {id} ended as declined, and nobody has declined"
    if reason == "consent_expired" and _seconds(session["ended_at"]) < expires_at - OFF_S:
        yield f"7.9: {id} has expired before {consent['expires_at']}"
    if reason == "consent_expired" and any(each.told + TAKES_EFFECT_S < expires_at for each in answers):
        yield f"7.9: {id} has expired, although {session['to']} has answered"
    if consent["expires_at"] and not abs(expires_at - asked_at - CONSENT_S) < OFF_S:
        yield f"7.9: the request of {id} expires after {expires_at - asked_at:.0f} s, not {CONSENT_S}"
    if consent["status"] == "granted":
        since = max(_seconds(session["created_at"]), _seconds(consent["responded_at"]))
        if _seconds(consent["responded_at"]) < asked_at - 1:
            yield f"7.8: {id} has an answer of {consent['responded_at']} to a request of {consent['requested_at']}"
        if not _has_agreed(decisions, since):
            yield f"7.8: the consent of {id} is granted, and {session['to']} has not agreed"
    if session["dialed_at"] and not _has_agreed(decisions, _seconds(session["dialed_at"])):
        yield f"7.9: {id} was dialed at {session['dialed_at']}, and {session['to']} has not agreed"


def _has_agreed(decisions: Sequence[Decision], at: float) -> bool:
    """Whether a person had agreed at a time, and had not withdrawn it long before."""
    # A permission that WhatsApp itself has confirmed is trusted for a day.
    holding = [each for each in decisions if each.accepts and each.at <= at + 1 and each.until + 86_400 > at]
    refusals = [each.at for each in decisions if not each.accepts and each.told + TAKES_EFFECT_S < at]
    return any(each.at > max(refusals, default=0) for each in holding)


def _end_of_consent(world: World, session: Any, decisions: Sequence[Decision]) -> Iterator[str]:
    """Whether a call on WhatsApp that was not dialed ended for a true reason, and one that was, at once."""
    id, reason, consent = session["id"], session["ended_reason"], session["consent"]
    asked = [each for each in world.messenger.asked if each.phone == session["to"]]
    withdrawn = any(not each.accepts or each.until < float("inf") for each in decisions)
    if reason == "consent_revoked" and not withdrawn:
        yield f"7.7: {id} ended as revoked, and nobody has withdrawn anything"
    unsent = world.faults.injected[Fault.MESSENGER_FAILED] or any(each.failed for each in asked)
    if reason == "provider_error" and consent["status"] != "granted" and not unsent:
        yield f"7.7: {id} ended with {reason}, although {session['to']} was asked"
    if world.faults.injected or consent["requested_at"] is None:
        return
    asked_at = _seconds(consent["requested_at"])
    if reason == "consent_expired" and any(each.failed and each.at >= asked_at - 1 for each in asked):
        yield f"7.7: {id} has expired, although its request was not delivered"
    accepted = [each.told for each in decisions if each.accepts and each.at >= asked_at - 1]
    since = max(min(accepted, default=float("inf")), _seconds(session["created_at"]))
    if session["dialed_at"] and not session["not_before"] and _seconds(session["dialed_at"]) > since + DIALED_S:
        yield f"7.9: {id} was dialed at {session['dialed_at']}, long after {session['to']} had agreed"


def _files(world: World, shown: Shown) -> Iterator[str]:
    """A recording that was stored in time is available, and one that has a redacted copy is deleted."""
    for contact in world.carrier.contacts:
        session = shown.resources.get(contact.session)
        recordings = {key: at for key, at in contact.files.items() if key.endswith(".wav")}
        redacted = [key for key in recordings if "Redacted" in key]
        if session is None:
            continue
        left = [key for key in recordings if key not in redacted and (RECORDINGS, key) in world.objects]
        if redacted and left:
            yield f"7.11: {left[0]} of {session['id']} is left beside its redacted copy"
        status, ended = session["recording_status"], session["ended_at"]
        if status == "available" and not recordings:
            yield f"7.11: the recording of {session['id']} is {status}, and was never stored"
        in_time = ended is not None and any(at < _seconds(ended) + FILES_S for at in recordings.values())
        if in_time and status != "available" and not world.faults.injected:
            yield f"7.11: the recording of {session['id']} is {status}, although it was stored in time"


def _customer_of(shown: Shown, session: str) -> str | None:
    return shown.resources[session]["customer_id"] if session in shown.resources else None


def _windows(world: World, shown: Shown, operations: Sequence[Operation]) -> Iterator[str]:
    """A call is dialed within the calling hours, as they were shortly before, and not before the time that it names."""
    seconds = FROZEN_S if world.faults.injected[Fault.FROZEN] else IN_FLIGHT_S
    changes = [each for each in operations if each.path == "/v1/agent_settings" and not each.refused]
    for session in shown.resources.values():
        if session["object"] != "session" or not session["dialed_at"]:
            continue
        at = _seconds(session["dialed_at"])
        if session["not_before"] and at < _seconds(session["not_before"]) - OFF_S:
            yield f"11.5: {session['id']} was dialed at {session['dialed_at']}, before {session['not_before']}"
        if not any(_is_open(hours, at - seconds, at + OFF_S) for hours in _hours(changes, at - seconds, at + OFF_S)):
            yield f"11.5: {session['id']} was dialed at {session['dialed_at']}, outside of the calling hours"


def _hours(changes: Sequence[Operation], since: float, until: float) -> Iterator[Any]:
    """The calling hours that may have held at any time between two."""
    replaced = [each for each in changes if each.succeeded and each.ended < since]
    if not replaced:
        yield []
    for change in changes:
        later = any(each.began > change.ended for each in replaced) and change.succeeded
        if change.began <= until and not later:
            yield change.body["calling_hours"]


def _is_open(hours: Sequence[Any], since: float, until: float) -> bool:
    """Whether calls are made at any time between two."""
    days = [datetime.fromtimestamp(since, UTC).date() + timedelta(days=number) for number in range(-1, 3)]
    for entry in hours:
        for day in days:
            midnight = datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()
            first, last = (midnight + 3600 * int(entry[at][:2]) + 60 * int(entry[at][3:]) for at in ("from", "to"))
            if DAYS[day.weekday()] in entry["days"] and first <= until and since < last:
                return True
    return not hours


def _one_call_a_key(operations: Sequence[Operation]) -> Iterator[str]:
    told: dict[str, str] = {}
    for operation in operations:
        if operation.path.endswith("/call") and operation.succeeded and operation.result["status"] == "queued":
            session = operation.result["session_id"]
            if session in told:
                yield f"7.1: {operation.name} and {told[session]} got the same call"
            told[session] = operation.name


def _opt_outs(shown: Shown, operations: Sequence[Operation]) -> Iterator[str]:
    """Who is not to be called is not called."""
    for stop in operations:
        if not (isinstance(stop.body, dict) and stop.body.get("do_not_call") is True and stop.succeeded):
            continue
        customer = stop.path.rpartition("/")[2]
        again = [each.began for each in operations if _may_allow_calls(each, customer) and each.ended > stop.began]
        until = min(again, default=float("inf"))
        for operation in operations:
            if operation.path == f"/v1/customers/{customer}/call" and operation.succeeded:
                first = next(each for each in operation.tries if 200 <= each.response.status < 300)
                if stop.ended < operation.began and first.ended < until:
                    yield f"11.15: {operation.name} called {customer}, who is not to be called since {stop.name}"
        for event in shown.events:
            session = event["data"]["object"]
            if event["type"] == "session.dialing" and session["customer_id"] == customer:
                at = _seconds(session["dialed_at"])
                if stop.ended + OFF_S < at < until:
                    yield f"11.15: {session['id']} was dialed, although {stop.name} had ended"


def _wishes(shown: Shown, operations: Sequence[Operation]) -> Iterator[str]:
    """Whose wish in a message is not to be called is not called, and neither is anybody else on that phone."""
    opt_ins = [each for each in operations if each.path.endswith("/opt_in")]
    for wish in operations:
        if not _is_message(wish) or not wish.succeeded or wish.body["content"] != WISH or wish.body.get("role"):
            continue
        customer = wish.result["conversation"]["customer_id"]
        phones = {event["data"]["object"]["phone"] for event in shown.events_of(customer)} if customer else set()
        until = min((each.began for each in opt_ins if each.ended > wish.began), default=float("inf"))
        for event in shown.events:
            session = event["data"]["object"]
            # Which phone was opted out is certain only if the customer had no other one.
            is_dialed = event["type"] == "session.dialing" and {session["to"]} == phones
            if is_dialed and wish.ended + OFF_S < _seconds(session["dialed_at"]) < until:
                yield f"11.16: {session['id']} was dialed, although {wish.name} had ended"


def _may_allow_calls(operation: Operation, customer: str) -> bool:
    lifts = isinstance(operation.body, dict) and operation.body.get("do_not_call") is False
    return (
        operation.path == f"/v1/customers/{customer}" and lifts
    ) or operation.path == f"/v1/customers/{customer}/opt_in"


def _conversations(shown: Shown, operations: Sequence[Operation], load: Load) -> Iterator[str]:
    for id, messages in shown.messages.items():
        roles = [message["role"] for message in messages if message["role"] != "staff"]
        if roles != ["user", "assistant"] * (len(roles) // 2):
            yield f"8.6: the messages of {id} do not alternate: {roles}"
        for message in messages:
            if message["role"] == "user" and message["reply_status"] not in ("complete", "failed"):
                yield f"8.6: {message['id']} is {message['reply_status']} in the end"
    yield from _messages(shown, [each for each in operations if _is_message(each)], load)
    threads: dict[str, list[Any]] = defaultdict(list)
    for conversation in shown.resources.values():
        if conversation["object"] == "conversation" and conversation["external_id"]:
            threads[conversation["external_id"]].append(conversation)
    for name, those in threads.items():
        for first, second in _overlapping(those, operations):
            yield f"8.1: {name} has two active conversations, {first} and {second}"


def _messages(shown: Shown, sent: Sequence[Operation], load: Load) -> Iterator[str]:
    """Each message that was accepted is stored once, with the reply that its sender got."""
    stored = {message["id"]: message for messages in shown.messages.values() for message in messages}
    told: dict[str, str] = {}
    for operation in sent:
        if not operation.succeeded:
            continue
        message, content = operation.result, operation.body["content"]
        if message["id"] in told:
            yield f"4.6: {operation.name} and {told[message['id']]} are one message"
        told[message["id"]] = operation.name
        if stored.get(message["id"], {}).get("content") != content:
            yield f"8.6: the message of {operation.name} is not in the conversation"
        reply = message.get("reply")
        if reply and stored.get(reply["id"], {}).get("content") != reply["content"]:
            yield f"8.6: the reply to {operation.name} is not in the conversation"
    of_forms = {form.name for form in load.forms}
    asked = [message for message in stored.values() if message["content"] not in of_forms]
    number = sum(message["role"] in ("user", "staff") for message in asked)
    most = len(told) + sum(not each.succeeded and not each.refused for each in sent)
    if number > most:
        yield f"4.6: {number} messages were stored, and {most} were sent at most"


def _replies(world: World, shown: Shown) -> Iterator[str]:
    """A turn that fails hands over, in time. Who waits for a person gets only holding replies, which change nothing."""
    # With fewer hosts, a worker waits for minutes until another one has given up.
    in_time = sum(not host.previous for host in world.hosts) > 2 and world.faults.injected.keys() <= MODEL_FAULTS
    for id, messages in shown.messages.items():
        answers = [message for message in messages if message["role"] != "staff"]
        for message, reply in itertools.pairwise(answers):
            # Whether they alternate is checked elsewhere.
            if (message["role"], reply["role"]) != ("user", "assistant"):
                continue
            kinds = {action["type"] for action in reply["actions"]}
            reasons = {action["reason"] for action in reply["actions"] if action["type"] == "handoff"}
            # The late reply of a conversation that has ended changes nothing (promise 8.7).
            has_ended = id in shown.resources and shown.resources[id]["status"] == "ended"
            failed = message["reply_status"] == "failed"
            yield from _changes_of_agent(shown, id, message, reply, answers)
            if failed != (AGENT_FAILED in reasons) and not (failed and has_ended):
                yield f"8.6: {message['id']} is {message['reply_status']}, and its reply hands over for {reasons}"
            took = _seconds(reply["created_at"]) - _seconds(message["created_at"])
            if took > ENDS_S and in_time:
                yield f"8.6: {message['id']} was answered after {took:.0f} s"
            if reply["holding"] and kinds:
                yield f"8.12: {reply['id']} of {id} is a holding reply with the actions {sorted(kinds)}"
            reason = _waits_for(shown, id, reply)
            if reason not in (None, AGENT_FAILED, "") and not reply["holding"] and "customer_opted_out" not in kinds:
                yield f"8.12: {reply['id']} is a reply of the agent, although {id} waits for a person ({reason})"
            if reason in ("", AGENT_FAILED) and reply["holding"]:
                yield f"8.12: {reply['id']} is a holding reply, although the agent may reply in {id}"


def _changes_of_agent(shown: Shown, id: str, message: Any, reply: Any, messages: Sequence[Any]) -> Iterator[str]:
    """The agent cancels or moves only what it proposed and the message agrees to, and only what is the customer's."""
    if LINK in reply["content"]:
        yield f"8: {reply['id']} has a link of the model"
    changes = [action for action in reply["actions"] if action["type"].startswith("appointment_")]
    if len(changes) > 1:
        yield f"8.9: {reply['id']} makes {len(changes)} changes"
    before = messages[messages.index(message) - 1]["content"] if messages.index(message) else ""
    for change in changes:
        appointment = shown.resources.get(change["appointment_id"])
        customer = shown.resources[id]["customer_id"] if id in shown.resources else None
        if appointment and customer and appointment["customer_id"] != customer:
            yield f"8.11: {reply['id']} of {id} changes {appointment['id']}, which is of another customer"
        if change["type"] != "appointment_confirmed" and not (message["content"] == AGREES and QUESTION in before):
            yield f"8.9: {reply['id']} of {id} ({change['type']}) does what nobody agreed to"
        if appointment:
            name, value = CHANGED[change["type"]]
            states = [event["data"]["object"][name] for event in shown.events_of(appointment["id"])]
            if value not in states and (value or len(set(states)) < 2):
                yield f"8.6: {appointment['id']} has no event of the change in {reply['id']}"


def _waits_for(shown: Shown, id: str, reply: Any) -> str | None:
    """The reason why a conversation waited for a person before a reply, "" if it did not; None if that is uncertain."""
    at, reason = _seconds(reply["created_at"]), ""
    for event in shown.events_of(id):
        changed_at = _seconds(_instant(event["data"]["object"]))
        if abs(changed_at - at) <= OFF_S:
            return None
        if changed_at < at:
            reason = (event["data"]["object"]["handoff"] or {"reason": ""})["reason"]
    return reason


def _staff_messages(shown: Shown, operations: Sequence[Operation]) -> Iterator[str]:
    """What a person of the business writes has no reply and one event. An ended conversation takes no message."""
    ended: dict[str, float] = {}
    for operation in operations:
        for each in operation.tries:
            body = each.response.json if 200 <= each.response.status < 300 and each.response.body else {}
            conversation = body if body.get("object") == "conversation" else body.get("conversation") or {}
            if conversation.get("status") == "ended":
                id = conversation["id"]
                ended[id] = min(each.ended, ended.get(id, each.ended))
    for operation in [each for each in operations if _is_message(each) and each.succeeded]:
        result, is_of_staff = operation.result, operation.body.get("role") == "staff"
        if is_of_staff and (result["role"] != "staff" or result["reply"] is not None):
            yield f"11.6: {operation.name} is a message of the staff, and was answered"
        if ended.get(result["conversation"]["id"], operation.ended) < operation.began:
            yield f"8.2: {operation.name} was added to {result['conversation']['id']}, which had ended"
    for messages in shown.messages.values():
        for message in messages:
            if message["role"] == "staff" and (count := len(shown.events_of(message["id"]))) != 1:
                yield f"9.1: {message['id']} of the staff has {count} events"


def _slots(world: World, load: Load, shown: Shown, operations: Sequence[Operation]) -> Iterator[str]:
    """No more live messages of a project are under way than its share, and none is refused while there are fewer."""
    if not shown.scope.livemode:
        return
    messages = [each for each in operations if _is_message(each) and (each.body.get("role") != "staff")]
    answered = {
        message["id"]: _seconds(reply["created_at"])
        for those in shown.messages.values()
        for message, reply in itertools.pairwise([each for each in those if each["role"] != "staff"])
        if message["role"] == "user"
    }
    surely, perhaps = [], []
    commits_s = IN_FLIGHT_S if world.faults.injected else COMMITS_S
    for operation in messages:
        replied_at = answered.get(operation.result["id"]) if operation.succeeded else None
        waiting = [each for each in operation.tries if each.response.status == 504 and not each.response.was_hit]
        if waiting and replied_at is not None:
            # A turn that was frozen may be answered after its message has ceased to count.
            surely.append((waiting[0].ended + OFF_S, min(replied_at, operation.began + SLOT_S - 2) - OFF_S))
        if not operation.refused:
            # The reply is committed some time after its own time.
            until = operation.ended + SLOT_S if replied_at is None else replied_at + commits_s
            perhaps.append((operation.began, until))
    for since, until in surely:
        count = sum(first <= since < last for first, last in surely)
        if since < until and count > load.share:
            yield f"8.16: {count} live messages were under way at {since:.3f}, not {load.share}"
    for operation in messages:
        for each in operation.tries:
            if each.response.status == 429 and each.response.headers.get(REASON) == "messages":
                count = sum(first <= each.ended and each.began <= last for first, last in perhaps)
                if count < load.share:
                    yield f"8.16: {operation.name} was refused, although {count} live messages were under way at most"


def _desk(load: Load, shown: Shown, operations: Sequence[Operation]) -> Iterator[str]:
    """Nobody takes a conversation that somebody else has taken, unless it was released or no longer waited."""
    mine = [each for each in load.takings if each.scope is shown.scope]
    yield from _releases(shown, mine)
    for first, second in itertools.permutations([each for each in mine if each.takes and each.done], 2):
        if first.conversation != second.conversation or first.who == second.who or first.ended > second.began:
            continue
        freed = [each for each in mine if not each.takes and each.conversation == first.conversation]
        if any(each.ended >= first.began and each.began <= second.ended for each in freed):
            continue
        handoffs = [
            _seconds(_instant(event["data"]["object"]))
            for event in shown.events_of(first.conversation)
            if event["type"].partition(".")[2] in ("handed_off", "resumed", "ended")
        ]
        if first.conversation in shown.resources and not any(
            first.began - IN_FLIGHT_S <= at <= second.ended + OFF_S for at in handoffs
        ):
            yield f"desk: {second.who} has taken {first.conversation}, which {first.who} had"


def _releases(shown: Shown, takings: Sequence[Taking]) -> Iterator[str]:
    """Whoever has a conversation has it until it is released, resumed, handed over again, or ended."""
    for taking in takings:
        if not taking.takes or not taking.done or taking.conversation not in shown.resources:
            continue
        later = [
            each
            for each in takings
            if each.conversation == taking.conversation and each is not taking and each.ended >= taking.began
        ]
        first = min(later, key=lambda each: each.began, default=None)
        if first is None or first.takes or first.done is not False or first.began <= taking.ended:
            continue
        changes = [_seconds(_instant(event["data"]["object"])) for event in shown.events_of(taking.conversation)]
        if not any(taking.began - IN_FLIGHT_S <= at <= first.ended + OFF_S for at in changes):
            yield f"desk: {first.who} has not released {taking.conversation}, which {taking.who} had"


def _is_message(operation: Operation) -> bool:
    return operation.method == "POST" and operation.path.endswith("/messages")


# Pages


def _pages(load: Load, shown: Shown) -> Iterator[str]:
    """A page is shown, unless something goes wrong, to the members of its project only."""
    for view in load.views:
        if view.scope is not shown.scope:
            continue
        if view.status == 500 or (view.status > 500 and not view.was_hit):
            yield f"pages: {view.path} has the status {view.status}"
        if not view.is_theirs and view.status in (200, 500):
            yield f"1.10: {view.path} has the status {view.status} for {view.who}, who is not a member"
        if view.is_theirs and view.path.rpartition("/")[2] in LISTS and view.status not in (200, 401, 502, 503):
            yield f"pages: {view.path} has the status {view.status} for {view.who}"


def _forms(world: World, load: Load, shown: Shown) -> Iterator[str]:
    """Who may only look changes nothing, and each change by a form has one entry in the audit trail."""

    def read(host: Host) -> list[tuple[str, str, str]]:
        audit, cursor = host.module("shared.admin.audit"), None
        found: list[tuple[str, str, str]] = []
        while True:
            entries, cursor = audit.page(shown.scope.project, cursor)
            of_mode = [each for each in entries if each.livemode == shown.scope.livemode]
            found += [(each.who, each.action, each.target) for each in of_mode]
            if cursor is None:
                return found

    mine = [form for form in load.forms if form.scope is shown.scope]
    for form in mine:
        if form.role == "viewer" and form.is_done:
            yield f"pages: {form.name} ({form.action}) of somebody who may only look was accepted"
        if form.is_forged and form.is_done:
            yield f"pages: {form.name} ({form.action}) was accepted without the token of forms"
        if 500 in form.statuses:
            yield f"pages: {form.name} ({form.action}) has the statuses {form.statuses}"
    if not mine:
        return
    entries = Counter(world.operate("admin", read).result)
    taken = {(each.who, "conversation.taken", each.conversation) for each in load.takings if each.takes and each.done}
    for key in {(form.who, form.action, form.target) for form in mine if form.target is not None}:
        same = [form for form in mine if (form.who, form.action, form.target) == key]
        least = sum(form.is_done for form in same) if key[1] in MARKED else int(key in taken)
        # Whoever takes or releases a conversation again may do so after somebody else has.
        most = sum(len(form.statuses) if form.is_repeatable else 1 for form in same if not form.is_refused)
        if not least <= entries[key] <= most:
            yield f"pages: {entries[key]} entries say {' '.join(map(str, key))}, not {least} to {most}"


# Erasures


def _erased(load: Load, scope: Scope) -> set[str]:
    """The ids of customers whose erasure was begun, and of all that belongs to them, as far as anybody was told."""
    found = {erasure.customer for erasure in load.erasures if erasure.scope is scope}
    for operation in load.operations:
        if operation.scope is scope and operation.succeeded and isinstance(operation.result, dict):
            result, customer = operation.result, operation.path.split("/")[3:4]
            if operation.path.endswith("/call") and set(customer) & found:
                found.add(result["session_id"])
            for one in (result, result.get("conversation") or {}, *(result.get("data") or ())):
                if one.get("customer_id") in found and "id" in one:
                    found.add(one["id"])
            if (result.get("conversation") or {}).get("id") in found:
                found |= {result["id"], *([result["reply"]["id"]] if result["reply"] else [])}
    events = [post.event for receiver in load.endpoints.values() for post in receiver.log]
    # A message of the desk names its conversation alone, which may have come later.
    for owner in ("customer_id", "conversation_id"):
        for event in events:
            one = event["data"]["object"]
            if one["id"] in found or one.get(owner) in found:
                found |= {one["id"], event["id"]}
    return found


def _is_about(operation: Operation, ids: set[str]) -> bool:
    texts = [operation.path, *(each.response.body for each in operation.tries)]
    return any(id in text for id in ids for text in texts)


def _erasures(world: World, load: Load, shown: Shown) -> Iterator[str]:
    """Of an erased person, the table and the bucket have nothing but the mark of the erasure, and saved responses.

    The audit trail has ids of what was changed, and no personal data.
    A replay keeps the ids of the events that it has sent, which say nothing of a person.
    """
    ids, personal = {id for id in shown.erased if not id.startswith("evt_")}, _personal(load, shown)
    mine = f"P#{shown.scope.name.replace('/', '#')}#"
    for erasure in load.erasures:
        if erasure.scope is shown.scope and erasure.ended is None:
            yield f"erasure: that of {erasure.customer} does not end"
    for (pk, sk), item in world.table.items.items():
        # Long documents are compressed.
        text = f"{pk} {sk} {' '.join(map(str, decode(item).values()))}"
        looked_for = ids | personal if mine in f"{pk} {sk}" else ids
        if pk == f"P#{shown.scope.project}#audit":
            looked_for = personal
        left = sorted(one for one in looked_for if one in text)
        # DynamoDB deletes expired rows in its own time.
        expired = float(item.get("expires_at", {}).get("N", "inf")) <= world.now
        if left and not expired and "#idempotency" not in pk and "#erasure" not in pk:
            yield f"erasure: {pk} {sk} has {left[0]}"
    ended = [each.ended for each in load.erasures if each.scope is shown.scope and each.ended is not None]
    for contact in world.carrier.contacts:
        early = [key for key, at in contact.files.items() if ended and at < min(ended)]
        if contact.session in shown.erased and any((RECORDINGS, key) in world.objects for key in early):
            yield f"erasure: files of {contact.session} are left"
    for (_, key), content in world.objects.items():
        if any(id in key or id.encode() in content for id in ids):
            yield f"erasure: the file {key} is left"


def _personal(load: Load, shown: Shown) -> set[str]:
    """What was written of erased people and of nobody else: marks, and phones with their hash without a key."""
    about: list[tuple[bool, Operation | Form]] = [
        *((_is_about(each, shown.erased), each) for each in load.operations if isinstance(each.body, dict)),
        *((each.target in shown.erased, each) for each in load.forms),
    ]
    mine = [(is_erased, each) for is_erased, each in about if each.scope is shown.scope]
    of_others = {each.body.get("phone") for is_erased, each in mine if not is_erased}
    phones = {each.body.get("phone") for is_erased, each in mine if is_erased} - of_others - {None}
    hashes = {hashlib.sha256(str(phone).encode()).hexdigest()[:32] for phone in phones}
    return (
        {*map(str, phones)}
        | hashes
        | {f'"{each.name}"' for is_erased, each in mine if is_erased and "metadata" in each.body}
    )


# Deliveries


def _deliveries(world: World, load: Load, shown: Shown, operations: Sequence[Operation]) -> Iterator[str]:
    created = {
        each.result["id"]: each for each in operations if each.path == "/v1/webhook_endpoints" and each.succeeded
    }
    for event in shown.events:
        deliveries = shown.deliveries[event["id"]]
        yield from _one_after_another(event, deliveries)
        for delivery in deliveries:
            yield from _ending(world, event, delivery, shown, operations)
        if any(delivery["trigger"] == "test" for delivery in deliveries):
            continue
        for id, creation in created.items():
            automatic = [
                each for each in deliveries if each["webhook_endpoint_id"] == id and each["trigger"] == "automatic"
            ]
            yield from _delivery_breaches(event, creation, automatic, shown, operations)
    for id, creation in created.items():
        receiver = load.endpoints[creation.body["url"]]
        yield from _delivery_log_breaches(shown, id, receiver)
        yield from _signature_breaches(receiver, operations, creation)
        yield from _closed_endpoint_breaches(id, receiver, operations)


def _one_after_another(event: Any, deliveries: Sequence[Any]) -> Iterator[str]:
    """A retry begins when no delivery of the event to the endpoint is under way."""
    for retry in deliveries:
        for other in deliveries:
            earlier = other["webhook_endpoint_id"] == retry["webhook_endpoint_id"] and other["id"] < retry["id"]
            ended = other["completed_at"]
            if earlier and retry["retry_of"] and (not ended or _seconds(ended) > _seconds(retry["created_at"]) + OFF_S):
                yield f"9.11: {retry['id']} of {event['id']} was created while {other['id']} was under way"


def _replays(world: World, load: Load) -> Iterator[str]:
    """A replay of failed deliveries ends."""
    for scope, endpoint in dict.fromkeys(load.replays):

        def find(host: Host, scope: Scope = scope, endpoint: str = endpoint) -> Any:
            found = host.module("shared.webhooks.replays").find(scope_at(host, scope), [endpoint])
            return [(each.ended_as, each.replayed, each.accepted, each.failed_again) for each in found.values()]

        for how, replayed, accepted, failed_again in world.operate("find", find).result:
            if how is None:
                yield f"9.11: the replay to {endpoint} does not end"
            if accepted + failed_again > replayed:
                yield f"9.11: of {replayed} retries to {endpoint}, {accepted} were accepted and {failed_again} not"


def _delivery_breaches(
    event: Any, creation: Operation, automatic: Sequence[Any], shown: Shown, operations: Sequence[Operation]
) -> Iterator[str]:
    """Whether the event has the delivery that it must have, and no other."""
    id, filters = creation.result["id"], creation.body["event_filters"]
    at = _seconds(_instant(event["data"]["object"]))
    wanted = not filters or event["type"] in filters or event["type"].partition(".")[0] + ".*" in filters
    deleted = [each for each in operations if each.method == "DELETE" and each.path.endswith(id)]
    if len(automatic) > 1:
        yield f"9.1: {event['id']} has {len(automatic)} deliveries to {id}"
    if automatic and (not wanted or at < creation.began - OFF_S):
        yield f"9.3: {event['id']} ({event['type']}) was delivered to {id}, which does not want it"
    if wanted and not automatic and at > creation.ended + OFF_S and not deleted:
        yield f"9.1: {event['id']} ({event['type']}) was not delivered to {id}"


def _ending(world: World, event: Any, delivery: Any, shown: Shown, operations: Sequence[Operation]) -> Iterator[str]:
    """A delivery ends for a stated reason."""
    attempts, status, id = delivery["attempts"], delivery["status"], delivery["id"]
    codes = [each["response_status_code"] for each in attempts]
    last = codes[-1] if codes else None
    if status == "attempting":
        yield f"9.1: {id} never ends"
    if [each["number"] for each in attempts] != list(range(1, delivery["attempt_count"] + 1)):
        yield f"9.15: the attempts of {id} are numbered {[each['number'] for each in attempts]}"
    if any(map(_is_success, codes[:-1])):
        yield f"9.8: {id} was attempted again after a success"
    if status == "succeeded" and not _is_success(last):
        yield f"9.8: {id} succeeded with {last}"
    final = last is not None and 400 <= last < 500 and last not in (408, 429)
    if status == "failed" and not (final or len(attempts) == 9 or delivery["error_code"] == "worker_lost"):
        yield f"0.6: {id} failed after {codes}"
    if delivery["error_code"] == "worker_lost" and not world.faults.injected:
        yield f"9.15: the worker of {id} was lost although nothing went wrong"
    yield from _disabling_breaches(delivery, shown, operations)
    yield from _ladder(world, delivery, shown)


def _disabling_breaches(delivery: Any, shown: Shown, operations: Sequence[Operation]) -> Iterator[str]:
    """A 410 disables the endpoint, and only a disabled or deleted one cancels."""
    id, status, endpoint = delivery["id"], delivery["status"], delivery["webhook_endpoint_id"]
    changes = [each for each in operations if each.path.endswith(endpoint)]
    enabled = [isinstance(each.body, dict) and each.body.get("enabled") for each in changes]
    gone = any(attempt["response_status_code"] == 410 for attempt in _attempts_to(endpoint, shown))
    shown_enabled = shown.endpoints.get(endpoint, {}).get("enabled")
    if status == "failed" and delivery["response_status_code"] == 410 and True not in enabled and shown_enabled:
        yield f"9.14: {endpoint} responded to {id} with 410, and is enabled"
    # The event that the endpoint has answered with 410 may be erased.
    closed = False in enabled or gone or any(each.method == "DELETE" for each in changes) or shown.erased
    if status == "canceled" and not closed and not shown.endpoints.get(endpoint, {}).get("disabled_reason"):
        yield f"9.13: {id} was canceled, and its endpoint was never disabled"


def _ladder(world: World, delivery: Any, shown: Shown) -> Iterator[str]:
    """Attempts are made at the times of the ladder."""
    # Attempts to an endpoint that is slow or hangs wait for each other.
    slow = any(each["duration_ms"] >= SLOW_MS for each in _attempts_to(delivery["webhook_endpoint_id"], shown))
    for before, after in itertools.pairwise(delivery["attempts"]):
        end = _seconds(before["at"]) + before["duration_ms"] / 1000
        wait, planned = _seconds(after["at"]) - end, RETRY_SCHEDULE_S[before["number"]]
        if wait < planned - OFF_S:
            yield f"0.6: attempt {after['number']} of {delivery['id']} came after {wait:.1f} s, not {planned}"
        if wait > planned + LATE_S and not world.faults.injected and not slow:
            yield f"0.6: attempt {after['number']} of {delivery['id']} came {wait - planned:.0f} s late"


def _attempts_to(endpoint: str, shown: Shown) -> list[Any]:
    deliveries = [each for found in shown.deliveries.values() for each in found]
    return [attempt for each in deliveries if each["webhook_endpoint_id"] == endpoint for attempt in each["attempts"]]


def _delivery_log_breaches(shown: Shown, id: str, receiver: Receiver) -> Iterator[str]:
    """The deliveries of events are the receiver's log, but for attempts that were cut off."""
    events = {event["id"]: event for event in shown.events}
    got: dict[str, list[Got]] = defaultdict(list)
    for each in receiver.log:
        got[each.headers["webhook-id"]].append(each)
    for event_id, posts in got.items():
        if event_id in shown.erased:
            continue
        if event_id not in events:
            yield f"9.1: {receiver.name} got {event_id}, which does not exist"
        elif posts[0].event != events[event_id]:
            yield f"9.16: the body of {event_id} to {receiver.name} is not the event as it is shown"
        if len({post.body for post in posts}) > 1:
            yield f"9.7: the bodies of {event_id} to {receiver.name} differ"
    for event_id, deliveries in shown.deliveries.items():
        mine = [each for each in deliveries if each["webhook_endpoint_id"] == id]
        yield from _unrecorded_attempts(event_id, id, mine, got.get(event_id, []))
        lost = [each for each in got.get(event_id, []) if receiver.deadly and each.at < receiver.until]
        if len(lost) > MOST_LOST * len(mine):
            yield f"9.15: {len(lost)} workers were lost over {event_id} to {id}, which has {len(mine)} deliveries"


def _unrecorded_attempts(event_id: str, id: str, deliveries: Sequence[Any], posts: Sequence[Got]) -> Iterator[str]:
    attempts = [attempt for delivery in deliveries for attempt in delivery["attempts"]]
    seen = [attempt for attempt in attempts if attempt["error_code"] not in UNSEEN]

    def is_of(post: Got, attempt: Any) -> bool:
        return post.status == attempt["response_status_code"] and abs(post.at - _seconds(attempt["at"])) <= OFF_S

    for attempt in _left_over(seen, posts, lambda attempt, post: is_of(post, attempt)):
        yield f"9.1: an attempt of {event_id} at {attempt['at']} is recorded, and {id} got none"
    unrecorded = _left_over(posts, seen, is_of)
    for post in _left_over([post for post in posts if not post.cut_off], seen, is_of):
        yield f"9.1: {id} got {event_id} at {post.at:.3f}, and no attempt of that time is recorded"
    ends = [_seconds(each["completed_at"]) for each in deliveries if each["completed_at"]]
    if (
        ends
        and len(ends) == len(deliveries)
        and any(post.at > max(ends) + IN_FLIGHT_S and not post.by.was_frozen for post in unrecorded)
    ):
        yield f"9.8: {event_id} was sent to {id} after its deliveries had ended"


def _left_over(ones: Sequence[T], others: Sequence[U], fits: Callable[[T, U], bool]) -> list[T]:
    """Those that remain if as many as possible get another one that fits, and no two get the same."""
    taken: dict[int, T] = {}

    def place(one: T, tried: set[int]) -> bool:
        for number, other in enumerate(others):
            if number not in tried and fits(one, other):
                tried.add(number)
                if number not in taken or place(taken[number], tried):
                    taken[number] = one
                    return True
        return False

    return [one for one in ones if not place(one, set())]


def _is_success(status: int | None) -> bool:
    return status is not None and 200 <= status < 300


def _signature_breaches(receiver: Receiver, operations: Sequence[Operation], creation: Operation) -> Iterator[str]:
    """Each attempt is signed with a secret that is valid: after a rotation, with the new one only."""
    id = creation.result["id"]
    rotations = [each for each in operations if each.path == f"/v1/webhook_endpoints/{id}/rotate_secret"]
    if any(not each.succeeded and not each.refused for each in rotations):
        return  # Nobody knows the secret.
    rotations = [each for each in rotations if each.succeeded]
    for post in receiver.log:
        # A secret may be in use until the next rotation has ended, and what was under way has arrived.
        valid = []
        for secret_of in [creation, *rotations]:
            later = [each for each in rotations if each.began > secret_of.ended and each is not secret_of]
            replaced = min((each.ended for each in later), default=float("inf"))
            if secret_of.began - OFF_S <= post.at <= replaced + IN_FLIGHT_S:
                valid.append(secret_of.result["secret"])
        if not any(_is_signed(post, secret) for secret in valid) and not post.by.was_frozen:
            yield f"9.5: {post.headers['webhook-id']} to {id} at {post.at} is not signed with a valid secret"
            return


def _is_signed(post: Got, secret: str) -> bool:
    parts = dict(part.split("=", 1) for part in post.headers["Service-Signature"].split(",")[:2])
    text = f"{parts['t']}.{post.body}".encode()
    return hmac.compare_digest(hmac.new(secret.encode(), text, hashlib.sha256).hexdigest(), parts["v1"])


def _closed_endpoint_breaches(id: str, receiver: Receiver, operations: Sequence[Operation]) -> Iterator[str]:
    """A disabled or deleted endpoint is sent nothing."""
    opening = [
        each
        for each in operations
        if each.path.endswith(id) and isinstance(each.body, dict) and each.body.get("enabled") is True
    ]
    for operation in operations:
        disables = isinstance(operation.body, dict) and operation.body.get("enabled") is False
        if not operation.path.endswith(id) or not operation.succeeded or not (disables or operation.method == "DELETE"):
            continue
        until = min((each.began for each in opening if each.ended > operation.began), default=float("inf"))
        if operation.method == "DELETE":
            until = float("inf")
        for post in receiver.log:
            if operation.ended + IN_FLIGHT_S < post.at < until and not post.by.was_frozen:
                yield f"9.13: {id} got {post.headers['webhook-id']} at {post.at}, after {operation.name} closed it"
                return


# The log of requests


def _logged(world: World, scope: Scope) -> Iterator[str]:
    """The log has requests of this scope only, as they were answered; all of them, if nothing goes wrong."""

    def read(host: Host) -> list[tuple[str, str, int]]:
        log, of, cursor = host.module("shared.projects.request_log"), scope_at(host, scope), None
        found: list[tuple[str, str, int]] = []
        while True:
            page = log.page(of, 100, None, 0, round(world.now * 1000), cursor)
            found += [(each.id, each.method, each.status) for each in page.requests]
            cursor = page.cursor
            if cursor is None:
                return found

    logged = world.operate("log", read).result
    keys = {scope.key, scope.reading, scope.ending}
    for id, method, status in logged:
        if id in world.answered and (world.answered[id][0] not in keys or world.answered[id][1:] != (method, status)):
            yield f"log: {id} ({method} {status}) is in the log of {scope.name}, and was {world.answered[id][1:]}"
    if len({id for id, _, _ in logged}) < len(logged):
        yield f"log: a request is twice in the log of {scope.name}"
    if not world.faults.injected and world.now < START / MICROSECONDS + 20 * 3600:
        mine = {id for id, (key, _, status) in world.answered.items() if key in keys and status != 401}
        if missing := mine - {id for id, _, _ in logged}:
            yield f"log: {len(missing)} requests are not in the log of {scope.name}"


# The canary


def _canary(world: World) -> Iterator[str]:
    """The canary passes when nothing goes wrong, and then nothing is left of its runs."""
    if not world.canary.results:
        return
    if not world.canary.results[-1]:
        yield f"canary: its last {MOST_LAST} runs failed, although nothing went wrong any more"
    for (pk, sk), item in world.table.items.items():
        is_its = pk.startswith(("P#0#", "KEY#")) and int(item.get("project_id", {}).get("N", 0)) == 0
        if is_its and "expires_at" not in item and sk != "webhook_endpoint":
            yield f"canary: {pk} {sk} is left"


# Tenants


def _tenancy(load: Load, shown: Sequence[Shown]) -> Iterator[str]:
    owners = {id: each.scope for each in shown for id in each.resources}
    for operation in load.operations:
        if operation.method == "GET" and operation.succeeded:
            owner = owners.get(operation.path.rpartition("/")[2])
            if owner is not None and owner is not operation.scope:
                yield f"1.10: {operation.name} of {operation.scope.name} was shown a resource of {owner.name}"
    for view in load.views:
        # The audit trail is that of a project, with both modes.
        both = view.path.endswith("/audit_trail")
        theirs = [each for each in load.scopes if each is view.scope or (both and each.project == view.scope.project)]
        for id in view.ids:
            if owners.get(id, view.scope) not in theirs:
                yield f"1.10: {view.path} of {view.scope.name} has {id} of {owners[id].name}"
    for each in shown:
        for event in each.events:
            if event["livemode"] != each.scope.livemode:
                yield f"1.10: {event['id']} of {each.scope.name} has the other mode"


def _ids(shown: Shown, kind: str) -> list[str]:
    return [id for id, resource in shown.resources.items() if resource["object"] == kind]


def _omit(document: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in names}


def _instant(resource: Mapping[str, Any]) -> str:
    return str(resource.get("updated_at") or resource["created_at"])


def _seconds(instant: str) -> float:
    return clock.parse(instant) / 1000
