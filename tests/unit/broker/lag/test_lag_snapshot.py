"""Sums over partitions, and which groups have series for their partitions."""

from headrace.broker.lag.lag import PartitionLag
from headrace.broker.lag.lag_snapshot import GroupLag, TopicTotal, detailed_groups
from headrace.broker.lag.positions import PartitionKey

A, B = b"a" * 16, b"b" * 16


def group(name: str, *lags: PartitionLag | None) -> GroupLag:
    return GroupLag(name, 1, {PartitionKey(A, index): lag for index, lag in enumerate(lags)})


def test_sums_leave_out_partitions_without_a_commit() -> None:
    found = group("g", PartitionLag(3, 7, 1.5), None, PartitionLag(5, 1, 0.5))
    assert list(found.totals()) == [TopicTotal(A, 8, 8)]
    assert found.max_seconds() == 1.5


def test_a_sum_with_an_unknown_lag_is_unknown() -> None:
    found = group("g", PartitionLag(3, 7, 1.5), PartitionLag(5, None, None))
    assert list(found.totals()) == [TopicTotal(A, 8, None)]


def test_each_topic_has_its_own_sums() -> None:
    lags = {PartitionKey(A, 0): PartitionLag(1, 2, 0.0), PartitionKey(B, 0): PartitionLag(4, 8, 0)}
    assert list(GroupLag("g", 1, lags).totals()) == [TopicTotal(A, 1, 2), TopicTotal(B, 4, 8)]


def test_groups_with_few_partitions_have_series_first() -> None:
    lag = PartitionLag(0, 0, 0.0)
    huge, small, other = group("a", *[lag] * 5), group("z", lag), group("b", lag, lag)
    assert detailed_groups([huge, small, other], 4) == [small, other]
    assert detailed_groups([huge, small, other], 8) == [small, other, huge]
    assert detailed_groups([huge, small, other], 0) == []
