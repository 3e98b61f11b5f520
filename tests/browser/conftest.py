"""A local runner, and headless Chromium in front of its admin pages.

`CHROMIUM` is the browser's path. Screenshots are in the folder that `SCREENSHOTS` names, by default a temporary one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from tests.support.runner import ROOT, Service, local_runner, quick_folder

SPEED = 10
PATIENCE = 30_000
"""Milliseconds: other processes may keep the machine busy."""


@dataclass(frozen=True)
class Site:
    """A running service with its admin pages."""

    service: Service
    folder: Path

    def manage(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "infra.manage", "--data-dir", str(self.folder / "data"), *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    def path(self, page: str, mode: str = "test") -> str:
        """The URL of a page of the first project."""
        return f"{self.service.base_url}/admin/projects/{self.service.projects[0].project_id}/{mode}/{page}"

    def sign_in(self, context: BrowserContext, email: str = "owner@demo.example") -> None:
        """Open a sign-in link in the browser."""
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.goto(self.manage("members", "link", email))
        page.close()


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    with quick_folder() as folder, local_runner(folder, SPEED) as service:
        yield Site(service, folder)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    assert path, "Chromium is not installed: apt install chromium, or set CHROMIUM"
    with sync_playwright() as playwright:
        # Chromium's sandbox does not run as root, which CI is. The pages are our own.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    named = os.environ.get("SCREENSHOTS")
    folder = Path(named) if named else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
