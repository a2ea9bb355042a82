"""The records of `__consumer_offsets`, byte for byte."""

import pytest

from headrace.coordinator.common.record_format import RecordChange, RecordType
from headrace.coordinator.group.records.classic import (
    CLASSIC_TYPES,
    GroupMetadataKey,
    GroupMetadataValue,
)
from headrace.coordinator.group.records.consumer import CONSUMER_TYPES
from headrace.coordinator.group.records.format import FORMAT, OffsetCommitTemplate
from headrace.coordinator.group.records.offsets import (
    OFFSET_TYPES,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from headrace.coordinator.group.records.share import SHARE_TYPES
from headrace.protocol.types import ZERO_UUID
from headrace.records.small_batch_builder import plain_record

KEY = OffsetCommitKey(group_id="g", topic="t", partition=3)


def test_an_offset_is_written_as_kafka_writes_it() -> None:
    value = OffsetCommitValue(
        offset=5, leader_epoch=2, metadata="m", commit_timestamp=9, topic_id=bytes(range(16))
    )
    key, encoded = FORMAT.encode(RecordChange(KEY, value))
    assert key == bytes.fromhex("0001 0001 67 0001 74 00000003")
    assert encoded == bytes.fromhex(
        "0004 0000000000000005 00000002 026d 0000000000000009"  # up to the commit's time
        "01 00 10 000102030405060708090a0b0c0d0e0f"  # one tagged field: the topic id
    )


@pytest.mark.parametrize("metadata", ["", "m", "é" * 100, "x" * 4000])
@pytest.mark.parametrize("topic_id", [ZERO_UUID, bytes(range(16))])
@pytest.mark.parametrize("leader_epoch", [-1, 7])
def test_a_repeated_offset_is_written_as_the_format_writes_it(
    metadata: str, topic_id: bytes, leader_epoch: int
) -> None:
    def value(offset: int, commit_timestamp: int) -> OffsetCommitValue:
        return OffsetCommitValue(
            offset=offset,
            leader_epoch=leader_epoch,
            metadata=metadata,
            commit_timestamp=commit_timestamp,
            topic_id=topic_id,
        )

    repeated = OffsetCommitTemplate(KEY, value(0, 0))
    for offset, now_ms in ((0, 0), (2**62, 2**41), (-1, -1)):
        record = FORMAT.encode(RecordChange(KEY, value(offset, now_ms)))
        assert repeated.encode(offset, now_ms) == record
        for delta in (0, 1, 63, 64, 500, 8192):
            assert repeated.record(delta, offset, now_ms) == plain_record(delta, *record)


def test_an_offset_with_an_expiry_is_written_in_the_version_that_has_one() -> None:
    value = OffsetCommitValue(offset=5, metadata="m", commit_timestamp=9, expire_timestamp=12)
    _, encoded = FORMAT.encode(RecordChange(KEY, value))
    assert encoded == bytes.fromhex(f"0001 {5:016x} 0001 6d {9:016x} {12:016x}")


def test_a_tombstone_has_no_value() -> None:
    key, value = FORMAT.encode(RecordChange(KEY, None))
    assert value is None
    assert FORMAT.decode(key, value) == RecordChange(KEY, None)


@pytest.mark.parametrize("version", range(5))
def test_offsets_of_every_version_are_read(version: int) -> None:
    value = OffsetCommitValue(offset=5, metadata="m", commit_timestamp=9)
    key, _ = FORMAT.encode(RecordChange(KEY, None))
    encoded = version.to_bytes(2, "big") + value.encode(version)
    assert FORMAT.decode(key, encoded) == RecordChange(KEY, value)


def test_offsets_of_the_first_brokers_are_read() -> None:
    value = OffsetCommitValue(offset=5, metadata="m", commit_timestamp=9)
    key = bytes.fromhex("0000 0001 67 0001 74 00000003")
    decoded = FORMAT.decode(key, b"\0\0" + value.encode(0))
    legacy = LegacyOffsetCommitKey(group_id="g", topic="t", partition=3)
    assert decoded == RecordChange(legacy, value)


def test_a_classic_group_is_written_in_the_version_that_old_brokers_read() -> None:
    change = RecordChange(
        GroupMetadataKey(group_id="g"), GroupMetadataValue(protocol_type="consumer")
    )
    key, value = FORMAT.encode(change)
    assert key == bytes.fromhex("0002 0001 67")
    assert value is not None
    assert value[:2] == b"\0\3"


@pytest.mark.parametrize(
    "kind",
    [*OFFSET_TYPES, *CLASSIC_TYPES, *CONSUMER_TYPES, *SHARE_TYPES],
    ids=lambda kind: kind.key.__name__,
)
def test_every_type_reads_what_it_writes(kind: RecordType) -> None:
    change = RecordChange(kind.key(), kind.value())
    assert FORMAT.decode(*FORMAT.encode(change)) == change


@pytest.mark.parametrize("number", [17, 18, 19, 21, 23])
def test_records_of_streams_groups_are_left_alone(number: int) -> None:
    assert FORMAT.decode(number.to_bytes(2, "big") + b"\0\1g", b"\0\0\0") is None
