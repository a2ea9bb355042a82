"""`headrace pipeline reset|backfill|compact`: manual operations on a pipeline and its tables."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace.cli.command import command
from headrace.cli.confirmation import Execute, is_approved
from headrace.cli.error_messages import usage
from headrace.cli.exit_codes import ExitCode
from headrace.cli.offset_lookup import resolve, warn_of_clamping
from headrace.cli.output import Table, counted, remark
from headrace.cli.pipeline.flow_selection import (
    FlowName,
    Master,
    SpecFile,
    chosen,
    given,
    installed,
    load,
    opened,
    opened_inflow,
    opened_sink,
    reads_topics,
    running,
)
from headrace.cli.pipeline.run import run_flows
from headrace.cli.position_parser import parse_start
from headrace.cli.session import Session
from headrace.client.client import ClusterClient
from headrace.client.results import TopicPartition
from headrace.clock import SystemClock
from headrace.operations.positions import AtOffset, FromBeginning, FromEnd, SinceTime, Start

if TYPE_CHECKING:
    from headrace.pipeline.inflow.inputs import ResetTarget
    from headrace.pipeline.runner.flow_context import FlowContext
    from headrace.pipeline.spec.flow import Flow
    from headrace.pipeline.spec.pipeline import PipelineSpec

app = typer.Typer()

HOUR_S: Final = 3600.0

Facts = dict[str, object]

Place = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="POSITION",
        help="Continue from beginning, end or s@TIME; in topics also from OFFSET or -N (the last N "
        "records of each partition), in a Delta table from a version.",
    ),
]


@command(app, "reset")
def reset(
    session: Session,
    path: SpecFile,
    to: Place = "beginning",
    flow: FlowName = None,
    execute: Execute = False,
) -> None:
    """Move a pipeline to another position in its input. Rows in the sink stay.

    The pipeline infers pinned schemas again. To read everything into an empty table, delete the
    table as well.
    """
    spec = load(path)
    flows = chosen(spec, flow)
    place = parse_start(to, SystemClock().wall_ms(), flag="--to")
    for each in flows:
        if running(each):
            raise usage(f"{each.id} is running: stop it first (Ctrl-C or SIGTERM)")
    plan = [{"flow": each.id, "status": "would reset", "to": to} for each in flows]
    table = Table(("FLOW TO RESET", "CONTINUES FROM"), [(each.id, to) for each in flows])
    names = ", ".join(each.id for each in flows)
    action = f"reset {names} (records that are read again are written again)"
    if not is_approved(session.output, execute, action, plan, table):
        return
    facts = [
        _reset(session, spec, each, place)
        if reads_topics(each)
        else _reset_inflow(session, spec, each, place)
        for each in flows
    ]
    lines = [f"{fact['flow']} continues from {to}" for fact in facts]
    session.output.show(facts, "\n".join(lines))


def _reset(session: Session, spec: "PipelineSpec", flow: "Flow", place: Start) -> Facts:
    with opened(session, spec, flow) as parts:
        from headrace.pipeline.application.reset import reset as move

        moved = move(parts, _resolved(session, parts, place))
        return {
            "flow": flow.id,
            "version": None if moved.held is None else moved.held.version,
            "offsets": {str(at): offset for at, offset in moved.starts.items()},
        }


def _reset_inflow(session: Session, spec: "PipelineSpec", flow: "Flow", place: Start) -> Facts:
    with opened_inflow(session, spec, flow) as inflow:
        done = inflow.reset(_target(place))
        version = None if done is None else done.version
        return {"flow": flow.id, "version": version, "lag": inflow.progress().lag}


def _target(place: Start) -> "ResetTarget":
    from headrace.pipeline.inflow.inputs import ResetTarget

    match place:
        case FromBeginning():
            return ResetTarget("beginning")
        case FromEnd():
            return ResetTarget("end")
        case AtOffset(offset):
            return ResetTarget("version", offset)
        case SinceTime(timestamp_ms):
            return ResetTarget("time", timestamp_ms / 1000)
        case _:
            raise usage("--to -N counts records, which files and tables do not have")


def _resolved(session: Session, parts: "FlowContext", place: Start) -> dict[TopicPartition, int]:
    bounds = dict(parts.log.read_bounds().bounds)
    warn_of_clamping(bounds, place)

    async def ask(client: ClusterClient) -> dict[TopicPartition, int]:
        return await resolve(client, bounds, place, timeout_s=session.timeout_s)

    return Session(parts.kafka, session.output, session.timeout_s).run(ask)


@command(app, "backfill")
def backfill(
    session: Session,
    path: SpecFile,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="POSITION",
            help="Start at beginning, OFFSET, -N (the last N records of each partition) or s@TIME.",
            show_default=False,
        ),
    ],
    end: Annotated[
        str, typer.Option("--to", metavar="POSITION", help="Stop at end, OFFSET or s@TIME.")
    ] = "end",
    flow: FlowName = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            metavar="NAME",
            help="Name of this backfill. An interrupted backfill resumes under its name.",
        ),
    ] = None,
    master: Master = None,
    execute: Execute = False,
) -> ExitCode:
    """Read a range of the topics into the sink again. The pipeline itself may keep running.

    In append mode, rows that the sink already has are added again. In merge mode, they are
    replaced.
    """
    spec = load(path)
    now_ms = SystemClock().wall_ms()
    first = parse_start(start, now_ms, flag="--from")
    last = parse_start(end, now_ms, flag="--to")
    label = name or re.sub(r"[^A-Za-z0-9._-]+", "-", f"{start}-{end}").strip("-")
    with installed():
        from headrace.pipeline.application.application import RunSettings
        from headrace.pipeline.application.reset import backfill_flow
    flows, ends = [], {}
    plan: list[Facts] = []
    for each in _of_topics(chosen(spec, flow), flow):
        with opened(session, spec, each) as parts:
            starts = _resolved(session, parts, first)
            stops = _resolved(session, parts, last)
        flows.append(backfill_flow(each, label, starts))
        ends.update(stops)
        plan.extend(_range_facts(each.id, starts, stops))
    if not _approve_backfill(session, plan, execute=execute):
        return ExitCode.OK
    settings = RunSettings(given(session, spec), master, until_caught_up=True, ends=ends)
    return run_flows(session, spec, flows, settings)


def _range_facts(
    flow: str, starts: Mapping[TopicPartition, int], stops: Mapping[TopicPartition, int]
) -> list[Facts]:
    return [
        {
            "flow": flow,
            "topic": each.topic,
            "partition": each.partition,
            "from": start,
            "to": stops[each],
        }
        for each, start in sorted(starts.items())
    ]


def _approve_backfill(session: Session, plan: Sequence[Facts], *, execute: bool) -> bool:
    headers = ("FLOW", "TOPIC", "PARTITION", "FROM", "TO")
    table = Table(headers, [tuple(each.values()) for each in plan])
    total = sum(max(0, int(str(each["to"])) - int(str(each["from"]))) for each in plan)
    action = f"read at most {counted(total, 'record')} into the sinks again"
    return is_approved(session.output, execute, action, plan, table)


def _of_topics(flows: list["Flow"], named: str | None) -> list["Flow"]:
    found = [each for each in flows if reads_topics(each)]
    others = [each.id for each in flows if not reads_topics(each)]
    if not found or (named is not None and others):
        raise usage(
            f"{', '.join(others)} does not read a topic. To send files or table versions again, "
            "use headrace pipeline reset, or a pipeline with another name for only those files"
        )
    if others:
        remark(f"skipped, because they do not read topics: {', '.join(others)}")
    return found


@command(app, "compact")
def compact(
    session: Session,
    path: SpecFile,
    flow: FlowName = None,
    vacuum: Annotated[
        bool,
        typer.Option(
            "--vacuum", help="Then remove unused files that are older than `retain` in the spec."
        ),
    ] = False,
) -> None:
    """Join small files of the tables. The pipeline may keep running."""
    spec = load(path)
    facts: list[Facts] = []
    flows = chosen(spec, flow)
    tables = [each for each in flows if each.sink.format != "topic"]
    topics = [each.id for each in flows if each.sink.format == "topic"]
    if topics and (not tables or flow is not None):
        raise usage(f"{', '.join(topics)} writes to a topic, which has no files to join")
    for each in tables:
        with opened_sink(session, spec, each) as sink:
            done = sink.compact()
            removed = sink.vacuum(_retain_hours(each)) if vacuum else None
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


def _retain_hours(flow: "Flow") -> float:
    from headrace.pipeline.spec.sinks import TableSink

    assert isinstance(flow.sink, TableSink)
    return flow.sink.maintenance.retain / HOUR_S
