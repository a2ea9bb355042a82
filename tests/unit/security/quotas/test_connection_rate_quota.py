"""The connections of an address are limited, others are not (KIP-612)."""

from headrace.security.quotas.client_quota import CONNECTION_CREATION_RATE, IP, QuotaEntity
from headrace.security.quotas.connection_rate_quota import ConnectionRateQuota
from headrace.security.quotas.quota_windows import QuotaWindows

BUSY = QuotaEntity(((IP, "10.0.0.1"),))


class Time:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_connections_over_the_rate_wait_at_most_one_window_and_do_not_count() -> None:
    time = Time()
    quota = ConnectionRateQuota(QuotaWindows(), time)
    quota.update({BUSY: {CONNECTION_CREATION_RATE: 2.0}})
    assert [quota.throttle_s("10.0.0.1") for _ in range(20)] == [0.0] * 20
    delays = [quota.throttle_s("10.0.0.1") for _ in range(20)]
    assert all(0 < delay <= 1.0 for delay in delays)
    assert len(set(delays)) == 1
    assert quota.throttle_s("10.0.0.2") == 0.0
    time.now_s += 11
    assert quota.throttle_s("10.0.0.1") == 0.0


def test_without_quotas_nothing_is_limited() -> None:
    quota = ConnectionRateQuota(QuotaWindows(), Time())
    assert not quota.is_limited
    assert quota.throttle_s("10.0.0.1") == 0.0
