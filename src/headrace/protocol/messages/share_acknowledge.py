"""ShareAcknowledge (key 79): versions 1-2, flexible from 0.

Acknowledges records acquired by a share group's member. v2 adds lock renewal.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import (
    ZERO_UUID,
    boolean,
    int8,
    int16,
    int32,
    int64,
    nullable_string,
    string,
    uuid,
)


class ShareAcknowledgeAcknowledgementBatch(Struct):
    first_offset: int64 = 0
    last_offset: int64 = 0
    acknowledge_types: list[int8] = field(default_factory=list)


class AcknowledgePartition(Struct):
    partition_index: int32 = 0
    acknowledgement_batches: list[ShareAcknowledgeAcknowledgementBatch] = field(
        default_factory=list
    )


class AcknowledgeTopic(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: list[AcknowledgePartition] = field(default_factory=list)


class ShareAcknowledgeRequest(Struct, versions=(1, 2), flexible_since=0):
    group_id: nullable_string = None
    member_id: nullable_string = ""
    share_session_epoch: int32 = 0
    is_renew_ack: boolean = field(since=2, default=False)
    topics: list[AcknowledgeTopic] = field(default_factory=list)


class ShareAcknowledgeLeaderIdAndEpoch(Struct):
    leader_id: int32 = 0
    leader_epoch: int32 = 0


class ShareAcknowledgePartitionData(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: nullable_string = None
    current_leader: ShareAcknowledgeLeaderIdAndEpoch = field(
        default_factory=ShareAcknowledgeLeaderIdAndEpoch
    )


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: list[ShareAcknowledgePartitionData] = field(default_factory=list)


class ShareAcknowledgeNodeEndpoint(Struct):
    node_id: int32 = 0
    host: string = ""
    port: int32 = 0
    rack: nullable_string = None


class ShareAcknowledgeResponse(Struct, versions=(1, 2), flexible_since=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: nullable_string = None
    acquisition_lock_timeout_ms: int32 = field(since=2, ignorable=True, default=0)
    responses: list[ShareAcknowledgeTopicResponse] = field(default_factory=list)
    node_endpoints: list[ShareAcknowledgeNodeEndpoint] = field(default_factory=list)
