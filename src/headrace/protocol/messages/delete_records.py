"""DeleteRecords (key 21): versions 0-2, flexible from 2.

Moves the log start of partitions forward.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import int16, int32, int64, string


class DeleteRecordsPartition(Struct):
    partition_index: int32 = 0
    offset: int64 = 0


class DeleteRecordsTopic(Struct):
    name: string = ""
    partitions: list[DeleteRecordsPartition] = field(default_factory=list)


class DeleteRecordsRequest(Struct, versions=(0, 2), flexible_since=2):
    topics: list[DeleteRecordsTopic] = field(default_factory=list)
    timeout_ms: int32 = 0


class DeleteRecordsPartitionResult(Struct):
    partition_index: int32 = 0
    low_watermark: int64 = 0
    error_code: int16 = 0


class DeleteRecordsTopicResult(Struct):
    name: string = ""
    partitions: list[DeleteRecordsPartitionResult] = field(default_factory=list)


class DeleteRecordsResponse(Struct, versions=(0, 2), flexible_since=2):
    throttle_time_ms: int32 = 0
    topics: list[DeleteRecordsTopicResult] = field(default_factory=list)
