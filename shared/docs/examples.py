"""A request of a page, written once, as curl, Python and JavaScript.

    POST /v1/customers
    Idempotency-Key: $SIGNUP

    {"phone": "+1 500 555 0006", "name": "Ada"}

`$NAME` is a variable of the reader's environment, alone in a string of the body or anywhere in a path or a header.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

WIDTH = 78
"""The characters that fit on a line of code."""
_VARIABLE = re.compile(r"\$([A-Z_]+)")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")


@dataclass(frozen=True)
class ExampleRequest:
    """A request of a page. `path` begins with `/v1`. `shows_headers` if the reader is to see the response's headers."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...]
    headers: Mapping[str, str]
    body: Any
    raw_body: str
    shows_headers: bool = False

    @classmethod
    def parse(cls, text: str, *, shows_headers: bool = False) -> ExampleRequest:
        """The request of a block of a page."""
        head, _, raw_body = text.strip().partition("\n\n")
        (method, target), *lines = (line.split(None, 1) for line in head.splitlines())
        path, _, query = target.partition("?")
        # A plus sign in a page is a plus sign.
        pairs = tuple(parse_qsl(query.replace("+", "%2B"), keep_blank_values=True))
        headers = {name.removesuffix(":"): value for name, value in lines}
        body = json.loads(raw_body) if raw_body else None
        return cls(method, path, pairs, headers, body, raw_body, shows_headers)

    @property
    def variables(self) -> list[str]:
        """The variables of the request besides API and KEY, in the order of their first use."""
        text = " ".join((self.path, *(value for _, value in self.query), *self.headers.values(), self.raw_body))
        return list(dict.fromkeys(_VARIABLE.findall(text)))

    def curl(self) -> str:
        """The request for a shell."""
        url = f'"$API{self.path.removeprefix("/v1")}"'
        method = "" if self.method == "GET" else f" -X {self.method}"
        words = [f"curl -s{'i' if self.shows_headers else ''}{'G' if self.query else ''}{method} {url}"]
        words.append('-H "Authorization: Bearer $KEY"')
        words += [f'-H "{name}: {value}"' for name, value in self.headers.items()]
        for name, value in self.query:
            pair = f"{name}={value}"
            words.append(f'--data-urlencode "{pair}"' if "$" in pair else f"--data-urlencode {shlex.quote(pair)}")
        if self.raw_body:
            assert "'" not in self.raw_body, "a shell would end the body there"
            body = re.sub(r'"(\$[A-Z_]+)"', '"\'"\\1"\'"', self.raw_body)
            words += ['-H "Content-Type: application/json"', f"-d '{body}'"]
        return " \\\n  ".join(words)

    def python(self) -> str:
        """The request in Python, with the package requests."""
        arguments = [_python_text(self.path.replace("/v1", "$API", 1))]
        if self.query:
            repeats = len(dict(self.query)) < len(self.query)
            texts = [(_python_text(name), _python_text(value)) for name, value in self.query]
            if repeats:
                arguments.append(_fitted("params=[", [f"({name}, {value})" for name, value in texts], "]", 4))
            else:
                arguments.append(_fitted("params={", [f"{name}: {value}" for name, value in texts], "}", 4))
        headers = {"Authorization": "Bearer $KEY", **self.headers}
        items = [f"{_python_text(name)}: {_python_text(value)}" for name, value in headers.items()]
        arguments.append(_fitted("headers={", items, "}", 4))
        if self.raw_body:
            arguments.append("json=" + _literal(self.body, _Python, 4, len("json=")))
        call = f"requests.{self.method.lower()}"
        lines = ["from os import environ as env", "", "import requests", ""]
        lines += [f"response = {call}(", *(f"    {argument}," for argument in arguments), ")"]
        if self.shows_headers:
            lines += ["for name, value in response.headers.items():", '    print(f"{name}: {value}")']
        lines.append("print(response.status_code, response.text)")
        return "\n".join(lines)

    def javascript(self) -> str:
        """The request in JavaScript, for a module of Node."""
        names = ", ".join(("API", "KEY", *self.variables))
        url = "`" + _js_template(self.path.replace("/v1", "$API", 1)) + ("?${query}" if self.query else "") + "`"
        lines = [f"const {{ {names} }} = process.env;", ""]
        if self.query:
            pairs = [f"[{_js_text(name)}, {_js_text(value)}]" for name, value in self.query]
            lines.append(_fitted("const query = new URLSearchParams([", pairs, "]);", 0))
        headers = {"Authorization": "Bearer $KEY", **self.headers}
        if self.raw_body:
            headers["Content-Type"] = "application/json"
        entries = [f"{_js_name(name)}: {_js_text(value)}" for name, value in headers.items()]
        options = [] if self.method == "GET" else [f'method: "{self.method}"']
        options.append(_fitted("headers: {", entries, "}", 2, spaced=True))
        if self.raw_body:
            body = _literal(self.body, _JavaScript, 2, len("body: JSON.stringify()"))
            options.append(f"body: JSON.stringify({body})")
        lines += [f"const response = await fetch({url}, {{", *(f"  {option}," for option in options), "});"]
        if self.shows_headers:
            lines += ["for (const [name, value] of response.headers) {", "  console.log(`${name}: ${value}`);", "}"]
        lines.append("console.log(response.status, await response.text());")
        return "\n".join(lines)


