"""InitProducerId (key 22): versions 0-6, flexible from 2.

Assigns a producer id and epoch. v3 can raise the epoch of an id in use; v6 (two-phase commit) is
not stable yet and not served.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import boolean, int16, int32, int64, nullable_string


class InitProducerIdRequest(Struct, versions=(0, 6), flexible_since=2):
    transactional_id: nullable_string = ""
    transaction_timeout_ms: int32 = 0
    producer_id: int64 = field(since=3, default=-1)
    producer_epoch: int16 = field(since=3, default=-1)
    enable2_pc: boolean = field(since=6, default=False)
    keep_prepared_txn: boolean = field(since=6, default=False)


class InitProducerIdResponse(Struct, versions=(0, 6), flexible_since=2):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    producer_id: int64 = -1
    producer_epoch: int16 = 0
    ongoing_txn_producer_id: int64 = field(since=6, default=-1)
    ongoing_txn_producer_epoch: int16 = field(since=6, default=-1)
