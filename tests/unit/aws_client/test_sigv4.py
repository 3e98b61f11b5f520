from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.aws import sigv4
from shared.aws.client import DYNAMODB, KMS, SQS, STEP_FUNCTIONS, AwsService
from shared.core import clock
from tests.support.canned_aws import answer_always, client, endpoint, response
from tests.support.clocks import Clock
from tests.support.receivers import Request

KEY, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
TOKEN = (
    "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7"
    "mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d"
    "+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA=="
)
FORM = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        ({}, b"", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        ({"my-header1": "value1"}, b"", "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c"),
        ({"my-header1": "VALUE1"}, b"", "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d"),
        ({"x-amz-security-token": TOKEN}, b"", "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead"),
        (
            {"content-type": FORM},
            b"Param1=value1",
            "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
        ),
        (
            {"content-type": f"{FORM}; charset=utf8"},
            b"Param1=value1",
            "1a72ec8f64bd914b0e42e42607c7fbce7fb2c7465f63e3092b3b0d39fa77a6fe",
        ),
    ],
    ids=[
        "post-vanilla",
        "post-header-key-sort",
        "post-header-value-case",
        "post-sts-header-before",
        "post-x-www-form-urlencoded",
        "post-x-www-form-urlencoded-parameters",
    ],
)
def test_the_signatures_are_those_of_the_cases_that_aws_publishes(
    headers: dict[str, str], body: bytes, expected: str
) -> None:
    signed = {"host": "example.amazonaws.com", "x-amz-date": "20150830T123600Z", **headers}
    found = sigv4.authorization(KEY, SECRET, region="us-east-1", service="service", headers=signed, body=body)
    scope = f"{KEY}/20150830/us-east-1/service/aws4_request"
    names = ";".join(sorted(signed))
    assert found == f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders={names}, Signature={expected}"


def by_botocore(
    request: AWSRequest, key: str, secret: str, token: str | None, *, region: str, service: str, at: str
) -> str:
    """The `Authorization` that botocore computes for the request."""
    auth: Any = SigV4Auth(Credentials(key, secret, token), service, region)
    request.context["timestamp"] = at
    signature = auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)
    names = auth.signed_headers(auth.headers_to_sign(request))
    return f"AWS4-HMAC-SHA256 Credential={auth.scope(request)}, SignedHeaders={names}, Signature={signature}"


PRINTABLE = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=60)
VALUE = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60)
NAME = st.from_regex(r"x-[a-z0-9-]{1,20}", fullmatch=True)
TIME = st.datetimes().map(lambda moment: f"{moment:%Y%m%dT%H%M%SZ}".rjust(16, "0"))


@settings(max_examples=500)
@given(
    headers=st.dictionaries(NAME, VALUE, max_size=6),
    body=st.binary(max_size=200),
    key=PRINTABLE,
    secret=PRINTABLE,
    at=TIME,
    region=st.sampled_from(["us-east-1", "cn-north-1", "us-gov-west-1", "eusc-de-east-1"]),
    service=st.sampled_from(["dynamodb", "sqs", "states", "kms"]),
)
def test_every_signature_is_the_one_that_botocore_computes(
    headers: dict[str, str], body: bytes, key: str, secret: str, at: str, region: str, service: str
) -> None:
    signed = {**headers, "host": "aws.example", "x-amz-date": at}
    request = AWSRequest(method="POST", url="https://aws.example/", headers=signed, data=body)
    expected = by_botocore(request, key, secret, None, region=region, service=service, at=at)
    assert sigv4.authorization(key, secret, region=region, service=service, headers=signed, body=body) == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("service", [DYNAMODB, SQS, STEP_FUNCTIONS, KMS], ids=lambda service: service.name)
@pytest.mark.parametrize("path", ["", "/some/path"])
def test_every_request_that_is_sent_has_the_signature_that_botocore_computes(
    service: AwsService, path: str, time: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived: list[Request] = []

    def answer(request: Request) -> bytes:
        arrived.append(request)
        return response()

    with endpoint(answer_always(answer)) as server:
        url = f"{server.url.removesuffix('/hook')}{path}"
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        with client(service) as ours:

            @settings(max_examples=50)
            @given(
                operation=st.from_regex(r"[A-Z][A-Za-z]{2,30}", fullmatch=True),
                parameters=st.dictionaries(st.text(max_size=8), JSON, max_size=4),
                key=PRINTABLE,
                secret=PRINTABLE,
                token=st.none() | PRINTABLE,
                now=st.integers(0, clock.LAST // clock.SECOND),
            )
            def check(
                operation: str, parameters: dict[str, Any], key: str, secret: str, token: str | None, now: int
            ) -> None:
                time.now = now
                monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
                monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
                if token:
                    monkeypatch.setenv("AWS_SESSION_TOKEN", token)
                else:
                    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)

                assert ours.call(operation, parameters) == {}

                sent = arrived[-1]
                assert json.loads(sent.body) == parameters
                assert sent.headers["x-amz-target"] == f"{service.target}.{operation}"
                assert sent.headers["host"] == urlsplit(url).netloc
                assert sent.headers.get("x-amz-security-token") == token
                assert sent.target == (path or "/")
                signed = re.search(r"SignedHeaders=([^,]*)", sent.headers["authorization"])
                assert signed
                headers = {name: sent.headers[name] for name in signed[1].split(";")}
                request = AWSRequest(method="POST", url=url, headers=headers, data=sent.body)
                expected = by_botocore(
                    request,
                    key,
                    secret,
                    token,
                    region="eu-central-1",
                    service=service.endpoint,
                    at=clock.iso(clock.of_unix(clock.UnixSeconds(now)))[:19].replace("-", "").replace(":", "") + "Z",
                )
                assert sent.headers["authorization"] == expected

            check()
