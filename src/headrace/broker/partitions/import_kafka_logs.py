"""Imports the topics of a data directory that Apache Kafka wrote, on a node without metadata.

Only a new metadata store imports them. Later, a directory that the metadata does not contain is a
stray log and stays untouched.
"""

from collections import defaultdict
from collections.abc import Iterable

from headrace.cluster.metadata_records import TopicCreated
from headrace.cluster.topology import CLUSTER_METADATA_TOPIC, Partition
from headrace.storage.directories.log_manager import NO_TOPIC_ID
from headrace.storage.log.log import Log


def imported_topics(logs: Iterable[Log], node_id: int) -> list[TopicCreated]:
    """One record for each topic to import: all its partitions are here, numbered from 0, with one
    topic id."""
    found: dict[str, dict[int, Log]] = defaultdict(dict)
    for log in logs:
        found[log.topic][log.partition] = log
    records = []
    for name, partitions in sorted(found.items()):
        # A partition without records has not stored its topic id.
        ids = {log.topic_id for log in partitions.values()} - {NO_TOPIC_ID}
        complete = set(partitions) == set(range(len(partitions)))
        if name == CLUSTER_METADATA_TOPIC or not complete or len(ids) != 1:
            continue
        led = tuple(
            Partition((node_id,), (node_id,), node_id, max(0, partitions[index].latest_epoch))
            for index in range(len(partitions))
        )
        records.append(TopicCreated(name, ids.pop(), led))
    return records
