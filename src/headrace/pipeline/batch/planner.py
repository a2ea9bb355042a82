"""Plans the next batch. Pure.

A flow has no position of its own. The sink says which batch it holds and at which offset each
partition continues; the dead letters say the same of themselves. They are two systems, written in
this order: dead letters, then sink. So after a crash there are two cases. Either both agree, and
the next batch may be any that follows. Or the dead letters are one batch ahead, and then the
next batch is that one again, with its own offsets, and without its dead letters.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from headrace.client.results import TopicPartition
from headrace.pipeline.core.offsets import OffsetRange, limited
from headrace.pipeline.sinks.table_sink import CommittedBatch

NO_BATCH = -1


class OnDataLoss(StrEnum):
    """What to do when records were deleted before the flow read them."""

    FAIL = "fail"
    CONTINUE = "continue"


class PlanError(Exception):
    """The flow cannot continue by itself. The message says why and which setting decides."""


@dataclass(frozen=True, slots=True)
class SourceBounds:
    """The partitions as they are now: the first offset, and the offset after the last."""

    topic_ids: Mapping[str, str]
    bounds: Mapping[TopicPartition, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class StartPosition:
    """Where a flow started. It is saved, because `latest` would be another offset after a crash."""

    topic_ids: Mapping[str, str] = field(default_factory=dict)
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    since: Mapping[str, int] = field(default_factory=dict)
    """The first batch that reads a topic of this id, if it is not batch 0. Offsets that an older
    batch committed belong to a deleted topic of the same name."""


def with_new_partitions(
    beginning: StartPosition, log: SourceBounds, next_batch: int, on_data_loss: OnDataLoss
) -> StartPosition:
    """The start position with the log's new topics and partitions; saved before `next_batch` runs.

    New topics and partitions start at the first offset that exists now, so that records which
    retention deletes before they are read count as lost. A recreated topic starts over, if
    `on_data_loss` allows it.
    """
    ids, starts, since = dict(beginning.topic_ids), dict(beginning.starts), dict(beginning.since)
    for topic, topic_id in log.topic_ids.items():
        if topic in ids and ids[topic] != topic_id:
            if on_data_loss is OnDataLoss.FAIL:
                continue
            since[topic] = next_batch
            starts = {each: start for each, start in starts.items() if each.topic != topic}
        ids[topic] = topic_id
    for each, (first, _) in log.bounds.items():
        starts.setdefault(each, first)
    return StartPosition(ids, starts, since)


class BatchPlan(NamedTuple):
    """A batch to run. `lost` are ranges that were deleted before the flow read them."""

    batch_id: int
    ranges: tuple[OffsetRange, ...]
    dead_letters_done: bool = False
    lost: tuple[OffsetRange, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do. A batch whose dead letters are written must be committed
        even if its records were deleted."""
        return not self.dead_letters_done and not any(each.size for each in self.ranges)


