"""Every handler, on Python 3.13 under AWS's runtime client, answers AWS's sample events.

The bundle is the one that is deployed but for its platform, which is this machine's; a function sees the bundle, the
standard library and awslambdaric, so what it imports from elsewhere fails here. Each function gets a sample as AWS
gives it out, in which nothing is ours, and one with our message in it, and does the work. `samples` says which
events are AWS's samples and which are built from documentation. Behind the functions are the stand-ins of
`make run`, and for Amazon Connect, WhatsApp and Bedrock those of `providers`.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from infra import bundle as bundles
from infra import topology
from infra.bundle import Bundle
from infra.local import log_lines, resources
from infra.topology import Function
from shared.core import ids
from tests.deploy import cloud, samples
from tests.deploy.lambdas import Functions, machine_code, running
from tests.deploy.providers import REPLY
from tests.support.signed_receiver import Receiver, service_signature_is_valid

MEMORY_SHARE = 0.7
"""How much of its memory a function may have used at its peak."""

ANSWERS, SILENT = "+15005550006", "+15005550022"
"""Of simulated customers: one who confirms, and one who does not answer a request for consent."""

NOTHING = {"pk": "P#999#test#conversation#conv_01jd3v7k2m9q8r5t6w0x1y2z3a", "sk": "msg_01jd3v7k2m9q8r5t6w0x1y2z3a"}
"""A wake-up for any worker, for a row that does not exist."""

HTTP = [function for function in topology.FUNCTIONS if function.routes]
WORKERS = [function for function in topology.FUNCTIONS if function.queues]


def for_each(functions: list[Function] | tuple[Function, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("function", functions, ids=[function.name for function in functions])


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    built = bundles.build(platform=cloud.own_platform())
    print(f"\n  {built}", end="")
    return built


@pytest.fixture(scope="module")
def functions(bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Functions]:
    with running(tmp_path_factory.mktemp("functions"), bundle) as started:
        yield started
        print("\n\n  function            import    peak memory")
        for one in started.measured():
            peak = "unknown" if one.peak is None else f"{one.peak / 2**20:3.0f} of {one.memory} MB"
            print(f"  {one.name:18} {one.init:5.2f} s    {peak}")


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver() as started:
        yield started


def test_the_bundle_is_compiled_and_its_native_code_is_for_this_machine_and_python(bundle: Bundle) -> None:
    assert bundle.compiled
    for function in topology.FUNCTIONS:
        path = bundle.folder.joinpath(*function.module.split("."))
        folder, module = (path, "__init__") if path.is_dir() else (path.parent, path.name)
        assert (folder / "__pycache__" / f"{module}.cpython-313.pyc").is_file()
    libraries = [*bundle.folder.rglob("*.so*")]
    assert libraries
    for library in libraries:
        assert "cpython" not in library.name or "cpython-313-" in library.name
        content = library.read_bytes()[:20]
        assert content[:4] != b"\x7fELF" or content[18:] == machine_code(), library.name


@for_each(topology.FUNCTIONS)
def test_it_starts(function: Function, functions: Functions) -> None:
    assert functions.start(function.name).alive


# A sample as AWS gives it out


@for_each(HTTP)
def test_aws_sample_request_is_for_no_route(function: Function, functions: Functions) -> None:
    answer = functions.call(function.name, samples.sample("apigateway", "aws-proxy"))
    assert error_of(answer) == (404, "route_not_found")


@for_each(HTTP)
def test_aws_sample_request_for_its_route_has_no_key(function: Function, functions: Functions) -> None:
    path, method = function.routes[0].removeprefix("/"), "POST" if function.posts else "GET"
    answer = functions.call(function.name, samples.sample("apigateway", "aws-proxy", method=method, path=path))
    if function.name == "admin":
        # It has sessions instead of keys.
        status, headers, _ = response(answer)
        assert (status, headers["location"].partition("?")[0].rpartition("/")[2]) == (303, "sign-in")
        return
    unknown = function.name in ("fallback", "canary_receiver")
    expected = (404, "route_not_found") if unknown else (401, "api_key_missing")
    assert error_of(answer) == expected


@for_each(WORKERS)
def test_aws_sample_message_fails_alone(function: Function, functions: Functions) -> None:
    """Its body is no JSON, so it is given again; a message about what does not exist, beside it, is done with."""
    event = samples.sample("sqs", "receive-message")
    event["Records"] += samples.message("retries", json.dumps(NOTHING))["Records"]
    event["Records"][1]["messageId"] = str(uuid.uuid4())
    answer = functions.call(function.name, event)
    assert answer == {"batchItemFailures": [{"itemIdentifier": event["Records"][0]["messageId"]}]}


def test_a_message_that_failed_holds_its_group_for_seconds_only(functions: Functions) -> None:
    sqs, url = functions.client("sqs"), functions.queues["deliveries"].url
    sqs.send_message(QueueUrl=url, MessageBody="no wake-up", MessageGroupId="whk_1", MessageDeduplicationId="broken")
    taken = {"QueueUrl": url, "MessageSystemAttributeNames": ["All"], "WaitTimeSeconds": 10}
    [message] = sqs.receive_message(**taken)["Messages"]
    event = samples.message(url.rpartition("/")[2], message["Body"], **message["Attributes"])
    event["Records"][0]["receiptHandle"] = message["ReceiptHandle"]
    assert len(functions.call("deliver", event)["batchItemFailures"]) == 1
    [again] = sqs.receive_message(**taken)["Messages"]
    assert again["MessageId"] == message["MessageId"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=again["ReceiptHandle"])


def test_aws_sample_stream_records_fail_but_for_what_was_removed(functions: Functions) -> None:
    """They are rows of another table, which the stream's filter would not let through."""
    event = samples.sample("dynamodb", "update")
    written = [record["dynamodb"]["SequenceNumber"] for record in event["Records"] if record["eventName"] != "REMOVE"]
    assert functions.call("fan_out", event) == {"batchItemFailures": [{"itemIdentifier": written[0]}]}


