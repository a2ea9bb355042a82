"""The output of `pipeline run`: a live screen on a terminal, else one line of JSON per event."""

import json
import os
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headrace.cli.output import write

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Table

    from headrace.client.results import TopicPartition
    from headrace.pipeline.runner.events import Event, Report

RATE_WINDOW_S: Final = 30.0
REFRESHES_PER_SECOND: Final = 4
MAX_NOTES: Final = 5
ROOMY_LINES: Final = 20
"""On a terminal with fewer lines, long lines are truncated."""
FEWEST_LINES: Final = 1
"""The least number of lines for partitions, however small the terminal is."""
GAP: Final = 3
STALE_S: Final = 5.0
"""A lag that is at least this old is shown with its age."""
SHOW_CURSOR: Final = "\x1b[?25h"
UNSAID: Final = frozenset({"idle", "begun"})
COLORS: Final = {"failed": "red", "retry": "yellow", "warning": "yellow", "stopping": "yellow"}


def print_line(event: "Event") -> None:
    """Prints one event as one line. Idle and begin events are not printed."""
    if event.kind in UNSAID:
        return
    write(json.dumps(event.facts(), ensure_ascii=False) + "\n")
    sys.stdout.flush()


@dataclass
class FlowState:
    """The state of one flow, collected from its events."""

    state: str = "starting"
    rows: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    dead_letters: int = 0
    begun: "Event | None" = None
    """The begin event of the current batch."""
    last: "Event | None" = None
    """The event of the last finished batch."""
    position: "Event | None" = None
    """The last event with offsets."""
    measured: "Event | None" = None
    """The last event with a lag. The lag was measured at the time of this event."""
    recent: deque["Event"] = field(default_factory=deque)

    def take(self, event: "Event") -> None:
        working = event.kind in ("started", "begun", "batch", "upkeep")
        if self.state != "stopping" or not working:
            self.state = "running" if working else event.kind.replace("_", " ")
        self.begun = event if event.kind == "begun" else None
        if event.offsets:
            self.position = event
        if event.offsets or event.lag:
            self.measured = event
        if event.kind == "batch":
            self.last = event
            self.rows += event.rows
            self.bad.update(event.bad)
            self.dead_letters += event.dead_letters
            self.recent.append(event)

    def lag_of(self, partition: "TopicPartition") -> int:
        return 0 if self.measured is None else self.measured.lag.get(partition, 0)

    def shown_lag(self, now_s: float) -> str:
        """The last known lag. An old value is shown with its age."""
        if self.measured is None:
            return "lag unknown"
        age_s = now_s - self.measured.time_s
        age = f" ({age_s:.0f} s ago)" if age_s >= STALE_S else ""
        return f"lag {sum(self.measured.lag.values()):,}{age}"

    def rows_per_s(self, now_s: float) -> float:
        """The rate over the last 30 seconds, including idle time."""
        while self.recent and self.recent[0].time_s < now_s - RATE_WINDOW_S:
            self.recent.popleft()
        if not self.recent:
            return 0.0
        first = self.recent[0].time_s - self.recent[0].seconds
        return sum(event.rows for event in self.recent) / max(0.1, now_s - first)


