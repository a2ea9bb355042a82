"""The lag of every group that this broker coordinates, computed when somebody asks.

Nothing runs while nobody scrapes. A refresh runs in slices on the event loop, and its result is
used again for `FRESH_S`, or longer if the refresh took long: lag never needs more than a fifth of
the loop's time. A group is in the result of its coordinator only, so sums over brokers are right.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from headrace.broker.lag.group_positions import (
    CommittedPositions,
    SharePosition,
    SharePositions,
    positions_in,
    share_position,
    share_positions_of,
)
from headrace.broker.lag.lag import PartitionLag, lag_of, share_lag_of
from headrace.broker.lag.lag_snapshot import (
    GroupLag,
    HeldBack,
    LagSnapshot,
    WaitingForTransaction,
)
from headrace.broker.lag.leader_states import (
    CHANNEL,
    REQUEST_TIMEOUT_S,
    LeaderStates,
    LeaderStatesHost,
    States,
)
from headrace.broker.lag.partition_states import PartitionStates
from headrace.broker.lag.position_requests import Wanted, fill_response
from headrace.broker.lag.positions import PartitionKey, Position
from headrace.broker.lag.share_summaries import Summaries, read_summaries
from headrace.broker.lag.time_slices import TimeSlices
from headrace.coordinator.group.share.share_group import ShareGroup
from headrace.coordinator.share_state.stored_state import SharePartitionKey
from headrace.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from headrace.replication.sole_leader import SoleLeader

if TYPE_CHECKING:
    from headrace.broker.coordinators.coordinator_registry import CoordinatorRegistry
    from headrace.broker.coordinators.coordinator_runtime import CoordinatorRuntime
    from headrace.coordinator.share_state.share_state_shard import (
        ShareStateShard,
        StateSummary,
    )

FRESH_S: Final = 0.2  # several scrapers, and the collectors of one scrape, share a refresh
COST_SHARE: Final = 4  # a refresh of one second is used for four
MAX_POSITIONS_PER_REQUEST: Final = 20_000
MAX_OPEN_TRANSACTIONS: Final = 1000
MAX_HELD_BACK: Final = 10_000


class ConsumerLagHost(LeaderStatesHost, Protocol):
    """The part of the broker that lag is computed from."""

    loop: asyncio.AbstractEventLoop

    @property
    def built_coordinators(self) -> CoordinatorRegistry | None:
        """The coordinators, if there was a request for one, or an internal topic."""
        ...

    @property
    def share_state(self) -> CoordinatorRuntime[ShareStateShard]: ...


class ConsumerLag:
    """The lag of this broker's groups, and the answers about partitions that it leads."""

    def __init__(self, host: ConsumerLagHost) -> None:
        self._host = host
        self._local = PartitionStates(host)
        self._leaders = LeaderStates(host, self._local)
        self._refresh: asyncio.Task[LagSnapshot] | None = None
        self.snapshot = LagSnapshot()
        """The last result."""

    # --- for scrapes ----------------------------------------------------------------------------

    async def refreshed(self) -> LagSnapshot:
        """The lag now, or a moment ago; concurrent callers share one refresh."""
        now = self._host.clock.monotonic()
        if self._refresh is None and now < self.snapshot.fresh_until:
            return self.snapshot
        if self._refresh is None:
            self._refresh = self._host.loop.create_task(self._compute())
            self._refresh.add_done_callback(self._refresh_ended)
        # A scraper that disconnects must not cancel the refresh for the others.
        return await asyncio.shield(self._refresh)

    def _refresh_ended(self, task: asyncio.Task[LagSnapshot]) -> None:
        self._refresh = None
        if not task.cancelled() and task.exception() is None:
            self.snapshot = task.result()

    def stop(self) -> None:
        if self._refresh is not None:
            self._refresh.cancel()

    # --- for other brokers, and for clients -----------------------------------------------------

    async def add_next_records(
        self, request: ListOffsetsRequest, response: ListOffsetsResponse
    ) -> ListOffsetsResponse:
        """Adds the next records of the request's positions to the response."""
        slices = TimeSlices(self._host.clock)
        left = MAX_POSITIONS_PER_REQUEST
        asked = {
            (topic.name, partition.partition_index): partition.positions
            for topic in request.topics
            for partition in topic.partitions
        }
        for topic in response.topics:
            hosted = self._host.partitions.by_name.get(topic.name)
            for answer in topic.partitions:
                leader = hosted.leader(answer.partition_index) if hosted is not None else None
                wanted = asked.get((topic.name, answer.partition_index), ())
                left -= len(wanted)
                if not wanted or answer.error_code or leader is None or left < 0:
                    continue
                positions = [Position(each.offset, each.skip_aborted) for each in wanted]
                state = await self._local.of(leader, positions, slices)
                if state is not None:
                    fill_response(answer, positions, state)
                if slices.is_over:
                    await slices.rest()
        return response

    async def of_share_group(
        self, summaries: Mapping[SharePartitionKey, StateSummary], *, skip_aborted: bool
    ) -> dict[SharePartitionKey, PartitionLag]:
        """The lag in partitions whose start offset is known, whatever brokers lead them."""
        starts = {
            key: start
            for key, summary in summaries.items()
            if (start := share_position(summary, skip_aborted=skip_aborted)) is not None
        }
        slices = TimeSlices(self._host.clock)
        states = await self._leaders.of(await _wanted((), starts, slices), slices)
        now_ms = self._host.clock.wall_ms()
        return {
            key: share_lag_of(start, states.get(PartitionKey(key.topic_id, key.partition)), now_ms)
            for key, start in starts.items()
        }

    # --- one refresh ----------------------------------------------------------------------------

    async def _compute(self) -> LagSnapshot:
        began = self._host.clock.monotonic()
        slices = TimeSlices(self._host.clock)
        committed, shares = await self._read_groups(slices)
        summaries = await self._read_summaries(shares, slices)
        starts = _share_starts(shares, summaries)
        # Positions first: an end that was read before a commit would be a lag below zero.
        states = await self._leaders.of(await _wanted(committed, starts, slices), slices)
        now_ms = self._host.clock.wall_ms()
        groups = [await _committed_lag(group, states, now_ms, slices) for group in committed]
        share_groups = [_share_lag(group, starts, states, now_ms) for group in shares]
        waiting = await self._open_transactions(now_ms, slices)
        held_back, unknown = await _remarkable(groups, share_groups, slices)
        ended = self._host.clock.monotonic()
        return LagSnapshot(
            groups,
            share_groups,
            waiting,
            held_back,
            unknown,
            took_s=ended - began,
            fresh_until=ended + max(FRESH_S, COST_SHARE * (ended - began)),
        )

    async def _read_groups(
        self, slices: TimeSlices
    ) -> tuple[list[CommittedPositions], list[SharePositions]]:
        committed: list[CommittedPositions] = []
        shares: list[SharePositions] = []
        coordinators = self._host.built_coordinators
        if coordinators is None:
            return committed, shares
        for shard in coordinators.groups.shards():
            for group in tuple(shard.groups.values()):
                if isinstance(group, ShareGroup):
                    shares.append(share_positions_of(shard, group))
                    continue
                positions: dict[PartitionKey, Position | None] = {}
                topics = shard.offsets.state.committed.topics(group.group_id)
                for name, offsets in tuple(topics.items()):
                    positions.update(positions_in(name, offsets, self._host.metadata.image))
                    if slices.is_over:
                        await slices.rest()
                committed.append(CommittedPositions(group.group_id, group.member_count, positions))
        return committed, shares

    async def _read_summaries(
        self, shares: Sequence[SharePositions], slices: TimeSlices
    ) -> Summaries:
        if not shares:
            return {}
        return await read_summaries(
            self._host,
            [(each.group_id, each.partitions) for each in shares],
            slices,
            channel=CHANNEL,
            timeout_s=REQUEST_TIMEOUT_S,
        )

    async def _open_transactions(
        self, now_ms: int, slices: TimeSlices
    ) -> list[WaitingForTransaction]:
        """The open transactions of the partitions that this broker leads."""
        waiting: list[WaitingForTransaction] = []
        for leader in tuple(self._host.partitions):
            if slices.is_over:
                await slices.rest()
            if not _has_open_transaction(leader) or len(waiting) == MAX_OPEN_TRANSACTIONS:
                continue
            state = await self._local.of(leader, (), slices)
            if state is not None and state.open_transaction is not None:
                waiting.append(
                    WaitingForTransaction(
                        leader.topic,
                        leader.index,
                        state.open_transaction,
                        state.end_offset - state.last_stable_offset,
                        now_ms,
                    )
                )
        return waiting


