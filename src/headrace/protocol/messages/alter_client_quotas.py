"""AlterClientQuotas (key 49): versions 0-1, flexible from 1.

Sets and removes client quotas.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import boolean, float64, int16, int32, nullable_string, string


class AlterClientQuotasRequestEntityData(Struct):
    entity_type: string = ""
    entity_name: nullable_string = ""


class OpData(Struct):
    key: string = ""
    value: float64 = 0.0
    remove: boolean = False


class AlterClientQuotasRequestEntryData(Struct):
    entity: list[AlterClientQuotasRequestEntityData] = field(default_factory=list)
    ops: list[OpData] = field(default_factory=list)


class AlterClientQuotasRequest(Struct, versions=(0, 1), flexible_since=1):
    entries: list[AlterClientQuotasRequestEntryData] = field(default_factory=list)
    validate_only: boolean = False


class AlterClientQuotasResponseEntityData(Struct):
    entity_type: string = ""
    entity_name: nullable_string = ""


class AlterClientQuotasResponseEntryData(Struct):
    error_code: int16 = 0
    error_message: nullable_string = ""
    entity: list[AlterClientQuotasResponseEntityData] = field(default_factory=list)


class AlterClientQuotasResponse(Struct, versions=(0, 1), flexible_since=1):
    throttle_time_ms: int32 = 0
    entries: list[AlterClientQuotasResponseEntryData] = field(default_factory=list)
