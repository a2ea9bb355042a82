"""DescribeClientQuotas (key 48): versions 0-1, flexible from 1.

Lists client quotas that match a filter.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import boolean, float64, int8, int16, int32, nullable_string, string


class ComponentData(Struct):
    entity_type: string = ""
    match_type: int8 = 0
    match: nullable_string = ""


class DescribeClientQuotasRequest(Struct, versions=(0, 1), flexible_since=1):
    components: list[ComponentData] = field(default_factory=list)
    strict: boolean = False


class DescribeClientQuotasEntityData(Struct):
    entity_type: string = ""
    entity_name: nullable_string = ""


class ValueData(Struct):
    key: string = ""
    value: float64 = 0.0


class DescribeClientQuotasEntryData(Struct):
    entity: list[DescribeClientQuotasEntityData] = field(default_factory=list)
    values: list[ValueData] = field(default_factory=list)


class DescribeClientQuotasResponse(Struct, versions=(0, 1), flexible_since=1):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: nullable_string = ""
    entries: list[DescribeClientQuotasEntryData] | None = field(default_factory=list)
