"""Code of the pages as HTML, with its keywords, names, strings, numbers and comments in spans of these classes."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Mapping
from html import escape

from pygments import lex
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Keyword, Name, Number, String, _TokenType

LEXERS: Mapping[str, str] = {
    "curl": "bash",
    "sh": "bash",
    "python": "python",
    "js": "javascript",
    "ts": "typescript",
    "go": "go",
    "php": "php",
    "ruby": "ruby",
    "java": "java",
    "csharp": "csharp",
    "json": "json",
}
"""The names of Pygments by the languages of the pages. `infra/bundle.py` keeps only the lexers that these need."""
_CLASSES: Mapping[_TokenType, str] = {
    Comment: "comment",
    Keyword: "keyword",
    Name.Attribute: "name",
    Name.Builtin: "name",
    Name.Function: "name",
    Name.Tag: "name",
    Name.Variable: "name",
    Number: "number",
    String: "string",
}


def highlight(text: str, language: str) -> str:
    """The code as HTML. Code of a language without a lexer is only escaped."""
    if language not in LEXERS:
        return escape(text)
    tokens = ((_class(kind), value) for kind, value in lex(text, _lexer(language)))
    return "".join(
        _span(name, "".join(value for _, value in group))
        for name, group in itertools.groupby(tokens, operator.itemgetter(0))
    )


def _span(name: str, code: str) -> str:
    return f'<span class="{name}">{escape(code)}</span>' if name else escape(code)


@functools.cache
def _lexer(language: str) -> Lexer:
    # Neither is the code stripped nor does it get a line break at its end.
    return get_lexer_by_name(LEXERS[language], stripnl=False, ensurenl=False)


@functools.cache
def _class(kind: _TokenType) -> str:
    return next((_CLASSES[one] for one in reversed(kind.split()) if one in _CLASSES), "")
