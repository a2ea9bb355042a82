"""This broker's role in each partition: leader, follower or none.

Guarantees: a role changes in one step, without an await between the old and the new. Requests that
wait on a role that ends get NOT_LEADER_OR_FOLLOWER. The new role starts with the high watermark of
the old one. Metadata that is older than a role changes nothing.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress

from headrace.broker.partitions.partition_table import HostedTopic, PartitionTable
from headrace.clock import Clock
from headrace.cluster.topology import Partition
from headrace.replication.follower import Follower
from headrace.replication.leader import Leader
from headrace.replication.sole_leader import SoleLeader
from headrace.storage.directories.log_manager import LogManager
from headrace.storage.errors import StorageError

Role = SoleLeader | Follower
RoleChanged = Callable[[str, int, Role | None, Role | None], None]
"""Called with topic, partition, the role before and after (the same object in a new epoch)."""


class ReplicaRoles:
    """Assigns this broker's role in each partition, from the metadata."""

    def __init__(
        self,
        node_id: int,
        table: PartitionTable,
        logs: LogManager,
        clock: Clock,
        listeners: Sequence[RoleChanged],
    ) -> None:
        self._node_id = node_id
        self._table = table
        self._logs = logs
        self._clock = clock
        self._listeners = listeners

    def assign_role(self, hosted: HostedTopic, index: int, partition: Partition) -> Role | None:
        """Assigns the role that the metadata has for this partition; returns it."""
        before = hosted.replica(index)
        if before is not None and partition.leader_epoch < before.epoch:
            return before  # older than this broker's metadata
        after: Role | None
        if partition.leader == self._node_id:
            after = self._become_leader(hosted, index, partition, before)
        elif self._node_id in partition.replicas:
            after = self._become_follower(hosted, index, partition, before)
        else:
            after = None
        if after is not before:
            hosted.put(index, after)
            if before is not None:
                before.close()
            self.notify_listeners(hosted.name, index, before, after)
        return after

    def notify_listeners(
        self, topic: str, index: int, before: Role | None, after: Role | None
    ) -> None:
        for listener in self._listeners:
            listener(topic, index, before, after)

    def _become_leader(
        self, hosted: HostedTopic, index: int, partition: Partition, before: Role | None
    ) -> SoleLeader:
        now = self._clock.monotonic()
        epoch = partition.leader_epoch
        if isinstance(before, Leader):
            if epoch > before.epoch:
                with suppress(StorageError):  # offline, which is already logged
                    before.begin_leader_epoch(partition, now)
                self.notify_listeners(hosted.name, index, before, before)
            else:
                before.partition_changed(partition, now)
            return before
        if len(partition.replicas) == 1:
            if not isinstance(before, SoleLeader):
                return SoleLeader(hosted.name, hosted.topic_id, index, epoch, self._table.open)
            if epoch > before.epoch:
                before.epoch = epoch
                self.notify_listeners(hosted.name, index, before, before)
            return before
        return Leader(
            hosted.name,
            hosted.topic_id,
            index,
            partition,
            self._table.open,
            broker_id=self._node_id,
            min_isr=hosted.config.min_insync_replicas,
            high_watermark=self._initial_high_watermark(hosted, index, before),
            now=now,
        )

    def _become_follower(
        self, hosted: HostedTopic, index: int, partition: Partition, before: Role | None
    ) -> Role:
        epoch = partition.leader_epoch
        if isinstance(before, Follower):
            if epoch > before.epoch or before.leader_id != partition.leader:
                before.follow(partition.leader, epoch)
                self.notify_listeners(hosted.name, index, before, before)
            return before
        return Follower(
            hosted.name,
            hosted.topic_id,
            index,
            epoch,
            self._table.open,
            leader_id=partition.leader,
            high_watermark=self._initial_high_watermark(hosted, index, before),
        )

    def _initial_high_watermark(self, hosted: HostedTopic, index: int, before: Role | None) -> int:
        if before is not None and before.known_watermark >= 0:
            return before.known_watermark
        if isinstance(before, SoleLeader):
            # The role before was the only replica: all its records are committed.
            found = self._logs.get(hosted.name, index)
            return 0 if found is None else found.log_end_offset
        return self._logs.high_watermark(hosted.name, index) or 0
