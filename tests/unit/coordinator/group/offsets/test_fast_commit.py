"""Commits on the fast path leave the shard as if it had replayed their records."""

from collections.abc import Sequence

import pytest

from headrace.coordinator.common.result import PreparedRecords
from headrace.coordinator.group.offsets.fast_commit import (
    FastCommit,
    SinglePartitionCommit,
    prepare_commits,
)
from headrace.coordinator.group.offsets.offset_table import OffsetEntry
from headrace.coordinator.group.records.format import FORMAT
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.records.record import iter_records
from headrace.records.small_batch_builder import seal_plain_batch
from support.groups.classic_groups import GROUP
from support.groups.group_offsets import OffsetsDriver

T0, T1 = ("t", 0), ("t", 1)
VERSION = 8
FIRST_OFFSET = 40
MAX_BYTES = 1_000_000


def fast_commit(driver: OffsetsDriver, partition: int, *, metadata: str = "") -> FastCommit:
    """The fast path of the first commit."""
    asked = OffsetCommitRequestPartition(
        partition_index=partition, committed_offset=1, committed_metadata=metadata
    )
    request = OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name="t", partitions=[asked])],
    )
    commit = SinglePartitionCommit.from_request(driver.image, request)
    assert commit is not None
    return FastCommit(VERSION, request, commit)


def records_of(driver: OffsetsDriver, commits: Sequence[FastCommit]) -> PreparedRecords | None:
    """The records of those that are let pass."""
    topics = driver.image.topics
    records, _, refused = prepare_commits(commits, topics, driver.shard, driver.now_ms)
    assert len(refused) + (records.count if records else 0) == len(commits)
    return records


def stored(driver: OffsetsDriver) -> list[OffsetEntry]:
    return sorted(driver.shard.offsets.state.committed, key=lambda entry: entry.partition)


@pytest.mark.parametrize("partitions", [(0,), (0, 1), (1, 0)])
def test_their_replay_is_that_of_their_records(partitions: tuple[int, ...]) -> None:
    """What a restart would read from the log is what the shard holds now."""
    driver, reloaded = OffsetsDriver(), OffsetsDriver()
    for each in (driver, reloaded):
        each.commit({T0: 1, T1: 1})
    commits = [fast_commit(driver, partition, metadata="where") for partition in partitions]
    for offset in (2**40, 0):
        for commit in commits:
            commit.offset = offset
        prepared = records_of(driver, commits)
        assert prepared is not None
        assert prepared.count == len(partitions)
        prepared.replay(FIRST_OFFSET)
        batch = seal_plain_batch(prepared.payload, prepared.count, driver.now_ms, FIRST_OFFSET)
        for record in iter_records(batch, max_bytes=MAX_BYTES):
            change = FORMAT.decode(record.key, record.value)
            assert change is not None
            reloaded.shard.replay(record.offset, change, None)
        assert stored(driver) == stored(reloaded)
        assert {entry.committed.value.offset for entry in stored(driver)} >= {offset}


def test_nothing_changes_before_the_records_are_in_the_log() -> None:
    driver = OffsetsDriver()
    driver.commit({T0: 1})
    commit = fast_commit(driver, 0)
    first = records_of(driver, [commit])
    assert first is not None
    first.replay(FIRST_OFFSET)
    commit.offset = 7
    assert records_of(driver, [commit]) is not None  # and its append fails
    assert driver.offsets(T0) == {T0: 1}


def test_a_deleted_group_and_a_recreated_topic_refuse() -> None:
    driver = OffsetsDriver()
    driver.commit({T0: 1})
    commit = fast_commit(driver, 0)
    driver.drop("t")
    driver.create("t")
    assert records_of(driver, [commit]) is None
    assert records_of(driver, [commit, commit]) is None
    mixed = records_of(driver, [commit, fast_commit(driver, 0), commit])
    assert mixed is not None
    assert mixed.count == 1
    driver.shard.groups.clear()
    assert records_of(driver, [fast_commit(driver, 0)]) is None
