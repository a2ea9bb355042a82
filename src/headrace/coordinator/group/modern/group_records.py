"""The records that consumer groups and share groups have in common, and their tombstones.

Kafka has separate record types for each kind of group, with the same fields.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from headrace.coordinator.common.record_format import RecordChange
from headrace.coordinator.group.modern.assignor_spec import Assignment
from headrace.protocol.struct import Struct


class GroupRecords(NamedTuple):
    """The key and value types of one kind of group."""

    group_key: Callable[..., Struct]
    group_value: Callable[..., Struct]
    target_epoch_key: Callable[..., Struct]
    target_epoch_value: Callable[..., Struct]
    member_key: Callable[..., Struct]
    target_key: Callable[..., Struct]
    target_value: Callable[..., Struct]
    target_partitions: Callable[..., Struct]
    current_key: Callable[..., Struct]

    def epoch(self, group_id: str, epoch: int, metadata_hash: int) -> RecordChange:
        """The group epoch, and the hash of the subscribed topics at that epoch."""
        return RecordChange(
            self.group_key(group_id=group_id),
            self.group_value(epoch=epoch, metadata_hash=metadata_hash),
        )

    def target_epoch(self, group_id: str, epoch: int, assigned_at_ms: int) -> RecordChange:
        """The group epoch for which the target assignment was computed, and when."""
        return RecordChange(
            self.target_epoch_key(group_id=group_id),
            self.target_epoch_value(assignment_epoch=epoch, assignment_timestamp=assigned_at_ms),
        )

    def target(self, group_id: str, member_id: str, target: Assignment) -> RecordChange:
        """The partitions that the member should have."""
        return RecordChange(
            self.target_key(group_id=group_id, member_id=member_id),
            self.target_value(
                topic_partitions=[
                    self.target_partitions(topic_id=topic_id, partitions=sorted(partitions))
                    for topic_id, partitions in target.items()
                ]
            ),
        )

    def member_tombstones(self, group_id: str, member_id: str) -> Iterator[RecordChange]:
        """Deletes a member, in the order that Kafka's replay requires: a member is deleted only
        after its assignment."""
        for key in (self.current_key, self.target_key, self.member_key):
            yield RecordChange(key(group_id=group_id, member_id=member_id), None)

    def group_tombstones(
        self, group_id: str, member_ids: Collection[str], extra: Iterable[RecordChange]
    ) -> list[RecordChange]:
        """Deletes the group with its members. `extra` are tombstones of records that only this
        kind of group has."""

        def for_members(key: Callable[..., Struct]) -> Iterator[RecordChange]:
            return (RecordChange(key(group_id=group_id, member_id=id_), None) for id_ in member_ids)

        return [
            *for_members(self.current_key),
            *for_members(self.target_key),
            RecordChange(self.target_epoch_key(group_id=group_id), None),
            *for_members(self.member_key),
            *extra,
            RecordChange(self.group_key(group_id=group_id), None),
        ]
