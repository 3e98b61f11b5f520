"""The text of a page as HTML, and its examples.

Pages are Markdown with fenced code. The word after the fence is the language, and the words after it are options:

    request     a request, shown in three languages. `save=NAME` keeps the response's id in a variable of the reader,
                `save=NAME:path.0.field` another field; `headers` shows the response's headers; `later` means that the
                response below comes only after a while
    response    the response to the request above: the status, then any headers, and the body after an empty line
    sh, python, js   code. Several in a row are one example in several languages. `file=NAME` is its file name;
                `receiver` a program that receives webhooks
    ts, go, php, ruby, java, csharp     programs of other languages, each alone
    json, text  other text. `as=LANGUAGE` is what it is written in, if no test runs it as an example
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from http import HTTPStatus
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markdown_it.token import Token

from shared.core import settings
from shared.docs import tables
from shared.docs.examples import ExampleRequest
from shared.docs.highlighting import highlight

CONTENT = Path(__file__).parent / "content"
BASE_URL = "%BASE_URL%"
"""Stands for the API's address in the text of a page, because it differs between requests."""
SUPPORT = "%SUPPORT%"
"""Stands for where readers reach the operator."""
PREFIX = "%PREFIX%"
"""Stands for the part of the paths before ours, in links."""
LANGUAGES = {"curl": "curl", "sh": "Shell", "python": "Python", "js": "JavaScript"}


@dataclass(frozen=True)
class Block:
    """A block of code. `options` are the words after the language; `save=CUSTOMER` has the value `CUSTOMER`."""

    language: str
    options: Mapping[str, str]
    text: str

    @property
    def request(self) -> ExampleRequest:
        """The request of a `request` block."""
        return ExampleRequest.parse(self.text, shows_headers="headers" in self.options)

    @property
    def written_in(self) -> str:
        """The language to highlight."""
        return self.options.get("as", self.language)

    @property
    def variants(self) -> dict[str, str]:
        """The code by language, of a request or of code."""
        if self.language != "request":
            return {self.language: self.text}
        request = self.request
        return {"curl": request.curl(), "python": request.python(), "js": request.javascript()}


@dataclass(frozen=True)
class Section:
    """A part of a page under a heading. `level` 1 is what precedes the first heading."""

    level: int
    anchor: str
    title: str
    text: str


@dataclass(frozen=True)
class Document:
    """A page: its HTML, with `BASE_URL` and `PREFIX` in it, its sections, and its blocks of code in order."""

    html: str = field(repr=False)
    sections: Sequence[Section]
    blocks: Sequence[Block]


@functools.cache
def document(name: str) -> Document:
    """The page with this name."""
    tokens = _parser().parse(source(name))
    anchors = _anchor_headings(tokens)
    html: list[str] = []
    blocks: list[Block] = []
    for run in _runs(tokens):
        if run[0].type == "fence":
            blocks_of_run = [block(token.info, token.content) for token in run]
            html.append(examples(blocks_of_run, len(blocks)))
            blocks += blocks_of_run
        else:
            html.append(_parser().renderer.render(run, _parser().options, {}))
    return Document("".join(html), _sections(tokens, anchors), blocks)


@functools.cache
def source(name: str) -> str:
    """The text of the page with this name, in Markdown, with `BASE_URL` in it."""
    return _templates().get_template(f"{name}.md").render()


def html(text: str) -> str:
    """Text in Markdown without headings, such as a description of the API, as HTML."""
    return str(_parser().render(text))


def block(info: str, text: str) -> Block:
    """The block of a fence with these words after it."""
    language, *words = info.split()
    options = {name: value for name, _, value in (word.partition("=") for word in words)}
    return Block(language, options, text.rstrip("\n"))


@functools.cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "typographer": False}).enable("table")
    parser.add_render_rule("heading_open", _heading_open)
    parser.add_render_rule("heading_close", _heading_close)
    parser.add_render_rule("table_open", lambda *_: '<div class="table"><table>\n')
    parser.add_render_rule("table_close", lambda *_: "</table></div>\n")
    parser.add_render_rule("link_open", _link_open)
    return parser


@functools.cache
def _templates() -> Environment:
    environment = Environment(loader=FileSystemLoader(CONTENT), undefined=StrictUndefined, autoescape=False)  # noqa: S701
    environment.globals |= {"limits": tables.LIMITS, "tables": tables, "settings": settings}
    environment.globals |= {"base_url": BASE_URL, "support": SUPPORT}
    return environment


