"""DynamoDB's expressions, as far as the service uses them. Anything else is refused with `Unsupported`.

Values are in DynamoDB's typed JSON. A path is a name, or two names with a dot: an attribute of a map.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

Item = Mapping[str, Any]
Values = Mapping[str, Any]
Test = Callable[[Item], bool]

_TOKEN = re.compile(r"\s*([A-Za-z_][\w.]*|:\w+|<>|<=|>=|[=<>(),+-])")


class Unsupported(Exception):
    """The service uses something that the table does not simulate."""


class Invalid(Exception):
    """DynamoDB refuses the expression: a ValidationException."""


def condition(text: str, values: Values) -> Test:
    """The test that a condition makes of an item; an absent item is empty."""
    parser = _Parser(text, values)
    test = parser.disjunction()
    parser.end()
    return test


def update(text: str, values: Values) -> Callable[[Item], dict[str, Any]]:
    """The function from an item to the item after an update."""
    parser = _Parser(text, values)
    clauses = parser.clauses()
    _check_overlaps([path for path, _ in clauses])
    if any(path.partition(".")[0] in ("pk", "sk") for path, _ in clauses):
        raise Unsupported("updates of a key")

    def apply(item: Item) -> dict[str, Any]:
        # Every operand is the attribute before the update.
        results = [(path, None if operand is None else operand(item)) for path, operand in clauses]
        new = dict(item)
        for path, result in results:
            _assign(new, path, result)
        return new

    return apply


def key_condition(text: str, values: Values, hash_key: str, range_key: str) -> tuple[str, str, str]:
    """The partition, and the inclusive bounds of the sort key, of a key condition."""
    found = re.fullmatch(rf"{hash_key} = (:\w+)(?: AND {range_key} (.+))?", text)
    if not found:
        raise Unsupported(text)
    partition = values[found[1]]["S"]
    rest = found[2]
    if rest is None:
        return partition, "", "\U0010ffff"
    if between := re.fullmatch(r"BETWEEN (:\w+) AND (:\w+)", rest):
        return partition, values[between[1]]["S"], values[between[2]]["S"]
    if bound := re.fullmatch(r"(>=|<=) (:\w+)", rest):
        value = values[bound[2]]["S"]
        return (partition, value, "\U0010ffff") if bound[1] == ">=" else (partition, "", value)
    raise Unsupported(text)


def names_of_values(text: str) -> list[str]:
    """The placeholders of values in an expression."""
    return re.findall(r":\w+", text)


Operand = Callable[[Item], Any]


@cache
def _tokens(text: str) -> tuple[str, ...]:
    found = []
    position = 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise Unsupported(text)
        found.append(match[1])
        position = match.end()
    return tuple(found)


class _Parser:
    """Reads tokens from left to right."""

    def __init__(self, text: str, values: Values) -> None:
        self._text, self._values = text, values
        self._tokens = list(_tokens(text))
        self._in_parentheses: tuple[int, int] | None = None
        """The tokens that were left before and after the last condition in parentheses."""

    def disjunction(self) -> Test:
        """A condition whose parts OR separates."""
        tests = [self._conjunction()]
        while self._accept("OR"):
            tests.append(self._conjunction())
        return tests[0] if len(tests) == 1 else lambda item: any(test(item) for test in tests)

    def clauses(self) -> list[tuple[str, Operand | None]]:
        """The assignments of an update; None removes an attribute."""
        found: list[tuple[str, Operand | None]] = []
        while self._tokens:
            verb = self._take()
            if verb not in ("SET", "REMOVE"):
                raise Unsupported(self._text)
            while True:
                path = self._path()
                if verb == "SET":
                    self._expect("=")
                found.append((path, self._sum() if verb == "SET" else None))
                if not self._accept(","):
                    break
        return found

    def end(self) -> None:
        """Refuse what is left."""
        if self._tokens:
            raise Unsupported(self._text)

    def _conjunction(self) -> Test:
        tests = [self._test()]
        while self._accept("AND"):
            tests.append(self._test())
        return tests[0] if len(tests) == 1 else lambda item: all(test(item) for test in tests)

    def _test(self) -> Test:
        if self._accept("("):
            inside = len(self._tokens)
            test = self.disjunction()
            if self._in_parentheses == (inside, len(self._tokens)):
                raise Invalid("The expression has redundant parentheses")
            self._expect(")")
            self._in_parentheses = (inside + 1, len(self._tokens))
            return test
        for name, wanted in (("attribute_exists", True), ("attribute_not_exists", False)):
            if self._accept(name):
                self._expect("(")
                path = self._path()
                self._expect(")")
                return partial(_exists, path, wanted)
        left, operator, right = self._operand(), self._take(), self._operand()
        if operator not in _COMPARE:
            raise Unsupported(self._text)
        return lambda item: _compare(operator, left(item), right(item))

    def _sum(self) -> Operand:
        left = self._operand()
        for sign, factor in (("+", 1), ("-", -1)):
            if self._accept(sign):
                right = self._operand()
                return partial(_sum_of, left, right, factor)
        return left_or_invalid(left)

    def _operand(self) -> Operand:
        if self._accept("if_not_exists"):
            self._expect("(")
            path = self._path()
            self._expect(",")
            default = self._operand()
            self._expect(")")
            return lambda item: _read(item, path) or default(item)
        token = self._take()
        if token.startswith(":"):
            if token not in self._values:
                raise Invalid(f"An expression attribute value used in expression is not defined: {token}")
            value = self._values[token]
            return lambda item: value
        if not (token[0].isalpha() or token[0] == "_") or token in ("AND", "OR", "NOT", "BETWEEN", "IN", "size"):
            raise Unsupported(self._text)
        return lambda item: _read(item, token)

    def _path(self) -> str:
        token = self._take()
        if token.count(".") > 1 or not (token[0].isalpha() or token[0] == "_"):
            raise Unsupported(self._text)
        return token

    def _accept(self, token: str) -> bool:
        if self._tokens and self._tokens[0] == token:
            self._tokens.pop(0)
            return True
        return False

    def _expect(self, token: str) -> None:
        if not self._accept(token):
            raise Unsupported(self._text)

    def _take(self) -> str:
        if not self._tokens:
            raise Unsupported(self._text)
        return self._tokens.pop(0)


def left_or_invalid(operand: Operand) -> Operand:
    """The operand of an assignment, which must exist."""

    def read(item: Item) -> Any:
        value = operand(item)
        if value is None:
            raise Invalid("The provided expression refers to an attribute that does not exist in the item")
        return value

    return read


def _exists(path: str, wanted: bool, item: Item) -> bool:
    return (_read(item, path) is not None) == wanted


def _sum_of(left: Operand, right: Operand, factor: int, item: Item) -> Any:
    return _add(left(item), right(item), factor)


def _read(item: Item, path: str) -> Any:
    name, _, inner = path.partition(".")
    value = item.get(name)
    if not inner or value is None:
        return value
    return value["M"].get(inner) if "M" in value else None


def _assign(item: dict[str, Any], path: str, value: Any) -> None:
    name, _, inner = path.partition(".")
    if inner:
        present = item.get(name)
        if present is None or "M" not in present:
            if value is None:
                return
            raise Invalid("The document path provided in the update expression is invalid for update")
        changed = {key: each for key, each in present["M"].items() if key != inner}
        item[name] = {"M": changed if value is None else {**changed, inner: value}}
    elif value is None:
        item.pop(name, None)
    else:
        item[name] = value


def _add(left: Any, right: Any, factor: int) -> Any:
    if left is None or right is None:
        raise Invalid("The provided expression refers to an attribute that does not exist in the item")
    if "N" not in left or "N" not in right:
        raise Invalid("An operand in the update expression has an incorrect data type")
    return {"N": str(int(left["N"]) + factor * int(right["N"]))}


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda left, right: bool(left == right),
    "<>": lambda left, right: bool(left != right),
    "<": lambda left, right: bool(left < right),
    "<=": lambda left, right: bool(left <= right),
    ">": lambda left, right: bool(left > right),
    ">=": lambda left, right: bool(left >= right),
}


def _compare(operator: str, left: Any, right: Any) -> bool:
    """Whether two values compare so. An absent one, or one of another type, only differs."""
    if left is None or right is None:
        return operator == "<>" and left is not right
    if operator in ("=", "<>"):
        return _COMPARE[operator](_comparable(left), _comparable(right))
    ((left_type, _),) = left.items()
    ((right_type, _),) = right.items()
    if left_type not in ("S", "N", "B"):
        raise Unsupported(f"{operator} of the type {left_type}")
    return left_type == right_type and _COMPARE[operator](_comparable(left)[1], _comparable(right)[1])


def _comparable(value: Any) -> tuple[str, Any]:
    ((kind, content),) = value.items()
    if kind == "N":
        return kind, int(content)
    if kind == "S":
        return kind, content.encode()
    if kind == "B":
        return kind, base64.b64decode(content)
    if kind == "M":
        return kind, {name: _comparable(inner) for name, inner in content.items()}
    if kind == "BOOL":
        return kind, content
    raise Unsupported(f"the type {kind}")


def _check_overlaps(paths: list[str]) -> None:
    for position, path in enumerate(paths):
        for other in paths[position + 1 :]:
            if path == other or path.startswith(f"{other}.") or other.startswith(f"{path}."):
                raise Invalid("Two document paths overlap with each other")
