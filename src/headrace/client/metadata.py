"""The client's cache of cluster metadata, built from Metadata responses. Pure.

A response about some topics is merged into the cache. A partition's leader is replaced only by one
of the same or a later epoch, so that a response from a lagging broker cannot send requests back to
a former leader (KIP-320).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headrace.client.errors import LeaderUnknown, UnknownBroker
from headrace.client.network.connection import Address
from headrace.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

NO_BROKER = -1


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """One partition's leader and replicas; the leader is -1 while there is none."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """One topic; `topic_id` is 16 zero bytes if the broker does not support topic ids."""

    name: str
    topic_id: bytes
    is_internal: bool
    partitions: Mapping[int, PartitionInfo]


@dataclass(slots=True)
class MetadataCache:
    """The brokers, the controller and the topics requested so far."""

    cluster_id: str | None = None
    controller_id: int = NO_BROKER
    brokers: dict[int, Address] = field(default_factory=dict)
    _topics: dict[str, TopicInfo] = field(default_factory=dict)
    _names: dict[bytes, str] = field(default_factory=dict)

    def topic(self, name: str) -> TopicInfo | None:
        return self._topics.get(name)

    def topic_by_id(self, topic_id: bytes) -> TopicInfo | None:
        name = self._names.get(topic_id)
        return None if name is None else self._topics.get(name)

    def topics(self) -> tuple[TopicInfo, ...]:
        return tuple(self._topics.values())

    def address_of(self, broker_id: int) -> Address:
        address = self.brokers.get(broker_id)
        if address is None:
            known = ", ".join(map(str, sorted(self.brokers))) or "none"
            raise UnknownBroker(f"no broker has the id {broker_id} (known: {known})")
        return address

    def leader_of(self, topic: str, partition: int) -> int:
        """The id of the broker that leads the partition; raises `LeaderUnknown`."""
        info = self._topics.get(topic)
        found = None if info is None else info.partitions.get(partition)
        if found is None:
            raise LeaderUnknown(f"no metadata for {topic}-{partition}: does it exist?")
        if found.leader == NO_BROKER:
            raise LeaderUnknown(f"{topic}-{partition} currently has no leader")
        return found.leader

    def forget(self, topic: str) -> None:
        info = self._topics.pop(topic, None)
        if info is not None:
            self._names.pop(info.topic_id, None)

    def update(self, answer: MetadataResponse) -> None:
        """Merges a response about all or some topics."""
        if answer.error_code:
            # The broker asks the client to start over with the bootstrap servers (KIP-1102).
            self._clear()
            return
        self.cluster_id = answer.cluster_id
        self.controller_id = answer.controller_id
        self.brokers = {
            broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers
        }
        for topic in answer.topics:
            if topic.name is None:
                continue
            if topic.error_code:
                self.forget(topic.name)
            else:
                self._update_topic(topic.name, topic)

    def _clear(self) -> None:
        self.controller_id = NO_BROKER
        self.brokers = {}
        self._topics.clear()
        self._names.clear()

    def _update_topic(self, name: str, topic: MetadataResponseTopic) -> None:
        known = self._topics.get(name)
        topic_id = bytes(topic.topic_id)
        # A topic that was deleted and created again starts with new epochs.
        older = known.partitions if known is not None and known.topic_id == topic_id else {}
        self.forget(name)
        partitions = {}
        for partition in topic.partitions:
            received = PartitionInfo(
                leader=partition.leader_id,
                leader_epoch=partition.leader_epoch,
                replicas=tuple(partition.replica_nodes),
                isr=tuple(partition.isr_nodes),
            )
            cached = older.get(partition.partition_index)
            stale = cached is not None and -1 < received.leader_epoch < cached.leader_epoch
            partitions[partition.partition_index] = (
                cached if cached is not None and stale else received
            )
        self._topics[name] = TopicInfo(name, topic_id, topic.is_internal, partitions)
        if any(topic_id):
            self._names[topic_id] = name


def metadata_request(topics: Iterable[str] | None) -> MetadataRequest:
    """A request for these topics, or for all with None; it never creates topics."""
    wanted = None
    if topics is not None:
        wanted = [MetadataRequestTopic(name=name) for name in topics]
    return MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
