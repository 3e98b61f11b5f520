"""What a request leaves in the log: enough to find it in the gateway's access log, and nothing of its contents."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from tests.support.log_lines import lines
from tests.support.stage import Stage


def test_a_requests_line_names_the_line_of_the_gateways_access_log(stage: Stage) -> None:
    event: Any = {
        "resource": "/v1/ping",
        "path": "/v1/ping",
        "httpMethod": "GET",
        "headers": {"Host": "api.example.test"},
        "multiValueHeaders": {"Host": ["api.example.test"]},
        "queryStringParameters": None,
        "multiValueQueryStringParameters": None,
        "requestContext": {"requestId": "c6af9ac6-7b61-11e6-9a41-93e8deadbeef", "path": "/dev/v1/ping", "stage": "dev"},
        "body": None,
        "isBase64Encoded": False,
    }
    with lines() as logged:
        answered = stage.invoke("ping", event)
    (line,) = [record.__dict__ for record in logged if record.getMessage() == "request"]
    assert line["gateway_request_id"] == event["requestContext"]["requestId"]
    assert line["request_id"] == answered["headers"]["service-request-id"]


def test_what_a_query_string_names_is_in_no_line_of_the_log(stage: Stage) -> None:
    phone, email = "+15005550123", "ada.unusual@example.com"
    with lines("DEBUG") as logged:
        assert stage.call("GET", f"/v1/customers?phone={quote(phone)}").status == 200
        assert stage.call("GET", f"/v1/customers?phone={quote(phone)}x").status == 400
        assert stage.call("GET", f"/v1/customers?no_such_parameter={quote(email)}").status == 400
        assert stage.call("GET", f"/admin/find?q={quote(phone)}").status in (303, 404)
    assert [line for line in logged if line.getMessage() == "request"]
    for line in logged:
        text = str(line.__dict__)
        assert phone.removeprefix("+") not in text
        assert email.partition("@")[0] not in text
