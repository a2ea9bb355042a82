"""Jinja templates with escaping always on, and the filters that all screens use."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from headrace.console.navigation import shown
from headrace.console.web import formatting
from headrace.console.web.assets import Assets

FOLDER: Final = Path(__file__).parents[1] / "templates"


class Templates:
    """Renders templates by name."""

    def __init__(self, assets: Assets, screens: frozenset[str]) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(FOLDER),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.filters.update(formatting.FILTERS)
        self._environment.globals.update(asset=assets.url, navigation=shown(screens))

    def render(self, name: str, context: Mapping[str, object]) -> str:
        return self._environment.get_template(name).render(context)
