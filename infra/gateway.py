"""The REST API in front of the functions: routes, limits, access log, the gateway's own errors, host name, firewall."""

from __future__ import annotations

import json
from collections.abc import Mapping

from aws_cdk import CfnOutput, RemovalPolicy, Stack
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_route53 as route53
from aws_cdk import aws_route53_targets as targets
from aws_cdk import aws_wafv2 as waf

from infra import topology
from infra.gateway_responses import GATEWAY_RESPONSES
from infra.stack_names import DOMAIN_TARGET_OUTPUT, construct_id
from infra.stage import Domain, Firewall, Stage

ACCESS_LOG = {
    "request_id": "$context.requestId",
    "extended_request_id": "$context.extendedRequestId",
    "time": "$context.requestTimeEpoch",
    "method": "$context.httpMethod",
    "resource": "$context.resourcePath",
    "status": "$context.status",
    "bytes": "$context.responseLength",
    "milliseconds": "$context.responseLatency",
    "integration_status": "$context.integration.status",
    "integration_milliseconds": "$context.integration.latency",
    "error": "$context.error.responseType",
}
"""The access log names routes, not paths or query strings, and no addresses: a stage of API Gateway has one format for
all routes, those of the admin pages included ("Variables for access logging for API Gateway":
docs.aws.amazon.com/apigateway/latest/developerguide/api-gateway-variables-for-access-logging.html)."""

MESSAGES_PATH = r"/messages/*$"
"""The paths of the routes that have a limit of their own (`topology.Function.posts`), as AWS WAF sees them.

Under the `execute-api` address they begin with the stage's name, under a host name of the stage's own they do not
(AWS WAF developer guide, "Log examples": docs.aws.amazon.com/waf/latest/developerguide/logging-examples.html).
"""

MANAGED_RULES = ("AWSManagedRulesAmazonIpReputationList", "AWSManagedRulesKnownBadInputsRuleSet")
"""AWS's rule groups that block no legitimate JSON. The common rule group is omitted: it blocks bodies over 8 KB."""


def rest_api(
    stack: Stack, stage: Stage, functions: Mapping[str, lambda_.Alias], access_log: logs.LogGroup
) -> apigateway.RestApi:
    """The API with every route of the topology. `functions` has the topology's names as keys."""
    api = apigateway.RestApi(
        stack,
        "Api",
        rest_api_name=stack.stack_name,
        endpoint_types=[apigateway.EndpointType.REGIONAL],
        # Request bodies arrive unchanged, whatever their content type.
        binary_media_types=["*/*"],
        # API Gateway writes no logs without this role, which an account has once for all its APIs.
        cloud_watch_role=True,
        cloud_watch_role_removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
        # One entry point, so that the firewall's counts and the URLs in responses are those of the host name.
        disable_execute_api_endpoint=bool(stage.domain),
        deploy_options=apigateway.StageOptions(
            stage_name=stage.name,
            throttling_rate_limit=stage.requests_per_second,
            throttling_burst_limit=stage.burst,
            method_options={
                f"{route}/POST": apigateway.MethodDeploymentOptions(
                    throttling_rate_limit=stage.messages_per_second, throttling_burst_limit=stage.messages_burst
                )
                for function in topology.FUNCTIONS
                for route in function.posts
            },
            # A trace of the gateway has the URL with its query string, which may be a phone, and the client's address
            # ("AWS X-Ray traces for Amazon API Gateway APIs": docs.aws.amazon.com/apigateway/latest/developerguide/
            # apigateway-understanding-xray-traces.html). The functions' traces have neither.
            tracing_enabled=False,
            access_log_destination=apigateway.LogGroupLogDestination(access_log),
            access_log_format=apigateway.AccessLogFormat.custom(json.dumps(ACCESS_LOG)),
        ),
    )
    # The construct's own output of the address has a hash in its name. The stack has the output ApiUrl instead.
    api.node.try_remove_child("Endpoint")
    for function in topology.FUNCTIONS:
        # One permission for all routes, because one for each would exceed the size limit of the function's policy.
        integration = apigateway.LambdaIntegration(functions[function.name], scope_permission_to_method=False)
        for method, routes in (("ANY", function.routes), ("POST", function.posts)):
            for route in routes:
                api.root.resource_for_path(route).add_method(method, integration)
    for response in GATEWAY_RESPONSES:
        api.add_gateway_response(
            construct_id(response.kind),
            type=apigateway.ResponseType.of(response.kind),
            status_code=str(response.status) if response.status else None,
            response_headers=response.header_mappings(),
            templates={"application/json": response.body(at_root=bool(stage.domain))},
        )
    if stage.domain:
        _name(stack, stage.domain, api)
    if stage.wall:
        _protect(stack, stage.wall, api)
    return api


def url(stage: Stage, api: apigateway.RestApi) -> str:
    """The API's base URL, without a slash at the end."""
    return f"https://{stage.domain.name}" if stage.domain else api.url.removesuffix("/")


def address(stage: Stage, api: apigateway.RestApi) -> str:
    """The same for the functions, on which the API's deployment depends: it does not refer to that deployment."""
    if stage.domain:
        return f"https://{stage.domain.name}"
    stack = Stack.of(api)
    return f"https://{api.rest_api_id}.execute-api.{stack.region}.{stack.url_suffix}/{stage.name}"


