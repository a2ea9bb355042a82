"""Applies metadata to this broker: replica roles and logs follow the image.

The cost of a change depends on the changed partitions, not on the number of all partitions.
Creating ten thousand partitions takes seconds of disk work, so the publisher yields to the event
loop between slices and clients are served meanwhile.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from headrace.broker.partitions.partition_table import HostedTopic, PartitionTable
from headrace.broker.partitions.replica_roles import ReplicaRoles, Role
from headrace.broker.partitions.stray_partitions import make_stray
from headrace.cluster.image import MetadataImage, Partition, Topic
from headrace.cluster.metadata_records import (
    ConfigChanged,
    LeaderRestarted,
    MetadataRecord,
    PartitionChanged,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
)
from headrace.cluster.resources import ConfigResourceType
from headrace.storage.directories.log_manager import LogManager
from headrace.storage.errors import StorageError
from headrace.storage.state.log_config import LogConfig

log = logging.getLogger(__package__)

PARTITIONS_PER_SLICE = 32  # a few milliseconds of directory work


class MetadataPublisher:
    """Applies committed records to the partition table and the log manager."""

    def __init__(
        self,
        roles: ReplicaRoles,
        table: PartitionTable,
        logs: LogManager,
        log_config: Callable[[MetadataImage, str], LogConfig],
        broker_changed: Callable[[MetadataImage], None],
    ) -> None:
        self._roles = roles
        self._table = table
        self._logs = logs
        self._log_config = log_config
        self._broker_changed = broker_changed

    def load(self, image: MetadataImage) -> None:
        """Assigns the replica roles of a starting broker; their logs open on first use."""
        for topic in image.topics.values():
            hosted = self._table.add_topic(
                topic.name, topic.topic_id, self._log_config(image, topic.name)
            )
            hosted.grow(len(topic.partitions))
            for index, partition in enumerate(topic.partitions):
                self._roles.assign_role(hosted, index, partition)

    async def publish(self, image: MetadataImage, records: Sequence[MetadataRecord]) -> None:
        """Applies the records that lead to this image."""
        reconfigured: set[str] = set()
        everything = False
        for record in records:
            match record:
                case TopicCreated(_, topic_id) | PartitionsAdded(topic_id):
                    topic = image.topics_by_id.get(topic_id)
                    if topic is not None:  # otherwise a later record deletes it
                        await self._put_topic(image, topic)
                case PartitionChanged(topic_id, index, partition):
                    hosted = self._table.by_id.get(topic_id)
                    if hosted is not None:
                        self._assign_role(hosted, index, partition)
                case TopicDeleted(topic_id, inferred):
                    self._delete_topic(topic_id, keep_files=inferred)
                    if inferred:  # syncs its files, which may be many
                        await asyncio.sleep(0)
                case LeaderRestarted():
                    self._assign_all_roles(image)
                case ConfigChanged(resource) if resource.type is ConfigResourceType.TOPIC:
                    reconfigured.add(resource.name)
                case ConfigChanged(resource) if resource.type is ConfigResourceType.BROKER:
                    everything = True  # topics inherit from brokers
        if everything:
            self._broker_changed(image)
        self._reconfigure(image, list(self._table.by_name) if everything else sorted(reconfigured))

    def _reconfigure(self, image: MetadataImage, names: Sequence[str]) -> None:
        for name in names:
            hosted = self._table.by_name.get(name)
            if hosted is not None:
                self._table.reconfigure(hosted, self._log_config(image, name))

    async def _put_topic(self, image: MetadataImage, topic: Topic) -> None:
        """Creates the topic with all its partitions, as in the image."""
        hosted = self._table.by_id.get(topic.topic_id)
        if hosted is None:
            same_name = self._table.by_name.get(topic.name)
            if same_name is not None:
                self._delete_topic(same_name.topic_id)
            config = self._log_config(image, topic.name)
            hosted = self._table.add_topic(topic.name, topic.topic_id, config)
        known = len(hosted.leaders)
        hosted.grow(len(topic.partitions))
        made = 0
        for index, partition in enumerate(topic.partitions):
            if self._assign_role(hosted, index, partition, is_new=index >= known):
                made += 1
                if made % PARTITIONS_PER_SLICE == 0:
                    await asyncio.sleep(0)

    def _assign_role(
        self, hosted: HostedTopic, index: int, partition: Partition, *, is_new: bool = False
    ) -> bool:
        """Assigns this broker's role in the partition; returns whether a log was created."""
        before = hosted.replica(index)
        after = self._roles.assign_role(hosted, index, partition)
        if before is None and after is not None:
            self._make_log(hosted, after, is_new=is_new)
            return True
        if before is not None and after is None:
            self._delete_log(before)
        return False

    def _make_log(self, hosted: HostedTopic, role: Role, *, is_new: bool) -> None:
        try:
            self._logs.get_or_create(
                hosted.name, role.index, hosted.topic_id, hosted.config, is_new=is_new
            )
        except StorageError as error:
            # The topic exists; requests for this partition get its storage error.
            log.error(
                "cannot create log; requests for the partition fail with a storage error",
                extra={"topic": hosted.name, "partition": role.index, "error": str(error)},
            )

    def _assign_all_roles(self, image: MetadataImage) -> None:
        for topic in image.topics.values():
            hosted = self._table.by_id.get(topic.topic_id)
            if hosted is not None:
                for index, partition in enumerate(topic.partitions):
                    self._assign_role(hosted, index, partition)

    def _delete_topic(self, topic_id: bytes, *, keep_files: bool = False) -> None:
        hosted = self._table.remove_topic(topic_id)
        for replica in list(hosted.replicas) if hosted is not None else ():
            self._roles.notify_listeners(replica.topic, replica.index, replica, None)
            if keep_files:
                make_stray(
                    self._logs,
                    replica.topic,
                    replica.index,
                    "its topic is not in the metadata store",
                )
            else:
                self._delete_log(replica)

    def _delete_log(self, replica: Role) -> None:
        try:
            self._logs.delete(replica.topic, replica.index)
        except StorageError as error:
            log.error(
                "cannot delete the files of a deleted partition; they remain on disk",
                extra={"topic": replica.topic, "partition": replica.index, "error": str(error)},
            )


def changed_topics(records: Sequence[MetadataRecord], table: PartitionTable) -> set[str]:
    """The topics that these records create, extend or delete; the last are still in the table."""
    names = set()
    for record in records:
        match record:
            case TopicCreated(name):
                names.add(name)
            case PartitionsAdded(topic_id) | TopicDeleted(topic_id):
                hosted = table.by_id.get(topic_id)
                if hosted is not None:
                    names.add(hosted.name)
    return names
