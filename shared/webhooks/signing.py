"""Signing secrets and signatures of webhook endpoints (promises 9).

A secret is stored only as KMS ciphertext that is bound to its endpoint. API functions may only encrypt. The delivery
worker may decrypt, and caches decrypted secrets in memory (promises 0).
"""

from __future__ import annotations

import base64
import functools
import hashlib
import hmac
import os
from collections.abc import Mapping, Sequence

from shared.aws import services
from shared.core import clock, settings

PREFIX = "whsec_"
PREFIX_CHARACTERS = 13
"""The number of characters of a secret in `secret_prefix`."""


def new_secret() -> str:
    """A new secret: `whsec_` and 32 random bytes in base64."""
    return PREFIX + base64.b64encode(os.urandom(32)).decode()


def encrypt(endpoint_id: str, secret: str) -> bytes:
    """The ciphertext of a secret, which can be decrypted only for this endpoint."""
    parameters = {
        "KeyId": settings.signing_key(),
        "Plaintext": base64.b64encode(secret.encode()).decode(),
        "EncryptionContext": {"webhook_endpoint": endpoint_id},
    }
    return base64.b64decode(services.kms().call("Encrypt", parameters)["CiphertextBlob"])


@functools.lru_cache(maxsize=1_000)
def decrypt(endpoint_id: str, ciphertext: bytes) -> str:
    """The secret of a ciphertext, by the signing key of this region: a replica decrypts what its primary key encrypted.

    KMS developer guide, "Multi-Region keys in AWS KMS":
    docs.aws.amazon.com/kms/latest/developerguide/multi-region-keys-overview.html.
    """
    parameters = {
        "KeyId": settings.signing_key(),
        "CiphertextBlob": base64.b64encode(ciphertext).decode(),
        "EncryptionContext": {"webhook_endpoint": endpoint_id},
    }
    return base64.b64decode(services.kms().call("Decrypt", parameters)["Plaintext"]).decode()


def headers(secrets: Sequence[str], event_id: str, body: bytes, now: clock.UnixSeconds) -> Mapping[str, str]:
    """The headers that authenticate a delivery with each of these secrets.

    The key of `Service-Signature` is the text of a secret. The key of the Standard Webhooks signature is the bytes
    that the secret encodes.
    """
    signed, standard_signed = b"%d.%s" % (now, body), b"%s.%d.%s" % (event_id.encode(), now, body)
    digests = [hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest() for secret in secrets]
    keys = [base64.b64decode(secret.removeprefix(PREFIX)) for secret in secrets]
    standard = [base64.b64encode(hmac.new(key, standard_signed, hashlib.sha256).digest()).decode() for key in keys]
    return {
        "Service-Signature": ",".join([f"t={now}", *(f"v1={digest}" for digest in digests)]),
        "webhook-id": event_id,
        "webhook-timestamp": str(now),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in standard),
    }
