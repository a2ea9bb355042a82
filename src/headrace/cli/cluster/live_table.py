"""How `cluster up` shows a cluster: a live table on a terminal, JSON lines in a pipe."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from headrace import __version__
from headrace.cli.broker.banner import program_name
from headrace.cli.cluster.cluster_state import (
    DEAD,
    ELSEWHERE,
    STARTING,
    UP,
    BrokerView,
    ClusterView,
    changes,
)
from headrace.cli.cluster.status import Overview
from headrace.cli.output import cell, is_live_terminal, write
from headrace.cli.timestamps import iso_time
from headrace.client.metadata import PartitionInfo
from headrace.client.results import TopicPartition
from headrace.clock import SystemClock

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Table

REFRESHES_PER_SECOND: Final = 4
COLORS: Final = {UP: "green", ELSEWHERE: "green", DEAD: "red", STARTING: "yellow"}
FEWEST_PARTITIONS: Final = 1
PARTITION_FRAME_LINES: Final = 4
"""Lines around the partitions: their count, the headers, the number of others, and the note."""


class Screen(Protocol):
    """Shows the state of a cluster."""

    def show(self, view: ClusterView) -> None: ...

    def say(self, text: str, event: Mapping[str, object]) -> None:
        """Shows an event: `text` on a terminal, `event` as JSON."""
        ...


class Lines:
    """Prints a line of JSON for each change."""

    def __init__(self) -> None:
        self._last: ClusterView | None = None

    def show(self, view: ClusterView) -> None:
        for event in changes(self._last, view):
            self._write(event)
        self._last = view

    def say(self, text: str, event: Mapping[str, object]) -> None:
        self._write(event)

    def _write(self, event: Mapping[str, object]) -> None:
        time = iso_time(SystemClock().wall_ms())
        write(json.dumps({"time": time, **event}, ensure_ascii=False) + "\n")
        sys.stdout.flush()


class Heading(NamedTuple):
    """What stays on the screen while the cluster runs."""

    servers: str
    zookeeper: Callable[[], str]
    folder: str
    profile: str | None = None
    http: tuple[str, ...] = ()
    """The URLs of the brokers' HTTP ports."""
    console: str | None = None


class LiveTable:
    """A screen that a thread of rich redraws."""

    def __init__(self, heading: Heading) -> None:
        self._of = heading
        self._view = ClusterView(())
        self._note = "starting"

    def show(self, view: ClusterView) -> None:
        self._view = view
        if view.is_up and self._note == "starting":
            self._note = ""

    def say(self, text: str, event: Mapping[str, object]) -> None:
        self._note = text

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        from rich.text import Text

        view = self._view
        above = [*self._heading(options.max_width), *self._brokers(view), Text()]
        used = sum(len(console.render_lines(each, options, pad=False)) for each in above)
        free = options.max_height - used - PARTITION_FRAME_LINES
        yield from above
        yield from _partition_rows(view, max(FEWEST_PARTITIONS, free))
        yield Text(self._note or "Ctrl-C stops the cluster.", style="yellow" if self._note else "")

    def _heading(self, width: int) -> "Iterator[RenderableType]":
        from rich.table import Table
        from rich.text import Text

        yield Text(f"Headrace {__version__}, {len(self._view.brokers)} brokers", style="bold")
        of = self._of
        rows = {"clients connect to": of.servers, "ZooKeeper": of.zookeeper()}
        if of.http:
            rows["metrics"] = ",".join(f"{url}/metrics" for url in of.http)
            rows["probes"] = "/livez and /readyz on the ports of the metrics"
        if of.console is not None:
            rows["console"] = of.console
        rows["data directory"] = of.folder
        if of.profile is None:
            cluster = f"-b {of.servers}"
        else:
            rows["client settings"] = of.profile
            cluster = f"--profile {of.profile}"
        gap = 2
        room = width - max(map(len, rows)) - gap
        table = Table.grid(padding=(0, gap))
        for label, value in rows.items():
            table.add_row(label, Text(wrap_list(value, room), overflow="fold"))
        yield table
        hint = f"try  {program_name()} cluster status {cluster}"
        yield Text(wrap_list(hint, width), overflow="fold")
        yield Text()

    def _brokers(self, view: ClusterView) -> "Iterator[RenderableType]":
        from rich.text import Text

        yield _broker_table(view)
        for broker in view.brokers:
            if broker.state == DEAD:
                log = broker.log.removeprefix(f"{self._of.folder}/")
                yield Text(f"\nbroker {broker.id} {broker.ended}; end of {log}:", "red")
                for line in broker.last_lines[-3:] or ("(empty)",):
                    yield Text(f"  {line}", overflow="ellipsis", no_wrap=True)
        if not view.zookeeper_runs:
            yield Text(
                "\nZooKeeper is dead: leaders still serve, but metadata cannot change", "red"
            )