def test_aws_sample_of_a_bot_is_refused_and_not_quoted(functions: Functions) -> None:
    """It has no session attributes, so it is of no call of ours."""
    failed, answer = functions.invoke("voice_turn", samples.sample("lex-v2", "book-car"))
    assert failed
    assert answer["errorType"] == "ValueError"
    assert "Book a car" not in json.dumps(answer)


# A sample with our message in it


def ping(functions: Functions, _: Receiver) -> None:
    answer = http(functions, "ping", "GET", "/v1/ping")
    assert (answer["object"], answer["project_name"], answer["livemode"]) == ("ping", "Blue Clinic", False)


def agent_settings(functions: Functions, _: Receiver) -> None:
    changed = http(functions, "agent_settings", "PATCH", "/v1/agent_settings", {"timezone": "Europe/Berlin"})
    assert changed["timezone"] == "Europe/Berlin"
    http(functions, "agent_settings", "PATCH", "/v1/agent_settings", {"timezone": None})


def customers(functions: Functions, _: Receiver) -> None:
    assert customer(functions).startswith("cust_")


def appointments(functions: Functions, _: Receiver) -> None:
    assert appointment(functions, customer(functions)).startswith("appt_")


def conversations(functions: Functions, _: Receiver) -> None:
    made = http(functions, "conversations", "POST", "/v1/conversations", {"customer": {"phone": ANSWERS}}, status=201)
    assert (made["object"], made["status"]) == ("conversation", "active")


def sessions(functions: Functions, _: Receiver) -> None:
    assert request_call(functions, functions.keys.test)["call_status"] == "queued"
    functions.work("dial", "dials")


def webhook_endpoints(functions: Functions, receiver: Receiver) -> None:
    assert endpoint(functions, receiver.hook().url)["secret"].startswith("whsec_")


def events(functions: Functions, _: Receiver) -> None:
    assert http(functions, "events", "GET", "/v1/events")["object"] == "list"


