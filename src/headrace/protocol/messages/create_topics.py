"""CreateTopics (key 19): versions 2-7, flexible from 5.

Creates topics. v5 answers with their configuration, v7 with their ids.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import (
    ZERO_UUID,
    boolean,
    int8,
    int16,
    int32,
    nullable_string,
    string,
    uuid,
)


class CreatableReplicaAssignment(Struct):
    partition_index: int32 = 0
    broker_ids: list[int32] = field(default_factory=list)


class CreatableTopicConfig(Struct):
    name: string = ""
    value: nullable_string = ""


class CreatableTopic(Struct):
    name: string = ""
    num_partitions: int32 = 0
    replication_factor: int16 = 0
    assignments: list[CreatableReplicaAssignment] = field(default_factory=list)
    configs: list[CreatableTopicConfig] = field(default_factory=list)


class CreateTopicsRequest(Struct, versions=(2, 7), flexible_since=5):
    topics: list[CreatableTopic] = field(default_factory=list)
    timeout_ms: int32 = 60000
    validate_only: boolean = False


class CreatableTopicConfigs(Struct):
    name: string = ""
    value: nullable_string = ""
    read_only: boolean = False
    config_source: int8 = -1
    is_sensitive: boolean = False


class CreatableTopicResult(Struct):
    name: string = ""
    topic_id: uuid = field(since=7, ignorable=True, default=ZERO_UUID)
    error_code: int16 = 0
    error_message: nullable_string = ""
    topic_config_error_code: int16 = field(since=5, tag=0, ignorable=True, default=0)
    num_partitions: int32 = field(since=5, ignorable=True, default=-1)
    replication_factor: int16 = field(since=5, ignorable=True, default=-1)
    configs: list[CreatableTopicConfigs] | None = field(
        since=5, ignorable=True, default_factory=list
    )


class CreateTopicsResponse(Struct, versions=(2, 7), flexible_since=5):
    throttle_time_ms: int32 = 0
    topics: list[CreatableTopicResult] = field(default_factory=list)
