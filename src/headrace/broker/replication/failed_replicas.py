"""Replicas that this broker cannot serve: full disks, failed log directories, damaged logs.

A replica in a failed log directory or with a damaged log is given up: another replica takes over
the leadership, and no leader waits for the replica here. A damaged log is then truncated to its
valid part, and the rest is copied again.

A replica on a full disk is given up only where enough others are in sync: its leadership is handed
over, or it leaves the ISR. Copying resumes when there is space.
"""

import logging
from collections.abc import Sequence
from typing import Protocol

from headrace.broker.metadata.standalone_metadata import MetadataView
from headrace.broker.partitions.partition_table import PartitionTable
from headrace.broker.replication.alter_partition_manager import AlterPartitionManager
from headrace.broker.replication.full_disk_detector import FullDiskDetector
from headrace.broker.replication.isr_resignation import IsrResignation, follower_partition
from headrace.broker.replication.replica_fetcher_manager import ReplicaFetcherManager
from headrace.clock import Clock
from headrace.cluster.topology import INTERNAL_TOPICS, NO_LEADER
from headrace.log_event import examples
from headrace.replication.follower import Follower
from headrace.replication.leader import Leader
from headrace.storage.directories.log_manager import LogManager

log = logging.getLogger(__package__)


class CoordinatorRoles(Protocol):
    """The coordinators of this broker, whose shards follow the leadership of partitions."""

    def role_changed(self, topic: str, index: int) -> None: ...


class FailedReplicasHost(Protocol):
    """The part of the broker that the handling of failed replicas uses."""

    clock: Clock
    node_id: int
    partitions: PartitionTable

    @property
    def logs(self) -> LogManager: ...

    @property
    def metadata(self) -> MetadataView: ...

    @property
    def coordinators(self) -> CoordinatorRoles: ...


class FailedReplicas:
    """Resigns from the replicas of this broker that have no usable log or no disk space."""

    def __init__(
        self,
        host: FailedReplicasHost,
        isr_changes: AlterPartitionManager,
        resignation: IsrResignation,
        fetchers: ReplicaFetcherManager,
    ) -> None:
        self._host = host
        self._isr_changes = isr_changes
        self._resignation = resignation
        self._fetchers = fetchers
        self._full_disks = FullDiskDetector()

    def resign(self) -> None:
        """Gives up leadership and ISR membership of these replicas, as the module docstring says.

        The broker calls this again and again: one call does what is possible now.
        """
        full = self._logs_on_full_disks()
        directories = self._host.logs.directories
        if not full and all(
            directory.is_online and not directory.state.damaged for directory in directories
        ):
            return
        no_log: list[str] = []
        no_space: list[str] = []
        for leader in self._host.partitions:
            if isinstance(leader, Leader):
                name = f"{leader.topic}-{leader.index}"
                if self._check_leader_log(leader):
                    if self._isr_changes.resign(leader):
                        no_log.append(name)
                elif name in full and self._hand_over_leadership(leader):
                    no_space.append(name)
        self._log_resignations("its log cannot be used", no_log)
        self._log_resignations("its disk is full", no_space)
        replicas = self._host.partitions.replicas
        followers = [each for each in replicas if isinstance(each, Follower)]
        failed = [each for each in followers if self._check_follower_log(each)]
        self._resignation.leave(
            [*failed, *(each for each in followers if self._may_resign_for_space(each, full))]
        )
        for follower in failed:
            self._copy_again_if_damaged(follower)

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

    def _hand_over_leadership(self, leader: Leader) -> bool:
        """Resigns where there is no disk space: another replica leads, and this one follows.

        Never replaces another change that may be pending: this leader still commits.
        """
        may_resign = leader.pending is None and self._isr_changes.can_spare(leader)
        return may_resign and self._isr_changes.resign(leader)

    def _log_resignations(self, cause: str, names: Sequence[str]) -> None:
        if names:
            log.warning(
                "this broker hands over the leadership of partitions",
                extra={
                    "broker": self._host.node_id,
                    "cause": cause,
                    "partitions": len(names),
                    "examples": examples(names),
                },
            )

    def _may_resign_for_space(self, follower: Follower, full: set[str]) -> bool:
        """Whether the log has no disk space and its leader need not wait for it."""
        return f"{follower.topic}-{follower.index}" in full and self._can_be_spared(follower)

    def _check_leader_log(self, leader: Leader) -> bool:
        """Whether the log has failed. Takes a damaged log offline if other replicas can take over.

        If those are gone before they take over, its valid part is served again: no other replica
        could serve more, and the others catch up from it when they return.
        """
        found = self._host.logs.get(leader.topic, leader.index)
        if found is None or found.directory.failure is not None:
            return True
        if found.is_damaged:
            if self._isr_changes.can_spare(leader):
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

    def _check_follower_log(self, follower: Follower) -> bool:
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
            self._fetchers.remove_and_confirm(follower)
        return self._fetchers.is_removal_confirmed(follower)

    def _can_be_spared(self, follower: Follower) -> bool:
        partition = follower_partition(self._host.metadata.image, follower)
        hosted = self._host.partitions.by_id.get(follower.topic_id)
        if partition is None or hosted is None:
            return False
        others = set(partition.isr) - {self._host.node_id}
        return len(others) >= max(1, hosted.config.min_insync_replicas)

    def _copy_again_if_damaged(self, follower: Follower) -> None:
        """Truncates a damaged log and copies it again, if it is in neither the ISR nor the ELR."""
        damaged = self._host.logs.get(follower.topic, follower.index)
        if damaged is None or not damaged.is_damaged or damaged.directory.failure is not None:
            return
        partition = follower_partition(self._host.metadata.image, follower)
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
        self._fetchers.follow(follower)
