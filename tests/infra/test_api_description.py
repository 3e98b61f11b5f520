"""The API description: complete, valid, consistent with itself, and the committed copy is the generated one."""

from __future__ import annotations

import copy
import difflib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from infra import topology
from infra.local.routes import Routes
from infra.openapi.document import compact, document, readable
from shared.api.routes import Route
from shared.core.api_description import REVISIONS
from shared.core.errors import ERRORS
from shared.core.event_types import EVENT_TYPES
from shared.docs import tables
from shared.resources.schema import CODE, NAME

GOLDEN = Path(__file__).parents[1] / "openapi.json"
MODULES = (
    "ping",
    "agent_settings",
    "customers",
    "appointments",
    "sessions",
    "conversations",
    "messages",
    "webhook_endpoints",
    "events",
)


@pytest.fixture(scope="module")
def api_document() -> Any:
    return document()


def operations(described: Any) -> Iterator[tuple[str, str, Any]]:
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def dicts(value: Any, place: str = "#") -> Iterator[tuple[str, Any]]:
    """Every object in the document, with its place."""
    if isinstance(value, dict):
        yield place, value
        for name, part in value.items():
            yield from dicts(part, f"{place}/{name}")
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from dicts(part, f"{place}/{number}")


def name_of(reference: Any) -> str:
    """The name of the schema that is referred to."""
    name: str = reference["$ref"].rpartition("/")[2]
    return name


def validator(described: Any, schema: Any) -> jsonschema_rs.Draft202012Validator:
    """A validator of a schema that may refer to the named ones."""
    return jsonschema_rs.Draft202012Validator({**schema, "components": described["components"]}, validate_formats=True)


def test_the_committed_copy_is_what_is_generated() -> None:
    committed, generated = GOLDEN.read_text(encoding="utf-8"), readable()
    difference = difflib.unified_diff(committed.splitlines(), generated.splitlines(), "committed", "generated", n=2)
    assert committed == generated, "`make openapi` renews the committed copy:\n" + "\n".join([*difference][:60])


def test_the_compact_form_is_the_same_document(api_document: Any) -> None:
    assert json.loads(compact()) == api_document


def test_it_is_openapi_3_1(api_document: Any) -> None:
    assert api_document["openapi"].startswith("3.1")
    OpenAPIV31SpecValidator(api_document).validate()


def test_every_operation_of_every_function_is_described(api_document: Any) -> None:
    import importlib

    served = {
        (method, route.path)
        for module in MODULES
        for route in importlib.import_module(f"functions.{module}").app.routes
        if isinstance(route, Route)
        for method in route.operations
        if method != "HEAD"
    }
    assert {(method, path) for method, path, _ in operations(api_document)} == served


def test_every_function_of_the_gateway_under_v1_is_described() -> None:
    functions = {function.name for function in topology.FUNCTIONS if any("/v1/" in route for route in function.routes)}
    assert functions - {"fallback"} == {*MODULES}


def test_every_described_path_reaches_the_function_that_serves_it(api_document: Any) -> None:
    import importlib

    routes = Routes(topology.FUNCTIONS)
    for method, path, _ in operations(api_document):
        match = routes.match(method, path.replace("{", "").replace("}", ""))
        assert match is not None
        served = importlib.import_module(match.function.module).app.routes
        assert any(route.path == path and method in route.operations for route in served), f"{method} {path}"


def test_operations_have_distinct_names_summaries_and_a_tag_that_exists(api_document: Any) -> None:
    found = [operation for _, _, operation in operations(api_document)]
    webhooks = [webhook["post"] for webhook in api_document["webhooks"].values()]
    names = [operation["operationId"] for operation in (*found, *webhooks)]
    summaries = [operation["summary"] for operation in found]
    assert len({*names}) == len(names)
    assert len({*summaries}) == len(summaries)
    assert all(re.fullmatch(r"[A-Z][^.]{5,70}", summary) for summary in summaries), summaries
    tags = {tag["name"] for tag in api_document["tags"]}
    assert {tag for operation in (*found, *webhooks) for tag in operation["tags"]} == tags


