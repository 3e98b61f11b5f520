"""What tests look for on every page in a browser: script errors, the security policy, accessibility, width."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import ConsoleMessage, Page

from tests.support.runner import ROOT

VIEWS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": {"width": 1200, "height": 800}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1200, "height": 800}},
    "phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 800}},
}


def complain(page: Page) -> None:
    """Fail on dialogs, script errors and what the security policy blocks."""

    def look(said: ConsoleMessage) -> None:
        if "Content Security Policy" in said.text:
            pytest.fail(said.text)

    page.on("dialog", lambda dialog: pytest.fail(f"a dialog: {dialog.message}"))
    page.on("pageerror", lambda error: pytest.fail(str(error)))
    page.on("console", look)


def violations(page: Page, outside: str = "") -> Any:
    """What axe finds on the page, besides the elements of a selector. The page's policy must be bypassed."""
    page.evaluate((ROOT / "node_modules" / "axe-core" / "axe.min.js").read_text())
    return page.evaluate(
        "outside => axe.run(outside ? {exclude: [outside]} : document)"
        ".then(result => result.violations.map(one => [one.id, one.nodes.map(n => n.target)]))",
        outside,
    )


def overhang(page: Page) -> int:
    """The pixels by which the page is wider than the window."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def duplicate_ids(page: Page) -> list[str]:
    """The ids that several elements of the page have: labels and links would lead to the first one."""
    ids: list[str] = page.evaluate("[...document.querySelectorAll('[id]')].map(one => one.id)")
    return sorted({id for id in ids if ids.count(id) > 1})
