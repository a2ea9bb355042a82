"""The quotas for new connections of an IP address: `connection_creation_rate` (KIP-612). Pure."""

from headrace.security.quotas.quota_limits import AddressLimits
from headrace.security.quotas.quota_manager import Monotonic, Quotas
from headrace.security.quotas.quota_windows import QuotaWindows
from headrace.security.quotas.rate_meter import RateMeter
from headrace.security.quotas.sensor_table import MAX_SENSORS, SensorTable


class ConnectionRateQuota:
    """The connections that an address may open each second."""

    def __init__(
        self, windows: QuotaWindows, monotonic: Monotonic, *, max_sensors: int = MAX_SENSORS
    ) -> None:
        self._windows = windows
        self._monotonic = monotonic
        self._limits = AddressLimits({})
        self._meters = SensorTable(
            lambda: RateMeter(windows.number, windows.size_s), RateMeter.is_idle, max_sensors
        )

    @property
    def is_limited(self) -> bool:
        """Whether any address has such a quota."""
        return bool(self._limits)

    def update(self, quotas: Quotas) -> None:
        """Applies changed limits; connections that were opened so far still count."""
        self._limits = AddressLimits(quotas)

    def throttle_s(self, address: str) -> float:
        """Counts a new connection. If the address has opened too many, the connection does not
        count, and the result is the time until it is closed: at most one window, as in Kafka."""
        bound = self._limits.find(address)
        if bound is None:
            return 0.0
        now_s = self._monotonic()
        meter = self._meters.get(address, now_s)
        meter.record(1, now_s)
        excess = meter.rate(now_s) / bound - 1
        if excess <= 0:
            return 0.0
        meter.record(-1, now_s)
        return min(self._windows.size_s, excess * meter.elapsed_s(now_s))
