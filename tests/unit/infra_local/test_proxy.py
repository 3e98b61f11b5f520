from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from infra.local import proxy
from infra.local.routes import Match
from infra.topology import Function

MATCH = Match(Function("things"), "/v1/{proxy+}", {"proxy": "things/a%2Fb"})


def event(**given: Any) -> proxy.Event:
    request: dict[str, Any] = {
        "method": "GET",
        "target": "/",
        "headers": [],
        "body": b"",
        "source_ip": "127.0.0.1",
        "port": 8000,
    }
    made = proxy.event(proxy.Request(**request | given), MATCH, "r-1")
    # It must survive the way to Lambda.
    assert json.loads(json.dumps(made)) == made
    return made


def test_query_fields_are_decoded_and_all_values_kept() -> None:
    made = event(target="/v1/things?status=a&status=b&q=x+y%20z%26&flag&empty=&created_at[gt]=1")
    assert made["path"] == "/v1/things"
    assert made["multiValueQueryStringParameters"] == {
        "status": ["a", "b"],
        "q": ["x y z&"],
        "flag": [""],
        "empty": [""],
        "created_at[gt]": ["1"],
    }
    assert made["queryStringParameters"]["status"] == "b"


def test_without_a_query_its_fields_are_null() -> None:
    made = event(target="/v1/things")
    assert made["queryStringParameters"] is None
    assert made["multiValueQueryStringParameters"] is None


def test_the_path_stays_encoded_and_its_parameters_are_decoded() -> None:
    made = event(target="/v1/things/a%2Fb")
    assert made["path"] == "/v1/things/a%2Fb"
    assert made["pathParameters"] == {"proxy": "things/a/b"}


@pytest.mark.parametrize(
    ("target", "path"), [("http://example.test/v1/x?y=1", "/v1/x"), ("*", "/"), ("//v1/x", "//v1/x"), ("/?a=/b", "/")]
)
def test_every_form_of_a_target_has_a_path(target: str, path: str) -> None:
    assert event(target=target)["path"] == path


def test_headers_that_come_twice_are_both_kept_whatever_their_case() -> None:
    made = event(headers=[("Host", "example.test:8000"), ("Idempotency-Key", "a"), ("idempotency-key", "b")])
    assert made["multiValueHeaders"]["Idempotency-Key"] == ["a", "b"]
    assert made["headers"]["Idempotency-Key"] == "b"
    assert made["headers"]["Host"] == "example.test:8000"
    assert made["requestContext"]["domainName"] == "example.test"


def test_a_client_cannot_claim_to_come_by_another_way() -> None:
    made = event(headers=[("x-forwarded-proto", "https"), ("X-Forwarded-For", "8.8.8.8")])
    assert made["multiValueHeaders"]["X-Forwarded-Proto"] == ["http"]
    assert made["multiValueHeaders"]["X-Forwarded-For"] == ["127.0.0.1"]
    assert "x-forwarded-proto" not in made["multiValueHeaders"]


def test_a_body_arrives_as_sent() -> None:
    made = event(method="POST", body=b"\x00\xff{}")
    assert made["isBase64Encoded"] is True
    assert base64.b64decode(made["body"]) == b"\x00\xff{}"
    assert event()["body"] is None


def test_a_result_keeps_headers_of_both_kinds() -> None:
    answer = proxy.response(
        {
            "statusCode": 201,
            "headers": {"Location": "/x", "Set-Cookie": "lost"},
            "multiValueHeaders": {"set-cookie": ["a", "b"]},
            "body": "é",
            "isBase64Encoded": False,
        }
    )
    assert answer.status == 201
    assert answer.headers == [("set-cookie", "a"), ("set-cookie", "b"), ("Location", "/x")]
    assert answer.body == "é".encode()


def test_a_result_in_base64_is_decoded() -> None:
    assert proxy.response({"statusCode": 200, "body": "AP8=", "isBase64Encoded": True}).body == b"\x00\xff"


@pytest.mark.parametrize(
    "result",
    [
        None,
        "text",
        {},
        {"statusCode": "many"},
        {"statusCode": 200, "body": 7},
        {"statusCode": 200, "body": "%", "isBase64Encoded": True},
    ],
)
def test_a_malformed_result_is_refused(result: object) -> None:
    with pytest.raises(proxy.BadResult):
        proxy.response(result)


@pytest.mark.parametrize("kind", ["INTEGRATION_FAILURE", "INTEGRATION_TIMEOUT"])
def test_a_function_that_fails_is_the_stacks_503_that_is_not_to_be_retried(kind: str) -> None:
    answer = proxy.gateway_error(kind, "r-1", "http://127.0.0.1:8000")
    assert answer.status == 503
    assert dict(answer.headers) == {
        "Content-Type": "application/json",
        "Cache-Control": "no-store",
        "Retry-After": "5",
        "Service-Request-Id": "r-1",
        "Service-Should-Retry": "false",
    }
    assert json.loads(answer.body)["error"] == {
        "type": "api_error",
        "code": "service_unavailable",
        "message": "The service did not respond. The request may have been processed.",
        "request_id": "r-1",
        "doc_url": "http://127.0.0.1:8000/docs/errors#service_unavailable",
    }


def test_an_error_of_the_runner_alone_has_its_own_message() -> None:
    answer = proxy.gateway_error("DEFAULT_4XX", "r-1", "http://x", status=431, message='A "quoted" one.')
    assert (answer.status, json.loads(answer.body)["error"]["message"]) == (431, 'A "quoted" one.')
