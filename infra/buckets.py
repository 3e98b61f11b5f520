"""Private buckets, as every stack of a stage has them. `infra/stack.py` says how long each keeps its objects."""

from __future__ import annotations

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_s3 as s3


def private(
    stack: Stack,
    id: str,
    kept: Duration | None,
    removal: RemovalPolicy,
    *,
    versioned: bool = False,
    name: str | None = None,
) -> s3.Bucket:
    """Create a private bucket whose objects expire after the time `kept`; None if they do not expire."""
    return s3.Bucket(
        stack,
        id,
        bucket_name=name,
        encryption=s3.BucketEncryption.S3_MANAGED,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
        enforce_ssl=True,
        minimum_tls_version=1.2,
        lifecycle_rules=[s3.LifecycleRule(expiration=kept)] if kept else None,
        versioned=versioned or None,
        removal_policy=removal,
    )
