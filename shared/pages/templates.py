"""The templates of pages for people. They escape every value, and refuse one that is missing."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from shared.pages.assets import Assets


def environment(folder: Path, assets: Assets) -> Environment:
    """The templates in a folder. In them, `asset(name)` is the path of an asset."""
    templates = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    templates.globals["asset"] = assets.path
    return templates
