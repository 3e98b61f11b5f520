"""What the service and the builders of what it serves share: revisions, server and files."""

from __future__ import annotations

from shared.core import settings

REVISIONS = ("2026-06-01", "2026-08-03", "2026-08-22", "2026-12-01")
"""The dated revisions of API v1 (promise 1.2). All are additive so far and render the same."""
NEWEST_REVISION = REVISIONS[-1]
"""Also that of a request without `Service-Version` (`read_version` in `shared/api/requests.py`)."""
DESCRIBED_SERVER = "https://api.example.com"
"""The server in the API description. The function that serves the description replaces it by its own address."""
API_DESCRIPTION = "openapi.json"
"""The file of the API description, in the folder of the functions in the bundle. It is generated with the bundle."""
CLI_ARCHIVE = "appt.zip"
"""The file of the command line for clients, in the same folder, and below /docs."""


def of_operator() -> dict[str, object]:
    """What the operator of the stage adds to the `info` of the API description: contact and terms."""
    contact, terms = settings.support_contact(), settings.terms_url()
    kind = "url" if contact.startswith("https://") else "email"
    return {
        **({"contact": {"name": "Support", kind: contact}} if contact else {}),
        **({"termsOfService": terms} if terms else {}),
    }
