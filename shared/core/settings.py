"""What a function is configured by. No other module of `shared` or `functions` reads environment variables.

Each is read when it is asked for. One that is missing and has no default is a KeyError. A switch is 1 or 0. Unless a
docstring names another, `Function.environment` in `infra/topology.py` sets the variable; the operator's commands
(`infra.manage`) set those that they need.

AWS's own variables are the exception. `shared/aws/client.py` and `shared/aws/credentials.py` read credentials, region,
endpoints and certificates by the names that all of AWS's SDKs use, and whether they run in Lambda.
"""

from __future__ import annotations

import os

from shared.core import limits

# What every function has


def service_name() -> str:
    """The function's name in `infra/topology.py`, which is that of its module. Empty in the operator's commands."""
    return os.environ.get("SERVICE_NAME", "")


def table_name() -> str:
    """The name of the DynamoDB table."""
    return os.environ["TABLE_NAME"]


def due_shards() -> int:
    """How many partitions of the index `by_due` are written to, 1 to 64."""
    return int(os.environ["DUE_SHARDS"])


def search_is_on() -> bool:
    """Whether the stage has search rows (`shared/resources/search.py`); by default it has."""
    return os.environ.get("SEARCH", "1") == "1"


def log_level() -> str:
    """The lowest level of lines in the log, by default INFO. `infra/stack.py` sets it to that of the stage."""
    return os.environ.get("LOG_LEVEL") or "INFO"


def trace_header() -> str:
    """The trace of this invocation, `Root=1-5759e988-…;Parent=…;Sampled=1`. Lambda sets it; empty elsewhere."""
    return os.environ.get("_X_AMZN_TRACE_ID", "")


# Resources that only some functions use


def queue_url(name: str) -> str:
    """The URL of a queue, by its name in `infra/topology.py`."""
    return os.environ[f"QUEUE_{name.upper()}"]


def queue_of(arn: str) -> str | None:
    """The name in `infra/topology.py` of a queue that this function uses, by its ARN; None for another queue."""
    generated = arn.rpartition(":")[2]
    for name in os.environ:
        if name.startswith("QUEUE_") and os.environ[name].rpartition("/")[2] == generated:
            return name.removeprefix("QUEUE_").lower()
    return None


def state_machine_arn(name: str) -> str:
    """The ARN of a state machine, by its name in `infra/topology.py`."""
    return os.environ[f"STATE_MACHINE_{name.upper()}"]


def signing_key() -> str:
    """The id or ARN of the KMS key that encrypts signing secrets."""
    return os.environ["SIGNING_KEY"]


def recordings_bucket() -> str:
    """The name of the bucket of recordings of calls."""
    return os.environ["RECORDINGS_BUCKET"]


def failed_batches_bucket() -> str:
    """The name of the bucket of failed batches of the table's stream."""
    return os.environ["FAILED_BATCHES_BUCKET"]


def erasures_bucket() -> str:
    """The name of the bucket of the ledger of erasures and opt-outs."""
    return os.environ["ERASURES_BUCKET"]


def notices_topic_arn() -> str | None:
    """The ARN of the SNS topic for notices of failing webhook endpoints; None without the setting `webhook_notices`."""
    return os.environ.get("NOTICES_TOPIC_ARN")


def base_url() -> str:
    """The API's URL, which the canary calls. On a deployed stage, `infra/stack.py` sets it."""
    return os.environ["BASE_URL"]


# The agent and live calls


def turns_per_project() -> int:
    """How many live messages of one project may be under way at once."""
    return int(os.environ.get("TURNS_PER_PROJECT", limits.TURNS_PER_PROJECT))


def model_id() -> str | None:
    """The id of the Bedrock model or inference profile; None on a stage without one."""
    return os.environ.get("MODEL_ID")


def connect_instance_id() -> str:
    """The id of the Amazon Connect instance; empty on a stage without live calls."""
    return os.environ.get("CONNECT_INSTANCE_ID", "")


def connect_contact_flow_id() -> str:
    """The id of the flow that live calls run, or empty. If the stack creates the flow, `infra/stack.py` sets it."""
    return os.environ.get("CONNECT_CONTACT_FLOW_ID", "")


def connect_queue_id() -> str | None:
    """The id of the queue that live calls come from; None if they come from a number."""
    return os.environ.get("CONNECT_QUEUE_ID") or None


def connect_source_phone_number() -> str | None:
    """The number that live calls come from, in E.164; None if it is that of the queue."""
    return os.environ.get("CONNECT_SOURCE_PHONE_NUMBER") or None


