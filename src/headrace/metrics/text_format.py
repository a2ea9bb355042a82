"""Families as text, for Prometheus (0.0.4) and as OpenMetrics (1.0).

The text of a family comes in small chunks, so that the caller can return to the event loop between
them. Each
value of a label is escaped. A family without samples is left out.
"""

from collections.abc import Iterable, Iterator
from enum import Enum
from math import inf
from typing import Final

from headrace.metrics.family import MetricFamily

LINES_PER_CHUNK: Final = 50
"""About 0.1 ms of work, if the collector has its samples at hand."""


class TextFormat(Enum):
    """The formats; each value is the content type."""

    PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def render_family(family: MetricFamily, format_: TextFormat) -> Iterator[str]:
    """The lines of one family, in chunks of at most `LINES_PER_CHUNK` samples."""
    lines = _Lines(family)
    pending = [_header(family, openmetrics=format_ is TextFormat.OPENMETRICS)]
    has_samples = False
    for values, number in family.samples:
        has_samples = True
        pending.append(lines.line(values, number))
        if len(pending) >= LINES_PER_CHUNK:
            yield "".join(pending)
            pending = []
    if has_samples and pending:
        yield "".join(pending)


def end_of_text(format_: TextFormat) -> str:
    """What follows the last family."""
    return "# EOF\n" if format_ is TextFormat.OPENMETRICS else ""


def _header(family: MetricFamily, *, openmetrics: bool) -> str:
    name: str = family.name
    kind: str = family.kind
    if openmetrics and kind in ("counter", "info"):
        name = name.removesuffix("_total" if kind == "counter" else "_info")
    elif kind == "info":
        kind = "gauge"
    text = family.help.replace("\\", "\\\\").replace("\n", "\\n")
    if openmetrics:
        text = text.replace('"', '\\"')
    return f"# HELP {name} {text}\n# TYPE {name} {kind}\n"


class _Lines:
    """Renders the samples of one family."""

    __slots__ = ("_labels", "_name", "_quotes", "_suffixed", "_template")

    def __init__(self, family: MetricFamily) -> None:
        self._name = family.name
        self._labels = family.labels
        self._suffixed = {"summary": "quantile", "histogram": "le"}.get(family.kind)
        self._quotes = 2 * len(family.labels)
        pairs = ",".join(f'{label}="%s"' for label in family.labels)
        self._template = f"{family.name}{{{pairs}}} " if pairs else f"{family.name} "

    def line(self, values: tuple[str, ...], number: float) -> str:
        if self._suffixed is not None:
            return self._suffixed_line(values, number, self._suffixed)
        start = self._template % values
        # The usual values need no escape, and checks of the whole line are the cheapest.
        if start.count('"') != self._quotes or '""' in start or "\\" in start or "\n" in start:
            start = _start(self._name, zip(self._labels, values, strict=True))
        return f"{start}{render_number(number)}\n"

    def _suffixed_line(self, values: tuple[str, ...], number: float, label: str) -> str:
        *own, last = values
        pairs = list(zip(self._labels, own, strict=True))
        if last in ("sum", "count"):
            start = _start(f"{self._name}_{last}", pairs)
        else:
            name = self._name if label == "quantile" else f"{self._name}_bucket"
            start = _start(name, [*pairs, (label, last)])
        return f"{start}{render_number(number)}\n"


def _start(name: str, labels: Iterable[tuple[str, str]]) -> str:
    """The beginning of a line, up to the number; a label without a value is left out."""
    pairs = ",".join(f'{label}="{_escape(value)}"' for label, value in labels if value)
    return f"{name}{{{pairs}}} " if pairs else f"{name} "


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def render_number(number: float) -> str:
    """The number as both formats write it."""
    if isinstance(number, int):
        return str(int(number))  # also of a bool
    if number != number:
        return "NaN"
    if number in (inf, -inf):
        return "+Inf" if number > 0 else "-Inf"
    return repr(number)
