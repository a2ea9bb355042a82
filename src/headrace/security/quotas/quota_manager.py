"""Measures what clients use of their quotas and decides how long a client is throttled. Pure.

Kafka's rules: a value is recorded first. A client over its limit then waits until its rate, over
the time measured and the wait together, is the limit again:
(rate - limit) / limit x time measured.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from headrace.security.quotas.client_quota import QuotaEntity
from headrace.security.quotas.quota_limits import Limit, QuotaLimits
from headrace.security.quotas.quota_windows import QuotaWindows
from headrace.security.quotas.rate_meter import RateMeter
from headrace.security.quotas.sensor_table import MAX_SENSORS, SensorTable

Quotas = Mapping[QuotaEntity, Mapping[str, float]]
Monotonic = Callable[[], float]
"""Seconds since an arbitrary start; never decreases."""

MAX_THROTTLE_MS: Final = 2**31 - 1
"""The largest throttle time that a response can carry."""


class Metered(NamedTuple):
    """The result of a value that is recorded only within the quota."""

    throttle_ms: int
    is_recorded: bool


WITHIN_QUOTA: Final = Metered(0, is_recorded=True)


class QuotaManager:
    """The quotas of one key that limits a rate: bytes or handler time for each second."""

    def __init__(
        self,
        key: str,
        windows: QuotaWindows,
        monotonic: Monotonic,
        *,
        max_throttle_ms: int = MAX_THROTTLE_MS,
        max_sensors: int = MAX_SENSORS,
    ) -> None:
        self._key = key
        self._windows = windows
        self._monotonic = monotonic
        self._max_throttle_ms = max_throttle_ms
        self._limits = QuotaLimits({}, key)
        self._meters = SensorTable(
            lambda: RateMeter(windows.number, windows.size_s), RateMeter.is_idle, max_sensors
        )

    @property
    def is_limited(self) -> bool:
        """Whether any client has such a quota."""
        return bool(self._limits)

    def update(self, quotas: Quotas) -> None:
        """Applies changed limits; what clients have used so far still counts."""
        self._limits = QuotaLimits(quotas, self._key)

    def limits(self, user: str, client_id: str) -> bool:
        """Whether this client has such a quota."""
        return self._limits.find(user, client_id) is not None

    def record(self, user: str, client_id: str, value: float) -> int:
        """Records a value; returns how many milliseconds to throttle the client."""
        limit = self._limits.find(user, client_id)
        if limit is None:
            return 0
        now_s = self._monotonic()
        meter = self._meters.get(limit.scope, now_s)
        meter.record(value, now_s)
        return self._throttle_ms(meter, limit, now_s)

    def record_unless_over(self, user: str, client_id: str, value: float) -> Metered:
        """Records a value unless the client is over its limit with it.

        A value that is over the limit alone is recorded if nothing else counts: it could never be
        served otherwise.
        """
        limit = self._limits.find(user, client_id)
        if limit is None:
            return WITHIN_QUOTA
        now_s = self._monotonic()
        meter = self._meters.get(limit.scope, now_s)
        was_unused = meter.total(now_s) <= 0
        meter.record(value, now_s)
        throttle_ms = self._throttle_ms(meter, limit, now_s)
        if throttle_ms and not was_unused:
            meter.record(-value, now_s)
            return Metered(throttle_ms, is_recorded=False)
        return Metered(throttle_ms, is_recorded=True)

    def max_value(self, user: str, client_id: str) -> float | None:
        """The largest value that an unused quota allows at once; None without a quota."""
        limit = self._limits.find(user, client_id)
        if limit is None:
            return None
        return limit.bound * max(1, self._windows.number - 1) * self._windows.size_s

    def _throttle_ms(self, meter: RateMeter, limit: Limit, now_s: float) -> int:
        excess = meter.rate(now_s) / limit.bound - 1
        if excess <= 0:
            return 0
        return round(min(self._max_throttle_ms, excess * meter.elapsed_s(now_s) * 1000))
