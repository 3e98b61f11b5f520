from __future__ import annotations

import base64
import gzip
import io
import json
import re
import string
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape, unescape
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from functions import fallback
from infra import bundle, cli_archive
from infra.stage import Stage
from shared.agent_settings.resource import MAX_FACTS, MAX_FACTS_BYTES, AgentSettingsPatch
from shared.calls.live.steps import LONGEST_MS
from shared.core.api_description import CLI_ARCHIVE, REVISIONS
from shared.core.clock import MINUTE
from shared.core.errors import ERRORS
from shared.core.event_types import EVENT_TYPES
from shared.docs import contents, highlighting, markdown, samples, search, tables
from shared.docs.contents import PAGES
from shared.docs.examples import ExampleRequest
from tests.support.admin_client import Markup

DESCRIPTION = Path("tests/openapi.json")
RIGHT = {
    "paginate": "/docs/pagination",
    "gdpr": "/docs/retention",
    "human handoff": "/docs/conversations#handoff",
    "webhook ordering": "/docs/deliveries#order",
    "filter appointments by date": "/docs/pagination#filters",
    "local webhook testing": "/docs/local",
    "opening hours": "/docs/agent",
    "retry schedule": "/docs/deliveries#retry-schedule",
    "verify signature python": "/docs/webhooks#verify-the-signature",
    "rotate secret": "/docs/webhooks#rotate-the-secret",
    "idempotency key reused": "/docs/errors#idempotency_key_reused",
    "rate limit 429": "/docs/rate-limits",
    "test phone numbers": "/docs/test-mode",
    "voicemail": "/docs/agent#what-a-caller-hears",
    "cancel appointment": "/docs/appointments#cancel-or-delete",
    "recording download": "/docs/calls#transcript-and-recording",
    "api version": "/docs/versioning",
    "time zone": "/docs/appointments",
    "delete customer data": "/docs/retention",
    "error 409": "/docs/errors#http-409",
    "handof": "/docs/conversations#handoff",
    "verfiy": "/docs/webhooks#verify-",
    "paginatoin": "/docs/pagination",
    "pagniate": "/docs/pagination",
    "paginating": "/docs/pagination",
    "gdrp": "/docs/retention",
    "webhook orderng": "/docs/deliveries#order",
    "qebhook": "/docs/webhooks",
    "ebhook": "/docs/webhooks",
    "consent_pending": "/docs/calls#consent-on-whatsapp",
    "phone_invalid_format": "/docs/errors#phone_invalid_format",
    "session.completed": "/docs/events#session.completed",
    "Standard webhooks LIBRARY": "/docs/webhooks#verify-with-the-standard-webhooks-library",
    "webhook zebra": "/docs/webhooks",
    "rotate_webhook_endpoint_secret": "/docs/api#rotate_webhook_endpoint_secret",
    "send a test event to a webhook endpoint": "/docs/webhooks#send-a-test-event",
    "golang": "/docs/generate#go",
    "go live": "/docs/going-live",
    "timezone": "/docs/appointments",
    "delete customer dta": "/docs/retention",
}
"""The beginning of the path that is found first."""
ASKED = [*RIGHT][:20]
"""The queries of which each may have a typing error."""


@pytest.fixture(autouse=True)
def vendored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VENDORED", str(bundle.NODE_MODULES))
    monkeypatch.setenv("OPENAPI_FILE", str(DESCRIPTION))


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def shown(self) -> str:
        """The text of a page without its tags."""
        return unescape(re.sub(r"<[^>]+>", "", self.text))