def test_every_field_and_every_parameter_has_a_line(api_document: Any) -> None:
    for place, value in dicts(api_document["components"]["schemas"]):
        for name, found in value.get("properties", {}).items():
            if re.fullmatch(r"#/\w+", place):
                assert found.get("description"), f"{place}: {name}"
    for method, path, operation in operations(api_document):
        for parameter in operation["parameters"]:
            assert "$ref" in parameter or parameter["description"], f"{method} {path}: {parameter['name']}"


def test_texts_do_not_refer_to_what_clients_do_not_have(api_document: Any) -> None:
    for place, value in dicts(api_document):
        description = value.get("description")
        if isinstance(description, str):
            ours = r"promises? \d|[A-Z]{4,}_|\bTRANSITIONS\b|\bSTATUSES\b"
            assert not re.search(ours, description), f"{place}: {description}"
            assert "  " not in description, f"{place}: {description}"


def test_nothing_of_our_own_is_left_in_it(api_document: Any) -> None:
    for place, value in dicts(api_document):
        assert not {CODE, NAME} & {*value}, place
        assert not isinstance(value.get("title"), str) or "/schemas/" not in place, place
        assert "nullable" not in value, place
        assert value.get("default", 0) is not None, place


def test_every_error_code_is_documented_somewhere_under_its_own_status(api_document: Any) -> None:
    found = set()
    for _, _, operation in operations(api_document):
        for status, response in operation["responses"].items():
            if "$ref" in response:
                response = api_document["components"]["responses"][response["$ref"].rpartition("/")[2]]
            for code in response["content"]["application/json"].get("examples", {}):
                assert int(status) == ERRORS[code].status or (code, status) == ("resource_not_found", "400")
                found.add(code)
    # A request of no operation.
    assert {*ERRORS} - found == {"route_not_found", "method_not_allowed"}


def test_every_event_type_is_a_webhook_and_a_type_of_one_event_schema(api_document: Any) -> None:
    assert [*api_document["webhooks"]] == [*EVENT_TYPES]
    schemas = api_document["components"]["schemas"]
    *kinds, unknown = [schemas[name_of(part)] for part in schemas["Event"]["anyOf"]]
    assert unknown["properties"]["type"]["type"] == "string"
    types = [event_type for kind in kinds for event_type in schemas[name_of(kind["properties"]["type"])]["enum"]]
    assert sorted(types) == sorted(EVENT_TYPES)


def test_every_enumeration_of_a_body_has_a_name(api_document: Any) -> None:
    """Otherwise each generator makes up names, such as `Status1`."""
    for place, value in dicts(api_document["components"]["schemas"]):
        assert "enum" not in value or re.fullmatch(r"#/\w+", place), place


def test_responses_allow_values_that_a_later_revision_adds(api_document: Any) -> None:
    schemas = api_document["components"]["schemas"]
    for name, found in schemas.items():
        if f"{name}Value" in schemas:
            opened = validator(api_document, schemas[f"{name}Value"])
            assert all(opened.is_valid(value) for value in (*found["enum"], "of_a_later_revision")), name
    assert {"AppointmentStatusValue", "EndedReasonValue", "ErrorCodeValue", "RoleValue"} <= {*schemas}
    later = validator(api_document, schemas["Action"])
    assert later.is_valid({"type": "of_a_later_revision", "x": 1})


def closed_in_responses(described: Any) -> Iterator[str]:
    """The places of enumerations and constants of responses and webhooks that allow no further value."""
    sent = [operation["responses"] for _, _, operation in operations(described)]
    sent += [webhook["post"]["requestBody"] for webhook in described["webhooks"].values()]
    components = described["components"]
    waiting = {f"headers/{name}": header["schema"] for name, header in components["headers"].items()}
    for _, part in dicts([sent, components["responses"]]):
        if "/schemas/" in str(part.get("$ref")):
            waiting[name_of(part)] = components["schemas"][name_of(part)]
    seen = {*waiting}
    while waiting:
        for place, part in open_dicts(*reversed(waiting.popitem())):
            values = {part["const"]} if "const" in part else {*part.get("enum", ())}
            # Yes or no, and a header that is a promise.
            if not values <= {True, "true", "false", "no-store"}:
                yield place
            if "$ref" in part and name_of(part) not in seen:
                seen.add(name_of(part))
                waiting[name_of(part)] = components["schemas"][name_of(part)]


