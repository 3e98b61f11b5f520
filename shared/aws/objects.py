"""Objects in S3: reading, replacing, and removing them for good. Every function raises Unavailable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from shared.aws import services
from shared.core import clock


@dataclass(frozen=True)
class Stored:
    """An object's key, and when it was last written."""

    key: str
    modified_at: clock.Instant


def list_objects(bucket: str, prefix: str = "") -> Iterator[Stored]:
    """The objects of a bucket whose keys begin with `prefix`, by key."""
    after = ""
    while True:
        page = services.call(services.s3().list_objects_v2, Bucket=bucket, Prefix=prefix, StartAfter=after)
        for each in page.get("Contents", []):
            after = each["Key"]
            yield Stored(after, clock.of_datetime(each["LastModified"]))
        if not page["IsTruncated"]:
            return


def read(bucket: str, key: str) -> bytes:
    """The content of an object."""
    return bytes(services.call(services.s3().get_object, Bucket=bucket, Key=key)["Body"].read())


def write(bucket: str, key: str, content: str) -> str | None:
    """Write a JSON object. Returns the id of its version; None if the bucket has no versions."""
    content_type = "application/json"
    written = services.call(
        services.s3().put_object, Bucket=bucket, Key=key, Body=content.encode(), ContentType=content_type
    )
    version: str | None = written.get("VersionId")
    return version


def replace_or_delete(bucket: str, key: str, content: str | None) -> None:
    """Replace a JSON object with new content, or delete it if that is None. No earlier version remains."""
    if content is None:
        erase(bucket, key)
    elif (version := write(bucket, key, content)) is not None:
        erase(bucket, key, keep=version)


def erase(bucket: str, prefix: str, keep: str | None = None) -> int:
    """Delete every version of the objects whose keys begin with `prefix`. Returns the number of objects.

    The version with the id `keep` remains. In a bucket without versions, an object has one version, whose id is `null`.
    """
    assert prefix, "an empty prefix is the whole bucket"
    erased = set[str]()
    while True:
        page = services.call(services.s3().list_object_versions, Bucket=bucket, Prefix=prefix)
        listed = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
        versions = [each for each in listed if keep is None or each["VersionId"] != keep]
        if not versions:
            return len(erased)
        for each in versions:
            services.call(services.s3().delete_object, Bucket=bucket, Key=each["Key"], VersionId=each["VersionId"])
            erased.add(each["Key"])
