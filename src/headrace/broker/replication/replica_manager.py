"""Replication of partitions across brokers: the leader's and the follower's side."""

from __future__ import annotations

import logging
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
from headrace.broker.replication.follower_fetch_session import WaitingFetch
from headrace.broker.replication.follower_fetch_sessions import FollowerFetchSessions
from headrace.broker.replication.full_disk_detector import FullDiskDetector
from headrace.broker.replication.isr_resignation import IsrResignation, IsrResignationHost
from headrace.broker.replication.replica_fetcher_manager import (
    ReplicaFetcherManager,
    ReplicaFetcherManagerHost,
)
from headrace.broker.replication.replication_throttles import ReplicationThrottles, ThrottleHost
from headrace.cluster.topology import INTERNAL_TOPICS, NO_LEADER, Partition
from headrace.replication.follower import Follower
from headrace.replication.leader import Leader
from headrace.storage.directories.log_manager import LogManager

log = logging.getLogger(__name__)


class CoordinatorRoles(Protocol):
    """The coordinators of this broker, whose shards follow the leadership of partitions."""

    def role_changed(self, topic: str, index: int) -> None: ...


class ReplicaManagerHost(
    AlterPartitionHost, IsrResignationHost, ReplicaFetcherManagerHost, ThrottleHost, Protocol
):
    """What replication needs from its broker."""

    random: Random
    partitions: PartitionTable

    @property
    def logs(self) -> LogManager: ...

    @property
    def coordinators(self) -> CoordinatorRoles: ...

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
        self._full_disks = FullDiskDetector()

    def start(self, peers: Peers, ask: AskController) -> None:
        """Starts following and managing the ISR, as a member of a cluster."""
        self._isr_changes = AlterPartitionManager(self._host, self.sessions, ask)
        self._isr_changes.start()
        self._resignation = IsrResignation(self._host, ask)
        self._fetchers = fetchers = ReplicaFetcherManager(self._host, peers, self._throttles)
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
        partition = self._partition(follower)
        if partition is None or self._host.node_id not in partition.isr:
            return False
        if self._fetchers is None:
            return True
        max_lag_s = self._host.settings.integer("replica.lag.time.max.ms") / 1000
        return self._host.clock.monotonic() - self._fetchers.heard_at(follower) <= max_lag_s

    def resign_from_failed(self) -> None:
        """Gives up replicas in a failed log directory or with a damaged log.

        Other replicas take over leadership, and no leader waits for the replicas here. A damaged
        log is then truncated to its valid part, and the rest is copied again.

        Replicas on a full disk are given up only where enough others are in sync. Copying resumes
        when there is space.
        """
        isr_changes, resignation, fetchers = self._isr_changes, self._resignation, self._fetchers
        if isr_changes is None or resignation is None or fetchers is None:
            return
        full = self._logs_on_full_disks()
        directories = self._host.logs.directories
        if not full and all(
            directory.is_online and not directory.state.damaged for directory in directories
        ):
            return
        for leader in self._host.partitions:
            if isinstance(leader, Leader):
                if self._check_leader_log(leader, isr_changes):
                    isr_changes.resign(leader)
                elif f"{leader.topic}-{leader.index}" in full:
                    self._hand_over_leadership(leader, isr_changes)
        replicas = self._host.partitions.replicas
        followers = [each for each in replicas if isinstance(each, Follower)]
        failed = [each for each in followers if self._check_follower_log(each, fetchers)]
        resignation.leave(
            [*failed, *(each for each in followers if self._may_resign_for_space(each, full))]
        )
        for follower in failed:
            self._copy_again_if_damaged(follower, fetchers)

    def _logs_on_full_disks(self) -> set[str]:
        """The names of the logs on disks that have been full for a while."""
        refusals = {
            directory.path: {
                name: directory.logs[name].refusals
                for name in tuple(directory.state.full)
                if name in directory.logs
            }
            for directory in self._host.logs.directories
        }
        return self._full_disks.update(refusals, self._host.clock.monotonic())

    @staticmethod
    def _hand_over_leadership(leader: Leader, isr_changes: AlterPartitionManager) -> None:
        """Resigns where there is no disk space: another replica leads, and this one follows.

        Never replaces another change that may be pending: this leader still commits.
        """
        if leader.pending is None and isr_changes.can_spare(leader):
            log.warning(
                "disk full: resigning as leader, so that another replica leads",
                extra={"topic": leader.topic, "partition": leader.index},
            )
            isr_changes.resign(leader)

    def _may_resign_for_space(self, follower: Follower, full: set[str]) -> bool:
        """Whether the log has no disk space and its leader need not wait for it."""
        return f"{follower.topic}-{follower.index}" in full and self._can_be_spared(follower)

    def _check_leader_log(self, leader: Leader, isr_changes: AlterPartitionManager) -> bool:
        """Whether the log has failed. Takes a damaged log offline if other replicas can take over.

        If those are gone before they take over, its valid part is served again: no other replica
        could serve more, and the others catch up from it when they return.
        """
        found = self._host.logs.get(leader.topic, leader.index)
        if found is None or found.directory.failure is not None:
            return True
        if found.is_damaged:
            if isr_changes.can_spare(leader):
                # Before the request: a leader that has resigned commits nothing more.
                found.take_damaged_offline()
            elif leader.pending is None and found.serve_undamaged_records():
                log.warning(
                    "serving the intact part of a damaged log: no other replica can take over",
                    extra={"log": found.name},
                )
                leader.resume()
                if leader.topic in INTERNAL_TOPICS:  # a shard that did not load tries again
                    self._host.coordinators.role_changed(leader.topic, leader.index)
        return found.failure is not None

    def _check_follower_log(self, follower: Follower, fetchers: ReplicaFetcherManager) -> bool:
        """Whether the log cannot be used; a replica without a log may get a working disk.

        Takes a damaged log offline, and first stops copying to it. Otherwise a late fetch could
        make its leader count it as in sync again, with records that are truncated by then.
        """
        found = self._host.logs.get(follower.topic, follower.index)
        if found is None or not (found.is_damaged or found.directory.failure is not None):
            return False
        if found.directory.failure is not None:
            return True
        if found.failure is None:
            if not self._can_be_spared(follower):
                return False
            found.take_damaged_offline()
            fetchers.remove_and_confirm(follower)
        return fetchers.is_removal_confirmed(follower)

    def _partition(self, follower: Follower) -> Partition | None:
        topic = self._host.metadata.image.topics_by_id.get(follower.topic_id)
        return topic.partition(follower.index) if topic is not None else None

    def _can_be_spared(self, follower: Follower) -> bool:
        partition = self._partition(follower)
        hosted = self._host.partitions.by_id.get(follower.topic_id)
        if partition is None or hosted is None:
            return False
        others = set(partition.isr) - {self._host.node_id}
        return len(others) >= max(1, hosted.config.min_insync_replicas)

    def _copy_again_if_damaged(self, follower: Follower, fetchers: ReplicaFetcherManager) -> None:
        """Truncates a damaged log and copies it again, if it is in neither the ISR nor the ELR."""
        damaged = self._host.logs.get(follower.topic, follower.index)
        if damaged is None or not damaged.is_damaged or damaged.directory.failure is not None:
            return
        partition = self._partition(follower)
        node_id = self._host.node_id
        if (
            partition is None
            or partition.leader in (NO_LEADER, node_id)
            or node_id in partition.isr
            or node_id in partition.eligible_leaders
        ):
            return
        log.warning(
            "truncating a damaged log to its intact part; the leader's copy replaces the rest",
            extra={"log": damaged.name, "leader": partition.leader},
        )
        damaged.truncate_damaged()
        follower.high_watermark = min(follower.high_watermark, damaged.log_end_offset)
        fetchers.follow(follower)

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
