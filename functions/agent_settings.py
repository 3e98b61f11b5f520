"""/v1/agent_settings: what the agent knows, what it may change, and when it may call."""

from __future__ import annotations

from shared.agent_settings import commands as agent_settings_commands
from shared.agent_settings import resource as agent_settings
from shared.agent_settings.resource import AgentSettings, AgentSettingsPatch
from shared.api import responses
from shared.api.requests import Request
from shared.api.responses import Response
from shared.api.routes import Operation, Route, Service, lambda_handler


def retrieve(request: Request[None]) -> Response[AgentSettings]:
    """Retrieve the agent's settings.

    Each project has one object in each mode, which is always there (promises 11).
    """
    return responses.ok(agent_settings.read(request.scope).settings)


def update(request: Request[AgentSettingsPatch]) -> Response[AgentSettings]:
    """Update the agent's settings.

    A merge patch: an absent field keeps its value, and null brings its default back. Lists are replaced whole. Emits no
    event (promises 11).
    """
    return request.commit(
        lambda: agent_settings_commands.update(request.scope, agent_settings.read(request.scope), request.body)
    )


app = Service(
    Route(
        "/v1/agent_settings",
        get=Operation(retrieve, name="retrieve_agent_settings"),
        patch=Operation(update, name="update_agent_settings"),
    )
)
handler = lambda_handler(app)
