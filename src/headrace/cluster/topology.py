"""The parts of a cluster: brokers, topics, partitions. Immutable values, shared freely.

A `Partition` does not contain its index, so that thousands of partitions in the same state on one
node can share one object.
"""

from typing import Final, NamedTuple

NO_LEADER: Final = -1
ZERO_UUID: Final = bytes(16)

GROUP_METADATA_TOPIC: Final = "__consumer_offsets"
TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
SHARE_STATE_TOPIC: Final = "__share_group_state"
CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"
INTERNAL_TOPICS: Final = frozenset(
    {GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_STATE_TOPIC}
)

METADATA_LEVEL: Final = 1
"""The metadata records that a broker of this version can read. Raise it with each new kind."""
SECURITY_LEVEL: Final = 1
"""From this level on: ACLs, SCRAM credentials, client quotas and delegation tokens."""


class Partition(NamedTuple):
    """The replicas of a partition and its leader. The first replica is the preferred leader."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    eligible_leaders: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    def with_new_leader_epoch(self) -> "Partition":
        """The same leader in a new epoch, e.g. after its process restarted."""
        return self._replace(
            leader_epoch=self.leader_epoch + 1, partition_epoch=self.partition_epoch + 1
        )


class Topic(NamedTuple):
    """A topic and its partitions; the position in `partitions` is the partition's index."""

    name: str
    topic_id: bytes
    partitions: tuple[Partition, ...]

    @property
    def internal(self) -> bool:
        return self.name in INTERNAL_TOPICS

    @property
    def replication_factor(self) -> int:
        return len(self.partitions[0].replicas)

    def partition(self, index: int) -> Partition | None:
        """The partition with this index, or None if the topic has none (also for -1)."""
        if 0 <= index < len(self.partitions):
            return self.partitions[index]
        return None


class Endpoint(NamedTuple):
    """An address at which clients reach a broker: the *advertised* host and port."""

    listener: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


class BrokerRegistration(NamedTuple):
    """A registered broker. `epoch` grows with every registration and fences older ones."""

    broker_id: int
    epoch: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    incarnation_id: bytes = ZERO_UUID
    fenced: bool = False
    leaving: bool = False  # in a controlled shutdown: gets no further leadership
    directories: tuple[str, ...] = ()  # ids of its log directories; empty if it did not send them
    metadata_level: int = METADATA_LEVEL  # 0 if it did not send one: version 0.1.0

    @property
    def is_available(self) -> bool:
        """Whether the broker may lead partitions and get new replicas."""
        return not (self.fenced or self.leaving)

    def endpoint(self, listener: str) -> Endpoint | None:
        """The address of that listener, if this broker has it."""
        for endpoint in self.endpoints:
            if endpoint.listener == listener:
                return endpoint
        return None
