"""The partitions of a topic of the snapshot. Pure."""

from headrace.client.results import TopicPartition
from headrace.console.cluster.snapshot import TopicState


def indexes_of(topic: TopicState) -> list[int]:
    return [each.partition for each in topic.partitions]


def partitions_of_topic(topic: TopicState) -> list[TopicPartition]:
    return [TopicPartition(topic.name, each.partition) for each in topic.partitions]
