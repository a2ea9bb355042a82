"""Offset records that are written by hand have the bytes of their declaration."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.coordinator.record_format import Change, RecordFormat
from headrace.groups.records.format import FORMAT
from headrace.groups.records.offsets import OFFSET_TYPES, OffsetCommitKey, OffsetCommitValue
from headrace.protocol.types import ZERO_UUID

DECLARED = RecordFormat(OFFSET_TYPES)
INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)

keys = st.builds(
    OffsetCommitKey, group_id=st.text(max_size=300), topic=st.text(max_size=300), partition=INT32
)
values = st.builds(
    OffsetCommitValue,
    offset=INT64,
    leader_epoch=INT32,
    metadata=st.text(max_size=200),
    commit_timestamp=INT64,
    topic_id=st.just(ZERO_UUID) | st.binary(min_size=16, max_size=16),
)


@given(key=keys, value=values)
def test_offsets_are_written_as_declared(key: OffsetCommitKey, value: OffsetCommitValue) -> None:
    change = Change(key, value)
    assert FORMAT.encode(change) == DECLARED.encode(change)
    assert FORMAT.decode(*FORMAT.encode(change)) == change


@given(key=keys)
def test_tombstones_are_written_as_declared(key: OffsetCommitKey) -> None:
    change = Change(key, None)
    assert FORMAT.encode(change) == DECLARED.encode(change)
