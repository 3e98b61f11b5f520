"""What a cold start imports: what only one function needs weighs on no other."""

from __future__ import annotations

import subprocess
import sys

import pytest

from infra import topology

ONLY_ADMIN = ("jinja2", "jwt", "functions.admin", "shared.admin", "shared.pages")
ONLY_DOCS = ("shared.docs",)
"""Not even the function of the documentation imports it before a page is asked for."""


@pytest.mark.parametrize("function", topology.FUNCTIONS, ids=lambda function: function.name)
def test_only_the_admin_pages_load_what_they_alone_need(function: topology.Function) -> None:
    module = function.module
    code = f"import sys, {module}; print(*(name for name in {ONLY_ADMIN + ONLY_DOCS!r} if name in sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert found == ([*ONLY_ADMIN] if function.name == "admin" else [])
