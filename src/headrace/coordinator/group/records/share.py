"""Share groups (KIP-932): membership as in consumer groups, and the partitions with state."""

from headrace.coordinator.common.record_format import RecordType
from headrace.protocol.struct import Struct, field
from headrace.protocol.types import ZERO_UUID, int8, int32, int64, nullable_string, string, uuid


class ShareGroupMemberMetadataKey(Struct, versions=(0, 0)):
    group_id: string = ""
    member_id: string = ""


class ShareGroupMemberMetadataValue(Struct, versions=(0, 0), flexible_since=0):
    rack_id: nullable_string = None
    client_id: string = ""
    client_host: string = ""
    subscribed_topic_names: list[string] = field(default_factory=list)


class ShareGroupMetadataKey(Struct, versions=(0, 0)):
    group_id: string = ""


class ShareGroupMetadataValue(Struct, versions=(0, 0), flexible_since=0):
    epoch: int32 = 0
    metadata_hash: int64 = 0


class ShareGroupTargetAssignmentMetadataKey(Struct, versions=(0, 0)):
    group_id: string = ""


class ShareGroupTargetAssignmentMetadataValue(Struct, versions=(0, 0), flexible_since=0):
    assignment_epoch: int32 = 0
    assignment_timestamp: int64 = field(tag=0, ignorable=True, default=0)


class ShareGroupTargetAssignmentMemberKey(Struct, versions=(0, 0)):
    group_id: string = ""
    member_id: string = ""


class ShareGroupPartitions(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: list[int32] = field(default_factory=list)


class ShareGroupTargetAssignmentMemberValue(Struct, versions=(0, 0), flexible_since=0):
    topic_partitions: list[ShareGroupPartitions] = field(default_factory=list)


class ShareGroupCurrentMemberAssignmentKey(Struct, versions=(0, 0)):
    group_id: string = ""
    member_id: string = ""


class ShareGroupCurrentMemberAssignmentValue(Struct, versions=(0, 0), flexible_since=0):
    member_epoch: int32 = 0
    previous_member_epoch: int32 = 0
    state: int8 = 0
    assigned_partitions: list[ShareGroupPartitions] = field(default_factory=list)


class ShareGroupStatePartitionMetadataKey(Struct, versions=(0, 0)):
    group_id: string = ""


class ShareGroupTopicPartitionsInfo(Struct):
    topic_id: uuid = ZERO_UUID
    topic_name: string = ""
    partitions: list[int32] = field(default_factory=list)


class ShareGroupTopicInfo(Struct):
    topic_id: uuid = ZERO_UUID
    topic_name: string = ""


class ShareGroupStatePartitionMetadataValue(Struct, versions=(0, 0), flexible_since=0):
    initializing_topics: list[ShareGroupTopicPartitionsInfo] = field(default_factory=list)
    initialized_topics: list[ShareGroupTopicPartitionsInfo] = field(default_factory=list)
    deleting_topics: list[ShareGroupTopicInfo] = field(default_factory=list)


SHARE_TYPES = (
    RecordType(10, ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue, 0),
    RecordType(11, ShareGroupMetadataKey, ShareGroupMetadataValue, 0),
    RecordType(
        12, ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue, 0
    ),
    RecordType(13, ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue, 0),
    RecordType(14, ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue, 0),
    RecordType(15, ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue, 0),
)
