"""The total lag of a group: unknown is not zero, and a time counts only if all are known."""

from headrace.client.admin.consumer_lag import ConsumerLag
from headrace.client.admin.groups import GroupMember
from headrace.client.results import Refusal, TopicPartition
from headrace.operations.group_lag import Lag, TotalLag, total_lag
from headrace.protocol.errors import ErrorCode

P0 = TopicPartition("orders", 0)


def test_the_records_add_up_and_the_largest_time_counts() -> None:
    assert total_lag([ConsumerLag(3, 1.5), None, ConsumerLag(4, 9.0)]) == TotalLag(7, 9.0)


def test_a_lag_without_its_time_makes_the_time_unknown() -> None:
    assert total_lag([ConsumerLag(3, None), ConsumerLag(4, 9.0)]) == TotalLag(7, None)


def test_a_partition_without_a_position_has_no_lag() -> None:
    member = GroupMember("m", None, "app", "/10.0.0.1", (P0,))
    gone = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "gone")
    lag = Lag(P0, None, None, member, None, gone)
    assert (lag.records, lag.seconds) == (None, None)
