"""AddPartitionsToTxn (key 24): versions 0-5, flexible from 3.

Adds partitions to a transaction. From v4 brokers send many transactions at once; clients stay at
v3.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import boolean, int16, int32, int64, string


class AddPartitionsToTxnTopic(Struct):
    name: string = ""
    partitions: list[int32] = field(default_factory=list)


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: string = ""
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    verify_only: boolean = False
    topics: list[AddPartitionsToTxnTopic] = field(default_factory=list)


class AddPartitionsToTxnRequest(Struct, versions=(0, 5), flexible_since=3):
    transactions: list[AddPartitionsToTxnTransaction] = field(since=4, default_factory=list)
    v3_and_below_transactional_id: string = field(until=3, default="")
    v3_and_below_producer_id: int64 = field(until=3, default=0)
    v3_and_below_producer_epoch: int16 = field(until=3, default=0)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(until=3, default_factory=list)


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int32 = 0
    partition_error_code: int16 = 0


class AddPartitionsToTxnTopicResult(Struct):
    name: string = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(default_factory=list)


class AddPartitionsToTxnResult(Struct):
    transactional_id: string = ""
    topic_results: list[AddPartitionsToTxnTopicResult] = field(default_factory=list)


class AddPartitionsToTxnResponse(Struct, versions=(0, 5), flexible_since=3):
    throttle_time_ms: int32 = 0
    error_code: int16 = field(since=4, ignorable=True, default=0)
    results_by_transaction: list[AddPartitionsToTxnResult] = field(since=4, default_factory=list)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(
        until=3, default_factory=list
    )
