"""The credentials of calls of AWS: from the environment, as Lambda sets them.

boto3 finds those of a person who runs the operator's commands: a profile, single sign-on or CloudShell.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from typing import Any


class NoCredentials(Exception):
    """There are no credentials, or their source does not respond."""


@dataclass(frozen=True)
class Credentials:
    """An access key."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


class Source:
    """The credentials of this process, which its clients share."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of_person: Any = None

    def current(self) -> Credentials:
        """Credentials that are valid now. Raises NoCredentials."""
        environment = os.environ
        if "AWS_ACCESS_KEY_ID" in environment:
            return Credentials(
                environment["AWS_ACCESS_KEY_ID"],
                environment.get("AWS_SECRET_ACCESS_KEY", ""),
                environment.get("AWS_SESSION_TOKEN"),
            )
        return self._of_boto3()

    def _of_boto3(self) -> Credentials:
        """The credentials of a person. boto3 renews them before they expire."""
        import botocore.session
        from botocore.exceptions import BotoCoreError

        with self._lock:
            try:
                if self._of_person is None:
                    self._of_person = botocore.session.get_session().get_credentials()
                if self._of_person is None:
                    raise NoCredentials("none are configured")
                frozen = self._of_person.get_frozen_credentials()
            except BotoCoreError as error:
                raise NoCredentials(str(error)) from None
        return Credentials(frozen.access_key, frozen.secret_key, frozen.token)
