"""IncrementalAlterConfigs (key 44): versions 0-1, flexible from 1.

Sets, removes, extends or shortens single configuration values.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import boolean, int8, int16, int32, nullable_string, string


class IncrementalAlterConfigsAlterableConfig(Struct):
    name: string = ""
    config_operation: int8 = 0
    value: nullable_string = ""


class IncrementalAlterConfigsAlterConfigsResource(Struct):
    resource_type: int8 = 0
    resource_name: string = ""
    configs: list[IncrementalAlterConfigsAlterableConfig] = field(default_factory=list)


class IncrementalAlterConfigsRequest(Struct, versions=(0, 1), flexible_since=1):
    resources: list[IncrementalAlterConfigsAlterConfigsResource] = field(default_factory=list)
    validate_only: boolean = False


class IncrementalAlterConfigsAlterConfigsResourceResponse(Struct):
    error_code: int16 = 0
    error_message: nullable_string = ""
    resource_type: int8 = 0
    resource_name: string = ""


class IncrementalAlterConfigsResponse(Struct, versions=(0, 1), flexible_since=1):
    throttle_time_ms: int32 = 0
    responses: list[IncrementalAlterConfigsAlterConfigsResourceResponse] = field(
        default_factory=list
    )