def _has_open_transaction(leader: SoleLeader) -> bool:
    return (
        leader.is_open
        and not leader.closed
        and leader.log.failure is None
        and leader.log.first_unstable_offset is not None
    )


Starts = dict[SharePartitionKey, SharePosition]


def _share_starts(shares: Sequence[SharePositions], summaries: Summaries) -> Starts:
    starts: Starts = {}
    for group in shares:
        for topic_id, indexes in group.partitions.items():
            for index in indexes:
                key = SharePartitionKey(group.group_id, topic_id, index)
                summary = summaries.get(key)
                if summary is not None:
                    start = share_position(summary, skip_aborted=group.skip_aborted)
                    if start is not None:
                        starts[key] = start
    return starts


async def _wanted(
    committed: Sequence[CommittedPositions], starts: Starts, slices: TimeSlices
) -> Wanted:
    """The positions of all groups in each partition, each once, as the keys of a dict."""
    wanted: dict[PartitionKey, dict[Position, None]] = {}
    for group in committed:
        for partition, position in group.positions.items():
            if position is not None:
                wanted.setdefault(partition, {})[position] = None
            if slices.is_over:
                await slices.rest()
    for key, start in starts.items():
        wanted.setdefault(PartitionKey(key.topic_id, key.partition), {})[start.next] = None
    return wanted


