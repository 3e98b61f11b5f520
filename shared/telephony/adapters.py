"""Who places live calls and asks live customers for consent: the stage's carrier and messenger, by its environment."""

from __future__ import annotations

import functools

from shared.telephony import Carrier, Messenger

_carrier: Carrier | None = None
_messenger: Messenger | None = None


def use(*, carrier: Carrier | None = None, messenger: Messenger | None = None) -> None:
    """Let these do it, for tests; None restores the stage's, by its environment as it is now."""
    global _carrier, _messenger
    _carrier, _messenger = carrier, messenger
    _amazon_connect.cache_clear()
    _whatsapp.cache_clear()


def carrier() -> Carrier:
    """Who places live calls by phone. Raises NotConfigured."""
    return _carrier or _amazon_connect()


def messenger() -> Messenger:
    """Who asks for consent to live calls. Raises NotConfigured."""
    return _messenger or _whatsapp()


@functools.cache
def _amazon_connect() -> Carrier:
    from shared.telephony.amazon_connect import Connect

    return Connect.from_environment()


@functools.cache
def _whatsapp() -> Messenger:
    from shared.telephony.whatsapp import WhatsApp

    return WhatsApp.from_environment()
