"""The measurements of all quotas of one broker."""

from typing import Final

from headrace.security.quotas.client_quota import (
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from headrace.security.quotas.connection_rate_quota import ConnectionRateQuota
from headrace.security.quotas.mutation_quota import MutationQuotaManager
from headrace.security.quotas.quota_limits import LONGEST_SCOPE_NAME
from headrace.security.quotas.quota_manager import Monotonic, QuotaManager, Quotas
from headrace.security.quotas.quota_windows import QuotaWindows

MAX_REMEMBERED_CLIENTS: Final = 10_000
"""A few megabytes. With more clients than this, requests take a few microseconds more."""


class QuotaManagers:
    """One manager for each key of quotas."""

    __slots__ = (
        "_limited",
        "connections",
        "fetch",
        "mutations",
        "produce",
        "request",
        "throttled_ms",
        "throttled_requests",
    )

    def __init__(
        self, windows: QuotaWindows, controller_windows: QuotaWindows, monotonic: Monotonic
    ) -> None:
        self.throttled_requests = 0
        """Throttled requests since the start of the broker, and the sum of their times:"""
        self.throttled_ms = 0
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
        self._limited: dict[tuple[str, str], bool] = {}

    def update(self, quotas: Quotas) -> None:
        self.produce.update(quotas)
        self.fetch.update(quotas)
        self.request.update(quotas)
        self.mutations.update(quotas)
        self.connections.update(quotas)
        self._limited.clear()

    def limit_requests_of(self, user: str, client_id: str) -> bool:
        """Whether any of this client's requests may be throttled."""
        client = (user, client_id)
        limited = self._limited.get(client)
        if limited is None:
            limited = any(
                each.limits(user, client_id) for each in (self.produce, self.fetch, self.request)
            )
            limited = limited or self.mutations.limits(user, client_id)
            if len(client_id) <= LONGEST_SCOPE_NAME:
                if len(self._limited) >= MAX_REMEMBERED_CLIENTS:
                    self._limited.clear()
                self._limited[client] = limited
        return limited
