"""Members of share groups: joining, assignments, epochs, leaving."""

import pytest

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.group.group import CommittingMember
from headrace.coordinator.group.group_config import GroupConfig
from headrace.protocol.errors import ErrorCode
from support.groups.share_groups import GROUP, ShareDriver

DAY_MS = 86_400_000


def refusal(driver: ShareDriver, member_id: str, epoch: int, *topics: str) -> ErrorCode:
    with pytest.raises(CoordinatorError) as refused:
        driver.beat(member_id, epoch, topics or None)
    return refused.value.code


def test_a_member_gets_partitions_once_their_state_is_started() -> None:
    driver = ShareDriver()
    driver.hold = True
    joined = driver.beat("ann", 0, ["t1"])
    assert joined.assignment is not None
    assert joined.assignment.topic_partitions == []
    [wanted] = driver.start_state()
    assert {topic.name: sorted(topic.partitions) for topic in wanted.topics.values()} == {
        "t1": [0, 1]
    }
    assigned = driver.beat("ann", joined.member_epoch)
    assert assigned.member_epoch == joined.member_epoch + 1
    assert assigned.assignment is not None
    assert [sorted(one.partitions) for one in assigned.assignment.topic_partitions] == [[0, 1]]
    assert driver.beat("ann", assigned.member_epoch).assignment is None
    assert driver.start_state() == []


def test_state_that_could_not_be_started_is_tried_again() -> None:
    driver = ShareDriver()
    driver.hold = True
    epoch = driver.beat("ann", 0, ["t1"]).member_epoch
    assert len(driver.start_state(fails=True)) == 1
    driver.beat("ann", epoch)
    assert len(driver.start_state()) == 1
    driver.settle("ann", epoch)
    assert driver.assigned("ann") == {"t1": [0, 1]}


def test_initialization_without_a_result_is_repeated_after_a_while() -> None:
    driver = ShareDriver()
    driver.join("ann", "t2")
    driver.hold = True
    epoch = driver.beat("ann", driver.group.epoch, ["t1", "t2"]).member_epoch
    driver.effects.clear()
    driver.beat("ann", epoch)
    assert driver.effects == []
    driver.advance(30_000)
    driver.beat("ann", epoch)
    assert len(driver.effects) == 1


def test_members_share_the_partitions_evenly() -> None:
    driver = ShareDriver(t1=4)
    first, second = driver.join("ann"), driver.join("bob")
    driver.settle("ann", first)
    driver.settle("bob", second)
    assert {len(driver.assigned(name)["t1"]) for name in ("ann", "bob")} == {2}
    assert sorted(driver.assigned("ann")["t1"] + driver.assigned("bob")["t1"]) == [0, 1, 2, 3]


def test_more_members_than_partitions_read_the_same_ones() -> None:
    driver = ShareDriver(t1=2)
    epochs = {name: driver.join(name) for name in ("ann", "bob", "cat", "dan")}
    for name, epoch in epochs.items():
        driver.settle(name, epoch)
    partitions = sorted(number for name in epochs for number in driver.assigned(name)["t1"])
    assert partitions == [0, 0, 1, 1]


def test_a_member_that_leaves_makes_room() -> None:
    driver = ShareDriver()
    epoch = driver.join("ann")
    driver.join("bob")
    driver.beat("bob", -1)
    driver.settle("ann", epoch)
    assert driver.assigned("ann") == {"t1": [0, 1]}
    assert refusal(driver, "bob", -1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_silent_member_is_out_after_its_session() -> None:
    driver = ShareDriver()
    epoch = driver.join("ann")
    driver.join("bob")
    driver.advance(44_000)
    driver.beat("ann", epoch)
    driver.advance(2_000)
    assert list(driver.group.members) == ["ann"]


def test_epochs_fence_members_that_are_behind_or_ahead() -> None:
    driver = ShareDriver()
    epoch = driver.join("ann")
    assert refusal(driver, "ann", epoch + 1) is ErrorCode.FENCED_MEMBER_EPOCH
    before = driver.group.members["ann"].previous_epoch
    driver.beat("ann", before)  # it has missed the last answer
    assert refusal(driver, "ann", before - 1) is ErrorCode.FENCED_MEMBER_EPOCH
    assert refusal(driver, "bob", epoch) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("member", "epoch", "topics", "group"),
    [
        ("", 0, ["t1"], GROUP),
        ("ann", 0, [], GROUP),
        ("ann", 0, None, GROUP),
        ("ann", -2, ["t1"], GROUP),
        ("ann", 0, ["t1"], " "),
    ],
)
def test_requests_that_make_no_sense_are_refused(
    member: str, epoch: int, topics: list[str] | None, group: str
) -> None:
    driver = ShareDriver()
    with pytest.raises(CoordinatorError) as refused:
        driver.beat(member, epoch, topics, group)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_a_group_has_a_bounded_number_of_members() -> None:
    driver = ShareDriver(GroupConfig(share_max_size=1, share_assignment_interval_ms=0))
    epoch = driver.join("ann")
    assert refusal(driver, "bob", 0, "t1") is ErrorCode.GROUP_MAX_SIZE_REACHED
    driver.beat("ann", epoch)
    driver.beat("ann", 0, ["t1"])


