from __future__ import annotations

import pytest

from infra.local.routes import Routes
from infra.topology import FUNCTIONS, Function

ROUTES = Routes(
    [
        Function("everything", routes=("/", "/{proxy+}")),
        Function("below", routes=("/v1/things", "/v1/things/{proxy+}")),
        Function("one", routes=("/v1/things/{id}",)),
        Function("special", routes=("/v1/things/special",)),
        Function("part", routes=("/v1/things/{id}/parts/{part}",)),
        Function("poster", routes=("/v1/posts",), posts=("/v1/posts", "/v1/things/special")),
    ]
)


@pytest.mark.parametrize(
    ("path", "function", "parameters"),
    [
        ("/", "everything", {}),
        ("/v1", "everything", {"proxy": "v1"}),
        ("/v1/thingsandmore", "everything", {"proxy": "v1/thingsandmore"}),
        ("/v1/things", "below", {}),
        ("/v1/things/", "below", {}),
        ("/v1/things/special", "special", {}),
        ("/v1/things/7", "one", {"id": "7"}),
        ("/v1/things/7/parts", "below", {"proxy": "7/parts"}),
        ("/v1/things/7/parts/8", "part", {"id": "7", "part": "8"}),
        ("/v1/things/7/parts/8/9", "below", {"proxy": "7/parts/8/9"}),
        ("/v1/things/a%2Fb", "one", {"id": "a%2Fb"}),
    ],
)
def test_the_most_specific_route_wins(path: str, function: str, parameters: dict[str, str]) -> None:
    match = ROUTES.match("GET", path)
    assert match is not None
    assert (match.function.name, match.parameters) == (function, parameters)


def test_a_path_without_route_has_no_function() -> None:
    assert Routes([Function("one", routes=("/v1/one",))]).match("GET", "/v1/two") is None


@pytest.mark.parametrize(
    ("method", "path", "function"),
    [
        ("POST", "/v1/posts", "poster"),
        ("GET", "/v1/posts", "poster"),
        ("POST", "/v1/things/special", "poster"),
        *((method, "/v1/things/special", "special") for method in ("GET", "HEAD", "PATCH", "DELETE", "OPTIONS")),
        ("POST", "/v1/things/7", "one"),
    ],
)
def test_a_method_of_its_own_comes_before_any_method(method: str, path: str, function: str) -> None:
    match = ROUTES.match(method, path)
    assert match is not None
    assert match.function.name == function


def test_a_method_that_a_resource_lacks_goes_to_no_other_resource() -> None:
    routes = Routes([Function("all", routes=("/{proxy+}",)), Function("one", posts=("/v1",))])
    assert routes.match("GET", "/v1") is None


def test_every_function_of_the_topology_is_reached_by_its_own_routes() -> None:
    routes = Routes(FUNCTIONS)
    for function in FUNCTIONS:
        for method, paths in (("GET", function.routes), ("POST", function.posts)):
            for path in paths:
                match = routes.match(method, path.replace("{proxy+}", "some/thing"))
                assert match is not None
                assert match.function is function
