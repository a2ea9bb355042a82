"""Consumer groups (KIP-848): the epochs of the group, and each member's metadata, target and
current assignment."""

from headrace.coordinator.common.record_format import RecordType
from headrace.protocol.struct import Struct, field
from headrace.protocol.types import (
    ZERO_UUID,
    bytes_,
    int8,
    int32,
    int64,
    nullable_string,
    string,
    uuid,
)


class ConsumerGroupMetadataKey(Struct, versions=(0, 0)):
    group_id: string = ""


class ConsumerGroupMetadataValue(Struct, versions=(0, 0), flexible_since=0):
    epoch: int32 = 0
    metadata_hash: int64 = field(tag=0, default=0)


class ConsumerGroupPartitionMetadataKey(Struct, versions=(0, 0)):
    """Written by Kafka before 4.1 only; `ConsumerGroupMetadataValue.metadata_hash` replaced it."""

    group_id: string = ""


class ConsumerGroupPartitionRacks(Struct):
    partition: int32 = 0
    racks: list[string] = field(default_factory=list)


class ConsumerGroupTopicMetadata(Struct):
    topic_id: uuid = ZERO_UUID
    topic_name: string = ""
    num_partitions: int32 = 0
    partition_metadata: list[ConsumerGroupPartitionRacks] = field(default_factory=list)


class ConsumerGroupPartitionMetadataValue(Struct, versions=(0, 0), flexible_since=0):
    topics: list[ConsumerGroupTopicMetadata] = field(default_factory=list)


class ConsumerGroupMemberMetadataKey(Struct, versions=(0, 0)):
    group_id: string = ""
    member_id: string = ""


class ClassicProtocol(Struct):
    name: string = ""
    metadata: bytes_ = b""


class ClassicMemberMetadata(Struct):
    session_timeout_ms: int32 = 0
    supported_protocols: list[ClassicProtocol] = field(default_factory=list)


class ConsumerGroupMemberMetadataValue(Struct, versions=(0, 0), flexible_since=0):
    instance_id: nullable_string = None
    rack_id: nullable_string = None
    client_id: string = ""
    client_host: string = ""
    subscribed_topic_names: list[string] = field(default_factory=list)
    subscribed_topic_regex: nullable_string = None
    rebalance_timeout_ms: int32 = -1
    server_assignor: nullable_string = None
    classic_member_metadata: ClassicMemberMetadata | None = field(
        tag=0, default_factory=ClassicMemberMetadata
    )
    """Null unless the member is classic. Kafka writes this null explicitly."""


class ConsumerGroupTargetAssignmentMetadataKey(Struct, versions=(0, 0)):
    group_id: string = ""


class ConsumerGroupTargetAssignmentMetadataValue(Struct, versions=(0, 0), flexible_since=0):
    assignment_epoch: int32 = 0
    assignment_timestamp: int64 = field(tag=0, ignorable=True, default=0)


class ConsumerGroupTargetAssignmentMemberKey(Struct, versions=(0, 0)):
    group_id: string = ""
    member_id: string = ""


class ConsumerGroupTargetPartitions(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: list[int32] = field(default_factory=list)


class ConsumerGroupTargetAssignmentMemberValue(Struct, versions=(0, 0), flexible_since=0):
    topic_partitions: list[ConsumerGroupTargetPartitions] = field(default_factory=list)


class ConsumerGroupCurrentMemberAssignmentKey(Struct, versions=(0, 0)):
    group_id: string = ""
    member_id: string = ""


class ConsumerGroupCurrentPartitions(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: list[int32] = field(default_factory=list)
    assignment_epochs: list[int32] | None = field(tag=0, default=None)


class ConsumerGroupCurrentMemberAssignmentValue(Struct, versions=(0, 0), flexible_since=0):
    member_epoch: int32 = 0
    previous_member_epoch: int32 = 0
    state: int8 = 0
    assigned_partitions: list[ConsumerGroupCurrentPartitions] = field(default_factory=list)
    partitions_pending_revocation: list[ConsumerGroupCurrentPartitions] = field(
        default_factory=list
    )


class ConsumerGroupRegularExpressionKey(Struct, versions=(0, 0)):
    group_id: string = ""
    regular_expression: string = ""


class ConsumerGroupRegularExpressionValue(Struct, versions=(0, 0), flexible_since=0):
    topics: list[string] = field(default_factory=list)
    version: int64 = 0
    timestamp: int64 = 0


CONSUMER_TYPES = (
    RecordType(3, ConsumerGroupMetadataKey, ConsumerGroupMetadataValue, 0),
    RecordType(4, ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue, 0),
    RecordType(5, ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue, 0),
    RecordType(
        6, ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue, 0
    ),
    RecordType(
        7, ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue, 0
    ),
    RecordType(
        8, ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue, 0
    ),
    RecordType(16, ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue, 0),
)