def fallback(functions: Functions, _: Receiver) -> None:
    answer = functions.call("fallback", samples.request("GET", "/docs/errors"))
    status, headers, body = response(answer)
    assert (status, headers["content-type"].partition(";")[0]) == (200, "text/html")
    assert "phone_invalid_format" in body


def admin(functions: Functions, _: Receiver) -> None:
    status, headers, body = response(functions.call("admin", samples.request("GET", "/admin/sign-in")))
    assert (status, headers["content-type"].partition(";")[0]) == (200, "text/html")
    (stylesheet,) = re.findall(r'href="[^"]*(/admin/assets/\w+/pico.min.css)"', body)
    status, headers, body = response(functions.call("admin", samples.request("GET", stylesheet)))
    assert (status, headers["content-type"].partition(";")[0]) == (200, "text/css")
    assert "Pico CSS" in body


def fan_out(functions: Functions, receiver: Receiver) -> None:
    endpoint(functions, receiver.hook().url)
    new = customer(functions)
    about = [record for record in functions.changes() if record["dynamodb"]["Keys"]["sk"]["S"] == new]
    assert functions.call("fan_out", samples.stream_records(about)) == {"batchItemFailures": []}
    found = http(functions, "events", "GET", "/v1/events")["data"]
    assert [(one["type"], one["data"]["object"]["id"]) for one in found][:1] == [("customer.created", new)]
    assert functions.take("deliveries")


def deliver(functions: Functions, receiver: Receiver) -> None:
    hook = receiver.hook()
    secret = endpoint(functions, hook.url)["secret"]
    new = customer(functions)
    about = [record for record in functions.changes() if record["dynamodb"]["Keys"]["sk"]["S"] == new]
    functions.call("fan_out", samples.stream_records(about))
    functions.work("deliver", "deliveries")
    (received,) = hook.about(new)
    assert service_signature_is_valid(received, secret)


def messages(functions: Functions, _: Receiver) -> None:
    assert REPLY not in reply_content(functions, functions.keys.test)
    assert reply_content(functions, functions.keys.live).endswith(f"\n\n{REPLY}")
    assert functions.providers.asked[-1] == "Converse"


def replay(functions: Functions, _: Receiver) -> None:
    """It ignores the wake-up at a replay that does not exist."""
    wake_up = json.dumps({"pk": "P#1#test#replay", "sk": "whk_01m816msd5000p4pwadfypjhfj"})
    assert functions.call("replay", samples.message("replays", wake_up)) == {"batchItemFailures": []}


def turn(functions: Functions, _: Receiver) -> None:
    """It replies when the request has given up."""
    given = {"external_conversation_id": "late", "content": "[[sim:timeout]]"}
    error = http(functions, "messages", "POST", "/v1/messages", given, status=504)["error"]
    path = f"/v1/conversations/{error['conversation_id']}/messages"
    while len(http(functions, "conversations", "GET", path)["data"]) < 2:
        functions.work("turn", "turns")


def dial(functions: Functions, _: Receiver) -> None:
    """A simulated call to its end, with its recording, and a live one until the carrier has it."""
    session = request_call(functions, functions.keys.test)
    while session["recording_status"] != "available":
        functions.work("dial", "dials")
        session = http(functions, "sessions", "GET", f"/v1/sessions/{session['id']}")
    assert session["call_status"] == "completed"
    assert live_call(functions)["call_status"] == "dialing"
    assert functions.providers.asked[-1] == "StartOutboundVoiceContact"


def consent(functions: Functions, _: Receiver) -> None:
    """A live request is sent, and the answer that SNS passes on as it is settles it."""
    asked = request_call(functions, functions.keys.live, 202, channel="whatsapp", phone=SILENT)
    while functions.providers.asked[-1:] != ["SendWhatsAppMessage"]:
        functions.work("consent", "consents")
    answer = json.dumps(samples.permission_given(SILENT, int(time.time()) + 1))
    assert functions.call("consent", samples.message("consents", answer)) == {"batchItemFailures": []}
    session = http(functions, "sessions", "GET", f"/v1/sessions/{asked['id']}", key=functions.keys.live)
    assert session["consent"]["status"] == "granted"


