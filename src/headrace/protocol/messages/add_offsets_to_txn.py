"""AddOffsetsToTxn (key 25): versions 0-4, flexible from 3.

Adds a group's offsets to a transaction.
"""

from headrace.protocol.struct import Struct
from headrace.protocol.types import int16, int32, int64, string


class AddOffsetsToTxnRequest(Struct, versions=(0, 4), flexible_since=3):
    transactional_id: string = ""
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    group_id: string = ""


class AddOffsetsToTxnResponse(Struct, versions=(0, 4), flexible_since=3):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
