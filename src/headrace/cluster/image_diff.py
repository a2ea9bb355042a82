"""The difference between two images, as records. Pure.

A broker needs it when it gets a whole image in place of an older one: from a new controller, or
after a long absence. The cost depends on the difference; identical objects are not compared.
"""

from collections.abc import Iterator

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import (
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
from headrace.cluster.resources import ConfigResourceType
from headrace.cluster.topology import Topic


def records_between(before: MetadataImage, after: MetadataImage) -> Iterator[MetadataRecord]:
    """The records with which `before.apply(records)` equals `after`, except for its version."""
    if before.cluster_id != after.cluster_id:
        yield ClusterNamed(after.cluster_id)
    controller = (after.controller_id, after.controller_epoch)
    if (before.controller_id, before.controller_epoch) != controller:
        yield ControllerElected(*controller)
    if before.next_producer_id != after.next_producer_id:
        yield ProducerIdsReserved(after.next_producer_id)
    yield from _changed_features(before, after)
    yield from _changed_brokers(before, after)
    yield from _changed_topics(before, after)
    yield from _changed_configs(before, after)


def _changed_features(before: MetadataImage, after: MetadataImage) -> Iterator[MetadataRecord]:
    for name in {**before.features, **after.features}:
        level = after.features.get(name, 0)
        if before.features.get(name, 0) != level:
            yield FeatureSet(name, level)


def _changed_brokers(before: MetadataImage, after: MetadataImage) -> Iterator[MetadataRecord]:
    for id_ in before.brokers:
        if id_ not in after.brokers:
            yield BrokerUnregistered(id_)
    for id_, broker in after.brokers.items():
        if before.brokers.get(id_) != broker:
            yield BrokerRegistered(broker)


def _changed_topics(before: MetadataImage, after: MetadataImage) -> Iterator[MetadataRecord]:
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
            yield from _changed_partitions(known, topic)


def _changed_partitions(before: Topic, after: Topic) -> Iterator[MetadataRecord]:
    have = len(before.partitions)
    for index, partition in enumerate(after.partitions[:have]):
        if before.partitions[index] != partition:
            yield PartitionChanged(after.topic_id, index, partition)
    if len(after.partitions) > have:
        yield PartitionsAdded(after.topic_id, after.partitions[have:])


def _changed_configs(before: MetadataImage, after: MetadataImage) -> Iterator[MetadataRecord]:
    if before.configs is after.configs:
        return
    for resource in {**before.configs, **after.configs}:
        old, new = before.config(resource), after.config(resource)
        if resource.type is ConfigResourceType.TOPIC and _topic_was_replaced(
            before, after, resource.name
        ):
            old = {}  # deleted with the topic that had this name
        for name in {**old, **new}:
            if old.get(name) != new.get(name):
                yield ConfigChanged(resource, name, new.get(name))


def _topic_was_replaced(before: MetadataImage, after: MetadataImage, name: str) -> bool:
    old, new = before.topics.get(name), after.topics.get(name)
    return old is not None and (new is None or new.topic_id != old.topic_id)
