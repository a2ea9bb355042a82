"""Replication of partitions across brokers: the leader's and the follower's side."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Protocol

from headrace.broker.membership.peers import Peers
from headrace.broker.partitions.partition_table import PartitionTable
from headrace.broker.partitions.replica_roles import RoleChanged
from headrace.broker.replication.alter_partition_manager import (
    AlterPartitionHost,
    AlterPartitionManager,
    AskController,
)
from headrace.broker.replication.catch_up_throttle import CatchUpThrottle
from headrace.broker.replication.failed_replicas import FailedReplicas, FailedReplicasHost
from headrace.broker.replication.fetch_session_at_leader import WaitingFetch
from headrace.broker.replication.fetch_sessions_at_leader import FollowerFetchSessions
from headrace.broker.replication.isr_resignation import (
    IsrResignation,
    IsrResignationHost,
    follower_partition,
)
from headrace.broker.replication.replica_fetcher_manager import (
    ReplicaFetcherManager,
    ReplicaFetcherManagerHost,
)
from headrace.broker.replication.replication_throttles import ReplicationThrottles, ThrottleHost
from headrace.replication.follower import Follower
from headrace.replication.leader import Leader


class ReplicaManagerHost(
    AlterPartitionHost,
    FailedReplicasHost,
    IsrResignationHost,
    ReplicaFetcherManagerHost,
    ThrottleHost,
    Protocol,
):
    """The part of the broker that replication uses."""

    random: Random
    partitions: PartitionTable

    def on_roles_changed(self, listener: RoleChanged) -> None: ...


class ReplicaManager:
    """The followers that fetch from this broker, and the partitions that it fetches from others."""

    def __init__(self, host: ReplicaManagerHost) -> None:
        throttles = ReplicationThrottles(host)
        self.sessions = FollowerFetchSessions(host.random, throttles, self._new_catch_up_throttle)
        self.waiting: dict[WaitingFetch, None] = {}  # in arrival order
        self._host = host
        self._throttles = throttles
        self._isr_changes: AlterPartitionManager | None = None
        self._resignation: IsrResignation | None = None
        self._fetchers: ReplicaFetcherManager | None = None
        self._failed_replicas: FailedReplicas | None = None

    def start(self, peers: Peers, ask: AskController) -> None:
        """Starts following and managing the ISR, as a member of a cluster."""
        self._isr_changes = AlterPartitionManager(self._host, self.sessions, ask)
        self._isr_changes.start()
        self._resignation = IsrResignation(self._host, ask)
        self._fetchers = fetchers = ReplicaFetcherManager(self._host, peers, self._throttles)
        self._failed_replicas = FailedReplicas(
            self._host, self._isr_changes, self._resignation, fetchers
        )
        self._host.on_roles_changed(fetchers.role_changed)
        for replica in self._host.partitions.replicas:
            if isinstance(replica, Follower):
                fetchers.follow(replica)

    def _new_catch_up_throttle(self) -> CatchUpThrottle:
        rate = self._host.effective.broker_value("headrace.replica.catch.up.rate")
        assert isinstance(rate, int)
        return CatchUpThrottle(rate)

    def followers_fetched(self, replica_id: int, leaders: Sequence[Leader]) -> None:
        """Handles new follower positions at these leaders."""
        if self._isr_changes is not None:
            self._isr_changes.followers_fetched(replica_id, leaders)

    def is_current(self, follower: Follower) -> bool:
        """Whether the replica is in sync, as far as this broker knows, and its leader answers.

        A broker that is cut off gets no metadata, so it does not learn that it is out of sync.
        """
        partition = follower_partition(self._host.metadata.image, follower)
        if partition is None or self._host.node_id not in partition.isr:
            return False
        if self._fetchers is None:
            return True
        max_lag_s = self._host.settings.integer("replica.lag.time.max.ms") / 1000
        return self._host.clock.monotonic() - self._fetchers.heard_at(follower) <= max_lag_s

    def resign_from_failed(self) -> None:
        """Gives up replicas on failed or full disks, and replicas with a damaged log."""
        if self._failed_replicas is not None:
            self._failed_replicas.resign()

    def finish_waits(self) -> None:
        """Answers every waiting follower fetch."""
        for waiting in tuple(self.waiting):
            waiting.finish()

    def stop(self) -> None:
        if self._fetchers is not None:
            self._fetchers.close()
        if self._isr_changes is not None:
            self._isr_changes.close()
        if self._resignation is not None:
            self._resignation.close()
