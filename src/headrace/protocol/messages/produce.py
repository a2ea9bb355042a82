"""Produce (key 0): versions 3-13, flexible from 9.

Appends record batches. Versions 0-2 are advertised but not served. v8 answers with the index of
each bad record, v10 with the current leader, v13 names topics by id.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import (
    ZERO_UUID,
    int16,
    int32,
    int64,
    nullable_record_set,
    nullable_string,
    string,
    uuid,
)


class PartitionProduceData(Struct):
    index: int32 = 0
    records: nullable_record_set = None


class TopicProduceData(Struct):
    name: string = field(until=12, ignorable=True, default="")
    topic_id: uuid = field(since=13, ignorable=True, default=ZERO_UUID)
    partition_data: list[PartitionProduceData] = field(default_factory=list)


class ProduceRequest(Struct, versions=(3, 13), flexible_since=9):
    transactional_id: nullable_string = None
    acks: int16 = 0
    timeout_ms: int32 = 0
    topic_data: list[TopicProduceData] = field(default_factory=list)


class BatchIndexAndErrorMessage(Struct):
    batch_index: int32 = 0
    batch_index_error_message: nullable_string = None


class ProduceLeaderIdAndEpoch(Struct):
    leader_id: int32 = -1
    leader_epoch: int32 = -1


class PartitionProduceResponse(Struct):
    index: int32 = 0
    error_code: int16 = 0
    base_offset: int64 = 0
    log_append_time_ms: int64 = -1
    log_start_offset: int64 = field(since=5, ignorable=True, default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = field(
        since=8, ignorable=True, default_factory=list
    )
    error_message: nullable_string = field(since=8, ignorable=True, default=None)
    current_leader: ProduceLeaderIdAndEpoch = field(
        since=10, tag=0, default_factory=ProduceLeaderIdAndEpoch
    )


class TopicProduceResponse(Struct):
    name: string = field(until=12, ignorable=True, default="")
    topic_id: uuid = field(since=13, ignorable=True, default=ZERO_UUID)
    partition_responses: list[PartitionProduceResponse] = field(default_factory=list)


class ProduceNodeEndpoint(Struct):
    node_id: int32 = 0
    host: string = ""
    port: int32 = 0
    rack: nullable_string = None


class ProduceResponse(Struct, versions=(3, 13), flexible_since=9):
    responses: list[TopicProduceResponse] = field(default_factory=list)
    throttle_time_ms: int32 = 0
    node_endpoints: list[ProduceNodeEndpoint] = field(since=10, tag=0, default_factory=list)
