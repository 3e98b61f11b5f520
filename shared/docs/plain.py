"""The pages as Markdown, for language models and other programs, and the lists of all pages (https://llmstxt.org)."""

from __future__ import annotations

import re
from html import escape
from http import HTTPStatus
from urllib.parse import urlsplit

from shared.core import settings
from shared.docs import markdown
from shared.docs.contents import MENU, PAGES, GuidePage, guided, guides, operations
from shared.docs.markdown import Block
from shared.docs.reference import guide_link

TITLE = "Appointment and conversation service"
SUMMARY = (
    "A JSON API for clinics, salons and their software. It stores customers and appointments. An agent calls customers "
    "and answers their messages, and can confirm, move and cancel appointments. Events are sent as signed webhooks."
)
_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(/(?:docs(?:/([a-z-]+))?(#[^)]*)?|(openapi\.json))\)")


def page(page: GuidePage, base_url: str, description: str) -> str:
    """A page as Markdown, with links to the operations that it is a guide to. Links to pages are those of Markdown."""
    text = _FENCE.sub(_fence, markdown.source(page.name))
    if found := guided(page, description):
        links = (f"[{one['summary']}](/docs/api#{one['operationId']})" for one in found)
        text += f"\n\nIn the API reference: {', '.join(links)}\n"
    text = _LINK.sub(_link, text).replace(markdown.BASE_URL, base_url)
    contact = settings.support_contact()
    text = text.replace(markdown.SUPPORT, support(f"<{contact}>" if contact else ""))
    return f"# {page.title}\n\n{page.about}.\n\n{text}"


def support(link: str) -> str:
    """The sentence that says where readers reach the operator. `link` is empty if the stage does not say."""
    if link:
        return f"You reach the operator of this service at {link}."
    return "Whoever gave you your API key can reach the operator of this service."


def reference(base_url: str, description: str) -> str:
    """The operations of the OpenAPI document `description` as Markdown, without their fields."""
    parts = [
        "# API reference",
        f"Every operation. Its fields, responses and errors are in the OpenAPI document: {base_url}/openapi.json",
    ]
    tag = ""
    for request, operation in operations(description):
        if operation["tags"][0] != tag:
            tag = operation["tags"][0]
            parts.append(f"## {tag}")
        parts.append(f"### {operation['summary']}\n\n`{request}` (`{operation['operationId']}`)")
        parts.append(operation.get("description", ""))
        links = (f"[{title}]({path})" for path, title in map(guide_link, guides(operation)))
        parts.append("Guides: " + "; ".join(links))
    text = "\n\n".join(filter(None, parts)) + "\n"
    return _LINK.sub(_link, text).replace(markdown.BASE_URL, base_url)


def contents(base_url: str) -> str:
    """`/llms.txt` and `/docs.md`: every page, with its address as Markdown."""
    parts = [f"# {TITLE}", f"> {SUMMARY}", f"The base address of the API is {base_url}/v1."]
    for part, pages in MENU.items():
        lines = (f"- [{one.title}]({base_url}{one.path}.md): {one.about}" for one in pages)
        parts.append(f"## {part}\n\n" + "\n".join(lines))
    parts.append(
        "## Reference\n\n"
        f"- [API reference]({base_url}/docs/api.md): Every operation\n"
        f"- [OpenAPI document]({base_url}/openapi.json): Every operation with its fields, responses and errors\n"
        f"- [All pages]({base_url}/llms-full.txt): All of these pages in one document"
    )
    return "\n\n".join(parts) + "\n"


def everything(base_url: str, description: str) -> str:
    """`/llms-full.txt`: all pages in one document."""
    pages = (page(one, base_url, description) for one in PAGES.values())
    return "\n\n".join((f"# {TITLE}\n\n> {SUMMARY}", *pages, reference(base_url, description)))


def robots(base_url: str) -> str:
    """`/robots.txt`: search engines may read the documentation."""
    stage = urlsplit(base_url).path
    return (
        f"User-agent: *\nAllow: /\nDisallow: {stage}/admin\nDisallow: {stage}/v1/\n\nSitemap: {base_url}/sitemap.xml\n"
    )


def sitemap(base_url: str) -> str:
    """`/sitemap.xml`: the addresses of all pages."""
    paths = ("/docs", *(one.path for one in PAGES.values()), "/docs/api")
    addresses = "".join(f"<url><loc>{escape(base_url + path)}</loc></url>\n" for path in paths)
    head = '<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
    return f"{head}{addresses}</urlset>\n"


def _link(match: re.Match[str]) -> str:
    name, anchor = match[1], match[2] or ""
    if match[3]:
        return f"]({markdown.BASE_URL}/{match[3]})"
    if name == "api" and anchor:
        return f"]({markdown.BASE_URL}/docs/api{anchor})"
    return f"]({markdown.BASE_URL}/docs{f'/{name}' if name else ''}.md{anchor})"


def _fence(match: re.Match[str]) -> str:
    return "\n\n".join(_shown(markdown.block(match[1], match[2])))


def _shown(block: Block) -> list[str]:
    """The block of a page, with each language in a block of its own."""
    if block.language == "response":
        status, *headers = block.text.partition("\n\n")[0].splitlines()
        body = block.text.partition("\n\n")[2]
        shown = "".join(f"\n{line}" for line in headers)
        head = f"Response: {status} {HTTPStatus(int(status)).phrase}" + (f"\n\n```http{shown}\n```" if headers else "")
        return [head, f"```json\n{body}\n```"] if body else [head]
    kept = [f"`export {name}=…` (the `{field}` of the response)" for name, field in markdown.saved(block)]
    blocks = []
    for language, code in block.variants.items():
        name = f"`{block.options['file']}`:\n\n" if "file" in block.options else ""
        shown = "sh" if language == "curl" else block.options.get("as", language)
        blocks.append(f"{name}```{shown}\n{code}\n```")
    return [*blocks, *(["Keep: " + ", ".join(kept)] if kept else [])]
