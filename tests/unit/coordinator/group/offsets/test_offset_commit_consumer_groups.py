"""Offsets and the directory, where the group is a consumer group (KIP-848)."""

import pytest

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.group.group_config import GroupConfig
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from headrace.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from support.groups.classic_groups import GROUP
from support.groups.consumer_groups import SESSION_MS, ConsumerDriver

BY_NAME = 9
CHECK_MS = 1_000
RETENTION_MS = 100_000


def commit(
    driver: ConsumerDriver,
    member_id: str,
    epoch: int,
    *topics: str,
    version: int = BY_NAME,
) -> list[ErrorCode]:
    """Commits 5 for partition 0 of the topics."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    request = OffsetCommitRequest(
        group_id=GROUP,
        member_id=member_id,
        generation_id_or_member_epoch=epoch,
        topics=[OffsetCommitRequestTopic(name=one, partitions=[partition]) for one in topics],
    )
    answer = driver.run(lambda shard, now_ms: shard.offsets.commit(version, request, now_ms))
    return [ErrorCode(one.error_code) for topic in answer.topics for one in topic.partitions]


def fetch(driver: ConsumerDriver, member_id: str | None = None, epoch: int = -1) -> dict[str, int]:
    """Partition 0 of all topics that have an offset."""
    request = OffsetFetchRequestGroup(
        group_id=GROUP, member_id=member_id, member_epoch=epoch, topics=None
    )
    answer = driver.shard.offsets.fetch(BY_NAME, request, stable=False)
    return {topic.name: topic.partitions[0].committed_offset for topic in answer.topics}


def test_a_member_commits_in_its_epoch() -> None:
    driver = ConsumerDriver()
    epoch = driver.enter_consumer("a").member_epoch
    assert commit(driver, "a", epoch, "t1", "t2") == [ErrorCode.NONE, ErrorCode.NONE]
    assert commit(driver, "a", epoch + 1, "t1") == [ErrorCode.STALE_MEMBER_EPOCH]
    assert commit(driver, "b", epoch, "t1") == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert commit(driver, "", -1, "t1") == [ErrorCode.UNKNOWN_MEMBER_ID]
    old = commit(driver, "a", epoch, "t1", version=8)
    assert old == [ErrorCode.UNSUPPORTED_VERSION]
    assert fetch(driver) == {"t1": 5, "t2": 5}


def test_a_member_that_is_behind_commits_all_or_nothing() -> None:
    """It may still commit what it has had all the time, but this is one request."""
    driver = ConsumerDriver()
    epoch = driver.enter_consumer("a", "t1").member_epoch
    driver.settle()
    driver.beat("a", epoch, topics=["t1", "t2"])
    driver.settle()
    assert driver.member("a").epoch > epoch
    stale = ErrorCode.STALE_MEMBER_EPOCH
    assert commit(driver, "a", epoch, "t1", "t2") == [stale, stale]
    assert fetch(driver) == {}
    assert commit(driver, "a", epoch, "t1") == [ErrorCode.NONE]
    assert fetch(driver) == {"t1": 5}


def test_a_member_fetches_in_its_epoch() -> None:
    driver = ConsumerDriver()
    epoch = driver.enter_consumer("a").member_epoch
    commit(driver, "a", epoch, "t1")
    assert fetch(driver, "a", epoch) == {"t1": 5}
    for member, at, code in (
        ("a", epoch + 1, ErrorCode.STALE_MEMBER_EPOCH),
        ("b", epoch, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        with pytest.raises(CoordinatorError) as refused:
            fetch(driver, member, at)
        assert refused.value.code is code


def test_only_offsets_of_topics_without_readers_are_deleted() -> None:
    driver = ConsumerDriver()
    epoch = driver.enter_consumer("a", "t1").member_epoch
    commit(driver, "a", epoch, "t1", "t2")
    asked = [OffsetDeleteRequestPartition(partition_index=0)]
    request = OffsetDeleteRequest(
        group_id=GROUP,
        topics=[OffsetDeleteRequestTopic(name=one, partitions=asked) for one in ("t1", "t2")],
    )
    answer = driver.run(lambda shard, _: shard.offsets.delete(request))
    codes = [topic.partitions[0].error_code for topic in answer.topics]
    assert codes == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]
    assert fetch(driver) == {"t1": 5}


def test_offsets_expire_where_no_member_reads() -> None:
    driver = ConsumerDriver(
        GroupConfig(
            consumer_assignment_interval_ms=0,
            offsets_retention_ms=RETENTION_MS,
            offsets_retention_check_interval_ms=CHECK_MS,
        )
    )
    epoch = driver.enter_consumer("a", "t1").member_epoch
    commit(driver, "a", epoch, "t1", "t2")
    for _ in range(2 * RETENTION_MS // SESSION_MS + 1):
        driver.advance(SESSION_MS - 1)
        driver.beat("a", driver.member("a").epoch)
    assert fetch(driver) == {"t1": 5}
    driver.quit("a")
    driver.advance(CHECK_MS)
    assert GROUP not in driver.shard.groups
    driver.restart()
    assert driver.shard.groups == {}


def test_the_directory_knows_consumer_groups() -> None:
    driver = ConsumerDriver()
    epoch = driver.enter_consumer("a").member_epoch
    commit(driver, "a", epoch, "t1")
    directory = driver.shard.listing
    (listed,) = directory.list(["stable"], ["Consumer"], driver.now_ms)
    assert (listed.group_id, listed.protocol_type, listed.group_type) == (
        GROUP,
        "consumer",
        "consumer",
    )
    assert directory.list([], ["classic"], driver.now_ms) == []
    with pytest.raises(CoordinatorError) as refused:
        directory.describe(GROUP)
    assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert refused.value.message == f"Group {GROUP} is not a classic group."
    with pytest.raises(CoordinatorError) as refused:
        directory.delete(GROUP)
    assert refused.value.code is ErrorCode.NON_EMPTY_GROUP
    driver.quit("a")
    driver.start(lambda shard, _: shard.listing.delete(GROUP))
    assert driver.shard.groups == {}
    assert fetch(driver) == {}
