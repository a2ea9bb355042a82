"""DeleteShareGroupOffsets (key 92): versions 0, flexible from 0.

Removes start offsets of share groups.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import ZERO_UUID, int16, int32, nullable_string, string, uuid


class DeleteShareGroupOffsetsRequestTopic(Struct):
    topic_name: string = ""


class DeleteShareGroupOffsetsRequest(Struct, versions=(0, 0), flexible_since=0):
    group_id: string = ""
    topics: list[DeleteShareGroupOffsetsRequestTopic] = field(default_factory=list)


class DeleteShareGroupOffsetsResponseTopic(Struct):
    topic_name: string = ""
    topic_id: uuid = ZERO_UUID
    error_code: int16 = 0
    error_message: nullable_string = None


class DeleteShareGroupOffsetsResponse(Struct, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: nullable_string = None
    responses: list[DeleteShareGroupOffsetsResponseTopic] = field(default_factory=list)
