"""The words of the admin pages: everything that a page may have to name has some."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from functions.admin import words
from shared.admin import members
from shared.agent.actions import Action, HandoffReason
from shared.appointments.resource import AppointmentStatus
from shared.conversations import resource as conversations
from shared.conversations.resource import ConversationStatus
from shared.core.call_statuses import CallOutcome, Channel, ConsentStatus, EndedReason, FileStatus, SessionCallStatus
from shared.projects import usage
from shared.webhooks.deliveries.resource import DeliveryError, DeliveryStatus, DeliveryTrigger
from shared.webhooks.endpoints.resource import DisabledReason
from shared.webhooks.replays import ReplayEnd

ROOT = Path(__file__).parents[2]
OTHERS = ("event", "html", "wav")
"""What stands after the dot of texts that are no actions: names of files, and a key of the gateway."""
ACTION_TYPES = [type for action in get_args(Action) for type in get_args(get_type_hints(action)["type"])]


@pytest.mark.parametrize(
    ("named", "wanted"),
    [
        (words.DELIVERY_STATUS, DeliveryStatus),
        (words.DELIVERY_TRIGGER, DeliveryTrigger),
        (words.DELIVERY_ERROR, DeliveryError),
        (words.DISABLED, DisabledReason),
        (words.CALL_STATUS, SessionCallStatus),
        (words.ENDED_REASON, EndedReason),
        (words.OUTCOME, CallOutcome),
        (words.CHANNEL, Channel),
        (words.CONSENT, ConsentStatus),
        (words.FILES, FileStatus),
        (words.APPOINTMENT_STATUS, AppointmentStatus),
        (words.CONVERSATION_STATUS, ["waiting", "answered", *ConversationStatus]),
        (words.MESSAGE_ACTION, ACTION_TYPES),
        (words.HANDOFF, HandoffReason),
        (words.COUNTERS, usage.COUNTERS),
        (words.WROTE, conversations.Role),
        (words.REPLAY_ENDED, ReplayEnd),
        (words.ROLE, members.MemberRole),
    ],
)
def test_every_value_has_words(named: Mapping[str, Any], wanted: Collection[str]) -> None:
    assert {*named} == {*wanted}


def test_every_action_of_the_audit_trail_has_words() -> None:
    found = [*actions()]
    whole, ends = {one for one in found if one[0] != "."}, {one for one in found if one[0] == "."}
    assert ends == {".list_exported"}, "the beginning of such a name is the kind of the list"
    assert len(whole) > 40
    assert {one for one in words.ACTION if not one.endswith(".list_exported")} == whole


def actions() -> Iterator[str]:
    """The actions that are written into the trail; of one with a part that varies, the end."""
    for folder in ("functions/admin", "shared/admin", "infra/manage"):
        for path in (ROOT / folder).glob("*.py"):
            for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(call, ast.Call):
                    yield from filter(None, map(action, call.args))


def action(argument: ast.expr) -> str | None:
    """The action that an argument of a call is; None for other arguments."""
    text = argument.values[-1] if isinstance(argument, ast.JoinedStr) else argument
    if not (isinstance(text, ast.Constant) and isinstance(text.value, str)):
        return None
    kind, dot, name = text.value.partition(".")
    is_action = bool(dot) and name.isidentifier() and (kind.isidentifier() or isinstance(argument, ast.JoinedStr))
    return text.value if is_action and name not in OTHERS else None
