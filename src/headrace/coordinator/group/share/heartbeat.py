"""ShareGroupHeartbeat of a member that joins or is in the group."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.coordinator.common.request_context import RequestContext
from headrace.coordinator.common.result import CoordinatorResult
from headrace.coordinator.group.group import GroupType
from headrace.coordinator.group.modern.assignor_spec import (
    NOTHING,
    Assignment,
    MemberSpec,
)
from headrace.coordinator.group.modern.member_checks import check_not_full, wrong_epoch
from headrace.coordinator.group.modern.modern_group import JOINING_EPOCH
from headrace.coordinator.group.modern.subscribed_topics import (
    topic_ids,
)
from headrace.coordinator.group.modern.target_assignment import advance_group_epoch, assign_targets
from headrace.coordinator.group.result_builder import ResultBuilder
from headrace.coordinator.group.share import group_records
from headrace.coordinator.group.share.member import ShareMember
from headrace.coordinator.group.share.share_group import ShareGroup
from headrace.coordinator.group.share.simple_assignor import simple_assignor
from headrace.coordinator.group.share.start_offsets import not_a_share_group
from headrace.coordinator.group.share.state_initialization import start_missing_state
from headrace.coordinator.group.share.timers import session_timer
from headrace.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatAssignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    ShareGroupHeartbeatTopicPartitions,
)

if TYPE_CHECKING:
    from headrace.coordinator.group.group_shard import GroupShard


class ShareHeartbeats:
    """Decides heartbeats. Every step adds its records to a result, in Kafka's order."""

    def __init__(self, shard: GroupShard) -> None:
        self._shard = shard

    def heartbeat(
        self, context: RequestContext, request: ShareGroupHeartbeatRequest, now_ms: int
    ) -> CoordinatorResult[ShareGroupHeartbeatResponse]:
        """The heartbeat of a member that joins (epoch 0) or is in the group. The caller has
        validated it."""
        result = ResultBuilder()
        group = self._group(request)
        config = self._shard.config(group.group_id)
        check_not_full(group, GroupType.SHARE, request.member_id, config.share_max_size)
        before = _member(group, request)
        after = _with_request_fields(before, context, request)
        if after != before:
            result.changes.append(group_records.member_record(group.group_id, after))
        changed = after.topics != before.topics
        if group.assignment_epoch >= group.epoch and group.has_unassigned_state():
            changed = True
        epoch, topics = self._advance_group_epoch(group, before, after, changed, result, now_ms)
        target_epoch, target = self._update_target(group, after, epoch, result, now_ms)
        bumped = changed or epoch != group.epoch
        after = self._reconcile(group, after, target_epoch, target, bumped, result)
        start_missing_state(group, epoch, topics, self._shard.image(), config, result, now_ms)
        result.set_timer(
            session_timer(group.group_id, after.member_id), config.share_session_timeout_ms
        )
        send_assignment = (
            request.member_epoch == JOINING_EPOCH
            or request.subscribed_topic_names is not None
            or after.assigned != before.assigned
        )
        return result.build(
            ShareGroupHeartbeatResponse(
                member_id=after.member_id,
                member_epoch=after.epoch,
                heartbeat_interval_ms=config.share_heartbeat_interval_ms,
                assignment=_assignment(after.assigned) if send_assignment else None,
            )
        )

    def _group(self, request: ShareGroupHeartbeatRequest) -> ShareGroup:
        """The group; a joining member may create it."""
        group = self._shard.groups.get(request.group_id)
        if isinstance(group, ShareGroup):
            return group
        if group is None and request.member_epoch == JOINING_EPOCH:
            return ShareGroup(request.group_id)
        raise not_a_share_group(request.group_id, exists=group is not None)

    def _advance_group_epoch(
        self,
        group: ShareGroup,
        before: ShareMember,
        after: ShareMember,
        changed: bool,
        result: ResultBuilder,
        now_ms: int,
    ) -> tuple[int, set[str]]:
        """The group epoch and the topics of the group after the request."""
        if not (changed or group.must_refresh(now_ms)):
            return group.epoch, set(group.topics)
        topics = group.topics_after(before, after)
        epoch = advance_group_epoch(
            group, topics, self._shard.image(), result, now_ms, changed=changed
        )
        return epoch, topics

    def _update_target(
        self, group: ShareGroup, after: ShareMember, epoch: int, result: ResultBuilder, now_ms: int
    ) -> tuple[int, Assignment]:
        """The member's target and its epoch. It is computed again if the group epoch has changed,
        at most once per assignment interval."""
        interval_ms = self._shard.config(group.group_id).share_assignment_interval_ms
        if not group.is_target_due(epoch, interval_ms, now_ms):
            return group.assignment_epoch, group.target_of(after.member_id)
        targets = assign_targets(
            group,
            self._specs(group, after),
            lambda spec: simple_assignor(spec, group.state_topics.initialized_partitions()),
            self._shard.image(),
            result,
        )
        # The interval ignores an empty assignment: the first one with partitions must not wait.
        assigned_at_ms = now_ms if any(targets.values()) else 0
        result.changes.append(group.records.target_epoch(group.group_id, epoch, assigned_at_ms))
        return epoch, targets.get(after.member_id, NOTHING)

    def _specs(self, group: ShareGroup, after: ShareMember) -> dict[str, MemberSpec]:
        image = self._shard.image()
        members = {**group.members, after.member_id: after}
        return {
            member_id: MemberSpec(topic_ids(member.topics, image), group.target_of(member_id))
            for member_id, member in members.items()
        }

    def _reconcile(
        self,
        group: ShareGroup,
        member: ShareMember,
        target_epoch: int,
        target: Assignment,
        changed: bool,
        result: ResultBuilder,
    ) -> ShareMember:
        """The member after this response; share group members release no partitions first."""
        if not changed and member.epoch == target_epoch:
            return member
        subscribed = topic_ids(member.topics, self._shard.image())
        assigned = {id_: numbers for id_, numbers in target.items() if id_ in subscribed}
        after = replace(member, assigned=assigned)
        if member.epoch != target_epoch:
            after = replace(after, epoch=target_epoch, previous_epoch=member.epoch)
        if after != member:
            result.changes.append(group_records.current_record(group.group_id, after))
        return after


def _member(group: ShareGroup, request: ShareGroupHeartbeatRequest) -> ShareMember:
    """The member of the request; raises if it is unknown or has a wrong epoch."""
    epoch = request.member_epoch
    if epoch == JOINING_EPOCH:
        known = group.members.get(request.member_id)
        return known or ShareMember(member_id=request.member_id)
    member = group.member(request.member_id)
    missed_response = member.previous_epoch == epoch < member.epoch
    if epoch != member.epoch and not missed_response:
        raise wrong_epoch(GroupType.SHARE, epoch, member.epoch)
    return member


def _with_request_fields(
    member: ShareMember, context: RequestContext, request: ShareGroupHeartbeatRequest
) -> ShareMember:
    """The member with the fields that the request has; the others are unchanged."""
    names = request.subscribed_topic_names
    return replace(
        member,
        rack_id=request.rack_id or member.rack_id,
        topics=member.topics if names is None else frozenset(names),
        client_id=context.client_id,
        client_host=context.client_host,
    )


def _assignment(assigned: Assignment) -> ShareGroupHeartbeatAssignment:
    return ShareGroupHeartbeatAssignment(
        topic_partitions=[
            ShareGroupHeartbeatTopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in assigned.items()
        ]
    )
