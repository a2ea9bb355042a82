"""What `pipeline run` shows: a live screen on a terminal, a line of JSON an event elsewhere."""

import json
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headrace.cli.output import write

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from headrace.pipeline.runner.events import Event, Report

RATE_WINDOW_S: Final = 30.0
REFRESHES_PER_SECOND: Final = 4
MAX_PARTITIONS: Final = 16
MAX_NOTES: Final = 5


def print_line(event: "Event") -> None:
    """One event as one line; that nothing has happened is not said."""
    if event.kind == "idle":
        return
    write(json.dumps(event.facts(), ensure_ascii=False) + "\n")
    sys.stdout.flush()


@dataclass
class FlowState:
    """What is known of a flow."""

    state: str = "starting"
    rows: int = 0
    bad: int = 0
    dead_letters: int = 0
    last: "Event | None" = None
    """The last batch."""
    position: "Event | None" = None
    """The last event with offsets."""
    recent: deque[tuple[float, int]] = field(default_factory=deque)

    def take(self, event: "Event") -> None:
        self.state = "running" if event.kind in ("started", "batch", "upkeep") else event.kind
        if event.offsets:
            self.position = event
        if event.kind == "batch":
            self.last = event
            self.rows += event.rows
            self.bad += sum(event.bad.values())
            self.dead_letters += event.dead_letters
            self.recent.append((event.time_s, event.rows))

    def rows_per_s(self, now_s: float) -> float:
        """Over the last half minute, idle time included."""
        while self.recent and self.recent[0][0] < now_s - RATE_WINDOW_S:
            self.recent.popleft()
        if not self.recent:
            return 0.0
        first = self.recent[0][0] - (self.last.seconds if self.last is not None else 0.0)
        return sum(rows for _, rows in self.recent) / max(0.1, now_s - first)


class Display:
    """The live screen."""

    def __init__(self) -> None:
        self.flows: dict[str, FlowState] = {}
        self._notes: deque[str] = deque(maxlen=MAX_NOTES)

    def __call__(self, event: "Event") -> None:
        self.flows.setdefault(event.flow, FlowState()).take(event)
        if event.message:
            at = time.strftime("%H:%M:%S", time.localtime(event.time_s))
            self._notes.append(f"{at} {event.flow}: {event.kind}: {event.message}")

    def render(self) -> "Group":
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        parts: list[Table | Text] = []
        now_s = time.time()
        for name, flow in self.flows.items():
            parts.append(Text(f"{name}  {flow.state}", style="bold"))
            facts = Table(box=None, show_header=False, pad_edge=False)
            for label, value in _facts(flow, now_s):
                facts.add_row(label, Text(value))
            parts.append(facts)
            parts.append(_partitions(flow))
        parts.extend(Text(note) for note in self._notes)
        parts.append(Text("Ctrl-C finishes the batch and stops.", style="dim"))
        return Group(*parts)

    @contextmanager
    def shown(self) -> Iterator["Report"]:
        from rich.console import Console
        from rich.live import Live

        with Live(
            get_renderable=self.render,
            console=Console(),
            refresh_per_second=REFRESHES_PER_SECOND,
            transient=False,
        ):
            yield self


def _facts(flow: FlowState, now_s: float) -> Iterator[tuple[str, str]]:
    yield "  rows", f"{flow.rows:,}  ({flow.rows_per_s(now_s):,.0f}/s)"
    yield "  bad records", f"{flow.bad:,}  ({flow.dead_letters:,} to the dead letters)"
    if flow.last is not None:
        phases = "  ".join(f"{name} {spent:.2f}" for name, spent in flow.last.phases.items())
        yield "  batch", f"{flow.last.batch_id}: {flow.last.seconds:.2f} s  ({phases})"
    if flow.position is not None:
        lag = sum(flow.position.lag.values())
        yield "  table", f"version {flow.position.version}, lag {lag:,}"


def _partitions(flow: FlowState) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for header in ("  PARTITION", "OFFSET", "LAG"):
        table.add_column(header, justify="left" if "PART" in header else "right")
    if flow.position is None:
        return table
    offsets = sorted(flow.position.offsets.items())
    for each, offset in offsets[:MAX_PARTITIONS]:
        table.add_row(f"  {each}", f"{offset:,}", f"{flow.position.lag.get(each, 0):,}")
    if len(offsets) > MAX_PARTITIONS:
        table.add_row(f"  and {len(offsets) - MAX_PARTITIONS} more", "", "")
    return table
