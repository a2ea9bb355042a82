"""DeleteTopics (key 20): versions 1-6, flexible from 4.

Deletes topics, by name and from v6 also by id.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import ZERO_UUID, int16, int32, nullable_string, string, uuid


class DeleteTopicState(Struct):
    name: nullable_string = None
    topic_id: uuid = ZERO_UUID


class DeleteTopicsRequest(Struct, versions=(1, 6), flexible_since=4):
    topics: list[DeleteTopicState] = field(since=6, default_factory=list)
    topic_names: list[string] = field(until=5, ignorable=True, default_factory=list)
    timeout_ms: int32 = 0


class DeletableTopicResult(Struct):
    name: nullable_string = field(nullable_since=6, default="")
    topic_id: uuid = field(since=6, ignorable=True, default=ZERO_UUID)
    error_code: int16 = 0
    error_message: nullable_string = field(since=5, ignorable=True, default=None)


class DeleteTopicsResponse(Struct, versions=(1, 6), flexible_since=4):
    throttle_time_ms: int32 = 0
    responses: list[DeletableTopicResult] = field(default_factory=list)
