"""The measurements of all quotas of one broker."""

from headrace.security.client_quota import (
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from headrace.security.connection_rate_quota import ConnectionRateQuota
from headrace.security.mutation_quota import MutationQuotaManager
from headrace.security.quota_manager import Monotonic, QuotaManager, Quotas
from headrace.security.quota_windows import QuotaWindows


class QuotaManagers:
    """One manager for each key of quotas."""

    __slots__ = ("connections", "fetch", "mutations", "produce", "request")

    def __init__(
        self, windows: QuotaWindows, controller_windows: QuotaWindows, monotonic: Monotonic
    ) -> None:
        self.produce = QuotaManager(PRODUCER_BYTE_RATE, windows, monotonic)
        self.fetch = QuotaManager(CONSUMER_BYTE_RATE, windows, monotonic)
        self.request = QuotaManager(
            REQUEST_PERCENTAGE,
            windows,
            monotonic,
            # As in Kafka: a client can still send heartbeats, so that it is not removed from its
            # group while it is throttled.
            max_throttle_ms=round(windows.size_s * 1000),
        )
        self.mutations = MutationQuotaManager(controller_windows, monotonic)
        self.connections = ConnectionRateQuota(windows, monotonic)

    def update(self, quotas: Quotas) -> None:
        self.produce.update(quotas)
        self.fetch.update(quotas)
        self.request.update(quotas)
        self.mutations.update(quotas)
        self.connections.update(quotas)
