"""OffsetCommit: who may commit what, and what is kept of it."""

import pytest

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.group.group import GroupType
from headrace.coordinator.group.group_config import GroupConfig
from headrace.protocol.errors import ErrorCode
from headrace.protocol.types import ZERO_UUID
from support.groups.classic_groups import GROUP, SESSION_MS
from support.groups.group_offsets import OffsetsDriver

T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)
OK = ErrorCode.NONE


@pytest.mark.parametrize("version", range(2, 11))
def test_what_is_committed_can_be_fetched_in_every_version(version: int) -> None:
    driver = OffsetsDriver()
    assert driver.commit({T0: 5, U0: 7}, version=version) == {T0: OK, U0: OK}
    assert driver.offsets(T0, T1, U0) == {T0: 5, T1: -1, U0: 7}
    assert driver.offsets() == {T0: 5, U0: 7}


def test_the_last_commit_counts() -> None:
    driver = OffsetsDriver()
    driver.commit({T0: 5})
    driver.commit({T0: 3})
    assert driver.offsets() == {T0: 3}


def test_a_commit_without_a_group_makes_an_empty_classic_one() -> None:
    driver = OffsetsDriver()
    driver.commit({T0: 5}, group_id="simple")
    group = driver.shard.groups["simple"]
    assert (group.kind, group.protocol_type, group.is_empty) == (GroupType.CLASSIC, "", True)
    assert group.state_name(driver.now_ms) == "Empty"


def test_an_empty_group_id_is_as_good_as_any_other() -> None:
    driver = OffsetsDriver()
    assert driver.commit({T0: 5}, group_id="") == {T0: OK}
    assert driver.offsets(group_id="") == {T0: 5}


def test_metadata_and_leader_epoch_are_kept() -> None:
    driver = OffsetsDriver()
    driver.commit({T0: 5}, metadata="from here", leader_epoch=3)
    (topic,) = driver.fetch(T0).topics
    (partition,) = topic.partitions
    assert (partition.metadata, partition.committed_leader_epoch) == ("from here", 3)


def test_no_metadata_reads_as_an_empty_text() -> None:
    driver = OffsetsDriver()
    driver.commit({T0: 5}, metadata=None)
    (topic,) = driver.fetch(T0).topics
    assert topic.partitions[0].metadata == ""


@pytest.mark.parametrize(
    ("text", "fits"), [("x" * 8, True), ("x" * 9, False), ("ä" * 8, True), ("😀" * 5, False)]
)
def test_metadata_has_a_limit_in_the_units_of_java(text: str, fits: bool) -> None:
    driver = OffsetsDriver(GroupConfig(offset_metadata_max_chars=8))
    expected = OK if fits else ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert driver.commit({T0: 5}, metadata=text) == {T0: expected}
    assert driver.offsets() == ({T0: 5} if fits else {})


def test_each_partition_that_does_not_exist_is_refused_for_itself() -> None:
    driver = OffsetsDriver()
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    codes = driver.commit({T0: 5, ("t", 2): 5, ("t", -1): 5, ("gone", 0): 5})
    assert codes == {T0: OK, ("t", 2): unknown, ("t", -1): unknown, ("gone", 0): unknown}
    assert driver.offsets() == {T0: 5}


def test_an_unknown_topic_id_is_refused_as_such() -> None:
    driver = OffsetsDriver()
    codes = driver.commit({("gone", 0): 5, ("t", 9): 5, T0: 5}, version=10)
    assert codes[("gone", 0)] is ErrorCode.UNKNOWN_TOPIC_ID
    assert codes[("t", 9)] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes[T0] is OK


def test_a_generation_of_a_group_that_does_not_exist_is_refused() -> None:
    driver = OffsetsDriver()
    old = driver.commit({T0: 5}, generation=1, member_id="m", version=8)
    new = driver.commit({T0: 5}, generation=1, member_id="m", version=9)
    assert old == {T0: ErrorCode.ILLEGAL_GENERATION}
    assert new == {T0: ErrorCode.GROUP_ID_NOT_FOUND}
    assert GROUP not in driver.shard.groups


