"""Leader epochs after metadata was restored from a backup. Pure.

The logs hold records of leader epochs that are newer than the backup. If epochs continued from
the backup's values, some would be used twice and replicas could not tell their records apart. So
every epoch is raised far above any that can have been used since the backup.
"""

from collections.abc import Iterator
from typing import Final

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import PartitionChanged

JUMP: Final = 1_000_000
"""More leader changes than a partition has between backup and restore; 1/2000 of all epochs."""


def raised_epochs(image: MetadataImage) -> Iterator[PartitionChanged]:
    """Every partition with the same leader and a much higher leader epoch."""
    for topic in image.topics.values():
        for index, partition in enumerate(topic.partitions):
            raised = partition._replace(
                leader_epoch=partition.leader_epoch + JUMP,
                partition_epoch=partition.partition_epoch + 1,
            )
            yield PartitionChanged(topic.topic_id, index, raised)
