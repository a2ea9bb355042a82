"""The lag of a consumer group: what it has committed, and how far that is from the end."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headrace.client.admin.groups import GroupDescription, GroupMember
from headrace.client.admin.offsets import CommittedOffset, committed_offsets, list_bounds
from headrace.client.client import ClusterClient
from headrace.client.results import Refusal, TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """A group's position in one partition; None if the group has not committed an offset."""

    partition: TopicPartition
    committed: int | None
    start: int | None
    end: int | None
    member: GroupMember | None
    problem: Refusal | None = None
    """Why the offsets of the partition are unknown, such as a deleted topic."""

    @property
    def lag(self) -> int | None:
        if self.committed is None or self.end is None:
            return None
        return max(0, self.end - self.committed)

    @property
    def is_out_of_range(self) -> bool:
        """Whether the next record of the group was deleted before it was read."""
        return self.committed is not None and self.start is not None and self.committed < self.start


def lags_of(
    group: GroupDescription,
    committed: Mapping[TopicPartition, CommittedOffset],
    bounds: Mapping[TopicPartition, tuple[int, int] | Refusal],
) -> list[PartitionLag]:
    """The partitions that the group has committed or owns, sorted."""
    owners = owners_of(group)
    lags = []
    for each in sorted({*committed, *owners}):
        bound = bounds[each]
        at = committed.get(each)
        refused = bound if isinstance(bound, Refusal) else None
        start, end = (None, None) if isinstance(bound, Refusal) else bound
        lags.append(
            PartitionLag(
                each, None if at is None else at.offset, start, end, owners.get(each), refused
            )
        )
    return lags


def owners_of(group: GroupDescription) -> dict[TopicPartition, GroupMember]:
    """The member that owns each partition."""
    return {each: member for member in group.members for each in member.partitions}


def total_lag(lags: Iterable[PartitionLag]) -> int:
    return sum(each.lag or 0 for each in lags)


async def read_lags(
    client: ClusterClient, group: GroupDescription, *, timeout_s: float
) -> Sequence[PartitionLag]:
    """The lag of a classic or a consumer group now."""
    committed = await committed_offsets(client, group.group_id, timeout_s=timeout_s)
    partitions = sorted({*committed, *owners_of(group)})
    bounds = await list_bounds(client, partitions, timeout_s=timeout_s)
    return lags_of(group, committed, bounds)
