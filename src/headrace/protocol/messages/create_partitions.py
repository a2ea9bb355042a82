"""CreatePartitions (key 37): versions 0-3, flexible from 2.

Adds partitions to topics.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import boolean, int16, int32, nullable_string, string


class CreatePartitionsAssignment(Struct):
    broker_ids: list[int32] = field(default_factory=list)


class CreatePartitionsTopic(Struct):
    name: string = ""
    count: int32 = 0
    assignments: list[CreatePartitionsAssignment] | None = field(default_factory=list)


class CreatePartitionsRequest(Struct, versions=(0, 3), flexible_since=2):
    topics: list[CreatePartitionsTopic] = field(default_factory=list)
    timeout_ms: int32 = 0
    validate_only: boolean = False


class CreatePartitionsTopicResult(Struct):
    name: string = ""
    error_code: int16 = 0
    error_message: nullable_string = None


class CreatePartitionsResponse(Struct, versions=(0, 3), flexible_since=2):
    throttle_time_ms: int32 = 0
    results: list[CreatePartitionsTopicResult] = field(default_factory=list)
