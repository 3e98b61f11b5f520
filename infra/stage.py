"""A stage's settings: an entry of `stages` in cdk.json, validated before any resource is created."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from aws_cdk import RemovalPolicy
from aws_cdk import aws_logs as logs
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from infra import topology
from infra.stack_names import RUNNER
from shared.core import limits

INFERENCE_GEOGRAPHIES = frozenset({"apac", "au", "ca", "eu", "global", "jp", "us", "us-gov"})
"""Prefixes of cross-region inference profile ids (Bedrock user guide, "Geographic cross-Region inference")."""


class BadSetting(Exception):
    """A setting of a stage in cdk.json is missing, unknown or invalid."""


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    def _require(self, group: str, *keys: str) -> None:
        """Require at least one of the keys. Raises ValueError."""
        if not any(getattr(self, key) for key in keys):
            raise ValueError(f"{group} lacks {' or '.join(keys)}")


Text = Annotated[str, StringConstraints(min_length=1)]
Account = Annotated[str, StringConstraints(pattern=r"^[0-9]{12}$")]
Region = Annotated[str, StringConstraints(pattern=r"^[a-z]{2}(-[a-z]+)+-[0-9]$")]
HostName = Annotated[str, StringConstraints(pattern=r"^([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}$")]


class Connect(_Settings):
    """Live calls by Amazon Connect. With `create_flow`, the stack creates the contact flow; omit `contact_flow_id`.

    Without `record_calls`, that flow does not record, and the agent does not say that the call is recorded.

    `active_calls` and `starts_per_second` limit the calls of all projects together, to the quotas of the instance and
    the account.
    """

    instance_id: Text
    contact_flow_id: Text | None = None
    queue_id: Text | None = None
    source_phone_number: Text | None = None
    create_flow: bool = False
    record_calls: bool = True
    store_recordings: bool = False
    active_calls: int = Field(default=limits.CONNECT_ACTIVE_CALLS, ge=1, le=2_000)
    starts_per_second: int = Field(default=limits.CONNECT_STARTS_PER_SECOND, ge=1, le=100)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        self._require("connect", "queue_id", "source_phone_number")
        self._require("connect", "contact_flow_id", "create_flow")
        if self.contact_flow_id and self.create_flow:
            raise ValueError("connect has both contact_flow_id and create_flow")
        return self


class Whatsapp(_Settings):
    """Requests for consent on WhatsApp, by End User Messaging Social."""

    phone_number_id: Text
    template: Text | None = None
    meta_api_version: Text | None = None
    dial: Literal["phone"] | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.dial and not self.template:
            raise ValueError("whatsapp.dial needs whatsapp.template")
        return self


class Oidc(_Settings):
    """The OpenID Connect provider of the admin pages, instead of a Cognito user pool of the stack.

    `client_secret_arn` is the ARN of a secret in Secrets Manager whose text is the client's secret; a client without
    one is public.
    """

    issuer: Annotated[str, StringConstraints(pattern=r"^https://[^\s?#]+$")]
    client_id: Text
    client_secret_arn: (
        Annotated[str, StringConstraints(pattern=r"^arn:[a-z-]+:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:.+-.{6}$")]
        | None
    ) = None


class Domain(_Settings):
    """The API's own host name, with a certificate, or with the hosted zone in which to create one."""

    name: HostName
    certificate_arn: Annotated[str, StringConstraints(pattern=r"^arn:[a-z-]+:acm:")] | None = None
    hosted_zone_id: Text | None = None
    hosted_zone_name: HostName | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        self._require("domain", "certificate_arn", "hosted_zone_id")
        if bool(self.hosted_zone_id) is not bool(self.hosted_zone_name):
            raise ValueError("domain lacks hosted_zone_id or hosted_zone_name, which go together")
        if self.hosted_zone_name and not f".{self.name}".endswith(f".{self.hosted_zone_name}"):
            raise ValueError(f"domain.name is not in the zone {self.hosted_zone_name}")
        return self


class Throughput(_Settings):
    """Units per second that DynamoDB accepts from the start. A new table or index accepts at least the minimum."""

    reads: int = Field(ge=12_000)
    writes: int = Field(ge=4_000)


class Backup(_Settings):
    """Nightly backups of the table, kept for `days`, and copies in another region.

    With `lock`, nobody can delete a copy before that without a permission of its own.
    """

    region: Region
    days: int = Field(default=35, ge=1, le=36_500)
    lock: bool = False


