"""The interface of every kind of group for offsets, listing and deletion."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from headrace.coordinator.common.record_format import RecordChange
from headrace.coordinator.common.result import CancelTimer, SetTimer


class GroupType(StrEnum):
    """The kinds of groups, by their names in ListGroups."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"


CommitCheck = Callable[[str, bytes, int], None]
"""Whether a member may commit for one partition (topic name, topic id or zeros, partition): a
consumer group lets a member that is an epoch behind commit for partitions that it still owns.
Raises `CoordinatorError`."""


@dataclass(slots=True)
class CommittingMember:
    """The sender of an OffsetCommit or TxnOffsetCommit, as its request describes it.

    Read for every commit: a named tuple would make the check of a commit 100 ns slower.
    """

    member_id: str
    instance_id: str | None
    generation: int
    """The member epoch in a consumer group."""
    transactional: bool
    version: int
    """The version of the request."""


class Group(Protocol):
    """One group. Checks raise `CoordinatorError` with Kafka's code."""

    @property
    def group_id(self) -> str: ...

    @property
    def kind(self) -> GroupType: ...

    @property
    def protocol_type(self) -> str:
        """`consumer`, `connect`, `share`...; empty for a group that only has offsets."""
        ...

    def state_name(self, now_ms: int) -> str:
        """The name that tools show: Empty, Stable, PreparingRebalance, Assigning..."""
        ...

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        ...

    @property
    def member_count(self) -> int: ...

    def check_commit(self, sender: CommittingMember) -> CommitCheck | None:
        """Checks whether the sender may commit. The returned check, if any, must also be called for
        each partition."""
        ...

    def timers_after_commit(self, member_id: str) -> Sequence[SetTimer]:
        """The session timer to set after a commit: a commit keeps a classic member alive."""
        ...

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Checks whether offsets may be read; a client without a member id and with epoch -1
        may."""
        ...

    def check_offset_delete(self) -> None:
        """Checks whether single offsets may be deleted (of topics that it does not subscribe
        to)."""
        ...

    def check_delete(self) -> None:
        """Checks whether the group may be deleted: it has no members."""
        ...

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member reads the topic: then its offsets neither expire nor can be deleted."""
        ...

    def retention_start_ms(self, commit_ms: int) -> int | None:
        """The start of the retention time of an offset that was committed at `commit_ms`; None
        while the offsets of this group cannot expire."""
        ...

    def tombstones(self) -> Sequence[RecordChange]:
        """The tombstones of the group; its offsets have their own."""
        ...

    def timers(self) -> Sequence[CancelTimer]:
        """The timers to cancel when the group is deleted."""
        ...
