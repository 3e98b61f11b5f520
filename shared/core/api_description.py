"""What the service and the builders of what it serves share: revisions, server and files."""

from __future__ import annotations

import os

REVISIONS = ("2026-06-01", "2026-08-03", "2026-08-22", "2026-12-01")
"""The dated revisions of API v1 (promise 1.2). All are additive so far and render the same."""
NEWEST_REVISION = REVISIONS[-1]
DESCRIBED_SERVER = "https://api.example.com"
"""The server in the API description. The function that serves the description replaces it by its own address."""
API_DESCRIPTION = "openapi.json"
"""The file of the API description, in the folder of the functions in the bundle. It is generated with the bundle."""
CLI_ARCHIVE = "appt.zip"
"""The file of the command line for clients, in the same folder, and below /docs."""


def support_contact() -> str:
    """Where clients reach the operator, an e-mail address or an https URL; empty if the stage does not say."""
    return os.environ.get("SUPPORT_CONTACT", "")


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


def of_operator() -> dict[str, object]:
    """What the operator of the stage adds to the `info` of the API description: contact and terms."""
    contact, terms = support_contact(), os.environ.get("TERMS_URL")
    kind = "url" if contact.startswith("https://") else "email"
    return {
        **({"contact": {"name": "Support", kind: contact}} if contact else {}),
        **({"termsOfService": terms} if terms else {}),
    }