class Firewall(_Settings):
    """AWS WAF. Its limits are those of one IP address, and never below that of one API key.

    - `requests_per_minute`: by default that of six API keys.
    - `messages_per_minute`: of the routes that receive messages, together.
    """

    requests_per_minute: int = Field(
        default=6 * limits.REQUESTS_PER_MINUTE, ge=limits.REQUESTS_PER_MINUTE, le=2_000_000_000
    )
    messages_per_minute: int = Field(default=6_000, ge=limits.REQUESTS_PER_MINUTE, le=2_000_000_000)


LONGEST_NAME_WITH_BACKUP = 22
"""The longest name of a stage with which `ledger_copy_name` has at most 63 characters in any region."""
SigningKey = Annotated[str, StringConstraints(pattern=r"^arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:key/mrk-[0-9a-f]{32}$")]
TopicArn = Annotated[str, StringConstraints(pattern=r"^(arn:[a-z-]+:sns:.+)?$")]
Email = Annotated[str, StringConstraints(pattern=r"^([^@\s]+@[^@\s]+\.[^@\s]+)?$")]
SupportContact = Annotated[
    str, StringConstraints(pattern=r"^(https://[^\s<>\"]+|[^@\s<>\":]+@[^@\s<>\":]+\.[^@\s<>\":]+)$")
]
TrafficShift = Annotated[
    str,
    StringConstraints(pattern=r"^(Canary10Percent(5|10|15|30)Minutes|Linear10PercentEvery(1Minute|(2|3|10)Minutes))$"),
]
"""A predefined deployment configuration of CodeDeploy, without the prefix `CodeDeployDefault.Lambda`."""


def _retention(name: str, info: ValidationInfo) -> str:
    if name not in logs.RetentionDays.__members__:
        raise ValueError(f"{info.field_name} must be one of {', '.join(logs.RetentionDays.__members__)}")
    return name


def _not_the_runner(name: str) -> str:
    if name == RUNNER:
        raise ValueError(f"name: {RUNNER!r} is the name of the local runner in infra.manage")
    return name


def _variables(**values: str | float | None) -> dict[str, str]:
    """Environment variables with these values, without those that have none."""
    return {name: str(value) for name, value in values.items() if value is not None}


