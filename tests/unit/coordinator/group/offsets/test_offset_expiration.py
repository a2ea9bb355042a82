"""Offsets go when somebody deletes them, with their topic, with their group, and with time."""

import pytest

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.result import ProducerIdentity
from headrace.coordinator.group.group_config import GroupConfig
from headrace.coordinator.group.offsets import offset_manager as offsets_module
from headrace.protocol.errors import ErrorCode
from support.groups.classic_groups import GROUP, SESSION_MS, subscription
from support.groups.group_offsets import OffsetsDriver

T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)
OK = ErrorCode.NONE
CHECK_MS = 1_000
RETENTION_MS = 100_000
PRODUCER = ProducerIdentity(7, 0)
CONFIG = GroupConfig(
    classic_initial_rebalance_delay_ms=0,
    offsets_retention_ms=RETENTION_MS,
    offsets_retention_check_interval_ms=CHECK_MS,
)


# OffsetDelete


def test_single_offsets_can_be_deleted() -> None:
    driver = OffsetsDriver()
    driver.commit({T0: 5, U0: 7})
    assert driver.delete_offsets([T0, T1]) == {T0: OK, T1: OK}
    assert driver.offsets() == {U0: 7}


def test_offsets_of_a_topic_that_members_read_cannot_be_deleted() -> None:
    driver = OffsetsDriver()
    (member,) = driver.form(1, protocols={"range": subscription("t")})
    driver.commit({T0: 5, U0: 7}, member_id=member, generation=driver.group.generation)
    codes = driver.delete_offsets([T0, U0])
    assert codes == {T0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, U0: OK}
    assert driver.offsets() == {T0: 5}


def test_a_group_of_another_protocol_type_must_be_empty() -> None:
    driver = OffsetsDriver()
    driver.form(1, protocol_type="connect", protocols={"x": b""})
    with pytest.raises(CoordinatorError) as refused:
        driver.delete_offsets([T0])
    assert refused.value.code is ErrorCode.NON_EMPTY_GROUP


def test_there_must_be_such_a_group() -> None:
    driver = OffsetsDriver()
    with pytest.raises(CoordinatorError) as refused:
        driver.delete_offsets([T0])
    assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_there_must_be_such_a_partition() -> None:
    driver = OffsetsDriver()
    driver.commit({T0: 5})
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    codes = driver.delete_offsets([("t", 9), ("gone", 0)])
    assert codes == {("t", 9): unknown, ("gone", 0): unknown}


def test_pending_offsets_can_be_deleted() -> None:
    driver = OffsetsDriver()
    driver.commit_in_transaction({T0: 5}, PRODUCER)
    driver.delete_offsets([T0])
    driver.end_transaction(PRODUCER, committed=True)
    assert driver.offsets() == {}


# DeleteGroups


def test_a_group_without_members_is_deleted_with_its_offsets() -> None:
    driver = OffsetsDriver()
    driver.commit({T0: 5, U0: 7})
    driver.commit({T0: 1}, group_id="other")
    assert driver.delete_group() is OK
    assert GROUP not in driver.shard.groups
    assert driver.offsets() == {}
    assert driver.offsets(group_id="other") == {T0: 1}
    driver.restart()
    assert GROUP not in driver.shard.groups


def test_a_group_with_members_is_not_deleted() -> None:
    driver = OffsetsDriver()
    driver.form(1)
    assert driver.delete_group() is ErrorCode.NON_EMPTY_GROUP
    assert GROUP in driver.shard.groups


def test_a_group_that_does_not_exist_is_not_deleted() -> None:
    assert OffsetsDriver().delete_group() is ErrorCode.GROUP_ID_NOT_FOUND


def test_deleting_a_group_deletes_its_pending_offsets() -> None:
    driver = OffsetsDriver()
    driver.commit({T0: 1})
    driver.commit_in_transaction({T0: 5, U0: 6}, PRODUCER)
    assert driver.delete_group() is OK
    driver.end_transaction(PRODUCER, committed=True)
    assert driver.offsets() == {}
    assert GROUP not in driver.shard.groups


# Topics


def test_offsets_go_with_their_topic() -> None:
    driver = OffsetsDriver()
    driver.commit({T0: 5, U0: 7})
    driver.commit({T1: 5}, group_id="other")
    driver.commit_in_transaction({T1: 9}, PRODUCER)
    driver.drop("t")
    driver.end_transaction(PRODUCER, committed=True)
    assert driver.offsets() == {U0: 7}
    assert driver.offsets(group_id="other") == {}


def test_a_topic_that_grows_keeps_its_offsets() -> None:
    driver = OffsetsDriver()
    driver.commit({T0: 5})
    driver.start(lambda shard, now_ms: shard.metadata_changed(["t"], now_ms))
    assert driver.offsets() == {T0: 5}


