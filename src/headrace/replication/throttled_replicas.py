"""The throttle for replicas that are being moved. Pure.

Kafka's settings: a topic's `leader.replication.throttled.replicas`, and the same for followers,
list the throttled replicas; a broker's `leader.replication.throttled.rate`, and the same for
followers, limits their total rate.
"""

from collections.abc import Sequence
from typing import Final

ALL: Final = "*"
UNLIMITED: Final = 2**63 - 1
BURST_S: Final = 1.0
"""Unused rate is kept for this time, because replicas are copied in pieces of a megabyte."""


class ReplicationRate:
    """Bytes per second. One piece may exceed the limit; the next piece then waits longer."""

    __slots__ = ("_available", "_rate", "_refilled_at")

    def __init__(self, rate: int = UNLIMITED) -> None:
        self._rate = rate
        self._available = 0.0
        self._refilled_at: float | None = None

    def limit(self, rate: int) -> None:
        self._rate = rate

    @property
    def is_limited(self) -> bool:
        return self._rate < UNLIMITED

    def wait_s(self, now: float) -> float:
        """The time until the next piece may be copied; 0 for now."""
        if not self.is_limited:
            return 0.0
        self._refill(now)
        if self._available > 0:
            return 0.0
        return (1 - self._available) / self._rate if self._rate else BURST_S

    def spend(self, size_bytes: int, now: float) -> None:
        if self.is_limited:
            self._refill(now)
            self._available -= size_bytes

    def _refill(self, now: float) -> None:
        burst = self._rate * BURST_S
        if self._refilled_at is None:
            self._available = burst
        else:
            self._available = min(burst, self._available + self._rate * (now - self._refilled_at))
        self._refilled_at = now


class ThrottledReplicas:
    """The throttled replicas of a topic: `partition:broker`, or all."""

    __slots__ = ("_all", "_pairs")

    def __init__(self, replicas: Sequence[str]) -> None:
        self._all = ALL in replicas
        self._pairs = frozenset(replicas)

    def __bool__(self) -> bool:
        return bool(self._pairs)

    def holds(self, partition: int, broker_id: int) -> bool:
        return self._all or f"{partition}:{broker_id}" in self._pairs
