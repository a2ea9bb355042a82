"""Counts what consumers read, for each topic."""

from headrace.broker.fetch.fetch_reader import FetchedPartitions
from headrace.broker.partitions.partition_table import PartitionTable
from headrace.protocol.errors import ErrorCode

# What a client does in normal operation: it asks another broker, or resets its position.
_EXPECTED = frozenset(
    (
        ErrorCode.NONE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.OFFSET_OUT_OF_RANGE,
    )
)


def count_fetched(table: PartitionTable, fetched: FetchedPartitions, *, by_topic_id: bool) -> None:
    """Counts the partitions of one Fetch response; unknown topics have no counters."""
    for wanted, data in fetched.data:
        topic = table.by_id.get(wanted.topic_id) if by_topic_id else table.by_name.get(wanted.topic)
        if topic is None or topic.traffic is None:
            continue
        traffic = topic.traffic
        traffic.fetches += 1
        if data.records:
            traffic.bytes_out += len(data.records)
        elif data.error_code and data.error_code not in _EXPECTED:
            traffic.failed_fetches += 1
