"""Invariants of the metadata that brokers have: epochs, leaders, and replicas that join the ISR."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from headrace.cluster.image import MetadataImage
from headrace.cluster.topology import NO_LEADER, BrokerRegistration, Partition, Topic
from headrace.replication.follower_progress import UNKNOWN
from headrace.replication.leader import Leader
from headrace.storage.errors import StorageError
from headrace.testing.simulation.brokers import BrokerProcess
from headrace.testing.simulation.checks.committed_batches import CommittedLogs, PartitionId
from headrace.testing.simulation.checks.history import Violation

ONE_LEADER: Final = "one leader in each epoch"
EPOCHS_GROW: Final = "epochs never decrease"
METADATA_GROWS: Final = "metadata never goes back"
JOINS: Final = "a replica that joins the in-sync set has all committed records"


class MetadataChecker:
    """Checks each metadata image of each broker, and raises `Violation` at once."""

    def __init__(self, brokers: Mapping[int, BrokerProcess], committed: CommittedLogs) -> None:
        self.images: dict[str, MetadataImage] = {}  # the latest, by the name of an incarnation
        self._brokers = brokers
        self._committed = committed
        self._leaders: dict[tuple[bytes, int, int], int] = {}
        self._newest: dict[PartitionId, Partition] = {}

    def check_image(self, incarnation: str, image: MetadataImage) -> None:
        before = self.images.get(incarnation)
        self.images[incarnation] = image
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
            self.check_leadership(where, (topic_id, index, now.leader_epoch), now.leader)

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
        committed = self._committed.by_partition.get(key)
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
                    self._committed.compare(where, JOINS, committed.batches, log)

    def _check_joining_incarnation(
        self, broker: BrokerRegistration, topic: Topic, index: int, now: Partition
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

    def check_leadership(self, where: str, epoch: tuple[bytes, int, int], broker_id: int) -> None:
        """Raises `Violation` if another broker leads, or led, in that epoch."""
        known = self._leaders.setdefault(epoch, broker_id)
        if known != broker_id:
            raise Violation(ONE_LEADER, f"{where} epoch {epoch[2]}: {known} and {broker_id}")