class _Python:
    """How Python writes the values of JSON."""

    words: Mapping[Any, str] = {None: "None", True: "True", False: "False"}
    spaced = False
    step = 4

    @staticmethod
    def text(value: str) -> str:
        return _python_text(value)

    @staticmethod
    def name(value: str) -> str:
        return _python_text(value)


class _JavaScript:
    """How JavaScript writes the values of JSON."""

    words: Mapping[Any, str] = {None: "null", True: "true", False: "false"}
    spaced = True
    step = 2

    @staticmethod
    def text(value: str) -> str:
        return _js_text(value)

    @staticmethod
    def name(value: str) -> str:
        return _js_name(value)


def _literal(value: Any, language: type[_Python] | type[_JavaScript], indent: int, used: int = 0) -> str:
    """A JSON value as a literal of the language, which follows `used` characters after the indentation."""
    if isinstance(value, str):
        return language.text(value)
    if isinstance(value, dict):
        parts = [
            f"{language.name(name)}: {_literal(inner, language, indent + language.step, len(name) + 4)}"
            for name, inner in value.items()
        ]
        return _fitted("{", parts, "}", indent, used=used, step=language.step, spaced=language.spaced)
    if isinstance(value, list):
        parts = [_literal(inner, language, indent + language.step) for inner in value]
        return _fitted("[", parts, "]", indent, used=used, step=language.step)
    return language.words[value] if value is None or isinstance(value, bool) else json.dumps(value)


def _fitted(
    opening: str, parts: list[str], closing: str, indent: int, *, used: int = 0, step: int = 0, spaced: bool = False
) -> str:
    """The parts between two brackets: on one line if it fits, else each on its own."""
    step = step or (indent or 2)
    space = " " if spaced and parts else ""
    line = f"{opening}{space}{', '.join(parts)}{space}{closing}"
    if indent + used + len(line) <= WIDTH and "\n" not in line:
        return line
    pad = " " * (indent + step)
    inner = "".join(f"{pad}{part},\n" for part in parts)
    return f"{opening}\n{inner}{' ' * indent}{closing}"


def _python_text(value: str) -> str:
    if whole := _VARIABLE.fullmatch(value):
        return f'env["{whole[1]}"]'
    if _VARIABLE.search(value):
        return 'f"' + _VARIABLE.sub(r"{env['\1']}", value) + '"'
    return json.dumps(value, ensure_ascii=False)


def _js_text(value: str) -> str:
    if whole := _VARIABLE.fullmatch(value):
        return whole[1]
    return f"`{_js_template(value)}`" if _VARIABLE.search(value) else json.dumps(value, ensure_ascii=False)


def _js_template(value: str) -> str:
    return _VARIABLE.sub(r"${\1}", value)


def _js_name(name: str) -> str:
    return name if _IDENTIFIER.fullmatch(name) else json.dumps(name)
