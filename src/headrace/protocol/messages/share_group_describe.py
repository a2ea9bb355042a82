"""ShareGroupDescribe (key 77): versions 1, flexible from 0.

State and members of share groups.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import ZERO_UUID, boolean, int16, int32, nullable_string, string, uuid


class ShareGroupDescribeRequest(Struct, versions=(1, 1), flexible_since=0):
    group_ids: list[string] = field(default_factory=list)
    include_authorized_operations: boolean = False


class ShareGroupDescribeTopicPartitions(Struct):
    topic_id: uuid = ZERO_UUID
    topic_name: string = ""
    partitions: list[int32] = field(default_factory=list)


class ShareGroupDescribeAssignment(Struct):
    topic_partitions: list[ShareGroupDescribeTopicPartitions] = field(default_factory=list)


class ShareGroupDescribeMember(Struct):
    member_id: string = ""
    rack_id: nullable_string = None
    member_epoch: int32 = 0
    client_id: string = ""
    client_host: string = ""
    subscribed_topic_names: list[string] = field(default_factory=list)
    assignment: ShareGroupDescribeAssignment = field(default_factory=ShareGroupDescribeAssignment)


class ShareGroupDescribeDescribedGroup(Struct):
    error_code: int16 = 0
    error_message: nullable_string = None
    group_id: string = ""
    group_state: string = ""
    group_epoch: int32 = 0
    assignment_epoch: int32 = 0
    assignor_name: string = ""
    members: list[ShareGroupDescribeMember] = field(default_factory=list)
    authorized_operations: int32 = -2147483648


class ShareGroupDescribeResponse(Struct, versions=(1, 1), flexible_since=0):
    throttle_time_ms: int32 = 0
    groups: list[ShareGroupDescribeDescribedGroup] = field(default_factory=list)
