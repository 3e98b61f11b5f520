"""A local runner, and headless Chromium in front of its admin pages.

`CHROMIUM` is the browser's path. Screenshots are in the folder that `SCREENSHOTS` names, by default a temporary one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.support.runner import local_runner, memory_folder
from tests.support.site import SPEED, Site


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    with memory_folder() as folder, local_runner(folder, SPEED) as service:
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
