"""Committed offsets."""

from typing import Final

from headrace.coordinator.common.record_format import RecordType
from headrace.protocol.struct import Struct, field
from headrace.protocol.types import ZERO_UUID, int32, int64, string, uuid


class OffsetCommitKey(Struct, versions=(0, 0)):
    group_id: string = ""
    topic: string = ""
    partition: int32 = 0


class LegacyOffsetCommitKey(Struct, versions=(0, 0)):
    """The key that the first Kafka releases with `__consumer_offsets` wrote."""

    group_id: string = ""
    topic: string = ""
    partition: int32 = 0


class OffsetCommitValue(Struct, versions=(0, 4), flexible_since=4):
    offset: int64 = 0
    leader_epoch: int32 = field(since=3, ignorable=True, default=-1)
    metadata: string = ""
    commit_timestamp: int64 = 0
    expire_timestamp: int64 = field(since=1, until=1, ignorable=True, default=-1)
    topic_id: uuid = field(since=4, tag=0, ignorable=True, default=ZERO_UUID)


_KEY_TYPE: Final = 1
_VALUE_VERSION: Final = 4

VERSION_WITH_EXPIRY = 1
"""The only version with an expiry time, which clients before OffsetCommit v5 may request."""

OFFSET_TYPES = (
    RecordType(0, LegacyOffsetCommitKey, OffsetCommitValue, 0),
    RecordType(_KEY_TYPE, OffsetCommitKey, OffsetCommitValue, _VALUE_VERSION),
)
