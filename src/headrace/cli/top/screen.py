"""The screen of `headrace top`: a heading, one view that fits the terminal, and the keys."""

from typing import TYPE_CHECKING, Final

from headrace.cli.control_characters import escape_controls
from headrace.cli.top.keyboard import NEXT_VIEW, PREVIOUS_VIEW
from headrace.cli.top.sample import Sample
from headrace.cli.top.views import View, ViewName, view_of

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.text import Text

FRAME_LINES: Final = 6
"""Lines around the rows: two of heading, an empty one, the headers, an empty one, the keys."""
KEYS: Final = "q quit  1-4 or Tab view  s sort  r reverse"
QUIT: Final = ("q", "Q")
GAP: Final = 2
SHORTEST_NAME: Final = 12


def _room_of_first(view: View, cells: list[list[str]], width: int) -> int:
    """How many characters the first column may have, so that all others are shown in full."""
    others = range(1, len(view.columns))
    taken = sum(
        max(len(view.columns[index].header) + 1, *(len(row[index]) for row in cells)) + GAP
        for index in others
    )
    return max(SHORTEST_NAME, width - taken - GAP)


def _refusal_text(now: Sample) -> str:
    """Which brokers refuse their metrics, by reason."""
    by_reason: dict[str, list[str]] = {}
    for broker, reason in now.refused.items():
        by_reason.setdefault(reason, []).append(str(broker))
    parts = (f"{','.join(ids)} ({escape_controls(reason)})" for reason, ids in by_reason.items())
    return f"metrics refused by {', '.join(parts)}"


class TopScreen:
    """The state of the screen; keys change it."""

    def __init__(self, view: ViewName) -> None:
        self.view = view
        self.quit = False
        self._sort: dict[ViewName, int] = {}
        self._reverse = False
        self._before: Sample | None = None
        self._now: Sample | None = None
        self._failure = ""

    # --- state ----------------------------------------------------------------------------------

    def show(self, sample: Sample) -> None:
        self._before, self._now, self._failure = self._now or sample, sample, ""

    def show_failure(self, reason: str) -> None:
        self._failure = reason

    def press(self, key: str) -> None:
        names = list(ViewName)
        place = names.index(self.view)
        if key in QUIT:
            self.quit = True
        elif key.isdecimal() and 1 <= int(key) <= len(names):
            self.view = names[int(key) - 1]
        elif key in NEXT_VIEW:
            self.view = names[(place + 1) % len(names)]
        elif key in PREVIOUS_VIEW:
            self.view = names[place - 1]
        elif key == "s":
            self._sort[self.view] = self._sort.get(self.view, -1) + 1
        elif key == "r":
            self._reverse = not self._reverse

    def _column(self, view: View) -> int:
        """The column that sorts: `s` goes from the view's own one to the next."""
        return (view.sort + self._sort.get(view.name, -1) + 1) % len(view.columns)

    # --- drawing --------------------------------------------------------------------------------

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        from rich.text import Text

        before, now = self._before, self._now
        if before is None or now is None:
            yield Text(self._failure or "reading the cluster ...", "bold red" * bool(self._failure))
            return
        yield self._heading(now)
        yield self._tabs()
        yield Text()
        view = view_of(self.view, before, now)
        room = max(1, options.max_height - FRAME_LINES)
        yield from self._table(view, room, options.max_width)
        yield Text(self._failure or KEYS, "red" if self._failure else "dim")

    def _heading(self, now: Sample) -> "Text":
        from rich.text import Text

        overview = now.overview
        live, total = len(overview.cluster.live), len(overview.loads)
        lacking, without = len(overview.under_replicated), len(overview.without_leader)
        text = Text(no_wrap=True, overflow="ellipsis")
        text.append(f"{live} of {total} brokers up", "green" if live == total else "red")
        text.append(f"   {sum(1 for _ in overview.partitions()):,} partitions", "default")
        text.append(f"   {lacking:,} under-replicated", "yellow" if lacking else "default")
        text.append(f"   {without:,} without leader", "red" if without else "default")
        source = "metrics" if now.scrapes else "protocol"
        if now.refused:
            text.append(f"   {_refusal_text(now)}", "red")
        text.append(f"   from {source}", "dim")
        return text

    def _tabs(self) -> "Text":
        from rich.text import Text

        text = Text()
        for index, name in enumerate(ViewName, start=1):
            text.append(f"{index} {name}", "reverse" if name is self.view else "default")
            text.append("  ")
        return text

    def _table(self, view: View, room: int, width: int) -> "RenderResult":
        from rich.table import Table
        from rich.text import Text

        if not view.rows:
            yield Text(view.note or f"no {view.name}", "yellow" if view.note else "dim")
            return
        column = self._column(view)
        table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, GAP, 0, 0))
        for index, each in enumerate(view.columns):
            header = Text(f"{each.header}{'*' * (index == column)}")
            table.add_column(header, justify="right" if index > 1 else "left", no_wrap=True)
        rows = view.sorted_by(column)
        if self._reverse:
            rows.reverse()
        cells = [
            [escape_controls(of.show(value)) for of, value in zip(view.columns, row, strict=True)]
            for row in rows[:room]
        ]
        name_room = _room_of_first(view, cells, width)
        for name, *others in cells:
            short = name if len(name) <= name_room else f"{name[: name_room - 1]}…"
            table.add_row(*(Text(each) for each in (short, *others)))
        yield table
        if len(rows) > room:
            yield Text(f"... and {len(rows) - room:,} more", "dim")
