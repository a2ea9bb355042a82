"""Control records: markers as Kafka writes them, and unknown types."""

import pytest

from headrace.records.batch_header import check_batch, read_header
from headrace.records.control import (
    ControlRecord,
    ControlType,
    control_key,
    end_txn_marker,
    read_control,
)
from headrace.records.errors import MalformedRecord
from headrace.records.record import Record, iter_records


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_holds_producer_outcome_and_coordinator(commit: bool) -> None:
    batch = end_txn_marker(
        commit=commit,
        producer_id=5,
        producer_epoch=1,
        coordinator_epoch=3,
        timestamp_ms=77,
        base_offset=9,
        leader_epoch=2,
    )
    header = read_header(batch)
    check_batch(batch, 0, header)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 1, -1)
    assert (header.base_offset, header.partition_leader_epoch) == (9, 2)
    (record,) = iter_records(batch, max_bytes=1_000)
    expected = ControlType.COMMIT if commit else ControlType.ABORT
    assert read_control(record) == ControlRecord(expected, 3, record.value)
    # Version 0 and the type; version 0 and the coordinator's epoch.
    assert record.key == bytes([0, 0, 0, int(commit)])
    assert record.value == bytes([0, 0, 0, 0, 0, 3])


def test_an_unknown_type_is_read_as_unknown_and_never_written() -> None:
    record = Record(0, 0, b"\x00\x01\x00\x63more", b"anything")
    assert read_control(record) == ControlRecord(ControlType.UNKNOWN, -1, b"anything")
    with pytest.raises(ValueError, match="unknown"):
        control_key(ControlType.UNKNOWN)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, bytes(6)),
        (b"\x00\x00\x00", bytes(6)),
        (b"\xff\xff\x00\x00", bytes(6)),
        (b"\x00\x00\x00\x01", None),
        (b"\x00\x00\x00\x01", bytes(5)),
        (b"\x00\x00\x00\x01", b"\xff\xff" + bytes(4)),
    ],
)
def test_invalid_control_records_are_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(MalformedRecord):
        read_control(Record(0, 0, key, value))