def get(
    path: str, stage: str = "", method: str = "GET", query: Mapping[str, str] | None = None, **headers: str
) -> Answer:
    """The response to a request at a stage of API Gateway, whose path is not part of the event's path."""
    given = {"Host": "api.example.com", "X-Forwarded-Proto": "https"}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    event: dict[str, Any] = {
        "resource": "/{proxy+}",
        "httpMethod": method,
        "path": path,
        "headers": given,
        "multiValueHeaders": {name: [value] for name, value in given.items()},
        "queryStringParameters": query,
        "multiValueQueryStringParameters": {name: [value] for name, value in (query or {}).items()},
        "requestContext": {"path": stage + path, "requestId": "gateway"},
        "body": None,
        "isBase64Encoded": False,
    }
    answer = fallback.handler(event, None)
    body = base64.b64decode(answer["body"]) if answer["isBase64Encoded"] else answer["body"].encode()
    return Answer(answer["statusCode"], answer["headers"], body)


def test_a_page_for_each_text_and_a_text_for_each_page() -> None:
    assert {file.stem for file in markdown.CONTENT.glob("*.md")} == set(PAGES)


@pytest.mark.parametrize("stage", ["", "/dev"])
@pytest.mark.parametrize("path", ["/docs", "/docs/api", "/docs/search", *(page.path for page in PAGES.values())])
def test_links_and_files_are_those_of_the_stage(path: str, stage: str) -> None:
    page = get(path, stage, query={"q": "webhook"})
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert markdown.BASE_URL not in page.text
    assert markdown.PREFIX not in page.text
    markup = Markup.of(page.text)
    for tag, attributes in markup.tags:
        target = attributes.get("href") or attributes.get("src") or attributes.get("action") or "#"
        if not target.startswith(("#", "https://", "data:")):
            others = (f"{stage}/openapi.json", f"{stage}/llms.txt")
            assert target.startswith(f"{stage}/docs") or target in others, (tag, target)
    assert stage or "/dev" not in page.text


def test_examples_use_the_address_of_the_stage() -> None:
    page = get("/docs/getting-started", "/dev")
    assert "export API=https://api.example.com/dev/v1" in page.shown


@pytest.mark.parametrize("contact", ["help@example.com", "https://help.example.com/?a=1&b=2"])
def test_readers_are_told_how_to_reach_the_operator(monkeypatch: pytest.MonkeyPatch, contact: str) -> None:
    assert "Whoever gave you your API key" in get("/docs/going-live").text
    assert "<footer" not in get("/docs").text
    monkeypatch.setenv("SUPPORT_CONTACT", contact)
    target = contact if contact.startswith("https://") else f"mailto:{contact}"
    for path in ("/docs", "/docs/errors", "/docs/api", "/docs/nothing"):
        assert f'<a href="{escape(target)}">{escape(contact)}</a></footer>' in get(path, Accept="text/html").text
    assert f'at <a href="{escape(target)}">{escape(contact)}</a>.' in get("/docs/going-live").text
    assert f"at <{contact}>." in get("/docs/going-live.md").text


@pytest.fixture
def rendered_again() -> Iterator[None]:
    """Pages are rendered anew in the test and after it, because a page that shows the environment is kept."""
    markdown.source.cache_clear()
    markdown.document.cache_clear()
    yield
    markdown.source.cache_clear()
    markdown.document.cache_clear()


@pytest.mark.usefixtures("rendered_again")
def test_readers_are_told_the_limits_of_the_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_PER_SECOND", "7000")
    monkeypatch.setenv("MESSAGES_PER_SECOND", "350")
    for page in (get("/docs/rate-limits"), get("/docs/rate-limits.md")):
        assert "7,000 requests per second to one operation, and 350 per second to each of the two routes" in page.shown
        assert "local runner" not in page.shown
    table = get("/docs/limits.md").text
    assert "| Requests of all projects to one operation | 7,000 in a second | 429 [`rate_limit_exceeded`]" in table
    assert "| Messages of all projects to each of the two routes | 350 in a second | 429" in table


