"""Members leave a consumer group, or time out."""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace

from headrace.cluster.image import MetadataImage
from headrace.coordinator.common.result import CoordinatorResult
from headrace.coordinator.group.consumer import group_records
from headrace.coordinator.group.consumer.consumer_group import ConsumerGroup
from headrace.coordinator.group.consumer.downgrade import Downgrades
from headrace.coordinator.group.consumer.member import (
    NONE_OWNED,
    STATIC_LEAVING_EPOCH,
    ConsumerMember,
    Owned,
)
from headrace.coordinator.group.consumer.member_checks import static_member
from headrace.coordinator.group.consumer.timers import cancel_all
from headrace.coordinator.group.modern.subscribed_topics import metadata_hash
from headrace.coordinator.group.result_builder import ResultBuilder
from headrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


class ConsumerLeaveGroup:
    """Removes members."""

    def __init__(self, image: Callable[[], MetadataImage], downgrades: Downgrades) -> None:
        self._image = image
        self._downgrades = downgrades

    def leave(
        self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, now_ms: int
    ) -> CoordinatorResult[ConsumerGroupHeartbeatResponse]:
        """A heartbeat with epoch -1, or -2 of a static member that will return."""
        result = ResultBuilder()
        if request.instance_id is None:
            member = group.member(request.member_id)
        else:
            member = static_member(group, request.member_id, request.instance_id)
        if request.instance_id is not None and request.member_epoch == STATIC_LEAVING_EPOCH:
            absent = replace(
                member,
                epoch=STATIC_LEAVING_EPOCH,
                assigned=_without_assignment_epochs(member.assigned),
                revoking=NONE_OWNED,
            )
            result.changes.append(group_records.current_record(group.group_id, absent))
        else:
            self.remove(group, [member], result, now_ms)
        return result.build(
            ConsumerGroupHeartbeatResponse(
                member_id=request.member_id, member_epoch=request.member_epoch
            )
        )

    def remove(
        self,
        group: ConsumerGroup,
        members: Collection[ConsumerMember],
        result: ResultBuilder,
        now_ms: int,
    ) -> None:
        """Removes members; the others get a new assignment with their next heartbeat. If only
        classic members are left, the group becomes a classic one."""
        if not members:
            return
        if self._downgrades.is_due_without(group, members):
            self._downgrades.downgrade(group, result, now_ms, leaving=members)
            return
        for member in members:
            result.changes.extend(group.records.member_tombstones(group.group_id, member.member_id))
        leaving = Counter(member.pattern for member in members if member.pattern)
        for pattern, count in leaving.items():
            if group.patterns[pattern] == count:
                result.changes.append(group_records.pattern_tombstone(group.group_id, pattern))
        hash_ = metadata_hash(group.topics_after(members, ()), self._image())
        result.changes.append(group.records.epoch(group.group_id, group.epoch + 1, hash_))
        for member in members:
            result.timers.extend(cancel_all(group.group_id, member.member_id))


def _without_assignment_epochs(owned: Owned) -> Owned:
    """With these epochs, the next process of a static member may commit in any epoch."""
    return {topic_id: dict.fromkeys(partitions, 0) for topic_id, partitions in owned.items()}