def open_dicts(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    """As `dicts`, without the alternatives to any string, and without the types of resources, actions and events."""
    if isinstance(value, dict):
        if {"type": "string"} in value.get("anyOf", ()):
            return
        yield place, value
        union = re.fullmatch(r"\w+(Action|Event)/properties", place)
        for name, part in value.items():
            is_type = place.endswith("/properties") and (name == "object" or (name == "type" and union))
            if not is_type:
                yield from open_dicts(part, f"{place}/{name}")
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from open_dicts(part, f"{place}/{number}")


def test_no_enumeration_or_constant_of_a_response_is_closed(api_document: Any) -> None:
    assert [*closed_in_responses(api_document)] == []


@pytest.mark.parametrize(
    ("schema", "field", "closed", "place"),
    [
        ("Session", "direction", {"type": "string", "const": "outbound"}, "Session/properties/direction"),
        ("Delivery", "max_attempts", {"type": "integer", "const": 9}, "Delivery/properties/max_attempts"),
        ("Line", "role", {"anyOf": [{"$ref": "#/components/schemas/Speaker"}, {"type": "null"}]}, "Speaker"),
        ("Delivery", "type", {"type": "string", "enum": ["a", "b"]}, "Delivery/properties/type"),
        ("PreviousSession", "channel", {"$ref": "#/components/schemas/Channel"}, "Channel"),
    ],
)
def test_a_closed_one_is_found(api_document: Any, schema: str, field: str, closed: Any, place: str) -> None:
    changed = copy.deepcopy(api_document)
    changed["components"]["schemas"][schema]["properties"][field] = closed
    assert [*closed_in_responses(changed)] == [place]


def test_a_closed_header_is_found(api_document: Any) -> None:
    changed = copy.deepcopy(api_document)
    changed["components"]["headers"]["Service-Version"]["schema"] = {"$ref": "#/components/schemas/ApiVersion"}
    assert [*closed_in_responses(changed)] == ["ApiVersion"]


def test_headers_that_may_change_are_any_string(api_document: Any) -> None:
    """For a union without a name, OpenAPI Generator's Java client imports a class that it does not write."""
    headers = api_document["components"]["headers"]
    for name in ("RateLimit", "RateLimit-Policy", "Service-Rate-Limited-Reason"):
        assert headers[name]["schema"] == {"type": "string"}
    assert all("anyOf" not in header["schema"] for header in headers.values())


def test_the_number_of_attempts_is_open(api_document: Any) -> None:
    properties = api_document["components"]["schemas"]["Delivery"]["properties"]
    for name in ("attempt_count", "max_attempts"):
        assert {"maximum", "const", "enum"}.isdisjoint(properties[name])


def test_every_known_value_of_a_response_is_described(api_document: Any) -> None:
    schemas = api_document["components"]["schemas"]
    # Dates and days, and those with one value. The types of events are described once, as `EventType`.
    others = {"ApiVersion", "Day"}
    names = {
        name
        for name, found in schemas.items()
        if len(found.get("enum", ())) > 1 and not re.fullmatch(r"\w+EventType", name)
    }
    assert others < names
    for name in names - others:
        for value in schemas[name]["enum"]:
            assert f"- `{value}`: " in schemas[name]["description"], f"{name}: {value}"


def names(described: Any) -> set[tuple[str, str, str]]:
    """What clients may use: kind, what it belongs to, and name."""
    schemas = described["components"]["schemas"]
    found = {("event types", "", name) for name in described["webhooks"]}
    found |= {("error codes", "", name) for name in described["components"]["examples"]}
    for method, path, operation in operations(described):
        request = f"{method} {path}"
        found.add(("operations", "", request))
        parameters = [one["name"] for one in operation["parameters"] if one.get("in") == "query"]
        if "requestBody" in operation:
            body = operation["requestBody"]["content"]["application/json"]["schema"]
            parameters += schemas[name_of(body)].get("properties", {})
        found |= {("parameters", request, name) for name in parameters}
    for name, schema in schemas.items():
        fields = schema.get("properties", {})
        kind = fields.get("object", {}).get("const")
        if kind not in (None, "event", "list"):
            found |= {("fields", kind, field) for field in fields}
        if not re.match(r"\w*(Error(Code|Type)|Event|ApiVersion|Day)", name) and len(schema.get("enum", ())) > 1:
            found |= {("values", name, value) for value in schema["enum"]}
    return found


def in_the_changelog() -> list[tuple[str, str, str]]:
    return [
        (kind, of, name)
        for added in tables.additions().values()
        for kind, groups in added.items()
        for of, own in groups.items()
        for name in own
    ]


def test_the_changelog_has_everything_of_the_description_under_one_revision(api_document: Any) -> None:
    listed, described = in_the_changelog(), names(api_document)
    lacking, surplus = sorted(described - {*listed}), sorted({*listed} - described)
    assert not lacking, f"add these to the newest revision in shared/docs/revisions.json: {lacking}"
    assert not surplus, f"shared/docs/revisions.json has what is not described: {surplus}"
    assert len(listed) == len({*listed})
    assert tuple(tables.additions()) == tuple(tables.CHANGES) == REVISIONS


def test_a_change_without_an_entry_in_the_changelog_is_found(api_document: Any) -> None:
    changed = copy.deepcopy(api_document)
    schemas = changed["components"]["schemas"]
    schemas["Session"]["properties"]["mood"] = schemas["CallCreate"]["properties"]["mood"] = {"type": "string"}
    schemas["EndedReason"]["enum"].append("bored")
    changed["paths"]["/v1/customers"]["get"]["parameters"].append({"name": "mood", "in": "query"})
    changed["paths"]["/v1/moods"] = {"get": changed["paths"]["/v1/ping"]["get"]}
    changed["webhooks"]["customer.bored"] = changed["webhooks"]["customer.created"]
    changed["components"]["examples"]["customer_bored"] = {}
    assert names(changed) - {*in_the_changelog()} == {
        ("fields", "session", "mood"),
        ("parameters", "POST /v1/customers/{id}/call", "mood"),
        ("values", "EndedReason", "bored"),
        ("parameters", "GET /v1/customers", "mood"),
        ("operations", "", "GET /v1/moods"),
        ("event types", "", "customer.bored"),
        ("error codes", "", "customer_bored"),
    }


def test_every_success_and_every_webhook_has_an_example(api_document: Any) -> None:
    for path, methods in api_document["paths"].items():
        for method, operation in methods.items():
            for status, response in operation["responses"].items():
                if status.startswith("2"):
                    assert response["content"]["application/json"]["example"], (method, path, status)
    for event_type, webhook in api_document["webhooks"].items():
        assert webhook["post"]["requestBody"]["content"]["application/json"]["example"]["type"] == event_type


def test_examples_are_valid(api_document: Any) -> None:
    for place, value in dicts(api_document):
        if "schema" in value and "example" in value:
            assert validator(api_document, value["schema"]).is_valid(value["example"]), f"{place}: {value['example']}"
        if "type" in value and "examples" in value and isinstance(value["examples"], list):
            for example in value["examples"]:
                assert validator(api_document, value).is_valid(example), f"{place}: {example}"
    error = validator(api_document, api_document["components"]["schemas"]["Error"])
    for code, example in api_document["components"]["examples"].items():
        assert error.is_valid(example["value"]), code


def test_links_lead_to_operations_and_give_all_parameters_of_the_path(api_document: Any) -> None:
    by_name = {operation["operationId"]: (path, operation) for _, path, operation in operations(api_document)}
    targets = set()
    for _, _, operation in operations(api_document):
        for response in operation["responses"].values():
            for link in response.get("links", {}).values():
                path, _ = by_name[link["operationId"]]
                assert {*link["parameters"]} == {*re.findall(r"{(\w+)}", path)}
                targets.add(link["operationId"])
    assert targets == {name for name, (path, _) in by_name.items() if "{" in path}
