"""Planted faults: changes of a line of the service, each of which the simulation must find.

The previous release has none of them. Those with the focus `deployment` show only beside it, or after it.

`make test` looks for each from its `seed` on, which is below 2,000. A finding begins with the promise.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation.releases import Replacement


@dataclass(frozen=True)
class Planted:
    """A fault: its name, the lines that it changes, the promise that it breaks, and a seed that finds it."""

    name: str
    change: Replacement
    promise: str
    seed: int = 1
    focus: str | None = None
    """What the histories are about that find it (`clients.FOCUSES`)."""
    more: tuple[Replacement, ...] = ()
    """Other changes that belong to it."""


PLANTED = (
    Planted(
        "a row is inserted without a condition",
        ("shared/store/table/writes.py", "    condition: Condition = ABSENT\n", "    condition: Condition = ALWAYS\n"),
        "9.1",
        seed=16,
    ),
    Planted(
        "the record of an Idempotency-Key is overwritten",
        ("shared/api/idempotency.py", "table.absent_or_expired()", "table.ALWAYS"),
        "4.1 or 4.2 or 4.6",
        seed=4,
    ),
    Planted(
        "the record of an Idempotency-Key is not written with the change",
        ("shared/api/requests.py", "[*change.writes, *record], ", "[*change.writes], "),
        "4.1 or 4.2 or 4.6",
        seed=4,
    ),
    Planted(
        "a change does not check the version that it was read with",
        (
            "shared/resources/collections.py",
            "            condition=table.unchanged(record.version) & condition,",
            '            condition=table.Condition("v >= :v", {":v": record.version}),',
        ),
        "3.7 or 3.11 or 6.5 or 9.1",
        seed=36,
        focus="changes",
    ),
    Planted(
        "a lease is not checked by a claim",
        ("shared/tasks/tasks.py", ' & table.equals("lease", None)\n    claimed: ', "\n    claimed: "),
        "9.1",
        seed=3,
        focus="claims",
    ),
    Planted(
        "a lease that has not expired is taken over",
        ("shared/tasks/tasks.py", "    return bool(now < row.get", "    return False and bool(now < row.get"),
        "9.1",
        seed=3,
        focus="claims",
    ),
    Planted(
        "the result of a step is written without the claim",
        (
            "shared/tasks/tasks.py",
            'table.equals("lease", claim.token)',
            'table.Condition("(lease <> :t OR lease = :t)", {":t": claim.token})',
        ),
        "9.1",
        seed=619,
        focus="claims",
    ),
    Planted(
        "previous attributes are the new ones",
        ("shared/webhooks/events.py", "            name: previous\n", "            name: value\n"),
        "6.5",
    ),
    Planted(
        "a deletion loses what was before",
        (
            "shared/webhooks/events.py",
            'before_text = new.get("before") if old is None',
            "before_text = None if old is None",
        ),
        "6.5",
        seed=19,
    ),
    Planted(
        "an event has a new id each time it is derived",
        (
            "shared/webhooks/events.py",
            'ids.deterministic(EVENTS.prefix, instant, new["pk"], new["sk"], new["v"], order=new["v"])',
            "ids.new(EVENTS.prefix, instant)",
        ),
        "9.1",
        seed=3,
    ),
    Planted(
        "the endpoints of an earlier batch of changes are used",
        (
            "functions/fan_out.py",
            "batches.each_record(event, _Batch().process,",
            'batches.each_record(event, globals().setdefault("earlier", _Batch()).process,',
        ),
        "9.1",
        seed=5,
    ),
    Planted(
        "an endpoint gets events from before its creation",
        ("functions/fan_out.py", "return existed and", "return"),
        "9.3",
        seed=5,
    ),
    Planted(
        "filters of endpoints are ignored",
        (
            "shared/webhooks/events.py",
            "    return not filters or type in filters",
            "    return True or type in filters",
        ),
        "9.3",
        seed=6,
    ),
    Planted(
        "a disabled endpoint's deliveries are sent",
        ("shared/webhooks/deliveries/resource.py", "endpoint.generation > row", "endpoint.generation < row"),
        "9.13",
        seed=3,
        focus="endpoints",
    ),
    Planted(
        "disabling an endpoint does not begin a generation",
        (
            "shared/webhooks/endpoints/commands.py",
            'if before["enabled"] and endpoint["disabled_at"] is not None:',
            "if False:",
        ),
        "9.13",
        seed=3,
        focus="endpoints",
    ),
    Planted(
        "the retry ladder is off by one",
        (
            "functions/deliver.py",
            "RETRY_SCHEDULE_S[delivery.number]",
            "RETRY_SCHEDULE_S[delivery.number - 1]",
        ),
        "0.6",
        seed=4,
    ),
    Planted(
        "a delivery fails after eight attempts",
        (
            "functions/deliver.py",
            "if number < len(limits.RETRY_SCHEDULE_S)",
            "if number < len(limits.RETRY_SCHEDULE_S) - 1",
        ),
        "0.6",
        seed=20,
    ),
    Planted(
        "a timer's row is due when its timer is set",
        (
            "functions/deliver.py",
            'tasks.due_attributes(doc["id"], timer.at, DELIVERY_GRACE_S)',
            'tasks.due_attributes(doc["id"], clock.now(), DELIVERY_GRACE_S)',
        ),
        "0.6",
        seed=6,
    ),
    Planted(
        "two calls to one customer at once",
        (
            "shared/calls/commands.py",
            'table.unchanged(customer.version) & table.equals("active_session", None)',
            'table.Condition("v >= :v", {":v": customer.version})',
        ),
        "7.3",
        seed=4,
        focus="calls",
    ),
    Planted(
        "who is not to be called is called",
        ("shared/calls/commands.py", "        raise ApiError(Code.CUSTOMER_OPTED_OUT)", "        pass"),
        "11.15",
        seed=3,
        focus="opt_outs",
    ),
    Planted(
        "test and live mode share their rows",
        ("shared/store/keys.py", '"live" if self.livemode else "test"', '"test"'),
        "1.10",
    ),
    Planted(
        "a page begins with the last item of the page before",
        (
            "shared/resources/list_pages.py",
            "    return ids.before(collection.prefix, queries.id_of_cursor(collection, cursor))",
            "    return queries.id_of_cursor(collection, cursor)",
        ),
        "3.13",
    ),
    Planted(
        "a rotated secret goes on signing",
        (
            "shared/webhooks/endpoints/commands.py",
            '"secret": signing.encrypt(endpoint["id"], secret),',
            '"secret": record.row["secret"],',
        ),
        "9.5",
        focus="endpoints",
    ),
    Planted(
        "an endpoint that is gone stays enabled",
        ("shared/webhooks/health.py", "if outcome.status == 410:", "if False:"),
        "9.14",
        seed=14,
    ),
    Planted(
        "the index entry of an ended task is left behind",
        (
            "shared/tasks/tasks.py",
            '= dict.fromkeys(("due_at", "due", "due_shard", "wake_ups"))',
            '= dict.fromkeys(("due_at", "wake_ups"))',
        ),
        "9.1/7.5/8.6",
    ),
    Planted(
        "a write whose response was lost is not recognized",
        (
            "shared/store/table/writes.py",
            "    if stored_writer == writer:",
            "    if False:",
        ),
        "4.6",
        seed=36,
        focus="changes",
    ),
    Planted(
        "what may have been written is said to be repeatable",
        (
            "shared/api/requests.py",
            "self.context.may_have_written = failure.uncertain",
            "self.context.may_have_written = False",
        ),
        "4.6",
        seed=31,
        focus="uncertain",
    ),
    Planted(
        "a change that failed is not given again",
        ("shared/tasks/batches.py", "                        found.failed.append(position)\n", ""),
        "9.1",
        seed=4,
        focus="events",
    ),
    Planted(
        "only the last change that failed is given again",
        ("shared/tasks/batches.py", "self.records[min(self.failed)]", "self.records[max(self.failed)]"),
        "9.1",
        seed=16,
        focus="events",
    ),
    Planted(
        "sweep leaves out a shard",
        ("functions/sweep.py", "    return keys.due_shards() + former", "    return keys.due_shards()[1:] + former"),
        "9.1/7.5/8.6",
        focus="wake_ups",
    ),
    Planted(
        "sweep finds nothing that was put off once",
        (
            "shared/tasks/tasks.py",
            'row.get("due") == entry["due"] and not',
            'row.get("due") == entry["due"] and "wake_ups" not in row and not',
        ),
        "9.1/7.5/8.6",
        focus="wake_ups",
    ),
    Planted(
        "a second message is taken while the agent replies",
        ("shared/conversations/commands.py", '    if "turn" in record.row:', "    if False:"),
        "8.6",
        seed=3,
        focus="messages",
    ),
    Planted(
        "a reply is written without the conversation's lock being freed",
        ("shared/conversations/replies.py", '        internal["turn"] = None', "        pass"),
        "8.4",
    ),
    Planted(
        "a cancelled appointment is changed",
        ("shared/appointments/commands.py", "    if target not in TRANSITIONS[current]:", "    if False:"),
        "6.2",
        seed=5,
        focus="changes",
    ),
    Planted(
        "a call goes on after its customer was deleted",
        (
            "shared/calls/endings.py",
            "        return end_writes(scope, call, CUSTOMER_DELETED",
            "        return [] and end_writes(scope, call, CUSTOMER_DELETED",
        ),
        "9.1/7.5/8.6",
        seed=19,
        focus="calls",
    ),
    Planted(
        "the last workers of an attempt are not counted",
        ("shared/tasks/tasks.py", 'lease["lost"] = old.get("lost", 0) + 1', 'lease["lost"] = 0'),
        "9.15",
        seed=2,
        focus="deadly",
    ),
    Planted(
        "a key of another body gets the saved response",
        ("shared/api/idempotency.py", '    if row["fingerprint"] != key.fingerprint:', "    if False:"),
        "4.2",
        seed=5,
    ),
    Planted(
        "a session's end frees no customer",
        (
            "shared/calls/endings.py",
            'set={"active_session": None},',
            'set={"active_session": before["id"]},',
        ),
        "7.3",
        focus="calls",
    ),
    Planted(
        "an erasure does not wait for what began before",
        ("shared/erasure/erasing.py", "\nSETTLES_S = 400\n", "\nSETTLES_S = 0\n"),
        "erasure",
        seed=546,
        focus="erasures",
    ),
    Planted(
        "an erasure leaves the transcripts of calls",
        ("shared/erasure/erasing.py", "    _execute(transcripts.delete_write(scope, id))\n", ""),
        "erasure",
        seed=21,
    ),
    Planted(
        "a read-only key may write",
        (
            "shared/api/routes.py",
            "    if caller.read_only and request.method not in _READING:",
            "    if False:",
        ),
        "0.3",
        seed=3,
    ),
    Planted(
        "a key is valid after its end",
        ("shared/projects/rate_limits.py", 'table.above("valid_until", moment.now)', 'table.has("valid_until")'),
        "0.3",
        seed=12,
    ),
    Planted(
        "the requests of a minute are not limited",
        ("shared/projects/rate_limits.py", ' & table.below("w.n", PER_MINUTE)', ""),
        "1.5",
        seed=3,
        focus="requests",
    ),
    Planted(
        "a delivery that is under way is retried",
        (
            "shared/webhooks/deliveries/commands.py",
            '    if any("due_at" in row for row in to_endpoint):',
            "    if False:",
        ),
        "9.11",
        seed=7,
        focus="endpoints",
    ),
    Planted(
        "the index entry of an ended replay is left behind",
        ("shared/webhooks/replays.py", '{**tasks.NO_WORK, "ended_as"', '{"ended_as"'),
        "9.1/7.5/8.6",
        seed=5,
    ),
    Planted(
        "a wish in a message opts nobody out",
        (
            "shared/conversations/replies.py",
            "else opt_out_messages.reply(turn_input)",
            "else None",
        ),
        "11.16",
        seed=24,
        focus="opt_outs",
    ),
    Planted(
        "a call is dialed outside the calling hours",
        ("shared/calls/dialing.py", "    if opens_at > clock.now():", "    if False:"),
        "11.5",
        focus="hours",
    ),
    Planted(
        "the time that a call's request names is ignored",
        ("shared/calls/dialing.py", "clock.now() if not_before is None else", "clock.now() if True else"),
        "11.5",
        seed=8,
        focus="hours",
    ),
    Planted(
        "a live message takes no slot",
        ("shared/conversations/turns.py", "[table.Put(row, table.absent_or_expired())]", "[]"),
        "8.16",
        seed=10,
        focus="slots",
    ),
    Planted(
        "a slot is not freed with the reply",
        (
            "shared/conversations/turns.py",
            """    return [table.Delete(scope_of(message["pk"]).pk("slot"), message["slot"], table.ALWAYS)]""",
            "    return ()",
        ),
        "8.16",
        seed=3,
        focus="slots",
    ),
    Planted(
        "a conversation that somebody has taken is taken by another",
        ("shared/conversations/commands.py", "    if owner is not None:", "    if False:"),
        "desk",
        seed=6,
        focus="desk",
    ),
    Planted(
        "a live call does not count towards the capacity of the stage",
        (
            "shared/calls/capacity.py",
            """            table.Put(_row(_CALL, scope, session_id, now + HELD_MS), table.ALWAYS),\n""",
            "",
        ),
        "7.12",
        seed=130,
        focus="live_calls",
    ),
    Planted(
        "the record of an Idempotency-Key has another key than before",
        ("shared/api/idempotency.py", 'self.scope.pk("idempotency", ', 'self.scope.pk("idempotency_key", '),
        "4.1",
        seed=32,
        focus="deployment",
    ),
    Planted(
        "an attribute of a saved response has another name than before",
        ("shared/api/idempotency.py", '"code": response.status', '"status": response.status'),
        "2.9",
        seed=8,
        focus="deployment",
        more=(("shared/api/idempotency.py", 'Response(row["code"]', 'Response(row["status"]'),),
    ),
    Planted(
        "a wake-up must have a key that earlier ones lack",
        ("shared/tasks/wake_ups.py", '{"pk": self.pk, "sk": self.sk}', '{"pk": self.pk, "sk": self.sk, "format": "2"}'),
        "a dead-letter queue has messages",
        seed=2,
        focus="deployment",
        more=(
            (
                "shared/tasks/batches.py",
                'return wake_up["pk"], wake_up["sk"]',
                'return wake_up["pk"], wake_up["sk"][: int(wake_up["format"]) * 100]',
            ),
        ),
    ),
    Planted(
        "the id of an event is derived from other values than before",
        (
            "shared/webhooks/events.py",
            'instant, new["pk"], new["sk"], new["v"], order',
            'instant, new["sk"], new["v"], order',
        ),
        "7.5",
        seed=31,
        focus="deployment",
    ),
    Planted(
        "a wake-up has a form that the previous release does not know",
        ("shared/tasks/wake_ups.py", '{"pk": self.pk, "sk": self.sk}', '{"row": f"{self.pk}/{self.sk}"}'),
        "a dead-letter queue has messages",
        seed=5,
        focus="deployment",
        more=(
            (
                "shared/tasks/batches.py",
                'return wake_up["pk"], wake_up["sk"]',
                'return (wake_up["pk"], wake_up["sk"]) if "pk" in wake_up else tuple(wake_up["row"].split("/"))',
            ),
        ),
    ),
    Planted(
        "a consent has a status that the previous release does not know",
        ("shared/calls/consent/consents.py", '"status": ConsentStatus.PENDING,', '"status": "asked",'),
        "7.5",
        seed=54,
        focus="deployment",
        more=(
            (
                "shared/calls/consent/consents.py",
                'self.doc["status"] == ConsentStatus.PENDING',
                'self.doc["status"] in (ConsentStatus.PENDING, "asked")',
            ),
            (
                "shared/calls/consent/consents.py",
                'doc["status"] or ConsentStatus.GRANTED',
                '{"asked": "pending"}.get(doc["status"], doc["status"]) or ConsentStatus.GRANTED',
            ),
        ),
    ),
    Planted(
        "a canary leaves the customer of a run that died",
        (
            "shared/canary/runs.py",
            'for kind in ("webhook_endpoints", "customers"):',
            'for kind in ("webhook_endpoints",):',
        ),
        "canary",
        seed=6,
        focus="canary",
    ),
    Planted(
        "a canary leaves the key of a run that died",
        ("shared/canary/runs.py", "    for left in api_keys.of_project(PROJECT_ID):", "    for left in ():"),
        "canary",
        focus="canary",
    ),
    Planted(
        "an apology hands nobody over",
        ("shared/conversations/replies.py", "TurnResult([handoff(HandoffReason.AGENT_FAILED)])", "TurnResult([])"),
        "8.6",
        focus="model",
    ),
    Planted(
        "a turn is retried for ever",
        ("shared/conversations/turns.py", "return clock.now() >= self.sent_at + GIVE_UP_MS", "return False"),
        "9.1/7.5/8.6",
        seed=4,
        focus="model",
    ),
    Planted(
        "who waits for a person gets the agent's replies",
        ("shared/conversations/replies.py", "    elif agent_holds(conversation):", "    elif False:"),
        "8.12",
        focus="desk",
    ),
    Planted(
        "after its own failure the agent replies no more",
        ("shared/conversations/resource.py", 'handoff["reason"] != HandoffReason.AGENT_FAILED', "True"),
        "8.12",
        seed=4,
        focus="model",
    ),
    Planted(
        "an ended conversation takes messages",
        ("shared/conversations/commands.py", "        raise ApiError(Code.CONVERSATION_ENDED)", "        pass"),
        "8.2",
        focus="desk",
    ),
    Planted(
        "a message of the staff has no event",
        (
            "shared/webhooks/events.py",
            """    if after["object"] == "message":\n""",
            """    if after["object"] == "message":\n        return None\n    if after["object"] == "message":\n""",
        ),
        "9.1",
        focus="messages",
    ),
    Planted(
        "a conversation is not released",
        ("shared/conversations/commands.py", "    if taken_by(record) is None:", "    if True:"),
        "desk",
        seed=29,
        focus="desk",
    ),
    Planted(
        "the agent does what nobody agreed to",
        (
            "shared/agent/tools.py",
            "        if not assent.agrees(self.turn_input.message, self.proposal.kind):",
            "        if False:",
        ),
        "8.9",
        seed=123,
        focus="agent",
    ),
    Planted(
        "a proposal outlives the next message",
        (
            "shared/conversations/replies.py",
            """        "proposal": result.proposed.to_json() if result.proposed else None,\n""",
            """        **({"proposal": result.proposed.to_json()} if result.proposed else {}),\n""",
        ),
        "8.9",
        seed=64,
        focus="agent",
    ),
    Planted(
        "the agent has the appointments of other customers",
        ("shared/conversations/replies.py", 'filters={"customer_id": (customer_id,)},', "filters={},"),
        "8.11",
        seed=11,
        focus="agent",
    ),
    Planted(
        "a link of the model reaches the customer",
        ("shared/agent/bedrock.py", "    content = without_links(text)", "    content = text"),
        "8",
        focus="agent",
    ),
    Planted(
        "the agent makes two changes in a turn",
        (
            "shared/agent/tools.py",
            "return _ONE_CHANGE if changed or self.result.wants_call or self.result.proposed else None",
            "return _ONE_CHANGE if self.result.wants_call or self.result.proposed else None",
        ),
        "8.9",
        seed=47,
        focus="agent",
    ),
    Planted(
        "a recording is kept beside its redacted copy",
        ("shared/calls/live/contacts.py", "        recordings.delete(raw)", "        pass"),
        "7.11",
        focus="live_calls",
    ),
    Planted(
        "an erasure leaves the files of live calls",
        (
            "shared/erasure/erasing.py",
            '        yield from contact_lens.prefixes(row["contact_id"], days, known)',
            "        pass",
        ),
        "erasure",
        seed=27,
        focus="live_calls",
    ),
    Planted(
        "requests of test mode are logged with those of live mode",
        (
            "shared/projects/request_log.py",
            'Scope(facts["project_id"], facts["livemode"])',
            'Scope(facts["project_id"], livemode=True)',
        ),
        "log",
        focus="log",
    ),
    Planted(
        "only the first line of a batch is stored",
        (
            "functions/request_log.py",
            'for line in batch["logEvents"]:',
            'for line in batch["logEvents"][:1]:',
        ),
        "log",
        seed=6,
        focus="log",
    ),
    Planted(
        "a phone is asked for consent as often as anybody calls",
        (
            "shared/calls/consent/consents.py",
            "    return any(sum(now - at < period_ms for at in earlier) >= limit for period_ms, limit in REQUESTS)",
            "    return False",
        ),
        "7.8",
        seed=14,
        focus="consents",
    ),
    Planted(
        "the tries to send a request are not counted",
        ("shared/calls/consent/consent_requests.py", "    tries = consent.ask_tries + 1", "    tries = 1"),
        "7.8",
        seed=173,
        focus="consents",
    ),
    Planted(
        "an answer is lost that comes before the request is known to be sent",
        (
            "shared/calls/consent/consent_requests.py",
            'tasks.save_step(claim, [started, consents.asker_write(consent, "")], keep=True)',
            "tasks.save_step(claim, [started], keep=True)",
        ),
        "7.9",
        seed=297,
        focus="consents",
    ),
    Planted(
        "an older answer replaces a newer one",
        (
            "shared/calls/consent/consents.py",
            "    return at <= clock.parse(since)",
            "    return False",
        ),
        "7.9",
        seed=30,
        focus="consents",
    ),
    Planted(
        "a call is dialed although the consent was withdrawn",
        ("shared/calls/dialing.py", "        if not consent.is_granted:", "        if False:"),
        "7.9",
        seed=817,
        focus="consents",
    ),
    Planted(
        "a form that is sent twice has two effects",
        (
            "functions/admin/visits.py",
            "table.Put(row, refusal=table.Refusal(lambda _: SentBefore(), goes_first=True))",
            "table.Put(row, table.ALWAYS)",
        ),
        "pages",
        seed=4,
        focus="pages",
    ),
    Planted(
        "a change by a form has no entry in the audit trail",
        (
            "functions/admin/customers.py",
            """            lambda new: visit.entry("customer.created", new["id"]),\n""",
            "",
        ),
        "pages",
        seed=5,
        focus="pages",
    ),
    Planted(
        "who may only look may change",
        (
            "functions/admin/visits.py",
            "            if not signed_in.membership.may(view.role):",
            "            if False:",
        ),
        "pages",
        focus="pages",
    ),
    Planted(
        "a form replaces what somebody else has changed meanwhile",
        ("functions/admin/forms.py", "    if lost:\n        raise", "    if False:\n        raise"),
        "pages",
        seed=172,
        focus="pages",
    ),
    Planted(
        "the pages of test mode show live mode",
        (
            "functions/admin/visits.py",
            "return Scope(int(project), MODES[mode]) if",
            "return Scope(int(project), True) if",
        ),
        "1.10 or pages",
        seed=2,
        focus="pages",
    ),
    Planted(
        "a phone is asked on each day of a week",
        ("shared/calls/consent/consents.py", "((clock.DAY, 1), (7 * clock.DAY, 2))", "((clock.DAY, 1),)"),
        "7.8",
        seed=487,
        focus="consents",
    ),
    Planted(
        "nobody learns that a request was not delivered",
        ("functions/consent.py", "for failure in whatsapp.failures(received.body):", "for failure in ():"),
        "7.7",
        seed=17,
        focus="consents",
    ),
    Planted(
        "a call on WhatsApp ends as if its consent was withdrawn",
        ("shared/calls/dialing.py", "        if not consent.is_granted:", "        if True:"),
        "7.7",
        seed=5,
        focus="consents",
    ),
    Planted(
        "an erasure leaves the consent of a phone",
        ("shared/erasure/erasing.py", """            _delete(pk, "consent")\n""", ""),
        "erasure",
        focus="consents",
    ),
    Planted(
        "forms of other sites are taken",
        ("functions/admin/visits.py", """if method == "POST" and not _has_token(signed_in):""", "if False:"),
        "pages",
        seed=4,
        focus="pages",
    ),
    Planted(
        "an entry of the audit trail has another target",
        (
            "functions/admin/customers.py",
            """visit.entry("customer.changed", change.doc["id"],""",
            """visit.entry("customer.changed", "customer",""",
        ),
        "pages",
        seed=3,
        focus="pages",
    ),
    Planted(
        "a refusal within the second of a confirmed permission is dropped",
        (
            "shared/calls/consent/consents.py",
            "    if consent.is_pending or status == ConsentStatus.DECLINED:",
            "    if consent.is_pending:",
        ),
        "7.8 or 7.9",
        seed=102,
        focus="consents",
    ),
    Planted(
        "the page says that a conversation was taken in which nobody waits",
        ("functions/admin/conversations.py", """"taken" if conversation["handoff"] else "nobody_waits\"""", '"taken"'),
        "desk or pages",
        seed=13,
        focus="pages",
    ),
    Planted(
        "a request for consent expires after two days",
        ("shared/calls/consent/consents.py", "LASTS_S = 7 * clock.DAY", "LASTS_S = 2 * clock.DAY"),
        "7.9",
        seed=3,
        focus="consents",
    ),
    Planted(
        "an entry of the audit trail has a phone",
        (
            "functions/admin/customers.py",
            """visit.entry("customer.created", new["id"])""",
            """visit.entry("customer.created", new["id"], after={"phone": new["phone"]})""",
        ),
        "erasure",
        seed=22,
        focus="pages",
    ),
)
