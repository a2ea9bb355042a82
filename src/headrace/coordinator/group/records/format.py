"""The record format of `__consumer_offsets`. Records of streams groups are not decoded."""

import struct
from typing import Final

from headrace.coordinator.common.record_format import RecordChange, RecordFormat
from headrace.coordinator.group.records.classic import CLASSIC_TYPES
from headrace.coordinator.group.records.consumer import CONSUMER_TYPES
from headrace.coordinator.group.records.offsets import (
    OFFSET_TYPES,
    VERSION_WITH_EXPIRY,
    OffsetCommitKey,
    OffsetCommitValue,
)
from headrace.coordinator.group.records.share import SHARE_TYPES
from headrace.protocol.types import ZERO_UUID
from headrace.protocol.writing import write_uvarint
from headrace.records.small_batch_builder import KeyAndValue, plain_record
from headrace.records.varint import read_varint

_INT16: Final = struct.Struct(">h")
_KEY_START: Final = struct.Struct(">hh")  # type, length of the group id
_KEY_END: Final = struct.Struct(">i")
_VALUE_START: Final = struct.Struct(">hqi")  # version, offset, leader epoch
_LEADER_EPOCH: Final = struct.Struct(">i")
_TIMESTAMP: Final = struct.Struct(">q")
_OFFSET_TYPE: Final = OFFSET_TYPES[1].number
_OFFSET_VERSION: Final = OFFSET_TYPES[1].value_version
_NO_METADATA: Final = b"\1"
_NO_TAGS: Final = b"\0"
_TOPIC_ID_TAG: Final = b"\1\0\x10"  # one field, its tag, its size
_NO_EXPIRY: Final = -1
_NO_HEADERS: Final = b"\0"  # at the end of a record
_NO_ATTRIBUTES_NO_TIME: Final = b"\0\0"  # between a record's size and its offset delta
_MAX_SHORT_DELTA: Final = 63  # as a zigzag varint it is one byte


class GroupRecordFormat(RecordFormat):
    """Encodes offsets, the most frequent records, by hand; the bytes equal those of the schema.

    An offset with its own expiry time is written in the old version that has a field for it.
    """

    def encode(self, change: RecordChange) -> KeyAndValue:
        key, value = change
        if type(key) is not OffsetCommitKey or type(value) is not OffsetCommitValue:
            return super().encode(change)
        if value.expire_timestamp != _NO_EXPIRY:
            old = _INT16.pack(VERSION_WITH_EXPIRY) + value.encode(VERSION_WITH_EXPIRY)
            return _encode_offset_key(key), old
        return _encode_offset_key(key), _encode_offset(value)


def _encode_offset_key(key: OffsetCommitKey) -> bytes:
    group_id, topic = key.group_id.encode(), key.topic.encode()
    return b"%b%b%b%b%b" % (
        _KEY_START.pack(_OFFSET_TYPE, len(group_id)),
        group_id,
        _INT16.pack(len(topic)),
        topic,
        _KEY_END.pack(key.partition),
    )


def _encode_offset(value: OffsetCommitValue) -> bytes:
    return b"%b%b%b%b" % (
        _VALUE_START.pack(_OFFSET_VERSION, value.offset, value.leader_epoch),
        _metadata(value),
        _TIMESTAMP.pack(value.commit_timestamp),
        _tags(value),
    )


def _metadata(value: OffsetCommitValue) -> bytes:
    if not value.metadata:
        return _NO_METADATA
    text = value.metadata.encode()
    return write_uvarint(len(text) + 1) + text


def _tags(value: OffsetCommitValue) -> bytes:
    topic_id = value.topic_id
    return _NO_TAGS if topic_id == ZERO_UUID else _TOPIC_ID_TAG + topic_id


class OffsetCommitTemplate:
    """Encodes the records of one partition's commits, which differ in offset and time only: a
    fraction of the work of a full encoding."""

    __slots__ = ("_end", "_key", "_layout", "_middle", "_size", "_start", "_tags", "_value")

    def __init__(self, key: OffsetCommitKey, value: OffsetCommitValue) -> None:
        self._key = _encode_offset_key(key)
        self._middle = _LEADER_EPOCH.pack(value.leader_epoch) + _metadata(value)
        self._tags = _tags(value)
        self._end = self._tags + _NO_HEADERS
        self._value = struct.Struct(f">hq{len(self._middle)}sq{len(self._tags)}s")
        first = plain_record(0, *self.encode(0, 0))
        fields = f"q{len(self._middle)}sq{len(self._end)}s"
        _, size_end = read_varint(first, 0)
        delta_at = size_end + len(_NO_ATTRIBUTES_NO_TIME)
        before_offset = len(first) - struct.calcsize(">" + fields)
        self._size = first[:delta_at]
        self._start = first[delta_at + 1 : before_offset]
        self._layout = struct.Struct(f">{delta_at}sB{len(self._start)}s{fields}")

    def encode(self, offset: int, commit_timestamp: int) -> KeyAndValue:
        """The encoded key and value with this offset and time."""
        value = self._value.pack(
            _OFFSET_VERSION, offset, self._middle, commit_timestamp, self._tags
        )
        return self._key, value

    def record(self, delta: int, offset: int, commit_timestamp: int) -> bytes:
        """The whole record, `delta` after the first of its batch."""
        if delta > _MAX_SHORT_DELTA:
            return plain_record(delta, *self.encode(offset, commit_timestamp))
        return self._layout.pack(
            self._size, delta << 1, self._start, offset, self._middle, commit_timestamp, self._end
        )


FORMAT: Final = GroupRecordFormat((*OFFSET_TYPES, *CLASSIC_TYPES, *CONSUMER_TYPES, *SHARE_TYPES))
