"""DescribeConfigs (key 32): versions 1-4, flexible from 4.

Configuration of topics, brokers and other resources. v3 adds type and documentation.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import boolean, int8, int16, int32, nullable_string, string


class DescribeConfigsResource(Struct):
    resource_type: int8 = 0
    resource_name: string = ""
    configuration_keys: list[string] | None = field(default_factory=list)


class DescribeConfigsRequest(Struct, versions=(1, 4), flexible_since=4):
    resources: list[DescribeConfigsResource] = field(default_factory=list)
    include_synonyms: boolean = False
    include_documentation: boolean = field(since=3, default=False)


class DescribeConfigsSynonym(Struct):
    name: string = ""
    value: nullable_string = ""
    source: int8 = 0


class DescribeConfigsResourceResult(Struct):
    name: string = ""
    value: nullable_string = ""
    read_only: boolean = False
    config_source: int8 = -1
    is_sensitive: boolean = False
    synonyms: list[DescribeConfigsSynonym] = field(default_factory=list)
    config_type: int8 = field(since=3, ignorable=True, default=0)
    documentation: nullable_string = field(since=3, ignorable=True, default="")


class DescribeConfigsResult(Struct):
    error_code: int16 = 0
    error_message: nullable_string = ""
    resource_type: int8 = 0
    resource_name: string = ""
    configs: list[DescribeConfigsResourceResult] = field(default_factory=list)


class DescribeConfigsResponse(Struct, versions=(1, 4), flexible_since=4):
    throttle_time_ms: int32 = 0
    results: list[DescribeConfigsResult] = field(default_factory=list)
