"""Offsets by group, topic and partition."""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import NamedTuple

from headrace.coordinator.group.records.offsets import OffsetCommitValue


@dataclass(slots=True)
class OffsetAndMetadata:
    """An offset and the position of its record in the log: of two, the later one wins.

    Callers must not keep the object: the fast path of commits changes it in place.
    """

    record_offset: int
    value: OffsetCommitValue


class OffsetEntry(NamedTuple):
    """An offset with its group, topic and partition."""

    group_id: str
    topic: str
    partition: int
    committed: OffsetAndMetadata


Partitions = dict[int, OffsetAndMetadata]
_NONE: Mapping[str, Partitions] = {}


class OffsetTable:
    """Holds no empty inner tables, so that a group without offsets is not in it."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, Partitions]] = {}

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._groups

    def __bool__(self) -> bool:
        return bool(self._groups)

    def topics(self, group_id: str) -> Mapping[str, Partitions]:
        """The offsets of one group; empty if it has none. Not to be changed."""
        return self._groups.get(group_id, _NONE)

    def get(self, group_id: str, topic: str, partition: int) -> OffsetAndMetadata | None:
        partitions = self.topics(group_id).get(topic)
        return None if partitions is None else partitions.get(partition)

    def put(self, group_id: str, topic: str, partition: int, committed: OffsetAndMetadata) -> None:
        topics = self._groups.get(group_id)
        if topics is None:
            topics = self._groups[group_id] = {}
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[topic] = {}
        partitions[partition] = committed

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Removes the offset, if there is one."""
        topics = self._groups.get(group_id)
        partitions = None if topics is None else topics.get(topic)
        if topics is None or partitions is None:
            return
        partitions.pop(partition, None)
        if not partitions:
            del topics[topic]
            if not topics:
                del self._groups[group_id]

    def of_topics(self, names: Set[str]) -> Iterator[OffsetEntry]:
        """The committed offsets of all groups for one of the topics."""
        for group_id, topics in self._groups.items():
            for topic in names & topics.keys():
                for partition, committed in topics[topic].items():
                    yield OffsetEntry(group_id, topic, partition, committed)

    def __iter__(self) -> Iterator[OffsetEntry]:
        for group_id, topics in self._groups.items():
            for topic, partitions in topics.items():
                for partition, committed in partitions.items():
                    yield OffsetEntry(group_id, topic, partition, committed)
