"""The limits on connections and their requests, and when one more client may connect. Pure.

As in Kafka, a broker at `max.connections` accepts none until one ends, except on the listener of
the brokers if it has others. It also waits while connections come faster than
`max.connection.creation.rate`. Both limits can be set for a listener, too. A connection over
`max.connections.per.ip` (with overrides for some addresses) is closed.
"""

from collections import Counter
from collections.abc import Mapping
from math import inf
from types import MappingProxyType
from typing import Final, NamedTuple

UNLIMITED: Final = 2_147_483_647


class ListenerLimits(NamedTuple):
    """The limits of one listener."""

    max_connections: int = UNLIMITED
    max_creation_rate: int = UNLIMITED


NO_LIMITS: Final = ListenerLimits()


class ServerLimits(NamedTuple):
    """Limits on connections and requests."""

    max_frame_bytes: int
    max_in_flight: int
    max_in_flight_bytes: int
    max_connections: int
    max_connections_per_ip: int
    connections_per_ip_overrides: Mapping[str, int]
    max_idle_s: float
    max_creation_rate: int = UNLIMITED
    listeners: Mapping[str, ListenerLimits] = MappingProxyType({})
    tls_receive_buffer_bytes: int = -1  # SO_RCVBUF of TLS listeners; -1 is the system's default
    slow_request_s: float = 0.0  # requests are logged as slow from this time on; 0 logs none


class _CreationRate:
    """Connections per second; as many as one second allows may come at once."""

    __slots__ = ("_allowed", "_at")

    def __init__(self) -> None:
        self._allowed = inf
        self._at = 0.0

    def delay_s(self, rate: int, now: float) -> float:
        """How long the next connection must wait."""
        if rate >= UNLIMITED:
            self._allowed = inf
            return 0.0
        if not rate:
            return inf
        self._allowed = min(float(rate), self._allowed + (now - self._at) * rate)
        self._at = now
        return 0.0 if self._allowed >= 1 else (1 - self._allowed) / rate

    def add(self) -> None:
        self._allowed -= 1


class ConnectionQuotas:
    """The open connections of one broker, counted by listener and by the address of the client."""

    __slots__ = (
        "_all",
        "_by_ip",
        "_by_listener",
        "_listener_rates",
        "_rate",
        "exempt_listener",
        "opened",
    )

    def __init__(self) -> None:
        self.exempt_listener: str | None = None
        """The listener of the brokers, if there are others: the broker's own limits, apart from
        those of an address, do not count there."""
        self.opened: Counter[str] = Counter()
        """Connections since the start of the broker, by listener."""
        self._all = 0
        self._by_ip: Counter[str] = Counter()
        self._by_listener: Counter[str] = Counter()
        self._rate = _CreationRate()
        self._listener_rates: dict[str, _CreationRate] = {}

    def limits_accepts(self, listener: str, limits: ServerLimits) -> bool:
        """Whether a listener may have to wait before it accepts."""
        own = limits.listeners.get(listener, NO_LIMITS)
        broker = ListenerLimits(limits.max_connections, limits.max_creation_rate)
        return own != NO_LIMITS or (broker != NO_LIMITS and listener != self.exempt_listener)

    def delay_s(self, listener: str, limits: ServerLimits, now: float) -> float:
        """How long a listener must wait before it accepts: `inf` means until a connection ends."""
        own = limits.listeners.get(listener, NO_LIMITS)
        is_exempt = listener == self.exempt_listener
        if self._by_listener[listener] >= own.max_connections:
            return inf
        if self._all >= limits.max_connections and not is_exempt:
            return inf
        delay_s = self._rate_of(listener).delay_s(own.max_creation_rate, now)
        if not is_exempt:
            delay_s = max(delay_s, self._rate.delay_s(limits.max_creation_rate, now))
        return delay_s

    def _rate_of(self, listener: str) -> _CreationRate:
        rate = self._listener_rates.get(listener)
        if rate is None:
            rate = self._listener_rates[listener] = _CreationRate()
        return rate

    def exceeds_ip_limit(self, ip: str, limits: ServerLimits) -> bool:
        """Whether one more connection from this address is too many."""
        allowed = limits.connections_per_ip_overrides.get(ip, limits.max_connections_per_ip)
        return self._by_ip[ip] >= allowed

    def count_accept(self, listener: str) -> None:
        """Counts a connection for the rates, also if it is closed at once."""
        if listener != self.exempt_listener:
            self._rate.add()
        self._rate_of(listener).add()

    def add(self, listener: str, ip: str) -> None:
        self._all += 1
        self._by_ip[ip] += 1
        self._by_listener[listener] += 1
        self.opened[listener] += 1

    def open_connections(self) -> dict[str, int]:
        """The open connections of each listener."""
        return dict(self._by_listener)

    def remove(self, listener: str, ip: str) -> None:
        self._all -= 1
        self._by_listener[listener] -= 1
        self._by_ip[ip] -= 1
        if not self._by_ip[ip]:
            del self._by_ip[ip]
