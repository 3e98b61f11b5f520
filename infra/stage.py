"""What may differ between deployments: an entry of `stages` in cdk.json, checked before anything is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from aws_cdk import RemovalPolicy

Setting = str | bool | int

CARRIER_SETTINGS = ("instance_id", "contact_flow_id", "queue_id", "source_phone_number")
"""What the functions read of a stage's `connect` settings."""

GROUPS: Mapping[str, Mapping[str, type]] = {
    "connect": dict.fromkeys(CARRIER_SETTINGS, str) | {"create_flow": bool, "store_recordings": bool},
    "whatsapp": {"phone_number_id": str, "template": str, "meta_api_version": str},
    "domain": {"name": str, "certificate_arn": str, "hosted_zone_id": str, "hosted_zone_name": str},
    "firewall": {"requests_per_minute": int},
}
"""The settings that come in groups, each of which a stage may lack: their names and types."""

REQUESTS_OF_A_KEY = 5000
"""What one API key may ask for in a minute (contract 3)."""


class BadSetting(Exception):
    """A stage's settings in cdk.json lack something, or hold what nobody reads."""


@dataclass(frozen=True)
class Stage:
    """The settings of one deployment: an entry of `stages` in cdk.json.

    `keep_data` protects table, signing key and logs from deletion; `requests_per_second` and `burst`
    bound all projects together, far above what one key may ask for; `log_retention` is a name of
    the CDK's `RetentionDays`; `model` is the Bedrock model, or cross-region inference profile, of live
    conversations; `alarm_topic` is the ARN of the SNS topic that alarms notify, empty for none.

    The groups are empty where a stage has no such thing. `connect` and `whatsapp` are for live calls and for
    consent on WhatsApp; in `connect` the switch `create_flow` makes the contact flow, which is then not to
    be named, and `store_recordings` makes the instance keep its recordings in the stage's bucket. `domain` is the
    API's own host name, with a certificate or the hosted zone to make one in. `firewall` puts AWS WAF before the
    API; its `requests_per_minute` are those that one address may make.
    """

    name: str
    keep_data: bool
    log_retention: str
    log_level: str
    requests_per_second: int
    burst: int
    model: str
    alarm_topic: str = ""
    connect: Mapping[str, Setting] = field(default_factory=dict)
    whatsapp: Mapping[str, str] = field(default_factory=dict)
    domain: Mapping[str, str] = field(default_factory=dict)
    firewall: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises BadSetting."""
        for group, kinds in GROUPS.items():
            self._check(group, getattr(self, group), kinds)
        if self.connect:
            self._require("connect", "instance_id")
            self._require("connect", "queue_id", "source_phone_number")
            if not self.creates_flow:
                self._require("connect", "contact_flow_id", "create_flow")
            elif "contact_flow_id" in self.connect:
                raise self._bad("connect has both contact_flow_id and create_flow")
        if self.whatsapp:
            self._require("whatsapp", "phone_number_id")
        if self.domain:
            self._require("domain", "name")
            self._require("domain", "certificate_arn", "hosted_zone_id")
            if self.domain.get("hosted_zone_id"):
                self._require("domain", "hosted_zone_name")
        if self.firewall:
            self._require("firewall", "requests_per_minute")
            if self.firewall["requests_per_minute"] < REQUESTS_OF_A_KEY:
                raise self._bad(f"firewall.requests_per_minute is less than one key may ask for, {REQUESTS_OF_A_KEY}")

    def _check(self, group: str, given: Mapping[str, object], kinds: Mapping[str, type]) -> None:
        for key, value in given.items():
            if key not in kinds:
                raise self._bad(f"{group} has no setting {key!r}; there are {', '.join(kinds)}")
            # Not isinstance: a bool is an int to it.
            if type(value) is not kinds[key]:
                raise self._bad(f"{group}.{key} must be of type {kinds[key].__name__}")

    def _require(self, group: str, *keys: str) -> None:
        """At least one of the keys."""
        if not any(getattr(self, group).get(key) for key in keys):
            raise self._bad(f"{group} lacks {' or '.join(keys)}")

    def _bad(self, problem: str) -> BadSetting:
        return BadSetting(f"stage {self.name}: {problem}")

    @property
    def creates_flow(self) -> bool:
        return bool(self.connect.get("create_flow"))

    @property
    def carrier(self) -> Mapping[str, str]:
        """What the functions are told of `connect`."""
        return {key: str(value) for key, value in self.connect.items() if key in CARRIER_SETTINGS}

    @property
    def removal(self) -> RemovalPolicy:
        return RemovalPolicy.RETAIN if self.keep_data else RemovalPolicy.DESTROY
