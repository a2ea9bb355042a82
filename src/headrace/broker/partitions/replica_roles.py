"""This broker's role in each partition: it leads, it follows, or it has no part.

Guarantees: a role changes in one step, without a wait between the old and the new; whoever waits
on a role that ends is answered NOT_LEADER_OR_FOLLOWER; the watermark that the old role knew is
where the new one begins. Metadata that is older than a role changes nothing.
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
"""Told of topic, partition, the role before and the role after; the same one in a new epoch."""


class ReplicaRoles:
    """Gives each partition the role that the metadata asks for."""

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

    def take(self, hosted: HostedTopic, index: int, partition: Partition) -> Role | None:
        """The role in this partition, as it is now."""
        before = hosted.replica(index)
        if before is not None and partition.leader_epoch < before.epoch:
            return before  # older than what this broker knows
        after: Role | None
        if partition.leader == self._node_id:
            after = self._lead(hosted, index, partition, before)
        elif self._node_id in partition.replicas:
            after = self._follow(hosted, index, partition, before)
        else:
            after = None
        if after is not before:
            hosted.put(index, after)
            if before is not None:
                before.close()
            self.tell(hosted.name, index, before, after)
        return after

    def tell(self, topic: str, index: int, before: Role | None, after: Role | None) -> None:
        for listener in self._listeners:
            listener(topic, index, before, after)

    def _lead(
        self, hosted: HostedTopic, index: int, partition: Partition, before: Role | None
    ) -> SoleLeader:
        now = self._clock.monotonic()
        epoch = partition.leader_epoch
        if isinstance(before, Leader):
            if epoch > before.epoch:
                with suppress(StorageError):  # the log is offline and has said so
                    before.lead_on(partition, now)
                self.tell(hosted.name, index, before, before)
            else:
                before.partition_changed(partition, now)
            return before
        if len(partition.replicas) == 1:
            if not isinstance(before, SoleLeader):
                return SoleLeader(hosted.name, hosted.topic_id, index, epoch, self._table.open)
            if epoch > before.epoch:
                before.epoch = epoch
                self.tell(hosted.name, index, before, before)
            return before
        return Leader(
            hosted.name,
            hosted.topic_id,
            index,
            partition,
            self._table.open,
            broker_id=self._node_id,
            min_isr=hosted.config.min_insync_replicas,
            high_watermark=self._watermark(hosted, index, before),
            now=now,
        )

    def _follow(
        self, hosted: HostedTopic, index: int, partition: Partition, before: Role | None
    ) -> Role:
        epoch = partition.leader_epoch
        if isinstance(before, Follower):
            if epoch > before.epoch or before.leader_id != partition.leader:
                before.follow(partition.leader, epoch)
                self.tell(hosted.name, index, before, before)
            return before
        return Follower(
            hosted.name,
            hosted.topic_id,
            index,
            epoch,
            self._table.open,
            leader_id=partition.leader,
            high_watermark=self._watermark(hosted, index, before),
        )

    def _watermark(self, hosted: HostedTopic, index: int, before: Role | None) -> int:
        if before is not None and before.known_watermark >= 0:
            return before.known_watermark
        if isinstance(before, SoleLeader):
            # It led alone and was never asked: all that it holds is committed.
            found = self._logs.get(hosted.name, index)
            return 0 if found is None else found.log_end_offset
        return self._logs.high_watermark(hosted.name, index) or 0
