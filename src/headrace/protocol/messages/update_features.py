"""UpdateFeatures (key 57): versions 0-2, flexible from 0.

Raises or lowers finalized features. v1 has upgrade types and dry runs; v2 answers for the whole
request only.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import boolean, int8, int16, int32, nullable_string, string


class FeatureUpdateKey(Struct):
    feature: string = ""
    max_version_level: int16 = 0
    allow_downgrade: boolean = field(until=0, default=False)
    upgrade_type: int8 = field(since=1, default=1)


class UpdateFeaturesRequest(Struct, versions=(0, 2), flexible_since=0):
    timeout_ms: int32 = 60000
    feature_updates: list[FeatureUpdateKey] = field(default_factory=list)
    validate_only: boolean = field(since=1, default=False)


class UpdatableFeatureResult(Struct):
    feature: string = ""
    error_code: int16 = 0
    error_message: nullable_string = ""


class UpdateFeaturesResponse(Struct, versions=(0, 2), flexible_since=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: nullable_string = ""
    results: list[UpdatableFeatureResult] = field(until=1, ignorable=True, default_factory=list)
