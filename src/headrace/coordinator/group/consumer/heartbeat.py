"""ConsumerGroupHeartbeat of a member that joins or is in the group."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.coordinator.common.request_context import RequestContext
from headrace.coordinator.common.result import CoordinatorResult, SetTimer
from headrace.coordinator.group.classic.classic_group import ClassicGroup
from headrace.coordinator.group.consumer.consumer_group import ConsumerGroup
from headrace.coordinator.group.consumer.member import ConsumerMember, Owned
from headrace.coordinator.group.consumer.member_checks import (
    check_epoch,
    new_member,
    not_a_consumer_group,
    random_member_id,
    reported_partitions,
    static_joiner,
    static_member,
)
from headrace.coordinator.group.consumer.reconciliation import Reported
from headrace.coordinator.group.consumer.target_assignment import AssignmentUpdater, MemberUpdate
from headrace.coordinator.group.consumer.timers import TimerKind, timer
from headrace.coordinator.group.consumer.upgrade import upgrade
from headrace.coordinator.group.group import GroupType
from headrace.coordinator.group.modern.member_checks import check_not_full
from headrace.coordinator.group.modern.modern_group import JOINING_EPOCH
from headrace.coordinator.group.result_builder import ResultBuilder
from headrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatAssignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)

if TYPE_CHECKING:
    from headrace.coordinator.group.group_shard import GroupShard

_NOT_SET = -1


class ConsumerHeartbeats:
    """Decides heartbeats."""

    def __init__(self, shard: GroupShard, updater: AssignmentUpdater) -> None:
        self._shard = shard
        self._updater = updater

    def heartbeat(
        self, context: RequestContext, request: ConsumerGroupHeartbeatRequest, now_ms: int
    ) -> CoordinatorResult[ConsumerGroupHeartbeatResponse]:
        """The heartbeat of a member that joins (epoch 0) or is in the group. The caller has
        validated it."""
        if self._is_steady(context, request, now_ms):
            return self._steady(request)
        result = ResultBuilder()
        config = self._shard.config(request.group_id)
        group = self._group(request, result)
        check_not_full(group, GroupType.CONSUMER, request.member_id, config.consumer_max_size)
        reported = reported_partitions(request.topic_partitions)
        before = self._member(group, request, reported, result)
        after = _with_request_fields(before, context, request)
        update = MemberUpdate(group, before, after, context.session)
        epoch, changed = self._updater.subscribe(update, result, now_ms)
        target = self._updater.retarget(update, epoch, result, now_ms)
        after = self._updater.reconcile(
            group, update.after, target, reported, result, subscription_changed=changed
        )
        result.set_timer(
            timer(TimerKind.SESSION, group.group_id, after.member_id),
            config.consumer_session_timeout_ms,
        )
        send_assignment = (
            request.member_epoch == JOINING_EPOCH
            or _is_complete(request)
            or after.assigned != before.assigned
        )
        return result.build(
            ConsumerGroupHeartbeatResponse(
                member_id=after.member_id,
                member_epoch=after.epoch,
                heartbeat_interval_ms=config.consumer_heartbeat_interval_ms,
                assignment=_assignment(after.assigned) if send_assignment else None,
            )
        )

    def _is_steady(
        self, context: RequestContext, request: ConsumerGroupHeartbeatRequest, now_ms: int
    ) -> bool:
        """Whether the heartbeat only keeps the session alive and the member's assignment is
        current. This is true of nearly all heartbeats; the full path would have the same result."""
        group = self._shard.groups.get(request.group_id)
        if not isinstance(group, ConsumerGroup):
            return False
        member = group.members.get(request.member_id)
        return (
            member is not None
            and 0 < request.member_epoch == member.epoch == group.epoch
            and member.reconciled_to(group.assignment_epoch)
            and request.subscribed_topic_names is None
            and request.subscribed_topic_regex is None
            and request.rebalance_timeout_ms == _NOT_SET
            and request.server_assignor is None
            and request.rack_id is None
            and (request.instance_id is None or request.instance_id == member.instance_id)
            and member.client_id == context.client_id
            and member.client_host == context.client_host
            and member.classic is None
            and not group.patterns
            and not group.must_refresh(now_ms)
        )

    def _steady(
        self, request: ConsumerGroupHeartbeatRequest
    ) -> CoordinatorResult[ConsumerGroupHeartbeatResponse]:
        group_id, member_id = request.group_id, request.member_id
        config = self._shard.config(group_id)
        return CoordinatorResult(
            ConsumerGroupHeartbeatResponse(
                member_id=member_id,
                member_epoch=request.member_epoch,
                heartbeat_interval_ms=config.consumer_heartbeat_interval_ms,
            ),
            timers=(
                SetTimer(
                    timer(TimerKind.SESSION, group_id, member_id),
                    config.consumer_session_timeout_ms,
                ),
            ),
        )

    def _group(
        self, request: ConsumerGroupHeartbeatRequest, result: ResultBuilder
    ) -> ConsumerGroup:
        """The group. A joining member may create it, or convert a classic group."""
        group_id = request.group_id
        group = self._shard.groups.get(group_id)
        joining = request.member_epoch == JOINING_EPOCH
        if isinstance(group, ConsumerGroup):
            return group
        if not joining:
            raise not_a_consumer_group(group_id, group)
        if group is None:
            return ConsumerGroup(group_id, self._shard.image)
        if isinstance(group, ClassicGroup):
            if group.is_empty:
                result.changes.extend(group.tombstones())
                result.timers.extend(group.timers())
                return ConsumerGroup(group_id, self._shard.image)
            return upgrade(group, self._shard.image, self._shard.config(group_id), result)
        raise not_a_consumer_group(group_id, group)

    def _member(
        self,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeatRequest,
        reported: Reported | None,
        result: ResultBuilder,
    ) -> ConsumerMember:
        member_id = request.member_id or random_member_id(self._shard.random)
        instance_id = request.instance_id
        if request.member_epoch == JOINING_EPOCH:
            if instance_id is None:
                return new_member(group, member_id)
            return static_joiner(group, member_id, instance_id, result, classic=False)
        if instance_id is None:
            member = group.member(member_id)
        else:
            member = static_member(group, member_id, instance_id)
        check_epoch(member, request.member_epoch, reported)
        return member


def _with_request_fields(
    member: ConsumerMember, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerMember:
    """The member with the fields that the request has; the others are unchanged."""
    names, pattern = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=request.instance_id or member.instance_id,
        rack_id=request.rack_id or member.rack_id,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if timeout_ms == _NOT_SET else timeout_ms
        ),
        assignor=request.server_assignor or member.assignor,
        topics=member.topics if names is None else frozenset(names),
        pattern=member.pattern if pattern is None else pattern,
        client_id=context.client_id,
        client_host=context.client_host,
        classic=None,
    )


def _is_complete(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the request is complete: a member that may have missed a response sends all
    fields."""
    return (
        request.rebalance_timeout_ms != _NOT_SET
        and (
            request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        )
        and request.topic_partitions is not None
    )


def _assignment(assigned: Owned) -> ConsumerGroupHeartbeatAssignment:
    return ConsumerGroupHeartbeatAssignment(
        topic_partitions=[
            ConsumerGroupHeartbeatResponseTopicPartitions(
                topic_id=topic_id, partitions=sorted(partitions)
            )
            for topic_id, partitions in assigned.items()
        ]
    )
