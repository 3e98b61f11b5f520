from __future__ import annotations

import pytest

from infra.local.routes import Routes
from infra.topology import FUNCTIONS, Function

ROUTES = Routes(
    [
        Function("everything", "", routes=("/", "/{proxy+}")),
        Function("below", "", routes=("/v1/things", "/v1/things/{proxy+}")),
        Function("one", "", routes=("/v1/things/{id}",)),
        Function("special", "", routes=("/v1/things/special",)),
        Function("part", "", routes=("/v1/things/{id}/parts/{part}",)),
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
    match = ROUTES.match(path)
    assert match is not None
    assert (match.function.name, match.parameters) == (function, parameters)


def test_a_path_without_route_has_no_function() -> None:
    assert Routes([Function("one", "", routes=("/v1/one",))]).match("/v1/two") is None


def test_every_function_of_the_topology_is_reached_by_its_own_routes() -> None:
    routes = Routes(FUNCTIONS)
    for function in FUNCTIONS:
        for path in function.routes:
            match = routes.match(path.replace("{proxy+}", "some/thing"))
            assert match is not None
            assert match.function is function
