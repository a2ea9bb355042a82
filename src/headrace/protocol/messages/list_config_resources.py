"""ListConfigResources (key 74): versions 0-1, flexible from 0.

Resources that can have configuration. v0 lists client-metrics resources only.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import int8, int16, int32, string


class ListConfigResourcesRequest(Struct, versions=(0, 1), flexible_since=0):
    resource_types: list[int8] = field(since=1, default_factory=list)


class ConfigResource(Struct):
    resource_name: string = ""
    resource_type: int8 = field(since=1, ignorable=True, default=16)


class ListConfigResourcesResponse(Struct, versions=(0, 1), flexible_since=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    config_resources: list[ConfigResource] = field(default_factory=list)
