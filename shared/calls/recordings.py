"""Recordings of calls: WAV files in a bucket, which clients fetch by links, valid for 15 minutes (promises 7)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from shared.aws import objects, services
from shared.core import clock, settings
from shared.store.keys import Scope

CONTENT_TYPE = "audio/wav"
LINK_LASTS_MS = 15 * clock.MINUTE


@dataclass(frozen=True)
class Link:
    """Where a recording can be fetched, until `expires_at` (milliseconds)."""

    url: str
    expires_at: clock.Instant


def key_of(scope: Scope, session_id: str) -> str:
    """The key of a session's recording in the bucket."""
    return f"recordings/{scope.project_id}/{'live' if scope.livemode else 'test'}/{session_id}.wav"


def store(key: str, content: bytes) -> None:
    """Store a recording. Raises Unavailable."""
    services.call(
        services.s3().put_object, Bucket=settings.recordings_bucket(), Key=key, Body=content, ContentType=CONTENT_TYPE
    )


def delete(key: str) -> None:
    """Delete a recording. Raises Unavailable."""
    services.call(services.s3().delete_object, Bucket=settings.recordings_bucket(), Key=key)


def erase(prefixes: Iterable[str]) -> int:
    """Delete every version of the objects whose keys begin with one of the prefixes. Returns the number of objects."""
    return sum(objects.erase(settings.recordings_bucket(), prefix) for prefix in prefixes)


def link(key: str, file_name: str | None = None) -> Link:
    """A link to a recording. With a file name, browsers save it under this name instead of playing it."""
    expires_at = clock.now() + LINK_LASTS_MS
    parameters = {"Bucket": settings.recordings_bucket(), "Key": key, "ResponseContentType": CONTENT_TYPE}
    if file_name is not None:
        parameters["ResponseContentDisposition"] = f'attachment; filename="{file_name}"'
    url = services.s3().generate_presigned_url("get_object", Params=parameters, ExpiresIn=LINK_LASTS_MS // clock.SECOND)
    return Link(url, expires_at)
