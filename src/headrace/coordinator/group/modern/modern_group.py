"""A group whose coordinator assigns partitions: epochs, members, the target assignment.

The group epoch grows with every change that may require another assignment. The target is the
assignor's result for the group at its `assignment_epoch`; while that is behind the group epoch, the
group is Assigning. The group is Reconciling until all members have reached the target.
"""

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import ClassVar, Final, Generic, Protocol, TypeVar

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.group.modern.assignor_spec import NOTHING, Assignment
from headrace.coordinator.group.modern.group_records import GroupRecords
from headrace.protocol.errors import ErrorCode

_REFRESH_INTERVAL_MS: Final = 2**31 - 1
"""The shard is notified of changed topics; a check without a notification is only a safety net."""

NO_EPOCH: Final = -1
FIRST_EPOCH: Final = 1
JOINING_EPOCH: Final = 0
"""The member epoch in the first heartbeat."""
LEAVING_EPOCH: Final = -1
"""The member epoch in the last heartbeat."""


class ModernGroupState(StrEnum):
    """The values are the names that clients see."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ModernMember(Protocol):
    """The part of a member that its group needs."""

    @property
    def member_id(self) -> str: ...

    @property
    def topics(self) -> frozenset[str]:
        """The topics that the member subscribes to by name."""
        ...

    def reconciled_to(self, epoch: int) -> bool:
        """Whether the member has exactly the partitions that the target of that epoch assigns to
        it."""
        ...


M = TypeVar("M", bound=ModernMember)


class ModernGroup(Generic[M]):
    """One group. It changes by replay only, except for the time of the last check of its topics."""

    records: ClassVar[GroupRecords]
    """The record types of this kind of group."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        """The hash of the topics at `epoch`."""
        self.assignment_epoch = FIRST_EPOCH
        self.assigned_at_ms = 0
        """When the target was computed; 0 if never."""
        self.target: dict[str, Assignment] = {}
        self.members: dict[str, M] = {}
        self.topics: Counter[str] = Counter()
        """The number of members (or patterns) that subscribe to each topic."""
        self._refresh_at_ms = 0
        self._refreshed_for_epoch = 0

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def member_count(self) -> int:
        return len(self.members)

    @property
    def state(self) -> ModernGroupState:
        if not self.members:
            return ModernGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ModernGroupState.ASSIGNING
        epoch = self.assignment_epoch
        if all(member.reconciled_to(epoch) for member in self.members.values()):
            return ModernGroupState.STABLE
        return ModernGroupState.RECONCILING

    def subscribes_to(self, topic: str) -> bool:
        return topic in self.topics

    def member(self, member_id: str) -> M:
        """The member; raises if there is none."""
        member = self.members.get(member_id)
        if member is None:
            raise CoordinatorError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {member_id} is not a member of group {self.group_id}.",
            )
        return member

    def target_of(self, member_id: str) -> Assignment:
        return self.target.get(member_id, NOTHING)

    def update_member(self, member: M) -> M | None:
        """Adds or replaces a member; returns the previous version."""
        before = self.members.get(member.member_id)
        self.members[member.member_id] = member
        if before is None or before.topics != member.topics:
            self._add_topics(member.topics)
            if before is not None:
                self._remove_topics(before.topics)
        return before

    def remove_member(self, member_id: str) -> M | None:
        """Removes a member and returns it."""
        before = self.members.pop(member_id, None)
        if before is not None:
            self._remove_topics(before.topics)
        return before

    def _add_topics(self, topics: Iterable[str]) -> None:
        self.topics.update(topics)

    def _remove_topics(self, topics: Iterable[str]) -> None:
        for topic in topics:
            self.topics[topic] -= 1
            if self.topics[topic] <= 0:
                del self.topics[topic]

    def is_target_due(self, epoch: int, interval_ms: int, now_ms: int) -> bool:
        """Whether group epoch `epoch` needs a new target: at most one per assignment interval.

        A target from the future does not delay the next one: an earlier coordinator had a clock
        that was ahead, and no member would get an assignment until the time has caught up.
        """
        if self.assignment_epoch >= epoch:
            return False
        return not (self.assigned_at_ms and 0 <= now_ms - self.assigned_at_ms < interval_ms)

    # Whether the topics have changed. This is soft state: after a move of the
    # coordinator every group checks once.

    def must_refresh(self, now_ms: int) -> bool:
        """Whether the hash of the topics must be computed again.

        The epoch shows if the result of the last check was never written.
        """
        # Later than the longest interval: the clock was set back in the meantime.
        left_ms = self._refresh_at_ms - now_ms
        is_due = not 0 < left_ms <= _REFRESH_INTERVAL_MS
        return is_due or self.epoch < self._refreshed_for_epoch

    def refreshed(self, epoch: int, now_ms: int) -> None:
        """Called after the hash was computed; the group has, or will have, this epoch."""
        self._refresh_at_ms = now_ms + _REFRESH_INTERVAL_MS
        self._refreshed_for_epoch = epoch

    def request_refresh(self) -> None:
        """Called after a topic of the group has changed."""
        self._refresh_at_ms = 0
