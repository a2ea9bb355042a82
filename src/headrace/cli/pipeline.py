"""`headrace pipeline`: topics into tables on Spark, from a spec.

Spark, pydantic and the table libraries are only imported by the commands that need them: they are
an extra, and slow to load.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace.cli.commands import command
from headrace.cli.exits import CommandFailed, ExitCode, usage
from headrace.cli.output import Block, Fields, Format, Table, remark, write
from headrace.cli.pipeline_display import Display, print_line
from headrace.cli.pipeline_flows import (
    FlowName,
    Master,
    SpecFile,
    chosen,
    given,
    installed,
    load,
    opened,
)
from headrace.cli.positions import Start, parse_start
from headrace.cli.resolve import resolve
from headrace.cli.session import Session
from headrace.cli.topic import Yes, confirm
from headrace.client.client import ClusterClient
from headrace.client.outcomes import TopicPartition
from headrace.clock import SystemClock

if TYPE_CHECKING:
    from headrace.pipeline.runner.application import RunSettings
    from headrace.pipeline.runner.events import Report
    from headrace.pipeline.runner.lag import PartitionLag
    from headrace.pipeline.runner.loop import FlowFailed
    from headrace.pipeline.runner.parts import Parts
    from headrace.pipeline.spec.flow import Flow
    from headrace.pipeline.spec.pipeline import PipelineSpec

app = typer.Typer(help="Pipelines: topics into tables on Spark.", no_args_is_help=True)

HISTORY_EVENTS: Final = 20
HOUR_S: Final = 3600.0

# --- the spec -----------------------------------------------------------------------------------


@app.command()
def init(
    path: Annotated[Path, typer.Argument(metavar="FILE")] = Path("pipeline.yaml"),
    topic: Annotated[str, typer.Option("--topic", "-t", metavar="TOPIC")] = "orders",
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a spec to start from."""
    from headrace.cli.commands import guard
    from headrace.cli.pipeline_example import example

    def work() -> None:
        if path.exists() and not force:
            raise usage(f"{path} is there already; --force replaces it")
        path.write_text(example(topic), encoding="utf-8")
        write(f"{path} is written. Change it to fit, then:\n")
        write(f"  headrace pipeline validate {path}\n  headrace pipeline run {path}\n")

    raise typer.Exit(guard(work))


@app.command()
def validate(
    path: SpecFile,
    form: Annotated[Format, typer.Option("--format", help="How to print the answer.")] = (
        Format.TEXT
    ),
) -> None:
    """Check a spec: every mistake with its line and what to write instead."""
    from headrace.cli.commands import guard
    from headrace.cli.output import Output

    def work() -> ExitCode:
        with installed():
            from headrace.pipeline.spec import SpecErrors, load_spec
        try:
            spec = load_spec(path)
        except SpecErrors as errors:
            facts = [
                {
                    "line": each.line,
                    "column": each.column,
                    "path": each.dotted,
                    "message": each.message,
                    "fix": each.fix,
                }
                for each in errors.errors
            ]
            Output(form).show({"valid": False, "mistakes": facts}, str(errors))
            return ExitCode.USAGE
        flows = [{"flow": flow.id, "sink": flow.sink.format} for flow in spec.resolved()]
        names = ", ".join(str(each["flow"]) for each in flows)
        Output(form).show({"valid": True, "flows": flows}, f"{path} is right ({names})")
        return ExitCode.OK

    raise typer.Exit(guard(work))


@app.command()
def schema() -> None:
    """Print the JSON Schema of specs, for editors."""
    from headrace.cli.commands import guard

    def work() -> None:
        with installed():
            from headrace.pipeline.spec import json_schema
        write(json.dumps(json_schema(), indent=2) + "\n")

    raise typer.Exit(guard(work))


@app.command("warm-up")
def warm_up() -> None:
    """Compile the record decoder, so that the first batch does not wait for it."""
    from headrace.cli.commands import guard

    def work() -> None:
        with installed():
            from headrace.pipeline.runner.warming import warm_up
        write(f"the decoder is compiled ({warm_up():.1f} s)\n")

    raise typer.Exit(guard(work))


# --- running ------------------------------------------------------------------------------------


@command(app, "run")
def run(
    session: Session,
    path: SpecFile,
    master: Master = None,
    until_caught_up: Annotated[
        bool,
        typer.Option(
            "--until-caught-up", help="End when all that is there at the start has landed."
        ),
    ] = False,
    flow: FlowName = None,
    metrics_port: Annotated[
        int | None,
        typer.Option("--metrics-port", min=0, max=65535, help="Serve Prometheus metrics here."),
    ] = None,
) -> ExitCode | None:
    """Run a pipeline: batch after batch, each exactly once, until it is stopped.

    SIGTERM or Ctrl-C finishes the batch; a second one ends it at once, which is safe too.
    """
    spec = load(path)
    with installed():
        from headrace.pipeline.runner.application import RunSettings
    settings = RunSettings(given(session, spec), master, until_caught_up=until_caught_up)
    return _run(session, spec, chosen(spec, flow), settings, metrics_port)


