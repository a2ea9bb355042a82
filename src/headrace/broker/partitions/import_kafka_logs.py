"""Topics found on disk by a node without metadata: a directory that Apache Kafka wrote.

Only a brand-new store adopts them. Later, a directory that the metadata does not know is a stray
and stays untouched.
"""

from collections import defaultdict
from collections.abc import Iterable

from headrace.cluster.records import TopicCreated
from headrace.cluster.topology import CLUSTER_METADATA_TOPIC, Partition
from headrace.storage.directories.log_manager import NO_TOPIC_ID
from headrace.storage.log.log import Log


def adopt(logs: Iterable[Log], node_id: int) -> list[TopicCreated]:
    """One record for each topic whose partitions are all here, numbered from 0, with one id."""
    found: dict[str, dict[int, Log]] = defaultdict(dict)
    for log in logs:
        found[log.topic][log.partition] = log
    records = []
    for name, partitions in sorted(found.items()):
        # A partition that never had a record has not written its id down.
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
