"""The output of `headrace demo`: its progress, then the result and commands to try."""

import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace import __version__
from headrace.cli.broker.banner import program_name
from headrace.cli.output import remark, write
from headrace.cli.profiles import DEFAULT_SERVERS

if TYPE_CHECKING:
    from headrace.pipeline.dead_letters.error_groups import ErrorGroup
    from headrace.pipeline.demo.demo_result import DemoResult
    from headrace.pipeline.demo.demo_run import DemoProgress
    from headrace.pipeline.demo.traffic import Traffic
    from headrace.pipeline.runner.events import Event

    Watch = Callable[[Event], None]

REFRESH_PER_S: Final = 4
MAX_WIDTH: Final = 100
"""The width of the text in columns, also without a terminal. A narrower terminal gets fewer."""
MIN_WIDTH: Final = 60
GROUP_INDENT: Final = 15
PROBLEMS: Final = frozenset({"retry", "warning", "failed"})

BEGIN: Final = """\
Headrace {version} is up.

  clients connect to   {servers}
  topics are kept in   {data}

{plan}

  {spec}

"""
PLAN: Final = (
    "The demo sends {orders:,} orders to the topic {topic}; about one in fifty is invalid. "
    "A pipeline writes them into a Delta table. This file defines the pipeline:"
)
END: Final = """\

Written        {rows:,} rows: version {version} of the Delta table
               {table}
Dead-lettered  {letters:,} records: topic {dead_letters}
{groups}
Checked        {rows:,} + {letters:,} = {produced:,} orders: each exactly once

{duckdb}

  import duckdb, deltalake
  path = "{location}"
  orders = deltalake.DeltaTable(path).to_pyarrow_dataset()
  duckdb.sql("SELECT country, count(*), sum(amount) FROM orders GROUP BY 1")

{spark}

  import deltalake
  path = "{location}"
  files = deltalake.DeltaTable(path).file_uris()
  spark.read.parquet(*files).groupBy("country").count().show()

Try from another terminal:

{tries}

"""
STAYS: Final = "The broker stays up. Ctrl-C stops it.\n"


def text_width() -> int:
    """Returns the number of columns that the demo's text may use."""
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else MAX_WIDTH
    return max(MIN_WIDTH, min(columns, MAX_WIDTH))


def begin(
    servers: str, data: str, orders: int, topic: str, spec: Path, *, width: int = MAX_WIDTH
) -> str:
    """Returns the first screen. No line is longer than `width`, unless a single path is."""
    return BEGIN.format(
        version=__version__,
        servers=servers,
        data=data,
        plan=_filled(PLAN.format(orders=orders, topic=topic), width),
        spec=short(spec),
    )


def end(outcome: "DemoResult", servers: str, folder: Path, *, width: int = MAX_WIDTH) -> str:
    """Returns the last screen. No line is longer than `width`, unless a single path is."""
    from headrace.pipeline.demo.spec import DEAD_LETTER_TOPIC, TABLE

    python = Path(sys.executable)
    return END.format(
        rows=outcome.rows,
        version=outcome.version,
        table=short(folder / TABLE),
        location=folder / TABLE,
        letters=outcome.letters,
        dead_letters=DEAD_LETTER_TOPIC,
        groups="".join(_group_line(group, width) for group in outcome.groups),
        produced=outcome.produced,
        duckdb=_filled(f"Query the table with DuckDB, in {short(python)}:", width),
        spark=_filled(f"or with Spark, in {short(python.with_name('pyspark'))}:", width),
        tries=_commands_to_try(servers, folder, width),
    )


def _commands_to_try(servers: str, folder: Path, width: int) -> str:
    """Returns commands with a comment above each, ready to paste into a shell."""
    from headrace.pipeline.demo.spec import DEAD_LETTER_TOPIC, PIPELINE, SPEC_FILE, TOPIC

    spec = short(folder / SPEC_FILE)
    tries = (
        ("show three records", ("consume", TOPIC, "-c 3", "-e")),
        ("list the dead letters", ("dlq", "list", DEAD_LETTER_TOPIC)),
        ("replay them (a dry run)", ("dlq", "replay", DEAD_LETTER_TOPIC)),
        ("show the position of the pipeline", ("pipeline", "status", spec)),
        ("show its lag as a consumer group", ("group", "describe", PIPELINE)),
        ("run the pipeline again", ("pipeline", "run", spec)),
    )
    address = () if servers == DEFAULT_SERVERS else (f"-b {servers}",)
    return "\n".join(
        f"  # {purpose}\n{_command((program_name(), *words, *address), width)}"
        for purpose, words in tries
    )


def _command(words: Sequence[str], width: int) -> str:
    """Returns the command on as few lines as possible. A backslash continues a line."""
    lines = [f"  {words[0]}"]
    for word in words[1:]:
        if len(lines[-1]) + len(word) + len("  \\") > width:
            lines[-1] += " \\"
            lines.append(f"      {word}")
        else:
            lines[-1] += f" {word}"
    return "\n".join(lines)


def _filled(text: str, width: int) -> str:
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)


def _group_line(group: "ErrorGroup", width: int) -> str:
    message = group.samples[0].facts.message if group.samples else group.pattern
    line = f"{'':{GROUP_INDENT}}{group.count:>5,}  {group.error}: {message}"
    return (line if len(line) <= width else f"{line[: width - 4]} ...") + "\n"


def short(path: Path) -> str:
    """Returns the path relative to the current directory, or to the home directory as `~/`."""
    for base, prefix in ((Path.cwd(), ""), (Path.home(), "~/")):
        if path.is_relative_to(base):
            return f"{prefix}{path.relative_to(base)}"
    return str(path)


@contextmanager
def watching(traffic: "Traffic", progress: "DemoProgress") -> Iterator["Watch"]:
    """Yields the listener that shows progress.

    On a terminal it updates one live line. Elsewhere it prints one line per batch.
    """
    if not sys.stdout.isatty():
        yield lambda event: _print_event(event, traffic, progress)
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False)

    def watch(event: "Event") -> None:
        if event.kind in PROBLEMS:
            console.print(Text(event.message))

    with Live(
        console=console,
        get_renderable=lambda: Text(line(traffic, progress)),
        refresh_per_second=REFRESH_PER_S,
    ):
        yield watch


def line(traffic: "Traffic", progress: "DemoProgress") -> str:
    """Returns the progress of the orders and the pipeline, in one line."""
    if not progress.batches:
        waits_for = "the first batch is running" if progress.is_running else "Spark is starting"
        return f"{traffic.delivered:,} orders produced; {waits_for}, {progress.waited_s:.0f} s"
    return (
        f"{traffic.delivered:,} produced, {progress.rows:,} written, "
        f"{progress.dead_letters:,} dead-lettered, "
        f"{max(0, traffic.delivered - progress.read):,} to go"
    )


def _print_event(event: "Event", traffic: "Traffic", progress: "DemoProgress") -> None:
    if event.kind == "batch":
        write(f"batch {event.batch_id} ({event.seconds:.1f} s): {line(traffic, progress)}\n")
        sys.stdout.flush()
    elif event.kind in PROBLEMS:
        remark(event.message)
