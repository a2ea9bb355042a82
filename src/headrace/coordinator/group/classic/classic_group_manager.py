"""The classic groups of one shard: the entry point for requests, records and timers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.request_context import RequestContext
from headrace.coordinator.common.result import CoordinatorResult
from headrace.coordinator.group.classic.classic_group import ClassicGroup
from headrace.coordinator.group.classic.group_record import (
    confirm_group,
    load_group,
    new_group_record,
)
from headrace.coordinator.group.classic.heartbeat import heartbeat
from headrace.coordinator.group.classic.join_context import JoinContext
from headrace.coordinator.group.classic.join_group import ClassicJoinGroup, check_session_timeout
from headrace.coordinator.group.classic.leave_group import ClassicLeaveGroup
from headrace.coordinator.group.classic.member import protocols_of
from headrace.coordinator.group.classic.rebalance import Rebalances
from headrace.coordinator.group.classic.responses import join_error
from headrace.coordinator.group.classic.session_expiry import expire_session
from headrace.coordinator.group.classic.sync_group import ClassicSyncGroup
from headrace.coordinator.group.consumer.consumer_group import ConsumerGroup
from headrace.coordinator.group.group import Group, GroupType
from headrace.coordinator.group.group_manager import Replay
from headrace.coordinator.group.records.classic import GroupMetadataKey, GroupMetadataValue
from headrace.coordinator.group.result_builder import ResultBuilder
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from headrace.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from headrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from headrace.protocol.struct import Struct

if TYPE_CHECKING:
    from headrace.coordinator.group.group_shard import GroupShard

UNKNOWN_TIME: Final = -1


class ClassicGroupManager:
    """Implements `GroupManager`.

    A request for a consumer group (KIP-848) that has members is passed to `shard.consumer`: its
    members may still use the classic protocol while the group migrates.
    """

    def __init__(self, shard: GroupShard) -> None:
        self._shard = shard
        self._loaded = False
        self._new_groups: dict[str, ClassicGroup] = {}
        self.rebalances = Rebalances(shard.config)
        self._join_group = ClassicJoinGroup(self.rebalances, shard.config, shard.random)
        self._sync_group = ClassicSyncGroup(self.rebalances)
        self._leave_group = ClassicLeaveGroup(self.rebalances)

    # Requests

    def join(
        self, context: RequestContext, request: JoinGroupRequest, now_ms: int
    ) -> CoordinatorResult[JoinGroupResponse]:
        """An error is part of the response, because the response also has the member id."""
        group_id = _checked(request.group_id)
        refused = check_session_timeout(request, self._shard.config(group_id))
        if refused is not None:
            return CoordinatorResult(refused)
        group = self._shard.groups.get(group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return self._shard.consumer.classic_join(group, context, request, now_ms)
        if group is not None and group.kind is GroupType.SHARE:
            return CoordinatorResult(join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        if isinstance(group, ClassicGroup):
            return self._join(group, context, request, now_ms)
        if request.member_id:
            return CoordinatorResult(join_error(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
        return self._join_new_group(group, context, request, now_ms)

    def _join(
        self, group: ClassicGroup, context: RequestContext, request: JoinGroupRequest, now_ms: int
    ) -> CoordinatorResult[JoinGroupResponse]:
        result = ResultBuilder()
        joining = JoinContext(
            group, context, request, result, now_ms, protocols_of(request.protocols)
        )
        return result.build(self._join_group.join(joining))

    def _join_new_group(
        self,
        replaced: Group | None,
        context: RequestContext,
        request: JoinGroupRequest,
        now_ms: int,
    ) -> CoordinatorResult[JoinGroupResponse]:
        """The group exists from its first record on; `replaced` is an empty consumer group, which
        is deleted."""
        group = ClassicGroup(request.group_id, now_ms)
        joined = self._join(group, context, request, now_ms)
        if not group.members and not group.pending_joins:
            return joined  # refused
        gone = [] if replaced is None else replaced.tombstones()
        timers = [] if replaced is None else replaced.timers()
        self.register_new_group(group)
        return CoordinatorResult(
            joined.answer,
            changes=[*gone, new_group_record(group)],
            timers=[*timers, *joined.timers],
            undo=lambda error: self.discard_new_group(group),
        )

    def sync(
        self, context: RequestContext, request: SyncGroupRequest, now_ms: int
    ) -> CoordinatorResult[SyncGroupResponse]:
        group = self._shard.groups.get(_checked(request.group_id))
        if group is None or group.is_empty:
            raise CoordinatorError(ErrorCode.UNKNOWN_MEMBER_ID)
        if isinstance(group, ClassicGroup):
            result = ResultBuilder()
            return result.build(self._sync_group.sync(group, request, result, now_ms))
        return self._shard.consumer.classic_sync(_consumer(group), context, request, now_ms)

    def heartbeat(
        self, context: RequestContext, request: HeartbeatRequest, now_ms: int
    ) -> CoordinatorResult[HeartbeatResponse]:
        group = self._shard.groups.get(_checked(request.group_id))
        if not isinstance(group, ClassicGroup):
            consumer = _consumer(group)
            return self._shard.consumer.classic_heartbeat(consumer, context, request, now_ms)
        return heartbeat(group, request)

    def leave(
        self, context: RequestContext, request: LeaveGroupRequest, now_ms: int
    ) -> CoordinatorResult[LeaveGroupResponse]:
        """One response per member of `request.members`, which a handler fills for old versions."""
        group = self._shard.groups.get(_checked(request.group_id))
        if not isinstance(group, ClassicGroup):
            consumer = _consumer(group)
            return self._shard.consumer.classic_leave(consumer, context, request, now_ms)
        return self.remove_members(group, request.members, now_ms)

    def remove_members(
        self, group: ClassicGroup, members: Sequence[MemberIdentity], now_ms: int
    ) -> CoordinatorResult[LeaveGroupResponse]:
        """Removes members as if they had left."""
        result = ResultBuilder()
        answers = self._leave_group.leave(group, members, result, now_ms)
        return result.build(LeaveGroupResponse(members=answers))

    # Groups that are created without a JoinGroup

    def simple_group(self, group_id: str) -> ClassicGroup:
        """A group that has only committed offsets: it has no members and no record."""
        return ClassicGroup(group_id, UNKNOWN_TIME)

    def register_new_group(self, group: ClassicGroup) -> None:
        """Registers a group that is created by a result which is not replayed yet: its first record
        adds it to the table, together with the requests that already wait in it."""
        self._new_groups[group.group_id] = group

    def discard_new_group(self, group: ClassicGroup) -> None:
        """Called if the result that created the group could not be written."""
        self._new_groups.pop(group.group_id, None)

    # Records and timers

    @property
    def replays(self) -> Mapping[type[Struct], Replay]:
        return {GroupMetadataKey: self._replay}

    def _replay(self, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        groups = self._shard.groups
        group = groups.get(key.group_id)
        if value is None:
            if isinstance(group, ClassicGroup):
                group.mark_dead()
                del groups[key.group_id]
        elif key.group_id in self._new_groups:
            groups[key.group_id] = self._new_groups.pop(key.group_id)
        elif self._loaded and isinstance(group, ClassicGroup):
            confirm_group(group, value)
        else:
            groups[key.group_id] = load_group(key.group_id, value)

    def loaded(self, now_ms: int) -> CoordinatorResult[None]:
        """Every member gets a full session timeout. A group that exceeds the limit rebalances, so
        that its members can commit before some of them are refused."""
        self._loaded = True
        result = ResultBuilder()
        for group in self._groups():
            for member in group.members.values():
                self.rebalances.refresh_session(member, result)
            if len(group.members) > self._shard.config(group.group_id).classic_max_size:
                self.rebalances.prepare_rebalance(group, result, now_ms)
        return result.build(None)

    def on_timeout(self, key: tuple[Any, ...], now_ms: int) -> CoordinatorResult[None]:
        _, what, group_id, *member = key
        group = self._shard.groups.get(group_id)
        result = ResultBuilder()
        if not isinstance(group, ClassicGroup):
            pass
        elif what == "session":
            expire_session(self.rebalances, group, member[0], result, now_ms)
        else:
            self.rebalances.on_phase_timeout(group, result, now_ms)
        return result.build(None)

    def metadata_changed(self, topics: Collection[str], now_ms: int) -> CoordinatorResult[None]:
        """The leaders of classic groups watch the topics themselves."""
        return CoordinatorResult(None)

    def unload(self, error: CoordinatorError) -> None:
        for group in self._groups():
            group.mark_dead()
            for member in group.members.values():
                for waiting in (member.joining, member.syncing):
                    if waiting is not None:
                        waiting.complete(error)

    def _groups(self) -> list[ClassicGroup]:
        return [group for group in self._shard.groups.values() if isinstance(group, ClassicGroup)]


def _checked(group_id: str) -> str:
    if not group_id:
        raise CoordinatorError(ErrorCode.INVALID_GROUP_ID)
    return group_id


def _consumer(group: Group | None) -> ConsumerGroup:
    """The consumer group, whose members may use the classic protocol; raises for any other kind."""
    if not isinstance(group, ConsumerGroup):
        raise CoordinatorError(ErrorCode.UNKNOWN_MEMBER_ID)
    return group
