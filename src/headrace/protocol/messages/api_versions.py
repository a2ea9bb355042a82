"""ApiVersions (key 18): versions 0-4, flexible from 3.

The APIs and versions that the broker serves. v3 adds the client's name and the features; the answer
to an unknown version is v0, and its header never has tags.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import boolean, int16, int32, int64, string


class ApiVersionsRequest(Struct, versions=(0, 4), flexible_since=3):
    client_software_name: string = field(since=3, ignorable=True, default="")
    client_software_version: string = field(since=3, ignorable=True, default="")


class ApiVersion(Struct):
    api_key: int16 = 0
    min_version: int16 = 0
    max_version: int16 = 0


class SupportedFeatureKey(Struct):
    name: string = ""
    min_version: int16 = 0
    max_version: int16 = 0


class FinalizedFeatureKey(Struct):
    name: string = ""
    max_version_level: int16 = 0
    min_version_level: int16 = 0


class ApiVersionsResponse(Struct, versions=(0, 4), flexible_since=3):
    error_code: int16 = 0
    api_keys: list[ApiVersion] = field(default_factory=list)
    throttle_time_ms: int32 = field(since=1, ignorable=True, default=0)
    supported_features: list[SupportedFeatureKey] = field(
        since=3, tag=0, ignorable=True, default_factory=list
    )
    finalized_features_epoch: int64 = field(since=3, tag=1, ignorable=True, default=-1)
    finalized_features: list[FinalizedFeatureKey] = field(
        since=3, tag=2, ignorable=True, default_factory=list
    )
    zk_migration_ready: boolean = field(since=3, tag=3, ignorable=True, default=False)