class Display:
    """The live screen. It fits the terminal.

    If not all partitions fit, it shows those with the largest lag.
    """

    def __init__(self, flows: Sequence[str] = ()) -> None:
        self.flows = {name: FlowState() for name in flows}
        self._notes: deque[tuple[str, str]] = deque(maxlen=MAX_NOTES)
        self._began_s = time.time()

    def __call__(self, event: "Event") -> None:
        self.flows.setdefault(event.flow, FlowState()).take(event)
        if event.message:
            at = time.strftime("%H:%M:%S", time.localtime(event.time_s))
            flow = f"{event.flow}: " if len(self.flows) > 1 else ""
            note = f"{at} {flow}{event.kind.replace('_', ' ')}: {event.message}"
            self._notes.append((note, COLORS.get(event.kind, "")))

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        from rich.console import Group
        from rich.padding import Padding
        from rich.text import Text

        now_s = time.time()
        notes = [Padding(Text(text, style=style), (0, 0, 0, 2)) for text, style in self._notes]
        wraps = console.size.height >= ROOMY_LINES
        heads = [_head(name, flow, now_s, wraps=wraps) for name, flow in self.flows.items()]
        width = options.max_width
        above: list[RenderableType] = [*heads, *notes]
        used = sum(len(console.render_lines(each, options, pad=False)) for each in above)
        shown = [flow for flow in self.flows.values() if flow.position is not None]
        free = console.size.height - used - 2 * len(self.flows) - 2
        for head, flow in zip(heads, self.flows.values(), strict=True):
            yield head
            if flow.position is not None:
                yield _partitions(flow, flow.position, width, max(FEWEST_LINES, free // len(shown)))
        yield Group(*notes)
        yield Text(self._hint(), style="dim")

    def _hint(self) -> str:
        states = {flow.state for flow in self.flows.values()}
        if "starting" in states:
            return f"Spark is starting, {time.time() - self._began_s:.0f} s ..."
        if "stopping" in states:
            return "Stopping. Press Ctrl-C again to stop immediately; no data is lost."
        return "Ctrl-C finishes the batch and stops."

    @contextmanager
    def shown(self) -> Iterator["Report"]:
        from rich.console import Console
        from rich.live import Live

        with Live(
            self,
            console=Console(highlight=False),
            refresh_per_second=REFRESHES_PER_SECOND,
            vertical_overflow="crop",
        ):
            yield self


def leave_screen() -> None:
    """Shows the cursor again. To be called before the process exits immediately."""
    if sys.stdout.isatty():
        os.write(sys.stdout.fileno(), f"{SHOW_CURSOR}\n".encode())


def _head(name: str, flow: FlowState, now_s: float, *, wraps: bool) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, expand=True)
    table.add_column(no_wrap=True)
    table.add_column(ratio=1, no_wrap=not wraps)
    title = Text.assemble((name, "bold"), "  ", (flow.state, COLORS.get(flow.state, "green")))
    whole = Table.grid(expand=True)
    whole.add_row(title)
    for label, value in _facts(flow, now_s):
        table.add_row(f"  {label}", Text(value, overflow="ellipsis"))
    whole.add_row(table)
    return whole


def _facts(flow: FlowState, now_s: float) -> Iterator[tuple[str, str]]:
    yield "rows", f"{flow.rows:,}   {flow.rows_per_s(now_s):,.0f}/s"
    if flow.bad:
        kinds = ", ".join(f"{count:,} {error}" for error, count in flow.bad.most_common())
        letters = f" ({flow.dead_letters:,} dead letters)" if flow.dead_letters else ""
        yield "bad records", f"{flow.bad.total():,}{letters}: {kinds}"
    if flow.last is not None:
        # Without a space between name and value: a line must not break there.
        phases = "  ".join(f"{name}={spent:.2f}" for name, spent in flow.last.phases.items())
        last = flow.last
        yield (
            "last batch",
            f"{last.batch_id}: {last.rows:,} rows in {last.seconds:.2f} s   {phases}",
        )
    if flow.begun is not None:
        seconds = max(0.0, now_s - flow.begun.time_s)
        what = f"{flow.begun.offsets_read:,} offsets, {seconds:.0f} s"
        yield "this batch", f"{flow.begun.batch_id}: {what}"
    if flow.position is not None:
        partitions = len(flow.position.offsets)
        of = "1 partition" if partitions == 1 else f"{partitions:,} partitions"
        yield "table", f"version {flow.position.version}, {of}, {flow.shown_lag(now_s)}"


def _partitions(flow: FlowState, position: "Event", width: int, lines: int) -> "Table":
    """Returns a table of partitions. If not all fit, it has those with the largest lag.

    A wide terminal shows several side by side.
    """
    from rich.table import Table

    most = sorted(position.offsets.items(), key=lambda each: (-flow.lag_of(each[0]), each))
    cells = [(str(at), f"{offset:,}", f"{flow.lag_of(at):,}") for at, offset in most]
    headers = ("PARTITION", "COMMITTED", "LAG")
    widths = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
    columns = max(1, (width - 2 + GAP) // (sum(widths) + 2 * len(widths) + GAP))
    columns = min(columns, -(-len(cells) // lines))
    fit = columns * lines
    hidden = cells[fit:]
    if not hidden:
        cells = [cell for _, cell in sorted(zip(most, cells, strict=True))]
    table = Table.grid(padding=(0, 2))
    table.add_column(width=0)
    for _ in range(columns):
        for at, header in enumerate(headers):
            table.add_column(header, justify="left" if at == 0 else "right", no_wrap=True)
    rows = -(-min(len(cells), fit) // columns)
    table.add_row("", *headers * columns, style="dim")
    for row in range(rows):
        line = [cells[at] for at in range(row, min(len(cells), fit), rows)]
        table.add_row("", *(text for cell in line for text in cell))
    if not hidden:
        return table
    lag = sum(flow.lag_of(at) for at, _ in most[fit:])
    table.add_row("", f"{len(hidden):,} more", "", f"{lag:,}", style="dim")
    return table
