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
inputs, on this broker since its last check or on another (`_moves` counts the latter).
"""

from bisect import bisect_left
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from headrace.broker.node import Broker
from headrace.broker.partitions.replica_roles import Role
from headrace.cluster.image import MetadataImage
from headrace.cluster.topology import NO_LEADER, Partition, Topic
from headrace.cluster.topology import BrokerRegistration as RegisteredBroker
from headrace.replication.follower import Follower
from headrace.replication.follower_progress import UNKNOWN, FollowerProgress
from headrace.replication.leader import Leader
from headrace.replication.sole_leader import SoleLeader
from headrace.storage.errors import StorageError
from headrace.storage.log.log import Log
from headrace.testing.simulation.batches import READ_BYTES, Batch, batches_of, compare
from headrace.testing.simulation.brokers import BrokerProcess
from headrace.testing.simulation.history import NO_OFFSET, Place, Violation
from headrace.testing.simulation.workload import records_in

ONE_LEADER: Final = "one leader in each epoch"
EPOCHS_GROW: Final = "epochs never decrease"
METADATA_GROWS: Final = "metadata never goes back"
WATERMARK_GROWS: Final = "the high watermark never decreases"
COMMITTED_STAYS: Final = "the leader has all committed records"
IN_SYNC: Final = "in-sync replicas have all committed records"
JOINS: Final = "a replica that joins the in-sync set has all committed records"
COUNTED: Final = "a leader counts only what its followers have"
REPLICAS_ALIKE: Final = "replicas are the same after all faults have ended"
ENOUGH_IN_SYNC: Final = "nothing is committed with too few in-sync replicas"
ON_DISK: Final = "records of a topic that flushes each message are on disk"
FENCED: Final = "a replaced leader commits nothing"
ACKNOWLEDGED: Final = "acknowledged records are committed"


@dataclass(slots=True)
class CommittedRecord:
    """The batches that were ever below a high watermark of one partition."""

    batches: list[Batch] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)  # the epochs of the leaders that committed them
    values: dict[int, bytes] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return self.batches[-1].next_offset if self.batches else 0

    def before(self, epoch: int) -> list[Batch]:
        """The batches that leaders of earlier epochs committed; a replaced leader need not have
        later ones."""
        return self.batches[: bisect_left(self.epochs, epoch)]

    def end_before(self, epoch: int) -> int:
        count = bisect_left(self.epochs, epoch)
        return self.batches[count - 1].next_offset if count else 0

    def between(self, start: int, end: int) -> list[Batch]:
        return [
            each for each in self.batches if each.base_offset >= start and each.base_offset < end
        ]


@dataclass(slots=True)
class _Seen:
    """The state of a leader at the last check."""

    epoch: int
    watermark: int
    enough: bool
    partition_epoch: int
    verified: bool = False
    moves: int = -1  # on other brokers
    partition: Partition | None = None
    counts: list[tuple[FollowerProgress, int, int]] = field(default_factory=list)

    def is_as_it_was(self, leader: SoleLeader, moves: int) -> bool:
        """Whether no rule can have another result than at the last check."""
        if (
            self.moves != moves
            or not self.verified
            or self.watermark != leader.high_watermark
            or self.epoch != leader.epoch
        ):
            return False
        if isinstance(leader, Leader):
            if leader.partition is not self.partition:
                return False
            for progress, log_end, broker_epoch in self.counts:
                if progress.log_end != log_end or progress.broker_epoch != broker_epoch:
                    return False
        self.enough = leader.enough_in_sync
        return True

    def heard_another_incarnation(self, follower: FollowerProgress) -> bool:
        """Whether an earlier incarnation of the follower had sent the last fetch at that time.

        In the loop iteration since, it may have been counted with more than the current one has.
        """
        for progress, _, broker_epoch in self.counts:
            if progress is follower:
                return broker_epoch not in (UNKNOWN, follower.broker_epoch)
        return False

    def note(self, leader: SoleLeader, moves: int) -> None:
        """Stores the state of this leader after a check."""
        self.moves = moves
        if isinstance(leader, Leader):
            self.partition = leader.partition
            self.counts = [
                (each, each.log_end, each.broker_epoch) for each in leader.progress.values()
            ]


@dataclass(slots=True)
class _Mark:
    """The state of a follower at the last check."""

    epoch: int
    log_end: int
    image: MetadataImage
    committed: CommittedRecord | None = None
    batches: int = 0  # committed at that time
    least_end: int = 0  # the log end that it must have


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
        self._compacted = compacted
        self._flushed = flushed
        self._committed: dict[tuple[bytes, int], CommittedRecord] = {}
        self._by_name: dict[Place, tuple[bytes, int]] = {}
        self._leaders: dict[tuple[bytes, int, int], int] = {}
        self._led: dict[tuple[Place, int], int] = {}
        self._seen: dict[SoleLeader, _Seen] = {}
        self._marks: dict[Follower, _Mark] = {}
        self._moves = 0  # changes of followers: to other epochs and incarnations, and truncations
        self._images: dict[str, MetadataImage] = {}
        self._broker_epochs: dict[str, int] = {}
        self._newest: dict[tuple[bytes, int], Partition] = {}

    def check_broker(self, broker: BrokerProcess) -> None:
        """Checks a broker after one of its loop iterations."""
        node, incarnation = broker.node, broker.process.incarnation
        if node is None or incarnation is None:
            return
        name, image = incarnation.name, node.metadata.image
        if name not in self._images:
            node.on_roles_changed(partial(self._role_changed, name, node))
        if image is not self._images.get(name):
            self._check_image(name, image)
        broker_epoch = node.broker_epoch
        moved = broker_epoch != self._broker_epochs.get(name)
        if moved:
            self._broker_epochs[name] = broker_epoch
            self._moves += 1
        seen_at = self._seen.get
        for topic in node.partitions.by_name.values():
            for leader in topic.leaders:
                if leader is None or not leader.is_open or leader.closed:
                    continue
                seen = seen_at(leader)
                if seen is None or not seen.is_as_it_was(leader, self._moves):
                    self._check_leader(name, node, leader)
            for follower in topic.followers.values():
                if follower.is_open and not follower.closed:
                    self._check_follower(name, node, follower, moved=moved)

    def _role_changed(
        self,
        incarnation: str,
        node: Broker,
        _topic: str,
        _index: int,
        before: Role | None,
        _: object,
    ) -> None:
        """In one loop iteration a leader may commit with a smaller ISR, and learn its successor."""
        if isinstance(before, SoleLeader) and before.closed and before.is_open:
            self._check_leader(incarnation, node, before)

    def acknowledged(self, place: Place, values: Sequence[bytes], base_offset: int) -> None:
        """Checks records that were acknowledged to a producer."""
        if base_offset == NO_OFFSET:
            return
        known = self._by_name.get(place)
        committed = self._committed[known].values if known is not None else {}
        for offset, value in enumerate(values, start=base_offset):
            if committed.get(offset) != value:
                raise Violation(
                    ACKNOWLEDGED,
                    f"{place}: {value!r} at {offset}, where {committed.get(offset)!r} is committed",
                )

    # --- metadata -------------------------------------------------------------------------------

    def led(self, place: Place, broker_id: int) -> int:
        """The latest epoch in which the broker led the partition; -1 if it never did."""
        return self._led.get((place, broker_id), -1)

    def _check_image(self, incarnation: str, image: MetadataImage) -> None:
        before = self._images.get(incarnation)
        self._images[incarnation] = image
        now = (image.controller_epoch, image.version)
        if before is not None and now < (before.controller_epoch, before.version):
            then = (before.controller_epoch, before.version)
            raise Violation(METADATA_GROWS, f"{incarnation}: (epoch, version) from {then} to {now}")
        for topic in image.topics.values():
            known = before.topics.get(topic.name) if before is not None else None
            if known is topic:
                continue
            same = known is not None and known.topic_id == topic.topic_id
            for index, partition in enumerate(topic.partitions):
                earlier = known.partition(index) if known is not None and same else None
                self._check_partition(
                    incarnation, topic.topic_id, topic.name, index, partition, earlier
                )
                self._check_joining_replicas(before, image, topic, index, partition)

    def _check_partition(
        self,
        incarnation: str,
        topic_id: bytes,
        name: str,
        index: int,
        now: Partition,
        before: Partition | None,
    ) -> None:
        where = f"{incarnation}: {name}-{index}"
        if before is not None and (
            now.leader_epoch < before.leader_epoch or now.partition_epoch < before.partition_epoch
        ):
            raise Violation(EPOCHS_GROW, f"{where}: from {before} to {now}")
        if now.leader != NO_LEADER:
            self._leads(where, (topic_id, index, now.leader_epoch), now.leader)

    def _check_joining_replicas(
        self,
        earlier: MetadataImage | None,
        image: MetadataImage,
        topic: Topic,
        index: int,
        now: Partition,
    ) -> None:
        """Called when a change is first seen on any broker, which is the controller.

        The leader counts a replica that is about to join, so that replica has everything that was
        committed since.
        """
        key = (topic.topic_id, index)
        before = self._newest.get(key)
        if before is not None and now.partition_epoch <= before.partition_epoch:
            return
        self._newest[key] = now
        committed = self._committed.get(key)
        if before is None or committed is None:
            return
        for id_ in now.isr:
            broker = image.brokers.get(id_)
            node = self._brokers[id_].node if id_ in self._brokers else None
            if id_ in before.isr or node is None or broker is None:
                continue
            known = earlier.brokers.get(id_) if earlier is not None else None
            if known is not None and known.epoch == broker.epoch:
                self._check_joining_incarnation(broker, topic, index, now)
            log = node.logs.get(topic.name, index)
            if broker.epoch == node.broker_epoch and log is not None and log.is_loaded:
                where = f"{topic.name}-{index} partition epoch {now.partition_epoch}: {id_} joins"
                with suppress(StorageError):  # its disk has failed since its fetch
                    self._compare(where, JOINS, committed.batches, log)

    def _check_joining_incarnation(
        self, broker: RegisteredBroker, topic: Topic, index: int, now: Partition
    ) -> None:
        """The leader's last fetch is from the incarnation registered before, or a later one."""
        node = self._brokers[now.leader].node if now.leader in self._brokers else None
        leader = node.partitions.replica(topic.name, index) if node is not None else None
        id_ = broker.broker_id
        if not isinstance(leader, Leader) or id_ not in leader.progress:
            return
        heard = leader.progress[id_].broker_epoch
        if leader.epoch == now.leader_epoch and UNKNOWN < heard < broker.epoch:
            where = f"{topic.name}-{index} partition epoch {now.partition_epoch}"
            raise Violation(
                JOINS, f"{where}: {id_} joins in incarnation {broker.epoch}, fetched in {heard}"
            )

    def _leads(self, where: str, epoch: tuple[bytes, int, int], broker_id: int) -> None:
        known = self._leaders.setdefault(epoch, broker_id)
        if known != broker_id:
            raise Violation(ONE_LEADER, f"{where} epoch {epoch[2]}: {known} and {broker_id}")

    # --- leaders --------------------------------------------------------------------------------

    def _check_leader(self, incarnation: str, node: Broker, leader: SoleLeader) -> None:
        seen = self._seen.get(leader)
        watermark = leader.high_watermark
        if isinstance(leader, Leader):
            self._check_follower_counts(incarnation, leader)
        if seen is None or seen.epoch != leader.epoch:
            place = f"{incarnation}: {leader.topic}-{leader.index}"
            self._leads(place, (leader.topic_id, leader.index, leader.epoch), node.node_id)
            self._led[Place(leader.topic, leader.index), node.node_id] = leader.epoch
            counts = seen.counts if seen is not None else []
            seen = self._seen[leader] = _Seen(
                leader.epoch, watermark, leader.enough_in_sync, _partition_epoch(leader)
            )
            seen.counts = counts
        if not seen.verified or seen.watermark != watermark:
            try:
                self._check_changed_leader(incarnation, leader, seen)
            except StorageError:
                return  # its disk has failed; this leader answers no request
        seen.note(leader, self._moves)
        seen.watermark, seen.enough = watermark, leader.enough_in_sync
        seen.partition_epoch = _partition_epoch(leader)

    def _check_changed_leader(self, incarnation: str, leader: SoleLeader, seen: _Seen) -> None:
        key = (leader.topic_id, leader.index)
        self._by_name[Place(leader.topic, leader.index)] = key
        committed = self._committed.setdefault(key, CommittedRecord())
        where = f"{incarnation}: {leader.topic}-{leader.index} epoch {leader.epoch}"
        watermark = leader.high_watermark
        if not seen.verified:
            self._compare(where, COMMITTED_STAYS, committed.before(leader.epoch), leader.log)
            seen.verified = True
        if watermark < seen.watermark:
            raise Violation(WATERMARK_GROWS, f"{where}: from {seen.watermark} to {watermark}")
        if watermark > seen.watermark:
            # A leader that was replaced, and does not know it yet, commits nothing either.
            again = committed.between(seen.watermark, watermark)
            self._compare(where, COMMITTED_STAYS, again, leader.log)
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
        self, incarnation: str, node: Broker, follower: Follower, *, moved: bool
    ) -> None:
        """A replica that is in sync when an epoch begins has all records committed before, and
        keeps them.

        Uses the metadata of the follower itself, which has the follower's current incarnation.
        """
        log_end, image = follower.log.log_end_offset, node.metadata.image
        mark = self._marks.get(follower)
        if mark is None or mark.epoch != follower.epoch:
            mark = self._marks[follower] = _Mark(follower.epoch, log_end, image)
            self._moves += 1
        elif log_end < mark.log_end:
            self._moves += 1
        mark.log_end = log_end
        committed = mark.committed
        if committed is None:
            committed = self._committed.get((follower.topic_id, follower.index))
            if committed is None:
                return
            mark.committed, moved = committed, True
        if moved or mark.image is not image or mark.batches != len(committed.batches):
            mark.image, mark.batches = image, len(committed.batches)
            mark.least_end = 0
            if _is_in_sync(node, follower):
                mark.least_end = committed.end_before(follower.epoch)
        if log_end < mark.least_end:
            where = f"{incarnation}: {follower.topic}-{follower.index} epoch {follower.epoch}"
            raise Violation(IN_SYNC, f"{where}: ends at {log_end}, not {mark.least_end}")

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
    def _check_confirmations(where: str, leader: Leader, seen: _Seen) -> None:
        """Nothing is committed before all in-sync replicas have confirmed it in their fetches."""
        for id_ in leader.partition.isr:
            progress = leader.progress.get(id_)
            if progress is None or progress.log_end >= leader.high_watermark:
                continue
            if not seen.heard_another_incarnation(progress):
                raise Violation(
                    IN_SYNC, f"{where}: {leader.high_watermark}, {id_} is at {progress.log_end}"
                )

    def _check_follower_logs(
        self, where: str, leader: Leader, seen: _Seen, added: Sequence[Batch]
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
                or seen.heard_another_incarnation(progress)
            ):
                continue
            with suppress(StorageError):  # it stops, or its disk has failed, since its fetch
                compare(f"{where}, follower {id_}", IN_SYNC, added, replica.log)
                if added:
                    end = added[-1].next_offset
                    self._check_flushed(f"{where}, follower {id_}", replica.log, end)

    def _check_flushed(self, where: str, log: Log, end: int) -> None:
        if log.topic in self._flushed and log.recovery_point < end:
            raise Violation(ON_DISK, f"{where}: {end}, flushed up to {log.recovery_point}")

    def _compare(self, where: str, rule: str, expected: Sequence[Batch], log: Log) -> None:
        """Compares only the end of a compacted log: each replica compacts on its own."""
        if log.topic not in self._compacted:
            compare(where, rule, expected, log)
        elif expected and log.log_end_offset < expected[-1].next_offset:
            end = expected[-1].next_offset
            raise Violation(rule, f"{where}: its log ends at {log.log_end_offset}, not at {end}")

    # --- after all faults have ended ------------------------------------------------------------

    def all_is_committed(self, places: Sequence[Place]) -> bool:
        """Whether all replicas have the same log end, and their leaders know it."""
        for place in places:
            nodes = [each.node for each in self._brokers.values() if each.node is not None]
            replicas = [node.partitions.replica(*place) for node in nodes]
            leaders = [each for each in replicas if isinstance(each, SoleLeader)]
            ends = {log.log_end_offset for log in self._logs(place).values()}
            if len(leaders) != 1 or ends != {leaders[0].high_watermark}:
                return False
        return True

    def check_replicas(self, places: Sequence[Place]) -> None:
        """Raises `Violation` unless all replicas have the same batches, each once."""
        for place in places:
            logs = self._logs(place)
            held = {
                id_: batches_of(log, log.log_start_offset, log.log_end_offset)
                for id_, log in logs.items()
            }
            first = next(iter(held), None)
            for id_, batches in held.items():
                if first is not None and batches != held[first]:
                    apart = sorted(set(batches) ^ set(held[first]))[:3]
                    raise Violation(REPLICAS_ALIKE, f"{place}: {first} and {id_}: {apart}")

    def _logs(self, place: Place) -> dict[int, Log]:
        """The logs of the partition, by broker id."""
        logs = {}
        for id_, broker in self._brokers.items():
            node = broker.node
            replica = node.partitions.replica(*place) if node is not None else None
            if isinstance(replica, SoleLeader | Follower):
                logs[id_] = replica.log
        return logs


def _partition_epoch(leader: SoleLeader) -> int:
    return leader.partition.partition_epoch if isinstance(leader, Leader) else 0


def _is_in_sync(node: Broker, follower: Follower) -> bool:
    """According to the metadata of the replica's own broker."""
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
