"""Changes a flow's read position, and creates flows that read a range again."""

import shutil
from collections.abc import Mapping
from typing import NamedTuple

from headrace.client.results import TopicPartition
from headrace.pipeline.batch.checkpoint_directory import Checkpoint
from headrace.pipeline.batch.planner import NO_BATCH, StartPosition
from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.runner.flow_context import FlowContext
from headrace.pipeline.runner.single_writer_check import BACKFILL
from headrace.pipeline.sinks.table_sink import BatchInfo, CommittedBatch
from headrace.pipeline.spec.flow import Flow
from headrace.pipeline.spec.sources import StartOffsets, TopicSource


class ResetResult(NamedTuple):
    """The result of a reset. `held` is None if the table has no batch of the flow."""

    held: CommittedBatch | None
    starts: Mapping[TopicPartition, int]


def reset(parts: FlowContext, starts: Mapping[TopicPartition, int]) -> ResetResult:
    """Lets the next batch begin at `starts`. Rows in the table stay there.

    The position is stored in the table, so a commit changes it: an empty batch that ends at the new
    position. The checkpoint drops its pinned schemas and records the current topic ids.
    """
    with parts.checkpoint.locked(parts.flow.id):
        log = parts.log.read_bounds()
        partitions = list(log.bounds)
        held = parts.sink.last_commit(parts.flow.id, partitions)
        letters = parts.dead_letters
        marker = letters.last_marker(partitions) if letters is not None else None
        parts.checkpoint.forget()
        parts.checkpoint.save_beginning(StartPosition(log.topic_ids, dict(starts)))
        if held is None:
            if letters is not None:
                letters.forget(partitions)
            return ResetResult(None, starts)
        last = max(held.batch_id, marker.batch_id if marker is not None else NO_BATCH)
        nothing = tuple(
            OffsetRange(each.topic, each.partition, start, start)
            for each, start in sorted(starts.items())
        )
        committed = parts.sink.commit(BatchInfo(parts.flow.id, last + 1, nothing), [])
        parts.log.commit(parts.flow.id, dict(starts), committed)
        return ResetResult(committed, starts)


def backfill_flow(flow: Flow, name: str, starts: Mapping[TopicPartition, int]) -> Flow:
    """Returns a copy of the flow with its own id, so that the table keeps their batches apart.

    An interrupted backfill continues when it runs again under the same name. A finished one does
    nothing. It reads with the schemas that the flow has pinned.
    """
    source = flow.source
    assert isinstance(source, TopicSource)
    offsets: dict[str, dict[int, int]] = {}
    for (topic, partition), start in starts.items():
        offsets.setdefault(topic, {})[partition] = start
    checkpoint = Checkpoint(flow.checkpoint)
    folder = checkpoint.path / f"backfill-{name}"
    pinned = checkpoint.path / "schemas"
    if pinned.exists() and not (folder / "schemas").exists():
        shutil.copytree(pinned, folder / "schemas")
    return flow.model_copy(
        update={
            "id": f"{flow.id}{BACKFILL}{name}",
            "checkpoint": str(folder),
            "source": source.model_copy(update={"start": StartOffsets(offsets=offsets)}),
        }
    )
