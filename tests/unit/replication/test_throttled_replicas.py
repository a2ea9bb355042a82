"""The replication throttle: a rate that holds over time, and the replicas it applies to."""

from headrace.replication.throttled_replicas import ReplicationRate, ThrottledReplicas

MB = 1 << 20


def test_a_rate_holds_over_time_for_any_piece_size() -> None:
    rate = ReplicationRate(10 * MB)
    now, sent = 0.0, 0
    while now < 20.0:
        wait_s = rate.wait_s(now)
        if wait_s:
            now += wait_s
            continue
        rate.spend(3 * MB, now)
        sent += 3 * MB
        now += 0.001
    assert 19 * 10 * MB <= sent <= 21 * 10 * MB + 3 * MB


def test_an_unused_rate_is_kept_for_a_short_time_only() -> None:
    rate = ReplicationRate(MB)
    assert rate.wait_s(0.0) == 0
    rate.spend(MB, 0.0)
    assert rate.wait_s(3600.0) == 0
    rate.spend(MB, 3600.0)
    assert rate.wait_s(3600.0) > 0


def test_without_a_rate_nothing_waits() -> None:
    rate = ReplicationRate()
    rate.spend(1 << 60, 0.0)
    assert rate.wait_s(0.0) == 0


def test_a_rate_of_zero_stops_the_copies() -> None:
    rate = ReplicationRate(0)
    assert rate.wait_s(0.0) > 0
    assert rate.wait_s(100.0) > 0


def test_a_changed_rate_takes_effect_at_once() -> None:
    rate = ReplicationRate(1)
    rate.spend(MB, 0.0)
    assert rate.wait_s(0.0) > 1000
    rate.limit(100 * MB)
    assert rate.wait_s(0.1) == 0


def test_throttled_replicas_are_named_by_partition_and_broker() -> None:
    some = ThrottledReplicas(("0:1", "3:2"))
    assert some.holds(0, 1) and some.holds(3, 2)
    assert not some.holds(0, 2) and not some.holds(1, 1)
    assert ThrottledReplicas(("*",)).holds(7, 9)
    assert not ThrottledReplicas(())
