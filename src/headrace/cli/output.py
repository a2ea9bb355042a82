"""What commands print: the same facts as text for people, or as JSON or YAML for programs.

Facts go to stdout, remarks to stderr. Tables use rich on a terminal. In a pipe they are plain
columns of full width, so that `awk` and `grep` see every value.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from headrace.cli.control_characters import escape_controls
from headrace.cli.error_messages import missing, sentence, unlisted
from headrace.cli.exit_codes import NOT_FOUND_CODES as _NOT_FOUND
from headrace.cli.exit_codes import ExitCode
from headrace.cli.yaml_text import to_yaml
from headrace.client.errors import ClientError
from headrace.client.results import Refusal

_GAP = "  "


class Format(StrEnum):
    """The output format."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headers; numbers are right-aligned."""

    headers: tuple[str, ...]
    rows: Sequence[Sequence[object]]


@dataclass(frozen=True, slots=True)
class Fields:
    """Labels with one value each."""

    rows: Sequence[tuple[str, object]]


Block = Table | Fields | str


class Output:
    """Prints facts in the requested format."""

    def __init__(self, form: Format) -> None:
        self.form = form

    def show(self, facts: object, *blocks: Block) -> None:
        """Prints the facts; `blocks` are the same facts as text."""
        match self.form:
            case Format.JSON:
                write(json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
            case Format.YAML:
                write(to_yaml(facts))
            case Format.TEXT:
                for index, block in enumerate(blocks):
                    if index:
                        write("\n")
                    _print_block(block)


def write(text: str) -> None:
    """Writes to stdout.

    A terminal gets control characters as escapes. So does every stream that cannot encode a
    character.
    """
    if sys.stdout.isatty():
        text = escape_controls(text)
    try:
        sys.stdout.write(text)
    except UnicodeEncodeError:
        encoding = sys.stdout.encoding
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))


def is_live_terminal() -> bool:
    """Whether stdout is a terminal that can redraw a screen."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def remark(text: str) -> None:
    """Writes a sentence for the user to stderr, apart from the facts on stdout."""
    sys.stdout.flush()
    if sys.stderr.isatty():
        text = escape_controls(text)
    sys.stderr.write(f"headrace: {text}\n")


def counted(number: int, noun: str) -> str:
    """A number with its noun: `1 record`, `8,204 records`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def cell(value: object) -> str:
    """A value as text for a table cell."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "-"
    return str(value)


def _print_block(block: Block) -> None:
    if isinstance(block, Table) and sys.stdout.isatty():
        _print_rich(block)
    else:
        write(text_of(block))


def text_of(block: Block) -> str:
    """The block as plain text that ends with a newline."""
    if isinstance(block, str):
        return block if block.endswith("\n") else block + "\n"
    if isinstance(block, Table):
        return plain(block)
    width = max((len(label) for label, _ in block.rows), default=0)
    return "".join(f"{label:<{width}}{_GAP}{cell(value)}\n" for label, value in block.rows)


def plain(table: Table) -> str:
    """The table as aligned columns; no value is truncated."""
    numeric = _numeric_columns(table)
    lines = [list(table.headers), *([cell(value) for value in row] for row in table.rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(table.headers))]
    text = ""
    for line in lines:
        cells = [
            value.rjust(width) if right else value.ljust(width)
            for value, width, right in zip(line, widths, numeric, strict=True)
        ]
        text += _GAP.join(cells).rstrip() + "\n"
    return text


def _numeric_columns(table: Table) -> list[bool]:
    """Whether each column contains only numbers; missing values do not count."""
    columns = [[row[index] for row in table.rows] for index in range(len(table.headers))]
    kinds = [{type(value) for value in column} - {type(None)} for column in columns]
    return [bool(kind) and kind <= {int, float} for kind in kinds]


def _print_rich(table: Table) -> None:
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(box=None, header_style="bold", pad_edge=False)
    for header, right in zip(table.headers, _numeric_columns(table), strict=True):
        shown.add_column(header, justify="right" if right else "left", overflow="fold")
    for row in table.rows:
        shown.add_row(*(Text(escape_controls(cell(value))) for value in row))
    Console(highlight=False).print(shown)


def report(
    output: Output,
    kind: str,
    done: str,
    outcomes: Mapping[str, Refusal | None],
    known: Sequence[str] = (),
) -> ExitCode:
    """Prints the result of each item and returns the exit code for all of them."""
    failed = {name: why for name, why in outcomes.items() if why is not None}
    facts = [
        {"name": name, "status": done}
        if why is None
        else {"name": name, "status": "failed", "error": why.code.name, "message": why.message}
        for name, why in outcomes.items()
    ]
    lines = [f"{done} {kind} {name}" for name, why in outcomes.items() if why is None]
    output.show(facts, *(["\n".join(lines)] if lines else []))
    for name, why in failed.items():
        if why.code in _NOT_FOUND:
            remark(missing(kind, name, known))
        else:
            remark(f"{kind} {name!r}: {sentence(why)}")
    return code_of(len(outcomes), list(failed.values()))


def report_silent(failures: Mapping[int, ClientError], kind: str) -> ExitCode:
    """Names the brokers that did not list what they coordinate, such as groups."""
    for broker, error in failures.items():
        remark(unlisted(broker, kind, error))
    return ExitCode.PARTIAL if failures else ExitCode.OK


def code_of(total: int, failures: Sequence[Refusal]) -> ExitCode:
    """The exit code for `total` items, of which these failed."""
    if not failures:
        return ExitCode.OK
    if len(failures) < total:
        return ExitCode.PARTIAL
    gone = all(why.code in _NOT_FOUND for why in failures)
    return ExitCode.NOT_FOUND if gone else ExitCode.ERROR


class Counter:
    """Counts finished items."""

    def advance(self, count: int) -> None:
        """Adds `count` finished items."""


@contextmanager
def progress(what: str, *, shown: bool) -> Iterator[Counter]:
    """Shows a count on stderr while the block runs, if `shown` and stderr is a terminal."""
    if not shown or not sys.stderr.isatty():
        yield Counter()
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.completed} " + what), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)

        class Bar(Counter):
            def advance(self, count: int) -> None:
                bar.advance(task, count)

        yield Bar()
