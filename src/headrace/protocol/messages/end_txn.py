"""EndTxn (key 26): versions 0-5, flexible from 3.

Commits or aborts a transaction. v5 answers with the producer id and epoch for the next one.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import boolean, int16, int32, int64, string


class EndTxnRequest(Struct, versions=(0, 5), flexible_since=3):
    transactional_id: string = ""
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    committed: boolean = False


class EndTxnResponse(Struct, versions=(0, 5), flexible_since=3):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    producer_id: int64 = field(since=5, ignorable=True, default=-1)
    producer_epoch: int16 = field(since=5, ignorable=True, default=-1)