def _heading_open(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    anchor = tokens[index].attrGet("id")
    return f'<{tokens[index].tag} id="{anchor}"><a href="#{anchor}">'


def _heading_close(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    return f"</a></{tokens[index].tag}>\n"


def _link_open(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    target = str(tokens[index].attrGet("href"))
    return f'<a href="{escape(PREFIX + target if target.startswith("/") else target)}">'


def _anchor_headings(tokens: Sequence[Token]) -> list[tuple[int, str]]:
    """Give each heading an id. Returns their positions and ids."""
    found: list[tuple[int, str]] = []
    for position, token in enumerate(tokens):
        if token.type == "heading_open":
            anchor = re.sub(r"[^a-z0-9_.]+", "-", _plain(tokens[position + 1]).lower()).strip("-")
            assert anchor not in {one for _, one in found}, f"two headings have the id {anchor}"
            token.attrSet("id", anchor)
            found.append((position, anchor))
    return found


def _sections(tokens: Sequence[Token], anchors: Sequence[tuple[int, str]]) -> list[Section]:
    starts = [0, *(position for position, _ in anchors), len(tokens)]
    sections = [Section(1, "", "", _text(tokens[: starts[1]]))]
    for (position, anchor), end in zip(anchors, starts[2:], strict=True):
        title = _plain(tokens[position + 1])
        sections.append(Section(int(tokens[position].tag[1]), anchor, title, _text(tokens[position + 3 : end])))
    return sections


def _text(tokens: Sequence[Token]) -> str:
    """The words of these tokens, code and its languages included, for the search."""
    words = [_plain(token) if token.type == "inline" else f"{_language(token)} {token.content}" for token in tokens]
    return " ".join(" ".join(words).split()).replace(BASE_URL, "").replace(SUPPORT, "")


def _language(token: Token) -> str:
    return LANGUAGES.get(token.info.split()[0], "") if token.type == "fence" else ""


def _plain(token: Token) -> str:
    return "".join(" " if one.type == "softbreak" else one.content for one in token.children or ())


def _runs(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """The tokens in runs: blocks of code that belong together, and everything between them."""
    run: list[Token] = []
    for token in tokens:
        if run and not _continues(run[-1], token):
            yield run
            run = []
        run.append(token)
    if run:
        yield run


def _continues(last: Token, token: Token) -> bool:
    if "fence" not in (last.type, token.type):
        return True
    code = [one.type == "fence" and one.info.split()[0] in LANGUAGES for one in (last, token)]
    return all(code) and last.info.split()[0] != token.info.split()[0]


def examples(blocks: Sequence[Block], number: int) -> str:
    """The HTML of blocks that belong together. Without scripts, too, radio buttons select the language."""
    first = blocks[0]
    if first.language == "response":
        return _response(first)
    variants = {language: text for block in blocks for language, text in block.variants.items()}
    files = {block.language: block.options["file"] for block in blocks if "file" in block.options}
    if len(variants) == 1:
        name = files.get(first.language, "")
        caption = f'<div class="caption">{escape(name)}</div>' if name else ""
        html = f'<div class="code">{caption}{_code(first.text, first.written_in)}</div>\n'
    else:
        tabs, panels = [], []
        for position, (language, text) in enumerate(variants.items()):
            checked = " checked" if position == 0 else ""
            id = f"code-{number}-{language}"
            tabs.append(
                f'<input type="radio" name="code-{number}" id="{id}" value="{language}"{checked}>'
                f'<label for="{id}">{LANGUAGES[language]}</label>'
            )
            name = f'<div class="caption">{escape(files[language])}</div>' if language in files else ""
            panels.append(f'<div class="panel {language}">{name}{_code(text, language)}</div>')
        group = f'<fieldset class="code tabs"><legend>Language</legend>{"".join(tabs)}{"".join(panels)}</fieldset>\n'
        html = group
    return html + "".join(map(_saved, blocks))


def _saved(block: Block) -> str:
    """What the reader keeps of the response of a request."""
    if "save" not in block.options:
        return ""
    kept = dict(saved(block))
    names = " and ".join(f"the <code>{escape(field)}</code> of the response" for field in kept.values())
    code = "\n".join(f"export {name}=…" for name in kept)
    return f'<div class="code"><div class="caption">Keep {names}</div>{_code(code, "sh")}</div>\n'


def saved(block: Block) -> Iterator[tuple[str, str]]:
    """The variables that a request's response is kept in, with the fields."""
    for one in filter(None, block.options.get("save", "").split(",")):
        name, _, response_field = one.partition(":")
        yield name, response_field or "id"


def _response(block: Block) -> str:
    head, _, body = block.text.partition("\n\n")
    status, *headers = head.splitlines()
    phrase = f"{status} {HTTPStatus(int(status)).phrase}"
    code = "".join(map(_header, headers)) + ("\n" if headers else "") + highlight(body, "json")
    caption = f'<div class="caption">Response: {phrase}</div>'
    return f'<div class="code response">{caption}<pre><code>{code}</code></pre></div>\n'


def _header(line: str) -> str:
    name, _, value = line.partition(":")
    return f'<span class="name">{escape(name)}</span>:{escape(value)}\n'


def _code(text: str, language: str) -> str:
    return f"<pre><code>{highlight(text, language)}</code></pre>"
