"""The chart of docs/benchmarks.md: how many times better each headline figure is, as SVG. Pure.

The axis is logarithmic, so that ten times better and ten times worse have the same length. The bar
is the median, the thin line the middle half of the pairs.
"""

import math
from html import escape

from bench.results import Figure, Results
from bench.stats import Spread

ROW_PX = 22
LABEL_PX = 330
PLOT_PX = 480
VALUE_PX = 90
TOP_PX = 46
BOTTOM_PX = 16
BAR_PX = 14
AHEAD, BEHIND, INK, GRID = "#2f7d5b", "#b5523b", "#24292f", "#d0d7de"
FONT = 'font-family="system-ui, sans-serif" font-size="12"'
TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def chart(results: Results) -> str:
    rows = [
        (f"{workload.title}: {figure.metric.title}", better)
        for workload in results.workloads
        for figure in workload.figures
        if figure.metric.headline and (better := times_better(figure)) is not None
    ]
    low = min([0.5, *(spread.low for _, spread in rows)])
    high = max([2.0, *(spread.high for _, spread in rows)])
    scale = _Scale(low, high)
    height = TOP_PX + ROW_PX * len(rows) + BOTTOM_PX
    width = LABEL_PX + PLOT_PX + VALUE_PX
    heading = f"Times better than Apache Kafka {escape(results.machine.kafka)} (median of pairs)"
    body = [*_grid(scale, height), *(_row(i, *row, scale) for i, row in enumerate(rows))]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {FONT}>',
            "<title>Headrace beside Apache Kafka: times better, by figure</title>",
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
            f'<text x="12" y="20" font-size="14" font-weight="600" fill="{INK}">{heading}</text>',
            *body,
            "</svg>",
            "",
        ]
    )


def times_better(figure: Figure) -> Spread | None:
    """The ratio, inverted for costs so that more is better: Kafka's over ours."""
    ratio = figure.ratio
    if ratio is None or figure.metric.better == "higher":
        return ratio
    if not ratio.low:
        return None
    return Spread(
        ratio.count,
        1 / ratio.high,
        1 / ratio.upper_quartile,
        1 / ratio.median,
        1 / ratio.lower_quartile,
        1 / ratio.low,
    )


class _Scale:
    """Positions on a logarithmic axis from `low` to `high`."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low / 1.1, high * 1.1

    def at(self, value: float) -> float:
        span = math.log(self.high / self.low)
        return LABEL_PX + PLOT_PX * math.log(value / self.low) / span


def _grid(scale: _Scale, height: int) -> list[str]:
    lines = []
    for tick in TICKS:
        if scale.low <= tick <= scale.high:
            x = scale.at(tick)
            stroke = INK if tick == 1 else GRID
            lines.append(
                f'<line x1="{x:.1f}" y1="{TOP_PX - 6}" x2="{x:.1f}" '
                f'y2="{height - BOTTOM_PX}" stroke="{stroke}"/>'
                f'<text x="{x:.1f}" y="{TOP_PX - 10}" text-anchor="middle" fill="{INK}">'
                f"{tick:g}x</text>"
            )
    return lines


def _row(index: int, label: str, spread: Spread, scale: _Scale) -> str:
    top = TOP_PX + ROW_PX * index
    middle = top + BAR_PX / 2
    one, end = scale.at(1), scale.at(spread.median)
    colour = AHEAD if spread.median >= 1 else BEHIND
    left, right = scale.at(spread.lower_quartile), scale.at(spread.upper_quartile)
    return (
        f'<text x="{LABEL_PX - 10}" y="{middle + 4:.1f}" text-anchor="end" fill="{INK}">'
        f"{escape(label)}</text>"
        f'<rect x="{min(one, end):.1f}" y="{top}" width="{abs(end - one):.1f}" '
        f'height="{BAR_PX}" fill="{colour}"/>'
        f'<line x1="{left:.1f}" y1="{middle:.1f}" x2="{right:.1f}" y2="{middle:.1f}" '
        f'stroke="{INK}"/>'
        f'<text x="{max(one, end, right) + 6:.1f}" y="{middle + 4:.1f}" fill="{INK}">'
        f"{spread.median:.2f}x</text>"
    )
