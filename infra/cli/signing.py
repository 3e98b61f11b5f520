"""Secrets and signatures of webhooks, as the service makes them, and the command `verify`."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import sys
import time
from pathlib import Path

import click

from .command import COMMAND, REFUSED, Command, Failure

TOLERANCE_S = 300
_PREFIX = "whsec_"


def own_secret() -> str:
    """The secret with which `listen` signs on this machine; it is made once."""
    import platformdirs

    from .profiles import write_private

    file: Path = platformdirs.user_config_path(COMMAND) / "signing_secret"
    if not file.exists():
        write_private(file, _PREFIX + base64.b64encode(os.urandom(32)).decode())
    return file.read_text(encoding="utf-8")


def headers(secret: str, event_id: str, body: bytes, now_s: int) -> dict[str, str]:
    """The headers of a webhook, those of Standard Webhooks included."""
    signed = f"{event_id}.{now_s}.".encode() + body
    standard = hmac.new(base64.b64decode(secret.removeprefix(_PREFIX)), signed, hashlib.sha256).digest()
    return {
        "Content-Type": "application/json",
        "Service-Signature": f"t={now_s},v1={_digest(secret, str(now_s), body)}",
        "webhook-id": event_id,
        "webhook-timestamp": str(now_s),
        "webhook-signature": f"v1,{base64.b64encode(standard).decode()}",
    }


def _digest(secret: str, moment: str, body: bytes) -> str:
    return hmac.new(secret.encode(), moment.encode() + b"." + body, hashlib.sha256).hexdigest()


@click.command(
    cls=Command,
    prints=False,
    examples=(
        "verify --signature 't=…,v1=…' < body.json",
        "verify < request.http",
        "verify --any-age < old_request.http",
    ),
)
@click.option("--signature", metavar="VALUE", help="The header Service-Signature, if stdin is the body alone.")
@click.option("--any-age", is_flag=True, help=f"Accept a signature that is more than {TOLERANCE_S} s old.")
def verify(signature: str | None, any_age: bool) -> None:
    """Verify the signature of a webhook that stdin contains.

    Stdin is the raw body, or a whole request with its headers. The secret is that of the environment's WEBHOOK_SECRET,
    or else the one of `listen`. The exit code is 0 if the signature is valid, and 1 if it is not.
    """
    body = sys.stdin.buffer.read()
    if signature is None:
        head, _, body = re.sub(
            rb"\r\n", b"\n", body, count=body[: body.find(b"\r\n\r\n") + 4].count(b"\r\n")
        ).partition(b"\n\n")
        found = re.search(r"^service-signature:\s*(\S+)", head.decode("latin-1"), re.IGNORECASE | re.MULTILINE)
        if not found:
            raise click.UsageError("stdin has no header Service-Signature. If it is the body alone, use --signature.")
        signature = found[1]
    parts = [part.strip().partition("=")[::2] for part in signature.split(",")]
    moment = dict(parts).get("t", "")
    expected = _digest(os.environ.get("WEBHOOK_SECRET") or own_secret(), moment, body)
    if not any(hmac.compare_digest(expected.encode(), value.encode()) for name, value in parts if name == "v1"):
        raise Failure(
            "No v1 of the signature matches.",
            "Use the raw bytes of the body, and the secret of this endpoint (WEBHOOK_SECRET) or of `listen`.",
            REFUSED,
        )
    if not any_age and (not moment.isdigit() or abs(time.time() - int(moment)) > TOLERANCE_S):
        raise Failure(
            "The signature matches, but its time differs by more than 300 s from this clock.", "See --any-age."
        )
    click.echo("The signature is valid.")
