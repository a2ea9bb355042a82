"""The share groups of one shard: the entry point for requests, records and timers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.record_format import RecordChange
from headrace.coordinator.common.request_context import RequestContext
from headrace.coordinator.common.result import CancelTimer, CoordinatorResult, SetTimer
from headrace.coordinator.group.group_manager import Replay
from headrace.coordinator.group.modern.modern_group import JOINING_EPOCH, LEAVING_EPOCH
from headrace.coordinator.group.modern.subscribed_topics import metadata_hash
from headrace.coordinator.group.share import group_records, start_offsets
from headrace.coordinator.group.share.description import describe
from headrace.coordinator.group.share.heartbeat import ShareHeartbeats
from headrace.coordinator.group.share.member import ShareMember
from headrace.coordinator.group.share.record_replay import replays
from headrace.coordinator.group.share.share_group import ShareGroup
from headrace.coordinator.group.share.start_offsets import (
    StartOffset,
    StartOffsetAlteration,
    StateDeletion,
)
from headrace.coordinator.group.share.state_topics import Partitions, StateTopic
from headrace.coordinator.group.share.timers import SessionTimer, session_timer
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.share_group_describe import ShareGroupDescribeDescribedGroup
from headrace.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from headrace.protocol.struct import Struct

if TYPE_CHECKING:
    from headrace.coordinator.group.group_shard import GroupShard


class ShareGroupManager:
    """Implements `GroupManager`."""

    def __init__(self, shard: GroupShard) -> None:
        self._shard = shard
        self._heartbeats = ShareHeartbeats(shard)

    # --- requests -------------------------------------------------------------------------------

    def heartbeat(
        self, context: RequestContext, request: ShareGroupHeartbeatRequest, now_ms: int
    ) -> CoordinatorResult[ShareGroupHeartbeatResponse]:
        """The heartbeat of a member that joins, is in the group, or leaves."""
        _check(request)
        if request.member_epoch == LEAVING_EPOCH:
            return self._leave(request)
        return self._heartbeats.heartbeat(context, request, now_ms)

    def _leave(
        self, request: ShareGroupHeartbeatRequest
    ) -> CoordinatorResult[ShareGroupHeartbeatResponse]:
        group = self.group(request.group_id)
        member = group.member(request.member_id)
        return CoordinatorResult(
            ShareGroupHeartbeatResponse(member_id=member.member_id, member_epoch=LEAVING_EPOCH),
            changes=self._removal(group, member),
            timers=[CancelTimer(session_timer(group.group_id, member.member_id))],
        )

    def _removal(self, group: ShareGroup, member: ShareMember) -> list[RecordChange]:
        hash_ = metadata_hash(group.topics_after(member, None), self._shard.image())
        return [
            *group.records.member_tombstones(group.group_id, member.member_id),
            group.records.epoch(group.group_id, group.epoch + 1, hash_),
        ]

    def describe(self, group_id: str, now_ms: int) -> ShareGroupDescribeDescribedGroup:
        """Describes a group. Raises GROUP_ID_NOT_FOUND if it does not exist or is of another
        kind."""
        assignor = self._shard.config(group_id).share_assignors[0]
        return describe(self.group(group_id), assignor, self._shard.image(), now_ms)

    def group(self, group_id: str) -> ShareGroup:
        """The share group; raises GROUP_ID_NOT_FOUND if there is none."""
        group = self._shard.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            raise start_offsets.not_a_share_group(group_id, exists=group is not None)
        return group

    # --- stored state ---------------------------------------------------------------------------

    def started(self, group_id: str, topics: Mapping[bytes, StateTopic]) -> CoordinatorResult[bool]:
        """Called when an `InitializeState` succeeded: these partitions can be assigned now."""
        group = self.group(group_id)
        topics = {
            id_: one for id_, one in topics.items() if id_ in self._shard.image().topics_by_id
        }
        record = group_records.state_topics_record(group_id, group.state_topics.started(topics))
        return CoordinatorResult(True, changes=[record])

    def not_started(
        self, group_id: str, topics: Mapping[bytes, StateTopic]
    ) -> CoordinatorResult[bool]:
        """Called when an `InitializeState` failed: a later heartbeat tries again."""
        group = self.group(group_id)
        for topic_id in topics:
            group.started_at_ms.pop(topic_id, None)
        record = group_records.state_topics_record(group_id, group.state_topics.not_started(topics))
        return CoordinatorResult(True, changes=[record])

    def alter_offsets(
        self, group_id: str, wanted: Sequence[StartOffset]
    ) -> CoordinatorResult[StartOffsetAlteration]:
        """Prepares new start offsets; creates the group if there is none."""
        group = self._shard.groups.get(group_id)
        if group is None:
            group = ShareGroup(group_id)
        if not isinstance(group, ShareGroup):
            raise start_offsets.not_a_share_group(group_id, exists=True)
        return start_offsets.alter(group, wanted, self._shard.image())

    def begin_offset_deletion(
        self, group_id: str, topics: Sequence[str]
    ) -> CoordinatorResult[StateDeletion]:
        return start_offsets.begin_deletion(self.group(group_id), topics, self._shard.image())

    def end_offset_deletion(
        self, group_id: str, topic_ids: Collection[bytes]
    ) -> CoordinatorResult[bool]:
        """Called after the state of these topics has been deleted."""
        group = self.group(group_id)
        record = group_records.state_topics_record(group_id, group.state_topics.removed(topic_ids))
        return CoordinatorResult(True, changes=[record])

    def begin_group_deletion(self, group_id: str) -> CoordinatorResult[Partitions]:
        """The state to delete before the group; nothing if it is not a share group."""
        group = self._shard.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            return CoordinatorResult({})
        return start_offsets.begin_group_deletion(group, self._shard.image())

    def stored_partitions(self, group_id: str) -> Partitions:
        """The partitions whose state the group has initialized; raises `CoordinatorError`."""
        return self.group(group_id).state_topics.initialized_partitions()

    # --- records, timers, metadata --------------------------------------------------------------

    @property
    def replays(self) -> Mapping[type[Struct], Replay]:
        return replays(self._shard.groups)

    def loaded(self, now_ms: int) -> CoordinatorResult[None]:
        """Every member gets a full session timeout."""
        timers = [
            SetTimer(
                session_timer(group.group_id, member_id),
                self._shard.config(group.group_id).share_session_timeout_ms,
            )
            for group in self._groups()
            for member_id in group.members
        ]
        return CoordinatorResult(None, changes=self._orphans(), timers=timers)

    def on_timeout(self, key: tuple[Any, ...], now_ms: int) -> CoordinatorResult[None]:
        """Called when the session of a member has expired."""
        _, group_id, member_id = SessionTimer(*key)
        group = self._shard.groups.get(group_id)
        member = group.members.get(member_id) if isinstance(group, ShareGroup) else None
        if not isinstance(group, ShareGroup) or member is None:
            return CoordinatorResult(None)
        return CoordinatorResult(None, changes=self._removal(group, member))

    def metadata_changed(self, topics: Collection[str], now_ms: int) -> CoordinatorResult[None]:
        """Called after these topics changed. Groups that read one of them check it with their next
        heartbeat."""
        for group in self._groups():
            if any(group.subscribes_to(name) for name in topics):
                group.request_refresh()
        return CoordinatorResult(None, changes=self._orphans())

    def _orphans(self) -> list[RecordChange]:
        """Removes deleted topics from the initialized state."""
        existing = self._shard.image().topics_by_id
        changes = []
        for group in self._groups():
            left = group.state_topics.only(existing)
            if left != group.state_topics:
                changes.append(group_records.state_topics_record(group.group_id, left))
        return changes

    def unload(self, error: CoordinatorError) -> None:
        """Does nothing: no request waits for a share group."""

    def _groups(self) -> list[ShareGroup]:
        return [group for group in self._shard.groups.values() if isinstance(group, ShareGroup)]


def _check(request: ShareGroupHeartbeatRequest) -> None:
    """Raises INVALID_REQUEST with Kafka's messages."""
    problem = None
    if not request.member_id.strip():
        problem = "MemberId can't be empty."
    elif not request.group_id.strip():
        problem = "GroupId can't be empty."
    elif request.rack_id is not None and not request.rack_id.strip():
        problem = "RackId can't be empty."
    elif request.member_epoch == JOINING_EPOCH and not request.subscribed_topic_names:
        problem = "SubscribedTopicNames must be set in first request."
    elif request.member_epoch < LEAVING_EPOCH:
        problem = "MemberEpoch is invalid."
    if problem is not None:
        raise CoordinatorError(ErrorCode.INVALID_REQUEST, problem)