def _run(
    session: Session,
    spec: "PipelineSpec",
    flows: Sequence["Flow"],
    settings: "RunSettings",
    metrics_port: int | None = None,
) -> ExitCode:
    with installed():
        from headrace.pipeline.runner.application import Application
        from headrace.pipeline.runner.checkpoint import CheckpointError
        from headrace.pipeline.runner.session import NoSpark
    with ExitStack() as shown:
        listeners: list[Report] = []
        if metrics_port is not None:
            listeners.append(_metrics(metrics_port))
        live = session.output.form is Format.TEXT and sys.stdout.isatty()
        listeners.append(shown.enter_context(Display().shown()) if live else print_line)
        try:
            failed = Application(spec, settings, listeners, flows=flows).run()
        except (NoSpark, CheckpointError) as error:
            raise CommandFailed(str(error)) from error
    for each in failed:
        remark(f"{each.flow}: {each}")
    return _code(failed, len(flows))


def _metrics(port: int) -> "Report":
    from headrace.pipeline.runner.metrics import Metrics

    metrics = Metrics()
    try:
        taken = metrics.serve(port)
    except OSError as error:
        raise CommandFailed(f"port {port} for metrics: {error.strerror}") from error
    remark(f"metrics at http://localhost:{taken}/metrics")
    return metrics


def _code(failed: Sequence["FlowFailed"], flows: int) -> ExitCode:
    if not failed:
        return ExitCode.OK
    if len(failed) < flows:
        return ExitCode.PARTIAL
    gone = all(each.failure.unreachable for each in failed)
    return ExitCode.UNREACHABLE if gone else ExitCode.ERROR


# --- looking ------------------------------------------------------------------------------------


@command(app, "status")
def status(session: Session, path: SpecFile, flow: FlowName = None) -> None:
    """Show what each flow's table holds, how far behind it is, and what happened last."""
    spec = load(path)
    facts = []
    for each in chosen(spec, flow):
        with opened(session, spec, each) as parts:
            facts.append(_status(parts))
    blocks: list[Block] = [Fields([(label, fact[label]) for label in fact]) for fact in facts]
    session.output.show(facts, *blocks)


def _status(parts: "Parts") -> dict[str, object]:
    from headrace.pipeline.runner.history import History

    log = parts.log.look()
    held = parts.sink.last_commit(parts.flow.id, list(log.bounds))
    lag = sum(row.lag for row in _lags(parts))
    events = History(parts.checkpoint.history).events(1)
    last = events[-1] if events else None
    return {
        "flow": parts.flow.id,
        "sink": parts.flow.sink.format,
        "batch": None if held is None else held.batch_id,
        "version": None if held is None else held.version,
        "lag": lag,
        "running": parts.checkpoint.is_locked(),
        "last_event": None if last is None else f"{last['kind']} {last['message']}".strip(),
        "at": None if last is None else last["time"].isoformat(timespec="seconds"),
    }


@command(app, "lag")
def lag(session: Session, path: SpecFile, flow: FlowName = None) -> None:
    """Show each partition: what the table holds, what the group says, what is not read yet."""
    spec = load(path)
    facts: list[dict[str, object]] = []
    for each in chosen(spec, flow):
        with opened(session, spec, each) as parts:
            facts += [{"flow": each.id, **row._asdict()} for row in _lags(parts)]
    headers = ("FLOW", "TOPIC", "PARTITION", "HELD", "GROUP", "END", "LAG")
    session.output.show(facts, Table(headers, [tuple(each.values()) for each in facts]))


def _lags(parts: "Parts") -> Sequence["PartitionLag"]:
    from headrace.pipeline.runner.lag import lag_of

    return lag_of(parts)


@command(app, "history")
def history(
    session: Session,
    path: SpecFile,
    flow: FlowName = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="The last so many.")] = (
        HISTORY_EVENTS
    ),
) -> None:
    """Show what has happened: batches, retries, failures."""
    spec = load(path)
    with installed():
        from headrace.pipeline.runner.checkpoint import Checkpoint
        from headrace.pipeline.runner.history import History
    rows = []
    for each in chosen(spec, flow):
        rows += History(Checkpoint(each.checkpoint).history).events(limit)
    rows.sort(key=lambda row: row["time"])
    facts = [_event_facts(row) for row in rows[-limit:]]
    shown = ("time", "flow", "kind", "batch_id", "rows", "dead_letters", "seconds", "version")
    table = [(*(fact[name] for name in shown), fact["message"] or None) for fact in facts]
    headers = ("TIME", "FLOW", "EVENT", "BATCH", "ROWS", "DEAD", "SECONDS", "VERSION", "MESSAGE")
    session.output.show(facts, Table(headers, table))


