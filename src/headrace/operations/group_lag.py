"""The lag of groups, by partition and in total, for the command line and the console."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.client.admin.consumer_lag import ConsumerLag, partition_lags
from headrace.client.admin.groups import GroupDescription, GroupMember, ListedGroup
from headrace.client.admin.offsets import CommittedOffset, committed_offsets, offsets_of_groups
from headrace.client.broker_requests import ANSWER_S, Listing
from headrace.client.client import ClusterClient
from headrace.client.results import Refusal, TopicPartition
from headrace.clock import SystemClock


@dataclass(frozen=True, slots=True)
class Lag:
    """A group's position in one partition; None if the group has not committed an offset."""

    partition: TopicPartition
    committed: int | None
    end: int | None
    member: GroupMember | None
    found: ConsumerLag | None
    problem: Refusal | None = None
    """Why the lag of the partition is unknown, such as a deleted topic."""

    @property
    def records(self) -> int | None:
        return None if self.found is None else self.found.records

    @property
    def seconds(self) -> float | None:
        return None if self.found is None else self.found.seconds


@dataclass(frozen=True, slots=True)
class TotalLag:
    """The lag of a group in all partitions; None if it is unknown."""

    records: int | None = None
    seconds: float | None = None


def total_lag(lags: Sequence[ConsumerLag | None]) -> TotalLag:
    """The sum of the records, and the largest time, of the partitions where they are known."""
    known = [lag for lag in lags if lag is not None]
    seconds = [lag.seconds for lag in known if lag.seconds is not None]
    # A lag without its time may be the largest.
    is_complete = len(seconds) == len(known)
    return TotalLag(
        sum(lag.records for lag in known), max(seconds, default=None) if is_complete else None
    )


async def lags_of_group(
    client: ClusterClient, group: GroupDescription, timeout_s: float
) -> list[Lag]:
    """The group's lag in every partition that it has committed or that a member owns."""
    committed = await committed_offsets(client, group.group_id, timeout_s=timeout_s)
    owners = {each: member for member in group.members for each in member.partitions}
    partitions = sorted({*committed, *owners})
    positions = {each: [committed[each].offset] if each in committed else [] for each in partitions}
    found = await partition_lags(client, positions, SystemClock().wall_ms(), timeout_s=timeout_s)
    lags = []
    for each in partitions:
        state = found[each]
        at = committed.get(each)
        offset = None if at is None else at.offset
        if isinstance(state, Refusal):
            lags.append(Lag(each, offset, None, owners.get(each), None, state))
        else:
            lag = None if offset is None else state.lags[offset]
            lags.append(Lag(each, offset, state.end, owners.get(each), lag))
    return lags


async def lags_of_groups(
    client: ClusterClient, groups: Listing[ListedGroup], timeout_s: float
) -> Mapping[str, TotalLag]:
    """The lag of each group that can be read now.

    If a broker has not listed its groups, the lag in the partitions that it leads is unknown.
    """
    partial = bool(groups.failures)
    if partial:
        timeout_s = min(timeout_s, ANSWER_S)
    committed = await _committed(client, groups.items, timeout_s)
    positions: dict[TopicPartition, set[int]] = {}
    for offsets in committed.values():
        for each, at in offsets.items():
            positions.setdefault(each, set()).add(at.offset)
    found = await partition_lags(
        client,
        positions,
        SystemClock().wall_ms(),
        timeout_s=timeout_s,
        patience_s=0,
        partial=partial,
    )
    totals = {}
    for group, offsets in committed.items():
        lags: list[ConsumerLag] = []
        for each, at in offsets.items():
            state = found[each]
            if not isinstance(state, Refusal):
                lags.append(state.lags[at.offset])
        # A sum over only some of the partitions would look like progress.
        totals[group] = total_lag(lags) if len(lags) == len(offsets) else TotalLag()
    return totals


async def _committed(
    client: ClusterClient, groups: Sequence[ListedGroup], timeout_s: float
) -> Mapping[str, Mapping[TopicPartition, CommittedOffset]]:
    """The committed offsets of the groups whose coordinators return them."""
    by_coordinator: dict[int, list[str]] = {}
    for group in groups:
        by_coordinator.setdefault(group.coordinator, []).append(group.group_id)
    committed: dict[str, Mapping[TopicPartition, CommittedOffset]] = {}
    for coordinator, names in by_coordinator.items():
        found = await offsets_of_groups(client, names, coordinator, timeout_s=timeout_s)
        committed |= {
            group: offsets for group, offsets in found.items() if not isinstance(offsets, Refusal)
        }
    return committed
