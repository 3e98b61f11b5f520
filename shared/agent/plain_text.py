"""Converts the agent's Markdown replies to plain text, for `markdown: false` (promises 8).

The result:

- A link is `label: url`, or only the URL if it has no other label. An image is its alt text. Only http, https, mailto
  and tel links have a URL (the last two as the plain address or number); other links become their label. URLs are
  percent-encoded, as a browser sends them.
- Lists keep their bullets, numbers, task boxes and nesting. Quotes are indented. A table row is `a | b`. A rule is a
  blank line. Line breaks are preserved. Code is unchanged, with the exceptions below.
- HTML is parsed as HTML: comments, scripts and styles are removed, `<a>` and `<img>` become links and images as above,
  block tags and `<br>` break the line, and entities are decoded.

A client can insert the result into HTML: it contains no HTML tag. A tag in code or an escaped tag such as
`&lt;script&gt;` is the author's text. It is preserved with a space after its `<` (`< script>`, and `a< b` for `a<b`),
which every HTML parser reads as text, even after the client has decoded entities once. The result has no control
characters except newline and, in code, tab; no bidirectional overrides; and no trailing spaces.

The parsers are the standard library's `html.parser` and markdown-it-py. The latter was compared with mistune, marko and
commonmark in November 2026: it passes CommonMark's examples (mistune fails one in eight), is typed (commonmark still
supports Python 2), limits nesting, and takes about 0.2 s for 8,000 hostile characters (marko overflows the stack,
commonmark takes 10 s). Its import takes 20 ms, the longest of the four, so it is imported at first use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

# Control characters, bidirectional overrides and isolates (they can disguise a URL), and lone surrogates.
_INVISIBLE = re.compile(r"[\x00-\x08\x0d-\x1f\x7f-\x84\x86-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
_ODD_BREAK = re.compile(r"[\x0b\x0c\x85\u2028\u2029]")

# Where an HTML parser starts a tag, a comment or a declaration, before or after decoding entities once.
_TAG_START = re.compile(r"(?:<|&lt;?|&#0*60;?|&#x0*3c;?)(?=[a-z/!?&])", re.IGNORECASE)

# `html.unescape` raises for a number with more than 4,300 digits.
_ENDLESS_NUMBER = re.compile(r"&#x?[0-9a-f]{32,};?", re.IGNORECASE)
_END = "<!---->"
_CODE_ELEMENTS = ("script", "style")
_BLOCK_ELEMENT = re.compile(
    r"address|article|aside|blockquote|body|caption|center|dd|details|dialog|div|dl|dt|fieldset|figcaption|figure"
    r"|footer|form|h[1-6r]|head|header|html|legend|li|main|nav|ol|p|pre|section|summary|table|tbody|tfoot|thead"
    r"|title|tr|ul"
)

_WEB_URL = re.compile(r"https?://[^/?#\s]", re.IGNORECASE)
_WEB_SCHEME = re.compile(r"(?<![^\W_])https?$", re.IGNORECASE)
_BARE_URL = re.compile(r"://[^\s<>\[\]`]+")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_EXTENDS_A_URL = re.compile(r"[\w/=&%#@+~$-]")

_BLANK_LINES = re.compile(r"\n{3,}")


def plain(markdown: str) -> str:
    """The text of a Markdown document, without markup and HTML. Never raises."""
    source = _printable(markdown.replace("\r\n", "\n").replace("\r", "\n"))
    text = _printable(_Writer().document(_parser().parse(source)))
    text = _TAG_START.sub(r"\g<0> ", text)
    return "\n".join(line.rstrip() for line in text.split("\n")).strip("\n")


def _printable(text: str) -> str:
    return _ODD_BREAK.sub(" ", _INVISIBLE.sub("", text))


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt
    from markdown_it.parser_block import ParserBlock

    class Blocks(ParserBlock):
        """CommonMark's blocks and GFM's tables. Blocks nested too deep become paragraphs; upstream drops them."""

        def tokenize(self, state: StateBlock, startLine: int, endLine: int) -> None:
            if state.level < state.md.options.maxNesting:
                return super().tokenize(state, startLine, endLine)
            state.push("paragraph_open", "p", 1)
            inline = state.push("inline", "", 0)
            inline.content = state.getLines(startLine, endLine, state.blkIndent, False).strip()
            inline.children = []
            state.push("paragraph_close", "p", -1)
            state.line = endLine
            return None

    class Parser(MarkdownIt):
        """Accepts every URL in a link. `_address` decides which URLs are in the text."""

        def validateLink(self, url: str) -> bool:
            return True

    parser = Parser("commonmark", {"maxNesting": 20})
    parser.block = Blocks()
    parser.enable("strikethrough")
    parser.inline.ruler.before("escape", "bare_url", _bare_url)
    return parser


def _bare_url(state: StateInline, silent: bool) -> bool:
    """GFM's autolinks: `_`, `*` and `~` in a bare URL are not emphasis."""
    source, colon = state.src, state.pos
    if source[colon] != ":":
        return False
    match = _BARE_URL.match(source, colon, state.posMax)
    if match is None or not _WEB_SCHEME.search(source[max(colon - 6, 0) : colon]):
        return False
    rest = _without_punctuation(match[0])
    if len(rest) <= len("://"):
        return False
    if not silent:
        state.append_pending(_ESCAPE.sub(r"\1", rest).replace("&amp;", "&"))
    state.pos += len(rest)
    return True


