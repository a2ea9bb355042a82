"""Settings of test brokers that avoid the delays of Kafka's defaults."""

from typing import Final

TEST_SETTINGS: Final[dict[str, str]] = {
    "group.initial.rebalance.delay.ms": "0",  # a group in a test need not wait for more members
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "1",  # fewer files to create for the first group
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}
