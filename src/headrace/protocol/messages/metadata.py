"""Metadata (key 3): versions 0-13, flexible from 9.

Brokers, topics and partitions. In v0 an empty topic list means all topics, from v1 null does. v10
adds topic ids, v13 an error for the whole response.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import ZERO_UUID, boolean, int16, int32, nullable_string, string, uuid


class MetadataRequestTopic(Struct):
    topic_id: uuid = field(since=10, ignorable=True, default=ZERO_UUID)
    name: nullable_string = field(nullable_since=10, default="")


class MetadataRequest(Struct, versions=(0, 13), flexible_since=9):
    topics: list[MetadataRequestTopic] | None = field(nullable_since=1, default_factory=list)
    allow_auto_topic_creation: boolean = field(since=4, default=True)
    include_cluster_authorized_operations: boolean = field(since=8, until=10, default=False)
    include_topic_authorized_operations: boolean = field(since=8, default=False)


class MetadataResponseBroker(Struct):
    node_id: int32 = 0
    host: string = ""
    port: int32 = 0
    rack: nullable_string = field(since=1, ignorable=True, default=None)


class MetadataResponsePartition(Struct):
    error_code: int16 = 0
    partition_index: int32 = 0
    leader_id: int32 = 0
    leader_epoch: int32 = field(since=7, ignorable=True, default=-1)
    replica_nodes: list[int32] = field(default_factory=list)
    isr_nodes: list[int32] = field(default_factory=list)
    offline_replicas: list[int32] = field(since=5, ignorable=True, default_factory=list)


class MetadataResponseTopic(Struct):
    error_code: int16 = 0
    name: nullable_string = field(nullable_since=12, default="")
    topic_id: uuid = field(since=10, ignorable=True, default=ZERO_UUID)
    is_internal: boolean = field(since=1, ignorable=True, default=False)
    partitions: list[MetadataResponsePartition] = field(default_factory=list)
    topic_authorized_operations: int32 = field(since=8, default=-2147483648)


class MetadataResponse(Struct, versions=(0, 13), flexible_since=9):
    throttle_time_ms: int32 = field(since=3, ignorable=True, default=0)
    brokers: list[MetadataResponseBroker] = field(default_factory=list)
    cluster_id: nullable_string = field(since=2, ignorable=True, default=None)
    controller_id: int32 = field(since=1, ignorable=True, default=-1)
    topics: list[MetadataResponseTopic] = field(default_factory=list)
    cluster_authorized_operations: int32 = field(since=8, until=10, default=-2147483648)
    error_code: int16 = field(since=13, ignorable=True, default=0)
