"""Offsets of open transactions: invisible until the marker."""

from collections.abc import Iterator, Set

from headrace.coordinator.group.offsets.offset_table import (
    OffsetAndMetadata,
    OffsetEntry,
    OffsetTable,
)

_Where = tuple[str, int]


class PendingOffsets:
    """Pending offsets by producer id, and by partition, for fetches of stable offsets."""

    __slots__ = ("_by_producer", "_open")

    def __init__(self) -> None:
        self._by_producer: dict[int, OffsetTable] = {}
        self._open: dict[str, dict[_Where, set[int]]] = {}
        """The producers with a pending offset, by group and by topic and partition."""

    def has_group(self, group_id: str) -> bool:
        return group_id in self._open

    def contains(self, group_id: str, topic: str, partition: int) -> bool:
        return (topic, partition) in self._open.get(group_id, ())

    def partitions(self, group_id: str) -> list[_Where]:
        """Topics and partitions for which the group has pending offsets."""
        return list(self._open.get(group_id, ()))

    def of_topics(self, names: Set[str]) -> Iterator[OffsetEntry]:
        """The pending offsets of any transaction for one of the topics."""
        for table in self._by_producer.values():
            yield from table.of_topics(names)

    def put(
        self,
        producer_id: int,
        group_id: str,
        topic: str,
        partition: int,
        committed: OffsetAndMetadata,
    ) -> None:
        table = self._by_producer.setdefault(producer_id, OffsetTable())
        table.put(group_id, topic, partition, committed)
        where = self._open.setdefault(group_id, {})
        where.setdefault((topic, partition), set()).add(producer_id)

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Removes the pending offsets of any transaction for the partition."""
        where = self._open.get(group_id)
        producers = None if where is None else where.pop((topic, partition), None)
        if where is None or producers is None:
            return
        if not where:
            del self._open[group_id]
        for producer_id in producers:
            self._by_producer[producer_id].remove(group_id, topic, partition)

    def pop_producer(self, producer_id: int) -> OffsetTable:
        """Removes and returns the offsets of the producer's transaction, which has ended."""
        table = self._by_producer.pop(producer_id, None)
        if table is None:
            return OffsetTable()
        for group_id, topic, partition, _ in table:
            where = self._open[group_id]
            producers = where[topic, partition]
            producers.discard(producer_id)
            if not producers:
                del where[topic, partition]
                if not where:
                    del self._open[group_id]
        return table