def test_a_topic_that_was_recreated_starts_without_offsets() -> None:
    driver = OffsetsDriver()
    driver.commit({T0: 5})
    driver.drop("t")
    driver.create("t")
    assert driver.offsets(T0) == {T0: -1}
    driver.commit({T0: 0})
    assert driver.offsets(T0) == {T0: 0}


def test_many_offsets_of_a_topic_go_in_bounded_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets_module, "_MAX_TOMBSTONES", 3)
    driver = OffsetsDriver()
    for number in range(10):
        driver.commit({T0: 5}, group_id=f"g{number}")
    written = len(driver.log)
    driver.drop("t")
    assert len(driver.log) == written + 3
    driver.advance(10)
    assert len(driver.log) == written + 10
    assert not driver.shard.offsets.state.committed


# Expiry


def test_offsets_of_a_simple_group_expire_after_their_last_commit() -> None:
    driver = OffsetsDriver(CONFIG)
    driver.commit({T0: 5})
    driver.advance(RETENTION_MS - 1)
    driver.commit({U0: 7})
    driver.advance(CHECK_MS)
    assert driver.offsets() == {U0: 7}
    driver.advance(RETENTION_MS)
    assert driver.offsets() == {}
    assert GROUP not in driver.shard.groups


def test_members_keep_the_offsets_of_what_they_read() -> None:
    driver = OffsetsDriver(CONFIG)
    (member,) = driver.form(1, protocols={"range": subscription("t")})
    generation = driver.group.generation
    driver.commit({T0: 5, U0: 7}, member_id=member, generation=generation)
    for _ in range(2 * RETENTION_MS // SESSION_MS):
        driver.advance(SESSION_MS - 1)
        driver.heartbeat(member, generation)
    assert driver.offsets() == {T0: 5}


def test_an_empty_group_keeps_its_offsets_from_when_its_last_member_left() -> None:
    driver = OffsetsDriver(CONFIG)
    (member,) = driver.form(1)
    driver.commit({T0: 5}, member_id=member, generation=driver.group.generation)
    driver.advance(SESSION_MS - 1)
    driver.leave(member)
    left_ms = driver.now_ms
    driver.advance(RETENTION_MS - CHECK_MS)
    assert driver.offsets() == {T0: 5}
    driver.advance(2 * CHECK_MS)
    assert driver.offsets() == {}
    assert driver.now_ms >= left_ms + RETENTION_MS
    assert GROUP not in driver.shard.groups


def test_a_group_in_a_rebalance_loses_no_offset() -> None:
    driver = OffsetsDriver(CONFIG)
    driver.commit({U0: 7})
    driver.advance(RETENTION_MS - CHECK_MS)
    driver.enter(session_ms=300_000, rebalance_ms=300_000)
    driver.advance(0)
    driver.enter(session_ms=300_000, rebalance_ms=300_000)  # the first one never joins again
    driver.advance(10 * CHECK_MS)
    assert driver.group.state.value == "PreparingRebalance"
    assert driver.offsets() == {U0: 7}


def test_an_offset_with_an_open_transaction_stays() -> None:
    driver = OffsetsDriver(CONFIG)
    driver.commit({T0: 5, U0: 6})
    driver.commit_in_transaction({T0: 7}, PRODUCER)
    driver.advance(RETENTION_MS + CHECK_MS)
    assert driver.offsets() == {T0: 5}
    assert GROUP in driver.shard.groups
    driver.end_transaction(PRODUCER, committed=False)
    driver.advance(CHECK_MS)
    assert GROUP not in driver.shard.groups


def test_a_group_with_pending_offsets_only_stays() -> None:
    driver = OffsetsDriver(CONFIG)
    driver.commit_in_transaction({T0: 7}, PRODUCER)
    driver.advance(CHECK_MS)
    assert GROUP in driver.shard.groups


@pytest.mark.parametrize("version", [2, 3, 4])
def test_an_old_client_can_set_its_own_retention(version: int) -> None:
    driver = OffsetsDriver(CONFIG)
    driver.commit({T0: 5}, retention_ms=2 * CHECK_MS, version=version)
    driver.commit({U0: 7}, retention_ms=10 * RETENTION_MS, version=version)
    driver.restart()
    driver.advance(2 * CHECK_MS)
    assert driver.offsets() == {U0: 7}
    driver.advance(2 * RETENTION_MS)
    assert driver.offsets() == {U0: 7}


def test_many_expired_offsets_go_in_bounded_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets_module, "_MAX_TOMBSTONES", 3)
    driver = OffsetsDriver(CONFIG)
    driver.create("wide", partitions=8)
    driver.commit({("wide", index): 5 for index in range(8)})
    driver.commit({T0: 5}, group_id="other")
    driver.advance(RETENTION_MS + 100)
    assert driver.shard.groups == {}
    assert not driver.shard.offsets.state.committed


def test_checks_go_on_after_a_restart() -> None:
    driver = OffsetsDriver(CONFIG)
    driver.commit({T0: 5})
    driver.restart()
    driver.advance(RETENTION_MS + CHECK_MS)
    assert driver.shard.groups == {}
