"""What a cluster is made of: brokers, topics, partitions. Immutable values, shared freely.

A `Partition` does not carry its index, so the thousands of partitions that are in the same state
on one node can be one object.
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


class Partition(NamedTuple):
    """Who holds a partition and who leads it. The first replica is the preferred leader."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    eligible_leaders: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    def led_anew(self) -> "Partition":
        """The same leader in a new epoch, e.g. after its process came back."""
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
        """The partition with this index, or None where the topic has none (also for -1)."""
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
    leaving: bool = False  # in a controlled shutdown: it leads nothing new
    directories: tuple[str, ...] = ()  # ids of its log directories; none where it did not say

    @property
    def is_available(self) -> bool:
        """Whether it may lead and take new replicas."""
        return not (self.fenced or self.leaving)

    def endpoint(self, listener: str) -> Endpoint | None:
        """The address of that listener, if this broker has it."""
        for endpoint in self.endpoints:
            if endpoint.listener == listener:
                return endpoint
        return None