@pytest.mark.usefixtures("rendered_again")
def test_readers_are_told_the_limits_of_the_firewall_and_of_live_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIREWALL_REQUESTS_PER_MINUTE", "21000")
    monkeypatch.setenv("FIREWALL_MESSAGES_PER_MINUTE", "5500")
    monkeypatch.setenv("TURNS_PER_PROJECT", "7")
    for page in (get("/docs/rate-limits"), get("/docs/rate-limits.md")):
        assert "limits each IP address, too: to 21,000 requests per minute, and to 5,500 messages" in page.shown
        assert "a project may have 7 messages under way" in page.shown
    table = get("/docs/limits.md").text
    assert "| Requests of an IP address | 21,000 in a minute | 403 [`permission_denied`]" in table
    assert "| Messages of an IP address | 5,500 in a minute | 403 [`permission_denied`]" in table
    assert "| Live messages of a project without a reply | 7 | 429" in table


@pytest.mark.usefixtures("rendered_again")
def test_readers_are_told_that_there_is_no_firewall() -> None:
    assert "Here, no firewall limits the requests of an IP address." in get("/docs/rate-limits").shown
    assert get("/docs/limits.md").text.count("| None here |") == 2


@pytest.mark.usefixtures("rendered_again")
def test_the_local_runner_says_that_it_has_no_limits_of_the_gateway() -> None:
    assert "You read this on the local runner, which has no such limits." in get("/docs/rate-limits").shown
    assert get("/docs/limits.md").text.count("| None on the local runner, where you read this |") == 2


def test_limits_are_those_of_the_code() -> None:
    facts = [{"question": "q", "answer": "a" * 900}] * MAX_FACTS
    with pytest.raises(ValidationError, match=f"at most {MAX_FACTS_BYTES} bytes"):
        AgentSettingsPatch.model_validate({"facts": facts})
    table = get("/docs/limits.md").text
    assert f"| Settings of the agent | `facts`, in all | {MAX_FACTS_BYTES // 1024} KB as JSON |" in table
    assert f"| A live call, from dialing on | {LONGEST_MS // MINUTE} minutes |" in table
    default = Stage.model_fields["turns_per_project"].default
    assert f"| Live messages of a project without a reply | {default} |" in table
    assert f"a project may have {default} messages under way" in get("/docs/rate-limits").shown


def test_the_description_names_the_operators_contact_and_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    described = json.loads(get("/openapi.json").text)["info"]
    assert {"contact", "termsOfService"}.isdisjoint(described)
    monkeypatch.setenv("SUPPORT_CONTACT", "help@example.com")
    monkeypatch.setenv("TERMS_URL", "https://example.com/terms?of=service")
    assert json.loads(get("/openapi.json").text)["info"] == {
        **described,
        "contact": {"name": "Support", "email": "help@example.com"},
        "termsOfService": "https://example.com/terms?of=service",
    }
    monkeypatch.setenv("SUPPORT_CONTACT", "https://help.example.com")
    assert json.loads(get("/openapi.json").text)["info"]["contact"]["url"] == "https://help.example.com"


@pytest.mark.parametrize("name", PAGES)
def test_highlighted_code_is_the_code_of_the_page(name: str) -> None:
    """Every language has colors, and nothing is lost, changed or split by them."""
    html = markdown.document(name).html
    shown = [
        unescape(re.sub(r"<[^>]+>", "", one)) for one in re.findall(r"<pre><code>(.*?)</code></pre>", html, re.DOTALL)
    ]
    for block in markdown.document(name).blocks:
        for language, code in block.variants.items():
            text = code.partition("\n")[2].lstrip("\n") if language == "response" else code
            assert text in shown, (language, text)
        assert block.language in ("request", "response") or block.written_in in highlighting.LEXERS, block.text


def test_a_host_name_cannot_bring_markup_into_a_page() -> None:
    page = get("/docs/getting-started", Host='x"><img onerror=alert(1)>')
    assert page.status == 200
    assert "<img" not in page.text


@pytest.mark.parametrize("host", ["[::1]", "[::1]:443", "a:1, b:2", "a:1, b", "a:b", ":", "a:\u0661", ""])
def test_a_host_header_that_names_no_host_is_ignored(host: str) -> None:
    page = get("/docs/getting-started", "/dev", Host=host)
    assert page.status == 200
    assert "export API=https://localhost/dev/v1" in page.shown


