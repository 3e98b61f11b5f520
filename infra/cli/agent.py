"""The agent in the terminal: `call` and `chat`."""

from __future__ import annotations

import sys
import time
import uuid
from typing import TYPE_CHECKING, Any

import click

from .command import REFUSED, Command, Settings, assigned

if TYPE_CHECKING:
    from .api import Client

_ENDED = ("completed", "no_answer", "failed", "invalid_number", "call_later")
_POLL_S = 0.5


@click.command(
    cls=Command,
    examples=(
        "call cust_… --watch",
        "call cust_… --appointment appt_… --watch",
        "call cust_… -d not_before=2026-12-01T09:00:00Z",
    ),
)
@click.argument("customer")
@click.option("--appointment", metavar="ID", help="The appointment that the call is about.")
@click.option("-d", "--data", multiple=True, metavar="KEY=VALUE", help="A further field of the request.")
@click.option("--watch", is_flag=True, help="Show the call's progress, and its transcript at the end.")
@click.pass_obj
def call(settings: Settings, customer: str, appointment: str | None, data: tuple[str, ...], watch: bool) -> None:
    """Call a customer. A live key calls a real phone."""
    from . import output

    body = ({"appointment_id": appointment} if appointment else {}) | assigned(data)
    requested = settings.client.post(f"/v1/customers/{customer}/call", body)
    if not watch:
        output.show(settings, requested)
        return
    session = _watched(settings.client, requested["session_id"])
    if settings.as_json:
        output.show_json(session)
    if session["call_status"] != "completed":
        raise click.exceptions.Exit(REFUSED)


def _watched(client: Client, session_id: str) -> Any:
    """The session at its end, after its progress and transcript were shown."""
    from . import output

    shown = ""
    while True:
        session = client.get(f"/v1/sessions/{session_id}")
        consent = (session["consent"] or {}).get("status")
        state = "waits for consent" if consent == "pending" else session["call_status"]
        if state != shown:
            shown = state
            output.note(f"{time.strftime('%H:%M:%S')}  {session['to']}  {state}")
        if session["call_status"] in _ENDED and session["transcript_status"] != "processing":
            break
        time.sleep(_POLL_S)
    output.note(f"{session_id}: {session['outcome'] or session['ended_reason']}")
    if session["transcript_status"] == "available":
        for line in client.get(f"/v1/sessions/{session_id}/transcript")["data"]:
            _say(line["role"], line["content"])
    return session


def _say(role: str, content: str) -> None:
    click.echo(f"{click.style(f'{role}:', bold=True, fg='cyan' if role == 'agent' else None)} {content}")


@click.command(
    cls=Command, prints=False, examples=("chat", "chat --customer cust_…", "chat --thread ada < questions.txt")
)
@click.option("--customer", metavar="ID", help="The customer who writes.")
@click.option(
    "--thread", metavar="ID", help="Your own id of the thread, to go on with a conversation. The default is a new one."
)
@click.pass_obj
def chat(settings: Settings, customer: str | None, thread: str | None) -> None:
    """Talk to the agent. Ctrl-D ends the chat; the conversation stays open."""
    from . import output

    thread = thread or f"terminal-{uuid.uuid4().hex[:8]}"
    interactive = sys.stdin.isatty()
    if interactive:
        import readline  # noqa: F401  # lines can be edited

        output.note(f"Thread {thread}. Ctrl-D ends the chat.")
    who = {"customer": {"id": customer}} if customer else {}
    while True:
        try:
            content = input("you: " if interactive else "").strip()
        except EOFError:
            break
        if not content:
            continue
        sent = settings.client.post("/v1/messages", {"external_conversation_id": thread, "content": content, **who})
        _say("agent", sent["reply"]["content"])
        for action in sent["reply"]["actions"]:
            about = " ".join(str(value) for name, value in action.items() if name != "type")
            output.note(f"       {action['type']} {about}".rstrip())
