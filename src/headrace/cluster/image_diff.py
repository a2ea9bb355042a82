"""What has changed between two images, as records. Pure.

For a broker that gets a whole image where it had an older one: after a new controller, or after
it was away for long. Cost follows what differs; equal objects are not looked into.
"""

from collections.abc import Iterator

from headrace.cluster.image import MetadataImage
from headrace.cluster.records import (
    BrokerRegistered,
    BrokerUnregistered,
    ClusterNamed,
    ConfigChanged,
    ControllerElected,
    FeatureSet,
    MetadataRecord,
    PartitionChanged,
    PartitionsAdded,
    ProducerIdsReserved,
    TopicCreated,
    TopicDeleted,
)
from headrace.cluster.resources import ResourceType
from headrace.cluster.topology import Topic


def records_between(before: MetadataImage, after: MetadataImage) -> Iterator[MetadataRecord]:
    """`before.apply(records)` is `after`, but for its version."""
    if before.cluster_id != after.cluster_id:
        yield ClusterNamed(after.cluster_id)
    office = (after.controller_id, after.controller_epoch)
    if (before.controller_id, before.controller_epoch) != office:
        yield ControllerElected(*office)
    if before.next_producer_id != after.next_producer_id:
        yield ProducerIdsReserved(after.next_producer_id)
    yield from _features(before, after)
    yield from _brokers(before, after)
    yield from _topics(before, after)
    yield from _configs(before, after)


def _features(before: MetadataImage, after: MetadataImage) -> Iterator[MetadataRecord]:
    for name in {**before.features, **after.features}:
        level = after.features.get(name, 0)
        if before.features.get(name, 0) != level:
            yield FeatureSet(name, level)


def _brokers(before: MetadataImage, after: MetadataImage) -> Iterator[MetadataRecord]:
    for id_ in before.brokers:
        if id_ not in after.brokers:
            yield BrokerUnregistered(id_)
    for id_, broker in after.brokers.items():
        if before.brokers.get(id_) != broker:
            yield BrokerRegistered(broker)


def _topics(before: MetadataImage, after: MetadataImage) -> Iterator[MetadataRecord]:
    if before.topics is after.topics:
        return
    for topic_id in before.topics_by_id:
        if topic_id not in after.topics_by_id:
            yield TopicDeleted(topic_id, inferred=True)
    for topic in after.topics.values():
        known = before.topics_by_id.get(topic.topic_id)
        if known is None:
            yield TopicCreated(*topic)
        elif known is not topic:
            yield from _partitions(known, topic)


def _partitions(before: Topic, after: Topic) -> Iterator[MetadataRecord]:
    have = len(before.partitions)
    for index, partition in enumerate(after.partitions[:have]):
        if before.partitions[index] != partition:
            yield PartitionChanged(after.topic_id, index, partition)
    if len(after.partitions) > have:
        yield PartitionsAdded(after.topic_id, after.partitions[have:])


def _configs(before: MetadataImage, after: MetadataImage) -> Iterator[MetadataRecord]:
    if before.configs is after.configs:
        return
    for resource in {**before.configs, **after.configs}:
        old, new = before.config(resource), after.config(resource)
        if resource.type is ResourceType.TOPIC and _is_another_topic(before, after, resource.name):
            old = {}  # gone with the topic that had this name
        for name in {**old, **new}:
            if old.get(name) != new.get(name):
                yield ConfigChanged(resource, name, new.get(name))


def _is_another_topic(before: MetadataImage, after: MetadataImage, name: str) -> bool:
    old, new = before.topics.get(name), after.topics.get(name)
    return old is not None and (new is None or new.topic_id != old.topic_id)
