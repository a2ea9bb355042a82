"""Changes of the cluster's metadata. The image changes only by applying these.

A record says what is now true, never how it was decided, so that a store, an image and a second
broker that apply the same records agree. Most are named tuples, because these cost a start a
fifth of what data classes cost it.
"""

from dataclasses import dataclass
from typing import NamedTuple

from headrace.cluster.resources import ConfigResource
from headrace.cluster.topology import BrokerRegistration, Partition


class ClusterNamed(NamedTuple):
    """The cluster got its id: the first record of every store."""

    cluster_id: str


class ControllerElected(NamedTuple):
    """This broker is the controller from now on; the epoch fences every earlier one."""

    controller_id: int
    controller_epoch: int


class BrokerRegistered(NamedTuple):
    """A broker joined, or came back, or changed its addresses."""

    broker: BrokerRegistration


class BrokerFenced(NamedTuple):
    """A broker's session ended: it is known, and neither leads nor takes new replicas."""

    broker_id: int


class BrokerLeaving(NamedTuple):
    """A broker has begun its controlled shutdown: it leads nothing new."""

    broker_id: int


class BrokerUnregistered(NamedTuple):
    """A broker was removed for good."""

    broker_id: int


class TopicCreated(NamedTuple):
    """A topic with all its partitions, in the order of their indexes."""

    name: str
    topic_id: bytes
    partitions: tuple[Partition, ...]


class PartitionsAdded(NamedTuple):
    """Partitions that follow the topic's last one."""

    topic_id: bytes
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class PartitionChanged:
    """A partition's new state: leader, epochs, in-sync replicas."""

    topic_id: bytes
    index: int
    partition: Partition


class LeaderReturned(NamedTuple):
    """A leader's process came back: each partition it leads enters a new leader epoch.

    One record for thousands of partitions, so that a restart costs one statement.
    """

    broker_id: int


class TopicDeleted(NamedTuple):
    """A topic is gone, with its partitions and its configuration.

    `inferred` if nobody was heard to delete it: it is missing from what is stored.
    """

    topic_id: bytes
    inferred: bool = False


class ConfigChanged(NamedTuple):
    """A config of a resource has this value; None removes it."""

    resource: ConfigResource
    name: str
    value: str | None


class FeatureSet(NamedTuple):
    """A feature is finalized at this level; 0 removes it."""

    name: str
    level: int


class ProducerIdsReserved(NamedTuple):
    """All producer ids below this one are taken."""

    next_producer_id: int


MetadataRecord = (
    ClusterNamed
    | ControllerElected
    | BrokerRegistered
    | BrokerFenced
    | BrokerLeaving
    | BrokerUnregistered
    | TopicCreated
    | PartitionsAdded
    | PartitionChanged
    | LeaderReturned
    | TopicDeleted
    | ConfigChanged
    | FeatureSet
    | ProducerIdsReserved
)
