"""Control records, which brokers write into a partition.

A control batch holds one record. Its key holds the type, which defines the value. Readers accept
unknown types and later versions, because old readers must work with new brokers.
"""

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from headrace.records.batch_header import NO_LEADER_EPOCH
from headrace.records.errors import MalformedRecord
from headrace.records.record import Record, build_batch

# A control batch holds one small record; a larger batch is invalid.
MAX_CONTROL_BYTES = 4096

_KEY = Struct(">hh")  # version, type
_KEY_VERSION = 0
_END_TXN_VALUE = Struct(">hi")  # version, coordinator epoch
_END_TXN_VALUE_VERSION = 0


class ControlType(IntEnum):
    """Types of control records. Only the first two occur in a client's topics."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1


class ControlRecord(NamedTuple):
    """A control record; `coordinator_epoch` is -1 unless it ends a transaction."""

    type: ControlType
    coordinator_epoch: int
    value: bytes | None


def control_key(control_type: ControlType) -> bytes:
    """The key of a control record of this type."""
    if control_type is ControlType.UNKNOWN:
        raise ValueError("a control record of unknown type cannot be written")
    return _KEY.pack(_KEY_VERSION, control_type)


def end_txn_marker(
    *,
    commit: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """The batch that ends a producer's transaction in one partition."""
    marker = Record(
        offset=base_offset,
        timestamp=timestamp_ms,
        key=control_key(ControlType.COMMIT if commit else ControlType.ABORT),
        value=_END_TXN_VALUE.pack(_END_TXN_VALUE_VERSION, coordinator_epoch),
    )
    return build_batch(
        [marker],
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def read_control(record: Record) -> ControlRecord:
    """Parses the record of a control batch; raises `MalformedRecord` for invalid bytes."""
    if record.key is None or len(record.key) < _KEY.size:
        raise MalformedRecord(0, "the key of a control record needs a version and a type")
    version, type_id = _KEY.unpack_from(record.key)
    if version < 0:
        raise MalformedRecord(0, f"control record has key version {version}")
    known = type_id in ControlType.__members__.values()
    control_type = ControlType(type_id) if known else ControlType.UNKNOWN
    coordinator_epoch = -1
    if control_type in (ControlType.ABORT, ControlType.COMMIT):
        coordinator_epoch = _coordinator_epoch(record.value)
    return ControlRecord(control_type, coordinator_epoch, record.value)


def _coordinator_epoch(value: bytes | None) -> int:
    if value is None or len(value) < _END_TXN_VALUE.size:
        raise MalformedRecord(0, "a transaction marker needs a version and a coordinator epoch")
    version, coordinator_epoch = _END_TXN_VALUE.unpack_from(value)
    if version < 0:
        raise MalformedRecord(0, f"transaction marker has version {version}")
    return int(coordinator_epoch)