@pytest.mark.parametrize("port", ["443, 443", "x", "-1", ""])
def test_a_header_with_a_port_that_is_no_number_is_ignored(port: str) -> None:
    assert get("/docs/getting-started", Host="[::1]", X_Forwarded_Port=port).status == 200


@pytest.mark.parametrize("scheme", ["https, http", "javascript", ""])
def test_a_header_with_another_scheme_than_those_of_the_web_is_ignored(scheme: str) -> None:
    page = get("/docs/getting-started", X_Forwarded_Proto=scheme)
    assert "export API=https://api.example.com/v1" in page.shown


def test_pages_have_a_policy_that_allows_no_inline_code_and_no_other_host() -> None:
    for path in ("/docs", "/docs/webhooks", "/docs/api", "/docs/search"):
        headers = get(path).headers
        assert headers["cache-control"] == ("no-store" if path == "/docs/search" else "no-cache")
        assert "unsafe" not in headers["content-security-policy"]
        assert "default-src 'none'" in headers["content-security-policy"]
        for tag, attributes in Markup.of(get(path).text).tags:
            assert "style" not in attributes, tag
            assert tag != "style"
            assert tag != "script" or attributes.get("src")


@pytest.mark.parametrize("path", ["/docs/webhooks", "/docs/api"])
def test_files_are_kept_for_ever_and_fit_into_a_response_of_lambda(path: str) -> None:
    tags = Markup.of(get(path, "/dev").text).tags
    files = [
        attributes.get("src") or attributes.get("href") or "" for tag, attributes in tags if tag in ("script", "link")
    ]
    found = [file.removeprefix("/dev") for file in files if "/assets/" in file]
    assert found
    for file in found:
        plain, packed = get(file), get(file, Accept="*/*", Accept_Encoding="gzip, br")
        assert plain.status == packed.status == 200
        assert plain.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert packed.headers["content-encoding"] == "gzip"
        assert gzip.decompress(packed.body) == plain.body
        assert len(plain.body) < 4_500_000
    assert get(found[0].replace(found[0].split("/")[3], "0" * 16)).status == 404


def test_the_command_line_is_served_as_bytes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CLI_FILE", str(tmp_path / CLI_ARCHIVE))
    (tmp_path / CLI_ARCHIVE).write_bytes(cli_archive.archive())
    path = f"/docs/{CLI_ARCHIVE}"
    assert f"https://api.example.com/dev{path}" in get("/docs/local", "/dev").shown
    served = get(path, "/dev", Accept="*/*", Accept_Encoding="gzip")
    assert (served.status, served.headers["content-type"]) == (200, "application/zip")
    assert served.body == cli_archive.archive()
    assert "pyproject.toml" in zipfile.ZipFile(io.BytesIO(served.body)).namelist()
    assert get(path, method="POST").status == 405


def test_a_first_visit_of_a_page_is_small() -> None:
    files = re.findall(r'(?:href|src)="(/docs/assets/[^"]+)"', get("/docs/webhooks").text)
    sizes = [len(get(file, Accept="*/*", Accept_Encoding="gzip").body) for file in files]
    assert sum(sizes) + len(gzip.compress(get("/docs/webhooks").body)) < 60_000


DOCUMENTS = (
    "/docs",
    "/docs/webhooks",
    "/docs/api",
    "/docs/webhooks.md",
    "/docs.md",
    "/llms.txt",
    "/llms-full.txt",
    "/openapi.json",
)


