"""The subscribed topics of a group in the current metadata: the input of its assignments."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b

from headrace.cluster.image import MetadataImage
from headrace.coordinator.group.modern.assignor_spec import Assignment

_TOPICS_IN_CACHE = 10_000
_INT64 = 1 << 64


def topic_ids(names: Iterable[str], image: MetadataImage) -> frozenset[bytes]:
    """The ids of those topics that exist."""
    topics = image.topics
    return frozenset(topics[name].topic_id for name in names if name in topics)


def metadata_hash(names: Iterable[str], image: MetadataImage) -> int:
    """Changes when one of the topics is created, deleted, recreated or gets more partitions.

    As in Kafka, the hash of no topics is 0. Any 64-bit hash works: only coordinators compare it,
    and a coordinator that finds a different hash makes a new assignment. A sum does not depend on
    the order of names.
    """
    topics = image.topics
    total = 0
    for name in names:
        topic = topics.get(name)
        if topic is not None:
            total += _topic_hash(topic.topic_id, len(topic.partitions))
    total %= _INT64
    return total - _INT64 if total >= _INT64 // 2 else total


@lru_cache(maxsize=_TOPICS_IN_CACHE)
def _topic_hash(topic_id: bytes, partitions: int) -> int:
    digest = blake2b(topic_id + partitions.to_bytes(4, "big"), digest_size=8)
    return int.from_bytes(digest.digest(), "big")


def partition_counts(ids: Iterable[bytes], image: MetadataImage) -> Mapping[bytes, int]:
    """The partition count of each of these topics; all of them must exist."""
    topics = image.topics_by_id
    return {topic_id: len(topics[topic_id].partitions) for topic_id in ids}


def with_topic_names(
    assignment: Assignment, image: MetadataImage
) -> list[tuple[str, bytes, list[int]]]:
    """Name, id and partitions of each topic that still exists."""
    topics = image.topics_by_id
    return [
        (topics[topic_id].name, topic_id, sorted(partitions))
        for topic_id, partitions in assignment.items()
        if topic_id in topics
    ]
