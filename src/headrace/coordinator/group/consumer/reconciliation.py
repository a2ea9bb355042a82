"""A member's steps to its target: it first releases partitions, and gets only free ones.

    STABLE ------ a new target revokes partitions ------> UNREVOKED_PARTITIONS
      ^  \\                                                    | it has released them
      |   +----- nothing to release, all free ---> STABLE      v
      |   +----- ... some still owned by others -> UNRELEASED_PARTITIONS
      +----------------- all have become free ---------------- +

A member keeps its epoch while it releases partitions, and gets the target's epoch with its new
partitions. A partition is assigned only while no member has it, so none is ever owned twice.
"""

from collections.abc import Callable, Collection, Container, Mapping
from dataclasses import dataclass, replace

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.group.consumer.member import (
    NONE_OWNED,
    ConsumerMember,
    MemberState,
    Owned,
)
from headrace.coordinator.group.modern.assignor_spec import Assignment
from headrace.protocol.errors import ErrorCode

Reported = Mapping[bytes, Collection[int]]
"""The partitions that a member reports as owned."""


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The input for the next step of one member."""

    target_epoch: int
    target: Assignment
    wanted: Container[bytes]
    """Topics that the member subscribes to now: the target may be older than its subscription."""
    is_free: Callable[[bytes, int], bool]
    """Whether no member, including this one, has the partition or must still release it."""
    reported: Reported | None = None
    subscription_changed: bool = False

    def step(self, member: ConsumerMember) -> ConsumerMember:
        """The member after this step; equal to before if there is nothing to do."""
        match member.state:
            case MemberState.STABLE:
                if member.epoch != self.target_epoch:
                    return self._assign_free_partitions(member, member.epoch)
                return self._drop_unwanted(member) if self.subscription_changed else member
            case MemberState.UNREVOKED_PARTITIONS:
                if not self._still_owns(member.revoking):
                    return self._assign_free_partitions(member, member.epoch)
                return self._drop_unwanted(member) if self.subscription_changed else member
            case MemberState.UNRELEASED_PARTITIONS:
                return self._assign_free_partitions(member, member.epoch)
            case _:
                if self.reported is not None and not self.reported:
                    return self._assign_free_partitions(member, self.target_epoch)
                raise CoordinatorError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The consumer group member is in a unknown state. "
                    "The member must abandon all its partitions and rejoin.",
                )

    def _still_owns(self, revoking: Owned) -> bool:
        """A member that does not report its partitions still owns them."""
        if self.reported is None:
            return bool(revoking)
        return any(
            partition in self.reported.get(topic_id, ())
            for topic_id, partitions in revoking.items()
            for partition in partitions
        )

    def _drop_unwanted(self, member: ConsumerMember) -> ConsumerMember:
        """Revokes topics that the member no longer subscribes to, before there is a new target."""
        dropped = {id_: owned for id_, owned in member.assigned.items() if id_ not in self.wanted}
        if not dropped:
            return member
        kept = {id_: owned for id_, owned in member.assigned.items() if id_ in self.wanted}
        revoking = dict(member.revoking)
        for topic_id, owned in dropped.items():
            revoking[topic_id] = {**revoking.get(topic_id, {}), **owned}
        if self._still_owns(revoking):
            return _next(member, MemberState.UNREVOKED_PARTITIONS, member.epoch, kept, revoking)
        return _next(member, member.state, member.epoch, kept, member.revoking)

    def _assign_free_partitions(self, member: ConsumerMember, epoch: int) -> ConsumerMember:
        """Moves the member as far towards the target as it and the others allow."""
        assigned: dict[bytes, dict[int, int]] = {}
        revoking: dict[bytes, dict[int, int]] = {}
        waiting = False
        given: dict[bytes, list[int]] = {}
        for topic_id in self.target.keys() | member.assigned.keys():
            target = self.target.get(topic_id, frozenset()) if topic_id in self.wanted else ()
            owned = member.assigned.get(topic_id, {})
            kept = {partition: at for partition, at in owned.items() if partition in target}
            back = {partition: at for partition, at in owned.items() if partition not in target}
            missing = [partition for partition in target if partition not in owned]
            free = [p for p in missing if self._is_available(member, topic_id, p)]
            waiting = waiting or len(free) < len(missing)
            if kept:
                assigned[topic_id] = kept
            if back:
                revoking[topic_id] = back
            if free:
                given[topic_id] = free
        if revoking and self._still_owns(revoking):
            return _next(member, MemberState.UNREVOKED_PARTITIONS, epoch, assigned, revoking)
        for topic_id, partitions in given.items():
            assigned.setdefault(topic_id, {}).update(dict.fromkeys(partitions, self.target_epoch))
        state = MemberState.UNRELEASED_PARTITIONS if waiting else MemberState.STABLE
        return _next(member, state, self.target_epoch, assigned, NONE_OWNED)

    def _is_available(self, member: ConsumerMember, topic_id: bytes, partition: int) -> bool:
        """Whether the partition is free, or this member has it and was about to release it."""
        return self.is_free(topic_id, partition) or partition in member.revoking.get(topic_id, {})


def _next(
    member: ConsumerMember, state: MemberState, epoch: int, assigned: Owned, revoking: Owned
) -> ConsumerMember:
    return replace(
        member,
        state=state,
        epoch=epoch,
        previous_epoch=member.epoch,
        assigned=assigned,
        revoking=revoking,
    )
