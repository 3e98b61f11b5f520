"""Selects the function for a method and a path by API Gateway's rules."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from infra.topology import Function


@dataclass(frozen=True)
class Match:
    """A matching route. `resource` is its path in the topology. The parameters' values are percent-encoded."""

    function: Function
    resource: str
    parameters: dict[str, str]


class Routes:
    """The routes of all functions, ordered from the most specific path."""

    def __init__(self, functions: Iterable[Function]) -> None:
        methods: dict[str, dict[str, Function]] = {}
        for function in functions:
            for method, paths in (("ANY", function.routes), ("POST", function.posts)):
                for path in paths:
                    methods.setdefault(path, {})[method] = function
        routes = [(_segments(path), path, found) for path, found in methods.items()]
        # For each segment, a literal precedes `{name}`, which precedes `{name+}`.
        self._routes = sorted(routes, key=lambda route: [_rank(segment) for segment in route[0]], reverse=True)

    def match(self, method: str, path: str) -> Match | None:
        """The route for a request, or None. A slash at the end of the path is ignored.

        The path alone selects the resource. A method that the resource does not have matches no other resource.
        """
        asked = _segments(path)
        for segments, resource, methods in self._routes:
            parameters = _parameters(segments, asked)
            if parameters is not None:
                function = methods.get(method) or methods.get("ANY")
                return None if function is None else Match(function, resource, parameters)
        return None


def _segments(path: str) -> list[str]:
    trimmed = path.strip("/")
    return trimmed.split("/") if trimmed else []


def _rank(segment: str) -> int:
    if not segment.startswith("{"):
        return 2
    return 0 if segment.endswith("+}") else 1


def _parameters(segments: list[str], asked: list[str]) -> dict[str, str] | None:
    parameters: dict[str, str] = {}
    for position, segment in enumerate(segments):
        rest = asked[position:]
        if segment.endswith("+}"):
            return parameters | {segment[1:-2]: "/".join(rest)} if rest else None
        if not rest:
            return None
        if segment.startswith("{"):
            parameters[segment[1:-1]] = rest[0]
        elif segment != rest[0]:
            return None
    return parameters if len(segments) == len(asked) else None
