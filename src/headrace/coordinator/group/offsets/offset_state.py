"""The state of committed offsets. Only the replay of records and markers changes it."""

from headrace.coordinator.common.record_format import RecordChange
from headrace.coordinator.common.result import ProducerIdentity
from headrace.coordinator.group.offsets.offset_table import OffsetAndMetadata, OffsetTable
from headrace.coordinator.group.offsets.pending_offsets import PendingOffsets
from headrace.coordinator.group.records.offsets import (
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)


class OffsetState:
    """Committed offsets, and pending ones of open transactions."""

    __slots__ = ("committed", "pending")

    def __init__(self) -> None:
        self.committed = OffsetTable()
        self.pending = PendingOffsets()

    def replay(
        self,
        record_offset: int,
        key: OffsetCommitKey | LegacyOffsetCommitKey,
        value: OffsetCommitValue | None,
        producer: ProducerIdentity | None,
    ) -> None:
        if value is None:
            self.committed.remove(key.group_id, key.topic, key.partition)
            self.pending.remove(key.group_id, key.topic, key.partition)
        elif producer is None:
            self.committed.put(
                key.group_id, key.topic, key.partition, OffsetAndMetadata(record_offset, value)
            )
        else:
            self.pending.put(
                producer.producer_id,
                key.group_id,
                key.topic,
                key.partition,
                OffsetAndMetadata(record_offset, value),
            )

    def end_transaction(self, producer: ProducerIdentity, *, committed: bool) -> None:
        """Commits or drops the producer's offsets. A later record outside the transaction wins:
        compaction would keep that one, too."""
        for group_id, topic, partition, pending in self.pending.pop_producer(producer.producer_id):
            if not committed:
                continue
            existing = self.committed.get(group_id, topic, partition)
            if existing is None or pending.record_offset > existing.record_offset:
                self.committed.put(group_id, topic, partition, pending)

    def tombstones(self, group_id: str) -> list[RecordChange]:
        """Deletes all offsets of the group, pending ones included."""
        where = {
            (topic, partition): None
            for topic, partitions in self.committed.topics(group_id).items()
            for partition in partitions
        }
        where.update(dict.fromkeys(self.pending.partitions(group_id)))
        return [tombstone(group_id, topic, partition) for topic, partition in where]

    def holds(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether there is an offset, committed or pending."""
        return self.committed.get(group_id, topic, partition) is not None or self.pending.contains(
            group_id, topic, partition
        )


def tombstone(group_id: str, topic: str, partition: int) -> RecordChange:
    return RecordChange(OffsetCommitKey(group_id=group_id, topic=topic, partition=partition), None)