def _name(stack: Stack, settings: Domain, api: apigateway.RestApi) -> None:
    """Give the API its host name. If the stage names no hosted zone, the owner of the name creates the DNS record."""
    zone = None
    if settings.hosted_zone_id and settings.hosted_zone_name:
        zone = route53.HostedZone.from_hosted_zone_attributes(
            stack, "Zone", hosted_zone_id=settings.hosted_zone_id, zone_name=settings.hosted_zone_name
        )
    certificate: acm.ICertificate
    if settings.certificate_arn:
        certificate = acm.Certificate.from_certificate_arn(stack, "Certificate", settings.certificate_arn)
    else:
        certificate = acm.Certificate(
            stack,
            "Certificate",
            domain_name=settings.name,
            validation=acm.CertificateValidation.from_dns(zone),
        )
    domain = api.add_domain_name(
        "Domain",
        domain_name=settings.name,
        certificate=certificate,
        endpoint_type=apigateway.EndpointType.REGIONAL,
        security_policy=apigateway.SecurityPolicy.TLS_1_2,
    )
    if zone:
        route53.ARecord(
            stack,
            "DomainRecord",
            zone=zone,
            record_name=f"{settings.name}.",
            target=route53.RecordTarget.from_alias(targets.ApiGatewayDomain(domain)),
        )
    else:
        CfnOutput(
            stack,
            DOMAIN_TARGET_OUTPUT,
            description=f"The value for the CNAME record of {settings.name}",
            value=domain.domain_name_alias_domain_name,
        )


def _protect(stack: Stack, settings: Firewall, api: apigateway.RestApi) -> None:
    """AWS WAF: blocks addresses above the limit, addresses with a bad reputation, and well-known attacks."""

    def visible(name: str) -> waf.CfnWebACL.VisibilityConfigProperty:
        return waf.CfnWebACL.VisibilityConfigProperty(
            cloud_watch_metrics_enabled=True, metric_name=f"{stack.stack_name}-{name}", sampled_requests_enabled=False
        )

    rates = [
        waf.CfnWebACL.RuleProperty(
            name=name,
            priority=number,
            action=waf.CfnWebACL.RuleActionProperty(block={}),
            statement=waf.CfnWebACL.StatementProperty(
                rate_based_statement=waf.CfnWebACL.RateBasedStatementProperty(
                    aggregate_key_type="IP", limit=limit, evaluation_window_sec=60, scope_down_statement=counted
                )
            ),
            visibility_config=visible(metric),
        )
        for number, (name, metric, limit, counted) in enumerate(
            (
                ("RequestsOfOneAddress", "requests-of-one-address", settings.requests_per_minute, None),
                ("MessagesOfOneAddress", "messages-of-one-address", settings.messages_per_minute, _is_message()),
            )
        )
    ]
    managed = [
        waf.CfnWebACL.RuleProperty(
            name=name,
            priority=number,
            override_action=waf.CfnWebACL.OverrideActionProperty(none={}),
            statement=waf.CfnWebACL.StatementProperty(
                managed_rule_group_statement=waf.CfnWebACL.ManagedRuleGroupStatementProperty(
                    vendor_name="AWS", name=name
                )
            ),
            visibility_config=visible(name),
        )
        for number, name in enumerate(MANAGED_RULES, start=len(rates))
    ]
    acl = waf.CfnWebACL(
        stack,
        "Firewall",
        scope="REGIONAL",
        default_action=waf.CfnWebACL.DefaultActionProperty(allow={}),
        rules=[*rates, *managed],
        visibility_config=visible("firewall"),
    )
    waf.CfnWebACLAssociation(
        stack, "FirewallOfApi", resource_arn=api.deployment_stage.stage_arn, web_acl_arn=acl.attr_arn
    )


def _is_message() -> waf.CfnWebACL.StatementProperty:
    """Matches what API Gateway may route to one of the routes of `MESSAGES_PATH`.

    The path is decoded first, since API Gateway may decode it, too: an encoded letter would avoid the limit.
    """

    def transformed(*kinds: str) -> list[waf.CfnWebACL.TextTransformationProperty]:
        return [waf.CfnWebACL.TextTransformationProperty(priority=n, type=kind) for n, kind in enumerate(kinds)]

    method = waf.CfnWebACL.ByteMatchStatementProperty(
        field_to_match=waf.CfnWebACL.FieldToMatchProperty(method={}),
        positional_constraint="EXACTLY",
        search_string="POST",
        text_transformations=transformed("NONE"),
    )
    path = waf.CfnWebACL.RegexMatchStatementProperty(
        field_to_match=waf.CfnWebACL.FieldToMatchProperty(uri_path={}),
        regex_string=MESSAGES_PATH,
        text_transformations=transformed("URL_DECODE", "NORMALIZE_PATH"),
    )
    return waf.CfnWebACL.StatementProperty(
        and_statement=waf.CfnWebACL.AndStatementProperty(
            statements=[
                waf.CfnWebACL.StatementProperty(byte_match_statement=method),
                waf.CfnWebACL.StatementProperty(regex_match_statement=path),
            ]
        )
    )
