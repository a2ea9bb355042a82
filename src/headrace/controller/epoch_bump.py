"""Leader epochs after metadata was restored from a backup. Pure.

The logs have records of later leaders than the backup knows of. Epochs that went on from the
backup's would be given twice: replicas could not tell whose records are whose. Far above all that
can have been given since, they are new again.
"""

from collections.abc import Iterator
from typing import Final

from headrace.cluster.image import MetadataImage
from headrace.cluster.records import PartitionChanged

JUMP: Final = 1_000_000
"""More than the leaders of one partition between a backup and its use; a 2,000th of all epochs."""


def raised_epochs(image: MetadataImage) -> Iterator[PartitionChanged]:
    """Every partition, with the same leader in an epoch far above."""
    for topic in image.topics.values():
        for index, partition in enumerate(topic.partitions):
            raised = partition._replace(
                leader_epoch=partition.leader_epoch + JUMP,
                partition_epoch=partition.partition_epoch + 1,
            )
            yield PartitionChanged(topic.topic_id, index, raised)
