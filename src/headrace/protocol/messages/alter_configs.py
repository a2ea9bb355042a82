"""AlterConfigs (key 33): versions 0-2, flexible from 2.

Replaces the whole configuration of resources; superseded by IncrementalAlterConfigs.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import boolean, int8, int16, int32, nullable_string, string


class AlterConfigsAlterableConfig(Struct):
    name: string = ""
    value: nullable_string = ""


class AlterConfigsResource(Struct):
    resource_type: int8 = 0
    resource_name: string = ""
    configs: list[AlterConfigsAlterableConfig] = field(default_factory=list)


class AlterConfigsRequest(Struct, versions=(0, 2), flexible_since=2):
    resources: list[AlterConfigsResource] = field(default_factory=list)
    validate_only: boolean = False


class AlterConfigsResourceResponse(Struct):
    error_code: int16 = 0
    error_message: nullable_string = ""
    resource_type: int8 = 0
    resource_name: string = ""


class AlterConfigsResponse(Struct, versions=(0, 2), flexible_since=2):
    throttle_time_ms: int32 = 0
    responses: list[AlterConfigsResourceResponse] = field(default_factory=list)