@pytest.mark.parametrize("path", [*DOCUMENTS, "/robots.txt", "/sitemap.xml"])
def test_documents_are_compressed_and_asked_for_again(path: str) -> None:
    plain = get(path, "/dev", Accept_Encoding="gzip")
    assert "content-encoding" not in plain.headers, "without an Accept header, the gateway may not decode a body"
    packed = get(path, "/dev", Accept="*/*", Accept_Encoding="br, gzip;q=0.8")
    assert plain.status == packed.status == 200
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert len(plain.body) < 4_500_000
    assert "content-encoding" not in get(path, "/dev", Accept="*/*", Accept_Encoding="gzip;q=0, br").headers
    tag = plain.headers["etag"]
    assert tag == packed.headers["etag"]
    assert plain.headers["cache-control"] == "no-cache"
    for asked in (tag, f'"x", {tag}', tag.removeprefix("W/"), "*"):
        unchanged = get(path, "/dev", If_None_Match=asked)
        assert (unchanged.status, unchanged.body, unchanged.headers["etag"]) == (304, b"", tag)
        assert unchanged.headers["content-type"] == plain.headers["content-type"]
    assert get(path, "/dev", If_None_Match='"x"').status == 200
    # The address of the stage is part of the document.
    assert path == "/robots.txt" or get(path).headers["etag"] != tag


@pytest.mark.parametrize(
    ("accepted", "is_markdown"),
    [
        ("text/markdown", True),
        ("text/markdown, text/html;q=0.9, */*;q=0.8", True),
        ("text/html, text/markdown;q=0.5", False),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", False),
        ("text/markdown;q=0", False),
        ("*/*", False),
        (",;q=x", False),
    ],
)
def test_a_page_is_markdown_for_who_asks_for_it(accepted: str, is_markdown: bool) -> None:
    for path in ("/docs/webhooks", "/docs/api", "/docs"):
        page = get(path, Accept=accepted)
        expected = "text/markdown; charset=utf-8" if is_markdown else "text/html; charset=utf-8"
        assert page.headers["content-type"] == expected, path
        assert "accept" in page.headers["vary"].lower()


@pytest.mark.parametrize("name", [*PAGES, "api"])
def test_every_page_exists_as_markdown(name: str) -> None:
    page = get(f"/docs/{name}.md", "/dev")
    assert page.text.startswith("# ")
    assert markdown.BASE_URL not in page.text
    assert "```request" not in page.text
    assert "](/" not in page.text
    assert page.text.count("```") % 2 == 0
    for target in re.findall(r"\]\((https://api\.example\.com[^)#]*)", page.text):
        path = target.removeprefix("https://api.example.com/dev")
        assert get(path, "/dev").status == 200, path
    assert name == "api" or page.text.strip() in get("/llms-full.txt", "/dev").text


def test_the_lists_name_every_page() -> None:
    contents, sitemap, robots = (get(f"/{name}", "/dev").text for name in ("llms.txt", "sitemap.xml", "robots.txt"))
    for page in PAGES.values():
        assert f"- [{page.title}](https://api.example.com/dev{page.path}.md): {page.about}\n" in contents
        assert f"<loc>https://api.example.com/dev{page.path}</loc>" in sitemap
    assert get("/docs.md", "/dev").text == contents
    assert "Sitemap: https://api.example.com/dev/sitemap.xml" in robots
    assert "Disallow: /dev/v1/\n" in robots
    for operation in json.loads(DESCRIPTION.read_text())["paths"]["/v1/events"].values():
        assert f"`{operation['operationId']}`" in get("/docs/api.md").text


def test_an_unknown_page_is_an_error_for_programs_and_a_page_for_people() -> None:
    for path in ("/docs/nothing", "/docs/", "/docs/errors/", "/docs/nothing.md", "/docs/.md", "/docs/search.md"):
        assert '"route_not_found"' in get(path, Accept="*/*").text
        page = get(path, Accept="text/html,application/xhtml+xml")
        assert (page.status, page.headers["service-should-retry"]) == (404, "false")
        assert "No such page" in page.text
    assert get("/docs/webhooks", method="POST").headers["allow"] == "GET, HEAD"


def test_every_error_code_has_its_entry() -> None:
    anchors = {attributes.get("id") for _, attributes in Markup.of(get("/docs/errors").text).tags}
    assert set(ERRORS) <= anchors


