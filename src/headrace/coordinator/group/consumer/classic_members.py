"""Members of a consumer group that still use the classic protocol.

To these members the group looks like a classic group whose requests never wait: their generation is
their epoch, JoinGroup is answered at once, no member is the leader, and SyncGroup returns the
assignment of the coordinator. When the target changes, their heartbeat gets REBALANCE_IN_PROGRESS.
They then rejoin with the partitions that they still own, and thereby release the others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.request_context import RequestContext
from headrace.coordinator.common.result import CoordinatorResult, SetTimer
from headrace.coordinator.group.classic.join_context import FIRST_VERSION_WITH_REBALANCE_TIMEOUT
from headrace.coordinator.group.classic.member import protocols_of
from headrace.coordinator.group.classic.responses import join_error
from headrace.coordinator.group.consumer.consumer_group import PROTOCOL_TYPE, ConsumerGroup
from headrace.coordinator.group.consumer.downgrade import Downgrades
from headrace.coordinator.group.consumer.embedded_protocol import (
    MalformedProtocol,
    protocol_version,
    read_subscription,
    reported_by,
    without_epochs,
    write_assignment,
)
from headrace.coordinator.group.consumer.leave_group import ConsumerLeaveGroup
from headrace.coordinator.group.consumer.member import (
    ClassicMembership,
    ConsumerMember,
    MemberState,
)
from headrace.coordinator.group.consumer.member_checks import (
    new_member,
    random_member_id,
    static_joiner,
    static_member,
)
from headrace.coordinator.group.consumer.target_assignment import AssignmentUpdater, MemberUpdate
from headrace.coordinator.group.consumer.timers import TimerKind, timer
from headrace.coordinator.group.group import GroupType
from headrace.coordinator.group.modern.member_checks import check_not_full
from headrace.coordinator.group.result_builder import ResultBuilder
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from headrace.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from headrace.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from headrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from headrace.coordinator.group.group_shard import GroupShard

_FIRST_VERSION_THAT_REQUIRES_IDS: Final = 4


class ClassicMembers:
    """Answers JoinGroup, SyncGroup, Heartbeat and LeaveGroup for a consumer group."""

    def __init__(
        self,
        shard: GroupShard,
        updater: AssignmentUpdater,
        departures: ConsumerLeaveGroup,
        downgrades: Downgrades,
    ) -> None:
        self._shard = shard
        self._updater = updater
        self._leave_group = departures
        self._downgrades = downgrades

    # JoinGroup

    def join(
        self,
        group: ConsumerGroup,
        context: RequestContext,
        request: JoinGroupRequest,
        now_ms: int,
    ) -> CoordinatorResult[JoinGroupResponse]:
        """The member's epoch is its generation; it keeps the partitions that it reports as
        owned."""
        member_id = request.member_id or random_member_id(self._shard.random)
        self._check_join(group, member_id, request)
        if (
            not request.member_id
            and request.group_instance_id is None
            and context.version >= _FIRST_VERSION_THAT_REQUIRES_IDS
        ):
            return CoordinatorResult(join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        result = ResultBuilder()
        subscription = _subscription(request)
        _check_claims(group, member_id, request, subscription)
        before = self._joining_member(group, member_id, request, result)
        after = _updated(before, context, request, subscription)
        update = MemberUpdate(group, before, after, context.session)
        after, downgraded = self._advance_member(update, subscription, result, now_ms)
        if not downgraded:
            self._time(group, after, request.session_timeout_ms, result)
        assert after.classic is not None
        return result.build(
            JoinGroupResponse(
                member_id=after.member_id,
                generation_id=after.epoch,
                protocol_type=PROTOCOL_TYPE,
                protocol_name=after.classic.protocols[0].name,
            )
        )

    def _check_join(self, group: ConsumerGroup, member_id: str, request: JoinGroupRequest) -> None:
        config = self._shard.config(group.group_id)
        if config.consumer_migration_policy == "disabled":
            raise CoordinatorError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"Cannot join the consumer group {group.group_id} with the classic protocol "
                "because the group migration is disabled.",
            )
        check_not_full(group, GroupType.CONSUMER, member_id, config.consumer_max_size)
        # While no member is classic, every protocol counts as supported by all.
        agreed = any(
            group.classic_protocols[one.name] == group.classic_members for one in request.protocols
        )
        if request.protocol_type != PROTOCOL_TYPE or not agreed:
            raise CoordinatorError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"Member {member_id}'s protocols are not supported.",
            )

    def _joining_member(
        self, group: ConsumerGroup, member_id: str, request: JoinGroupRequest, result: ResultBuilder
    ) -> ConsumerMember:
        instance_id = request.group_instance_id
        if instance_id is None:
            return new_member(group, member_id)
        if not request.member_id:
            return static_joiner(group, member_id, instance_id, result, classic=True)
        return static_member(group, member_id, instance_id)

    def _advance_member(
        self,
        update: MemberUpdate,
        subscription: ConsumerProtocolSubscription,
        result: ResultBuilder,
        now_ms: int,
    ) -> tuple[ConsumerMember, bool]:
        """The member after its next step, and whether the group becomes a classic one."""
        group, _, member, _ = update
        replaced = group.static_member(member.instance_id)
        downgrade = replaced is not None and self._downgrades.is_due_when_replaced(group, replaced)
        epoch, changed = self._updater.subscribe(update, result, now_ms)
        stale = group.assignment_epoch < epoch
        if downgrade:
            target = self._updater.last_target(group, member)
        else:
            target = self._updater.retarget(update, epoch, result, now_ms)
        if not (downgrade and stale):
            member = self._updater.reconcile(
                group,
                member,
                target,
                reported_by(subscription, self._shard.image()),
                result,
                subscription_changed=changed,
            )
        if downgrade:
            self._downgrades.downgrade(group, result, now_ms, joining=member, rebalance=stale)
        return member, downgrade

    def _time(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        session_timeout_ms: int,
        result: ResultBuilder,
    ) -> None:
        group_id, member_id = group.group_id, member.member_id
        group.joins_awaited.discard(member_id)
        result.cancel_timer(timer(TimerKind.JOIN, group_id, member_id))
        result.set_timer(timer(TimerKind.SESSION, group_id, member_id), session_timeout_ms)
        result.set_timer(timer(TimerKind.SYNC, group_id, member_id), member.rebalance_timeout_ms)

    # SyncGroup

    def sync(
        self, group: ConsumerGroup, request: SyncGroupRequest
    ) -> CoordinatorResult[SyncGroupResponse]:
        """The assignment of the member."""
        member, classic = self._classic_member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        _check_protocol(member, classic, request.protocol_type, request.protocol_name)
        result = ResultBuilder()
        if (
            group.assignment_epoch > member.epoch
            and member.state is not MemberState.UNREVOKED_PARTITIONS
        ):
            # Not an exception: the timer must be set.
            self._await_join(group, member, result)
            return result.build(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        result.cancel_timer(timer(TimerKind.SYNC, group.group_id, member.member_id))
        result.timers.append(_session(group, member, classic))
        version = protocol_version(classic.protocols[0].metadata)
        return result.build(
            SyncGroupResponse(
                protocol_type=request.protocol_type,
                protocol_name=request.protocol_name,
                assignment=write_assignment(
                    without_epochs(member.assigned), self._shard.image(), version
                ),
            )
        )

    def _classic_member(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None
    ) -> tuple[ConsumerMember, ClassicMembership]:
        if instance_id is None:
            member = group.member(member_id)
        elif group.static_member(instance_id) is None:
            raise CoordinatorError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member with instance id {instance_id} is not a member of group {group.group_id}.",
            )
        else:
            member = static_member(group, member_id, instance_id)
        if member.classic is None:
            raise CoordinatorError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {member.member_id} does not use the classic protocol.",
            )
        return member, member.classic

    def _await_join(
        self, group: ConsumerGroup, member: ConsumerMember, result: ResultBuilder
    ) -> None:
        """The member must rejoin: its rebalance timeout starts with the first such response."""
        if member.member_id not in group.joins_awaited:
            group.joins_awaited.add(member.member_id)
            result.set_timer(
                timer(TimerKind.JOIN, group.group_id, member.member_id),
                member.rebalance_timeout_ms,
            )

    # Heartbeat

    def heartbeat(
        self, group: ConsumerGroup, request: HeartbeatRequest
    ) -> CoordinatorResult[HeartbeatResponse]:
        """REBALANCE_IN_PROGRESS if the member must release or can get partitions."""
        member, classic = self._classic_member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        result = ResultBuilder()
        result.timers.append(_session(group, member, classic))
        code = ErrorCode.NONE
        if (
            member.epoch < group.assignment_epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (
                member.state is MemberState.UNRELEASED_PARTITIONS
                and not group.waits_for_others(member)
            )
        ):
            code = ErrorCode.REBALANCE_IN_PROGRESS
            self._await_join(group, member, result)
        return result.build(HeartbeatResponse(error_code=code))

    # LeaveGroup

    def leave(
        self, group: ConsumerGroup, request: LeaveGroupRequest, now_ms: int
    ) -> CoordinatorResult[LeaveGroupResponse]:
        """One response per member of the request; all departures together are one change."""
        result = ResultBuilder()
        answers: list[MemberResponse] = []
        leaving: dict[str, ConsumerMember] = {}
        for identity in request.members:
            answer = MemberResponse(
                member_id=identity.member_id, group_instance_id=identity.group_instance_id
            )
            try:
                member = _leaving_member(group, identity)
                leaving[member.member_id] = member
            except CoordinatorError as error:
                answer.error_code = error.code
            answers.append(answer)
        self._leave_group.remove(group, list(leaving.values()), result, now_ms)
        return result.build(LeaveGroupResponse(members=answers))


def _leaving_member(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    instance_id = identity.group_instance_id
    if instance_id is None:
        return group.member(identity.member_id)
    member_id = identity.member_id or group.instances.get(instance_id, "")
    return static_member(group, member_id, instance_id)


def _subscription(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    try:
        return read_subscription(bytes(request.protocols[0].metadata))
    except MalformedProtocol as error:
        raise CoordinatorError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"Malformed embedded consumer protocol: {error}.",
        ) from error


def _check_claims(
    group: ConsumerGroup,
    member_id: str,
    request: JoinGroupRequest,
    subscription: ConsumerProtocolSubscription,
) -> None:
    """Refuses a removed member that returns with the partitions that it owned: it would read and
    commit, in its new generation, partitions that other members have by now. Classic groups refuse
    it, too; Kafka does not."""
    if (
        request.group_instance_id is None
        and member_id not in group.members
        and any(one.partitions for one in subscription.owned_partitions)
    ):
        raise CoordinatorError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Member {member_id} is not a member of group {group.group_id}.",
        )


def _updated(
    member: ConsumerMember,
    context: RequestContext,
    request: JoinGroupRequest,
    subscription: ConsumerProtocolSubscription,
) -> ConsumerMember:
    """The member as its JoinGroup describes it. Classic members neither vote for a server-side
    assignor nor subscribe by pattern."""
    timeout_ms = request.rebalance_timeout_ms
    if context.version < FIRST_VERSION_WITH_REBALANCE_TIMEOUT:
        timeout_ms = request.session_timeout_ms
    return replace(
        member,
        instance_id=request.group_instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=timeout_ms,
        topics=frozenset(subscription.topics),
        pattern="",
        client_id=context.client_id,
        client_host=context.client_host,
        classic=ClassicMembership(request.session_timeout_ms, protocols_of(request.protocols)),
    )


def _session(group: ConsumerGroup, member: ConsumerMember, classic: ClassicMembership) -> SetTimer:
    key = timer(TimerKind.SESSION, group.group_id, member.member_id)
    return SetTimer(key, classic.session_timeout_ms)


def _check_generation(member: ConsumerMember, generation: int) -> None:
    if generation != member.epoch:
        raise CoordinatorError(
            ErrorCode.ILLEGAL_GENERATION,
            f"The request generation id {generation} is not equal to the member epoch "
            f"{member.epoch} of member {member.member_id}.",
        )


def _check_protocol(
    member: ConsumerMember,
    classic: ClassicMembership,
    protocol_type: str | None,
    protocol_name: str | None,
) -> None:
    joined_with = classic.protocols[0].name
    if protocol_type not in (None, PROTOCOL_TYPE):
        what = f"type {protocol_type} from member {member.member_id} request is not equal to the "
        what += f"group protocol type {PROTOCOL_TYPE}."
    elif protocol_name not in (None, joined_with):
        what = f"name {protocol_name} from member {member.member_id} request is not equal to the "
        what += f"protocol name {joined_with} returned in the join response."
    else:
        return
    raise CoordinatorError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"The protocol {what}")