async def _committed_lag(
    group: CommittedPositions, states: States, now_ms: int, slices: TimeSlices
) -> GroupLag:
    partitions: dict[PartitionKey, PartitionLag | None] = {}
    for each, position in group.positions.items():
        partitions[each] = None if position is None else lag_of(position, states.get(each), now_ms)
        if slices.is_over:
            await slices.rest()
    return GroupLag(group.group_id, group.members, partitions)


def _share_lag(group: SharePositions, starts: Starts, states: States, now_ms: int) -> GroupLag:
    partitions: dict[PartitionKey, PartitionLag | None] = {}
    for topic_id, indexes in group.partitions.items():
        for index in sorted(indexes):
            start = starts.get(SharePartitionKey(group.group_id, topic_id, index))
            if start is not None:
                each = PartitionKey(topic_id, index)
                partitions[each] = share_lag_of(start, states.get(each), now_ms)
    return GroupLag(group.group_id, group.members, partitions)


async def _remarkable(
    groups: Sequence[GroupLag], share_groups: Sequence[GroupLag], slices: TimeSlices
) -> tuple[list[HeldBack], int]:
    """What open transactions hold back, and the number of partitions whose lag is unknown."""
    held_back: list[HeldBack] = []
    unknown = 0
    for group in groups:
        for each, lag in group.partitions.items():
            if lag is not None:
                unknown += lag.records is None
                if lag.held_back and len(held_back) < MAX_HELD_BACK:
                    held_back.append(HeldBack(group.group_id, each, lag.held_back))
            if slices.is_over:
                await slices.rest()
    for group in share_groups:
        unknown += sum(lag is not None and lag.records is None for lag in group.partitions.values())
    return held_back, unknown