def test_missing_partitions_are_reported_even_if_the_member_is_refused() -> None:
    driver = OffsetsDriver()
    codes = driver.commit({T0: 5, ("gone", 0): 5}, generation=1, member_id="m")
    assert codes[T0] is ErrorCode.GROUP_ID_NOT_FOUND
    assert codes[("gone", 0)] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_member_commits_in_its_generation_only() -> None:
    driver = OffsetsDriver()
    (member,) = driver.form(1)
    generation = driver.group.generation
    illegal = ErrorCode.ILLEGAL_GENERATION
    assert driver.commit({T0: 5}, member_id=member, generation=generation) == {T0: OK}
    assert driver.commit({T0: 9}, member_id=member, generation=generation - 1) == {T0: illegal}
    assert driver.commit({T0: 9}, member_id=member, generation=generation + 1) == {T0: illegal}
    assert driver.offsets() == {T0: 5}


def test_strangers_do_not_commit_to_a_group_with_members() -> None:
    driver = OffsetsDriver()
    driver.form(1)
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    generation = driver.group.generation
    assert driver.commit({T0: 5}, member_id="stranger", generation=generation) == {T0: unknown}
    assert driver.commit({T0: 5}) == {T0: unknown}
    assert driver.offsets() == {}


def test_no_member_commits_between_join_and_sync() -> None:
    driver = OffsetsDriver()
    member, waiting = driver.enter()
    driver.advance(0)
    generation = waiting.value.generation_id
    codes = driver.commit({T0: 5}, member_id=member, generation=generation)
    assert codes == {T0: ErrorCode.REBALANCE_IN_PROGRESS}


def test_a_static_member_that_was_replaced_is_fenced() -> None:
    driver = OffsetsDriver()
    first = driver.join(instance_id="one", version=5)
    driver.advance(0)
    old = first.value.member_id
    driver.settle([old])
    driver.join(instance_id="one", version=5)
    codes = driver.commit(
        {T0: 5}, member_id=old, instance_id="one", generation=driver.group.generation
    )
    assert codes == {T0: ErrorCode.FENCED_INSTANCE_ID}


def test_a_commit_keeps_a_member_alive() -> None:
    driver = OffsetsDriver()
    (member,) = driver.form(1)
    generation = driver.group.generation
    for _ in range(3):
        driver.advance(SESSION_MS - 1)
        driver.commit({T0: 5}, member_id=member, generation=generation)
    assert member in driver.group.members
    driver.advance(SESSION_MS)
    assert driver.group.is_empty


def test_a_refused_commit_does_not_keep_the_member_alive() -> None:
    driver = OffsetsDriver()
    (member,) = driver.form(1)
    driver.advance(SESSION_MS - 1)
    driver.commit({T0: 5}, member_id=member, generation=driver.group.generation + 1)
    driver.advance(1)
    assert driver.group.is_empty


def test_a_commit_that_could_not_be_written_has_not_happened() -> None:
    driver = OffsetsDriver()
    driver.commit({T0: 5})
    driver.fail_next_append = CoordinatorError(ErrorCode.NOT_COORDINATOR)
    with pytest.raises(CoordinatorError):
        driver.commit({T0: 6})
    assert driver.offsets() == {T0: 5}


def test_the_topic_id_is_kept_with_the_offset() -> None:
    driver = OffsetsDriver()
    driver.commit({T0: 5}, version=8)
    committed = driver.shard.offsets.state.committed.get(GROUP, "t", 0)
    assert committed is not None
    assert committed.value.topic_id == driver.topic_id("t") != ZERO_UUID


def test_offsets_outlive_a_restart() -> None:
    driver = OffsetsDriver()
    driver.commit({T0: 5, U0: 7}, metadata="x", leader_epoch=2)
    driver.commit({T1: 1}, group_id="other")
    before = [driver.fetch(), driver.fetch(group_id="other")]
    driver.restart()
    assert [driver.fetch(), driver.fetch(group_id="other")] == before
