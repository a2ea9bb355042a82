"""An image as the records that build it, for a broker without any metadata. Pure."""

from collections.abc import Iterator

from headrace.cluster.image import MetadataImage
from headrace.cluster.records import (
    BrokerRegistered,
    ClusterNamed,
    ConfigChanged,
    ControllerElected,
    FeatureSet,
    MetadataRecord,
    ProducerIdsReserved,
    TopicCreated,
)


def records_of(image: MetadataImage) -> Iterator[MetadataRecord]:
    """Records that build the image from an empty one, except for its version."""
    yield ClusterNamed(image.cluster_id)
    yield ControllerElected(image.controller_id, image.controller_epoch)
    yield ProducerIdsReserved(image.next_producer_id)
    for name, level in image.features.items():
        yield FeatureSet(name, level)
    for broker in image.brokers.values():
        yield BrokerRegistered(broker)
    for topic in image.topics.values():
        yield TopicCreated(topic.name, topic.topic_id, topic.partitions)
    for resource, values in image.configs.items():
        for name, value in values.items():
            yield ConfigChanged(resource, name, value)