def _event_facts(row: Mapping[str, object]) -> dict[str, object]:
    facts = dict(row)
    facts["time"] = row["time"].isoformat(timespec="milliseconds")  # type: ignore[attr-defined]
    for name in ("bad", "phases", "offsets", "lag"):
        facts[name] = json.loads(str(row[name]))
    return facts


# --- moving -------------------------------------------------------------------------------------

Place = Annotated[
    str, typer.Option("--to", metavar="PLACE", help="beginning, end, OFFSET, -N or s@TIME.")
]


@command(app, "reset")
def reset(
    session: Session,
    path: SpecFile,
    to: Place = "beginning",
    flow: FlowName = None,
    yes: Yes = False,
) -> None:
    """Let a pipeline read on from another place; rows that have landed stay in the table.

    Pinned schemas are forgotten and taken anew. To read everything into an empty table, delete
    the table as well.
    """
    spec = load(path)
    flows = chosen(spec, flow)
    place = parse_start(to, SystemClock().wall_ms(), flag="--to")
    names = ", ".join(each.id for each in flows)
    confirm(f"Let {names} read on from {to}? What is read twice lands twice.", yes)
    with installed():
        from headrace.pipeline.runner.moving import reset as move
    facts = []
    for each in flows:
        with opened(session, spec, each) as parts:
            moved = move(parts, _resolved(session, parts, place))
            facts.append(
                {
                    "flow": each.id,
                    "version": None if moved.held is None else moved.held.version,
                    "offsets": {str(at): offset for at, offset in moved.starts.items()},
                }
            )
    lines = [f"{fact['flow']} reads on from {to}" for fact in facts]
    session.output.show(facts, "\n".join(lines))


def _resolved(session: Session, parts: "Parts", place: Start) -> dict[TopicPartition, int]:
    bounds = dict(parts.log.look().bounds)

    async def ask(client: ClusterClient) -> dict[TopicPartition, int]:
        return await resolve(client, bounds, place, timeout_s=session.timeout_s)

    return Session(parts.kafka, session.output, session.timeout_s).run(ask)


@command(app, "backfill")
def backfill(
    session: Session,
    path: SpecFile,
    start: Annotated[
        str, typer.Option("--from", metavar="PLACE", help="beginning, OFFSET, -N or s@TIME.")
    ],
    end: Annotated[
        str, typer.Option("--to", metavar="PLACE", help="Up to here: end, OFFSET or s@TIME.")
    ] = "end",
    flow: FlowName = None,
    name: Annotated[
        str | None,
        typer.Option("--name", help="Under this name it goes on after an interruption."),
    ] = None,
    master: Master = None,
) -> ExitCode:
    """Read a stretch of the topics into the table once more, beside the running pipeline.

    An append adds the rows again, if they are there; a merge replaces them by what they were.
    """
    spec = load(path)
    now_ms = SystemClock().wall_ms()
    first = parse_start(start, now_ms, flag="--from")
    last = parse_start(end, now_ms, flag="--to")
    label = name or re.sub(r"[^A-Za-z0-9._-]+", "-", f"{start}-{end}").strip("-")
    with installed():
        from headrace.pipeline.runner.application import RunSettings
        from headrace.pipeline.runner.moving import backfill_flow
    flows, ends = [], {}
    for each in chosen(spec, flow):
        with opened(session, spec, each) as parts:
            flows.append(backfill_flow(each, label, _resolved(session, parts, first)))
            ends.update(_resolved(session, parts, last))
    settings = RunSettings(given(session, spec), master, until_caught_up=True, ends=ends)
    return _run(session, spec, flows, settings)


@command(app, "compact")
def compact(
    session: Session,
    path: SpecFile,
    flow: FlowName = None,
    vacuum: Annotated[
        bool, typer.Option("--vacuum", help="Then remove files that are older than `retain`.")
    ] = False,
) -> None:
    """Join small files of the tables."""
    spec = load(path)
    facts = []
    for each in chosen(spec, flow):
        with opened(session, spec, each) as parts:
            maintenance = getattr(each.sink, "maintenance", None)
            if maintenance is None:
                raise usage(f"{each.id} writes to a topic, which has no files to join")
            done = parts.sink.compact()
            removed = parts.sink.vacuum(maintenance.retain / HOUR_S) if vacuum else None
            facts.append(
                {
                    "flow": each.id,
                    "files_joined": done.files_removed,
                    "files_made": done.files_added,
                    "files_vacuumed": None if removed is None else removed.files_removed,
                }
            )
    headers = ("FLOW", "JOINED", "MADE", "VACUUMED")
    session.output.show(facts, Table(headers, [tuple(each.values()) for each in facts]))
