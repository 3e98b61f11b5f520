"""Promises 8: `markdown: false` makes the reply plain text; the transcript keeps the original."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support.client import Client, assert_error, assert_replay
from tests.support.client_actions import create_conversation, send, send_to_thread, transcript, unique

RICH = "[[sim:markdown]]"
LINK = re.compile(r"(?<!!)\[([^\[\]]+)\]\((\S+?)(?: \"[^\"]*\")?\)")


@pytest.fixture(scope="module")
def answers(client: Client) -> dict[str, Any]:
    """The same reply rich in Markdown, asked for in each way."""
    conversation_id = create_conversation(client)["id"]
    return {
        "default": send(client, conversation_id, RICH),
        "markdown": send(client, conversation_id, RICH, markdown=True),
        "plain_reply": send(client, conversation_id, RICH, markdown=False),
        "plain on a thread": send_to_thread(client, unique(), RICH, markdown=False),
    }


def text(answer: Any) -> str:
    found: str = answer["reply"]["content"]
    return found


@pytest.fixture(scope="module")
def markdown_reply(answers: dict[str, Any]) -> str:
    return text(answers["default"])


@pytest.fixture(scope="module")
def plain_reply(answers: dict[str, Any]) -> str:
    return text(answers["plain_reply"])


def code_in(markdown: str) -> list[str]:
    """The lines and pieces of code in a Markdown text."""
    fenced = re.findall(r"^```.*?\n(.*?)^```", markdown, re.MULTILINE | re.DOTALL)
    rest = re.sub(r"^```.*?^```", "", markdown, flags=re.MULTILINE | re.DOTALL)
    return [line.strip() for block in fenced for line in block.splitlines() if line.strip()] + re.findall(
        r"(?<!`)`([^`\n]+)`(?!`)", rest
    )


def test_the_forced_reply_is_rich_in_markdown(markdown_reply: str) -> None:
    assert LINK.search(markdown_reply)
    assert re.search(r"^#+ ", markdown_reply, re.MULTILINE)
    assert re.search(r"\*\*[^*]+\*\*", markdown_reply)
    assert re.search(r"^\s*[-*+] ", markdown_reply, re.MULTILINE)
    assert code_in(markdown_reply)


def test_markdown_is_the_default(answers: dict[str, Any]) -> None:
    assert text(answers["default"]) == text(answers["markdown"])
    assert text(answers["plain_reply"]) != text(answers["default"])


def test_both_endpoints_render_alike(answers: dict[str, Any]) -> None:
    assert text(answers["plain_reply"]) == text(answers["plain on a thread"])


def test_the_transcript_keeps_the_original(client: Client, answers: dict[str, Any], markdown_reply: str) -> None:
    for name in ("plain_reply", "plain on a thread"):
        reply = answers[name]["reply"]
        kept = {one["id"]: one for one in transcript(client, answers[name]["conversation"]["id"])}[reply["id"]]
        assert kept == reply | {"content": markdown_reply}


def test_the_users_own_message_is_not_touched(client: Client) -> None:
    content = "**bold** [label](https://example.com/) <b>html</b> `code`"
    assert send_to_thread(client, unique(), content, markdown=False)["content"] == content


def test_links_read_as_label_and_url(markdown_reply: str, plain_reply: str) -> None:
    assert "](" not in plain_reply
    for label, url in LINK.findall(markdown_reply):
        label = re.sub(r"[*_`]", "", label)
        assert (f"{label}: {url}" in plain_reply) if label != url else (url in plain_reply)


def test_html_and_markup_are_gone(markdown_reply: str, plain_reply: str) -> None:
    rest = plain_reply
    for code in sorted(code_in(markdown_reply), key=len, reverse=True):
        rest = rest.replace(code, "").replace(code.replace("<", "< "), "")
    assert not re.search(r"</?[a-zA-Z][^>]*>", rest), rest
    assert not re.search(r"^\s{0,3}#{1,6} ", rest, re.MULTILINE), rest
    assert "**" not in rest
    assert "__" not in rest
    assert "~~" not in rest
    assert "`" not in rest
    assert not re.search(r"&(?:amp|lt|gt|quot|nbsp|#\d+);", rest), rest
    assert not re.search(r"^\|?(?: ?:?-{3,}:? ?\|)+", rest, re.MULTILINE), rest


def test_lists_and_code_stay_readable(markdown_reply: str, plain_reply: str) -> None:
    for code in code_in(markdown_reply):
        # Code may look like a tag, and a space may keep it from being one.
        assert code.replace("< ", "<") in plain_reply.replace("< ", "<")
    items = re.findall(r"^\s*(?:[-*+]|\d+[.)]) +(?:\[[ x]\] )?(.*)$", markdown_reply, re.MULTILINE)
    for item in items:
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)|<[^>]*>|[*_`~]", r"\1", item).split()
        # Each item still begins a line of its own.
        assert re.search(rf"^\W*(?:\d+[.)] +)?(?:\[[ x]\] )?{re.escape(words[0])}", plain_reply, re.MULTILINE), item


def test_nothing_but_the_replys_text_differs(answers: dict[str, Any]) -> None:
    assert set(answers["plain_reply"]) == set(answers["default"])
    assert answers["plain_reply"]["reply"]["actions"] == answers["default"]["reply"]["actions"]


def test_a_plain_reply_is_replayed_as_it_was(client: Client) -> None:
    key = unique()
    body = {"external_conversation_id": unique(), "content": RICH, "markdown": False}
    first = client.post("/v1/messages", body, idempotency_key=key)
    first.ok(201)
    assert_replay(first, client.post("/v1/messages", body, idempotency_key=key))
    response = client.post("/v1/messages", body | {"markdown": True}, idempotency_key=key)
    assert_error(response, 400, "idempotency_key_reused")
