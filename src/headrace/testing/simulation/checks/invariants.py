"""Invariants of a cluster, checked after every loop iteration of every broker.

- One broker leads in an epoch, and epochs never decrease.
- A leader's high watermark never decreases while it leads.
- Committed records stay: every leader has them, the same batches at the same offsets.
- Every in-sync replica of a leader has the committed records, and has confirmed them in a fetch.
  Nothing is committed with fewer in-sync replicas than the topic requires.
- A replica that joins the in-sync set has the committed records, in its current incarnation.
- If a topic flushes each message, its committed records are on the disks of all in-sync replicas.
- A leader never counts a follower beyond the end of the follower's log.
- Nothing is acknowledged to a producer before it is committed.
- The metadata of a broker never goes back.

A broker has tens of thousands of loop iterations, and most of them change nothing here. So a check
compares first: it evaluates a rule for a leader or a follower again only after a change of its
inputs, on this broker since its last check or on another (`_replica_changes` counts the latter).
"""

from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from headrace.broker.node import Broker
from headrace.broker.partitions.replica_roles import Role
from headrace.replication.follower import Follower
from headrace.replication.leader import Leader
from headrace.replication.sole_leader import SoleLeader
from headrace.storage.errors import StorageError
from headrace.storage.log.log import Log
from headrace.testing.simulation.batches import READ_BYTES, Batch, batches_of, compare
from headrace.testing.simulation.brokers import BrokerProcess
from headrace.testing.simulation.checks.checked_replicas import CheckedFollower, CheckedLeader
from headrace.testing.simulation.checks.committed_batches import (
    CommittedBatches,
    CommittedLogs,
    PartitionId,
)
from headrace.testing.simulation.checks.history import NO_OFFSET, Place, Violation
from headrace.testing.simulation.checks.metadata_invariants import MetadataChecker
from headrace.testing.simulation.clients.workload import records_in

WATERMARK_GROWS: Final = "the high watermark never decreases"
COMMITTED_STAYS: Final = "the leader has all committed records"
IN_SYNC: Final = "in-sync replicas have all committed records"
COUNTED: Final = "a leader counts only what its followers have"
ENOUGH_IN_SYNC: Final = "nothing is committed with too few in-sync replicas"
ON_DISK: Final = "records of a topic that flushes each message are on disk"
FENCED: Final = "a replaced leader commits nothing"
ACKNOWLEDGED: Final = "acknowledged records are committed"


