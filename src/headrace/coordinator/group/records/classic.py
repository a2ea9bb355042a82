"""Classic groups: one record holds the whole group."""

from headrace.coordinator.common.record_format import RecordType
from headrace.protocol.struct import Struct, field
from headrace.protocol.types import bytes_, int32, int64, nullable_string, string


class GroupMetadataKey(Struct, versions=(0, 0)):
    group_id: string = ""


class GroupMetadataMember(Struct):
    member_id: string = ""
    group_instance_id: nullable_string = field(since=3, ignorable=True, default=None)
    client_id: string = ""
    client_host: string = ""
    rebalance_timeout: int32 = field(since=1, ignorable=True, default=-1)
    session_timeout: int32 = 0
    subscription: bytes_ = b""
    assignment: bytes_ = b""


class GroupMetadataValue(Struct, versions=(0, 4), flexible_since=4):
    protocol_type: string = ""
    generation: int32 = 0
    protocol: nullable_string = None
    leader: nullable_string = None
    current_state_timestamp: int64 = field(since=2, ignorable=True, default=-1)
    members: list[GroupMetadataMember] = field(default_factory=list)


CLASSIC_TYPES = (RecordType(2, GroupMetadataKey, GroupMetadataValue, 3),)
