"""GetTelemetrySubscriptions (key 71): versions 0, flexible from 0.

The metrics that a client should push (KIP-714).
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import ZERO_UUID, boolean, int8, int16, int32, string, uuid


class GetTelemetrySubscriptionsRequest(Struct, versions=(0, 0), flexible_since=0):
    client_instance_id: uuid = ZERO_UUID


class GetTelemetrySubscriptionsResponse(Struct, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    client_instance_id: uuid = ZERO_UUID
    subscription_id: int32 = 0
    accepted_compression_types: list[int8] = field(default_factory=list)
    push_interval_ms: int32 = 0
    telemetry_max_bytes: int32 = 0
    delta_temporality: boolean = False
    requested_metrics: list[string] = field(default_factory=list)
