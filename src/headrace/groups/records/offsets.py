"""Committed offsets."""

import struct
from typing import Final

from headrace.coordinator.record_format import RecordType
from headrace.protocol.struct import Struct, field
from headrace.protocol.types import ZERO_UUID, int32, int64, string, uuid


class OffsetCommitKey(Struct, versions=(0, 0)):
    group_id: string = ""
    topic: string = ""
    partition: int32 = 0


class LegacyOffsetCommitKey(Struct, versions=(0, 0)):
    """As the first brokers with `__consumer_offsets` wrote it."""

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


def encode_commit(key: OffsetCommitKey, value: OffsetCommitValue) -> tuple[bytes, bytes]:
    """The record of a commit as the record format would write it, in a fraction of the time: there
    is no record that is written more often."""
    group, topic = key.group_id.encode(), key.topic.encode()
    metadata = value.metadata.encode()
    if value.topic_id == ZERO_UUID or len(metadata) > _LONGEST_WITH_ONE_BYTE:
        encoded = _INT16.pack(_VALUE_VERSION) + value.encode(_VALUE_VERSION)
    else:
        encoded = b"%b%b%b" % (
            _UP_TO_METADATA.pack(
                _VALUE_VERSION, value.offset, value.leader_epoch, len(metadata) + 1
            ),
            metadata,
            # One tagged field: number 0, 16 bytes.
            _AFTER_METADATA.pack(value.commit_timestamp, 1, 0, 16, value.topic_id),
        )
    return (
        b"%b%b%b%b%b"
        % (
            _KEY_TYPE_AND_LENGTH.pack(_KEY_TYPE, len(group)),
            group,
            _INT16.pack(len(topic)),
            topic,
            _INT32.pack(key.partition),
        ),
        encoded,
    )


_KEY_TYPE: Final = 1
_VALUE_VERSION: Final = 4
_LONGEST_WITH_ONE_BYTE: Final = 126  # a compact string of more bytes has a longer length
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_KEY_TYPE_AND_LENGTH: Final = struct.Struct(">hh")
_UP_TO_METADATA: Final = struct.Struct(">hqiB")
_AFTER_METADATA: Final = struct.Struct(">qBBB16s")

VERSION_WITH_EXPIRY = 1
"""The only version that carries an expiry of its own: what clients before OffsetCommit 5 ask."""

OFFSET_TYPES = (
    RecordType(0, LegacyOffsetCommitKey, OffsetCommitValue, 0),
    RecordType(_KEY_TYPE, OffsetCommitKey, OffsetCommitValue, _VALUE_VERSION),
)
