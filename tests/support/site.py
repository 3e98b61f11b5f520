"""A local runner with its admin pages, as a browser sees it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import BrowserContext

from tests.support.runner import ROOT, Service

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
