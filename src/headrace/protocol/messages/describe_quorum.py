"""DescribeQuorum (key 55): versions 0-2, flexible from 0.

State of the controllers' quorum. v1 adds times, v2 directories and endpoints.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import (
    ZERO_UUID,
    int16,
    int32,
    int64,
    nullable_string,
    string,
    uint16,
    uuid,
)


class DescribeQuorumRequestPartitionData(Struct):
    partition_index: int32 = 0


class DescribeQuorumRequestTopicData(Struct):
    topic_name: string = ""
    partitions: list[DescribeQuorumRequestPartitionData] = field(default_factory=list)


class DescribeQuorumRequest(Struct, versions=(0, 2), flexible_since=0):
    topics: list[DescribeQuorumRequestTopicData] = field(default_factory=list)


class DescribeQuorumReplicaState(Struct):
    replica_id: int32 = 0
    replica_directory_id: uuid = field(since=2, default=ZERO_UUID)
    log_end_offset: int64 = 0
    last_fetch_timestamp: int64 = field(since=1, ignorable=True, default=-1)
    last_caught_up_timestamp: int64 = field(since=1, ignorable=True, default=-1)


class DescribeQuorumResponsePartitionData(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: nullable_string = field(since=2, ignorable=True, default="")
    leader_id: int32 = 0
    leader_epoch: int32 = 0
    high_watermark: int64 = 0
    current_voters: list[DescribeQuorumReplicaState] = field(default_factory=list)
    observers: list[DescribeQuorumReplicaState] = field(default_factory=list)


class DescribeQuorumResponseTopicData(Struct):
    topic_name: string = ""
    partitions: list[DescribeQuorumResponsePartitionData] = field(default_factory=list)


class DescribeQuorumListener(Struct):
    name: string = ""
    host: string = ""
    port: uint16 = 0


class Node(Struct):
    node_id: int32 = 0
    listeners: list[DescribeQuorumListener] = field(default_factory=list)


class DescribeQuorumResponse(Struct, versions=(0, 2), flexible_since=0):
    error_code: int16 = 0
    error_message: nullable_string = field(since=2, ignorable=True, default="")
    topics: list[DescribeQuorumResponseTopicData] = field(default_factory=list)
    nodes: list[Node] = field(since=2, default_factory=list)
