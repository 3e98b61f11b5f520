"""The agent's replies on the admin pages: Markdown that can do no more than text and links."""

from __future__ import annotations

from functions.admin.markdown import html
from tests.support.admin_client import Markup

ALLOWED = {"p", "strong", "em", "ul", "ol", "li", "a", "br", "code", "pre", "blockquote", "hr", "table", "thead"} | {
    "tbody",
    "tr",
    "th",
    "td",
}
HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[a](javascript:alert(1))",
    "[a](java\tscript:alert(1))",
    "[a](data:text/html;base64,PHNjcmlwdD4=)",
    "[a](vbscript:x)",
    "![a](https://example.com/pixel.png)",
    "<javascript:alert(1)>",
    '[a](https://example.com "\\" onclick=alert(1) x=\\"")',
    "# heading\n\nheading\n=======",
    "```\n</code></pre><script>alert(1)</script>\n```",
    "[a]: javascript:alert(1)\n\n[a]",
    "> " * 500 + "deep",
    "&lt;script&gt;",
)


def test_text_is_formatted() -> None:
    said = html("You have **two** appointments:\n\n- one\n- [two](https://example.com/a)")
    assert "<strong>two</strong>" in said
    assert "<li>one</li>" in said
    assert '<a href="https://example.com/a" rel="noopener noreferrer nofollow">two</a>' in said


def test_a_line_break_is_kept() -> None:
    assert "<br" in html("one\ntwo")


def test_nothing_but_text_and_links_comes_of_any_text() -> None:
    for text in HOSTILE:
        for tag, attributes in Markup.of(html(text)).tags:
            assert tag in ALLOWED, text
            assert attributes.keys() <= {"href", "rel", "title", "class", "start"}, text
            assert (attributes.get("href") or "https:").partition(":")[0] in ("https", "http", "mailto", "tel"), text
