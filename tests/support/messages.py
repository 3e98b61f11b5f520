"""Messages over HTTP, by thread and by conversation."""

from __future__ import annotations

PATH = "/v1/messages"


def messages_of(conversation_id: str) -> str:
    return f"/v1/conversations/{conversation_id}/messages"
