"""The lag of a group is the distance from its next record to the end; unknown is not zero."""

from headrace.client.admin.groups import GroupDescription, GroupMember
from headrace.client.admin.offsets import CommittedOffset
from headrace.client.results import Refusal, TopicPartition
from headrace.operations.group_lag import lags_of, total_lag
from headrace.protocol.errors import ErrorCode

P0, P1, P2 = (TopicPartition("orders", index) for index in range(3))
GONE = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "orders-2 does not exist")


def group_of(*members: GroupMember) -> GroupDescription:
    return GroupDescription("g", "consumer", "Stable", "uniform", 3, members)


def at(offset: int) -> CommittedOffset:
    return CommittedOffset(offset, -1, "")


def test_partitions_are_those_that_are_committed_or_owned() -> None:
    member = GroupMember("m", None, "app", "/10.0.0.1", (P1,))
    committed = {P0: at(4), P2: at(9)}
    lags = lags_of(group_of(member), committed, {P0: (0, 10), P1: (0, 7), P2: GONE})
    assert [(each.partition, each.lag, each.member) for each in lags] == [
        (P0, 6, None),
        (P1, None, member),
        (P2, None, None),
    ]
    assert lags[2].problem is GONE
    assert total_lag(lags) == 6


def test_a_position_before_the_log_start_is_out_of_range() -> None:
    (lag,) = lags_of(group_of(), {P0: at(3)}, {P0: (5, 10)})
    assert lag.is_out_of_range
    assert lag.lag == 7


def test_a_position_after_the_end_has_no_lag() -> None:
    (lag,) = lags_of(group_of(), {P0: at(12)}, {P0: (5, 10)})
    assert not lag.is_out_of_range
    assert lag.lag == 0