def records_calls() -> bool:
    """Whether the stage's contact flow records live calls, as by default: the agent says so first."""
    return os.environ.get("CONNECT_RECORD_CALLS", "1") == "1"


def connect_active_calls() -> int:
    """How many live calls the stage may have at once, by default Amazon Connect's quota."""
    return int(os.environ.get("CONNECT_ACTIVE_CALLS") or limits.CONNECT_ACTIVE_CALLS)


def connect_starts_per_second() -> float:
    """How many live calls the stage may start in a second, by default Amazon Connect's quota."""
    return float(os.environ.get("CONNECT_STARTS_PER_SECOND") or limits.CONNECT_STARTS_PER_SECOND)


def whatsapp_phone_number_id() -> str | None:
    """The id or ARN of the stage's WhatsApp number; None on a stage without one."""
    return os.environ.get("WHATSAPP_PHONE_NUMBER_ID")


def whatsapp_template() -> str:
    """The template of requests for consent, as name/language; empty if there is none."""
    return os.environ.get("WHATSAPP_TEMPLATE") or ""


def whatsapp_meta_api_version() -> str | None:
    """The version of Meta's API, such as v25.0; None for that of `shared/telephony/whatsapp.py`."""
    return os.environ.get("WHATSAPP_META_API_VERSION")


def dials_whatsapp_by_phone() -> bool:
    """Whether a call on WhatsApp is dialed by phone: the stage asks on WhatsApp for consent to such a call."""
    return os.environ.get("WHATSAPP_DIAL") == "phone"


# The sign-in of people


def oidc_issuer() -> str | None:
    """The URL of the OpenID Connect provider; None without one. For the stack's user pool, `infra/stack.py` sets it."""
    return os.environ.get("OIDC_ISSUER")


def oidc_client_id() -> str:
    """The id of the admin pages as a client of the provider. For the stack's user pool, `infra/stack.py` sets it."""
    return os.environ["OIDC_CLIENT_ID"]


def oidc_client_secret_id() -> str | None:
    """The ARN of the secret in Secrets Manager with the client's secret; None for a public client."""
    return os.environ.get("OIDC_CLIENT_SECRET_ID")


def user_pool_id() -> str | None:
    """The id of the stack's own user pool; None on a stage with another provider. `infra/stack.py` sets it."""
    return os.environ.get("USER_POOL_ID")


# The documentation


def support_contact() -> str:
    """Where clients reach the operator, an e-mail address or an https URL; empty if the stage does not say."""
    return os.environ.get("SUPPORT_CONTACT", "")


def terms_url() -> str | None:
    """The https URL of the terms of service; None if the stage does not say."""
    return os.environ.get("TERMS_URL")


def stage_rates() -> tuple[int, int] | None:
    """The requests, and the messages of a route, that API Gateway takes in a second. None on the local runner."""
    if "REQUESTS_PER_SECOND" not in os.environ:
        return None
    return int(os.environ["REQUESTS_PER_SECOND"]), int(os.environ["MESSAGES_PER_SECOND"])


def firewall_rates() -> tuple[int, int] | None:
    """The requests, and the messages, that the firewall takes from an IP address in a minute. None without one."""
    if "FIREWALL_REQUESTS_PER_MINUTE" not in os.environ:
        return None
    return int(os.environ["FIREWALL_REQUESTS_PER_MINUTE"]), int(os.environ["FIREWALL_MESSAGES_PER_MINUTE"])


# What only the local runner sets (`infra/local/runner.py`). The defaults are those of every deployed stage.


def speed() -> float:
    """What scheduled times and leases are divided by, by default 1 (`scaled_ms` in `shared/core/clock.py`)."""
    return float(os.environ.get("SPEED") or 1)


def simulates_live() -> bool:
    """Whether live mode is simulated, too (`Scope.is_simulated`); by default not."""
    return os.environ.get("SIMULATE_LIVE") == "1"


def allows_loopback_receivers() -> bool:
    """Whether webhook endpoints may be on loopback; by default not."""
    return os.environ.get("ALLOW_LOOPBACK_RECEIVERS") == "1"


def has_sign_in_links() -> bool:
    """Whether links sign people in to the admin pages; by default not."""
    return os.environ.get("SIGN_IN_LINKS") == "1"


def vendored_folder() -> str | None:
    """The folder `node_modules` with the npm packages that pages load; None for the copies in the bundle."""
    return os.environ.get("VENDORED")


def openapi_file() -> str | None:
    """The file of the API description; None for that in the bundle."""
    return os.environ.get("OPENAPI_FILE")


def cli_file() -> str | None:
    """The archive of the command line for clients; None for that in the bundle."""
    return os.environ.get("CLI_FILE")
