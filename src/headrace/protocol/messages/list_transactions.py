"""ListTransactions (key 66): versions 0-2, flexible from 0.

The transactions that a broker coordinates. v1 filters by duration, v2 by a pattern of the id.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import int16, int32, int64, nullable_string, string


class ListTransactionsRequest(Struct, versions=(0, 2), flexible_since=0):
    state_filters: list[string] = field(default_factory=list)
    producer_id_filters: list[int64] = field(default_factory=list)
    duration_filter: int64 = field(since=1, default=-1)
    transactional_id_pattern: nullable_string = field(since=2, default=None)


class ListTransactionsTransactionState(Struct):
    transactional_id: string = ""
    producer_id: int64 = 0
    transaction_state: string = ""


class ListTransactionsResponse(Struct, versions=(0, 2), flexible_since=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    unknown_state_filters: list[string] = field(default_factory=list)
    transaction_states: list[ListTransactionsTransactionState] = field(default_factory=list)
