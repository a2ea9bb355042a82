"""The opaque bytes of consumers in JoinGroup and SyncGroup: versions 0-3.

The bytes start with the version as an int16, which is not part of these structures. Read them with
`read`, not with `decode`: a newer client may append further fields. v1 adds the partitions that a
member owns, v2 its generation, v3 its rack.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import int32, nullable_bytes, nullable_string, string


class ConsumerProtocolSubscriptionTopicPartition(Struct):
    topic: string = ""
    partitions: list[int32] = field(default_factory=list)


class ConsumerProtocolSubscription(Struct, versions=(0, 3)):
    topics: list[string] = field(default_factory=list)
    user_data: nullable_bytes = None
    owned_partitions: list[ConsumerProtocolSubscriptionTopicPartition] = field(
        since=1, ignorable=True, default_factory=list
    )
    generation_id: int32 = field(since=2, ignorable=True, default=-1)
    rack_id: nullable_string = field(since=3, ignorable=True, default=None)


class ConsumerProtocolAssignmentTopicPartition(Struct):
    topic: string = ""
    partitions: list[int32] = field(default_factory=list)


class ConsumerProtocolAssignment(Struct, versions=(0, 3)):
    assigned_partitions: list[ConsumerProtocolAssignmentTopicPartition] = field(
        default_factory=list
    )
    user_data: nullable_bytes = None
