"""A dialogue with the scripted agent about a customer's appointments."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from shared.agent import Utterance
from shared.agent.scripted import Scripted
from shared.agent.turn import CallContext, OptOutQuestion, TurnInput, TurnResult
from shared.agent.wording import ATTEND
from shared.appointments import commands as appointment_commands
from shared.appointments.resource import Appointment, AppointmentCreate
from shared.store.keys import Scope
from tests.support import rows

SCOPE = Scope(1, livemode=False)
NOW = datetime(2027, 3, 3, 9, 0, tzinfo=UTC)  # a Wednesday; ten o'clock in Berlin


def appointment(at: str, **given: Any) -> Appointment:
    return appointment_commands.new(
        SCOPE,
        AppointmentCreate.model_construct(
            **{"status": "pending", "timezone": "Europe/Berlin", "customer_id": "cust_1", "appointment_at": at} | given
        ),
    )


def dental(**given: Any) -> Appointment:
    return appointment("2027-03-05T13:30:00.000Z", **{"title": "Dental check-up"} | given)


def physio(**given: Any) -> Appointment:
    return appointment("2027-03-08T09:00:00.000Z", **{"title": "Physio", "location": "2 High Street"} | given)


class Dialogue:
    """A conversation with the agent, with what a turn keeps between messages."""

    def __init__(
        self, *documents: Appointment, can_call: bool = True, opening: str | None = None, **given: Any
    ) -> None:
        self.documents = list(documents)
        self.given = {"can_call": can_call} | given
        self.said = [Utterance("assistant", opening)] if opening else []
        self.result = TurnResult()

    def say(self, text: str) -> str:
        """The agent's answer, after the turn has committed what it staged."""
        found = [rows.record(doc) for doc in self.documents]
        turn = TurnInput(found, text, proposal=self.result.proposed, **self.given)
        self.said.append(Utterance("user", text))
        reply = Scripted().reply(self.said, turn, seconds=10)
        self.result = reply.result
        self.said.append(Utterance("assistant", reply.content))
        if self.result.staged:
            before, after = self.result.staged.record, self.result.staged.doc
            self.documents = [after if doc["id"] == before.doc["id"] else doc for doc in self.documents]
        return reply.content

    @property
    def actions(self) -> list[str]:
        return [action["type"] for action in self.result.actions]

    @property
    def proposed(self) -> tuple[str, str, str | None] | None:
        """What waits for a yes: its kind, the appointment and the new time."""
        proposal = self.result.proposed
        assert not isinstance(proposal, OptOutQuestion)
        return (proposal.kind, proposal.appointment_id, proposal.at) if proposal else None

    def untouched(self) -> bool:
        return not self.result.actions and self.result.staged is None and not self.result.wants_call


def phone_dialogue(*documents: Appointment, **given: Any) -> Dialogue:
    opening = f"Hello! I am calling about your appointment. {ATTEND}"
    usual: dict[str, Any] = {"opening": opening, "can_call": False, "call": CallContext()}
    return Dialogue(*documents, **usual | given)
