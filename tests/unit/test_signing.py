from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moto import mock_aws
from standardwebhooks import Webhook, WebhookVerificationError

from shared.aws import services
from shared.aws.client import AwsCall, Hook, hooked
from shared.core import clock
from shared.webhooks import signing
from tests.support import moto_server

SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
BODY = '{"id":"evt_01","name":"Zo\u00eb"}'.encode()
TOLERANCE = 300


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A KMS key, as `SIGNING_KEY` names it."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "unit")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws(), moto_server.serving() as endpoints:
        for name, url in endpoints.items():
            monkeypatch.setenv(name, url)
        services.kms.cache_clear()
        monkeypatch.setenv("SIGNING_KEY", services.kms().call("CreateKey", {})["KeyMetadata"]["KeyId"])
        yield
        services.kms().close()
        services.kms.cache_clear()
        signing.decrypt.cache_clear()


def verify_header(header: str, body: bytes, secret: str, now: int) -> bool:
    """What promise 9.6 tells a receiver to do."""
    parts = re.fullmatch(r"t=([1-9][0-9]*),v1=([0-9a-f]{64})", header)
    assert parts
    expected = hmac.new(secret.encode(), parts[1].encode() + b"." + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected, parts[2]) and abs(now - int(parts[1])) <= TOLERANCE


def test_the_signatures_are_those_that_openssl_computes() -> None:
    # printf '1790000000.%s' "$BODY" | openssl dgst -sha256 -hmac "$SECRET"
    # printf 'evt_01.1790000000.%s' "$BODY" | openssl dgst -sha256 -mac HMAC -macopt hexkey:000102…1f -binary | base64
    assert signing.headers([SECRET], "evt_01", BODY, clock.UnixSeconds(1_790_000_000)) == {
        "Service-Signature": "t=1790000000,v1=1859fac689c101615a54ea6d4eb30ff8a08b4dd3e6a9287ad16ad30edba424e5",
        "webhook-id": "evt_01",
        "webhook-timestamp": "1790000000",
        "webhook-signature": "v1,iHHS3AtaRHuRCi8+9l3xqtSIYjG7zcmY4gouhb8L8yk=",
    }


def test_the_signature_is_that_of_the_standard_s_own_example() -> None:
    headers = signing.headers(
        ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        b'{"test": 2432232314}',
        clock.UnixSeconds(1_614_265_330),
    )

    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@given(st.binary(max_size=60), st.binary(min_size=32, max_size=32))
def test_a_receiver_that_follows_the_specification_takes_our_signature_and_no_other(body: bytes, random: bytes) -> None:
    secret, now = f"whsec_{base64.b64encode(random).decode()}", clock.UnixSeconds(1_790_000_000)
    header = signing.headers([secret], "evt_1", body, now)["Service-Signature"]

    assert verify_header(header, body, secret, now + TOLERANCE)
    assert not verify_header(header, body, secret, now + TOLERANCE + 1)
    assert not verify_header(header, body + b" ", secret, now)
    assert not verify_header(header, body, signing.new_secret(), now)
    assert not verify_header(header.replace(f"t={now}", f"t={now + 1}"), body, secret, now)


@given(st.text(max_size=60))
def test_the_standard_s_own_library_takes_our_signature_and_no_other(text: str) -> None:
    secret, now = signing.new_secret(), clock.UnixSeconds(int(time.time()))
    headers = dict(signing.headers([secret], "evt_1", text.encode(), now))

    Webhook(secret).verify(text, headers, json_parse=False)
    for wrong in (headers | {"webhook-id": "evt_2"}, headers | {"webhook-timestamp": str(now - 1)}):
        with pytest.raises(WebhookVerificationError):
            Webhook(secret).verify(text, wrong, json_parse=False)
    with pytest.raises(WebhookVerificationError):
        Webhook(signing.new_secret()).verify(text, headers, json_parse=False)


def test_a_secret_is_32_random_bytes_in_base64_behind_its_prefix() -> None:
    secrets = {signing.new_secret() for _ in range(50)}

    assert len(secrets) == 50
    for secret in secrets:
        assert secret.startswith("whsec_")
        assert len(base64.b64decode(secret.removeprefix("whsec_"), validate=True)) == 32
        assert len(secret[: signing.PREFIX_CHARACTERS]) == 13


@pytest.mark.usefixtures("key")
def test_a_sealed_secret_opens_for_its_endpoint_only() -> None:
    secret = signing.new_secret()
    ciphertext = signing.encrypt("whk_1", secret)

    assert secret.encode() not in ciphertext
    assert signing.decrypt("whk_1", ciphertext) == secret
    with pytest.raises(services.AwsError):
        signing.decrypt("whk_2", ciphertext)


class _Calls(Hook):
    """Keeps the calls."""

    def __init__(self) -> None:
        self.calls: list[AwsCall] = []

    def call(self, call: AwsCall, proceed: Callable[[AwsCall], Any]) -> Any:
        self.calls.append(call)
        return proceed(call)


@pytest.mark.usefixtures("key")
def test_a_sealed_secret_is_bound_to_no_region_and_opened_by_the_key_of_this_one() -> None:
    # A replica in another region has another ARN, and opens what is bound to the endpoint alone.
    hook = _Calls()
    with hooked(hook):
        signing.decrypt("whk_1", signing.encrypt("whk_1", SECRET))
    for call in hook.calls:
        assert call.parameters["KeyId"] == os.environ["SIGNING_KEY"]
        assert call.parameters["EncryptionContext"] == {"webhook_endpoint": "whk_1"}
    assert [call.operation for call in hook.calls] == ["Encrypt", "Decrypt"]
