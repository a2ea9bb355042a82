"""The result of one refresh: the lag of all groups that this broker coordinates. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from headrace.broker.lag.lag import PartitionLag
from headrace.broker.lag.positions import OpenTransaction, PartitionKey


@dataclass(frozen=True, slots=True)
class GroupLag:
    """One group. A partition in which it has not committed an offset has None."""

    group_id: str
    members: int
    partitions: Mapping[PartitionKey, PartitionLag | None]

    def max_seconds(self) -> float | None:
        """The largest lag in time; None if no partition has one."""
        known = [
            lag.seconds
            for lag in self.partitions.values()
            if lag is not None and lag.seconds is not None
        ]
        return max(known, default=None)

    def totals(self) -> Iterator["TopicTotal"]:
        """The sums over the partitions of each topic."""
        for topic_id, each in groupby(self.partitions.items(), key=lambda item: item[0].topic_id):
            lags = [lag for _, lag in each if lag is not None]
            known = [lag.records for lag in lags if lag.records is not None]
            # A sum over only some of the partitions would look like progress.
            total = sum(known) if len(known) == len(lags) else None
            yield TopicTotal(topic_id, sum(lag.position for lag in lags), total)


class TopicTotal(NamedTuple):
    """The sums of one group in one topic; `records` is None if the lag of a partition is
    unknown."""

    topic_id: bytes
    positions: int
    records: int | None


class WaitingForTransaction(NamedTuple):
    """A partition with an open transaction."""

    topic: str
    partition: int
    transaction: OpenTransaction
    records: int
    """The records that read_committed consumers cannot read until it ends."""
    now_ms: int


@dataclass(frozen=True, slots=True)
class LagSnapshot:
    """All groups of this broker at one moment."""

    groups: Sequence[GroupLag] = ()
    share_groups: Sequence[GroupLag] = ()
    open_transactions: Sequence[WaitingForTransaction] = ()
    took_s: float = 0.0
    fresh_until: float = 0.0
    """In seconds of the monotonic clock."""

    def unknown_count(self) -> int:
        """The number of partitions of groups whose lag is not known."""
        return sum(
            lag is not None and lag.records is None
            for group in (*self.groups, *self.share_groups)
            for lag in group.partitions.values()
        )


def detailed_groups(groups: Iterable[GroupLag], limit: int) -> list[GroupLag]:
    """The groups whose partitions have series of their own: `limit` partitions altogether.

    Groups with few partitions come first, so that one huge group does not hide all others.
    """
    chosen, left = [], limit
    for group in sorted(groups, key=lambda each: (len(each.partitions), each.group_id)):
        left -= len(group.partitions)
        if left < 0:
            break
        chosen.append(group)
    return chosen
