"""A language model whose answers are written down beforehand, on a stubbed client of Bedrock."""

from __future__ import annotations

import copy
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import boto3
from botocore.config import Config
from botocore.stub import Stubber

from shared.agent import Reply, Utterance
from shared.agent.bedrock import Bedrock
from shared.agent.turn import Proposal, TurnInput
from shared.appointments import commands as appointment_commands
from shared.appointments.resource import AppointmentCreate, AppointmentRecord
from shared.store.keys import Scope
from tests.support import rows

NOW = 1_790_000_000.0  # Monday, 2026-09-21T14:13:20Z

MODEL_ID = "eu.example.model-v1:0"
TIME, NEW_TIME = "2026-09-25T08:00:00.000Z", "2026-09-26T09:30:00.000Z"


class Passing:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.slept = list[float]()

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds

    def monotonic(self) -> float:
        return self.seconds


@functools.cache
def client() -> Any:
    config = Config(connect_timeout=2, read_timeout=12, retries={"mode": "standard", "total_max_attempts": 1})
    return boto3.client(
        "bedrock-runtime",
        region_name="eu-central-1",
        aws_access_key_id="none",
        aws_secret_access_key="none",
        config=config,
    )


class Model:
    """A model whose answers are written down beforehand, checked against the service's own description."""

    def __init__(self) -> None:
        self.stubber = Stubber(client())
        self.requests = list[dict[str, Any]]()
        self.takes: Callable[[], None] = lambda: None

    def __enter__(self) -> Model:
        client().meta.events.register("provide-client-params.bedrock-runtime.Converse", self._keep, unique_id="keep")
        self.stubber.activate()
        return self

    def __exit__(self, *_: object) -> None:
        self.stubber.deactivate()
        client().meta.events.unregister("provide-client-params.bedrock-runtime.Converse", unique_id="keep")

    def _keep(self, params: dict[str, Any], **_: Any) -> None:
        self.requests.append(copy.deepcopy(params))
        self.takes()

    def answers(self, stop: str, *content: Mapping[str, Any], tokens: tuple[int, int] = (100, 10)) -> Model:
        self.stubber.add_response("converse", answer(stop, content, tokens))
        return self

    def says(self, text: str, stop: str = "end_turn") -> Model:
        return self.answers(stop, {"text": text})

    def calls(self, *calls: tuple[str, Any]) -> Model:
        used = [use(f"t{number}", name, given) for number, (name, given) in enumerate(calls)]
        return self.answers("tool_use", {"text": "One moment."}, *used)

    def fails(self, code: str) -> Model:
        self.stubber.add_client_error("converse", code, "because")
        return self

    def results(self) -> list[dict[str, Any]]:
        """The tool results that the model was given last."""
        return [block["toolResult"] for block in self.requests[-1]["messages"][-1]["content"]]


def answer(stop: str, content: Sequence[Mapping[str, Any]], tokens: tuple[int, int] = (100, 10)) -> dict[str, Any]:
    usage = {"inputTokens": tokens[0], "outputTokens": tokens[1], "totalTokens": sum(tokens)}
    message = {"role": "assistant", "content": list(content)}
    return {"output": {"message": message}, "stopReason": stop, "usage": usage, "metrics": {"latencyMs": 1}}


def use(id: str, name: str, given: Any) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": id, "name": name, "input": given}}


def ask_model(
    turn: TurnInput,
    said: Sequence[Utterance] = (),
    seconds: float = 45,
    passing: Passing | None = None,
) -> Reply:
    agent = Bedrock(client(), MODEL_ID, passing.monotonic if passing else time.monotonic)
    return agent.reply(said or [Utterance("user", turn.message)], turn, seconds)


SCOPE = Scope(1, True)


def appointment_record(
    customer_id: str = "cust_1", scope: Scope = SCOPE, version: int = 1, **fields: Any
) -> AppointmentRecord:
    given = {"status": "pending", "appointment_at": TIME, "customer_id": customer_id} | fields
    return rows.record(appointment_commands.new(scope, AppointmentCreate.model_construct(**given)), version)


def turn_of(*mine: AppointmentRecord, message: str = "Hello", proposal: Proposal | None = None) -> TurnInput:
    return TurnInput(appointments=mine or (appointment_record(),), message=message, proposal=proposal)


def handoff_reason(reply: Reply) -> str | None:
    return next((action["reason"] for action in reply.result.actions if action["type"] == "handoff"), None)


OTHER_TIME = "2026-10-01T12:00:00.000Z"
