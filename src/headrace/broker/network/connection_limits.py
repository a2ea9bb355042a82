"""The limits on connections and their requests, and whether one more client may connect. Pure.

Like Kafka, a broker limits its connections in all (`max.connections`) and for each address
(`max.connections.per.ip`, with overrides for some addresses).
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple


class ServerLimits(NamedTuple):
    """Limits on connections and requests."""

    max_frame_bytes: int
    max_in_flight: int
    max_in_flight_bytes: int
    max_connections: int
    max_connections_per_ip: int
    connections_per_ip_overrides: Mapping[str, int]
    max_idle_s: float


class ConnectionCounts:
    """The open connections of one broker, counted by the address of the client."""

    __slots__ = ("_all", "_by_ip")

    def __init__(self) -> None:
        self._all = 0
        self._by_ip: Counter[str] = Counter()

    def reached_limit(self, ip: str, limits: ServerLimits) -> str | None:
        """The setting that forbids one more connection from this address; None if none does."""
        if self._all >= limits.max_connections:
            return "max.connections"
        allowed = limits.connections_per_ip_overrides.get(ip, limits.max_connections_per_ip)
        return "max.connections.per.ip" if self._by_ip[ip] >= allowed else None

    def add(self, ip: str) -> None:
        self._all += 1
        self._by_ip[ip] += 1

    def remove(self, ip: str) -> None:
        self._all -= 1
        self._by_ip[ip] -= 1
        if not self._by_ip[ip]:
            del self._by_ip[ip]