def call_events(functions: Functions, _: Receiver) -> None:
    """A live call is seen to have ended; an object that is none of a call's is left alone."""
    session = live_call(functions)
    told = samples.contact_event(functions.providers.contacts[-1])
    assert functions.call("call_events", samples.message("call_events", json.dumps(told))) == {"batchItemFailures": []}
    functions.work("dial", "dials")
    session = http(functions, "sessions", "GET", f"/v1/sessions/{session['id']}", key=functions.keys.live)
    assert (session["call_status"], session["ended_reason"]) == ("completed", "customer_hangup")
    other = json.dumps(samples.object_created(resources.RECORDINGS, "example-key"))
    assert functions.call("call_events", samples.message("call_events", other)) == {"batchItemFailures": []}


def voice_turn(functions: Functions, _: Receiver) -> None:
    session = live_call(functions)
    attributes = {"session_id": session["id"], "project_id": str(functions.keys.project_id), "livemode": "true"}
    answer = functions.call("voice_turn", samples.lex_event_saying("I will be there", **attributes))
    assert answer["messages"] == [{"contentType": "PlainText", "content": REPLY}]
    assert answer["sessionState"]["sessionAttributes"] == attributes


def sweep(functions: Functions, _: Receiver) -> None:
    """AWS's sample as it is; then there is a call whose message got lost."""
    event = samples.sample("cloudwatch", "scheduled-event")
    assert functions.call("sweep", event).keys() == {"woken"}
    session = request_call(functions, functions.keys.test)
    functions.take("dials")
    functions.client("dynamodb").update_item(
        TableName=resources.TABLE_NAME,
        Key={"pk": {"S": f"P#{functions.keys.project_id}#test#session"}, "sk": {"S": session["id"]}},
        UpdateExpression="SET due = :long_ago",
        ExpressionAttributeValues={":long_ago": {"S": f"{0:015d}"}},
    )
    assert functions.call("sweep", event)["woken"] >= 1
    woken = [json.loads(wake_up["Records"][0]["body"])["sk"] for wake_up in functions.take("dials")]
    assert session["id"] in woken


def request_log(functions: Functions, _: Receiver) -> None:
    """The line of a request becomes a row."""
    id = ids.new("req_")
    line = {"message": "request", "request_id": id, "method": "GET", "route": "/v1/ping", "status": 200}
    line |= {"project_id": functions.keys.project_id, "livemode": False, "key_id": "key_1", "duration_ms": 1.5}
    functions.call("request_log", log_lines.event_of([{"id": "1", "timestamp": 1, "message": json.dumps(line)}]))
    key = {"pk": {"S": f"P#{functions.keys.project_id}#test#request"}, "sk": {"S": id}}
    row = functions.client("dynamodb").get_item(TableName=resources.TABLE_NAME, Key=key)["Item"]
    assert row["status"] == {"N": "200"}


def canary(functions: Functions, _: Receiver) -> None:
    """Nothing is served at its address, so it reports that it failed."""
    assert functions.call("canary", samples.sample("cloudwatch", "scheduled-event")) == {"passed": False}


def canary_receiver(functions: Functions, _: Receiver) -> None:
    """No run expects anything."""
    unexpected = samples.request("POST", f"/canary/{'x' * 43}", functions.keys.test, {})
    assert error_of(functions.call("canary_receiver", unexpected)) == (404, "route_not_found")


WORK: Mapping[str, Callable[[Functions, Receiver], None]] = {
    one.__name__: one
    for one in (
        ping,
        agent_settings,
        customers,
        appointments,
        conversations,
        messages,
        sessions,
        webhook_endpoints,
        events,
        fallback,
        admin,
        fan_out,
        deliver,
        replay,
        turn,
        dial,
        consent,
        call_events,
        voice_turn,
        sweep,
        request_log,
        canary,
        canary_receiver,
    )
}
"""What a function is seen to do on its sample, by the function's name."""


@for_each(topology.FUNCTIONS)
def test_it_does_its_work_on_a_sample_with_our_message(
    function: Function, functions: Functions, receiver: Receiver
) -> None:
    assert function.name in WORK, "a function without a sample event"
    WORK[function.name](functions, receiver)


