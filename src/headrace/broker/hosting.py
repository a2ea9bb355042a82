"""Makes metadata real on this broker: leaders and logs follow the image.

Creating ten thousand partitions takes seconds of disk work, so it yields to the loop between
slices; other clients are served meanwhile.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from headrace.broker.partitions import HostedTopic, PartitionTable
from headrace.cluster.image import MetadataImage, Partition, Topic
from headrace.cluster.records import (
    ConfigChanged,
    LeaderReturned,
    MetadataRecord,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
)
from headrace.cluster.resources import ResourceType
from headrace.storage.config import LogConfig
from headrace.storage.errors import StorageError
from headrace.storage.manager import LogManager

log = logging.getLogger(__name__)

PARTITIONS_PER_SLICE = 32  # a few milliseconds of directory work


class Hosting:
    """Applies committed records to the partition table and the log manager."""

    def __init__(
        self,
        node_id: int,
        table: PartitionTable,
        logs: LogManager,
        log_config: Callable[[MetadataImage, str], LogConfig],
        broker_changed: Callable[[MetadataImage], None],
    ) -> None:
        self._node_id = node_id
        self._table = table
        self._logs = logs
        self._log_config = log_config
        self._broker_changed = broker_changed

    def load(self, image: MetadataImage) -> None:
        """The leaders of a starting broker; their logs open on first use."""
        for topic in image.topics.values():
            hosted = self._table.add_topic(
                topic.name, topic.topic_id, self._log_config(image, topic.name)
            )
            self._lead(hosted, topic.partitions, first=0)

    async def publish(self, image: MetadataImage, records: Sequence[MetadataRecord]) -> None:
        reconfigured: set[str] = set()
        everything = False
        for record in records:
            match record:
                case TopicCreated(name):
                    await self._create(image, image.topics[name])
                case PartitionsAdded(topic_id, partitions):
                    await self._grow(self._table.by_id[topic_id], partitions)
                case TopicDeleted(topic_id):
                    self._delete(topic_id)
                case LeaderReturned():
                    self._lead_anew(image)
                case ConfigChanged(resource) if resource.type is ResourceType.TOPIC:
                    reconfigured.add(resource.name)
                case ConfigChanged(resource) if resource.type is ResourceType.BROKER:
                    everything = True  # topics inherit from brokers
        if everything:
            self._broker_changed(image)
        names = list(self._table.by_name) if everything else sorted(reconfigured)
        for name in names:
            hosted = self._table.by_name.get(name)
            if hosted is not None:
                self._table.reconfigure(hosted, self._log_config(image, name))

    async def _create(self, image: MetadataImage, topic: Topic) -> None:
        config = self._log_config(image, topic.name)
        hosted = self._table.add_topic(topic.name, topic.topic_id, config)
        await self._grow(hosted, topic.partitions)

    async def _grow(self, hosted: HostedTopic, partitions: Sequence[Partition]) -> None:
        first = len(hosted.leaders)
        self._lead(hosted, partitions, first=first)
        for number, leader in enumerate(hosted.leaders[first:], start=1):
            if leader is None:
                continue
            try:
                self._logs.get_or_create(
                    hosted.name, leader.index, hosted.topic_id, hosted.config, is_new=True
                )
            except StorageError as error:
                # The topic exists; this partition answers with its storage error.
                log.error(
                    "a partition has no log",
                    extra={"topic": hosted.name, "partition": leader.index, "error": str(error)},
                )
            if number % PARTITIONS_PER_SLICE == 0:
                await asyncio.sleep(0)

    def _lead(self, hosted: HostedTopic, partitions: Sequence[Partition], first: int) -> None:
        for index, partition in enumerate(partitions, start=first):
            if partition.leader == self._node_id:
                self._table.add_leader(hosted, index, partition.leader_epoch)

    def _lead_anew(self, image: MetadataImage) -> None:
        for topic in image.topics.values():
            hosted = self._table.by_id.get(topic.topic_id)
            for index, partition in enumerate(topic.partitions):
                leader = hosted.leader(index) if hosted is not None else None
                if leader is not None:
                    leader.epoch = partition.leader_epoch

    def _delete(self, topic_id: bytes) -> None:
        hosted = self._table.remove_topic(topic_id)
        for leader in hosted.leaders if hosted is not None else ():
            if leader is None:
                continue
            try:
                self._logs.delete(leader.topic, leader.index)
            except StorageError as error:
                log.error(
                    "a deleted partition's files remain",
                    extra={"topic": leader.topic, "partition": leader.index, "error": str(error)},
                )
