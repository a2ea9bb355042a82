"""The lag of a flow: how far its table is behind its topics."""

from typing import NamedTuple

from headrace.pipeline.runner.flow_context import FlowContext


class PartitionLag(NamedTuple):
    """One partition. `held` is the next offset of the table, `group` that of the consumer group."""

    topic: str
    partition: int
    held: int | None
    group: int | None
    end: int
    lag: int


def lag_of(parts: FlowContext) -> list[PartitionLag]:
    """Returns the lag of every partition that exists now.

    For a partition that was never read, all of its records count.
    """
    log = parts.log.read_bounds()
    held = parts.sink.last_commit(parts.flow.id, list(log.bounds))
    group = parts.log.committed(parts.flow.id)
    beginning = parts.checkpoint.beginning()
    starts = beginning.starts if beginning is not None else {}
    rows = []
    for each, (first, end) in sorted(log.bounds.items()):
        at = held.offsets.get(each) if held is not None else None
        behind = max(0, end - (starts.get(each, first) if at is None else at))
        rows.append(PartitionLag(each.topic, each.partition, at, group.get(each), end, behind))
    return rows
