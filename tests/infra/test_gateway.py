"""The REST API as it would be deployed: routes, limits, the gateway's own errors, host name and firewall."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from infra import stack_names, topology
from infra.stack import ServiceStack
from infra.topology import Function
from shared.core.errors import ERRORS
from shared.core.limits import REQUESTS_PER_MINUTE
from tests.support.synth import DOMAIN_NAME, FIREWALL, Resource, Synthesized
from tests.support.templates import text

KEY_LIMITS = (100, REQUESTS_PER_MINUTE / 60)
"""Requests a second that one API key may make, for a second and on the average of a minute."""

each_function = pytest.mark.parametrize("function", topology.FUNCTIONS, ids=lambda function: function.name)
each_stage = pytest.mark.parametrize("stage", ["dev", "prod", "calls", "guarded", "named"])


def test_every_route_of_the_topology_leads_to_its_function(prod: Synthesized) -> None:
    found: dict[str, dict[str, str]] = {"ANY": {}, "POST": {}}
    for method in prod.all("AWS::ApiGateway::Method").values():
        assert method["AuthorizationType"] == "NONE"
        assert method["Integration"]["Type"] == "AWS_PROXY"
        found[method["HttpMethod"]][path_of(prod, method["ResourceId"])] = integration_of(method)
    assert found["ANY"] == {route: prod.aliases[f.name] for f in topology.FUNCTIONS for route in f.routes}
    assert found["POST"] == {route: prod.aliases[f.name] for f in topology.FUNCTIONS for route in f.posts}


def test_nothing_waits_with_messages_but_messages(prod: Synthesized) -> None:
    """The POSTs that wait for an agent have a function of their own; other requests about conversations do not wait."""
    found = {
        (method["HttpMethod"], path_of(prod, method["ResourceId"])): integration_of(method)
        for method in prod.all("AWS::ApiGateway::Method").values()
    }
    messages, conversations = prod.aliases["messages"], prod.aliases["conversations"]
    assert found["POST", "/v1/messages"] == messages
    assert found["POST", "/v1/conversations/{id}/messages"] == messages
    assert found["ANY", "/v1/conversations/{id}/messages"] == conversations
    others = [path for (_, path), alias in found.items() if alias == messages]
    assert {*others} == {"/v1/messages", "/v1/conversations/{id}/messages"}


@each_function
def test_the_gateway_may_invoke_a_function_that_has_routes(prod: Synthesized, function: Function) -> None:
    target = prod.live(function.name)
    permissions = [p for p in prod.all("AWS::Lambda::Permission").values() if p["FunctionName"] == target]
    admitted = [p for p in permissions if p["Principal"] == "apigateway.amazonaws.com"]
    assert bool(admitted) is bool(function.routes)


def test_the_gateway_passes_bytes_on_unchanged_and_is_regional(prod: Synthesized) -> None:
    (api,) = prod.all("AWS::ApiGateway::RestApi").values()
    assert api["BinaryMediaTypes"] == ["*/*"]
    assert api["EndpointConfiguration"]["Types"] == ["REGIONAL"]


@each_stage
def test_the_gateway_throttles_as_the_stage_says_and_above_what_one_key_may_do(
    stages: dict[str, Synthesized], stacks: dict[str, ServiceStack], stage: str
) -> None:
    (settings,) = [
        setting
        for made in stages[stage].all("AWS::ApiGateway::Stage").values()
        for setting in made["MethodSettings"]
        if (setting["ResourcePath"], setting["HttpMethod"]) == ("/*", "*")
    ]
    limits = settings["ThrottlingRateLimit"], settings["ThrottlingBurstLimit"]
    assert limits == (stacks[stage].stage.requests_per_second, stacks[stage].stage.burst)
    assert min(limits) > 2 * max(KEY_LIMITS)
    assert not settings.get("DataTraceEnabled")


@each_stage
def test_messages_are_throttled_apart_and_above_what_one_key_may_do(
    stages: dict[str, Synthesized], stacks: dict[str, ServiceStack], stage: str
) -> None:
    (made,) = stages[stage].all("AWS::ApiGateway::Stage").values()
    apart = {
        (setting["ResourcePath"].lstrip("/").replace("~1", "/"), setting["HttpMethod"]): (
            setting["ThrottlingRateLimit"],
            setting["ThrottlingBurstLimit"],
        )
        for setting in made["MethodSettings"]
        if setting["ResourcePath"] != "/*"
    }
    expected = (stacks[stage].stage.messages_per_second, stacks[stage].stage.messages_burst)
    assert apart == dict.fromkeys([("/v1/messages", "POST"), ("/v1/conversations/{id}/messages", "POST")], expected)
    assert min(expected) > max(KEY_LIMITS)


LOGGED = {
    "requestId", "extendedRequestId", "requestTimeEpoch", "httpMethod", "resourcePath", "status", "responseLength",
    "responseLatency", "integration.status", "integration.latency", "error.responseType",
}  # fmt: skip
"""What the access log may name. `resourcePath` is a route such as /v1/customers/{id}; not `path` and `identity`
("Variables for access logging": docs.aws.amazon.com/apigateway/latest/developerguide/
api-gateway-variables-for-access-logging.html)."""


@each_stage
def test_the_access_log_is_one_json_object_a_line_without_paths_query_strings_addresses_or_credentials(
    stages: dict[str, Synthesized], stage: str
) -> None:
    (made,) = stages[stage].all("AWS::ApiGateway::Stage").values()
    line = json.loads(made["AccessLogSetting"]["Format"])
    assert line["request_id"] == "$context.requestId"
    assert {value.removeprefix("$context.") for value in line.values()} == LOGGED
    # Without the account's logging role the log stays empty.
    assert stages[stage].all("AWS::ApiGateway::Account")


@each_stage
def test_nothing_else_at_the_gateway_records_query_strings(stages: dict[str, Synthesized], stage: str) -> None:
    (made,) = stages[stage].all("AWS::ApiGateway::Stage").values()
    # A trace of the gateway has the whole URL and the client's address ("AWS X-Ray traces for Amazon API Gateway APIs":
    # docs.aws.amazon.com/apigateway/latest/developerguide/apigateway-understanding-xray-traces.html).
    assert not made.get("TracingEnabled")
    for setting in made["MethodSettings"]:
        assert setting.get("LoggingLevel", "OFF") == "OFF", "execution logs have the request's parameters"
        assert not setting.get("DataTraceEnabled")
    # Samples and logs of the firewall have URLs.
    assert "AWS::WAFv2::LoggingConfiguration" not in stages[stage].kinds
    for acl in stages[stage].all("AWS::WAFv2::WebACL").values():
        for visible in (acl, *acl["Rules"]):
            assert visible["VisibilityConfig"]["SampledRequestsEnabled"] is False


def test_the_access_log_has_a_retention_of_its_own(prod: Synthesized) -> None:
    kept = {name: group["RetentionInDays"] for name, group in prod.all("AWS::Logs::LogGroup").items()}
    (access,) = [name for name in kept if name.startswith("AccessLog")]
    assert (kept.pop(access), {*kept.values()}) == (30, {90})


def gateway_responses(stage: Synthesized) -> dict[str, Resource]:
    return {made["ResponseType"]: made for made in stage.all("AWS::ApiGateway::GatewayResponse").values()}


def test_the_gateways_own_errors_carry_the_apis_envelope(prod: Synthesized) -> None:
    for kind, response in gateway_responses(prod).items():
        assert response["ResponseTemplates"].keys() == {"application/json"}, kind
        error = json.loads(render_template(response["ResponseTemplates"]["application/json"]))["error"]
        assert error.keys() == {"type", "code", "message", "request_id", "doc_url"}, kind
        assert error["request_id"] == CONTEXT["requestId"]
        assert error["doc_url"] == f"https://api.example.com/prod/docs/errors#{error['code']}"
        assert error["message"].endswith(".")
        known = ERRORS[error["code"]]
        assert error["type"] == known.type, kind
        if kind != "DEFAULT_4XX":  # keeps the gateway's status, which may be any
            assert int(response["StatusCode"]) == known.status, kind


def test_the_gateways_own_errors_carry_the_apis_headers(prod: Synthesized) -> None:
    for kind, response in gateway_responses(prod).items():
        headers = {
            name.removeprefix("gatewayresponse.header."): value
            for name, value in response["ResponseParameters"].items()
        }
        assert headers["Service-Request-Id"] == "context.requestId", kind
        assert headers["Cache-Control"] == "'no-store'", kind
        assert all(re.fullmatch(r"context\.[A-Za-z.]+|'[^']+'", value) for value in headers.values()), kind
        throttled = response.get("StatusCode") == "429"
        assert headers["Service-Should-Retry"] == ("'true'" if throttled else "'false'"), kind
        assert ("Service-Rate-Limited-Reason" in headers) is throttled, kind
        assert ("Retry-After" in headers) is (throttled or response.get("StatusCode") == "503"), kind


@pytest.mark.parametrize(
    "kind", ["DEFAULT_5XX", "INTEGRATION_FAILURE", "INTEGRATION_TIMEOUT", "API_CONFIGURATION_ERROR"]
)
def test_a_function_that_was_throttled_failed_or_took_too_long_is_a_503_that_may_have_run(
    prod: Synthesized, kind: str
) -> None:
    response = gateway_responses(prod)[kind]
    assert response["StatusCode"] == "503"
    assert json.loads(render_template(response["ResponseTemplates"]["application/json"]))["error"]["code"] == (
        "service_unavailable"
    )
    parameters = response["ResponseParameters"]
    assert int(parameters["gatewayresponse.header.Retry-After"].strip("'")) >= 1
    assert parameters["gatewayresponse.header.Service-Should-Retry"] == "'false'"


def test_no_error_of_the_gateway_is_without_an_answer_of_ours(prod: Synthesized) -> None:
    found = gateway_responses(prod)
    assert {"DEFAULT_4XX", "DEFAULT_5XX"} <= found.keys()
    # The gateway's own statuses for these are others, or their codes say more than the default's.
    expected = {"MISSING_AUTHENTICATION_TOKEN": "404", "THROTTLED": "429", "REQUEST_TOO_LARGE": "413"}
    assert {kind: found[kind]["StatusCode"] for kind in expected} == expected


# Host name and firewall


@pytest.mark.parametrize("stage", ["guarded", "named"])
def test_a_host_name_is_the_apis_only_address(stages: dict[str, Synthesized], stage: str) -> None:
    made = stages[stage]
    (domain,) = made.all("AWS::ApiGateway::DomainName").values()
    assert domain["DomainName"] == DOMAIN_NAME
    assert domain["SecurityPolicy"] == "TLS_1_2"
    assert domain["EndpointConfiguration"] == {"Types": ["REGIONAL"]}
    (mapping,) = made.all("AWS::ApiGateway::BasePathMapping").values()
    assert not mapping.get("BasePath"), "paths begin with /v1 under it"
    (api,) = made.all("AWS::ApiGateway::RestApi").values()
    assert api["DisableExecuteApiEndpoint"] is True
    assert made.template["Outputs"][stack_names.API_OUTPUT]["Value"] == f"https://{DOMAIN_NAME}"


@pytest.mark.parametrize("stage", ["guarded", "named"])
def test_the_gateways_own_errors_name_no_stage_under_a_host_name(stages: dict[str, Synthesized], stage: str) -> None:
    for kind, response in gateway_responses(stages[stage]).items():
        error = json.loads(render_template(response["ResponseTemplates"]["application/json"]))["error"]
        assert error["doc_url"] == f"https://api.example.com/docs/errors#{error['code']}", kind


def test_with_a_hosted_zone_the_stack_makes_certificate_and_record(stages: dict[str, Synthesized]) -> None:
    made = stages["guarded"]
    ((certificate_id, certificate),) = made.all("AWS::CertificateManager::Certificate").items()
    (domain,) = made.all("AWS::ApiGateway::DomainName").values()
    (record,) = made.all("AWS::Route53::RecordSet").values()
    assert domain["RegionalCertificateArn"] == {"Ref": certificate_id}
    assert certificate["ValidationMethod"] == "DNS"
    assert [option["HostedZoneId"] for option in certificate["DomainValidationOptions"]] == [record["HostedZoneId"]]
    assert (record["Type"], record["Name"]) == ("A", f"{DOMAIN_NAME}.")
    assert "RegionalDomainName" in text(record["AliasTarget"])
    assert stack_names.DOMAIN_TARGET_OUTPUT not in made.template["Outputs"]


def test_with_a_certificate_alone_an_output_says_what_the_names_record_must_be(stages: dict[str, Synthesized]) -> None:
    made = stages["named"]
    assert not {"AWS::CertificateManager::Certificate", "AWS::Route53::RecordSet"} & made.kinds
    (domain,) = made.all("AWS::ApiGateway::DomainName").values()
    assert domain["RegionalCertificateArn"].startswith("arn:aws:acm:")
    assert "RegionalDomainName" in text(made.template["Outputs"][stack_names.DOMAIN_TARGET_OUTPUT]["Value"])


@pytest.mark.parametrize("stage", ["dev", "prod", "calls"])
def test_a_stage_without_these_settings_has_neither(stages: dict[str, Synthesized], stage: str) -> None:
    absent = {"AWS::ApiGateway::DomainName", "AWS::Route53::RecordSet"}
    assert not absent & stages[stage].kinds
    # A stage that keeps data has a firewall without a setting.
    assert ("AWS::WAFv2::WebACL" in stages[stage].kinds) is (stage != "dev")
    (api,) = stages[stage].all("AWS::ApiGateway::RestApi").values()
    assert not api.get("DisableExecuteApiEndpoint")


@pytest.mark.parametrize(
    ("stage", "requests", "messages"), [("guarded", FIREWALL["requests_per_minute"], 6_000), ("prod", 30_000, 6_000)]
)
def test_the_firewall_stands_before_the_api_and_lets_an_honest_key_through(
    stages: dict[str, Synthesized], stage: str, requests: int, messages: int
) -> None:
    made = stages[stage]
    ((acl_id, acl),) = made.all("AWS::WAFv2::WebACL").items()
    (association,) = made.all("AWS::WAFv2::WebACLAssociation").values()
    ((stage_id, _),) = made.all("AWS::ApiGateway::Stage").items()
    assert association["WebACLArn"] == {"Fn::GetAtt": [acl_id, "Arn"]}
    assert stage_id in text(association["ResourceArn"])
    assert (acl["Scope"], acl["DefaultAction"]) == ("REGIONAL", {"Allow": {}})
    rates = [rule for rule in acl["Rules"] if "RateBasedStatement" in rule["Statement"]]
    of_all, of_messages = (rule["Statement"]["RateBasedStatement"] for rule in rates)
    for rule, limit in zip(rates, (of_all, of_messages), strict=True):
        assert rule["Action"] == {"Block": {}}
        assert (limit["AggregateKeyType"], limit["EvaluationWindowSec"]) == ("IP", 60)
    assert of_all["Limit"] == requests >= REQUESTS_PER_MINUTE
    assert of_messages["Limit"] == messages >= REQUESTS_PER_MINUTE
    assert "ScopeDownStatement" not in of_all
    groups = {
        rule["Statement"]["ManagedRuleGroupStatement"]["Name"]: rule["OverrideAction"]
        for rule in acl["Rules"]
        if rule not in rates
    }
    assert groups
    assert {*map(str, groups.values())} == {"{'None': {}}"}, "the groups count only, and refuse nothing"
    # It refuses bodies of more than 8 KB; promise 2.7 takes 256.
    assert "AWSManagedRulesCommonRuleSet" not in groups
    assert len({rule["Priority"] for rule in acl["Rules"]}) == len(acl["Rules"])


@pytest.mark.parametrize("name", ["guarded", "prod"])
def test_an_address_cannot_use_up_a_route_that_has_a_limit_of_its_own(
    stages: dict[str, Synthesized], name: str
) -> None:
    stage = stages[name]
    (deployed,) = stage.all("AWS::ApiGateway::Stage").values()
    limited = {
        (each["HttpMethod"], each["ResourcePath"].replace("~1", "/")[1:]): each["ThrottlingRateLimit"]
        for each in deployed["MethodSettings"]
        if each["ResourcePath"] != "/*"
    }
    assert len(limited) == 2
    (acl,) = stage.all("AWS::WAFv2::WebACL").values()
    limits = [rule["Statement"].get("RateBasedStatement", {}) for rule in acl["Rules"]]
    (limit,) = [each for each in limits if "ScopeDownStatement" in each]
    method, path = (each for each in limit["ScopeDownStatement"]["AndStatement"]["Statements"])
    assert method["ByteMatchStatement"] == {
        "FieldToMatch": {"Method": {}},
        "PositionalConstraint": "EXACTLY",
        "SearchString": "POST",
        "TextTransformations": [{"Priority": 0, "Type": "NONE"}],
    }
    assert path["RegexMatchStatement"]["FieldToMatch"] == {"UriPath": {}}
    # Otherwise `/v1/%6Dessages` or `/v1/./messages` would not count.
    kinds = [each["Type"] for each in path["RegexMatchStatement"]["TextTransformations"]]
    assert kinds == ["URL_DECODE", "NORMALIZE_PATH"]
    pattern = re.compile(path["RegexMatchStatement"]["RegexString"])
    for (verb, route), per_second in limited.items():
        assert verb == "POST"
        assert limit["Limit"] < 60 * per_second
        # Without a host name of its own, the stage's name is the first part of the path.
        for made in (route, f"/{name}{route}", f"{route}/", route.replace("{id}", "a/b")):
            assert pattern.search(made), made
    others = {route for function in topology.FUNCTIONS for route in function.routes}
    messages = {route for _, route in limited}
    assert not [route for route in others - messages if pattern.search(route)]


# Reading templates

CONTEXT = {
    "requestId": "5d2d4b2e-6d7b-4c4a-9a36-2f4cf4a1f001",
    "domainName": "api.example.com",
    "stage": "prod",
}


def render_template(template: str) -> str:
    """A gateway response's template as API Gateway fills it in; a variable that is not known here is a KeyError."""
    return re.sub(r"\$context\.([A-Za-z]+(?:\.[A-Za-z]+)*)", lambda found: CONTEXT[found[1]], template)


def path_of(stage: Synthesized, resource: Any) -> str:
    if "Ref" not in resource:  # the API's root
        return "/"
    made = stage[resource["Ref"]]
    return f"{path_of(stage, made['ParentId']).rstrip('/')}/{made['PathPart']}"


def integration_of(method: Resource) -> str:
    """The logical id of the alias that a method hands requests to."""
    parts = [part["Ref"] for part in method["Integration"]["Uri"]["Fn::Join"][1] if "Ref" in part]
    (name,) = [part for part in parts if not part.startswith("AWS::")]
    found: str = name
    return found
