"""ConsumerGroupDescribe (key 69): versions 0-1, flexible from 0.

State and members of KIP-848 groups. v1 adds the type of member.
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


class ConsumerGroupDescribeRequest(Struct, versions=(0, 1), flexible_since=0):
    group_ids: list[string] = field(default_factory=list)
    include_authorized_operations: boolean = False


class ConsumerGroupDescribeTopicPartitions(Struct):
    topic_id: uuid = ZERO_UUID
    topic_name: string = ""
    partitions: list[int32] = field(default_factory=list)


class ConsumerGroupDescribeAssignment(Struct):
    topic_partitions: list[ConsumerGroupDescribeTopicPartitions] = field(default_factory=list)


class ConsumerGroupDescribeMember(Struct):
    member_id: string = ""
    instance_id: nullable_string = None
    rack_id: nullable_string = None
    member_epoch: int32 = 0
    client_id: string = ""
    client_host: string = ""
    subscribed_topic_names: list[string] = field(default_factory=list)
    subscribed_topic_regex: nullable_string = None
    assignment: ConsumerGroupDescribeAssignment = field(
        default_factory=ConsumerGroupDescribeAssignment
    )
    target_assignment: ConsumerGroupDescribeAssignment = field(
        default_factory=ConsumerGroupDescribeAssignment
    )
    member_type: int8 = field(since=1, ignorable=True, default=-1)


class ConsumerGroupDescribeDescribedGroup(Struct):
    error_code: int16 = 0
    error_message: nullable_string = None
    group_id: string = ""
    group_state: string = ""
    group_epoch: int32 = 0
    assignment_epoch: int32 = 0
    assignor_name: string = ""
    members: list[ConsumerGroupDescribeMember] = field(default_factory=list)
    authorized_operations: int32 = -2147483648


class ConsumerGroupDescribeResponse(Struct, versions=(0, 1), flexible_since=0):
    throttle_time_ms: int32 = 0
    groups: list[ConsumerGroupDescribeDescribedGroup] = field(default_factory=list)