class InvariantChecker:
    """Checks brokers from outside, and raises `Violation` at once."""

    def __init__(
        self,
        brokers: Mapping[int, BrokerProcess],
        *,
        compacted: Container[str] = (),
        flushed: Container[str] = (),
    ) -> None:
        self._brokers = brokers
        self._flushed = flushed
        self._committed = CommittedLogs(compacted)
        self._metadata = MetadataChecker(brokers, self._committed)
        self._by_name: dict[Place, PartitionId] = {}
        self._led: dict[tuple[Place, int], int] = {}
        self._checked_leaders: dict[SoleLeader, CheckedLeader] = {}
        self._checked_followers: dict[Follower, CheckedFollower] = {}
        # Changes of followers: to other epochs and incarnations, and truncations.
        self._replica_changes = 0
        self._broker_epochs: dict[str, int] = {}

    def check_broker(self, broker: BrokerProcess) -> None:
        """Checks a broker after one of its loop iterations."""
        node, incarnation = broker.node, broker.process.incarnation
        if node is None or incarnation is None:
            return
        name, image = incarnation.name, node.metadata.image
        if name not in self._metadata.images:
            node.on_roles_changed(partial(self._role_changed, name, node))
        if image is not self._metadata.images.get(name):
            self._metadata.check_image(name, image)
        broker_epoch = node.broker_epoch
        registered_again = broker_epoch != self._broker_epochs.get(name)
        if registered_again:
            self._broker_epochs[name] = broker_epoch
            self._replica_changes += 1
        checked = self._checked_leaders.get
        for topic in node.partitions.by_name.values():
            for leader in topic.leaders:
                if leader is None or not leader.is_open or leader.closed:
                    continue
                seen = checked(leader)
                if seen is not None and seen.is_unchanged(leader, self._replica_changes):
                    seen.enough = leader.enough_in_sync
                else:
                    self._check_leader(name, node, leader)
            for follower in topic.followers.values():
                if follower.is_open and not follower.closed:
                    self._check_follower(name, node, follower, registered_again=registered_again)

    def _role_changed(
        self,
        incarnation: str,
        node: Broker,
        _topic: str,
        _index: int,
        before: Role | None,
        _: object,
    ) -> None:
        """Handles a role change: a leader may commit with a smaller ISR and be replaced in one
        iteration."""
        if isinstance(before, SoleLeader) and before.closed and before.is_open:
            self._check_leader(incarnation, node, before)

    def acknowledged(self, place: Place, values: Sequence[bytes], base_offset: int) -> None:
        """Checks records that were acknowledged to a producer."""
        if base_offset == NO_OFFSET:
            return
        known = self._by_name.get(place)
        committed = self._committed.by_partition[known].values if known is not None else {}
        for offset, value in enumerate(values, start=base_offset):
            if committed.get(offset) != value:
                raise Violation(
                    ACKNOWLEDGED,
                    f"{place}: {value!r} at {offset}, where {committed.get(offset)!r} is committed",
                )

    def led(self, place: Place, broker_id: int) -> int:
        """The latest epoch in which the broker led the partition; -1 if it never did."""
        return self._led.get((place, broker_id), -1)

    def _check_leader(self, incarnation: str, node: Broker, leader: SoleLeader) -> None:
        seen = self._checked_leaders.get(leader)
        watermark = leader.high_watermark
        if isinstance(leader, Leader):
            self._check_follower_counts(incarnation, leader)
        if seen is None or seen.epoch != leader.epoch:
            place = f"{incarnation}: {leader.topic}-{leader.index}"
            self._metadata.check_leadership(
                place, (leader.topic_id, leader.index, leader.epoch), node.node_id
            )
            self._led[Place(leader.topic, leader.index), node.node_id] = leader.epoch
            counts = seen.counts if seen is not None else []
            seen = self._checked_leaders[leader] = CheckedLeader(
                leader.epoch, watermark, leader.enough_in_sync, _partition_epoch(leader)
            )
            seen.counts = counts
        if not seen.verified or seen.watermark != watermark:
            try:
                self._check_changed_leader(incarnation, leader, seen)
            except StorageError:
                return  # its disk has failed; this leader answers no request
        seen.store(leader, self._replica_changes)
        seen.watermark, seen.enough = watermark, leader.enough_in_sync
        seen.partition_epoch = _partition_epoch(leader)

    def _check_changed_leader(
        self, incarnation: str, leader: SoleLeader, seen: CheckedLeader
    ) -> None:
        key = (leader.topic_id, leader.index)
        self._by_name[Place(leader.topic, leader.index)] = key
        committed = self._committed.by_partition.setdefault(key, CommittedBatches())
        where = f"{incarnation}: {leader.topic}-{leader.index} epoch {leader.epoch}"
        watermark = leader.high_watermark
        if not seen.verified:
            self._committed.compare(
                where, COMMITTED_STAYS, committed.before(leader.epoch), leader.log
            )
            seen.verified = True
        if watermark < seen.watermark:
            raise Violation(WATERMARK_GROWS, f"{where}: from {seen.watermark} to {watermark}")
        if watermark > seen.watermark:
            # A leader that was replaced, and does not know it yet, commits nothing either.
            again = committed.between(seen.watermark, watermark)
            self._committed.compare(where, COMMITTED_STAYS, again, leader.log)
        if watermark <= committed.end:
            return
        if committed.epochs and leader.epoch < committed.epochs[-1]:
            raise Violation(FENCED, f"{where}: {watermark}, after epoch {committed.epochs[-1]}")
        # After two ISR changes in one iteration, there may have been enough replicas in between.
        changes = _partition_epoch(leader) - seen.partition_epoch
        too_few = not (seen.enough or leader.enough_in_sync or changes > 1)
        if watermark > seen.watermark and too_few:
            raise Violation(ENOUGH_IN_SYNC, f"{where}: {seen.watermark} to {watermark}")
        added = batches_of(leader.log, committed.end, watermark)
        if added and added[0].base_offset != committed.end:
            raise Violation(
                COMMITTED_STAYS, f"{where}: {added[0]} begins inside of {committed.batches[-1]}"
            )
        if isinstance(leader, Leader):
            # An earlier leader committed the rest, in the loop iteration in which it ended.
            if watermark > leader._known_watermark:
                self._check_confirmations(where, leader, seen)
                self._check_flushed(where, leader.log, watermark)
            self._check_follower_logs(where, leader, seen, added)
        data = leader.log.read(committed.end, max_bytes=READ_BYTES, max_offset=watermark).data
        committed.values.update(
            (offset, value) for offset, value in records_in(data) if offset >= committed.end
        )
        committed.batches.extend(added)
        committed.epochs.extend([leader.epoch] * len(added))

    def _check_follower(
        self, incarnation: str, node: Broker, follower: Follower, *, registered_again: bool
    ) -> None:
        """A replica that is in sync when an epoch begins has all records committed before, and
        keeps them.

        Uses the metadata of the follower itself, which has the follower's current incarnation.
        """
        log_end, image = follower.log.log_end_offset, node.metadata.image
        checked = self._checked_followers.get(follower)
        if checked is None or checked.epoch != follower.epoch:
            checked = self._checked_followers[follower] = CheckedFollower(
                follower.epoch, log_end, image
            )
            self._replica_changes += 1
        elif log_end < checked.log_end:
            self._replica_changes += 1
        checked.log_end = log_end
        committed = checked.committed
        if committed is None:
            committed = self._committed.by_partition.get((follower.topic_id, follower.index))
            if committed is None:
                return
            checked.committed, registered_again = committed, True
        if (
            registered_again
            or checked.image is not image
            or checked.batches != len(committed.batches)
        ):
            checked.image, checked.batches = image, len(committed.batches)
            checked.least_end = 0
            if _is_in_sync(node, follower):
                checked.least_end = committed.end_before(follower.epoch)
        if log_end < checked.least_end:
            where = f"{incarnation}: {follower.topic}-{follower.index} epoch {follower.epoch}"
            raise Violation(IN_SYNC, f"{where}: ends at {log_end}, not {checked.least_end}")

    def _check_follower_counts(self, incarnation: str, leader: Leader) -> None:
        """A follower truncates only as its leader says, and the leader does not count it then."""
        for id_, progress in leader.progress.items():
            node = self._brokers[id_].node if id_ in self._brokers else None
            if node is None or progress.broker_epoch != node.broker_epoch:
                continue
            topic = node.partitions.by_id.get(leader.topic_id)
            replica = topic.followers.get(leader.index) if topic is not None else None
            if replica is None or not replica.is_open or replica.epoch != leader.epoch:
                continue
            if progress.log_end > replica.log.log_end_offset:
                where = f"{incarnation}: {leader.topic}-{leader.index} epoch {leader.epoch}"
                end = replica.log.log_end_offset
                raise Violation(COUNTED, f"{where}: {id_} at {progress.log_end}, it ends at {end}")

    @staticmethod
    def _check_confirmations(where: str, leader: Leader, seen: CheckedLeader) -> None:
        """Nothing is committed before all in-sync replicas have confirmed it in their fetches."""
        for id_ in leader.partition.isr:
            progress = leader.progress.get(id_)
            if progress is None or progress.log_end >= leader.high_watermark:
                continue
            if not seen.fetched_in_another_incarnation(progress):
                raise Violation(
                    IN_SYNC, f"{where}: {leader.high_watermark}, {id_} is at {progress.log_end}"
                )

    def _check_follower_logs(
        self, where: str, leader: Leader, seen: CheckedLeader, added: Sequence[Batch]
    ) -> None:
        for id_ in leader.partition.isr:
            node = self._brokers[id_].node if id_ in self._brokers else None
            if node is None:
                continue
            replica = node.partitions.replica(leader.topic, leader.index)
            progress = leader.progress.get(id_)
            if (
                not isinstance(replica, Follower)
                or replica.epoch != leader.epoch
                or not replica.is_open
                or progress is None
                or progress.broker_epoch != node.broker_epoch
                or seen.fetched_in_another_incarnation(progress)
            ):
                continue
            with suppress(StorageError):  # the follower is stopping, or its disk has failed
                compare(f"{where}, follower {id_}", IN_SYNC, added, replica.log)
                if added:
                    end = added[-1].next_offset
                    self._check_flushed(f"{where}, follower {id_}", replica.log, end)

    def _check_flushed(self, where: str, log: Log, end: int) -> None:
        if log.topic in self._flushed and log.recovery_point < end:
            raise Violation(ON_DISK, f"{where}: {end}, flushed up to {log.recovery_point}")


def _partition_epoch(leader: SoleLeader) -> int:
    return leader.partition.partition_epoch if isinstance(leader, Leader) else 0


def _is_in_sync(node: Broker, follower: Follower) -> bool:
    """Whether the replica is in sync, according to the metadata of its own broker."""
    image = node.metadata.image
    topic, me = image.topics_by_id.get(follower.topic_id), image.brokers.get(node.node_id)
    partition = topic.partition(follower.index) if topic is not None else None
    return (
        partition is not None
        and partition.leader_epoch == follower.epoch
        and node.node_id in partition.isr
        and me is not None
        and me.epoch == node.broker_epoch
    )
