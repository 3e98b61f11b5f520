"""The documentation: every example does what its page says, every link leads somewhere, every payload is real."""

from __future__ import annotations

import gzip
import html
import json
import re
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from shared.core.event_types import EVENT_TYPES
from shared.docs import markdown
from shared.docs.contents import PAGES
from shared.docs.markdown import Block
from tests.support.admin_client import Markup
from tests.support.client import Client, wait_for
from tests.support.client_actions import create_appointment, create_customer, simulated_phone, unique
from tests.support.documentation import Reader, assert_refuses_unsigned
from tests.support.runner import Service
from tests.support.signed_receiver import Receiver

SAMPLES = {
    "client.py": "201 cust_",
    "client.mjs": "201 cust_",
    "pages.sh": "cust_",
    "pages.py": "cust_",
    "pages.mjs": "cust_",
    "catch_up.py": "customer.created",
    "catch_up.mjs": "customer.created",
    "cause.sh": "appointment.confirmed",
    "signed.py": ",v1=",
    "signed.mjs": ",v1=",
}
"""What programs of the pages print."""
LISTING = {"pagination", "catch-up"}
"""The pages with examples that list what there is: three customers are created for each of their readers."""


def wait_until_printed(output: Path, text: str, seconds: float = 20) -> None:
    """Wait until a program has printed this text."""
    deadline = time.monotonic() + seconds
    while text not in output.read_text():
        assert time.monotonic() < deadline, f"{text!r} was not printed: {output.read_text()}"
        time.sleep(0.05)


def post(url: str, body: bytes, **headers: str) -> int:
    request = urllib.request.Request(url, body, {name.replace("_", "-"): value for name, value in headers.items()})
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.runner("its examples send webhooks to this machine")
@pytest.mark.parametrize("language", ["curl", "python", "js"])
@pytest.mark.parametrize("name", PAGES)
def test_every_example_does_what_its_page_says(
    service: Service, client: Client, receiver: Receiver, tmp_path: Path, name: str, language: str
) -> None:
    hook = receiver.hook()
    if name in LISTING:
        ids = [create_customer(client)["id"] for _ in range(3)]
        wait_for(lambda: all(client.get(f"/v1/events?object_id={id}").ok()["data"] for id in ids), 20)

    def provide(variable: str) -> str:
        if variable == "CUSTOMER":
            customer = create_customer(client)
            create_appointment(client, customer["id"])
            return str(customer["id"])
        if variable == "TOMORROW":
            return f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}"
        if variable == "PHONE":
            return simulated_phone("20")
        return {"KEY": service.projects[0].test_key, "HOOK": hook.url}.get(variable) or unique(variable.lower())

    def receive(reader: Reader, block: Block) -> None:
        endpoint = f"/v1/webhook_endpoints/{reader.variables['ENDPOINT']}"
        with reader.serving(block) as (port, output):
            url = f"http://127.0.0.1:{port}/"
            client.patch(endpoint, {"url": url}).ok()
            wait_for(lambda: answers(url), 20)
            client.post(f"{endpoint}/test").ok(202)
            wait_until_printed(output, "verified appointment.created")
            # The receiver still has the secret that is replaced now. The next one of the page has the new secret.
            rotated = client.post(f"{endpoint}/rotate_secret", {"previous_secret_valid_seconds": 3600}).ok()
            reader.variables["SECRET"] = rotated["secret"]
            client.post(f"{endpoint}/test").ok(202)
            wait_for(lambda: output.read_text().count("verified appointment.created") == 2, 20)
            assert post(url, b"{}", Service_Signature="t=1,v1=00") == 400
            wait_until_printed(output, "refused")
            assert_refuses_unsigned(port)

    blocks = markdown.document(name).blocks
    reader = Reader(language, tmp_path, service.base_url, provide)
    reader.variables |= {"API": f"{service.base_url}/v1", "KEY": service.projects[0].test_key}
    try:
        reader.read(list(blocks), receive)
    finally:
        if "ENDPOINT" in reader.variables:
            client.delete(f"/v1/webhook_endpoints/{reader.variables['ENDPOINT']}")
    for file, printed in reader.printed.items():
        assert SAMPLES[file] in printed


def answers(url: str) -> bool:
    try:
        return bool(post(url, b"{}"))
    except urllib.error.URLError:
        return False


def page(anonymous: Client, path: str) -> str:
    response = anonymous.get(path)
    assert response.status == 200, path
    assert response.headers["Content-Type"].startswith("text/html")
    return response.body.decode()


def test_every_link_leads_to_a_page_and_a_section(anonymous: Client) -> None:
    paths = ["/docs", "/docs/search?q=webhook", "/docs/api", *(one.path for one in PAGES.values())]
    pages = {path.partition("?")[0]: Markup.of(page(anonymous, path)) for path in paths}
    anchors = {path: {attributes.get("id") for _, attributes in found.tags} for path, found in pages.items()}
    for path, found in pages.items():
        for tag, attributes in found.tags:
            target, _, anchor = (attributes.get("href") or "").removeprefix(anonymous.base_path).partition("#")
            if tag != "a" or target.startswith("https://") or target in ("/openapi.json", "/llms.txt"):
                continue
            if target.endswith(".md"):
                assert anonymous.get(target).status == 200, target
                continue
            assert target or anchor, f"{path} has a link without a target"
            assert not anchor or anchor in anchors[target or path], f"{path} links to {target}#{anchor}"
            assert (target or path) in pages, f"{path} links to {target}"


FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def markdown_sections(text: str) -> set[str]:
    """The ids of the headings of a document, as those of its page."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^a-z0-9_.]+", "-", one.replace("`", "").lower()).strip("-") for one in headings}


def test_every_link_of_the_markdown_leads_to_markdown_and_to_a_section(anonymous: Client) -> None:
    paths = ["/llms.txt", "/llms-full.txt", "/docs.md", "/docs/api.md", *(f"{one.path}.md" for one in PAGES.values())]
    texts = {path: anonymous.get(path).body.decode() for path in paths}
    sections = {path: markdown_sections(text) for path, text in texts.items()}
    reference = Markup.of(page(anonymous, "/docs/api"))
    sections["/docs/api"] = {attributes.get("id") or "" for _, attributes in reference.tags}
    sections["/openapi.json"] = set()
    base_url = re.findall(r"base address of the API is (\S+)/v1", texts["/llms.txt"])[0]
    for path, text in texts.items():
        links = re.findall(r"\]\(([^)]*)\)", FENCE.sub("", text))
        assert links, path
        for link in links:
            target, _, anchor = link.removeprefix(base_url).partition("#")
            if target.startswith("https://"):
                continue
            assert (target or path) in sections, f"{path} links to {link}"
            assert target != "/docs/api" or anchor, f"{path} links to the page instead of its Markdown: {link}"
            assert not anchor or anchor in sections[target or path], f"{path} links to {link}"
    # The reference and the guides lead to each other.
    assert texts["/docs.md"] == texts["/llms.txt"]
    assert f"]({base_url}/docs/webhooks.md#rotate-the-secret)" in texts["/docs/api.md"]
    assert f"]({base_url}/docs/api#rotate_webhook_endpoint_secret)" in texts["/docs/webhooks.md"]


@pytest.mark.smoke
@pytest.mark.parametrize(
    "path", ["/docs/webhooks", "/docs.md", "/docs/webhooks.md", "/llms-full.txt", "/openapi.json", "/sitemap.xml"]
)
def test_documents_are_sent_compressed_and_only_if_they_have_changed(anonymous: Client, path: str) -> None:
    whole = anonymous.get(path)
    packed = anonymous.get(path, headers={"Accept": "*/*", "Accept-Encoding": "gzip"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.body) == whole.body
    unchanged = anonymous.get(path, headers={"If-None-Match": whole.headers["ETag"]})
    assert (unchanged.status, unchanged.body) == (304, b"")


def events_of_every_type(client: Client) -> dict[str, Any]:
    """An event of each type, as the service has sent it."""
    ids = []
    for outcome in ("01", "02", "05", "06", "11"):
        customer = create_customer(client, phone=simulated_phone(outcome))
        call = client.post(f"/v1/customers/{customer['id']}/call", {"appointment_id": None}).ok(201)
        ids.append(call["session_id"])
    customer = create_customer(client)
    client.patch(f"/v1/customers/{customer['id']}", {"email": "ada@example.com"}).ok()
    for change in (
        {"status": "confirmed"},
        {"status": "cancelled", "cancellation_reason": "moved away"},
        {"status": "failed", "failure_reason": "did not appear"},
        {"notes": "Bring the X-rays"},
    ):
        appointment = create_appointment(client, customer["id"])
        client.patch(f"/v1/appointments/{appointment['id']}", change).ok()
        ids.append(appointment["id"])
    moved = create_appointment(client, customer["id"], status="confirmed")
    client.patch(f"/v1/appointments/{moved['id']}", {"appointment_at": "2031-01-01T10:00:00Z"}).ok()
    client.delete(f"/v1/customers/{customer['id']}").ok()
    conversation = client.post("/v1/conversations", {}).ok(201)["id"]
    messages = f"/v1/conversations/{conversation}/messages"
    client.post(messages, {"content": "[[sim:handoff]]"}).ok(201)
    added = client.post(messages, {"content": "We ring you.", "role": "staff"}).ok(201)["id"]
    for action in ("resume", "end"):
        client.post(f"/v1/conversations/{conversation}/{action}").ok()
    ids += [moved["id"], customer["id"], conversation, added]

    def find_events() -> dict[str, Any] | None:
        pages = [client.get(f"/v1/events?object_id={id}&limit=100").ok()["data"] for id in ids]
        events = {event["type"]: event for one in pages for event in one}
        return events if set(events) == set(EVENT_TYPES) else None

    return wait_for(find_events, 60)


def test_the_payloads_of_the_event_types_are_those_that_the_service_sends(client: Client, anonymous: Client) -> None:
    text = page(anonymous, "/docs/events")
    for type, event in events_of_every_type(client).items():
        section = text.partition(f'<h2 id="{type}">')[2].partition("<h2")[0]
        code = re.search(r"<pre><code>(.*?)</code></pre>", section, re.DOTALL)
        assert code, type
        shown = json.loads(html.unescape(re.sub(r"<[^>]+>", "", code[1])))
        assert list(shown) == list(event)
        assert list(shown["data"]["object"]) == list(event["data"]["object"]), type
        assert set(shown["data"].get("previous_attributes", ())) == set(event["data"].get("previous_attributes", ())), (
            type
        )
