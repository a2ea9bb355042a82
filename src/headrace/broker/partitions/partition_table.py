"""Every topic of the cluster, and which of its partitions this broker leads or follows.

Topics are found by name or id in one lookup. The table also contains topics without a replica on
this broker: a client that asks the wrong broker gets NOT_LEADER_OR_FOLLOWER, not an error for an
unknown topic.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from headrace.cluster.topology import INTERNAL_TOPICS
from headrace.protocol.errors import ErrorCode
from headrace.replication.follower import Follower
from headrace.replication.leader import Leader
from headrace.replication.replica import Replica
from headrace.replication.sole_leader import SoleLeader
from headrace.storage.log.log import AppendResult, Log
from headrace.storage.state.log_config import LogConfig

if TYPE_CHECKING:
    from headrace.metrics.topic_traffic import BrokerTraffic, TopicTraffic

NO_TOPIC_ID = bytes(16)
# Reading an attribute of an enum class costs ten times a global; these are read per request.
UNKNOWN_TOPIC_OR_PARTITION = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NOT_LEADER_OR_FOLLOWER = ErrorCode.NOT_LEADER_OR_FOLLOWER


class ProduceResponseTemplate(Protocol):
    """The cached part of a topic's Produce responses; `produce/response_template.py` fills it."""

    def encode(self, index: int, result: AppendResult, log_start_offset: int) -> bytes: ...


class HostedTopic:
    """One topic; `leaders` has an entry for each partition, `None` where another broker leads."""

    __slots__ = (
        "config",
        "followers",
        "internal",
        "leaders",
        "name",
        "response_templates",
        "topic_id",
        "traffic",
    )

    def __init__(
        self, name: str, topic_id: bytes, config: LogConfig, traffic: "TopicTraffic | None" = None
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.config = config
        self.internal = name in INTERNAL_TOPICS
        self.leaders: list[SoleLeader | None] = []
        self.followers: dict[int, Follower] = {}
        self.response_templates: dict[int, ProduceResponseTemplate] = {}  # by version
        self.traffic = traffic

    def leader(self, index: int) -> SoleLeader | None:
        if 0 <= index < len(self.leaders):
            return self.leaders[index]
        return None

    def find(self, index: int) -> SoleLeader | ErrorCode:
        """The partition's leader, or the error for the client."""
        if 0 <= index < len(self.leaders):
            return self.leaders[index] or NOT_LEADER_OR_FOLLOWER
        return UNKNOWN_TOPIC_OR_PARTITION

    def replica(self, index: int) -> SoleLeader | Follower | None:
        """This broker's replica, in either role."""
        return self.leader(index) or self.followers.get(index)

    def grow(self, partitions: int) -> None:
        """Extends the topic to that many partitions, led by other brokers until `put` is called."""
        self.leaders.extend([None] * (partitions - len(self.leaders)))

    def put(self, index: int, role: SoleLeader | Follower | None) -> None:
        """Sets this broker's role in one partition."""
        self.grow(index + 1)
        if role is not None:
            role.traffic = self.traffic
        self.leaders[index] = role if isinstance(role, SoleLeader) else None
        if isinstance(role, Follower):
            self.followers[index] = role
        else:
            self.followers.pop(index, None)

    @property
    def replicas(self) -> Iterator[SoleLeader | Follower]:
        """Every replica that this broker has."""
        for leader in self.leaders:
            if leader is not None:
                yield leader
        yield from list(self.followers.values())


class PartitionTable:
    """All topics of the cluster."""

    def __init__(self, open_log: Callable[[Replica, LogConfig], Log]) -> None:
        self.by_name: dict[str, HostedTopic] = {}
        self.by_id: dict[bytes, HostedTopic] = {}
        self.traffic: BrokerTraffic | None = None
        """The counters of all topics, if the broker has an HTTP port; set before any topic."""
        self._open_log = open_log

    def __iter__(self) -> Iterator[SoleLeader]:
        for topic in self.by_name.values():
            for leader in topic.leaders:
                if leader is not None:
                    yield leader

    @property
    def replicas(self) -> Iterator[SoleLeader | Follower]:
        """Every replica that this broker has, as leader or follower."""
        for topic in self.by_name.values():
            yield from topic.replicas

    def add_topic(self, name: str, topic_id: bytes, config: LogConfig) -> HostedTopic:
        traffic = None if self.traffic is None else self.traffic.topic(name, topic_id)
        topic = HostedTopic(name, topic_id, config, traffic)
        self.by_name[name] = topic
        self.by_id[topic_id] = topic
        return topic

    def remove_topic(self, topic_id: bytes) -> HostedTopic | None:
        """Closes the replicas; requests that wait on them get an error."""
        topic = self.by_id.pop(topic_id, None)
        if topic is not None:
            if self.by_name.get(topic.name) is topic:
                del self.by_name[topic.name]
            for replica in topic.replicas:
                replica.close()
            if self.traffic is not None:
                self.traffic.remove(topic_id)
        return topic

    def reconfigure(self, topic: HostedTopic, config: LogConfig) -> None:
        topic.config = config
        for replica in topic.replicas:
            if replica.is_open:
                replica.log.reconfigure(config)
            if isinstance(replica, Leader):
                replica.require_in_sync(config.min_insync_replicas)

    def find(self, topic: str, index: int) -> SoleLeader | ErrorCode:
        """The leader, or the error for the client."""
        hosted = self.by_name.get(topic)
        return hosted.find(index) if hosted is not None else UNKNOWN_TOPIC_OR_PARTITION

    def find_at_epoch(self, topic: str, index: int, leader_epoch: int) -> SoleLeader | ErrorCode:
        """Like `find`; the error also if the client knows another leader epoch."""
        leader = self.find(topic, index)
        if isinstance(leader, ErrorCode):
            return leader
        return leader.check_epoch(leader_epoch) or leader

    def replica(self, topic: str, index: int) -> SoleLeader | Follower | None:
        """This broker's replica, in either role."""
        hosted = self.by_name.get(topic)
        return hosted.replica(index) if hosted is not None else None

    def open(self, replica: Replica) -> Log:
        """Opens the log of a replica on its first use."""
        return self._open_log(replica, self.by_id[replica.topic_id].config)
