"""The quotas for creating and deleting partitions: `controller_mutation_rate` (KIP-599). Pure."""

from typing import Final

from headrace.security.quotas.client_quota import CONTROLLER_MUTATION_RATE
from headrace.security.quotas.quota_limits import QuotaLimits
from headrace.security.quotas.quota_manager import MAX_THROTTLE_MS, Monotonic, Quotas
from headrace.security.quotas.quota_windows import QuotaWindows
from headrace.security.quotas.sensor_table import MAX_SENSORS, SensorTable
from headrace.security.quotas.token_bucket import TokenBucket

_SHORTEST_REFUSAL_MS: Final = 1


class MutationQuotaManager:
    """The partitions that clients may create and delete each second, with bursts of all windows."""

    def __init__(
        self, windows: QuotaWindows, monotonic: Monotonic, *, max_sensors: int = MAX_SENSORS
    ) -> None:
        self._burst_s = windows.total_s
        self._monotonic = monotonic
        self._limits = QuotaLimits({}, CONTROLLER_MUTATION_RATE)
        self._buckets = SensorTable(
            TokenBucket,
            lambda bucket, now_s: bucket.is_full_after(self._burst_s, now_s),
            max_sensors,
        )

    @property
    def is_limited(self) -> bool:
        """Whether any client has such a quota."""
        return bool(self._limits)

    def update(self, quotas: Quotas) -> None:
        """Applies changed limits; what clients have used so far still counts."""
        self._limits = QuotaLimits(quotas, CONTROLLER_MUTATION_RATE)

    def limits(self, user: str, client_id: str) -> bool:
        """Whether this client has such a quota."""
        return self._limits.find(user, client_id) is not None

    def admit(self, user: str, client_id: str, partitions: int) -> int:
        """Strict: takes the partitions, of any number, unless the quota is used up. Then it takes
        nothing and returns the milliseconds until the quota is not used up any more."""
        limit = self._limits.find(user, client_id)
        if limit is None:
            return 0
        now_s = self._monotonic()
        bucket = self._buckets.get(limit.scope, now_s)
        rate, burst = limit.bound, limit.bound * self._burst_s
        tokens = bucket.tokens(rate, burst, now_s)
        if tokens < 0:
            return max(_SHORTEST_REFUSAL_MS, _refill_ms(tokens, rate))
        bucket.take(partitions, rate, burst, now_s)
        return 0

    def record(self, user: str, client_id: str, partitions: int) -> int:
        """Permissive: takes the partitions; returns how many milliseconds to throttle."""
        limit = self._limits.find(user, client_id)
        if limit is None:
            return 0
        now_s = self._monotonic()
        bucket = self._buckets.get(limit.scope, now_s)
        rate, burst = limit.bound, limit.bound * self._burst_s
        return _refill_ms(bucket.take(partitions, rate, burst, now_s), rate)


def _refill_ms(tokens: float, rate: float) -> int:
    return round(min(MAX_THROTTLE_MS, max(0.0, -tokens / rate * 1000)))
