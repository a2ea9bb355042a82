"""DescribeTransactions (key 65): versions 0, flexible from 0.

State of transactions by their ids.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import int16, int32, int64, string


class DescribeTransactionsRequest(Struct, versions=(0, 0), flexible_since=0):
    transactional_ids: list[string] = field(default_factory=list)


class DescribeTransactionsTopicData(Struct):
    topic: string = ""
    partitions: list[int32] = field(default_factory=list)


class DescribeTransactionsTransactionState(Struct):
    error_code: int16 = 0
    transactional_id: string = ""
    transaction_state: string = ""
    transaction_timeout_ms: int32 = 0
    transaction_start_time_ms: int64 = 0
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    topics: list[DescribeTransactionsTopicData] = field(default_factory=list)


class DescribeTransactionsResponse(Struct, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int32 = 0
    transaction_states: list[DescribeTransactionsTransactionState] = field(default_factory=list)
