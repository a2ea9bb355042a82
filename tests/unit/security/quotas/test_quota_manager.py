"""A client over its quota waits until its rate is the quota again."""

import pytest

from headrace.security.quotas.client_quota import CLIENT_ID, PRODUCER_BYTE_RATE, USER, QuotaEntity
from headrace.security.quotas.quota_manager import MAX_THROTTLE_MS, QuotaManager
from headrace.security.quotas.quota_windows import QuotaWindows

ALICE = QuotaEntity(((USER, "alice"),))
EVERY_CLIENT = QuotaEntity(((CLIENT_ID, None),))
WINDOWS = QuotaWindows()


class Time:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def manager(time: Time, limit: float = 100.0, **options: int) -> QuotaManager:
    quotas = QuotaManager(PRODUCER_BYTE_RATE, WINDOWS, time, **options)
    quotas.update({ALICE: {PRODUCER_BYTE_RATE: limit}})
    return quotas


def test_a_client_within_its_quota_is_not_throttled() -> None:
    quotas = manager(Time())
    assert quotas.record("alice", "app", 1000) == 0  # 10 windows of 100 bytes
    assert quotas.record("bob", "app", 1_000_000) == 0


def test_the_throttle_time_is_the_excess_for_the_time_measured() -> None:
    quotas = manager(Time())
    assert quotas.record("alice", "app", 1500) == 5000  # 150 a second over 10 s


@pytest.mark.parametrize("size", [10, 150, 900])
def test_a_client_that_waits_its_throttle_time_reaches_its_quota_and_no_more(size: int) -> None:
    time = Time()
    quotas = manager(time)
    began_s, sent = time.now_s, 0
    while time.now_s - began_s < 600:
        throttle_ms = quotas.record("alice", "app", size)
        sent += size
        time.now_s += max(throttle_ms / 1000, 0.05)
    assert 90 <= sent / (time.now_s - began_s) <= 110


def test_all_connections_and_clients_of_a_user_share_its_quota() -> None:
    quotas = manager(Time())
    assert quotas.record("alice", "one", 1000) == 0
    assert quotas.record("alice", "two", 100) == 1000


def test_a_throttle_time_is_at_most_the_given_one() -> None:
    assert manager(Time(), max_throttle_ms=1000).record("alice", "app", 10**9) == 1000
    assert manager(Time(), limit=0.001).record("alice", "app", 10**9) == MAX_THROTTLE_MS


def test_a_value_over_the_quota_is_not_recorded() -> None:
    quotas = manager(Time())
    assert quotas.record_unless_over("alice", "app", 900) == (0, True)
    assert quotas.record_unless_over("alice", "app", 300) == (2000, False)
    assert quotas.record_unless_over("alice", "app", 100) == (0, True)


def test_a_value_that_exceeds_an_unused_quota_is_recorded_once() -> None:
    """Otherwise a batch that is larger than the quota would never be delivered."""
    time = Time()
    quotas = manager(time)
    assert quotas.record_unless_over("alice", "app", 5000) == (40_000, True)
    assert quotas.record_unless_over("alice", "app", 5000) == (90_000, False)
    time.now_s += 11
    assert quotas.record_unless_over("alice", "app", 5000) == (40_000, True)


def test_the_largest_value_is_what_all_complete_windows_allow() -> None:
    quotas = manager(Time())
    assert quotas.max_value("alice", "app") == 1000
    assert quotas.max_value("bob", "app") is None


def test_a_changed_quota_applies_to_what_was_used_before() -> None:
    quotas = manager(Time())
    assert quotas.record("alice", "app", 1000) == 0
    quotas.update({ALICE: {PRODUCER_BYTE_RATE: 50.0}})
    assert quotas.record("alice", "app", 0) == 10_000
    quotas.update({})
    assert not quotas.is_limited
    assert quotas.record("alice", "app", 10**9) == 0


@pytest.mark.parametrize("clients", [1, 20_000])
def test_clients_with_new_names_do_not_grow_the_memory(clients: int) -> None:
    quotas = QuotaManager(PRODUCER_BYTE_RATE, WINDOWS, Time(), max_sensors=100)
    quotas.update({EVERY_CLIENT: {PRODUCER_BYTE_RATE: 1.0}})
    for number in range(clients):
        quotas.record("alice", f"client-{number}", 1)
    assert len(quotas._meters) == min(clients, 100)
