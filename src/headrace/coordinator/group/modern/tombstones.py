"""What deletes members and groups, in the order that Kafka's own replay asks for."""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from headrace.coordinator.common.record_format import RecordChange
from headrace.protocol.struct import Struct


class GroupKeys(NamedTuple):
    """The keys of one kind of group, by what their records say."""

    group: Callable[..., Struct]
    target_epoch: Callable[..., Struct]
    member: Callable[..., Struct]
    target: Callable[..., Struct]
    current: Callable[..., Struct]

    def member_tombstones(self, group_id: str, member_id: str) -> Iterator[RecordChange]:
        """The order matters: who is to be deleted may have nothing any more."""
        for key in (self.current, self.target, self.member):
            yield RecordChange(key(group_id=group_id, member_id=member_id), None)

    def group_tombstones(
        self, group_id: str, members: Collection[str], more: Iterable[RecordChange]
    ) -> list[RecordChange]:
        """Deletes the group with all its members, and with `more` that only its kind has."""

        def of_members(key: Callable[..., Struct]) -> Iterator[RecordChange]:
            return (RecordChange(key(group_id=group_id, member_id=id_), None) for id_ in members)

        return [
            *of_members(self.current),
            *of_members(self.target),
            RecordChange(self.target_epoch(group_id=group_id), None),
            *of_members(self.member),
            *more,
            RecordChange(self.group(group_id=group_id), None),
        ]
