"""How an answer ends, failures and time, settings, and what a model may say."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import ConnectTimeoutError, NoCredentialsError, ReadTimeoutError

from shared.agent import AgentFailed, AgentUnavailable, Utterance, bedrock
from shared.agent.bedrock import Bedrock
from shared.agent.wording import CANNOT_HELP, without_links
from shared.aws.error_codes import TRANSIENT_MODEL_ERRORS
from tests.support.models import (
    MODEL_ID,
    Model,
    Passing,
    answer,
    appointment_record,
    ask_model,
    handoff_reason,
    turn_of,
    use,
)

# How an answer ends


@pytest.mark.parametrize("stop", ["guardrail_intervened", "content_filtered"])
def test_a_filtered_answer_hands_off_and_changes_nothing(model: Model, stop: str) -> None:
    mine = appointment_record()
    model.calls(("confirm", {"appointment_id": mine.doc["id"]}), ("end_conversation", {})).says("Blocked!", stop)
    turn = turn_of(mine)
    reply = ask_model(turn)
    assert reply.content == CANNOT_HELP
    assert reply.usage.input_tokens == 200
    assert reply.result.actions == [{"type": "handoff", "reason": "content_filtered"}]
    assert reply.result.staged is None


def test_of_an_answer_that_is_too_long_the_whole_sentences_are_kept(model: Model) -> None:
    model.says("You have two. The first is on Fri", "max_tokens")
    turn = turn_of()
    reply = ask_model(turn)
    assert reply.content == "You have two."
    assert reply.result.actions == []


@pytest.mark.parametrize("text", ["You have", "", "<thinking>First. Second. Thi"])
def test_of_an_answer_that_is_too_long_less_than_a_sentence_hands_off(model: Model, text: str) -> None:
    model.says(text, "max_tokens")
    turn = turn_of()
    reply = ask_model(turn)
    assert reply.content == bedrock.STUCK_REPLY
    assert handoff_reason(reply) == "cannot_help"


def test_a_call_that_was_cut_off_is_not_made(model: Model) -> None:
    mine = appointment_record()
    model.answers("max_tokens", use("a", "confirm", {"appointment_id": mine.doc["id"]}))
    turn = turn_of(mine)
    reply = ask_model(turn)
    assert reply.result.staged is None


@pytest.mark.parametrize("text", ["", " \n", "<thinking>hm</thinking>", "![](https://evil.example/a.png)", "\u200b"])
def test_an_answer_that_says_nothing_fails(model: Model, text: str) -> None:
    model.says(text)
    with pytest.raises(AgentFailed, match="no text"):
        ask_model(turn_of())


def test_what_a_model_thinks_aloud_is_not_said(model: Model) -> None:
    model.says("<thinking>The rules say\nso.</thinking>\n\nHello.", "stop_sequence")
    assert ask_model(turn_of()).content == "Hello."


def test_any_other_end_fails(model: Model) -> None:
    model.says("Hello.", "model_context_window_exceeded")
    with pytest.raises(AgentFailed, match="model_context_window_exceeded"):
        ask_model(turn_of())


# Failures and time


@pytest.mark.parametrize("code", sorted(TRANSIENT_MODEL_ERRORS))
def test_a_busy_model_is_asked_again_after_a_wait(model: Model, passing: Passing, code: str) -> None:
    model.fails(code).fails(code).says("Hello.")
    assert ask_model(turn_of(), passing=passing).content == "Hello."
    assert len(passing.slept) == 2
    assert all(0 <= wait <= bedrock.FIRST_WAIT_S * 2**n for n, wait in enumerate(passing.slept))


def test_a_model_that_stays_busy_fails_after_a_few_tries(model: Model, passing: Passing) -> None:
    for _ in range(bedrock.ATTEMPTS):
        model.fails("ThrottlingException")
    with pytest.raises(AgentUnavailable, match="ThrottlingException"):
        ask_model(turn_of(), passing=passing, seconds=1000)
    assert len(passing.slept) == bedrock.ATTEMPTS - 1


@pytest.mark.parametrize(
    "code", ["AccessDeniedException", "ResourceNotFoundException", "ValidationException", "ModelErrorException"]
)
def test_other_errors_are_final(model: Model, passing: Passing, code: str) -> None:
    model.fails(code)
    with pytest.raises(AgentFailed, match=f"{code}: because"):
        ask_model(turn_of(), passing=passing)
    assert passing.slept == []


def test_no_request_is_begun_that_could_outlast_the_turn(model: Model, passing: Passing) -> None:
    with pytest.raises(AgentUnavailable, match="no time left"):
        ask_model(turn_of(), passing=passing, seconds=bedrock.CONNECT_TIMEOUT_S + bedrock.LEAST_S - 0.1)
    assert model.requests == []


def test_rounds_and_waits_share_one_budget(model: Model, passing: Passing) -> None:
    model.calls(("list_appointments", {}))
    model.takes = lambda: passing.sleep(8)
    with pytest.raises(AgentUnavailable, match="no time left"):
        ask_model(turn_of(), passing=passing, seconds=9.5)
    assert len(model.requests) == 1


@pytest.fixture
def model_without_stub(monkeypatch: pytest.MonkeyPatch, passing: Passing) -> Bedrock:
    monkeypatch.setenv("MODEL_ID", MODEL_ID)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "none")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "none")
    made = Bedrock.from_environment()
    return Bedrock(made.client, made.model_id, passing.monotonic)


class Body:
    """The bytes of an HTTP answer."""

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield json.dumps(answer("end_turn", [{"text": "Hello."}])).encode()


@pytest.mark.parametrize("lost", [ReadTimeoutError, ConnectTimeoutError])
def test_a_lost_answer_is_asked_for_again_by_us_alone(model_without_stub: Bedrock, passing: Passing, lost: Any) -> None:
    sent = list[str]()

    def send(request: Any, **_: Any) -> AWSResponse:
        sent.append(request.url)
        if len(sent) < 3:
            raise lost(endpoint_url=request.url)
        return AWSResponse(request.url, 200, HTTPHeaders(), Body())

    model_without_stub.client.meta.events.register("before-send.bedrock-runtime.Converse", send)
    reply = model_without_stub.reply([Utterance("user", "Hello")], turn_of(), 45)
    assert reply.content == "Hello."
    assert len(sent) == 3
    assert len(passing.slept) == 2


def test_an_error_on_our_side_is_final(model_without_stub: Bedrock, passing: Passing) -> None:
    def send(**_: Any) -> None:
        raise NoCredentialsError

    model_without_stub.client.meta.events.register("before-send.bedrock-runtime.Converse", send)
    with pytest.raises(AgentFailed, match="NoCredentialsError"):
        model_without_stub.reply([Utterance("user", "Hello")], turn_of(), 45)
    assert passing.slept == []


# Settings


def test_the_model_comes_from_the_environment_and_the_client_does_not_retry(model_without_stub: Bedrock) -> None:
    assert model_without_stub.model_id == MODEL_ID
    config = model_without_stub.client.meta.config
    assert (config.connect_timeout, config.read_timeout) == (bedrock.CONNECT_TIMEOUT_S, bedrock.READ_TIMEOUT_S)
    assert config.retries["total_max_attempts"] == 1


@pytest.mark.parametrize("settings", [{}, {"MODEL_ID": ""}])
def test_a_missing_setting_is_named(monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]) -> None:
    monkeypatch.delenv("MODEL_ID", raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(AgentFailed, match="MODEL_ID"):
        Bedrock.from_environment()


# What a model says


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("See you on **Friday**, 10:30 (UTC).", "See you on **Friday**, 10:30 (UTC)."),
        ("[Our page](https://evil.example/?d=1)", "Our page"),
        ("[Our page](<https://evil.example/a b>)", "Our page"),
        ("![](https://evil.example/x.png)Hi", "Hi"),
        ("![logo](https://evil.example/x.png?d=secret) Hi", "logo Hi"),
        ("[![logo](https://evil.example/x.png)](https://evil.example/)", "logo"),
        ("[a](/x(y)z) b", "a b"),
        ("[a](\nhttps://evil.example\n) b", "a b"),
        ("@www.evil.example", "(link removed)"),
        ("Go to https://evil.example/?d=1.", "Go to (link removed)."),
        ("**https://evil.example**", "**(link removed)**"),
        ("(see www.evil.example/x)", "(see (link removed))"),
        ("HTTPS://EVIL.EXAMPLE", "(link removed)"),
        ("x1https://evil.example y", "(link removed) y"),
        ("evil.example/secret", "(link removed)"),
        ("evil.example?d=secret", "(link removed)"),
        ("secret.evil.example", "(link removed)"),
        ("//evil.example/x", "(link removed)"),
        ("mailto:a@evil.example?body=secret", "(link removed)"),
        ("javascript:alert(1)", "(link removed))"),
        ("<https://evil.example>", "<(link removed)>"),
        ("https&#58;//evil.example", "(link removed)"),
        ("https&amp;#58;//evil.example", "(link removed)"),
        ("https\\://evil.example", "(link removed)"),
        ("ht\u200btps://evil.example", "(link removed)"),
        ("www\u200d.evil.example", "(link removed)"),
        ("https\uff1a//evil.example", "(link removed)"),
        ('<img src="//evil.example/x">', '< img (link removed)">'),
        ('<a href="/x">label</a>', '< a href="/x">label< /a>'),
        ("<!-- secret -->", "< !-- secret -->"),
        ("[a][r]\n\n[r]: https://evil.example", "[a][r]\n\n[r] : (link removed)"),
        ("[a](https://evil.example", "[a] ((link removed)"),
        ("At 3 < 4 and 5 > 4", "At 3 < 4 and 5 > 4"),
        ("Dr.Smith at 3.30 p.m./4 p.m., and/or Friday", "Dr.Smith at 3.30 p.m./4 p.m., and/or Friday"),
        ("Write to ada@example.com", "Write to ada@example.com"),
        ("- one\n- two\n\n`code`", "- one\n- two\n\n`code`"),
        ("Caf\u00e9 &amp; bar", "Caf\u00e9 & bar"),
    ],
)
def test_links_become_their_labels(said: str, shown: str) -> None:
    assert without_links(said) == shown


def test_a_reply_is_said_without_its_links(model: Model) -> None:
    model.says("Done. ![ ](https://evil.example/?name=Ada)")
    assert ask_model(turn_of()).content == "Done."


HOSTILE = {
    "entities in entities": "&" + "amp;" * 1_999,
    "numbered entities": "&" + "#38;" * 1_999,
    "entities without semicolons": "&" + "amp" * 2_666,
    "entities around entities": "&" * 1_333 + "fj" + "lig;" * 1_333,
    "digits": "&#" + "0" * 7_990 + "60;",
    "links in links": "[" * 1_500 + "a" + "](b)" * 1_500,
    "images in images": "![" * 1_300 + "a" + "](b)" * 1_300,
    "brackets": "[" * 8_000,
    "links never closed": "[a](" * 2_000,
    "parentheses": "[a](" + "(x)" * 2_650,
    "less than": "<" * 8_000,
    "tags": "<a " * 2_666,
    "backticks": "`" * 8_000,
    "emphasis": "*a_b" * 2_000,
    "stars": "*" * 8_000,
    "backslashes": "\\" * 8_000,
    "joiners": "\u200d" * 8_000,
    "hosts": "aa." * 2_666,
    "a word": "a" * 8_000,
    "at signs": "@" * 8_000,
    "addresses": "://" * 2_666,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_the_work_grows_with_the_length_of_an_answer_and_not_faster(text: str) -> None:
    def seconds(text: str) -> float:
        began = time.process_time()
        without_links(text)
        return time.process_time() - began

    # Eight times the text: linear work takes eight times as long, quadratic work sixty-four times. The first
    # condition is for what is too fast to be compared.
    whole = min(seconds(text) for _ in range(3))
    assert whole < 0.05 or whole < 24 * min(seconds(text[: len(text) // 8]) for _ in range(5))


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_nothing_of_a_hostile_answer_can_be_followed(text: str) -> None:
    shown = without_links(text)
    assert "](" not in shown
    assert not re.search(r"\w://\w|<[A-Za-z/!?]|&(?:#\d+|amp|lt);", shown)


@pytest.mark.parametrize("depth", [1, 3, 4, 5, 50])
def test_a_link_is_found_however_deep_it_is_coded(depth: int) -> None:
    assert "https://evil" not in without_links("https&" + "amp;" * depth + "#58;//evil.example")
