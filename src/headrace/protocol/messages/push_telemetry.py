"""PushTelemetry (key 72): versions 0, flexible from 0.

Metrics pushed by a client (KIP-714).
"""

from headrace.protocol.struct import Struct
from headrace.protocol.types import ZERO_UUID, boolean, bytes_, int8, int16, int32, uuid


class PushTelemetryRequest(Struct, versions=(0, 0), flexible_since=0):
    client_instance_id: uuid = ZERO_UUID
    subscription_id: int32 = 0
    terminating: boolean = False
    compression_type: int8 = 0
    metrics: bytes_ = b""


class PushTelemetryResponse(Struct, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
