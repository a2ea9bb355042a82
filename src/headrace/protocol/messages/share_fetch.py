"""ShareFetch (key 78): versions 1-2, flexible from 0.

Acquires records for a share group's member, and acknowledges earlier ones. v2 adds the acquire mode
and lock renewal.
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
    record_set,
    string,
    uuid,
)


class ShareFetchAcknowledgementBatch(Struct):
    first_offset: int64 = 0
    last_offset: int64 = 0
    acknowledge_types: list[int8] = field(default_factory=list)


class ShareFetchFetchPartition(Struct):
    partition_index: int32 = 0
    acknowledgement_batches: list[ShareFetchAcknowledgementBatch] = field(default_factory=list)


class ShareFetchFetchTopic(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: list[ShareFetchFetchPartition] = field(default_factory=list)


class ShareFetchForgottenTopic(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: list[int32] = field(default_factory=list)


class ShareFetchRequest(Struct, versions=(1, 2), flexible_since=0):
    group_id: nullable_string = None
    member_id: nullable_string = ""
    share_session_epoch: int32 = 0
    max_wait_ms: int32 = 0
    min_bytes: int32 = 0
    max_bytes: int32 = 2147483647
    max_records: int32 = 0
    batch_size: int32 = 0
    share_acquire_mode: int8 = field(since=2, ignorable=True, default=0)
    is_renew_ack: boolean = field(since=2, default=False)
    topics: list[ShareFetchFetchTopic] = field(default_factory=list)
    forgotten_topics_data: list[ShareFetchForgottenTopic] = field(default_factory=list)


class ShareFetchLeaderIdAndEpoch(Struct):
    leader_id: int32 = 0
    leader_epoch: int32 = 0


class AcquiredRecords(Struct):
    first_offset: int64 = 0
    last_offset: int64 = 0
    delivery_count: int16 = 0


class ShareFetchPartitionData(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: nullable_string = None
    acknowledge_error_code: int16 = 0
    acknowledge_error_message: nullable_string = None
    current_leader: ShareFetchLeaderIdAndEpoch = field(default_factory=ShareFetchLeaderIdAndEpoch)
    records: record_set = b""
    acquired_records: list[AcquiredRecords] = field(default_factory=list)


class ShareFetchableTopicResponse(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: list[ShareFetchPartitionData] = field(default_factory=list)


class ShareFetchNodeEndpoint(Struct):
    node_id: int32 = 0
    host: string = ""
    port: int32 = 0
    rack: nullable_string = None


class ShareFetchResponse(Struct, versions=(1, 2), flexible_since=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: nullable_string = None
    acquisition_lock_timeout_ms: int32 = 0
    responses: list[ShareFetchableTopicResponse] = field(default_factory=list)
    node_endpoints: list[ShareFetchNodeEndpoint] = field(default_factory=list)
