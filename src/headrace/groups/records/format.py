"""The record format of `__consumer_offsets`. Streams groups' records are left alone."""

import struct
from typing import Final

from headrace.coordinator.record_format import Change, RecordFormat
from headrace.groups.records.classic import CLASSIC_TYPES
from headrace.groups.records.consumer import CONSUMER_TYPES
from headrace.groups.records.offsets import (
    OFFSET_TYPES,
    VERSION_WITH_EXPIRY,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_commit,
)
from headrace.groups.records.share import SHARE_TYPES

_INT16: Final = struct.Struct(">h")
_NO_EXPIRY: Final = -1


class GroupRecordFormat(RecordFormat):
    """Writes an offset with an expiry of its own in the old version that can hold it."""

    def encode(self, change: Change) -> tuple[bytes, bytes | None]:
        key, value = change
        if type(value) is not OffsetCommitValue:
            return super().encode(change)
        if value.expire_timestamp != _NO_EXPIRY:
            with_expiry = _INT16.pack(VERSION_WITH_EXPIRY) + value.encode(VERSION_WITH_EXPIRY)
            return super().encode(change)[0], with_expiry
        if type(key) is OffsetCommitKey:
            return encode_commit(key, value)
        return super().encode(change)


FORMAT: Final = GroupRecordFormat((*OFFSET_TYPES, *CLASSIC_TYPES, *CONSUMER_TYPES, *SHARE_TYPES))
