"""/v1/ping: the project and mode behind a key."""

from __future__ import annotations

from shared.api import http
from shared.api.http import Answer, Call
from shared.resources import fields


def ping(call: Call) -> Answer:
    body = {
        "object": "ping",
        "project_id": call.scope.project_id,
        "project_name": call.project_name,
        "livemode": call.scope.livemode,
        "request_id": call.request_id,
    }
    return Answer(200, fields.compact(body))


app = http.service(http.Resource("/v1/ping", get=ping))
handler = http.lambda_handler(app)
