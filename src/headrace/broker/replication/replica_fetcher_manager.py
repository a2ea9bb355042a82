"""Assigns each followed partition to the fetcher of its leader, as roles change."""

from __future__ import annotations

from typing import Final, Protocol

from headrace.broker.membership.peers import REPLICATION, Peers
from headrace.broker.partitions.replica_roles import Role
from headrace.broker.replication.leader_connection import LeaderLink
from headrace.broker.replication.partition_fetch_state import Key
from headrace.broker.replication.replica_fetcher import (
    FetchThrottle,
    ReplicaFetcher,
    ReplicaFetcherHost,
    ReplicaFetchSettings,
)
from headrace.client.errors import BadResponse, code_of_number
from headrace.cluster.settings import BrokerSettings
from headrace.cluster.topology import NO_LEADER
from headrace.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from headrace.replication.follower import Follower

LATEST: Final = -1
EARLIEST: Final = -2
LIST_OFFSETS_TIMEOUT_S: Final = 5.0


class ReplicaFetcherManagerHost(ReplicaFetcherHost, Protocol):
    """The part of the broker that the fetchers use."""

    settings: BrokerSettings


class ReplicaFetcherManager:
    """One fetcher for each broker that leads a partition followed here."""

    def __init__(
        self, host: ReplicaFetcherManagerHost, peers: Peers, throttle: FetchThrottle
    ) -> None:
        self._throttle = throttle
        self._host = host
        self._peers = peers
        self._settings = replica_fetch_settings(host.settings)
        self._by_source: dict[int, ReplicaFetcher] = {}
        self._source_of: dict[Key, int] = {}

    def role_changed(
        self, _topic: str, _index: int, before: Role | None, after: Role | None
    ) -> None:
        if isinstance(before, Follower) and before is not after:
            self._stop_fetching(before)
        if isinstance(after, Follower):
            self.follow(after)

    def follow(self, follower: Follower) -> None:
        """Copies the partition from its current leader."""
        key = (follower.topic_id, follower.index)
        source = follower.leader_id
        if self._source_of.get(key, source) != source:
            self._stop_fetching(follower)
        if source != NO_LEADER:
            self._source_of[key] = source
            self._fetcher(source).add(follower)

    def _stop_fetching(self, follower: Follower) -> None:
        source = self._source_of.pop((follower.topic_id, follower.index), None)
        if source is not None:
            self._by_source[source].remove(follower)

    def remove_and_confirm(self, follower: Follower) -> None:
        """Stops copying the partition until it is followed again."""
        source = self._source_of.get((follower.topic_id, follower.index))
        if source is not None:
            self._by_source[source].remove_and_confirm(follower)

    def heard_at(self, follower: Follower) -> float:
        """The time at which the partition's leader last answered; minus infinity without a
        leader."""
        source = self._source_of.get((follower.topic_id, follower.index))
        return float("-inf") if source is None else self._by_source[source].heard_at

    def is_removal_confirmed(self, follower: Follower) -> bool:
        """Whether no former leader of the partition will count a fetch in flight."""
        key = (follower.topic_id, follower.index)
        return all(fetcher.is_removal_confirmed(key) for fetcher in self._by_source.values())

    def close(self) -> None:
        for fetcher in self._by_source.values():
            fetcher.close()

    def _fetcher(self, source: int) -> ReplicaFetcher:
        fetcher = self._by_source.get(source)
        if fetcher is None:

            async def connect() -> LeaderLink:
                return await self._peers.connection(source, REPLICATION)

            fetcher = self._by_source[source] = ReplicaFetcher(
                self._host,
                source,
                connect,
                self._move_into_leader_range,
                self._settings,
                self._throttle,
            )
        return fetcher

    async def _move_into_leader_range(self, follower: Follower) -> None:
        """Moves the log into the leader's range, because the follower's end is outside it.

        Past the leader's end, the records came from leaders of abandoned epochs. Before the
        leader's start, retention has deleted the next records.
        """
        source, epoch = follower.leader_id, follower.epoch
        end = await self._list_offset(source, follower, LATEST)
        start = await self._list_offset(source, follower, EARLIEST)
        if follower.closed or follower.epoch != epoch:
            return  # the log has another leader now
        ours = follower.log.log_end_offset
        if end < ours:
            follower.truncate_to_leader_end(max(end, 0))
        elif start > ours:
            follower.truncate_fully_and_start_at(start)

    async def _list_offset(self, source: int, follower: Follower, timestamp: int) -> int:
        request = ListOffsetsRequest(
            replica_id=self._host.node_id,
            topics=[
                ListOffsetsTopic(
                    name=follower.topic,
                    partitions=[
                        ListOffsetsPartition(
                            partition_index=follower.index,
                            current_leader_epoch=follower.epoch,
                            timestamp=timestamp,
                        )
                    ],
                )
            ],
        )
        answer = await self._peers.request(
            source, request, ListOffsetsResponse, timeout_s=LIST_OFFSETS_TIMEOUT_S
        )
        found = answer.topics[0].partitions[0]
        if found.error_code:
            raise BadResponse(f"its leader answers {code_of_number(found.error_code).name}")
        return found.offset


def replica_fetch_settings(settings: BrokerSettings) -> ReplicaFetchSettings:
    number = settings.integer
    return ReplicaFetchSettings(
        fetch_max_bytes=number("replica.fetch.max.bytes"),
        response_max_bytes=number("replica.fetch.response.max.bytes"),
        fetch_min_bytes=number("replica.fetch.min.bytes"),
        fetch_wait_max_ms=number("replica.fetch.wait.max.ms"),
        fetch_backoff_s=number("replica.fetch.backoff.ms") / 1000,
        socket_timeout_s=number("replica.socket.timeout.ms") / 1000,
    )
