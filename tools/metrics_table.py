# ruff: noqa: INP001  # a script of its own, not a package
"""The table of all metrics in docs/guide/monitoring.md, from the collectors of a running broker.

.venv/bin/python tools/metrics_table.py --write
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from headrace.broker.node import Broker as Node
from headrace.metrics.family import MetricFamily
from headrace.testing import Broker

PAGE = Path(__file__).parents[1] / "docs/guide/monitoring.md"
BEGIN, END = "<!-- metrics: begin -->\n", "<!-- metrics: end -->\n"
SETTINGS = {"headrace.http.listener": "http://127.0.0.1:0"}


def families(node: Node) -> list[MetricFamily]:
    """Every family that the broker may serve; runs on its loop."""
    assert node.http is not None
    node.coordinators  # noqa: B018 - builds them, so that their metrics exist
    return [
        family._replace(samples=())
        for collector in node.http.collectors
        for family in collector.collect()
        if family is not None
    ]


def table(found: Iterable[MetricFamily]) -> str:
    """The families as a Markdown table."""
    rows = ["| Metric | Type | Labels | Meaning |", "|---|---|---|---|"]
    for family in found:
        labels = ", ".join(f"`{label}`" for label in family.labels)
        meaning = family.help.replace("|", "\\|")
        rows.append(f"| `{family.name}` | {family.kind} | {labels} | {meaning} |")
    return "\n".join(rows) + "\n"


def table_in_page() -> str:
    _, _, rest = PAGE.read_text().partition(BEGIN)
    return rest.partition(END)[0]


def main() -> None:
    with Broker(settings=SETTINGS) as broker:
        node = broker.node
        assert node is not None
        made = table(broker.on_loop(lambda: families(node)))
    if "--write" not in sys.argv[1:]:
        sys.stdout.write(made)
        return
    before, begin, rest = PAGE.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    PAGE.write_text(before + begin + made + end + after)


if __name__ == "__main__":
    main()
