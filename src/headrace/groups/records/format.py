"""The record format of `__consumer_offsets`. Streams groups' records are left alone."""

import struct
from typing import Final

from headrace.coordinator.record_format import Change, RecordFormat
from headrace.groups.records.classic import CLASSIC_TYPES
from headrace.groups.records.consumer import CONSUMER_TYPES
from headrace.groups.records.offsets import (
    OFFSET_TYPES,
    VERSION_WITH_EXPIRY,
    OffsetCommitValue,
)
from headrace.groups.records.share import SHARE_TYPES

_INT16: Final = struct.Struct(">h")
_NO_EXPIRY: Final = -1


class GroupRecordFormat(RecordFormat):
    """Writes an offset with an expiry of its own in the old version that can hold it."""

    def encode(self, change: Change) -> tuple[bytes, bytes | None]:
        key, value = super().encode(change)
        commit = change.value
        if type(commit) is OffsetCommitValue and commit.expire_timestamp != _NO_EXPIRY:
            value = _INT16.pack(VERSION_WITH_EXPIRY) + commit.encode(VERSION_WITH_EXPIRY)
        return key, value


FORMAT: Final = GroupRecordFormat((*OFFSET_TYPES, *CLASSIC_TYPES, *CONSUMER_TYPES, *SHARE_TYPES))
