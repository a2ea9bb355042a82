"""The states of partitions, from their leaders: this broker or other ones.

Other brokers get their questions at the same time, each in a few bounded requests on a connection
of its own. A broker that does not answer in time leaves the lag of its partitions unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final, Protocol

from headrace.broker.lag.partition_states import PartitionStates, PartitionStatesHost
from headrace.broker.lag.position_requests import Wanted, request_of, states_in
from headrace.broker.lag.positions import PartitionKey, PartitionState, Position
from headrace.broker.lag.time_slices import TimeSlices
from headrace.broker.metadata.standalone_metadata import Metadata
from headrace.broker.partitions.partition_table import PartitionTable
from headrace.client.errors import ClientError
from headrace.cluster.image import MetadataImage
from headrace.cluster.topology import NO_LEADER
from headrace.protocol.messages.list_offsets import ListOffsetsResponse
from headrace.replication.sole_leader import SoleLeader

if TYPE_CHECKING:
    from headrace.broker.membership.peers import Peers

CHANNEL: Final = "lag"  # requests of the other channels never wait for these
POSITIONS_PER_REQUEST: Final = 500  # each is encoded, or decoded, within a millisecond or two
REQUEST_TIMEOUT_S: Final = 2.0  # a scrape waits for the answers

States = dict[PartitionKey, PartitionState]


class LeaderStatesHost(PartitionStatesHost, Protocol):
    """The part of the broker that knows leaders."""

    node_id: int
    metadata: Metadata
    partitions: PartitionTable

    @property
    def peers(self) -> Peers | None: ...


class LeaderStates:
    """Finds the leaders of partitions, and asks them."""

    def __init__(self, host: LeaderStatesHost, local: PartitionStates) -> None:
        self._host = host
        self._local = local

    async def of(self, wanted: Wanted, slices: TimeSlices) -> States:
        """The states that the leaders know; a partition without a leader has none."""
        here, elsewhere = await _by_leader(
            wanted, self._host.metadata.image, self._host.node_id, slices
        )
        asked = [
            self._ask(broker_id, part)
            for broker_id, partitions in elsewhere.items()
            for part in _parts(partitions)
        ]
        states, *answers = await asyncio.gather(self._here(here, slices), *asked)
        for answer in answers:
            states.update(answer)
        return states

    async def _here(self, wanted: Wanted, slices: TimeSlices) -> States:
        states: States = {}
        for partition, positions in wanted.items():
            topic = self._host.partitions.by_id.get(partition.topic_id)
            leader = topic.leader(partition.partition) if topic is not None else None
            if isinstance(leader, SoleLeader):
                state = await self._local.of(leader, positions, slices)
                if state is not None:
                    states[partition] = state
            if slices.is_over:
                await slices.rest()
        return states

    async def _ask(self, broker_id: int, wanted: Wanted) -> States:
        topics = self._host.metadata.image.topics_by_id
        by_name = {topics[id_].name: id_ for id_, _ in wanted if id_ in topics}
        known = {each: positions for each, positions in wanted.items() if each.topic_id in topics}
        request = request_of(known, lambda id_: topics[id_].name, int(REQUEST_TIMEOUT_S * 1000))
        peers = self._host.peers
        if peers is None:
            return {}
        try:
            response = await peers.request(
                broker_id,
                request,
                ListOffsetsResponse,
                timeout_s=REQUEST_TIMEOUT_S,
                channel=CHANNEL,
            )
        except ClientError:
            return {}
        return dict(states_in(response, known, lambda name: by_name.get(name, b"")))


async def _by_leader(
    wanted: Wanted, image: MetadataImage, node_id: int, slices: TimeSlices
) -> tuple[Wanted, dict[int, dict[PartitionKey, Collection[Position]]]]:
    """The partitions that this broker leads, and those of each other broker."""
    here: dict[PartitionKey, Collection[Position]] = {}
    elsewhere: dict[int, dict[PartitionKey, Collection[Position]]] = {}
    for each, positions in wanted.items():
        if slices.is_over:
            await slices.rest()
        topic = image.topics_by_id.get(each.topic_id)
        partition = topic.partition(each.partition) if topic is not None else None
        if partition is None or partition.leader == NO_LEADER:
            continue
        if partition.leader == node_id:
            here[each] = positions
        else:
            elsewhere.setdefault(partition.leader, {})[each] = positions
    return here, elsewhere


def _parts(wanted: Wanted) -> Iterator[Wanted]:
    """Parts of a bounded size: one request each."""
    part: dict[PartitionKey, Collection[Position]] = {}
    size = 0
    for each, positions in wanted.items():
        part[each] = positions
        size += max(1, len(positions))
        if size >= POSITIONS_PER_REQUEST:
            yield part
            part, size = {}, 0
    if part:
        yield part
