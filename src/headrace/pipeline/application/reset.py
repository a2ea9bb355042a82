"""Where a flow reads on, changed by a person: anew from another place, or a stretch once more."""

import shutil
from collections.abc import Mapping
from typing import NamedTuple

from headrace.client.results import TopicPartition
from headrace.pipeline.batch.checkpoint import Checkpoint
from headrace.pipeline.batch.planner import NO_BATCH, StartPosition
from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.runner.flow_context import FlowContext
from headrace.pipeline.runner.sole_writer import BACKFILL
from headrace.pipeline.sinks.table_sink import BatchInfo, CommittedBatch
from headrace.pipeline.spec.flow import Flow
from headrace.pipeline.spec.sources import StartOffsets, TopicSource


class ResetResult(NamedTuple):
    """What a reset did. `held` is None where the table had nothing of the flow."""

    held: CommittedBatch | None
    starts: Mapping[TopicPartition, int]


def reset(parts: FlowContext, starts: Mapping[TopicPartition, int]) -> ResetResult:
    """The next batch begins at `starts`; rows that are in the table stay there.

    A position lives in the table, so it is changed by a commit: an empty batch that ends there.
    The checkpoint forgets its pinned schemas and takes topics as they are now.
    """
    with parts.checkpoint.locked(parts.flow.id):
        log = parts.log.look()
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
        parts.log.commit(parts.flow.id, dict(starts))
        return ResetResult(committed, starts)


def backfill_flow(flow: Flow, name: str, starts: Mapping[TopicPartition, int]) -> Flow:
    """The same flow under a name of its own, so that the table tells the two apart.

    A backfill that was interrupted goes on when it is run again under its name; one that has
    finished does nothing. It reads by the schemas that the flow has pinned.
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
