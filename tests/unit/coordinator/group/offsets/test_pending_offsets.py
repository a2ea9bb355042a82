"""TxnOffsetCommit: offsets that wait for the end of a transaction."""

from headrace.coordinator.common.result import ProducerIdentity
from headrace.coordinator.group.group_config import GroupConfig
from headrace.protocol.errors import ErrorCode
from support.groups.classic_groups import GROUP
from support.groups.group_offsets import OffsetsDriver

T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)
OK = ErrorCode.NONE
ONE, TWO = ProducerIdentity(7, 0), ProducerIdentity(8, 3)


def test_an_offset_is_invisible_before_its_transaction_commits() -> None:
    driver = OffsetsDriver()
    driver.commit({T0: 1})
    assert driver.commit_in_transaction({T0: 5, U0: 6}, ONE) == {T0: OK, U0: OK}
    assert driver.offsets() == {T0: 1}
    driver.end_transaction(ONE, committed=True)
    assert driver.offsets() == {T0: 5, U0: 6}


def test_an_aborted_transaction_leaves_nothing() -> None:
    driver = OffsetsDriver()
    driver.commit({T0: 1})
    driver.commit_in_transaction({T0: 5, U0: 6}, ONE)
    driver.end_transaction(ONE, committed=False)
    assert driver.offsets() == {T0: 1}
    assert driver.offsets(T0, U0, stable=True) == {T0: 1, U0: -1}


def test_a_fetch_of_stable_offsets_must_retry_while_a_transaction_is_open() -> None:
    driver = OffsetsDriver()
    driver.commit({T0: 1, T1: 2})
    driver.commit_in_transaction({T0: 5, U0: 6}, ONE)
    answer = driver.fetch(T0, T1, U0, stable=True)
    codes = [topic.partitions[0].error_code for topic in answer.topics]
    unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert codes == [unstable, OK, unstable]
    assert [topic.partitions[0].committed_offset for topic in answer.topics] == [-1, 2, -1]
    everything = driver.fetch(stable=True)
    (topic,) = everything.topics
    assert [one.error_code for one in topic.partitions] == [unstable, OK]
    driver.end_transaction(ONE, committed=True)
    assert driver.offsets(T0, T1, U0, stable=True) == {T0: 5, T1: 2, U0: 6}


def test_an_offset_is_unstable_until_the_last_transaction_ends() -> None:
    driver = OffsetsDriver()
    driver.commit_in_transaction({T0: 5}, ONE)
    driver.commit_in_transaction({T0: 6}, TWO)
    driver.end_transaction(ONE, committed=True)
    (topic,) = driver.fetch(T0, stable=True).topics
    assert topic.partitions[0].error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
    driver.end_transaction(TWO, committed=True)
    assert driver.offsets(T0, stable=True) == {T0: 6}


def test_the_record_that_is_later_in_the_log_wins() -> None:
    driver = OffsetsDriver()
    driver.commit_in_transaction({T0: 5, T1: 5}, ONE)
    driver.commit({T0: 9})
    driver.end_transaction(ONE, committed=True)
    assert driver.offsets() == {T0: 9, T1: 5}
    driver.restart()
    assert driver.offsets() == {T0: 9, T1: 5}


def test_transactions_end_in_any_order_and_the_later_record_wins() -> None:
    driver = OffsetsDriver()
    driver.commit_in_transaction({T0: 5}, ONE)
    driver.commit_in_transaction({T0: 6}, TWO)
    driver.end_transaction(TWO, committed=True)
    driver.end_transaction(ONE, committed=True)
    assert driver.offsets() == {T0: 6}


def test_a_marker_without_offsets_is_nothing() -> None:
    driver = OffsetsDriver()
    driver.end_transaction(ONE, committed=True)
    assert driver.shard.groups == {}


def test_pending_offsets_outlive_a_restart() -> None:
    driver = OffsetsDriver()
    driver.commit_in_transaction({T0: 5}, ONE)
    driver.restart()
    assert driver.offsets() == {}
    driver.end_transaction(ONE, committed=True)
    driver.restart()
    assert driver.offsets() == {T0: 5}


def test_a_member_must_be_in_its_generation() -> None:
    driver = OffsetsDriver()
    (member,) = driver.form(1)
    generation = driver.group.generation
    good = driver.commit_in_transaction({T0: 5}, ONE, member_id=member, generation=generation)
    late = driver.commit_in_transaction({T0: 6}, ONE, member_id=member, generation=generation - 1)
    stranger = driver.commit_in_transaction({T0: 6}, ONE, member_id="x", generation=generation)
    assert good == {T0: OK}
    assert late == {T0: ErrorCode.ILLEGAL_GENERATION}
    assert stranger == {T0: ErrorCode.UNKNOWN_MEMBER_ID}


def test_a_producer_that_does_not_name_its_member_may_commit() -> None:
    driver = OffsetsDriver()
    driver.form(1)
    assert driver.commit_in_transaction({T0: 5}, ONE) == {T0: OK}


def test_a_generation_of_no_group_is_refused() -> None:
    driver = OffsetsDriver()
    codes = driver.commit_in_transaction({T0: 5}, ONE, member_id="m", generation=3)
    assert codes == {T0: ErrorCode.ILLEGAL_GENERATION}
    assert GROUP not in driver.shard.groups


def test_bad_partitions_and_texts_are_refused_each_for_itself() -> None:
    driver = OffsetsDriver(GroupConfig(offset_metadata_max_chars=3))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    codes = driver.commit_in_transaction({T0: 5, ("t", 7): 5, ("gone", 0): 5}, ONE)
    assert codes == {T0: OK, ("t", 7): unknown, ("gone", 0): unknown}
    codes = driver.commit_in_transaction({T1: 5}, ONE, metadata="long")
    assert codes == {T1: ErrorCode.OFFSET_METADATA_TOO_LARGE}


def test_a_transaction_needs_a_group_id() -> None:
    driver = OffsetsDriver()
    codes = driver.commit_in_transaction({T0: 5}, ONE, group_id="")
    assert codes == {T0: ErrorCode.INVALID_GROUP_ID}
