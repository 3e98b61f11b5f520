"""Recordings outlive the local runner, a SIGKILL of everything included (promises 7).

These tests speak to the runner's stand-in for S3, as the functions and the links to recordings do.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import pytest
from botocore.config import Config

from tests.support.runner import ROOT, memory_folder

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

BUCKET = "recordings-test"
KEPT, REPLACED, DELETED, DAMAGED = (f"recordings/1/test/ses_{name}.wav" for name in "1234")
EMPTY = "nothing in it"
SOUND = bytes(range(256)) * 200 + b"\n"

pytestmark = pytest.mark.runner("kills what it starts itself")


@pytest.fixture(autouse=True)
def every_response_keeps_the_common_promises() -> None:
    """In place of the one for the shared runner, which these tests do without."""


@dataclass(frozen=True)
class Restarted:
    """What there is after the kill."""

    s3: S3Client
    warning: str
    damaged: Path


@contextlib.contextmanager
def backend(folder: Path) -> Iterator[tuple[S3Client, dict[str, str]]]:
    """The runner's child process, all of it killed at the end; a client of its S3, and what it said at its start."""
    with (folder / "backend.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "infra.local.backend", str(folder)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    with process:
        assert process.stdout is not None
        try:
            said: dict[str, str] = json.loads(process.stdout.readline())
            s3 = boto3.client(
                "s3",
                endpoint_url=said["aws_url"],
                region_name="us-east-1",
                aws_access_key_id="test",
                aws_secret_access_key="test",
                config=Config(signature_version="s3v4", retries={"total_max_attempts": 1}),
            )
            with contextlib.closing(s3):
                yield s3, said
        finally:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def restarted_runner() -> Iterator[Restarted]:
    with memory_folder() as folder:
        (folder / "kms.json").write_text(json.dumps({"key_id": "test", "key_material": "00" * 32}))
        with backend(folder) as (s3, said):
            assert "warning" not in said
            s3.create_bucket(Bucket=BUCKET)
            s3.put_object(Bucket=BUCKET, Key=REPLACED, Body=b"longer than the other", ContentType="text/plain")
            s3.put_object(Bucket=BUCKET, Key=EMPTY)
            for key in (KEPT, REPLACED, DELETED, DAMAGED):
                s3.put_object(Bucket=BUCKET, Key=key, Body=SOUND, ContentType="audio/wav")
            s3.delete_object(Bucket=BUCKET, Key=DELETED)
        damaged = next(folder.glob(f"s3/{BUCKET}/*ses_4.wav"))
        damaged.write_bytes(damaged.read_bytes()[:-1])
        damaged.with_name(f"{damaged.name},draft").write_bytes(b"cut off by the kill")
        with backend(folder) as (s3, said):
            yield Restarted(s3, said.get("warning", ""), damaged)


@pytest.mark.parametrize("key", [KEPT, REPLACED])
def test_an_old_recording_still_plays_by_a_new_link(restarted_runner: Restarted, key: str) -> None:
    url = restarted_runner.s3.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": key})
    with urllib.request.urlopen(url) as response:
        assert response.read() == SOUND
        assert response.headers["Content-Type"] == "audio/wav"
        assert response.headers["Content-Length"] == str(len(SOUND))


def test_a_player_may_ask_for_a_part(restarted_runner: Restarted) -> None:
    part = restarted_runner.s3.get_object(Bucket=BUCKET, Key=KEPT, Range="bytes=100-299")
    assert part["Body"].read() == SOUND[100:300]


def test_there_is_what_was_put_but_not_what_was_deleted_or_damaged(restarted_runner: Restarted) -> None:
    found = restarted_runner.s3.list_objects_v2(Bucket=BUCKET)["Contents"]
    assert {one["Key"]: one["Size"] for one in found} == {KEPT: len(SOUND), REPLACED: len(SOUND), EMPTY: 0}


def test_a_damaged_file_is_named_and_left_where_it_is(restarted_runner: Restarted) -> None:
    assert str(restarted_runner.damaged) in restarted_runner.warning
    assert restarted_runner.damaged.exists()
    assert "\n" not in restarted_runner.warning
    assert "draft" not in restarted_runner.warning


def test_the_bucket_can_be_created_again_and_keeps_its_objects(restarted_runner: Restarted) -> None:
    before = restarted_runner.s3.head_object(Bucket=BUCKET, Key=KEPT)
    restarted_runner.s3.create_bucket(Bucket=BUCKET)
    after = restarted_runner.s3.head_object(Bucket=BUCKET, Key=KEPT)
    assert (after["ETag"], after["LastModified"]) == (before["ETag"], before["LastModified"])
