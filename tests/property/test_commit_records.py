"""The hand-written encoder of commit records produces the bytes of the schema."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.coordinator.common.record_format import RecordChange, RecordFormat
from headrace.coordinator.group.records.format import FORMAT, OffsetCommitTemplate
from headrace.coordinator.group.records.offsets import (
    OFFSET_TYPES,
    OffsetCommitKey,
    OffsetCommitValue,
)
from headrace.protocol.types import ZERO_UUID
from headrace.records.small_batch_builder import plain_record

BY_SCHEMA = RecordFormat(OFFSET_TYPES)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
INT64 = st.integers(-(2**63), 2**63 - 1)
KEYS = st.builds(
    OffsetCommitKey, group_id=TEXT, topic=TEXT, partition=st.integers(-(2**31), 2**31 - 1)
)
VALUES = st.builds(
    OffsetCommitValue,
    offset=INT64,
    leader_epoch=st.integers(-(2**31), 2**31 - 1),
    metadata=TEXT | st.text("x", min_size=120, max_size=130),
    commit_timestamp=INT64,
    topic_id=st.just(ZERO_UUID) | st.binary(min_size=16, max_size=16),
)


@settings(max_examples=100, deadline=None)
@given(KEYS, VALUES)
def test_a_commit_record_matches_its_schema(key: OffsetCommitKey, value: OffsetCommitValue) -> None:
    change = RecordChange(key, value)
    assert FORMAT.encode(change) == BY_SCHEMA.encode(change)
    assert FORMAT.decode(*FORMAT.encode(change)) == change


@settings(max_examples=100, deadline=None)
@given(KEYS, VALUES, INT64, INT64, st.integers(0, 500))
def test_a_repeated_commit_has_the_same_bytes(
    key: OffsetCommitKey, value: OffsetCommitValue, offset: int, now_ms: int, delta: int
) -> None:
    repeated = OffsetCommitTemplate(key, value)
    value.offset, value.commit_timestamp = offset, now_ms
    expected = FORMAT.encode(RecordChange(key, value))
    assert repeated.encode(offset, now_ms) == expected
    assert repeated.record(delta, offset, now_ms) == plain_record(delta, *expected)
