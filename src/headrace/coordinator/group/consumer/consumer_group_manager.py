"""The consumer groups of one shard: the entry point for requests, records and timers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.request_context import RequestContext
from headrace.coordinator.common.result import CoordinatorResult
from headrace.coordinator.group.consumer import group_records
from headrace.coordinator.group.consumer.assignors import ASSIGNORS
from headrace.coordinator.group.consumer.classic_members import ClassicMembers
from headrace.coordinator.group.consumer.consumer_group import ConsumerGroup
from headrace.coordinator.group.consumer.description import describe
from headrace.coordinator.group.consumer.downgrade import Downgrades
from headrace.coordinator.group.consumer.heartbeat import ConsumerHeartbeats
from headrace.coordinator.group.consumer.heartbeat_validation import check_heartbeat
from headrace.coordinator.group.consumer.leave_group import ConsumerLeaveGroup
from headrace.coordinator.group.consumer.member import (
    STATIC_LEAVING_EPOCH,
    ConsumerMember,
    MemberState,
)
from headrace.coordinator.group.consumer.member_checks import not_a_consumer_group
from headrace.coordinator.group.consumer.record_replay import replays
from headrace.coordinator.group.consumer.regex_subscriptions import (
    RegexSubscriptions,
    ResolvePatterns,
    resolutions,
)
from headrace.coordinator.group.consumer.target_assignment import (
    AssignmentUpdater,
    preferred_assignor,
)
from headrace.coordinator.group.consumer.timers import TimerKey, TimerKind, timer
from headrace.coordinator.group.group_manager import Replay
from headrace.coordinator.group.modern.modern_group import LEAVING_EPOCH
from headrace.coordinator.group.modern.subscribed_topics import metadata_hash
from headrace.coordinator.group.result_builder import ResultBuilder
from headrace.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeDescribedGroup,
)
from headrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from headrace.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from headrace.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from headrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from headrace.protocol.struct import Struct

if TYPE_CHECKING:
    from headrace.coordinator.group.group_shard import GroupShard


class ConsumerGroupManager:
    """Implements `GroupManager`."""

    def __init__(self, shard: GroupShard) -> None:
        self._shard = shard
        self._patterns = RegexSubscriptions()
        updater = AssignmentUpdater(shard.image, shard.config, self._patterns)
        downgrades = Downgrades(shard)
        self._heartbeats = ConsumerHeartbeats(shard, updater)
        self._leave_group = ConsumerLeaveGroup(shard.image, downgrades)
        self._classic_members = ClassicMembers(shard, updater, self._leave_group, downgrades)

    # Requests

    def heartbeat(
        self, context: RequestContext, request: ConsumerGroupHeartbeatRequest, now_ms: int
    ) -> CoordinatorResult[ConsumerGroupHeartbeatResponse]:
        """The heartbeat of a member that joins, is in the group, or leaves."""
        config = self._shard.config(request.group_id)
        offered = [name for name in config.consumer_assignors if name in ASSIGNORS]
        check_heartbeat(request, context.version, offered)
        if request.member_epoch in (LEAVING_EPOCH, STATIC_LEAVING_EPOCH):
            return self._leave_group.leave(self._group(request.group_id), request, now_ms)
        return self._heartbeats.heartbeat(context, request, now_ms)

    def describe(self, group_id: str) -> ConsumerGroupDescribeDescribedGroup:
        """Describes a group. Raises GROUP_ID_NOT_FOUND if it does not exist or is of another
        kind."""
        group = self._group(group_id)
        assignor = preferred_assignor(group.assignors, self._shard.config(group_id))
        return describe(group, assignor, self._shard.image())

    def remove_members(
        self, group: ConsumerGroup, members: Collection[ConsumerMember], now_ms: int
    ) -> CoordinatorResult[None]:
        """Removes members as if they had left."""
        result = ResultBuilder()
        self._leave_group.remove(group, members, result, now_ms)
        return result.build(None)

    def _group(self, group_id: str) -> ConsumerGroup:
        group = self._shard.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            raise not_a_consumer_group(group_id, group)
        return group

    # Requests of members that speak the classic protocol, which `classic` passes on

    def classic_join(
        self,
        group: ConsumerGroup,
        context: RequestContext,
        request: JoinGroupRequest,
        now_ms: int,
    ) -> CoordinatorResult[JoinGroupResponse]:
        return self._classic_members.join(group, context, request, now_ms)

    def classic_sync(
        self,
        group: ConsumerGroup,
        context: RequestContext,
        request: SyncGroupRequest,
        now_ms: int,
    ) -> CoordinatorResult[SyncGroupResponse]:
        return self._classic_members.sync(group, request)

    def classic_heartbeat(
        self,
        group: ConsumerGroup,
        context: RequestContext,
        request: HeartbeatRequest,
        now_ms: int,
    ) -> CoordinatorResult[HeartbeatResponse]:
        return self._classic_members.heartbeat(group, request)

    def classic_leave(
        self,
        group: ConsumerGroup,
        context: RequestContext,
        request: LeaveGroupRequest,
        now_ms: int,
    ) -> CoordinatorResult[LeaveGroupResponse]:
        return self._classic_members.leave(group, request, now_ms)

    # Patterns

    def patterns_resolved(
        self, work: ResolvePatterns, found: Mapping[str, set[str]], now_ms: int
    ) -> CoordinatorResult[None]:
        """The result of a `ResolvePatterns`: if a pattern matches other topics than before, the
        group gets a new assignment. An empty `found` means that the matching failed."""
        self._patterns.done(work.group_id)
        group = self._shard.groups.get(work.group_id)
        if not isinstance(group, ConsumerGroup):
            return CoordinatorResult(None)
        result = ResultBuilder()
        topics = group.topics.copy()
        bump = False
        for pattern, resolved in resolutions(group, found, work.version, now_ms).items():
            before = group.resolved.get(pattern)
            if before is None or before.topics != resolved.topics:
                bump = bump or before is not None or bool(resolved.topics)
                topics.subtract(() if before is None else before.topics)
                topics.update(resolved.topics)
            result.changes.append(group_records.pattern_record(group.group_id, pattern, resolved))
        hash_ = metadata_hash([name for name in topics if topics[name] > 0], self._shard.image())
        if result.changes and (bump or hash_ != group.metadata_hash):
            epoch = group.epoch + 1
            result.changes.append(group.records.epoch(group.group_id, epoch, hash_))
            group.refreshed(epoch, now_ms)
        return result.build(None)

    # Records, timers, metadata

    @property
    def replays(self) -> Mapping[type[Struct], Replay]:
        return replays(self._shard.groups, self._shard.image)

    def loaded(self, now_ms: int) -> CoordinatorResult[None]:
        """Every member gets a full session timeout."""
        self._patterns.topics_version = self._shard.image().version
        result = ResultBuilder()
        for group in self._groups():
            session_timeout_ms = self._shard.config(group.group_id).consumer_session_timeout_ms
            for member_id, member in group.members.items():
                key = timer(TimerKind.SESSION, group.group_id, member_id)
                result.set_timer(key, session_timeout_ms)
                if member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None:
                    group.revoke_epochs[member_id] = member.epoch
                    key = timer(TimerKind.REBALANCE, group.group_id, member_id)
                    result.set_timer(key, member.rebalance_timeout_ms)
        return result.build(None)

    def on_timeout(self, key: tuple[Any, ...], now_ms: int) -> CoordinatorResult[None]:
        """Removes the member, unless it has met the deadline in the meantime."""
        _, deadline, group_id, member_id = TimerKey(*key)
        group = self._shard.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            return CoordinatorResult(None)
        if deadline is TimerKind.JOIN:
            group.joins_awaited.discard(member_id)
        member = group.members.get(member_id)
        if member is None:
            return CoordinatorResult(None)
        if deadline is TimerKind.REBALANCE:
            epoch = group.revoke_epochs.pop(member_id, None)
            if epoch != member.epoch:
                return CoordinatorResult(None)
        return self.remove_members(group, [member], now_ms)

    def metadata_changed(self, topics: Collection[str], now_ms: int) -> CoordinatorResult[None]:
        """Called after these topics changed. Groups that read one of them check it with their next
        heartbeat."""
        image = self._shard.image()
        if any(name in image.topics for name in topics):
            self._patterns.topics_version = image.version
        for group in self._groups():
            if any(group.subscribes_to(name) for name in topics):
                group.request_refresh()
        return CoordinatorResult(None)

    def unload(self, error: CoordinatorError) -> None:
        """Does nothing: no request waits for a consumer group."""

    def _groups(self) -> list[ConsumerGroup]:
        return [group for group in self._shard.groups.values() if isinstance(group, ConsumerGroup)]