@pytest.mark.parametrize("type", EVENT_TYPES)
def test_every_event_type_is_explained_and_has_a_sample(type: str) -> None:
    assert samples.event(type)["type"] == type
    section = get("/docs/events").text.partition(f'<h2 id="{type}">')[2]
    assert section.partition("<p>")[2].partition("</p>")[0]
    assert f"`{type}`" in tables.event_list()


@pytest.mark.parametrize("query", RIGHT)
def test_the_search_finds_the_right_page_first(query: str) -> None:
    assert search.find(query, DESCRIPTION.read_text)[0].entry.path.startswith(RIGHT[query])


def misspelled(word: str) -> Iterator[str]:
    """The word with two typing errors in turn at each place; a wrong letter depends on the place."""
    for n in range(len(word)):
        other = string.ascii_lowercase[(7 * n + len(word)) % 26]
        errors = (
            word[:n] + word[n + 1 :],
            word[:n] + other + word[n:],
            word[:n] + other + word[n + 1 :],
            word[:n] + word[n + 1 : n + 2] + word[n] + word[n + 2 :],
        )
        yield errors[n % 4]
        yield errors[(n + 1) % 4]


def test_the_search_finds_the_right_page_first_in_spite_of_a_typing_error() -> None:
    """Of all errors of one letter, 98 % are corrected. A number is not: each status is one."""
    missed, asked = [], 0
    for query in ASKED:
        words = query.split()
        for n, word in enumerate(words):
            for other in {*misspelled(word)} - {word} if not word.isdigit() else ():
                asked += 1
                written = " ".join((*words[:n], other, *words[n + 1 :]))
                found = search.find(written, DESCRIPTION.read_text)
                if not found or not found[0].entry.path.startswith(RIGHT[query]):
                    missed.append(written)
    assert asked > 400
    assert len(missed) <= asked * 2 // 100, missed


def test_the_search_says_whether_everything_was_found() -> None:
    description = DESCRIPTION.read_text
    found = search.find("consent channel", description)
    assert [one.is_complete for one in found] == sorted((one.is_complete for one in found), reverse=True)
    assert found[0].is_complete
    assert not search.find("webhook zebra", description)[0].is_complete
    assert search.find("zebra", description) == []
    assert search.find("  ?! ", description) == []
    assert search.find("the", description)


@pytest.mark.parametrize("forms", ["paginate pagination", "verify verification verified", "retry retries retried"])
def test_forms_of_a_word_have_one_stem(forms: str) -> None:
    assert len({search.stem(word) for word in forms.split()}) == 1


def test_an_operation_is_found_and_opened_in_the_reference() -> None:
    page = get("/docs/search", query={"q": "rotate the signing secret of a webhook endpoint"}).text
    assert 'href="/docs/api#rotate_webhook_endpoint_secret"' in page


def test_operations_link_to_their_guides_and_are_linked_from_them() -> None:
    """That the links lead somewhere is tested over HTTP (tests/conformance/test_docs.py)."""
    page = get("/docs/api", "/dev").text
    entries = {
        name: entry for entry in page.split("<article")[1:] if (name := entry.partition('"><a')[0].rpartition('"')[2])
    }
    for _, operation in contents.operations(DESCRIPTION.read_text()):
        name = operation["operationId"]
        assert contents.guides(operation)
        for guide in contents.guides(operation):
            assert f'href="/dev/docs/{guide}"' in entries[name], name
            assert f'href="/dev/docs/api#{name}"' in get(f"/docs/{guide.partition('#')[0]}", "/dev").text


def test_every_type_of_the_reference_is_explained_on_the_page() -> None:
    page = Markup.of(get("/docs/api").text)
    ids = {attributes.get("id") for _, attributes in page.tags}
    linked = {(attributes.get("href") or "").removeprefix("#") for _, attributes in page.tags}
    described = json.loads(DESCRIPTION.read_text())
    results = {"Customer", "CustomerList", "Session", "SessionCallStatus", "AnsweredMessage", "Metadata"}
    assert results <= ids & linked & described["components"]["schemas"].keys()
    assert described["webhooks"].keys() <= {one.partition("#")[2] for one in linked}