def wrap_list(words: str, width: int) -> str:
    """The comma-separated words in lines of this width, without a break within a word."""
    lines = [""]
    for word in words.split(","):
        addition = f"{word},"
        if lines[-1] and len(lines[-1]) + len(addition) > width:
            lines.append("")
        lines[-1] += addition
    return "\n".join(lines).removesuffix(",")


def _broker_table(view: ClusterView) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for header in ("BROKER", "STATE", "ADDRESS", "PID"):
        table.add_column(header)
    for header in ("LEADS", "REPLICAS", "OUT-OF-SYNC"):
        table.add_column(header, justify="right")
    for broker in view.brokers:
        table.add_row(
            str(broker.id),
            Text(_state_text(broker, view.controller), COLORS.get(broker.state, "yellow")),
            broker.address,
            cell(broker.pid),
            str(broker.leads) if view.is_serving else cell(None),
            str(broker.replicas) if view.is_serving else cell(None),
            Text(str(broker.out_of_sync), "red" if broker.out_of_sync else "")
            if view.is_serving
            else cell(None),
        )
    return table


def _state_text(broker: BrokerView, controller: int | None) -> str:
    if broker.id == controller and broker.state in (UP, ELSEWHERE):
        return f"{broker.state}, controller"
    return broker.state


def _partition_rows(view: ClusterView, room: int) -> "Iterator[RenderableType]":
    from rich.table import Table
    from rich.text import Text

    if view.overview is None or not view.is_serving:
        return
    lagging = view.overview.under_replicated
    shown = _partitions_to_show(view.overview)
    total = sum(len(topic.partitions) for topic in view.overview.topics)
    without = len(view.overview.without_leader)
    words = f"{total} partitions, {len(lagging)} under-replicated, {without} without a leader"
    yield Text(words, "red" if without else "yellow" if lagging else "")
    if not shown:
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for header in ("TOPIC", "PARTITION", "LEADER", "REPLICAS", "ISR"):
        table.add_column(header)
    for each, info in list(shown.items())[:room]:
        table.add_row(
            each.topic,
            str(each.partition),
            cell(info.leader) if info.leader >= 0 else Text("none", "red"),
            cell(info.replicas),
            Text(cell(info.isr), "yellow" if len(info.isr) < len(info.replicas) else ""),
        )
    yield table
    if len(shown) > room:
        yield Text(f"... and {len(shown) - room} more")


def _partitions_to_show(overview: Overview) -> dict[TopicPartition, PartitionInfo]:
    """The partitions of user topics, and under-replicated ones of internal topics."""
    internal = {topic.name for topic in overview.topics if topic.is_internal}
    lagging = overview.under_replicated
    own = {each: info for each, info in overview.partitions() if each.topic not in internal}
    first = {each: info for each, info in lagging.items() if each in own}
    return {**first, **own, **lagging}


@contextmanager
def open_screen(heading: Heading) -> Iterator[Screen]:
    """A live screen on a terminal, JSON lines in a pipe."""
    if not is_live_terminal():
        yield Lines()
        return
    from rich.live import Live

    screen = LiveTable(heading)
    with Live(screen, refresh_per_second=REFRESHES_PER_SECOND):
        yield screen
