"""What `headrace demo` shows: progress while it runs, then what came of it and what to try."""

import sys
from collections.abc import Callable, Iterator
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
MAX_EXAMPLE: Final = 60
PROBLEMS: Final = frozenset({"retry", "warning", "failed"})

BEGIN: Final = """\
Headrace {version} is up.

  clients connect to   {servers}
  topics are kept in   {data}

{orders:,} orders go to the topic {topic}, about one in fifty of them broken. A pipeline takes
them into a Delta table, by the spec {spec}

"""
END: Final = """\

What landed          {rows:,} rows, version {version} of the Delta table {table}
What was set aside   {letters:,} dead letters in the topic {dead_letters}
{groups}
Checked              {rows:,} + {letters:,} = {produced:,} orders produced: each exactly once

Query the table with DuckDB, in {python}:

  import duckdb, deltalake
  orders = deltalake.DeltaTable("{location}").to_pyarrow_dataset()
  duckdb.sql("SELECT country, count(*), sum(amount) FROM orders GROUP BY country ORDER BY 2 DESC")

or with Spark, in {pyspark}:

  import deltalake
  files = deltalake.DeltaTable("{location}").file_uris()
  spark.read.parquet(*files).groupBy("country").count().show()

Try from another terminal:

{tries}

"""
STAYS: Final = "The broker stays up. Ctrl-C stops it.\n"


def begin(servers: str, data: str, orders: int, topic: str, spec: Path) -> str:
    return BEGIN.format(
        version=__version__,
        servers=servers,
        data=data,
        orders=orders,
        topic=topic,
        spec=short(spec),
    )


def end(outcome: "DemoResult", servers: str, folder: Path) -> str:
    """The last screen."""
    from headrace.pipeline.demo.spec import DEAD_LETTER_TOPIC, PIPELINE, SPEC_FILE, TABLE, TOPIC

    groups = "".join(
        f"{'':21}{group.count:>5,}  {group.error}: {_example(group)}\n" for group in outcome.groups
    )
    program = program_name()
    where = "" if servers == DEFAULT_SERVERS else f" -b {servers}"
    spec = short(folder / SPEC_FILE)
    tries = (
        ("look at records", f"{program} consume {TOPIC} -c 3 -e{where}"),
        ("at dead letters", f"{program} dlq list {DEAD_LETTER_TOPIC}{where}"),
        ("replay (a dry run)", f"{program} dlq replay {DEAD_LETTER_TOPIC}{where}"),
        ("how far is it?", f"{program} pipeline status {spec}{where}"),
        ("its lag, as any tool", f"{program} group describe {PIPELINE}{where}"),
        ("run it on", f"{program} pipeline run {spec}{where}"),
    )
    width = max(len(why) for why, _ in tries)
    return END.format(
        rows=outcome.rows,
        version=outcome.version,
        table=short(folder / TABLE),
        location=folder / TABLE,
        letters=outcome.letters,
        dead_letters=DEAD_LETTER_TOPIC,
        groups=groups,
        produced=outcome.produced,
        python=short(Path(sys.executable)),
        pyspark=short(Path(sys.executable).with_name("pyspark")),
        tries="\n".join(f"  {why:<{width}}   {what}" for why, what in tries),
    )


def short(path: Path) -> str:
    """How a person would write it: from here, or from home."""
    for base, prefix in ((Path.cwd(), ""), (Path.home(), "~/")):
        if path.is_relative_to(base):
            return f"{prefix}{path.relative_to(base)}"
    return str(path)


def _example(group: "ErrorGroup") -> str:
    message = group.samples[0].facts.message if group.samples else group.pattern
    return message if len(message) <= MAX_EXAMPLE else f"{message[: MAX_EXAMPLE - 4]} ..."


@contextmanager
def watching(traffic: "Traffic", progress: "DemoProgress") -> Iterator["Watch"]:
    """A line that changes on a terminal; elsewhere a line for each batch."""
    if not sys.stdout.isatty():
        yield lambda event: _say(event, traffic, progress)
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
    """How far it is, in one line."""
    if not progress.batches:
        waits_for = "the first batch runs" if progress.is_running else "Spark starts"
        return f"{traffic.delivered:,} orders produced; {waits_for}, {progress.waited_s:.0f} s"
    return (
        f"{traffic.delivered:,} orders produced, {progress.rows:,} landed, "
        f"{progress.dead_letters:,} set aside, "
        f"{max(0, traffic.delivered - progress.read):,} to go"
    )


def _say(event: "Event", traffic: "Traffic", progress: "DemoProgress") -> None:
    if event.kind == "batch":
        write(f"batch {event.batch_id} ({event.seconds:.1f} s): {line(traffic, progress)}\n")
        sys.stdout.flush()
    elif event.kind in PROBLEMS:
        remark(event.message)
