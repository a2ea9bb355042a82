"""DeleteGroups (key 42): versions 0-2, flexible from 2.

Deletes groups without members.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import int16, int32, string


class DeleteGroupsRequest(Struct, versions=(0, 2), flexible_since=2):
    groups_names: list[string] = field(default_factory=list)


class DeletableGroupResult(Struct):
    group_id: string = ""
    error_code: int16 = 0


class DeleteGroupsResponse(Struct, versions=(0, 2), flexible_since=2):
    throttle_time_ms: int32 = 0
    results: list[DeletableGroupResult] = field(default_factory=list)
