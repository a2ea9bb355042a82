"""ListGroups (key 16): versions 0-5, flexible from 3.

The groups that a broker coordinates. v4 filters by state, v5 by type.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import int16, int32, string


class ListGroupsRequest(Struct, versions=(0, 5), flexible_since=3):
    states_filter: list[string] = field(since=4, default_factory=list)
    types_filter: list[string] = field(since=5, default_factory=list)


class ListedGroup(Struct):
    group_id: string = ""
    protocol_type: string = ""
    group_state: string = field(since=4, ignorable=True, default="")
    group_type: string = field(since=5, ignorable=True, default="")


class ListGroupsResponse(Struct, versions=(0, 5), flexible_since=3):
    throttle_time_ms: int32 = field(since=1, ignorable=True, default=0)
    error_code: int16 = 0
    groups: list[ListedGroup] = field(default_factory=list)
