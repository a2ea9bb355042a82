"""Replicated topics of a cluster: create them, fill them, find and change their leaders."""

import uuid
from collections.abc import Callable

from confluent_kafka import ElectionType, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from support.clients.java import KafkaCluster
from support.waiting import wait_for

DEADLINE_S = 120.0
VALUE_BYTES = 1000


class ReplicatedTopic:
    """A topic with a replica on every node, and records that contain their own positions."""

    def __init__(self, cluster: KafkaCluster, partitions: int, records: int) -> None:
        self.name = f"t-{uuid.uuid4().hex[:12]}"
        self.partitions = partitions
        self.records = records
        self._cluster = cluster
        self._admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        new = NewTopic(self.name, partitions, len(cluster.nodes))
        self._admin.create_topics([new])[self.name].result(timeout=DEADLINE_S)
        self.heal()
        self._fill()

    def _fill(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._cluster.bootstrap_servers,
                "acks": "all",
                "enable.idempotence": True,
                "batch.size": 20_000,
                "linger.ms": 20,
                "queue.buffering.max.messages": 1_000_000,
            }
        )
        for offset in range(self.records):
            for partition in range(self.partitions):
                producer.produce(self.name, value_at(partition, offset), partition=partition)
        assert producer.flush(DEADLINE_S) == 0

    def leader(self, partition: int = 0) -> int:
        """The current leader in the cluster's metadata; -1 for none."""
        found = self._admin.list_topics(self.name, timeout=DEADLINE_S).topics[self.name]
        leader: int = found.partitions[partition].leader
        return leader

    def heal(self) -> None:
        """Starts the stopped nodes; returns when every replica has caught up."""
        for node in self._cluster.nodes.values():
            if not node.running:
                node.spawn()
                node.wait()
        wait_for(self._is_whole, "every replica is in sync", deadline_s=DEADLINE_S)

    def _is_whole(self) -> bool:
        found = self._admin.list_topics(self.name, timeout=DEADLINE_S).topics.get(self.name)
        return (
            found is not None
            and len(found.partitions) == self.partitions
            and all(
                each.leader >= 0 and len(each.isrs) == len(self._cluster.nodes)
                for each in found.partitions.values()
            )
        )

    def prefer(self) -> None:
        """Elects the preferred leader of each partition: leaders change while all nodes run."""
        wanted = [TopicPartition(self.name, each) for each in range(self.partitions)]
        self._admin.elect_leaders(ElectionType.PREFERRED, wanted).result()

    def wait_for_leader(self, chosen: Callable[[int], bool], what: str) -> int:
        def found() -> int | None:
            leader = self.leader()
            return leader if leader >= 0 and chosen(leader) else None

        return wait_for(found, what, deadline_s=DEADLINE_S)


def value_at(partition: int, offset: int) -> bytes:
    return f"{partition}:{offset}:".ljust(VALUE_BYTES).encode()
