"""ListPartitionReassignments (key 46): versions 0, flexible from 0.

The replica moves in progress.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import int16, int32, nullable_string, string


class ListPartitionReassignmentsTopics(Struct):
    name: string = ""
    partition_indexes: list[int32] = field(default_factory=list)


class ListPartitionReassignmentsRequest(Struct, versions=(0, 0), flexible_since=0):
    timeout_ms: int32 = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = None


class OngoingPartitionReassignment(Struct):
    partition_index: int32 = 0
    replicas: list[int32] = field(default_factory=list)
    adding_replicas: list[int32] = field(default_factory=list)
    removing_replicas: list[int32] = field(default_factory=list)


class OngoingTopicReassignment(Struct):
    name: string = ""
    partitions: list[OngoingPartitionReassignment] = field(default_factory=list)


class ListPartitionReassignmentsResponse(Struct, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: nullable_string = ""
    topics: list[OngoingTopicReassignment] = field(default_factory=list)