def _without_punctuation(url: str) -> str:
    """Remove the punctuation that ends the sentence and not the URL, as GFM does."""
    surplus = url.count(")") - url.count("(")
    end = len(url)
    while end and (url[end - 1] in "?!.,:;*_~'\"" or (url[end - 1] == ")" and surplus > 0)):
        end -= 1
        surplus -= url[end] == ")"
    return url[:end]


def _address(url: str) -> str | None:
    """The URL of a link as it appears in the text; None if only the label does."""
    if _WEB_URL.match(url):
        return url
    scheme, _, rest = url.partition(":")
    if scheme.lower() in ("mailto", "tel"):
        return "".join(unquote(rest.partition("?")[0]).split()) or None
    return None


def _flat(label: str, url: str, address: str) -> str:
    label = " ".join(label.split()).rstrip(":")
    if label in ("", address) or _parser().normalizeLink(label) == url:
        return address
    if _number(label) == _number(address) is not None:
        return label
    return f"{label}: {address}"


def _number(text: str) -> str | None:
    """The digits of a telephone number, without separators; None if the text is not a number."""
    return re.sub(r"[^\d+]", "", text) if re.fullmatch(r"[\d+()./\s-]+", text) else None


def _alt(tokens: Iterable[Token]) -> str:
    return "".join(
        " " if token.type in ("softbreak", "hardbreak") else _alt(token.children) if token.children else token.content
        for token in tokens
        if token.type != "html_inline"
    )


def _indented(text: str, first: str, others: str) -> str:
    lines = [others + line if line else "" for line in text.split("\n")]
    return first + "\n".join(lines)[len(others) :]


def _markup(tokens: Iterable[Token]) -> list[str]:
    """The pieces of HTML, in the order in which a `_Writer` reads them."""
    pieces = []
    for token in tokens:
        if token.type in ("html_block", "html_inline"):
            pieces.append(token.content)
        elif token.type == "inline":
            pieces.extend(_markup(token.children or ()))
    return pieces


@dataclass
class _Container:
    """An open document, quote, list or item: its finished blocks, and the state of a list."""

    blocks: list[str] = field(default_factory=list)
    tight: bool = True  # whether a list has no blank lines between its items
    number: int | None = None  # the number of an ordered list's next item

    def add(self, block: str) -> None:
        if block.strip():
            self.blocks.append(block)