class Stage(_Settings):
    """The settings of one deployment.

    - `account`, `region`: the only place to which the stage is deployed.
    - `keep_data`: protects the stack and its table from deletion, and keeps the table, the signing key and the logs.
    - `requests_per_second`, `burst`: limits of all projects together, above those of one key. API Gateway applies the
      limits of a stage to each method.
    - `messages_per_second`, `messages_burst`: limits of each of the routes that receive messages.
    - `turns_per_project`: live messages of one project that may be under way at once, at most half of the reserved
      concurrency of `messages`.
    - `search`: finds people and appointments by the beginning of words, and by the end of phones.
    - `reserved_concurrency`: by function.
    - `warm_throughput`: by `table` and the names of its indexes.
    - `due_shards`: the number of partitions of the index `by_due`, each of which accepts 1,000 writes per second.
    - `log_retention`, `access_log_retention`: names of the CDK's `RetentionDays`.
    - `model`: the id of the Bedrock model, or cross-region inference profile, of live conversations.
    - `alarm_topic`: the ARN of the SNS topic that alarms notify. `alarm_email`: instead, the address that the stack
      subscribes to a new topic. `later_topic`, `later_email`: the same for alarms that can wait, by default the former.
    - `webhook_notices`: sends notices of failing webhook endpoints to the topic of alarms that can wait.
    - `monthly_budget`: in US dollars.
    - `firewall`: by default, a stage that keeps data has one; `null` turns it off.
    - `replica_region`: the region of a replica of the table, which must be that of the copies.
    - `signing_key`: the ARN of a replica of the signing key, for a stage whose region was lost.
    - `canary`: tests the stage every five minutes.
    - `request_log`: stores the API requests of the last day for the admin pages, from their log lines.
    - `support_contact`: where clients reach the operator, an e-mail address or an https URL, for the documentation.
    - `terms_url`: the terms of service, an https URL, for the API description.
    - `traffic_shift`: shifts requests gradually to new versions of the functions.
    """

    # Part of names that allow 64 characters, and neither dots nor underscores.
    name: Annotated[
        str,
        StringConstraints(pattern=r"^[A-Za-z0-9]+(-[A-Za-z0-9]+)*$", max_length=32),
        AfterValidator(_not_the_runner),
    ]
    account: Account | None = None
    region: Region | None = None
    keep_data: bool
    log_retention: Annotated[str, AfterValidator(_retention)]
    access_log_retention: Annotated[str, AfterValidator(_retention)] = "ONE_MONTH"
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
    requests_per_second: int = Field(gt=2 * limits.REQUESTS_PER_SECOND)
    burst: int = Field(gt=2 * limits.REQUESTS_PER_SECOND)
    model: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]+(\.[a-z0-9:-]+)+$")]
    alarm_topic: TopicArn = ""
    alarm_email: Email = ""
    later_topic: TopicArn = ""
    later_email: Email = ""
    webhook_notices: bool = False
    messages_per_second: int = Field(gt=limits.REQUESTS_PER_SECOND)
    messages_burst: int = Field(gt=limits.REQUESTS_PER_SECOND)
    turns_per_project: int = Field(default=limits.TURNS_PER_PROJECT, ge=1, le=1_000)
    search: bool = True
    reserved_concurrency: dict[str, Annotated[int, Field(ge=1, le=100_000)]] = {}
    warm_throughput: dict[str, Throughput] = {}
    canary: bool = False
    request_log: bool = False
    due_shards: int = Field(default=topology.DUE_SHARDS, ge=1, le=limits.MAX_DUE_SHARDS)
    monthly_budget: Annotated[int, Field(ge=1)] | None = None
    support_contact: SupportContact | None = None
    terms_url: Annotated[str, StringConstraints(pattern=r"^https://[^\s<>\"]+$")] | None = None
    traffic_shift: TrafficShift | None = None
    backup: Backup | None = None
    replica_region: Region | None = None
    signing_key: SigningKey | None = None
    connect: Connect | None = None
    whatsapp: Whatsapp | None = None
    domain: Domain | None = None
    firewall: Firewall | None = None
    oidc: Oidc | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        for kind in ("alarm", "later"):
            if getattr(self, f"{kind}_topic") and getattr(self, f"{kind}_email"):
                raise ValueError(f"it has both {kind}_topic and {kind}_email")
        if bool(self.account) is not bool(self.region):
            raise ValueError("it lacks account or region, which go together")
        if self.backup and self.backup.region == self.region:
            raise ValueError("backup.region is the stage's own; use another region for the copies")
        for setting in ("monthly_budget", "later_topic", "later_email", "webhook_notices"):
            if getattr(self, setting) and not self.keep_data:
                self._require(f"it has {setting} and", "alarm_topic", "alarm_email")
        if self.request_log and self.log_level not in ("DEBUG", "INFO"):
            raise ValueError("request_log needs the log_level INFO, because it reads the lines of requests")
        self._check_firewall()
        self._check_copies()
        self._check_reserved()
        if unknown := self.warm_throughput.keys() - {"table", *(index.name for index in topology.TABLE.indexes)}:
            raise ValueError(f"warm_throughput names neither the table nor an index: {', '.join(sorted(unknown))}")
        return self

    def _check_firewall(self) -> None:
        """No address may send as much as the stage, or its routes of messages, accept of all addresses together."""
        for kind in ("requests", "messages"):
            accepted = 60 * getattr(self, f"{kind}_per_second")
            if self.wall and getattr(self.wall, f"{kind}_per_minute") >= accepted:
                raise ValueError(f"firewall.{kind}_per_minute must be less than {accepted}, 60 times {kind}_per_second")

    def _check_copies(self) -> None:
        if self.backup and len(self.name) > LONGEST_NAME_WITH_BACKUP:
            raise ValueError(f"a stage with backups has a name of at most {LONGEST_NAME_WITH_BACKUP} characters")
        if self.replica_region:
            self._require("it has replica_region and", "region")
            if self.backup is None or self.replica_region != self.backup.region:
                raise ValueError("replica_region must be backup.region, where the copies of key and ledger are")

    def _check_reserved(self) -> None:
        """Each reservation names a function. If there are any, every function that could starve others needs one.

        One project may use at most half of the executions of a function that waits for the agent in a request.
        """
        if not self.reserved_concurrency:
            return
        functions = {function.name: function for function in topology.FUNCTIONS}
        if unknown := self.reserved_concurrency.keys() - functions:
            raise ValueError(f"reserved_concurrency names no function: {', '.join(sorted(unknown))}")
        for name, function in functions.items():
            reserved = self.reserved_concurrency.get(name)
            if reserved is None and (function.queues or function.stream or function.posts):
                raise ValueError(f"reserved_concurrency lacks {name}")
            if reserved is not None and function.posts and 2 * self.turns_per_project > reserved:
                raise ValueError(f"turns_per_project is more than half of reserved_concurrency.{name}")
            least = sum(source.concurrency for source in function.queues)
            if reserved is not None and reserved < least:
                raise ValueError(f"reserved_concurrency.{name} is less than the concurrency of its queues, {least}")

    def runs(self, function: topology.Function) -> bool:
        """Whether the function's schedule is on."""
        return bool(function.every_s) and (not function.switch or bool(getattr(self, function.switch)))

    @property
    def wall(self) -> Firewall | None:
        """The firewall in front of the API; None if the stage has none."""
        return Firewall() if self.keep_data and "firewall" not in self.model_fields_set else self.firewall

    @property
    def creates_flow(self) -> bool:
        """Whether the stack creates the Lex bot and the contact flow."""
        return bool(self.connect and self.connect.create_flow)

    @property
    def carrier(self) -> Mapping[str, str]:
        """The environment variables of functions that have to do with live calls."""
        connect, dial = self.connect, _variables(WHATSAPP_DIAL=self.whatsapp.dial if self.whatsapp else None)
        if connect is None:
            return dial
        return dial | _variables(
            CONNECT_INSTANCE_ID=connect.instance_id,
            CONNECT_CONTACT_FLOW_ID=connect.contact_flow_id,
            CONNECT_QUEUE_ID=connect.queue_id,
            CONNECT_SOURCE_PHONE_NUMBER=connect.source_phone_number,
            CONNECT_RECORD_CALLS=int(connect.record_calls),
            CONNECT_ACTIVE_CALLS=connect.active_calls,
            CONNECT_STARTS_PER_SECOND=connect.starts_per_second,
        )

    @property
    def messenger(self) -> Mapping[str, str]:
        """The environment variables of functions that send WhatsApp messages."""
        if self.whatsapp is None:
            return {}
        return _variables(
            WHATSAPP_PHONE_NUMBER_ID=self.whatsapp.phone_number_id,
            WHATSAPP_TEMPLATE=self.whatsapp.template,
            WHATSAPP_META_API_VERSION=self.whatsapp.meta_api_version,
            WHATSAPP_DIAL=self.whatsapp.dial,
        )

    @property
    def sign_in(self) -> Mapping[str, str]:
        """The environment variables of functions to which people sign in. For a user pool, `stack.py` sets others."""
        if self.oidc is None:
            return {}
        return _variables(
            OIDC_ISSUER=self.oidc.issuer,
            OIDC_CLIENT_ID=self.oidc.client_id,
            OIDC_CLIENT_SECRET_ID=self.oidc.client_secret_arn,
        )

    @property
    def removal(self) -> RemovalPolicy:
        """The removal policy of stored data. A first deploy that fails deletes in any case what it created."""
        return RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if self.keep_data else RemovalPolicy.DESTROY


