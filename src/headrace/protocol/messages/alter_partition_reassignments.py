"""AlterPartitionReassignments (key 45): versions 0-1, flexible from 0.

Starts, changes or cancels the move of replicas. v1 can forbid a change of the replication factor.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import boolean, int16, int32, nullable_string, string


class ReassignablePartition(Struct):
    partition_index: int32 = 0
    replicas: list[int32] | None = None


class ReassignableTopic(Struct):
    name: string = ""
    partitions: list[ReassignablePartition] = field(default_factory=list)


class AlterPartitionReassignmentsRequest(Struct, versions=(0, 1), flexible_since=0):
    timeout_ms: int32 = 60000
    allow_replication_factor_change: boolean = field(since=1, default=True)
    topics: list[ReassignableTopic] = field(default_factory=list)


class ReassignablePartitionResponse(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: nullable_string = ""


class ReassignableTopicResponse(Struct):
    name: string = ""
    partitions: list[ReassignablePartitionResponse] = field(default_factory=list)


class AlterPartitionReassignmentsResponse(Struct, versions=(0, 1), flexible_since=0):
    throttle_time_ms: int32 = 0
    allow_replication_factor_change: boolean = field(since=1, ignorable=True, default=True)
    error_code: int16 = 0
    error_message: nullable_string = ""
    responses: list[ReassignableTopicResponse] = field(default_factory=list)
