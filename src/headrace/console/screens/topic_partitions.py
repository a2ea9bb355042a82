"""The partitions of a topic of the snapshot. Pure."""

from headrace.client.results import TopicPartition
from headrace.console.cluster.snapshot import TopicState


def indexes_of(topic: TopicState) -> list[int]:
    # By position: type checkers take `index` of a named tuple for the method of tuples.
    return [each[0] for each in topic.partitions]


def partitions_of_topic(topic: TopicState) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for index in indexes_of(topic)]
