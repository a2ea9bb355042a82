"""Settings for brokers of tests, where Kafka's defaults cost time and gain nothing."""

from typing import Final

TEST_SETTINGS: Final[dict[str, str]] = {
    "group.initial.rebalance.delay.ms": "0",  # a test's group need not wait for more members
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "1",  # fewer files to make when the first group comes
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}
