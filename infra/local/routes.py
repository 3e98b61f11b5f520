"""Selects the function for a path by API Gateway's rules."""

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
    """The routes of all functions, ordered from the most specific one."""

    def __init__(self, functions: Iterable[Function]) -> None:
        routes = [(_segments(path), path, function) for function in functions for path in function.routes]
        # For each segment, a literal precedes `{name}`, which precedes `{name+}`.
        self._routes = sorted(routes, key=lambda route: [_rank(segment) for segment in route[0]], reverse=True)

    def match(self, path: str) -> Match | None:
        """The route for a request's path, or None. A slash at the end of the path is ignored."""
        asked = _segments(path)
        for segments, resource, function in self._routes:
            parameters = _parameters(segments, asked)
            if parameters is not None:
                return Match(function, resource, parameters)
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
