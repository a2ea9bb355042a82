"""What every kind of group can say about itself: the questions of offsets, lists and deletion."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Protocol

from headrace.coordinator.common.record_format import RecordChange
from headrace.coordinator.common.result import CancelTimer, SetTimer


class GroupType(StrEnum):
    """The kinds of groups, by the names that ListGroups has for them."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"


CommitCheck = Callable[[str, bytes, int], None]
"""Whether a member may commit for one partition (topic name, topic id or zeros, partition): a
consumer group lets a member that is an epoch behind commit what it still owns. Raises."""


class Group(Protocol):
    """One group. Checks raise `CoordinatorError` with Kafka's code, or let pass."""

    @property
    def group_id(self) -> str: ...

    @property
    def kind(self) -> GroupType: ...

    @property
    def protocol_type(self) -> str:
        """`consumer`, `connect`, `share`...; empty for a group that only has offsets."""
        ...

    def state_name(self, now_ms: int) -> str:
        """As the tools show it: Empty, Stable, PreparingRebalance, Assigning..."""
        ...

    @property
    def is_empty(self) -> bool:
        """Whether it has no member."""
        ...

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        transactional: bool,
        version: int,
    ) -> CommitCheck | None:
        """Whether this member may commit; `generation` is its epoch in a consumer group. The
        check that is returned, if any, must be asked for each partition as well."""
        ...

    def timers_after_commit(self, member_id: str) -> Sequence[SetTimer]:
        """A commit that was let pass is a sign of life of a classic member: its session timer,
        set anew."""
        ...

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Whether offsets may be read; without a member id and with epoch -1 by anybody."""
        ...

    def check_offset_delete(self) -> None:
        """Whether single offsets may be deleted (of topics that it does not subscribe to)."""
        ...

    def check_delete(self) -> None:
        """Whether the group may be deleted: it has no member."""
        ...

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member reads the topic: then its offsets neither expire nor can be deleted."""
        ...

    def retention_start_ms(self, commit_ms: int) -> int | None:
        """From when the retention of an offset counts that was committed at `commit_ms`; None
        while the offsets of this group cannot expire."""
        ...

    def tombstones(self) -> Sequence[RecordChange]:
        """The records that delete it; its offsets have their own."""
        ...

    def timers(self) -> Sequence[CancelTimer]:
        """The timers that must go with it."""
        ...