OF_OWNER = (("account",), ("region",), ("alarm_topic", "alarm_email"), ("backup",))
"""What a stage that keeps data needs and only its owner knows: one setting of each group."""
GROUPS: Mapping[str, type[_Settings]] = {
    "connect": Connect,
    "whatsapp": Whatsapp,
    "domain": Domain,
    "firewall": Firewall,
    "oidc": Oidc,
    "backup": Backup,
}
"""The groups of settings, all optional."""


def parse(name: str, settings: Any) -> Stage:
    """The stage of this name, from its settings in JSON. Raises BadSetting, which names everything that is wrong."""
    if not isinstance(settings, Mapping):
        raise BadSetting(f"stage {name}: its settings must be an object")
    problems, made = [], None
    try:
        # Validated as JSON: in strict mode, pydantic accepts no dict for a model in Python input.
        made = Stage.model_validate_json(json.dumps({**settings, "name": name}))
    except ValidationError as refused:
        problems = [_in_words(error["type"], error["loc"], error["msg"]) for error in refused.errors()]
    missing = [" or ".join(keys) for keys in OF_OWNER if not any(settings.get(key) for key in keys)]
    if missing and settings.get("keep_data") is True:
        problems.append(f"it keeps data and lacks {', '.join(missing)}")
    if made is None or problems:
        raise BadSetting(f"stage {name}: {'; '.join(problems)}")
    return made


def _in_words(kind: str, where: tuple[int | str, ...], message: str) -> str:
    """One line about an error of pydantic's."""
    path = [str(part) for part in where]
    group, setting = " ".join(path[:-1]), path[-1] if path else ""
    if kind == "missing":
        return f"{group} lacks {setting}".strip()
    if kind == "extra_forbidden":
        known = GROUPS.get(group, Stage).model_fields.keys() - {"name" if not group else ""}
        return f"{group or 'it'} has no setting {setting!r}; its settings are {', '.join(sorted(known))}"
    if kind == "value_error":
        return message.removeprefix("Value error, ")
    return f"{'.'.join(path)} {re.sub('^(Input|String) ', '', message)}"
