"""A consumer group becomes a classic one when only members of the classic protocol are left.

These members find a rebalancing group; its generation is their former epoch.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from headrace.coordinator.group.classic.classic_group import ClassicGroup
from headrace.coordinator.group.classic.classic_state import ClassicState
from headrace.coordinator.group.classic.group_record import group_record
from headrace.coordinator.group.classic.member import ClassicMember
from headrace.coordinator.group.consumer import group_records
from headrace.coordinator.group.consumer.consumer_group import PROTOCOL_TYPE, ConsumerGroup
from headrace.coordinator.group.consumer.embedded_protocol import (
    MalformedProtocol,
    protocol_version,
    write_assignment,
)
from headrace.coordinator.group.consumer.member import ConsumerMember
from headrace.coordinator.group.result_builder import ResultBuilder

if TYPE_CHECKING:
    from headrace.coordinator.group.group_shard import GroupShard

_DOWNGRADING_POLICIES = ("downgrade", "bidirectional")


class Downgrades:
    """Decides whether a group becomes a classic one, and converts it."""

    def __init__(self, shard: GroupShard) -> None:
        self._shard = shard

    def is_due_without(self, group: ConsumerGroup, leaving: Collection[ConsumerMember]) -> bool:
        """Whether all remaining members use the classic protocol, and the settings allow the
        conversion."""
        staying = len(group.members) - len(leaving)
        classic = group.classic_members - sum(one.classic is not None for one in leaving)
        return classic == staying > 0 and self._allows(group.group_id, staying)

    def is_due_when_replaced(self, group: ConsumerGroup, replaced: ConsumerMember) -> bool:
        """Whether this static member, which returns with the classic protocol, was the last one of
        the new protocol."""
        return (
            replaced.classic is None
            and group.classic_members == len(group.members) - 1
            and self._allows(group.group_id, len(group.members))
        )

    def _allows(self, group_id: str, size: int) -> bool:
        config = self._shard.config(group_id)
        return (
            config.consumer_migration_policy in _DOWNGRADING_POLICIES
            and size <= config.classic_max_size
        )

    def downgrade(
        self,
        group: ConsumerGroup,
        result: ResultBuilder,
        now_ms: int,
        *,
        leaving: Collection[ConsumerMember] = (),
        joining: ConsumerMember | None = None,
        rebalance: bool = True,
    ) -> None:
        """`joining` is a static member whose records are already in the result: it replaces the
        member that the group has under its instance id."""
        replaced = None if joining is None else group.static_member(joining.instance_id)
        gone = {member.member_id for member in leaving}
        members = [
            member
            for member_id, member in group.members.items()
            if member_id not in gone and member is not replaced
        ]
        present = set(group.members)
        if joining is not None and replaced is not None:
            members.append(joining)
            present = present - {replaced.member_id} | {joining.member_id}
        classic = self._classic_group(group, members, now_ms)
        result.changes.extend(
            group_records.group_tombstones(group.group_id, present, group.resolved)
        )
        result.timers.extend(group.timers())
        result.changes.append(group_record(classic, self._assignments(group, classic)))
        for member in classic.members.values():
            self._shard.classic.rebalances.refresh_session(member, result)
        self._shard.classic.register_new_group(classic)
        result.add_undo(lambda error: self._shard.classic.discard_new_group(classic))
        if rebalance:
            self._shard.classic.rebalances.prepare_rebalance(classic, result, now_ms)

    def _classic_group(
        self, group: ConsumerGroup, members: Collection[ConsumerMember], now_ms: int
    ) -> ClassicGroup:
        classic = ClassicGroup(group.group_id, now_ms, ClassicState.STABLE)
        classic.generation = group.epoch
        for member in members:
            assert member.classic is not None
            classic.add(
                ClassicMember(
                    group_id=group.group_id,
                    member_id=member.member_id,
                    instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    session_timeout_ms=member.classic.session_timeout_ms,
                    protocol_type=PROTOCOL_TYPE,
                    protocols=member.classic.protocols,
                )
            )
        classic.protocol = classic.select_protocol()
        classic.topics = classic.compute_topics()
        return classic

    def _assignments(self, group: ConsumerGroup, classic: ClassicGroup) -> dict[str, bytes]:
        """The targets of the members, encoded for the classic protocol."""
        assignments = {}
        for member in classic.members.values():
            member_id = member.member_id
            if member.instance_id is not None:
                member_id = group.instances.get(member.instance_id, member_id)
            version = _assignment_version(member.metadata(classic.protocol))
            data = write_assignment(group.target_of(member_id), self._shard.image(), version)
            member.assignment = assignments[member.member_id] = data
        return assignments


def _assignment_version(subscription: bytes) -> int:
    """The version of the consumer's own subscription; every consumer reads version 0."""
    try:
        return protocol_version(subscription)
    except MalformedProtocol:
        return 0
