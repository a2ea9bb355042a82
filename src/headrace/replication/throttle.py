"""How fast replicas that are being moved may be copied. Pure.

Kafka's settings: a topic's `leader.replication.throttled.replicas`, and the same for followers, say
which copies are held back; a broker's `leader.replication.throttled.rate`, and the same for
followers, how fast they may be, all together.
"""

from collections.abc import Sequence
from typing import Final

ALL: Final = "*"
UNLIMITED: Final = 2**63 - 1
BURST_S: Final = 1.0
"""What was not used is kept for so long: copies come in pieces of a megabyte."""


class ReplicationRate:
    """Bytes per second; it may be overdrawn by one piece, which is then waited for."""

    __slots__ = ("_available", "_rate", "_seen")

    def __init__(self, rate: int = UNLIMITED) -> None:
        self._rate = rate
        self._available = 0.0
        self._seen: float | None = None

    def limit(self, rate: int) -> None:
        self._rate = rate

    @property
    def is_limited(self) -> bool:
        return self._rate < UNLIMITED

    def wait_s(self, now: float) -> float:
        """How long nothing more may be copied; 0 if something may be now."""
        if not self.is_limited:
            return 0.0
        self._fill(now)
        if self._available > 0:
            return 0.0
        return (1 - self._available) / self._rate if self._rate else BURST_S

    def spend(self, size_bytes: int, now: float) -> None:
        if self.is_limited:
            self._fill(now)
            self._available -= size_bytes

    def _fill(self, now: float) -> None:
        burst = self._rate * BURST_S
        if self._seen is None:
            self._available = burst
        else:
            self._available = min(burst, self._available + self._rate * (now - self._seen))
        self._seen = now


class ThrottledReplicas:
    """Which copies of a topic's partitions are held back: `partition:broker`, or all."""

    __slots__ = ("_all", "_pairs")

    def __init__(self, replicas: Sequence[str]) -> None:
        self._all = ALL in replicas
        self._pairs = frozenset(replicas)

    def __bool__(self) -> bool:
        return bool(self._pairs)

    def holds(self, partition: int, broker_id: int) -> bool:
        return self._all or f"{partition}:{broker_id}" in self._pairs
