from __future__ import annotations

from pathlib import Path
from typing import Any

import botocore.session
import certifi
import pytest
from botocore.endpoint_provider import EndpointProvider
from cryptography import x509

from shared.aws import client as aws_client
from shared.aws.client import DYNAMODB, KMS, SQS, STEP_FUNCTIONS, AwsService

LOADER: Any = botocore.session.get_session().get_component("data_loader")
PARTITIONS = LOADER.load_data("partitions")
REGIONS = [
    region
    for part in PARTITIONS["partitions"]
    if part["outputs"]["dnsSuffix"] == "amazonaws.com"
    for region in part["regions"]
    if not region.endswith("-global")
]
OTHER_REGIONS = ["cn-north-1", "eusc-de-east-1", "us-iso-east-1", "us-isob-east-1", "eu-isoe-west-1", "us-isof-south-1"]


@pytest.mark.parametrize("service", [DYNAMODB, SQS, STEP_FUNCTIONS, KMS], ids=lambda service: service.name)
def test_the_endpoint_of_every_region_of_amazonaws_com_is_botocores(service: AwsService) -> None:
    rules = EndpointProvider(LOADER.load_service_model(service.name, "endpoint-rule-set-1"), PARTITIONS)
    assert len(REGIONS) > 30
    for region in REGIONS:
        expected = rules.resolve_endpoint(Region=region, UseFIPS=False, UseDualStack=False).url
        assert aws_client.endpoint(service, region) == expected


@pytest.mark.parametrize("service", [DYNAMODB, SQS, STEP_FUNCTIONS, KMS], ids=lambda service: service.name)
def test_the_names_of_a_service_are_those_of_its_model(service: AwsService) -> None:
    model = LOADER.load_service_model(service.name, "service-2")["metadata"]
    assert service.target == model["targetPrefix"]
    assert service.version == model["jsonVersion"]
    assert service.endpoint == model["endpointPrefix"]
    assert service.variable == model["serviceId"].upper()
    assert "json" in model["protocols"]


def test_the_environment_names_an_endpoint_for_a_service_or_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://all")
    monkeypatch.setenv("AWS_ENDPOINT_URL_SFN", "http://machines")
    assert aws_client.endpoint(STEP_FUNCTIONS, "eu-central-1") == "http://machines"
    assert aws_client.endpoint(DYNAMODB, "eu-central-1") == "http://all"


@pytest.mark.parametrize("region", ["", "evil.example/", "a.b", "EU-CENTRAL-1", "x@y", *OTHER_REGIONS])
def test_a_region_of_another_domain_is_refused(region: str) -> None:
    with pytest.raises(ValueError, match="not a region"):
        aws_client.endpoint(DYNAMODB, region)


def test_without_a_region_nothing_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(LookupError):
        aws_client.region()
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    assert aws_client.region() == "eu-west-1"


# Another of certifi's certificates has such a number.
@pytest.mark.filterwarnings("ignore:Parsed a serial number")
def test_the_roots_are_amazons_five_as_certifi_has_them() -> None:
    ours = x509.load_pem_x509_certificates(Path(aws_client.__file__).with_name("amazon_roots.pem").read_bytes())
    assert [certificate.subject.rfc4514_string().partition(",")[0] for certificate in ours] == [
        *(f"CN=Amazon Root CA {number}" for number in (1, 2, 3, 4)),
        "CN=Starfield Services Root Certificate Authority - G2",
    ]
    assert {*ours} <= {*x509.load_pem_x509_certificates(Path(certifi.where()).read_bytes())}
