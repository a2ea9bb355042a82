"""UnregisterBroker (key 64): versions 0, flexible from 0.

Removes the registration of a broker that will not return.
"""

from headrace.protocol.struct import Struct
from headrace.protocol.types import int16, int32, nullable_string


class UnregisterBrokerRequest(Struct, versions=(0, 0), flexible_since=0):
    broker_id: int32 = 0


class UnregisterBrokerResponse(Struct, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: nullable_string = ""
