"""`headrace pipeline status|lag|history`: a pipeline's position, lag and past events."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace.cli.command import command
from headrace.cli.output import Block, Fields, Table
from headrace.cli.pipeline.flow_selection import (
    FlowName,
    SpecFile,
    chosen,
    installed,
    load,
    opened,
    opened_inflow,
    reads_topics,
)
from headrace.cli.session import Session

if TYPE_CHECKING:
    from headrace.pipeline.batch.checkpoint_directory import Checkpoint
    from headrace.pipeline.sinks.table_sink import CommittedBatch
    from headrace.pipeline.spec.flow import Flow
    from headrace.pipeline.spec.pipeline import PipelineSpec

app = typer.Typer()

HISTORY_EVENTS: Final = 20

Facts = dict[str, object]


@command(app, "status")
def status(session: Session, path: SpecFile, flow: FlowName = None) -> None:
    """Show the position, the lag and the last event of each flow."""
    spec = load(path)
    facts = [_status(session, spec, each) for each in chosen(spec, flow)]
    blocks: list[Block] = [Fields([(label, fact[label]) for label in fact]) for fact in facts]
    session.output.show(facts, *blocks)


def _status(session: Session, spec: "PipelineSpec", flow: "Flow") -> Facts:
    if reads_topics(flow):
        from headrace.pipeline.application.lag import lag_of

        with opened(session, spec, flow) as parts:
            lag = sum(row.lag for row in lag_of(parts))
            return _state(flow, parts.last_commit(), lag, parts.checkpoint)
    with opened_inflow(session, spec, flow) as inflow:
        standing = inflow.progress()
        state = _state(flow, inflow.last_commit(), standing.lag, inflow.checkpoint)
        state["lag_unit"] = standing.unit
        return state


def _state(
    flow: "Flow", held: "CommittedBatch | None", lag: int, checkpoint: "Checkpoint"
) -> Facts:
    from headrace.pipeline.application.history import RunHistory

    events = RunHistory(checkpoint.history).events(1)
    last = events[-1] if events else None
    return {
        "flow": flow.id,
        "sink": flow.sink.format,
        "target": _target(flow),
        "batch": None if held is None else held.batch_id,
        "version": None if held is None else held.version,
        "lag": lag,
        "running": checkpoint.is_locked(),
        "last_event": None if last is None else f"{last['kind']} {last['message']}".strip(),
        "at": None if last is None else last["time"].isoformat(timespec="seconds"),
    }


def _target(flow: "Flow") -> str:
    sink = flow.sink
    return sink.topic if sink.format == "topic" else sink.table


@command(app, "lag")
def lag(session: Session, path: SpecFile, flow: FlowName = None) -> None:
    """Show the input that is not read yet: records by partition, files, or table versions.

    SINK is the position that the sink has committed. GROUP is the offset that the consumer group
    has committed; other Kafka tools show it.
    """
    spec = load(path)
    topics: list[Facts] = []
    others: list[Facts] = []
    for each in chosen(spec, flow):
        if reads_topics(each):
            from headrace.pipeline.application.lag import lag_of

            with opened(session, spec, each) as parts:
                topics += [{"flow": each.id, **row._asdict()} for row in lag_of(parts)]
        else:
            with opened_inflow(session, spec, each) as inflow:
                others.append({"flow": each.id, **inflow.progress()._asdict()})
    blocks: list[Block] = []
    if topics or not others:
        headers = ("FLOW", "TOPIC", "PARTITION", "SINK", "GROUP", "END", "LAG")
        blocks.append(Table(headers, _rows(topics)))
    if others:
        blocks.append(Table(("FLOW", "UNIT", "SOURCE", "SINK", "END", "LAG"), _rows(others)))
    session.output.show([*topics, *others], *blocks)


def _rows(facts: Sequence[Facts]) -> list[tuple[object, ...]]:
    return [tuple(each.values()) for each in facts]


@command(app, "history")
def history(
    session: Session,
    path: SpecFile,
    flow: FlowName = None,
    limit: Annotated[
        int,
        typer.Option(
            "--limit", "-n", metavar="N", min=1, help="Number of events to show, newest last."
        ),
    ] = HISTORY_EVENTS,
) -> None:
    """Show past events of a pipeline: batches, retries, failures."""
    spec = load(path)
    with installed():
        from headrace.pipeline.application.history import RunHistory
        from headrace.pipeline.batch.checkpoint_directory import Checkpoint
    rows = []
    for each in chosen(spec, flow):
        rows += RunHistory(Checkpoint(each.checkpoint).history).events(limit)
    rows.sort(key=lambda row: row["time"])
    facts = [_event_facts(row) for row in rows[-limit:]]
    if not facts:
        session.output.show(
            facts, "no events: this pipeline has never run with this checkpoint directory"
        )
        return
    shown = ("time", "flow", "kind", "batch_id", "rows", "dead_letters", "seconds", "version")
    table = [(*(fact[name] for name in shown), fact["message"] or None) for fact in facts]
    headers = ("TIME", "FLOW", "EVENT", "BATCH", "ROWS", "DEAD", "SECONDS", "VERSION", "MESSAGE")
    session.output.show(facts, Table(headers, table))


def _event_facts(row: Mapping[str, object]) -> Facts:
    facts = dict(row)
    facts["time"] = row["time"].isoformat(timespec="milliseconds")  # type: ignore[attr-defined]
    for name in ("bad", "phases", "offsets", "lag"):
        facts[name] = json.loads(str(row[name]))
    return facts