def test_groups_of_another_kind_are_not_share_groups() -> None:
    driver = ShareDriver()
    assert refusal(driver, "ann", 3) is ErrorCode.GROUP_ID_NOT_FOUND
    driver.shard.groups[GROUP] = driver.shard.classic.simple_group(GROUP)
    assert refusal(driver, "ann", 0, "t1") is ErrorCode.GROUP_ID_NOT_FOUND


def test_new_partitions_and_topics_are_assigned() -> None:
    driver = ShareDriver(t1=1)
    epoch = driver.join("ann", "t1", "t2")
    assert driver.assigned("ann") == {"t1": [0]}
    driver.cluster.grow("t1", 2)
    driver.cluster.create("t2", 1)
    driver.topics_changed("t1", "t2")
    driver.settle("ann", epoch)
    assert driver.assigned("ann") == {"t1": [0, 1, 2], "t2": [0]}


def test_a_deleted_topic_is_taken_away_and_forgotten() -> None:
    driver = ShareDriver()
    epoch = driver.join("ann", "t1", "t2")
    driver.cluster.delete("t2")
    driver.topics_changed("t2")
    assert [topic.name for topic in driver.group.state_topics.initialized.values()] == ["t1"]
    driver.settle("ann", epoch)
    assert driver.assigned("ann") == {"t1": [0, 1]}


def test_a_changed_subscription_changes_the_assignment_at_once() -> None:
    driver = ShareDriver()
    epoch = driver.join("ann", "t1", "t2")
    answer = driver.beat("ann", epoch, ["t2"])
    assert answer.assignment is not None
    assert len(answer.assignment.topic_partitions) == 1
    assert driver.assigned("ann") == {"t2": [0, 1]}


def test_assignments_are_not_computed_more_often_than_allowed() -> None:
    driver = ShareDriver(GroupConfig(share_assignment_interval_ms=1_000))
    epoch = driver.join("ann")
    driver.beat("bob", 0, ["t1"])
    assert driver.assigned("bob") == {}
    driver.advance(1_000)
    driver.settle("bob", 0 + driver.group.members["bob"].epoch)
    driver.settle("ann", epoch)
    assert driver.assigned("bob")["t1"] != driver.assigned("ann")["t1"]


def test_everything_is_there_after_a_restart() -> None:
    driver = ShareDriver()
    epochs = {name: driver.join(name, "t1", "t2") for name in ("ann", "bob")}
    for name in epochs:
        epochs[name] = driver.settle(name, epochs[name])
    before = (
        driver.group.epoch,
        driver.group.assignment_epoch,
        driver.group.members,
        driver.group.target,
        driver.group.state_topics,
    )
    driver.restart()
    after = (
        driver.group.epoch,
        driver.group.assignment_epoch,
        driver.group.members,
        driver.group.target,
        driver.group.state_topics,
    )
    assert after == before
    driver.advance(45_000)
    assert driver.group.is_empty


def test_a_deleted_group_leaves_nothing() -> None:
    driver = ShareDriver()
    driver.join("ann")
    with pytest.raises(CoordinatorError) as refused:
        driver.run(lambda shard, _: shard.share.begin_group_deletion(GROUP))
    assert refused.value.code is ErrorCode.NON_EMPTY_GROUP
    driver.beat("ann", -1)
    going = driver.run(lambda shard, _: shard.share.begin_group_deletion(GROUP))
    assert sorted(map(sorted, going.values())) == [[0, 1]]
    driver.start(lambda shard, _: shard.listing.delete(GROUP))
    for _ in range(2):
        assert GROUP not in driver.shard.groups
        driver.restart()


def test_offsets_cannot_be_committed_to_a_share_group() -> None:
    driver = ShareDriver()
    driver.join("ann")
    for check in (
        lambda: driver.group.check_commit(
            CommittingMember("ann", None, 1, transactional=False, version=9)
        ),
        lambda: driver.group.check_fetch("ann", 1),
        driver.group.check_offset_delete,
    ):
        with pytest.raises(CoordinatorError) as refused:
            check()
        assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    [listed] = driver.shard.listing.list([], ["share"], driver.now_ms)
    assert (listed.group_type, listed.protocol_type, listed.group_state) == (
        "share",
        "share",
        "Stable",
    )


def test_members_are_assigned_though_the_coordinator_before_had_a_clock_that_was_ahead() -> None:
    """The time of the last assignment is in the group's records."""
    driver = ShareDriver(GroupConfig(share_assignment_interval_ms=1_000))
    driver.advance(DAY_MS)
    epoch = driver.join("ann")
    driver.restart()
    driver.now_ms -= DAY_MS
    driver.beat("bob", 0, ["t1"])
    driver.settle("bob", driver.group.members["bob"].epoch)
    driver.settle("ann", epoch)
    assert driver.assigned("bob")["t1"] != driver.assigned("ann")["t1"]


def test_state_is_asked_for_again_though_the_clock_was_set_back() -> None:
    driver = ShareDriver()
    driver.join("ann", "t2")
    driver.hold = True
    epoch = driver.beat("ann", driver.group.epoch, ["t1", "t2"]).member_epoch
    driver.effects.clear()
    driver.now_ms -= DAY_MS
    driver.beat("ann", epoch)
    assert len(driver.effects) == 1