def test_none_of_them_came_near_to_its_memory(functions: Functions) -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("this system does not tell how much memory a process had")
    for function in topology.FUNCTIONS:
        functions.start(function.name)
    for one in functions.measured():
        assert one.peak is not None, f"{one.name} has ended"
        assert one.peak < MEMORY_SHARE * one.memory * 2**20, one


def response(answer: Any) -> tuple[int, dict[str, str], str]:
    """Status, headers (names in lower case) and body of a function's answer, which must be one that API Gateway takes.

    Source: "Output format of a Lambda function for proxy integration" of the API Gateway developer guide.
    """
    assert answer.keys() <= {"statusCode", "headers", "multiValueHeaders", "body", "isBase64Encoded"}
    assert type(answer["statusCode"]) is int
    assert all(type(text) is str for pair in answer["headers"].items() for text in pair)
    assert type(answer["body"]) is str
    headers = {name.lower(): value for name, value in answer["headers"].items()}
    assert headers["service-request-id"].startswith("req_")
    # Only compressed bodies are bytes.
    assert answer["isBase64Encoded"] is ("content-encoding" in headers)
    if not answer["isBase64Encoded"]:
        return answer["statusCode"], headers, answer["body"]
    assert headers["content-encoding"] == "gzip"
    return answer["statusCode"], headers, gzip.decompress(base64.b64decode(answer["body"])).decode()


def error_of(answer: Any) -> tuple[int, str]:
    """Status and code of an answer that must be an error in our envelope."""
    status, headers, body = response(answer)
    error = json.loads(body)["error"]
    assert {"type", "code", "message", "request_id", "doc_url"} <= error.keys()
    assert error["request_id"] == headers["service-request-id"]
    return status, error["code"]


def http(
    functions: Functions,
    name: str,
    method: str,
    path: str,
    body: Any = None,
    *,
    key: str | None = None,
    status: int = 200,
) -> Any:
    """The JSON that a function answers a request with, by the test key if none is named; fails on another status."""
    answer = functions.call(name, samples.request(method, path, key or functions.keys.test, body))
    found, _, text = response(answer)
    assert found == status, text
    return json.loads(text)


def customer(functions: Functions, *, key: str | None = None, phone: str = ANSWERS) -> str:
    made = http(functions, "customers", "POST", "/v1/customers", {"phone": phone}, key=key, status=201)
    return str(made["id"])


def appointment(functions: Functions, customer_id: str, *, key: str | None = None) -> str:
    given = {"customer_id": customer_id, "appointment_at": "2030-03-04T15:00:00Z"}
    return str(http(functions, "appointments", "POST", "/v1/appointments", given, key=key, status=201)["id"])


def endpoint(functions: Functions, url: str) -> Any:
    return http(functions, "webhook_endpoints", "POST", "/v1/webhook_endpoints", {"url": url}, status=201)


def request_call(
    functions: Functions, key: str, status: int = 201, *, channel: str = "phone", phone: str = ANSWERS
) -> Any:
    """A session that has been asked for, of a customer of its own with an appointment."""
    new = customer(functions, key=key, phone=phone)
    given = {"channel": channel, "appointment_id": appointment(functions, new, key=key)}
    call = http(functions, "sessions", "POST", f"/v1/customers/{new}/call", given, key=key, status=status)
    return http(functions, "sessions", "GET", f"/v1/sessions/{call['session_id']}", key=key)


def live_call(functions: Functions) -> Any:
    """A session that the carrier is dialing."""
    session = request_call(functions, functions.keys.live)
    functions.work("dial", "dials")
    return http(functions, "sessions", "GET", f"/v1/sessions/{session['id']}", key=functions.keys.live)


def reply_content(functions: Functions, key: str) -> str:
    """What the agent says to a message."""
    given = {"external_conversation_id": key, "customer": {"phone": ANSWERS}, "content": "Hello"}
    return str(http(functions, "messages", "POST", "/v1/messages", given, key=key, status=201)["reply"]["content"])
