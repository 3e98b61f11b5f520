"""The model on Amazon Bedrock, called with `Converse`: it may be late or fail, and does with its tools what it likes.

It calls tools in any order, also with ids that it has seen in requests of others, and its answers may be malformed.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from tests.simulation.faults import Fault, client_error

if TYPE_CHECKING:
    from tests.simulation.hosts import Host
    from tests.simulation.world import World

LINK = "example.net"
"""What each link of an answer has."""
TEXTS = (
    "Is there anything else? I am happy to help.",
    f"See [the details](https://{LINK}/a?b=c), or ask me.",
    "<thinking>They may mean the first one.</thinking>Which appointment do you mean?",
    "Your appointment is",
    "",
)
_APPOINTMENT = re.compile(r"appt_[0-9a-z]{26}")
_TIMES = ("2027-01-22T10:00:00Z", "2027-02-01T09:30:00+01:00", "2020-01-01T10:00:00Z", "tomorrow")
_BROKEN = ("throttled", "unavailable", "invalid", "connection")
_ODD = ("unknown_tool", "wrong_input", "malformed", "cut_off", "filtered", "no_text", "other")


class Model:
    """The model of a history."""

    def __init__(self, seed: str, world: World) -> None:
        self.world = world
        self.random = random.Random(f"{seed}/model")
        self.seen: list[str] = []
        """The ids of appointments in all requests so far."""

    def connect(self, host: Host) -> None:
        """Let a host reply to live customers with the model."""
        agent = host.module("shared.agent.bedrock").Bedrock(_Client(self, host), "model", lambda: self.world.now)
        host.module("shared.agent").use_agent(agent)

    def answer(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[str]) -> tuple[str, list[dict[str, Any]]]:
        """The reason of the stop, and the content of the message."""
        ids = list(dict.fromkeys(_APPOINTMENT.findall(json.dumps(messages))))
        self.seen += [id for id in ids if id not in self.seen]
        if self.world.strikes(Fault.MODEL_ODD):
            return self._odd()
        draw = self.random
        if draw.random() < (0.6 if "toolResult" in json.dumps(messages[-1]) else 0.25):
            return "end_turn", [{"text": draw.choice(TEXTS[:3])}]
        if not ids and draw.random() < 0.7:
            return "tool_use", [_call("list_appointments", {})]
        # A model that was taken over uses ids of others, too.
        id = draw.choice(self.seen if self.seen and draw.random() < 0.3 else ids or ["appt_unknown"])
        of_time, of_id = {"at": draw.choice(_TIMES)}, {"appointment_id": id}
        arguments = {
            "confirm": of_id,
            "propose_cancellation": of_id,
            "propose_reschedule": of_id | of_time,
            "call_later": of_time,
            "hand_off": {"reason": draw.choice(("person_requested", "complaint", "cannot_help"))},
        }
        # The recorded release may name it otherwise.
        accept = next(name for name in tools if name in ("accept_proposal", "commit_proposal"))
        usual = ("confirm", "propose_cancellation", "propose_reschedule", accept, accept)
        chosen = draw.choices((*usual, *tools), (3,) * len(usual) + (1,) * len(tools), k=draw.choice((1, 1, 2)))
        return "tool_use", [_call(name, arguments.get(name, {})) for name in chosen]

    def _odd(self) -> tuple[str, list[dict[str, Any]]]:
        """An answer that a caller cannot use as it is."""
        kind = self.random.choice(_ODD)
        self.world.note("the model's answer is odd", kind)
        return {
            "unknown_tool": ("tool_use", [_call("delete_customer", {})]),
            "wrong_input": ("tool_use", [_call("confirm", {"appointment_id": 7, "by": "me"})]),
            "malformed": ("malformed_tool_use", [{"text": "{"}]),
            "cut_off": ("max_tokens", [{"text": self.random.choice(TEXTS)}]),
            "filtered": ("content_filtered", [{"text": "I cannot"}]),
            "no_text": ("end_turn", [{"text": ""}]),
            "other": ("guardrail_intervened", []),
        }[kind]


class _Client:
    """In place of boto3's client of `bedrock-runtime`."""

    def __init__(self, model: Model, host: Host) -> None:
        self._model, self._world = model, model.world
        self._bedrock = host.module("shared.agent.bedrock")

    def converse(self, **request: Any) -> dict[str, Any]:
        """One response of the model. Raises what botocore raises."""
        world, context = self._world, dict[str, Any]()
        # Botocore passes the context of each request through this.
        self._bedrock._limit_time(context)
        world.begin_call()
        if world.strikes(Fault.MODEL_SLOW):
            world.note("the model does not respond")
            world.scheduler.sleep(context["read_timeout"])
            self._fail("timeout")
        world.scheduler.sleep(min(0.5, context["read_timeout"]))
        if world.strikes(Fault.MODEL_FAILED):
            self._fail(self._model.random.choice(_BROKEN))
        tools = [each["toolSpec"]["name"] for each in request["toolConfig"]["tools"]]
        stop, content = self._model.answer(request["messages"], tools)
        world.note("Converse", stop, json.dumps(content))
        return {
            "stopReason": stop,
            "output": {"message": {"role": "assistant", "content": content}},
            "usage": {"inputTokens": len(json.dumps(request)) // 4, "outputTokens": len(json.dumps(content)) // 4},
        }

    def _fail(self, kind: str) -> NoReturn:
        from botocore.exceptions import EndpointConnectionError, ReadTimeoutError

        if kind == "timeout":
            raise ReadTimeoutError(endpoint_url="")
        self._world.note("the model fails", kind)
        if kind == "connection":
            raise EndpointConnectionError(endpoint_url="")
        codes = {
            "throttled": "ThrottlingException",
            "unavailable": "ServiceUnavailableException",
            "invalid": "ValidationException",
        }
        raise client_error(codes[kind], 400, "Converse")


def _call(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": f"tooluse-{name}", "name": name, "input": dict(arguments)}}