class Planner:
    """Plans one flow's batches."""

    def __init__(
        self,
        *,
        beginning: StartPosition,
        on_data_loss: OnDataLoss,
        max_records: int | None,
    ) -> None:
        self._beginning = beginning
        self._on_data_loss = on_data_loss
        self._max_records = max_records

    def next_batch(
        self, log: SourceBounds, held: CommittedBatch | None, dead_letters: CommittedBatch | None
    ) -> BatchPlan:
        """The next batch, perhaps an empty one; raises `PlanError`."""
        last = held.batch_id if held is not None else NO_BATCH
        dead_lettered = dead_letters.batch_id if dead_letters is not None else NO_BATCH
        if dead_lettered > last + 1:
            raise PlanError(
                f"the dead letters are at batch {dead_lettered} and the table is at {last}: the "
                "table was replaced or restored to an older version. Run `headrace pipeline reset` "
                "to start over, or restore the table"
            )
        if dead_letters is not None and dead_lettered == last + 1:
            return self._unfinished_batch(log, dead_letters, held)
        if dead_letters is not None and held is not None and _is_further(dead_letters, held):
            # Two runs were active, and the table has the shorter batch. The rest of the longer one
            # is a batch of its own, whose dead letters are written.
            return self._unfinished_batch(log, dead_letters._replace(batch_id=last + 1), held)
        return self._following_batch(log, held, last + 1)

    def _unfinished_batch(
        self, log: SourceBounds, dead_letters: CommittedBatch, held: CommittedBatch | None
    ) -> BatchPlan:
        """The batch whose dead letters are committed and whose rows are not: it runs again."""
        self._recreated_topics(log)
        ranges, lost = [], []
        for each, end in sorted(dead_letters.offsets.items()):
            start = self._start_at(each, held, 0)
            gone = self._beginning.since.get(each.topic, 0) > dead_letters.batch_id
            if gone or each not in log.bounds:  # the topic was deleted
                before = held.offsets.get(each, end) if held is not None else end
                lost.append(OffsetRange(each.topic, each.partition, min(before, end), end))
                start = end
            else:
                first, last = log.bounds[each]
                gap = self._lost_range(each, start, first, last)
                if gap is not None:
                    lost.append(gap)
                    start = first
                end = max(start, min(end, last))
            ranges.append(OffsetRange(each.topic, each.partition, start, end))
        missing = tuple(each for each in lost if each.size)
        return BatchPlan(dead_letters.batch_id, tuple(ranges), dead_letters_done=True, lost=missing)

    def _following_batch(
        self, log: SourceBounds, held: CommittedBatch | None, batch_id: int
    ) -> BatchPlan:
        recreated = self._recreated_topics(log)
        ranges, lost = [], []
        for each, (first, end) in sorted(log.bounds.items()):
            start = first if each.topic in recreated else self._start_at(each, held, first)
            gap = self._lost_range(each, start, first, end)
            if gap is not None:
                lost.append(gap)
                start = first
            ranges.append(OffsetRange(each.topic, each.partition, start, end))
        if self._max_records is not None:
            ranges = limited(ranges, self._max_records)
        return BatchPlan(batch_id, tuple(ranges), lost=tuple(lost))

    def _start_at(self, partition: TopicPartition, held: CommittedBatch | None, first: int) -> int:
        """The offset at which reading continues; a new partition starts with its first record."""
        since = self._beginning.since.get(partition.topic, 0)
        if held is not None and partition in held.offsets and held.batch_id >= since:
            return held.offsets[partition]
        return self._beginning.starts.get(partition, first)

    def _recreated_topics(self, log: SourceBounds) -> set[str]:
        """Topics that have another id than when the flow started; raises `PlanError`."""
        known = self._beginning.topic_ids
        changed = {
            topic
            for topic, topic_id in log.topic_ids.items()
            if topic in known and known[topic] != topic_id
        }
        if changed and self._on_data_loss is OnDataLoss.FAIL:
            raise PlanError(
                f"{', '.join(sorted(changed))} was deleted and created again: its offsets mean "
                "other records now. Set on_data_loss: continue to read the new topic from its "
                "first record, or give the pipeline another name and checkpoint directory"
            )
        gone = sorted(set(known) - set(log.topic_ids))
        if gone and self._on_data_loss is OnDataLoss.FAIL:
            raise PlanError(
                f"{', '.join(gone)} is gone. Create it again and set on_data_loss: "
                "continue, or remove it from the spec"
            )
        return changed

    def _lost_range(
        self, partition: TopicPartition, start: int, first: int, end: int
    ) -> OffsetRange | None:
        """The offsets that the flow should read and that do not exist; raises `PlanError`."""
        if first <= start <= end:
            return None
        missing = OffsetRange(partition.topic, partition.partition, start, first)
        if self._on_data_loss is OnDataLoss.CONTINUE:
            return missing
        if start < first:
            raise PlanError(
                f"{partition}: offsets {start} to {first - 1} were deleted before they were read "
                f"(retention). Set on_data_loss: continue to read on from offset {first}"
            )
        raise PlanError(
            f"{partition} ends at {end}, but the table holds it up to {start}: the log lost data, "
            "or the topic was created again. Set on_data_loss: continue to read from its first "
            "record"
        )


def _is_further(dead_letters: CommittedBatch, held: CommittedBatch) -> bool:
    """Whether both are of the same batch, and the table has fewer records of it."""
    return dead_letters.batch_id == held.batch_id and any(
        end > held.offsets.get(each, 0) for each, end in dead_letters.offsets.items()
    )


def caught_up(ends: Mapping[TopicPartition, int], held: CommittedBatch | None) -> bool:
    """Whether all records before `ends` are in the table."""
    offsets = held.offsets if held is not None else {}
    return all(offsets.get(each, 0) >= end for each, end in ends.items() if end)
