"""The agent's replies, which are Markdown, as HTML that cannot do more than text and links do.

markdown-it-py escapes HTML in the text, and refuses links of other kinds than http, mailto and the like. It is what
`shared/agent/plain_text.py` uses; there are the reasons.
"""

from __future__ import annotations

import functools
from collections.abc import MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


def html(text: str) -> Markup:
    """The text as HTML: paragraphs, lists, quotes, tables, code, emphasis and links. Images are links."""
    return Markup(_parser().render(text))  # noqa: S704  # the parser escapes HTML


@functools.cache
def _parser() -> MarkdownIt:
    # Its import takes 20 ms, and few pages need it.
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable("table").disable("image")
    # A heading of a message is none of the page.
    parser.add_render_rule("heading_open", lambda *_: "<p><strong>")
    parser.add_render_rule("heading_close", lambda *_: "</strong></p>")
    parser.add_render_rule("link_open", _link_open)
    return parser


def _link_open(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: MutableMapping[str, Any]) -> str:
    tokens[index].attrSet("rel", "noopener noreferrer nofollow")
    return str(renderer.renderToken(tokens, index, options, env))
