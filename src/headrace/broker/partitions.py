"""The partitions that this broker leads, found by topic name or id in one look-up."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from headrace.cluster.topology import INTERNAL_TOPICS
from headrace.protocol.errors import ErrorCode
from headrace.replication.leader import Leader
from headrace.replication.replica import Replica
from headrace.storage.config import LogConfig
from headrace.storage.log import Log

if TYPE_CHECKING:
    from headrace.broker.handlers.produce_answer import UsualAnswer

NO_TOPIC_ID = bytes(16)


class HostedTopic:
    """One topic's leaders on this broker; `None` where another broker leads."""

    __slots__ = ("config", "internal", "leaders", "name", "topic_id", "usual_answers")

    def __init__(self, name: str, topic_id: bytes, config: LogConfig) -> None:
        self.name = name
        self.topic_id = topic_id
        self.config = config
        self.internal = name in INTERNAL_TOPICS
        self.leaders: list[Leader | None] = []
        self.usual_answers: dict[int, UsualAnswer] = {}  # to Produce, by version

    def leader(self, index: int) -> Leader | None:
        if 0 <= index < len(self.leaders):
            return self.leaders[index]
        return None


class PartitionTable:
    """All hosted topics."""

    def __init__(self, open_log: Callable[[Replica, LogConfig], Log]) -> None:
        self.by_name: dict[str, HostedTopic] = {}
        self.by_id: dict[bytes, HostedTopic] = {}
        self._open_log = open_log

    def __iter__(self) -> Iterator[Leader]:
        for topic in self.by_name.values():
            for leader in topic.leaders:
                if leader is not None:
                    yield leader

    def add_topic(self, name: str, topic_id: bytes, config: LogConfig) -> HostedTopic:
        topic = HostedTopic(name, topic_id, config)
        self.by_name[name] = topic
        self.by_id[topic_id] = topic
        return topic

    def add_leader(self, topic: HostedTopic, index: int, epoch: int) -> Leader:
        """Indexes may come in any order; gaps are led elsewhere."""
        leader = Leader(topic.name, topic.topic_id, index, epoch, self._open)
        topic.leaders.extend([None] * (index + 1 - len(topic.leaders)))
        topic.leaders[index] = leader
        return leader

    def remove_topic(self, topic_id: bytes) -> HostedTopic | None:
        """Closes the leaders; whoever waits on them is told."""
        topic = self.by_id.pop(topic_id, None)
        if topic is not None:
            del self.by_name[topic.name]
            for leader in topic.leaders:
                if leader is not None:
                    leader.close()
        return topic

    def reconfigure(self, topic: HostedTopic, config: LogConfig) -> None:
        topic.config = config
        for leader in topic.leaders:
            if leader is not None and leader.is_open:
                leader.log.reconfigure(config)

    def find(self, topic: str, index: int) -> "Leader | ErrorCode":
        """The leader, or the error that a client gets instead."""
        hosted = self.by_name.get(topic)
        leader = hosted.leader(index) if hosted is not None else None
        return leader if leader is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _open(self, replica: Replica) -> Log:
        return self._open_log(replica, self.by_id[replica.topic_id].config)