def test_a_query_is_shown_as_text() -> None:
    page = get("/docs/search", query={"q": "<img src=x onerror=alert(1)>webhook"})
    assert "<img" not in page.text
    assert "<img" in unescape(page.text)


def test_a_request_is_the_same_in_three_languages() -> None:
    request = ExampleRequest.parse(
        "POST /v1/customers/$CUSTOMER/call\n"
        "Idempotency-Key: $BOOKING\n\n"
        '{"appointment_id": "$APPOINTMENT", "metadata": {"floor": 2, "vip": true, "note": null}}'
    )
    assert request.curl() == (
        'curl -s -X POST "$API/customers/$CUSTOMER/call" \\\n'
        '  -H "Authorization: Bearer $KEY" \\\n'
        '  -H "Idempotency-Key: $BOOKING" \\\n'
        '  -H "Content-Type: application/json" \\\n'
        """  -d '{"appointment_id": "'"$APPOINTMENT"'", "metadata": {"floor": 2, "vip": true, "note": null}}'"""
    )
    assert request.python() == (
        "from os import environ as env\n\nimport requests\n\n"
        "response = requests.post(\n"
        "    f\"{env['API']}/customers/{env['CUSTOMER']}/call\",\n"
        "    headers={\n"
        '        "Authorization": f"Bearer {env[\'KEY\']}",\n'
        '        "Idempotency-Key": env["BOOKING"],\n'
        "    },\n"
        "    json={\n"
        '        "appointment_id": env["APPOINTMENT"],\n'
        '        "metadata": {"floor": 2, "vip": True, "note": None},\n'
        "    },\n"
        ")\n"
        "print(response.status_code, response.text)"
    )
    assert request.javascript() == (
        "const { API, KEY, CUSTOMER, BOOKING, APPOINTMENT } = process.env;\n\n"
        "const response = await fetch(`${API}/customers/${CUSTOMER}/call`, {\n"
        '  method: "POST",\n'
        "  headers: {\n"
        "    Authorization: `Bearer ${KEY}`,\n"
        '    "Idempotency-Key": BOOKING,\n'
        '    "Content-Type": "application/json",\n'
        "  },\n"
        "  body: JSON.stringify({\n"
        "    appointment_id: APPOINTMENT,\n"
        "    metadata: { floor: 2, vip: true, note: null },\n"
        "  }),\n"
        "});\n"
        "console.log(response.status, await response.text());"
    )


def test_errors_are_shown_with_their_real_texts() -> None:
    for name in PAGES:
        for block in markdown.document(name).blocks:
            _, _, body = block.text.partition("\n\n")
            if block.language == "response" and '"error"' in body:
                assert "…" not in json.loads(body)["error"]["message"], name


def test_the_changelog_has_every_revision() -> None:
    assert tuple(tables.CHANGES) == REVISIONS


def test_the_table_of_filters_has_every_parameter_of_the_lists() -> None:
    described = json.loads(Path("tests/openapi.json").read_text())["paths"]
    text = tables.list_filters()
    for path in tables.LISTS:
        row = next(line for line in text.splitlines() if line.startswith(f"| `{path}` |"))
        names = {one["name"] for one in described[path]["get"]["parameters"] if one.get("in") == "query"}
        for name in names - {"limit", "starting_after"}:
            assert f"`{name.partition('[')[0]}`" in row, (path, name)


def test_a_page_has_the_same_text_in_every_process() -> None:
    """Otherwise its `ETag` differs between execution environments. The order of a set depends on the hash seed."""
    program = "from shared.docs import plain; print(plain.everything('https://api', open('tests/openapi.json').read()))"
    texts = set()
    for seed in "123":
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "STAGE": "local"},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        texts.add(done.stdout)
    assert len(texts) == 1
    assert len(texts.pop()) > 100_000
