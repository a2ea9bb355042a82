"""Start offsets of share groups, as administrators change them."""

import pytest

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.group.share.start_offsets import (
    StartOffset,
    StartOffsetAlteration,
    StateDeletion,
)
from headrace.protocol.errors import ErrorCode
from support.groups.share_groups import GROUP, ShareDriver


def alter(driver: ShareDriver, *wanted: tuple[str, int, int]) -> StartOffsetAlteration:
    offsets = [StartOffset(*one) for one in wanted]
    return driver.run(lambda shard, _: shard.share.alter_offsets(GROUP, offsets))


def delete(driver: ShareDriver, *topics: str) -> StateDeletion:
    return driver.run(lambda shard, _: shard.share.begin_offset_deletion(GROUP, topics))


def emptied() -> ShareDriver:
    driver = ShareDriver()
    driver.join("ann", "t1", "t2")
    driver.beat("ann", -1)
    return driver


def test_only_what_exists_is_altered() -> None:
    driver = emptied()
    altered = alter(driver, ("t1", 0, 7), ("t1", 9, 7), ("none", 0, 7), ("t1", -1, 7))
    assert altered.accepted == [StartOffset("t1", 0, 7)]
    assert [sorted(topic.partitions) for topic in altered.topics.values()] == [[0]]
    assert altered.state_epoch == driver.group.epoch


def test_altering_makes_a_group_that_is_not_there() -> None:
    driver = ShareDriver()
    altered = alter(driver, ("t1", 0, 7))
    driver.run(lambda shard, _: shard.share.started(GROUP, altered.topics))
    assert list(driver.group.state_topics.initialized_partitions().values()) == [frozenset({0})]
    driver.restart()
    assert driver.group.is_empty


def test_a_group_with_members_keeps_its_offsets() -> None:
    driver = ShareDriver()
    driver.join("ann")
    for change in (lambda: alter(driver, ("t1", 0, 7)), lambda: delete(driver, "t1")):
        with pytest.raises(CoordinatorError) as refused:
            change()
        assert refused.value.code is ErrorCode.NON_EMPTY_GROUP


def test_deleting_removes_whole_topics_and_can_be_repeated() -> None:
    driver = emptied()
    t1 = driver.cluster.image.topics["t1"].topic_id
    for _ in range(2):  # the second one finds that the first has not ended
        begun = delete(driver, "t1", "none")
        assert begun.partitions == {t1: frozenset({0, 1})}
        assert list(begun.errors) == ["none"]
        driver.restart()
    driver.run(lambda shard, _: shard.share.end_offset_deletion(GROUP, [t1]))
    assert delete(driver, "t1").errors == {"t1": "There is no offset information to delete."}
    assert [one.name for one in driver.group.state_topics.initialized.values()] == ["t2"]
