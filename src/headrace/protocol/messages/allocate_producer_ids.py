"""AllocateProducerIds (key 67): version 0, flexible. Between brokers.

A broker requests a block of producer ids from the controller.
"""

from headrace.protocol.struct import Struct
from headrace.protocol.types import int16, int32, int64


class AllocateProducerIdsRequest(Struct, versions=(0, 0), flexible_since=0):
    broker_id: int32 = 0
    broker_epoch: int64 = -1


class AllocateProducerIdsResponse(Struct, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    producer_id_start: int64 = 0
    producer_id_len: int32 = 0
