"""The credentials of calls of AWS: from the environment, as Lambda sets them, or from a container's endpoint.

Lambda with SnapStart and ECS have the endpoint. Its credentials expire, and are fetched again before they do. boto3
reads a person's profile or single sign-on, which only the operator's commands use.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from shared.aws.connections import ConnectionFailed, Connections, tls_context
from shared.core import clock

RENEW_BEFORE = 15 * clock.MINUTE
"""How long before they expire (milliseconds) credentials are renewed."""
_ATTEMPTS = 3
_SECONDS = 2.0
"""Seconds in which the endpoint for credentials must respond, as in botocore. It is on the machine."""
_ECS = "http://169.254.170.2"
_CONTAINER_HOSTS = frozenset({"169.254.170.2", "169.254.170.23", "fd00:ec2::23", "localhost"})


class NoCredentials(Exception):
    """There are no credentials, or their source does not respond."""


@dataclass(frozen=True)
class Credentials:
    """An access key. `expires_at` is None if it is not known to expire."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    expires_at: int | None = None


class Source:
    """The credentials of this process, which its clients share."""

    def __init__(self) -> None:
        self._renewing = threading.Lock()
        self._kept: Credentials | None = None
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
        if (url := _container_url(environment)) is not None:
            return self._of_container(url)
        return self._of_boto3()

    def renew(self, refused: Credentials) -> Credentials:
        """Credentials in place of those that AWS refused as expired; the same if there are no others."""
        if self._kept == refused:
            self._kept = None
        return self.current()

    def _of_container(self, url: str) -> Credentials:
        kept = self._kept
        if kept is not None and not _expires_within(kept, RENEW_BEFORE):
            return kept
        # One thread renews. The others wait only if they have nothing valid.
        usable = kept is not None and not _expires_within(kept, 0)
        if not self._renewing.acquire(blocking=not usable):
            assert kept is not None
            return kept
        try:
            if self._kept is not kept and self._kept is not None:
                return self._kept
            self._kept = _fetch(url)
            return self._kept
        except NoCredentials:
            if kept is not None and usable:
                return kept
            raise
        finally:
            self._renewing.release()

    def _of_boto3(self) -> Credentials:
        """The credentials of a profile, renewed by boto3."""
        import botocore.session
        from botocore.exceptions import BotoCoreError

        with self._renewing:
            try:
                if self._of_person is None:
                    self._of_person = botocore.session.get_session().get_credentials()
                if self._of_person is None:
                    raise NoCredentials("none are configured")
                found = self._of_person.get_frozen_credentials()
            except BotoCoreError as error:
                raise NoCredentials(str(error)) from None
        return Credentials(found.access_key, found.secret_key, found.token)


def _expires_within(credentials: Credentials, wait: int) -> bool:
    return credentials.expires_at is not None and credentials.expires_at <= clock.now() + wait


def _container_url(environment: Mapping[str, str]) -> str | None:
    if path := environment.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        return _ECS + path
    return environment.get("AWS_CONTAINER_CREDENTIALS_FULL_URI") or None


def _fetch(url: str) -> Credentials:
    """The credentials that a container's endpoint returns. Raises NoCredentials."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    # Without TLS, credentials may only come from the machine itself or from AWS's own link-local addresses.
    if parts.scheme != "https" and not (host in _CONTAINER_HOSTS or _is_loopback(host)):
        raise NoCredentials("the endpoint for credentials must be on loopback, or have TLS")
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    head = [f"GET {target or '/'} HTTP/1.1", f"Host: {parts.netloc}", "Accept: application/json", "Connection: close"]
    if token := _token():
        head.append(f"Authorization: {token}")
    request = "\r\n".join([*head, "", ""]).encode()
    failure = ""
    with contextlib.closing(Connections(url, lambda: tls_context(None), response_seconds=_SECONDS)) as connections:
        for _ in range(_ATTEMPTS):
            try:
                reply = connections.exchange(request)
            except ConnectionFailed as error:
                failure = error.reason
                continue
            if reply.status == 200:
                return _parsed(reply.body)
            failure = f"status {reply.status}"
    raise NoCredentials(f"the endpoint for credentials: {failure}")


def _parsed(body: bytes) -> Credentials:
    try:
        answer = json.loads(body)
        return Credentials(
            answer["AccessKeyId"], answer["SecretAccessKey"], answer["Token"], clock.parse(answer["Expiration"])
        )
    except (ValueError, KeyError, TypeError):
        raise NoCredentials("the endpoint for credentials: not credentials") from None


def _token() -> str | None:
    if file := os.environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"):
        token = Path(file).read_text()
    else:
        token = os.environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN", "")
    if "\r" in token or "\n" in token:
        raise NoCredentials("the token for the endpoint for credentials has a line break")
    return token or None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
