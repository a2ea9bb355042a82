"""The records that members of share groups hold: locks, holders, delivery counts.

Kafka's requests do not have them. Headrace's brokers return them in tagged fields if they are asked
for; Apache Kafka ignores the question.
"""

from dataclasses import dataclass
from typing import NamedTuple

from headrace.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsResponsePartition,
)


class ShareLock(NamedTuple):
    """Consecutive offsets that one member has acquired."""

    first: int
    last: int
    member: str
    deliveries: int
    """Including this one."""
    expires_ms: int | None
    """The time until the records are delivered again; None while an acknowledgement is being
    stored."""

    @property
    def records(self) -> int:
        return self.last - self.first + 1


class UnheldRecords(NamedTuple):
    """Records after the start offset that no member holds."""

    available: int
    acknowledged: int
    archiving: int
    """They wait for their copies in the dead-letter topic."""
    archived: int


@dataclass(frozen=True, slots=True)
class ShareLocks:
    """A share partition as its leader sees it."""

    acquired: int
    locks: tuple[ShareLock, ...]
    """The first ones, in the order of their offsets."""
    omitted: int
    """Locks that the response leaves out."""
    unheld: UnheldRecords | None
    """None if the leader has not loaded the share partition: it has had no reader."""

    @property
    def in_flight(self) -> int | None:
        return None if self.unheld is None else self.acquired + sum(self.unheld)


def locks_of(described: DescribeShareGroupOffsetsResponsePartition) -> ShareLocks | None:
    """None if the broker does not tell, or the leader did not answer."""
    if described.acquired_records < 0:
        return None
    unheld = None
    if described.available_records >= 0:
        unheld = UnheldRecords(
            described.available_records,
            described.acknowledged_records,
            described.archiving_records,
            described.archived_records,
        )
    locks = tuple(
        ShareLock(
            lock.first_offset,
            lock.last_offset,
            lock.member_id,
            lock.delivery_count,
            None if lock.expires_ms < 0 else lock.expires_ms,
        )
        for lock in described.locks
    )
    return ShareLocks(described.acquired_records, locks, described.omitted_locks, unheld)