class _Writer:
    """Converts one document."""

    def __init__(self) -> None:
        self.containers = [_Container()]
        self.rows: list[str] = []
        self.row: list[str] = []
        # The current block: its parts, and for each open link the start of its label, its URL, and whether it is HTML.
        self.parts: list[str] = []
        self.links: list[tuple[int, str, bool]] = []
        self.after_url = False
        self.after_tag = False
        # The script or style that is skipped, the number of the next piece of HTML, and the last piece that ends each.
        self.muted: str | None = None
        self.piece = 0
        self.last_end: dict[str, int] = {}

    def document(self, tokens: Sequence[Token]) -> str:
        for number, piece in enumerate(_markup(tokens)):
            lower = piece.lower()
            self.last_end.update({name: number for name in _CODE_ELEMENTS if f"</{name}" in lower})
        for before, token in zip([None, *tokens], tokens, strict=False):
            self.block(token, before.type if before else "")
        return "\n\n".join(self.containers[0].blocks)

    def block(self, token: Token, before: str) -> None:
        match token.type:
            case "paragraph_open" if len(self.containers) > 1 and not token.hidden:
                self.containers[-2].tight = False
            case "inline":
                self.text(self.inline(token.children or ()), before)
            case "code_block" | "fence" if not self.muted:
                self.containers[-1].add(token.content.strip("\n"))
            case "html_block":
                self.html(token.content)
                lines = (line.strip() for line in self.take().split("\n"))
                self.containers[-1].add("\n".join(line for line in lines if line))
            case "tr_close":
                if any(self.row):
                    self.rows.append(" | ".join(self.row))
                self.row = []
            case "table_close":
                self.containers[-1].add("\n".join(self.rows))
                self.rows = []
            case _:
                self.container(token)

    def text(self, text: str, before: str) -> None:
        """Add a paragraph, a heading or a table cell."""
        if before == "paragraph_open":
            self.containers[-1].add(text)
        elif before == "heading_open":
            self.containers[-1].add(text.replace("\n", " "))
        else:
            self.row.append(re.sub(r"\n+", " ", text))

    def container(self, token: Token) -> None:
        """Begin or end a quote, a list or an item."""
        match token.type:
            case "blockquote_open" | "bullet_list_open" | "list_item_open":
                self.containers.append(_Container())
            case "ordered_list_open":
                self.containers.append(_Container(number=int(token.attrs.get("start", 1))))
            case "blockquote_close":
                quote = self.containers.pop()
                self.containers[-1].add(_indented("\n\n".join(quote.blocks), "  ", "  "))
            case "list_item_close":
                self.end_item(token.markup)
            case "bullet_list_close" | "ordered_list_close":
                items = self.containers.pop()
                self.containers[-1].add(("\n" if items.tight else "\n\n").join(items.blocks))

    def end_item(self, markup: str) -> None:
        item, parent = self.containers.pop(), self.containers[-1]
        marker = "- "
        if parent.number is not None:
            marker = f"{parent.number}{markup} "
            parent.number += 1
        if item.blocks:
            text = ("\n" if parent.tight else "\n\n").join(item.blocks)
            parent.add(_indented(text, marker, " " * len(marker)))

    def inline(self, tokens: Iterable[Token]) -> str:
        for token in tokens:
            match token.type:
                case "text":
                    self.write(token.content.replace("\t", " "))
                case "code_inline":
                    self.write(token.content)
                case "softbreak" | "hardbreak":
                    self.write("\n")
                case "link_open":
                    self.links.append((len(self.parts), str(token.attrs["href"]), False))
                case "link_close":
                    while self.close_link():
                        pass
                case "image":
                    self.write(_alt(token.children or ()))
                case "html_inline":
                    self.html(token.content)
        return self.take()

    def take(self) -> str:
        """End the current block and return its text, with at most one consecutive blank line."""
        while self.links:
            self.close_link()
        lines = (line.strip(" ") for line in "".join(self.parts).split("\n"))
        text = _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip()
        self.parts.clear()
        self.after_url = self.after_tag = False
        return text

    def write(self, text: str) -> None:
        if self.muted:
            return
        last = self.parts[-1][-1] if self.parts else "\n"
        if self.after_tag and last in " \n":
            text = text.lstrip(" \n")  # the tag was between two spaces, or alone on its line
        if not text:
            return
        if self.after_url and _EXTENDS_A_URL.match(text):
            self.parts.append(" ")
        self.parts.append(text)
        self.after_url = self.after_tag = False

    def close_link(self) -> bool:
        """End the innermost open link. False if it is Markdown, which may contain HTML links, or if there is none."""
        if not self.links:
            return False
        start, url, is_html = self.links.pop()
        address = _address(url)
        if address is None or self.muted:
            return is_html
        label = "".join(self.parts[start:])
        del self.parts[start:]
        flat = _flat(label, url, address)
        before = self.parts[-1][-1] if self.parts else " "
        if label[:1].isspace() or (flat == address and before.isalnum()):
            self.write(" ")
        self.write(flat)
        self.after_url = flat.endswith(address)
        if label[-1:].isspace() and label.strip():
            self.write(" ")
        return is_html

    def html(self, source: str) -> None:
        reader = _HtmlReader(self)
        # An unclosed tag or comment consumes the rest, as in a browser. `_END` completes the text after the last tag.
        source = _ENDLESS_NUMBER.sub("\ufffd", source) + _END
        reader.feed(f"<{self.muted}>{source}" if self.muted else source)
        # A script without an end tag consumes the rest of an HTML block, but not the rest of a sentence.
        if self.muted and self.last_end.get(self.muted, -1) <= self.piece:
            self.muted, self.after_tag = None, True
        self.piece += 1

    def tag(self, name: str, closing: bool, attributes: Mapping[str, str | None]) -> None:
        """Handle an HTML tag. Its name is in lower case."""
        if name in _CODE_ELEMENTS:
            self.muted = None if closing else name
        if not self.muted:
            self.element(name, closing, attributes)
        self.after_tag = True

    def element(self, name: str, closing: bool, attributes: Mapping[str, str | None]) -> None:
        starts_line = not self.parts or self.parts[-1].endswith("\n") or self.parts[-1] == "- "
        if name == "br":
            self.parts.append("\n")
        elif name == "a":
            self.anchor(None if closing else attributes.get("href"))
        elif name == "img":
            self.write(attributes.get("alt") or "")
        elif name in ("td", "th"):
            if not closing and not starts_line:
                self.parts.append(" | ")
        elif _BLOCK_ELEMENT.fullmatch(name):
            if not starts_line:
                self.parts.append("\n")
            if name == "li" and not closing:
                self.parts.append("- ")

    def anchor(self, href: str | None) -> None:
        """End the open HTML link, if there is one, and begin another."""
        if self.links and self.links[-1][2]:
            self.close_link()
        if href:
            self.links.append((len(self.parts), _parser().normalizeLink("".join(href.split())), True))


class _HtmlReader(HTMLParser):
    """Parses a piece of HTML for a writer. Comments and declarations are ignored."""

    def __init__(self, writer: _Writer) -> None:
        super().__init__()
        self.writer = writer

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.writer.tag(tag, False, dict(attrs))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.writer.tag(tag, False, dict(attrs))

    def handle_endtag(self, tag: str) -> None:
        self.writer.tag(tag, True, {})

    def handle_data(self, data: str) -> None:
        self.writer.write(data.replace("\t", " "))

    def handle_comment(self, data: str) -> None:
        self.writer.after_tag = True

    def handle_decl(self, decl: str) -> None:
        self.writer.after_tag = True

    def handle_pi(self, data: str) -> None:
        self.writer.after_tag = True

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        """Read a section as a comment, unless it is CDATA. The standard library raises an exception for others."""
        if self.rawdata.startswith("<![CDATA[", i):
            return super().parse_marked_section(i, report)
        return self.parse_bogus_comment(i, report)

    def unknown_decl(self, data: str) -> None:
        self.writer.after_tag = True
