# ruff: noqa: INP001  # a module of the site's build, not of a package
"""Draws the ```mermaid blocks of the documentation as SVG images while the site is built.

The pages therefore need no script and no other host to show a diagram, and a diagram that does not
parse fails the build. Mermaid itself draws, in the JavaScript engine that mermaidx embeds.
"""

import base64
import html
import re

import mermaidx
from pymdownx.superfences import SuperFencesException

_TITLE = re.compile(r"^\s*accTitle:\s*(.+)$", re.MULTILINE)
_VIEW_BOX = re.compile(r'viewBox="\S+ \S+ (\S+) (\S+)"')
_CONFIG = {
    "htmlLabels": False,
    "flowchart": {"htmlLabels": False},
    "sequence": {"mirrorActors": False},
}


def diagram(source: str, language: str, css_class: str, *args: object, **kwargs: object) -> str:
    """The HTML of one block; called by pymdownx.superfences, which swallows every other error."""
    try:
        return _image(source, css_class)
    except (RuntimeError, ValueError) as error:
        lines = source.strip().splitlines()
        msg = f"the diagram that begins with {lines[:2]} cannot be drawn: {error}"
        raise SuperFencesException(msg) from error


def _image(source: str, css_class: str) -> str:
    title = _TITLE.search(source)
    if title is None:
        msg = "it has no `accTitle:` line, which readers who cannot see it need"
        raise ValueError(msg)
    svg = mermaidx.render(source, config=_CONFIG).svg()
    box = _VIEW_BOX.search(svg)
    if box is None:
        msg = "the drawing has no viewBox"
        raise ValueError(msg)
    data = base64.b64encode(svg.encode()).decode()
    return (
        f'<p class="{css_class}"><img alt="{html.escape(title[1])}" '
        f'width="{float(box[1]):.0f}" height="{float(box[2]):.0f}" '
        f'src="data:image/svg+xml;base64,{data}"></p>'
    )
