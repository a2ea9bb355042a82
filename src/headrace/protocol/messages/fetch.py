"""Fetch (key 1): versions 4-18, flexible from 12.

Reads record batches, for consumers and followers. v7 adds sessions, v9 leader epochs, v11 racks,
v12 divergence checks; v13 names topics by id.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import (
    ZERO_UUID,
    int8,
    int16,
    int32,
    int64,
    nullable_record_set,
    nullable_string,
    string,
    uuid,
)


class FetchReplicaState(Struct):
    replica_id: int32 = -1
    replica_epoch: int64 = -1


class FetchPartition(Struct):
    partition: int32 = 0
    current_leader_epoch: int32 = field(since=9, ignorable=True, default=-1)
    fetch_offset: int64 = 0
    last_fetched_epoch: int32 = field(since=12, default=-1)
    log_start_offset: int64 = field(since=5, ignorable=True, default=-1)
    partition_max_bytes: int32 = 0
    replica_directory_id: uuid = field(since=17, tag=0, ignorable=True, default=ZERO_UUID)
    high_watermark: int64 = field(since=18, tag=1, ignorable=True, default=9223372036854775807)


class FetchTopic(Struct):
    topic: string = field(until=12, ignorable=True, default="")
    topic_id: uuid = field(since=13, ignorable=True, default=ZERO_UUID)
    partitions: list[FetchPartition] = field(default_factory=list)


class FetchForgottenTopic(Struct):
    topic: string = field(until=12, ignorable=True, default="")
    topic_id: uuid = field(since=13, ignorable=True, default=ZERO_UUID)
    partitions: list[int32] = field(default_factory=list)


class FetchRequest(Struct, versions=(4, 18), flexible_since=12):
    cluster_id: nullable_string = field(since=12, tag=0, ignorable=True, default=None)
    replica_id: int32 = field(until=14, default=-1)
    replica_state: FetchReplicaState = field(since=15, tag=1, default_factory=FetchReplicaState)
    max_wait_ms: int32 = 0
    min_bytes: int32 = 0
    max_bytes: int32 = 2147483647
    isolation_level: int8 = 0
    session_id: int32 = field(since=7, ignorable=True, default=0)
    session_epoch: int32 = field(since=7, ignorable=True, default=-1)
    topics: list[FetchTopic] = field(default_factory=list)
    forgotten_topics_data: list[FetchForgottenTopic] = field(since=7, default_factory=list)
    rack_id: string = field(since=11, ignorable=True, default="")


class FetchEpochEndOffset(Struct):
    epoch: int32 = -1
    end_offset: int64 = -1


class FetchLeaderIdAndEpoch(Struct):
    leader_id: int32 = -1
    leader_epoch: int32 = -1


class FetchSnapshotId(Struct):
    end_offset: int64 = -1
    epoch: int32 = -1


class AbortedTransaction(Struct):
    producer_id: int64 = 0
    first_offset: int64 = 0


class FetchPartitionData(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0
    high_watermark: int64 = 0
    last_stable_offset: int64 = -1
    log_start_offset: int64 = field(since=5, ignorable=True, default=-1)
    diverging_epoch: FetchEpochEndOffset = field(
        since=12, tag=0, default_factory=FetchEpochEndOffset
    )
    current_leader: FetchLeaderIdAndEpoch = field(
        since=12, tag=1, default_factory=FetchLeaderIdAndEpoch
    )
    snapshot_id: FetchSnapshotId = field(since=12, tag=2, default_factory=FetchSnapshotId)
    aborted_transactions: list[AbortedTransaction] | None = field(default_factory=list)
    preferred_read_replica: int32 = field(since=11, default=-1)
    records: nullable_record_set = None


class FetchableTopicResponse(Struct):
    topic: string = field(until=12, ignorable=True, default="")
    topic_id: uuid = field(since=13, ignorable=True, default=ZERO_UUID)
    partitions: list[FetchPartitionData] = field(default_factory=list)


class FetchNodeEndpoint(Struct):
    node_id: int32 = 0
    host: string = ""
    port: int32 = 0
    rack: nullable_string = None


class FetchResponse(Struct, versions=(4, 18), flexible_since=12):
    throttle_time_ms: int32 = 0
    error_code: int16 = field(since=7, ignorable=True, default=0)
    session_id: int32 = field(since=7, default=0)
    responses: list[FetchableTopicResponse] = field(default_factory=list)
    node_endpoints: list[FetchNodeEndpoint] = field(since=16, tag=0, default_factory=list)
