"""Creating and deleting partitions: strict for new clients, permissive for old ones (KIP-599)."""

from headrace.security.quotas.client_quota import CONTROLLER_MUTATION_RATE, USER, QuotaEntity
from headrace.security.quotas.mutation_quota import MutationQuotaManager
from headrace.security.quotas.quota_windows import QuotaWindows

ALICE = QuotaEntity(((USER, "alice"),))


class Time:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def manager(time: Time, rate: float = 2.0) -> MutationQuotaManager:
    """With a rate of 2 the burst is 22."""
    mutations = MutationQuotaManager(QuotaWindows(), time)
    mutations.update({ALICE: {CONTROLLER_MUTATION_RATE: rate}})
    return mutations


def test_a_burst_is_admitted_and_the_next_change_waits_until_it_is_paid() -> None:
    time = Time()
    mutations = manager(time)
    assert mutations.admit("alice", "app", 30) == 0
    assert mutations.admit("alice", "app", 1) == 4000  # 8 partitions too many, 2 a second
    assert mutations.admit("alice", "app", 1) == 4000  # a refused change costs nothing
    time.now_s += 4
    assert mutations.admit("alice", "app", 1) == 0
    assert mutations.admit("bob", "app", 10**6) == 0


def test_a_refusal_always_has_a_time_to_wait() -> None:
    time = Time()
    mutations = manager(time, rate=1000.0)
    assert mutations.admit("alice", "app", 11_001) == 0
    time.now_s += 0.0009
    assert mutations.admit("alice", "app", 1) == 1


def test_an_old_client_is_admitted_and_throttled() -> None:
    time = Time()
    mutations = manager(time)
    assert mutations.record("alice", "app", 22) == 0
    assert mutations.record("alice", "app", 4) == 2000
    time.now_s += 3
    assert mutations.record("alice", "app", 2) == 0


def test_a_removed_quota_no_longer_applies() -> None:
    mutations = manager(Time())
    mutations.record("alice", "app", 1000)
    mutations.update({})
    assert not mutations.is_limited
    assert mutations.admit("alice", "app", 1000) == 0
